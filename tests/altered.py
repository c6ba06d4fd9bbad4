"""Models whose parts are altered one by one, in a process that may crash: ``python altered.py STEP NAME...``.

Each alteration is a line: its name, and then ``refused`` by the invariants, or ``accepted`` with what the
methods of the model raised. A name without an outcome is the alteration that ended the process.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import CompactKLR, SparseKLR, SparseKLRCV, tabular_pipeline
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR
from sparseklr.model_files.invariants import check_fitted_arrays

rng = np.random.default_rng(0)
DENSE = rng.normal(size=(60, 6))
SPARSE = sparse.csr_matrix(np.where(np.abs(DENSE) > 0.5, DENSE, 0.0))  # the labels depend on it
TWO = (DENSE[:, 0] + 0.5 * DENSE[:, 1] > 0).astype(int)
THREE = np.digitize(DENSE[:, 0], [-0.5, 0.5])
MODELS = {
    "dense": lambda: SparseKLR().fit(DENSE, TWO),
    "sparse": lambda: SparseKLR().fit(SPARSE, TWO),
    "classes": lambda: SparseKLR(calibration="sigmoid").fit(DENSE, THREE),
    "linear": lambda: SparseKLR(kernel="linear", calibration="link").fit(SPARSE, THREE),
    "precomputed": lambda: SparseKLR(kernel="precomputed").fit(
        np.outer(DENSE[:12, 0], DENSE[:12, 0]) + np.eye(12), TWO[:12]
    ),
    "cv": lambda: SparseKLRCV(Cs=[10.0], cv=2).fit(DENSE, TWO),
    "compact": lambda: CompactKLR(max_points=2).fit(DENSE**3, TWO),
    "compact_classes": lambda: CompactKLR(max_points=2).fit(SPARSE, THREE),
    "half": lambda: HalfKLR().fit(DENSE, TWO),
    "import": lambda: ImportVectorMachine().fit(SPARSE, TWO),
    "thresholded": lambda: ThresholdedKLR().fit(DENSE, TWO),
    "pipeline": lambda: make_pipeline(StandardScaler(with_mean=False), SparseKLR()).fit(SPARSE, TWO),
}


def table() -> pd.DataFrame:
    """A column of each kind, with a missing value."""
    draw = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "x": [*DENSE[:-1, 0].round(3).astype(str), ""],
            "day": [f"2024-0{k % 9 + 1}-1{k % 7}" for k in range(60)],
            "city": [*draw.choice(["Oslo", "Rome", "Bern"], 58), "Once", "Twice"],
            "sex": draw.choice(["f", "m"], 60),
            "note": ["".join(draw.choice(list("abcdefgh "), 2)) + " b" for _ in range(60)],
        }
    )


TABLES = {
    scale: lambda scale=scale: tabular_pipeline(scale=scale, categorical=["note"]).fit(table(), TWO)
    for scale in ("standard", "quantile", "squash")
}


def holders(part: Any, seen: set[int]) -> Iterator[tuple[Any, Any]]:
    """Everything that holds an array or a number, with the key that it is held by."""
    if id(part) in seen or isinstance(part, str | bytes | type):
        return
    seen.add(id(part))
    held = part if isinstance(part, dict) else getattr(part, "__dict__", {})
    held = dict(enumerate(part)) if isinstance(part, list) else held
    for key, value in list(held.items()):
        if isinstance(value, np.ndarray | int | float | list | tuple | dict) or sparse.issparse(value):
            yield part, key
        yield from holders(value, seen)
    if isinstance(part, tuple):
        for value in part:
            yield from holders(value, seen)


def changed(value: Any) -> Iterator[Any]:
    """Other values in its place."""
    yield None
    if isinstance(value, bool | int | float):
        yield from (-1, 0, 2**30, 100_000, 1e308, float("nan"), "text")
    elif isinstance(value, np.ndarray):
        yield from (value[:-1], value[..., :-1], np.concatenate([value, value]), value[None], value.ravel())
        yield from (value.astype(object), value.T.copy(), value[:0])
        for one in (np.nan, np.inf, -7, 2**30):
            if value.size and value.dtype.kind in "iuf" and (value.dtype.kind == "f" or np.isfinite(one)):
                other = value.copy()
                other.flat[-1] = np.array(one).astype(value.dtype)
                yield other
        yield from (value.astype(kind) for kind in ("i4", "f4") if value.dtype.kind in "iuf")
        yield sparse.csr_matrix(value) if value.ndim == 2 and value.dtype.kind == "f" else "text"
    elif sparse.issparse(value):
        yield from (value[:-1], value[:, :-1], value.toarray())
        for name, one in [("indices", 2**30), ("indices", -7), ("indices", 6), ("data", np.nan)]:
            other = value.copy()
            getattr(other, name)[-1] = one
            yield other
        for ends in (value.indptr[::-1].copy(), value.indptr * 2, value.indptr - 1):
            other = value.copy()
            other.indptr = ends
            yield other
    elif isinstance(value, list | tuple):
        yield from (value[:-1], value + value, type(value)())
    else:
        yield {}


def set_in(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, dict | list):
        holder[key] = value
    else:
        holder.__dict__[key] = value


def alterations(model: Any) -> Iterator[tuple[str, Any]]:
    """The model with one part altered, again and again, with a name of what was altered."""
    for holder, key in list(holders(model, set())):
        old = holder[key] if isinstance(holder, dict | list) else holder.__dict__[key]
        for k, value in enumerate(changed(old)):
            set_in(holder, key, value)
            yield f"{type(holder).__name__}.{key}.{k}", model
        set_in(holder, key, old)


def outcome(model: Any, queries: list[Any]) -> str:
    try:
        check_fitted_arrays(model)
    except Exception:  # load makes a ModelFileError of any
        return "refused"
    raised = [attempt(lambda X=X: model.decision_function(X, return_std=True)) for X in queries]
    raised += [attempt(lambda X=X: model.predict_proba(X, moderated=True)) for X in queries]
    for name in ("predict_proba", "predict", "familiarity", "explain", "dual_decision_function"):
        if method := getattr(model, name, None):
            raised += [attempt(lambda X=X, method=method: method(X)) for X in queries]
    return "accepted " + ",".join(sorted(set(filter(None, raised))))


def attempt(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return ""


def alter(name: str, step: int) -> None:
    """Every part of a model is altered, or each of ``step`` of them."""
    fitted = TABLES[name]() if name in TABLES else MODELS[name]()
    model = copy.deepcopy(getattr(fitted, "best_estimator_", fitted))
    rows = DENSE[:6] @ DENSE[:6].T if name == "precomputed" else DENSE[:6]
    queries = [table().head(5)] if name in TABLES else [rows, sparse.csr_matrix(rows)]
    print(f"{name}.intact", outcome(model, queries))
    for k, (what, altered) in enumerate(alterations(model)):
        if k % step == 0:
            print(f"{name}.{what}", end=" ", flush=True)
            print(outcome(altered, queries), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    step, *names = sys.argv[1:]
    for name in names:
        alter(name, int(step))
