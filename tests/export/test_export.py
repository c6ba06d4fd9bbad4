"""Exported models agree with the estimators."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_wine, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from support.exported import CASES, fitted, run_c, run_json, run_onnx, three_classes, two_classes

from paper.datasets import BENCHMARKS
from sparseklr import SKLR, CompactKLR, SparseKLR
from sparseklr.baselines import HalfKLR, ImportVectorMachine
from sparseklr.export import register_converters, to_c, to_json, to_onnx
from sparseklr.export.portable import FeatureScaling, PortableModel

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

EXACT, SINGLE = 1e-6, 1e-4  # largest change of a probability in float64 and float32


def same(found: tuple[Any, np.ndarray], model: Any, X: np.ndarray, tolerance: float) -> bool:
    """Return whether probabilities agree, and labels too unless the two largest are too close."""
    expected = model.predict_proba(X)
    first, second = np.sort(expected, axis=1)[:, :-3:-1].T
    sure = first - second > 2 * tolerance
    labels = model.predict(X)
    labels_agree = np.asarray(found[0])[sure].astype(labels.dtype) == labels[sure]
    return bool(labels_agree.all() and np.abs(found[1] - expected).max() < tolerance)


# -- every kernel, calibration and estimator --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "several"), CASES)
def test_formats_agree_with_the_estimator(estimator: Any, several: bool, tmp_path: Path) -> None:
    model, X = fitted(estimator, several)
    assert same(run_onnx(to_onnx(model), X), model, X, EXACT)
    assert same(run_c(to_c(model), X, tmp_path), model, X, EXACT)
    assert np.abs(run_json(to_json(model), X) - model.predict_proba(X)).max() < EXACT
    assert np.abs(PortableModel.of(model).predict_proba(X) - model.predict_proba(X)).max() < EXACT

    single = X.astype(np.float32)
    label, probabilities = run_onnx(to_onnx(model, dtype="float32"), single)
    assert probabilities.dtype == np.float32
    assert same((label, probabilities), model, single, SINGLE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scaler",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        MinMaxScaler((-1, 3)),
        MaxAbsScaler(),
        RobustScaler(),
    ],
    ids=repr,
)
def test_scalers_become_part_of_the_export(scaler: Any, tmp_path: Path) -> None:
    X, y = two_classes()
    model = make_pipeline(MinMaxScaler(), "passthrough", scaler, SparseKLR()).fit(X, y)
    assert same(run_onnx(to_onnx(model), X), model, X, EXACT)
    assert same(run_c(to_c(model), X, tmp_path), model, X, EXACT)
    assert np.abs(run_json(to_json(model), X) - model.predict_proba(X)).max() < EXACT


@pytest.mark.slow
def test_models_of_special_shape(tmp_path: Path) -> None:
    """No points, one feature, sparse rows, boolean labels, a search over a pipeline."""
    X, y = two_classes()
    scaled = StandardScaler().fit_transform(X)
    search = GridSearchCV(make_pipeline(StandardScaler(), SparseKLR()), {"sparseklr__C": [10, 100]}, cv=2)
    models = [
        (HalfKLR(C=1e-6).fit(X, y), X),
        (SparseKLR().fit(scaled[:, :1], y), scaled[:, :1]),
        (SparseKLR().fit(sparse.csr_array(scaled), y), scaled),
        (SparseKLR().fit(scaled, y == 1), scaled),
        (search.fit(X, y), X),
    ]
    for model, rows in models:
        expected = model.predict_proba(rows)
        for _, probabilities in (run_onnx(to_onnx(model), rows), run_c(to_c(model), rows, tmp_path)):
            assert np.abs(probabilities - expected).max() < 1e-10
        assert np.abs(run_json(to_json(model), rows) - expected).max() < 1e-10


@pytest.mark.slow
def test_selected_clipped_and_rank_mapped_features(tmp_path: Path) -> None:
    """Selected, clipped and piecewise linear features, with one width each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    y = np.where(X[:, 0] > 0, "a", "b")
    knots = np.sort(rng.normal(size=6))
    bent = (knots, np.array([-2.0, -2.0, -1.0, 0.5, 0.7, 3.0]))
    scaling = FeatureScaling(
        5,
        np.array([3, 0, 4]),
        rng.normal(size=3),
        rng.uniform(0.5, 2, 3),
        1.5,
        {1: bent, 2: (knots[:2], bent[1][2:4])},
    )
    plain = PortableModel.of(SparseKLR(C=10).fit(X[:, :3], y))
    for gamma in (np.array([0.1, 0.7, 0.3]), np.full(3, 0.4)):
        model = replace(plain, gamma=gamma, scaling=scaling.after(rng.normal(size=5), rng.uniform(0.5, 2, 5)))
        rows = np.vstack([X, 3 * X, model.scaling.undo(model.points)])
        expected = model.predict_proba(rows)
        assert np.ptp(expected) > 0.1
        assert np.abs(run_c(to_c(model), rows, tmp_path)[1] - expected).max() < 1e-12
        assert np.abs(run_c(to_c(model, dtype="float"), rows, tmp_path, "float")[1] - expected).max() < SINGLE
        assert np.abs(run_json(to_json(model), rows) - expected).max() < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_compact_models_with_their_own_scale(n_classes: int, tmp_path: Path) -> None:
    """Features that are mapped by rank or to ramps, constant, or dropped; rows far away."""
    rng = np.random.default_rng(0)
    few = rng.integers(4, size=150)
    X = np.column_stack([np.exp(2 * rng.normal(size=150)), np.ones(150), rng.normal(size=(150, 2)), few])
    y = np.searchsorted([-0.5, 0.5][: n_classes - 1], np.log(X[:, 0]) / 2)
    model = CompactKLR(n_points=5, C=10.0, relevance="sparse").fit(X, y)
    assert model.scaling_.knots
    assert not model.get_support().all()
    rows = np.vstack([X, 3 * X, -X])
    assert same(run_onnx(to_onnx(model), rows), model, rows, EXACT)
    assert same(run_c(to_c(model), rows, tmp_path), model, rows, EXACT)
    assert np.abs(run_json(to_json(model), rows) - model.predict_proba(rows)).max() < EXACT


