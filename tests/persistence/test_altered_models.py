"""A model file with altered arrays is rejected or predicts: it never crashes the process."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC
from support import altered
from support.altered import DENSE, MODELS, SPARSE, TABLES, TWO

from sparseklr import CompactKLR, SparseKLR, load, save
from sparseklr._stored_types import NAMES, stored_type
from sparseklr.persistence import ModelFileError, decode, encode, pack

pytestmark = pytest.mark.slow

ALTERED = Path(altered.__file__)
EARLIER = Path(__file__).with_name("format_2.sklr")
EARLIER_ROWS = np.array([[0.0, 0.0], [1.0, 1.0], [-2.0, 0.5]])
EARLIER_PROBABILITIES = [0.07729995277788736, 0.999999992774508, 0.09137236306331448]


@pytest.mark.parametrize(("names", "step"), [([*MODELS], 3), ([*TABLES], 37)], ids=["arrays", "tables"])
def test_altered_models_do_not_crash_the_process(names, step):
    command = [sys.executable, ALTERED, str(step), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (done.returncode, lines[-1:], done.stderr[-2000:])
    intact = [line for line in lines if ".intact " in line]
    assert len(intact) == len(names)
    assert all("accepted" in line for line in intact)
    if step == 3:
        coefficients = [line.endswith("refused") for line in lines if "dual_coef_" in line]
        assert sum(coefficients) >= 0.8 * len(coefficients) > 0


def test_message_names_the_altered_part(tmp_path):
    model = SparseKLR().fit(SPARSE, SPARSE[:, [0]].toarray().ravel() > 0.3)
    save(model, tmp_path / "m.sklr")
    model = load(tmp_path / "m.sklr")  # nothing is left to compute from its points
    model.support_vectors_.indices[5] = 2**30
    (tmp_path / "m.sklr").write_bytes(pack(encode(model, {})))
    with pytest.raises(
        ModelFileError, match=r"m\.sklr: the file was not loaded, .* altered: .* column index 1073741824"
    ):
        load(tmp_path / "m.sklr")
    with pytest.raises(ValueError, match="column index 1073741824"):  # save writes nothing that load refuses
        save(model, tmp_path / "n.sklr")
    fresh = SparseKLR().fit(SPARSE, SPARSE[:, [0]].toarray().ravel() > 0.3)  # nothing was computed later
    fresh.support_vectors_.indices[5] = 2**30
    with pytest.raises(ValueError, match="column index 1073741824"):
        save(fresh, tmp_path / "n.sklr")
    assert not (tmp_path / "n.sklr").exists()
    for n_jobs in (0, 100_000, -100_000, "all"):
        other = CompactKLR(max_points=1).fit(DENSE, TWO).set_params(n_jobs=n_jobs)
        (tmp_path / "m.sklr").write_bytes(pack(encode(other, {})))
        with pytest.raises(ModelFileError, match="n_jobs"):
            load(tmp_path / "m.sklr")


def tree_of(model: Any) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The members of a model file, and its JSON tree, to be altered."""
    members = encode(model, {})
    return members, json.loads(members["model.json"])


def test_loading_computes_nothing_from_the_content():
    for model in (SparseKLR().fit(DENSE, TWO), CompactKLR(max_points=1).fit(DENSE, TWO)):
        members, tree = tree_of(model)
        assert "_reference_" in tree["objects"][-1]["attributes"]
        tree["objects"][-1]["attributes"]["_training_rows_"] = {"tuple": [1, 2, 3]}
        with pytest.raises(ValueError, match="unknown attribute '_training_rows_'"):
            decode({**members, "model.json": json.dumps(tree).encode()})


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda one: one.update(type="subprocess.Popen"), "untrusted types: subprocess.Popen"),
        (lambda one: one.update(type="sklearn.svm.SVC"), "untrusted types"),
        (lambda one: one["parameters"].update(__class__=1), "unknown attribute '__class__'"),
        (lambda one: one["attributes"].update(predict_proba=1), "unknown attribute 'predict_proba'"),
        (lambda one: one["attributes"].update(classes_={"object": 99}), "damaged"),
        (lambda one: one["attributes"].update(classes_={"object": -1}), "an unknown value"),
        (lambda one: one["attributes"].update(classes_={"pickle": "x"}), "an unknown value"),
        (lambda one: one["attributes"].update(classes_={"array": "../0.npy"}), "damaged"),
        (lambda one: one["attributes"].update(classes_={"ufunc": "load"}), "an unknown value"),
        (lambda one: one["attributes"].update(classes_={"scalar_type": "load"}), "an unknown value"),
        (lambda one: one["attributes"].pop("classes_"), "altered: SparseKLR"),
        (lambda one: one.pop("type"), "damaged"),
    ],
)
def test_altered_model_json(tmp_path, alter, message):
    members, tree = tree_of(SparseKLR().fit(DENSE, TWO))
    alter(tree["objects"][-1])
    (tmp_path / "m.sklr").write_bytes(pack({**members, "model.json": json.dumps(tree).encode()}))
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "m.sklr")


