"""Kernels at their limits: repeated entries, numbers that overflow, no memory, arguments out of range."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels

from sparseklr import SKLR, SKLRCV, SparseKLR, _core, klr_path
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR, half_klr_path
from sparseklr.dual import Settings
from sparseklr.dual.problem import DualProblem
from sparseklr.dual.smo import solve_above_bound
from sparseklr.kernels import NAMED_KERNELS, Kernel
from sparseklr.refit.refit import checked_refit

pytestmark = pytest.mark.numerical

# -- CSR with repeated entries ------------------------------------------------------------------


def with_repeated_entries() -> tuple[sparse.csr_array, np.ndarray]:
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 40, 400), rng.integers(0, 6, 400)
    order = np.argsort(rows, kind="stable")
    indptr = np.searchsorted(rows[order], np.arange(41))
    X = sparse.csr_array((rng.normal(size=400), columns[order], indptr), shape=(40, 6))
    assert not X.has_canonical_format
    return X, X.toarray()


@pytest.mark.parametrize("name", NAMED_KERNELS)
def test_repeated_entries_add_up(name: str) -> None:
    X, dense = with_repeated_entries()
    before = [a.copy() for a in (X.data, X.indices, X.indptr)]
    kernel = Kernel(name, gamma=0.1, coef0=1.0, degree=2)
    expected = kernel.matrix(dense, dense)
    np.testing.assert_allclose(kernel.matrix(X, X), expected, rtol=1e-10, atol=1e-12)
    coef = np.ones((1, 40))
    np.testing.assert_allclose(kernel.sum(X, X, coef)[:, 0], expected.sum(axis=1), rtol=1e-10, atol=1e-10)
    y = dense[:, 0] > 0
    fitted = SKLR(kernel=name, gamma=0.1, coef0=1.0, degree=2, calibration=None, tol=1e-8).fit(X, y)
    reference = SKLR(kernel=name, gamma=0.1, coef0=1.0, degree=2, calibration=None, tol=1e-8)
    np.testing.assert_allclose(
        fitted.decision_function(X), reference.fit(dense, y).decision_function(dense), rtol=1e-4, atol=1e-4
    )
    for array, original in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(array, original)


# -- kernel values that are not finite ----------------------------------------------------------


def row_named(error: pytest.ExceptionInfo) -> int:
    return int(str(error.value).split(" row ")[1].split()[0])


def fits(estimator, **parameters):
    """A fit of an estimator, as a function of the data and the kernel."""
    return lambda X, y, weight, **kernel: estimator(**parameters, **kernel).fit(X, y, sample_weight=weight)


def searches(**parameters):
    """A fit of a search, as a function of the data and the kernel."""
    return lambda X, y, weight, **kernel: SKLRCV(
        [1e3], lams=[0.1], estimator=SKLR(**parameters, **kernel), scoring="accuracy"
    ).fit(X, y, sample_weight=weight)


FITS = {
    "SparseKLR": fits(SparseKLR, scale=None),
    **{f"SKLR {which}": fits(SKLR, calibration=which) for which in ("sigmoid", "link", None)},
    "SKLRCV": searches(),
    "SKLRCV by path": searches(calibration=None),
    "ThresholdedKLR": fits(ThresholdedKLR),
    "ImportVectorMachine": fits(ImportVectorMachine),
    "HalfKLR": fits(HalfKLR),
    "klr_path": lambda X, y, weight, **kernel: klr_path(
        X, y, Cs=[1e3], lams=[0.1], sample_weight=weight, **kernel
    ),
    "half_klr_path": lambda X, y, weight, **kernel: half_klr_path(X, y, [1], sample_weight=weight, **kernel),
}
KERNELS = {
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5},
    "rbf": {"kernel": "rbf", "gamma": 1.0},
    "callable": {"kernel": lambda X, Y: X @ Y.T},
}


@pytest.mark.slow
@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.filterwarnings("ignore:overflow")
def test_kernel_errors_name_the_row_of_the_user(kernel, fit) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[100:110] = X[:10]  # these are merged
    X[[20, 150, 170]] *= 1e80 if kernel["kernel"] == "poly" else 1e200  # only k(x, x) of these overflow
    weight = np.ones(200)
    weight[:30] = 0
    name = "kernel(X, Y)" if callable(kernel["kernel"]) else f"kernel={kernel['kernel']!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(name)}.* gives NaN or infinity in row") as error:
        fit(X, rng.random(200) < 0.5, weight, **kernel)
    assert row_named(error) in (150, 170)
    assert "weight 0" not in str(error.value)


@pytest.mark.parametrize("fit", [FITS["SparseKLR"], FITS["ImportVectorMachine"], FITS["HalfKLR"]])
def test_fit_raises_on_nan_kernel_values(fit) -> None:
    X = np.random.default_rng(0).uniform(0.1, 1, size=(200, 2))
    X[[150, 170]] = [[0.02, -0.001], [-0.001, 0.02]]  # their product is the only negative one
    with pytest.raises(
        ValueError, match=r"kernel='poly' with gamma=0.5, degree=2.5, coef0=0 .*whole"
    ) as error:
        fit(X, X[:, 0] > X[:, 1], None, kernel="poly", degree=2.5, gamma=0.5)
    assert row_named(error) in (150, 170)


@pytest.mark.parametrize("fit", [FITS["SparseKLR"], FITS["klr_path"], FITS["HalfKLR"]])
def test_the_row_named_is_the_one_that_is_too_large(fit) -> None:
    """The row is named although its products with all other rows overflow as well."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = X[:, 0] > 0
    X[7] *= 1e200
    with pytest.raises(ValueError, match="gives NaN or infinity in row 7 of X"):
        fit(X, y, None, kernel="poly", gamma=1.0)