# -- precision and size -----------------------------------------------------------------------


def check_onnx(model: Any, X: np.ndarray) -> None:
    """Check the agreement in both precisions, and that the file is hardly larger than its numbers."""
    for dtype, tolerance in (("float64", EXACT), ("float32", SINGLE)):
        graph = to_onnx(model, dtype=dtype)
        assert same(run_onnx(graph, X.astype(dtype)), model, X.astype(dtype), tolerance)
        portable = PortableModel.of(model)
        scaling = portable.scaling
        of_features = portable.gamma.nbytes + scaling.shift.nbytes + scaling.scale.nbytes
        # three numbers per knot, and as many knots for each ranked feature as the longest table has
        longest = max((x.nbytes for x, _ in scaling.knots.values()), default=0)
        knots = 3 * len(scaling.knots) * longest
        numbers = 1.2 * portable.points.nbytes + portable.coef.nbytes + knots + of_features
        assert graph.ByteSize() < numbers + 3000 + 100 * len(scaling.knots)  # the graph itself


@pytest.mark.slow
@pytest.mark.parametrize("load", [load_wine, load_digits], ids=["wine", "digits"])
def test_onnx_on_sets_of_several_classes(load: Any) -> None:
    X, y = load(return_X_y=True)
    model = make_pipeline(MinMaxScaler(), SparseKLR()).fit(X[:300], y[:300])
    check_onnx(model, X[-300:])


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_onnx_on_the_benchmark_sets(name: str, benchmark: Any) -> None:
    X, y = benchmark(name)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(y))[:400]
    check_onnx(SparseKLR().fit(X[rows[:200]], y[rows[:200]]), X[rows])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_offset_of_the_data_does_not_cost_precision(kernel: str, tmp_path: Path) -> None:
    """Distances between points far from the origin, with features representable in float32."""
    X, y = make_blobs(120, 5, centers=3, random_state=0)
    X = np.round(X * 64) / 64 + 4096
    model = SparseKLR(kernel=kernel).fit(X, y)
    assert same(run_onnx(to_onnx(model), X), model, X, 1e-9)
    assert same(run_onnx(to_onnx(model, dtype="float32"), X.astype(np.float32)), model, X, 1e-6)
    assert same(run_c(to_c(model, dtype="float"), X, tmp_path, "float"), model, X, SINGLE)


def ill_conditioned() -> tuple[SparseKLR, np.ndarray]:
    """Return a model with a smooth kernel on close points, whose coefficients exceed a million and cancel."""
    X, y = two_classes()
    X = StandardScaler().fit_transform(X)
    same = {"kernel": "rbf", "scale": None, "relevance": "shared"}
    model = SparseKLR(gamma=1e-4, C=1e8, prune=0, **same).fit(X, y)
    assert np.abs(model.dual_coef_).sum() > 1e6
    return model, X


def test_large_coefficients_in_float32_onnx() -> None:
    model, X = ill_conditioned()
    single = X.astype(np.float32)
    assert same(run_onnx(to_onnx(model, dtype="float32"), single), model, single, SINGLE)


def test_float_c_warns_if_float_is_too_imprecise(recwarn: pytest.WarningsRecorder) -> None:
    X, y = two_classes()
    to_c(make_pipeline(StandardScaler(), SparseKLR()).fit(X, y), dtype="float")
    assert len(recwarn) == 0
    with pytest.warns(UserWarning, match="single precision changes a predicted probability"):
        to_c(ill_conditioned()[0], dtype="float")


# -- the formats' own promises ----------------------------------------------------------------


