"""A model file whose arrays were altered is refused or predicts: it never ends the process."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from altered import DENSE, MODELS, SPARSE, TABLES, TWO
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC

from sparseklr import (
    CompactKLR,
    SparseKLR,
    load,
    save,
)
from sparseklr.model_files import ModelFileError
from sparseklr.model_files.archive import pack
from sparseklr.model_files.invariants import check_fitted_arrays

ALTERED = Path(__file__).with_name("altered.py")


@pytest.mark.parametrize(("names", "step"), [([*MODELS], 3), ([*TABLES], 37)], ids=["arrays", "tables"])
def test_altered_models_do_not_end_the_process(names, step):
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


def test_the_message_names_the_part(tmp_path):
    model = SparseKLR().fit(SPARSE, SPARSE[:, [0]].toarray().ravel() > 0.3)
    model.familiarity(SPARSE)  # computed before the points are altered
    model.support_vectors_.indices[5] = 2**30
    (tmp_path / "m.skops").write_bytes(pack({"model": model, "metadata": {}}))
    with pytest.raises(
        ModelFileError, match=r"m\.skops: not loaded, .* altered: .* column index of 1073741824"
    ):
        load(tmp_path / "m.skops")
    with pytest.raises(
        ValueError, match="column index of 1073741824"
    ):  # save writes nothing that load refuses
        save(model, tmp_path / "n.skops")
    fresh = SparseKLR().fit(SPARSE, SPARSE[:, [0]].toarray().ravel() > 0.3)  # nothing was computed later
    fresh.support_vectors_.indices[5] = 2**30
    with pytest.raises(ValueError, match="column index of 1073741824"):
        save(fresh, tmp_path / "n.skops")
    assert not (tmp_path / "n.skops").exists()
    for n_jobs in (0, 100_000, -100_000, "all"):
        other = CompactKLR(max_points=1).fit(DENSE, TWO).set_params(n_jobs=n_jobs)
        (tmp_path / "m.skops").write_bytes(pack({"model": other, "metadata": {}}))
        with pytest.raises(ModelFileError, match="n_jobs"):
            load(tmp_path / "m.skops")


def test_nothing_is_computed_from_what_a_file_holds(tmp_path):
    for model in (SparseKLR().fit(DENSE, TWO), CompactKLR(max_points=1).fit(DENSE, TWO)):
        model.__dict__.pop("_reference", None)
        model._waiting = {"_reference": (DENSE, np.ones(60), None), "transform": ("fit", DENSE, TWO)}
        with pytest.raises(ValueError, match="waits to be computed"):
            check_fitted_arrays(model)
        assert not hasattr(model, "transform")


def refused(part: Any, tmp_path: Path) -> None:
    (tmp_path / "m.skops").write_bytes(pack({"model": part, "metadata": {}}))
    with pytest.raises(ModelFileError, match="altered"):
        load(tmp_path / "m.skops")


def test_parts_of_scikit_learn_that_index_without_checks(tmp_path):
    def encoder() -> OneHotEncoder:
        cells = np.array([["a", "x"], ["b", "y"], ["b", "y"], ["c", "y"], ["d", "y"]])
        return OneHotEncoder(min_frequency=2, drop="if_binary", handle_unknown="infrequent_if_exist").fit(
            cells
        )

    save(encoder(), tmp_path / "whole.skops")
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
    save(words, tmp_path / "whole.skops")
    words.vocabulary_["one"] = 2**30
    refused(words, tmp_path)
    refused(SVC().fit(DENSE, TWO), tmp_path)


def test_every_class_of_a_model_file_has_invariants():
    from sparseklr.model_files.invariants import CHECKS
    from sparseklr.model_files.storage import TRUSTED

    assert {name for name in TRUSTED if name.startswith("sparseklr.")} <= set(CHECKS)


# -- size ------------------------------------------------------------------------------------------


def bomb(path: Path, megabytes: int, announced: int | None = None) -> None:
    """Zeros, and a header; ``announced`` replaces the size in the directory of the archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as file:
            for _ in range(megabytes):
                file.write(bytes(1 << 20))
        archive.writestr("schema.json", "{}")
        header = {"format": 1, "versions": {}, "created": "", "sha256": "0"}
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
@pytest.mark.parametrize("announced", [None, 1000, "nested"])
def test_an_archive_that_grows_is_refused_with_little_memory(tmp_path, announced):
    bomb(tmp_path / "m.skops", 600, announced if announced == 1000 else None)
    if announced == "nested":  # as sparse matrices are
        (tmp_path / "m.skops").rename(tmp_path / "inner.npz")
        with zipfile.ZipFile(tmp_path / "m.skops", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(tmp_path / "inner.npz", "inner.npz")
    command = [sys.executable, "-c", PEAK, tmp_path / "m.skops"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    message, kilobytes = done.stdout.splitlines()
    expected = "damaged" if announced == 1000 else "MB; the limit is 256 MB"
    assert expected in message
    assert int(kilobytes) < 50_000


def test_a_limit_can_be_raised(tmp_path):
    model = SparseKLR().fit(DENSE, TWO)
    save(model, tmp_path / "m.skops")
    with pytest.raises(ModelFileError, match=r"max_bytes=.* raises the limit"):
        load(tmp_path / "m.skops", max_bytes=1000)
    np.testing.assert_array_equal(
        load(tmp_path / "m.skops", max_bytes=10**7).predict_proba(DENSE), model.predict_proba(DENSE)
    )