def test_error_of_an_intermittent_callable_names_no_row() -> None:
    """No row is named if its values are finite when recomputed."""
    first = [np.nan]
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match="NaN or infinity; expected finite values"):
        SparseKLR(kernel=lambda X, Y: X @ Y.T + (first.pop() if first else 0.0)).fit(X, X[:, 0] > 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_the_named_row_has_non_finite_values(seed: int) -> None:
    """The row is correct even if the solver finds the value while most points are shrunk."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.1, 1, size=(2500, 2))
    y = np.where(X[:, 0] - X[:, 1] + 0.05 * rng.normal(size=2500) > 0, 1.0, -1.0)
    bad = rng.choice(2500, 2, replace=False)
    X[bad], y[bad] = [[0.02, -0.001], [-0.001, 0.02]], [1, -1]  # their product is the only negative one
    kernel = Kernel("poly", gamma=1.0, degree=2.5)
    with np.errstate(invalid="ignore"):
        assert set(np.flatnonzero(np.isnan((X @ X.T) ** 2.5).any(axis=1))) == set(bad)
    box, zero = np.full(2500, 1e3), np.zeros(2500)
    problem = DualProblem(y, box, 1e-9 * box, 100.0)
    source = kernel.row_source(X)
    for _ in range(2):  # nothing of the failure may stay in the cache of rows
        with pytest.raises(ValueError, match="not a whole number") as error:
            solve_above_bound(source, problem, Settings(tol=1e-6), above=zero, F=zero)
        assert row_named(error) in bad


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_prediction_raises_on_nan_kernel_values(make, n_jobs: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.1, 1, size=(60, 2))
    model = SparseKLR(kernel="poly", degree=2.5, scale=None, n_jobs=n_jobs)
    model.fit(make(X), X[:, 0] > X[:, 1])
    queries = rng.uniform(0.1, 1, size=(9000, 2))
    assert np.isfinite(model.predict_proba(make(queries))).all()
    queries[[8500, 8700]] *= -1
    with pytest.raises(ValueError, match="not a whole number") as error:
        model.predict_proba(make(queries))
    assert row_named(error) == 8500
    with pytest.raises(ValueError, match="not a whole number") as error:
        model.kernel_.matrix(make(queries), make(X), n_jobs=n_jobs)
    assert row_named(error) == 8500


@pytest.mark.slow
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "laplacian"])
def test_overflow_raises(name: str, make) -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    y = X[:, 0] > 0
    X[7] *= 1e200 if name != "laplacian" else 1e308
    message = r"row \d+ .*scale" if name == "poly" else "row 7 .*scale"  # its cube overflows in any row
    with pytest.raises(ValueError, match=message):
        SparseKLR(kernel=name, gamma=1.0, scale=None).fit(make(X), y)
    with pytest.raises(ValueError, match=message):
        Kernel(name).matrix(make(X), make(X))
    if name != "linear":
        with pytest.raises(ValueError, match="gamma='scale'"):
            SparseKLR(kernel=name, scale=None).fit(make(X), y)


@pytest.mark.parametrize("kernel", ["linear", "precomputed", lambda X, Y: X @ Y.T])
def test_kernels_without_gamma_do_not_compute_it(kernel) -> None:
    X = np.random.default_rng(0).normal(size=(50, 3)) * 1e200
    assert Kernel.resolve(kernel, X).gamma == 1
    if kernel == "linear":
        with pytest.raises(ValueError, match=r"kernel='linear' gives NaN or infinity in row \d+"):
            SparseKLR(kernel=kernel, scale=None).fit(X, X[:, 0] > 0)


def test_fitted_attributes_are_finite(monkeypatch) -> None:
    def overflowing(*args, **options):
        model, losses = checked_refit(*args, **options)
        return replace(model, intercept=np.array([np.inf])), losses

    monkeypatch.setattr("sparseklr.sparse_klr.checked_refit", overflowing)
    model = SparseKLR(kernel="rbf")
    with pytest.raises(ValueError, match="the coefficients overflow: values of kernel='rbf' or C"):
        model.fit(np.arange(8.0)[:, None], [0] * 4 + [1] * 4)
    assert not hasattr(model, "dual_coef_")


def test_overflowing_coefficients_raise() -> None:
    X = np.full((3, 1), 1e150)
    with pytest.raises(ValueError, match="row 0 overflows"):
        Kernel("linear").sum(X, X, np.full((1, 3), 1e20))
    with pytest.raises(ValueError, match="coef0 must be a finite number"):
        Kernel("poly", coef0=np.nan)


# -- float32 where it suffices ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-25, 1e20])
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_scale_of_the_features_does_not_matter(name: str, make, scale: float) -> None:
    """More than 2000 rows are kept in float32, unless it overflows."""
    X = np.random.default_rng(0).normal(size=(2100, 4))
    expected = pairwise_kernels(X, metric=name, gamma=0.2)
    gamma = 0.2 / scale ** (2 if name == "rbf" else 1)
    np.testing.assert_allclose(Kernel(name, gamma).gram(make(scale * X)), expected, atol=1e-5)
    y = X[:, 0] + X[:, 1] ** 2 > 0.5
    model = SKLR(kernel=name, gamma=gamma, calibration=None).fit(make(scale * X), y)
    assert model.converged_
    assert model.score(make(scale * X), y) > 0.98


def test_float32_input_near_the_limits_of_float32() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    large, few = X * np.float32(1e20), X[:5]
    for A, B in ((large, large), (large, few), (few, large)):
        expected = A.astype(float) @ B.astype(float).T
        np.testing.assert_allclose(Kernel("linear").matrix(A, B), expected, rtol=1e-5, atol=1e-5 * 1e20)
        coef = np.ones((1, len(B)))
        sums = Kernel("linear").sum(A, B, coef)[:, 0]
        np.testing.assert_allclose(sums, expected.sum(axis=1), rtol=1e-4, atol=1e-4 * 1e20)
    assert Kernel("linear").matrix(X, X).dtype == np.float32
    assert Kernel("poly", degree=30, gamma=10).matrix(X, X).dtype == np.float64


# -- no memory ----------------------------------------------------------------------------------

LIMITED = """
import resource, numpy as np
from scipy import sparse
from sparseklr.kernels import Kernel
n_features = 5_000_000  # the core spreads CSR queries over 64 bytes per feature
X = sparse.csr_array((np.ones(300), np.arange(300), np.arange(301)), shape=(300, n_features))
kernel = Kernel("linear")
kernel.sum(X[:, :9], X[:, :9], np.ones((1, 300)), n_jobs=N_JOBS)  # the threads are there
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), hard))
for attempt in (lambda: kernel.sum(X, X, np.ones((1, 300)), n_jobs=N_JOBS),
                lambda: kernel.matrix(X, X, n_jobs=N_JOBS)):
    try:
        attempt()
    except MemoryError:
        print("MemoryError")
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
"""


def run_python(script: str) -> str:
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


needs_linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc of Linux")


@pytest.mark.slow
@needs_linux
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_no_memory_is_a_memory_error(n_jobs: int) -> None:
    """MemoryError is raised even if the allocation fails within a parallel loop."""
    assert run_python(LIMITED.replace("N_JOBS", str(n_jobs))).split() == ["MemoryError"] * 2


@pytest.mark.slow
@needs_linux
def test_memory_is_released() -> None:
    script = """
