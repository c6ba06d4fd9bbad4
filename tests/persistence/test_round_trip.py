"""A model file stores every fitted attribute except the training rows and the scaled points."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from support.altered import DENSE, MODELS, THREE, TWO

from sparseklr import SKLR, CompactKLR, SparseKLR, load, save
from sparseklr.baselines import HalfKLR, ImportVectorMachine, half_klr_path

KERNEL_MATRIX = np.outer(DENSE[:12, 0], DENSE[:12, 0]) + np.eye(12)
FRAME = pd.DataFrame(DENSE, columns=list("abcdef"))
CASES: dict[str, Callable[[], Any]] = {
    **{name: make for name, make in MODELS.items() if name not in ("cv", "pipeline")},
    "searched": lambda: SparseKLR(kernel="auto", gamma="auto").fit(FRAME, TWO),
    "several outputs": lambda: SparseKLR(prune=0).fit(DENSE, THREE),
    "float32": lambda: SparseKLR(kernel="laplacian").fit(DENSE.astype(np.float32), TWO),
    "prediction only": lambda: SparseKLR().fit(DENSE, TWO).keep_prediction_only(),
    "nu": lambda: SKLR(nu=1.0, warm_start=True).fit(DENSE, TWO),
    "paper": lambda: SKLR(C=10, calibration=None).fit(DENSE, THREE),
    "sizes searched": lambda: CompactKLR().fit(DENSE, THREE),
    "import of three": lambda: ImportVectorMachine().fit(DENSE, THREE),
    "half of a path": lambda: half_klr_path(DENSE, TWO, [10.0])[0],
    "half": lambda: HalfKLR().fit(DENSE, THREE),
}
pytestmark = pytest.mark.filterwarnings("ignore")  # indefinite kernels, and data without signal


def rows_of(model: Any) -> Any:
    """Rows that a model can predict."""
    if hasattr(model, "feature_names_in_"):
        return FRAME
    return DENSE if model.n_features_in_ == DENSE.shape[1] else KERNEL_MATRIX


def results(model: Any) -> dict[str, Any]:
    """The results or exceptions of the methods of a model, by name."""
    calls: dict[str, tuple[str, dict[str, bool]]] = {
        name: (name, {}) for name in ("predict", "predict_proba", "decision_function", "familiarity")
    }
    if isinstance(model, SparseKLR):
        calls["moderated"] = "predict_proba", {"moderated": True}
        calls["std"] = "decision_function", {"return_std": True}
    found: dict[str, Any] = {}
    for name, (method, options) in calls.items():
        if hasattr(model, method):
            try:
                found[name] = getattr(model, method)(rows_of(model), **options)
            except (ValueError, AttributeError) as error:
                found[name] = str(error)
    return found


def same(a: Any, b: Any) -> bool:
    """Whether two values are bit-equal and of the same type."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if sparse.issparse(a):
        return a.shape == b.shape and all(
            same(getattr(a, part), getattr(b, part)) for part in ("data", "indices", "indptr")
        )
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "__dataclass_fields__"):
        return all(same(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__)
    return a == b or (a != a and b != b)


@pytest.mark.parametrize("name", CASES)
def test_everything_except_training_rows_is_stored(name: str, tmp_path: Path) -> None:
    model = CASES[name]()
    before = copy.deepcopy(vars(model))
    save(model, tmp_path / "m.sklr")
    # what is computed on first use is there now; nothing else has changed
    computed = {"_reference_", "_usual_variances_", "_background_", "_points_"}
    assert vars(model).keys() - before.keys() <= computed
    assert all(same(value, vars(model)[attribute]) for attribute, value in before.items())
    loaded = load(tmp_path / "m.sklr")
    assert vars(model).keys() - vars(loaded).keys() <= {"_training_rows_", "_points_"}
    assert vars(loaded).keys() <= vars(model).keys()
    for attribute, value in vars(loaded).items():
        assert same(value, vars(model)[attribute]), attribute


@pytest.mark.parametrize("name", CASES)
def test_loaded_models_give_the_same_results(name: str, tmp_path: Path) -> None:
    model = CASES[name]()
    expected = results(copy.deepcopy(model))  # computed without a file
    save(model, tmp_path / "m.sklr")
    loaded = load(tmp_path / "m.sklr")
    assert same(results(loaded), expected)
    assert same(results(model), expected)
    assert same(results(pickle.loads(pickle.dumps(loaded))), expected)
    save(loaded, tmp_path / "again.sklr")
    assert same(results(load(tmp_path / "again.sklr")), expected)
    if isinstance(loaded, SparseKLR):
        assert same(loaded.keep_prediction_only().predict_proba(rows_of(loaded)), expected["predict_proba"])


def test_search_is_stored_as_its_best_model(tmp_path: Path) -> None:
    search = GridSearchCV(SparseKLR(), {"C": [1.0, 10.0]}, cv=2).fit(DENSE, TWO)
    for found in (search, MODELS["cv"]()):
        save(found, tmp_path / "m.sklr")
        loaded = load(tmp_path / "m.sklr")
        assert type(loaded) is type(found.best_estimator_)
        np.testing.assert_array_equal(loaded.predict_proba(DENSE), found.predict_proba(DENSE))
