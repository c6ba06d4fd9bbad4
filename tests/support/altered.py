"""Model files with one part altered, in a process that may crash: ``python altered.py STEP NAME...``.

Each alteration is a line: its name, and then ``refused`` by the reader, or ``accepted`` with what the
methods of the model raised. A name without an outcome is the alteration that ended the process.
"""

from __future__ import annotations

import io
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import SKLR, SKLRCV, CompactKLR, SparseKLR, tabular_pipeline
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR
from sparseklr.persistence import decode, encode

rng = np.random.default_rng(0)
DENSE = rng.normal(size=(60, 6))
SPARSE = sparse.csr_matrix(np.where(np.abs(DENSE) > 0.5, DENSE, 0.0))  # the labels depend on it
TWO = (DENSE[:, 0] + 0.5 * DENSE[:, 1] > 0).astype(int)
THREE = np.digitize(DENSE[:, 0], [-0.5, 0.5])
MODELS = {
    "dense": lambda: SparseKLR().fit(DENSE, TWO),
    "sparse": lambda: SparseKLR().fit(SPARSE, TWO),
    "classes": lambda: SKLR(calibration="sigmoid").fit(DENSE, THREE),
    "linear": lambda: SKLR(kernel="linear", calibration="link").fit(SPARSE, THREE),
    "precomputed": lambda: SparseKLR(kernel="precomputed").fit(
        np.outer(DENSE[:12, 0], DENSE[:12, 0]) + np.eye(12), TWO[:12]
    ),
    "cv": lambda: SKLRCV(Cs=[10.0], cv=2).fit(DENSE, TWO),
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


TABLES = {"table": lambda: tabular_pipeline(categorical=["note"]).fit(table(), TWO)}


def nodes(part: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Yield every value in a JSON tree with its container, its key there, and its path."""
    pairs = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in list(pairs):
        name = part.get("type", path) if isinstance(part, dict) else path
        yield part, key, f"{name}.{key}"
        yield from nodes(value, f"{name}.{key}")


def stored(node: Any, members: dict[str, bytes]) -> Any:
    """The array or sparse matrix that a node of the tree represents, or the node itself."""
    if isinstance(node, dict) and "array" in node:
        return np.load(io.BytesIO(members[node["array"]]))
    if isinstance(node, dict) and "csr" in node:
        return sparse.csr_matrix(tuple(stored(one, members) for one in node["csr"]), shape=node["shape"])
    return node


def as_node(value: Any) -> tuple[Any, dict[str, bytes]]:
    """The node of a value, and the arrays that it refers to, under names that no file has."""
    members = encode(None, {"x": value})
    text = re.sub(r'"(\d+)\.npy"', r'"99\1.npy"', members.pop("model.json").decode())
    return json.loads(text)["metadata"]["dict"]["x"], {f"99{name}": one for name, one in members.items()}


def changed(value: Any) -> Iterator[Any]:
    """Yield values that could replace it."""
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


def alterations(model: Any) -> Iterator[tuple[str, Callable[[], dict[str, bytes]]]]:
    """Yield model files with one part altered, and the name of that part."""
    members = encode(model, {})
    tree = json.loads(members["model.json"])
    for holder, key, path in list(nodes(tree)):
        old = holder[key]
        for k, value in enumerate(changed(stored(old, members))):

            def altered(
                holder: Any = holder, key: Any = key, old: Any = old, value: Any = value
            ) -> dict[str, bytes]:
                holder[key], more = as_node(value)
                text = json.dumps(tree).encode()
                holder[key] = old
                return {**members, **more, "model.json": text}

            yield f"{path}.{k}", altered


def outcome(members: dict[str, bytes], queries: list[Any]) -> str:
    try:
        model, _ = decode(members)
    except Exception:  # load makes a ModelFileError of any
        return "refused"
    raised = [attempt(lambda X=X: model.decision_function(X, return_std=True)) for X in queries]
    raised += [attempt(lambda X=X: model.predict_proba(X, moderated=True)) for X in queries]
    for name in ("predict_proba", "predict", "familiarity", "explain"):
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
    """Alter every part of a model, or one part in ``step``."""
    fitted = TABLES[name]() if name in TABLES else MODELS[name]()
    model = getattr(fitted, "best_estimator_", fitted)
    rows = DENSE[:6] @ DENSE[:6].T if name == "precomputed" else DENSE[:6]
    queries = [table().head(5)] if name in TABLES else [rows, sparse.csr_matrix(rows)]
    print(f"{name}.intact", outcome(encode(model, {}), queries))
    for k, (what, altered) in enumerate(alterations(model)):
        if k % step == 0:
            print(f"{name}.{what}", end=" ", flush=True)
            print(outcome(altered(), queries), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    step, *names = sys.argv[1:]
    for name in names:
        alter(name, int(step))