def npy(header: str, content: bytes = b"") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


@pytest.mark.parametrize(
    "content",
    [
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }", bytes(8)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", bytes(8)),
        npy("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }"),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy("__import__('os').getcwd()"),
        npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", b"\x01\x00\x02"),
        b"",
        b"\x80\x04K\x01.",  # a pickle
    ],
)
def test_arrays_with_wrong_headers(tmp_path, content):
    members = encode(SparseKLR().fit(DENSE, TWO), {})
    (tmp_path / "m.sklr").write_bytes(pack({**members, "0.npy": content}))
    with pytest.raises(ModelFileError, match="damaged"):
        load(tmp_path / "m.sklr")


def test_names_of_members(tmp_path):
    whole = pack(members := encode(SparseKLR().fit(DENSE, TWO), {}))
    for name in ("../evil.npy", "/etc/evil.npy", "a/0.npy", "evil.py", "model.json/", "0.npy\\x"):
        (tmp_path / "m.sklr").write_bytes(pack({**members, name: b""}))
        with pytest.raises(ModelFileError, match="damaged"):
            load(tmp_path / "m.sklr")
    for name in ("sparseklr.json", "model.json", "0.npy"):  # twice
        (tmp_path / "m.sklr").write_bytes(whole)
        with (
            pytest.warns(UserWarning, match="Duplicate name"),
            zipfile.ZipFile(tmp_path / "m.sklr", "a") as archive,
        ):
            archive.writestr(name, archive.read(name))
        with pytest.raises(ModelFileError, match="damaged"):
            load(tmp_path / "m.sklr")
    twice = members["model.json"].replace(b'"objects":', b'"objects": [], "objects":', 1)
    (tmp_path / "m.sklr").write_bytes(pack({**members, "model.json": twice}))
    with pytest.raises(ModelFileError, match="a key occurs twice"):
        load(tmp_path / "m.sklr")
    deep = members["model.json"].replace(
        b'"metadata": {', b'"more": ' + b"[" * 10**5 + b"]" * 10**5 + b', "metadata": {'
    )
    (tmp_path / "m.sklr").write_bytes(pack({**members, "model.json": deep}))
    with pytest.raises(ModelFileError, match="damaged"):
        load(tmp_path / "m.sklr")


def refused(part: Any, tmp_path: Path) -> None:
    (tmp_path / "m.sklr").write_bytes(pack(encode(part, {})))
    with pytest.raises(ModelFileError, match="altered"):
        load(tmp_path / "m.sklr")


def test_parts_of_scikit_learn_that_index_without_checks(tmp_path):
    def encoder() -> OneHotEncoder:
        cells = np.array([["a", "x"], ["b", "y"], ["b", "y"], ["c", "y"], ["d", "y"]])
        return OneHotEncoder(min_frequency=2, drop="if_binary", handle_unknown="infrequent_if_exist").fit(
            cells
        )

    save(encoder(), tmp_path / "whole.sklr")
    for name, value in {
        "_n_features_outs": [1, 0],
        "_default_to_infrequent_mappings": [np.array([0, 9, 0, 0]), None],
        "_infrequent_enabled": False,
        "_infrequent_indices": [np.array([0]), None],
        "_drop_idx_after_grouping": np.array([None, 7], dtype=object),
    }.items():
        altered = encoder()
        setattr(altered, name, value)
        refused(altered, tmp_path)
    words = TfidfVectorizer().fit(["one two", "two three"])
    save(words, tmp_path / "whole.sklr")
    words.vocabulary_["one"] = 2**30
    refused(words, tmp_path)
    with pytest.raises(
        ValueError, match="a model file cannot contain sklearn"
    ):  # its arrays are read without checks
        save(SVC().fit(DENSE, TWO), tmp_path / "svc.sklr")


def test_every_class_of_this_package_has_a_check():
    for name in NAMES:
        one = stored_type(name)
        assert one.check is not None or not one.cls.__module__.startswith("sparseklr.")