import resource, numpy as np
from scipy import sparse
from sparseklr.kernels import Kernel
def used():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20
X = sparse.csr_array((np.ones(300), np.arange(300), np.arange(301)), shape=(300, 5_000_000))
before = used()
Kernel("linear").sum(X, X, np.ones((1, 300)), n_jobs=2)
Kernel("linear").matrix(X, X)
print(used() - before)
"""
    assert int(run_python(script)) < 100  # MB; 320 per thread were in use


# -- arguments out of range ---------------------------------------------------------------------

LINEAR = _core.Kernel(_core.KernelKind.linear, 1.0, 0.0, 3.0)
RBF = _core.Kernel(_core.KernelKind.rbf, 1.0, 0.0, 3.0)


def csr(values=(1.0, 2.0), columns=(0, 1), indptr=(0, 1, 2), n_features: int = 2) -> _core.PointSet:
    columns, indptr = np.array(columns, dtype=np.int64), np.array(indptr, dtype=np.int64)
    return _core.csr_points(np.array(values), columns, indptr, n_features, LINEAR, False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": (0, 2)}, "column indices"),
        ({"columns": (0, -1)}, "column indices"),
        ({"columns": (0, 2**32)}, "column indices"),
        ({"columns": (0,)}, "the same length"),
        ({"indptr": ()}, "empty"),
        ({"indptr": (1, 2)}, "begin with 0"),
        ({"indptr": (0, 2, 1)}, "decrease"),
        ({"indptr": (0, 1, 3)}, "exceed"),
        ({"n_features": 2**31}, "below 2\\*\\*31"),
    ],
)
def test_invalid_csr_raises(change: dict, message: str) -> None:
    assert len(csr()) == 2
    with pytest.raises(ValueError, match=message):
        csr(**change)


def test_incompatible_points_raise() -> None:
    def dense(n_features: int, kernel: _core.Kernel = LINEAR, single: bool = False) -> _core.PointSet:
        return _core.dense_points(np.ones((3, n_features)), kernel, None, single)

    for other, message in [
        (dense(3), "features"),
        (csr(), "both be dense or both be CSR"),
        (dense(2, single=True), "precision"),
        (dense(2, RBF), "kernel"),
    ]:
        with pytest.raises(ValueError, match=message):
            _core.kernel_matrix(dense(2), other, 1)
        with pytest.raises(ValueError, match=message):
            _core.kernel_sum(dense(2), other, np.ones((1, 3)), 1, 0)
    with pytest.raises(ValueError, match="one column per point"):
        _core.kernel_sum(dense(2), dense(2), np.ones((1, 4)), 1, 0)
    with pytest.raises(ValueError, match="center"):
        _core.dense_points(np.ones((3, 2)), RBF, np.ones(3), False)
    with pytest.raises(ValueError, match="threads"):
        _core.kernel_matrix(dense(2), dense(2), 0)


# -- the instruction set ------------------------------------------------------------------------


@pytest.mark.skipif(platform.machine() != "x86_64" or not Path("/proc/cpuinfo").exists(), reason="x86 Linux")
def test_wide_loops_need_all_processor_features() -> None:
    """The features are those of x86-64-v3 and v4 in the System V ABI, under their names in Linux."""
    flags = set(Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split())
    has_v3 = {"avx2", "fma", "bmi1", "bmi2", "abm", "movbe", "f16c"} <= flags
    has_v4 = has_v3 and {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags
    names = ["baseline", *["x86-64-v3"] * has_v3, *["x86-64-v4"] * has_v4]
    requested = os.environ.get("SPARSEKLR_SIMD")
    assert _core.instruction_set == (requested if requested in names else names[-1])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_compact_points_and_widths_must_be_finite(value) -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    rows = _core.compact_rows(X, (X[:, 0] > 0).astype(np.int32), np.ones(50), 2, False)
    inner = _core.CompactInner(rows, 1)
    points, gamma = X[:4].copy(), np.ones(3)
    points[1, 2] = gamma[0] = value
    for arguments in ((points, np.ones(3)), (X[:4], gamma)):
        with pytest.raises(ValueError, match="points and gamma must be finite"):
            inner.move(*arguments)
    inner.move(X[:4], np.ones(3))  # still usable
    assert inner.solve(np.zeros((1, 5)), 1.0, 1e-7, 100).converged