def test_onnx_uses_core_operators_only() -> None:
    X, y = three_classes()
    for kernel in ("rbf", "linear", "poly", "laplacian", "sigmoid"):
        graph = to_onnx(SKLR(C=10, kernel=kernel, calibration="link", gamma=0.01).fit(X, y))
        assert {opset.domain for opset in graph.opset_import} <= {"", "ai.onnx.ml"}
        assert {node.domain for node in graph.graph.node} <= {""}


@pytest.mark.slow
def test_skl2onnx_converts_our_estimators() -> None:
    import skl2onnx

    X, y = three_classes()
    model = make_pipeline(StandardScaler(), ImportVectorMachine()).fit(X, y)
    register_converters()
    _, by_class = run_onnx(skl2onnx.to_onnx(model, X[:1].astype(np.float32)), X.astype(np.float32))
    assert list(by_class[0]) == list(model.classes_)
    plain = skl2onnx.to_onnx(model, X[:1], options={"nocl": True, "zipmap": False})
    label, probabilities = run_onnx(plain, X)
    assert np.abs(probabilities - model.predict_proba(X)).max() < EXACT
    assert label.dtype == np.int64
    with pytest.raises(RuntimeError, match="target_opset must be at least 15"):
        skl2onnx.to_onnx(model, X[:1], target_opset=12)


@pytest.mark.slow
def test_c_header_needs_no_heap_and_serves_cpp(tmp_path: Path) -> None:
    X, y = three_classes()
    for dtype in ("double", "float"):
        (tmp_path / f"{dtype}.h").write_text(to_c(SparseKLR().fit(X, y), name=f"iris_{dtype}", dtype=dtype))
    source = (
        '#include "double.h"\n#include "float.h"\nint f(const double *x) { return iris_double_predict(x); }\n'
    )
    for suffix, compiler in (("c", "cc"), ("cpp", "c++")):
        if shutil.which(compiler) is None:
            pytest.skip(f"no {compiler}")
        (tmp_path / f"unit.{suffix}").write_text(source)
        flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-c", f"unit.{suffix}", "-o", "unit.o"]
        subprocess.run([compiler, *flags], cwd=tmp_path, check=True)
        symbols = subprocess.run(
            ["nm", "-u", "unit.o"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert set(re.findall(r"U (\w+)", symbols.stdout)) <= {"exp", "log1p", "__stack_chk_fail"}


def test_reader_in_the_documentation_is_short() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    reader = re.search(r"```javascript\n(.*?)```", page, re.S)
    assert reader
    assert len(reader[1].splitlines()) <= 26


def test_examples_of_the_documentation_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.S)), {})
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    program = re.search(r"```c\n(.*?)```", page, re.S)
    assert program
    Path("main.c").write_text(program[1])
    subprocess.run(["cc", "-std=c99", "-Wall", "-Werror", "main.c", "-o", "main", "-lm"], check=True)
    output = subprocess.run(["./main"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"class [01] with probability 0\.\d+\n", output)


# -- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("export", [to_onnx, to_c, to_json])
def test_errors_name_models_that_cannot_be_exported(export: Any) -> None:
    X, y = two_classes()
    X, y = StandardScaler().fit_transform(X)[:40], y[:40]
    with pytest.raises(NotFittedError):
        export(SparseKLR())
    with pytest.raises(ValueError, match=r"kernel='precomputed' .*cannot be exported.*expected one of .*rbf"):
        export(SparseKLR(kernel="precomputed").fit(linear_kernel(X), y))
    with pytest.raises(ValueError, match=r"kernel=<function rbf_kernel.*cannot be exported"):
        export(SparseKLR(kernel=rbf_kernel).fit(X, y))


@pytest.mark.parametrize("export", [to_c, to_json])
def test_errors_of_c_and_json(export: Any) -> None:
    X, y = two_classes()
    with pytest.raises(TypeError, match=r"classifier of sparseklr.*got GaussianNB"):
        export(GaussianNB().fit(X, y))
    with pytest.raises(ValueError, match=r"step PolynomialFeatures\(\).*to_onnx"):
        export(make_pipeline(PolynomialFeatures(), SparseKLR()).fit(X, y))
    with pytest.raises(ValueError, match=r"step MinMaxScaler\(clip=True\)"):
        export(make_pipeline(MinMaxScaler(clip=True), SparseKLR()).fit(X, y))


def test_errors_of_arguments() -> None:
    model = SparseKLR().fit(*two_classes())
    with pytest.raises(ValueError, match=r"name must be a C identifier.*'9lives'"):
        to_c(model, name="9lives")
    with pytest.raises(ValueError, match="dtype must be 'double' or 'float'; got 'half'"):
        to_c(model, dtype="half")
    with pytest.raises(ValueError, match="dtype must be 'float64' or 'float32'; got 'half'"):
        to_onnx(model, dtype="half")