def test_loading_runs_no_code_of_the_file():
    """Every type is a data class; creating an object only assigns its arguments."""
    for name in NAMES:
        cls = stored_type(name).cls
        assert isinstance(cls, type)
        methods = {"fit", "transform", "predict", "predict_proba", "__init__", "__class__"}
        assert not stored_type(name).attributes & methods
        if hasattr(cls, "_get_param_names"):
            assert stored_type(name).parameters == {*cls._get_param_names()}


def test_transformers_of_scikit_learn(tmp_path):
    X = DENSE - DENSE.min(axis=0)
    steps = [
        StandardScaler(),
        MinMaxScaler(),
        RobustScaler(),
        PowerTransformer(),
        PolynomialFeatures(),
        KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"),
        FunctionTransformer(np.log1p),
        PCA(2),
        TruncatedSVD(2),
        VarianceThreshold(),
        Normalizer(),
        SimpleImputer(add_indicator=True),
        make_union(StandardScaler(), MaxAbsScaler()),
        ColumnTransformer([("a", OrdinalEncoder(), [0, 1]), ("b", "drop", [2])], remainder="passthrough"),
    ]
    for step in steps:
        model = make_pipeline(step, SparseKLR()).fit(X, TWO)
        save(model, tmp_path / "m.sklr")
        np.testing.assert_array_equal(load(tmp_path / "m.sklr").predict_proba(X), model.predict_proba(X))


# -- a file of an earlier release --------------------------------------------------------------------


def test_a_file_of_format_2():
    """Every release reads the files of the releases before it that have its format.

    ``PYTHONPATH=tests python tests/persistence/test_altered_models.py`` has written the file, and printed
    the probabilities.
    """
    model = load(EARLIER)
    assert [*model["model"].classes_] == ["no", "yes"]
    found = model.predict_proba(EARLIER_ROWS)[:, 1]
    np.testing.assert_allclose(found, EARLIER_PROBABILITIES, rtol=1e-6)


# -- size ------------------------------------------------------------------------------------------


def bomb(path: Path, megabytes: int, announced: int | None = None) -> None:
    """Zeros and a header; ``announced`` replaces the size in the directory of the archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("0.npy", "w", force_zip64=True) as file:
            for _ in range(megabytes):
                file.write(bytes(1 << 20))
        archive.writestr("model.json", "{}")
        header = {"format": 2, "versions": {}, "created": "", "sha256": "0"}
        archive.writestr("sparseklr.json", json.dumps(header))
    if announced is not None:
        size = (megabytes << 20).to_bytes(4, "little")
        path.write_bytes(path.read_bytes().replace(size, announced.to_bytes(4, "little")))


PEAK = """
import resource, sys
from sparseklr import load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load(sys.argv[1])
except ValueError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="units of the memory in use")
@pytest.mark.parametrize("announced", [None, 1000])
def test_decompression_bomb_is_rejected_with_little_memory(tmp_path, announced):
    bomb(tmp_path / "m.sklr", 600, announced)
    command = [sys.executable, "-c", PEAK, tmp_path / "m.sklr"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    message, kilobytes = done.stdout.splitlines()
    expected = "damaged" if announced == 1000 else "MB; the limit is 256 MB"
    assert expected in message
    assert int(kilobytes) < 50_000


def test_millions_of_small_values_are_rejected(tmp_path):
    members = encode(SparseKLR().fit(DENSE, TWO), {})
    many = members["model.json"].replace(
        b'"metadata": {', b'"more": [' + b"[]," * 12_000_000 + b'[]], "metadata": {'
    )
    (tmp_path / "m.sklr").write_bytes(pack({**members, "model.json": many}))
    with pytest.raises(ModelFileError, match="the limit is 256 MB"):
        load(tmp_path / "m.sklr")


def test_a_limit_can_be_raised(tmp_path):
    model = SparseKLR().fit(DENSE, TWO)
    save(model, tmp_path / "m.sklr")
    with pytest.raises(ModelFileError, match=r"raise the limit: .*max_bytes="):
        load(tmp_path / "m.sklr", max_bytes=1000)
    np.testing.assert_array_equal(
        load(tmp_path / "m.sklr", max_bytes=10**7).predict_proba(DENSE), model.predict_proba(DENSE)
    )


if __name__ == "__main__":
    draw = np.random.default_rng(0)
    X = draw.normal(size=(40, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")
    written = Pipeline([("scale", StandardScaler()), ("model", SparseKLR())]).fit(X, y)
    save(written, EARLIER)
    print(EARLIER.stat().st_size, "bytes", written.predict_proba(EARLIER_ROWS)[:, 1].tolist())
