"""Random training data, with values, containers, labels and weights of all kinds that occur in practice."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Data:
    """Arguments of ``fit``, and the same data as plain arrays."""

    dense: np.ndarray  # float64 (n, p): the values in the container
    labels: np.ndarray  # (n,)
    weight: np.ndarray | None
    contain: Callable[[np.ndarray], Any]  # puts an array into the container of this case
    given_labels: Any
    about: str
    tame: bool  # no extreme values, so no error is acceptable

    def queries(self, rng: Rng) -> np.ndarray:
        """Return rows to predict: training rows, zeros, and rows far from the training rows."""
        rows = self.dense[rng.integers(0, len(self.dense), 4)]
        far = np.clip(rows[:2] * rng.choice([-1e3, 30.0, 1e3]), -1e30, 1e30)
        if np.abs(self.dense).max() > 1e26:  # farther values might overflow
            far = -rows[:2]
        return np.vstack([self.dense, np.zeros((1, self.dense.shape[1])), far])


def draw(rng: Rng) -> Data:
    n = int(np.exp(rng.uniform(np.log(2), np.log(300))))
    p = int(rng.choice([1, 2, 3, 5, 8, 20]))
    signal = rng.normal(size=(n, p))
    values, about_values, tame_values = _values(rng, signal)
    dtype = rng.choice(["float64", "float32", "int64", "bool"], p=[0.72, 0.2, 0.05, 0.03])
    with np.errstate(all="ignore"):  # values beyond the range of the type become infinite, which fit rejects
        if dtype == "int64":
            values = np.clip(np.round(values), -(2**53), 2**53)
        values = values.astype(dtype)
    container = str(rng.choice(list(CONTAINERS)))
    entropy = int(rng.integers(2**32))

    def contain(rows: np.ndarray) -> Any:
        with np.errstate(all="ignore"):
            rows = rows.astype(dtype)
        return CONTAINERS[container](np.random.default_rng(entropy), rows)

    labels, given_labels, about_labels, tame_labels = _labels(rng, signal)
    weight, about_weight, tame_weight = _weights(rng, labels)
    about = f"{n}x{p} {about_values} {dtype} {container}; {about_labels}; weight {about_weight}"
    tame = tame_values and tame_labels and tame_weight
    dense = values.astype(np.float64)
    return Data(dense, labels, weight, contain, given_labels, about, tame)


# -- values ----------------------------------------------------------------------------------


def _values(rng: Rng, signal: np.ndarray) -> tuple[np.ndarray, str, bool]:
    """Return features with one or two defects, such as constant columns, and a description."""
    n, p = signal.shape
    values, words, tame = signal.copy(), [], True
    kind = rng.choice(["normal", "grid", "duplicates", "constant feature", "constant", "zeros", "outlier"])
    if kind == "grid":
        values = np.round(values)
    elif kind == "duplicates":
        values = values[rng.integers(0, max(1, n // 3), n)]
    elif kind == "constant feature":
        values[:, rng.integers(p)] = rng.choice([0.0, 7.0, -1e5])
    elif kind == "constant":
        values[:] = rng.choice([0.0, 1.0, -3.5])
    elif kind == "zeros":
        values[rng.random(values.shape) < 0.8] = 0
    elif kind == "outlier":
        values[rng.integers(n)] *= 10 ** rng.uniform(1, 10)
        tame = False
    words.append(str(kind))
    scale = rng.choice(["none", "some", "columns", "extreme"], p=[0.6, 0.2, 0.1, 0.1])
    if scale == "some":
        values *= 10 ** rng.uniform(-3, 3)
    elif scale == "columns":
        values *= 10 ** rng.uniform(-8, 8, p)
        tame = False
    elif scale == "extreme":
        values *= 10 ** rng.uniform(-200, 200)
        tame = False
    words.append(f"scale {scale}")
    if rng.random() < 0.1:
        values += 10 ** rng.uniform(0, 10)
        words.append("offset")
        tame = False
    return values, " ".join(words), tame


# -- containers ------------------------------------------------------------------------------


def _mapped(rng: Rng, rows: np.ndarray) -> np.ndarray:
    """Return a memory-mapped array of a read-only file."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(rows.tobytes() or b"\0")
        file.flush()
        return np.memmap(file.name, dtype=rows.dtype, mode="r", shape=rows.shape)


def _read_only(rng: Rng, rows: np.ndarray) -> np.ndarray:
    rows = rows.copy()
    rows.flags.writeable = False
    return rows


def _strided(rng: Rng, rows: np.ndarray) -> np.ndarray:
    """Return an array as a view of every other row of a larger array, in reverse order."""
    larger = np.full((2 * len(rows), rows.shape[1]), 9, dtype=rows.dtype)
    larger[1::2] = rows[::-1]
    return larger[::-2]


def _odd_csr(rng: Rng, rows: np.ndarray) -> sparse.csr_matrix:
    """Return an unusual CSR matrix: entries as two summands, explicit zeros, unsorted columns."""
    columns, values, ends = [], [], [0]
    for row in rows:
        stored = np.flatnonzero((row != 0) | (rng.random(len(row)) < 0.2))
        parts, at = list(row[stored]), list(stored)
        if rng.random() < 0.5 and row.dtype.kind == "f":
            for k in np.flatnonzero(rng.random(len(parts)) < 0.3):
                half = parts[k] / 2
                if half + half == parts[k]:
                    parts[k] = half
                    parts.append(half)
                    at.append(at[k])
        order = rng.permutation(len(parts)) if rng.random() < 0.7 else np.argsort(at, kind="stable")
        columns.extend(np.array(at, dtype=np.int64)[order])
        values.extend(np.array(parts, dtype=rows.dtype)[order])
        ends.append(len(values))
    index = rng.choice([np.int32, np.int64])
    matrix = sparse.csr_matrix(rows.shape, dtype=rows.dtype)
    matrix.data = np.array(values, dtype=rows.dtype)
    matrix.indices, matrix.indptr = np.array(columns, dtype=index), np.array(ends, dtype=index)
    return matrix


CONTAINERS: dict[str, Callable[[Rng, np.ndarray], Any]] = {
    "array": lambda rng, rows: rows,
    "Fortran": lambda rng, rows: np.asfortranarray(rows),
    "strided": _strided,
    "read-only": _read_only,
    "memory-mapped": _mapped,
    "list": lambda rng, rows: rows.tolist(),
    "frame": lambda rng, rows: pd.DataFrame(rows, columns=[f"f{j}" for j in range(rows.shape[1])]),
    "CSR": lambda rng, rows: sparse.csr_matrix(rows),
    "CSR array": lambda rng, rows: sparse.csr_array(rows),
    "CSC": lambda rng, rows: sparse.csc_matrix(rows),
    "COO": lambda rng, rows: sparse.coo_array(rows),
    "odd CSR": _odd_csr,
    "odder CSR": _odd_csr,  # the same again, to draw it twice as often
}


# -- labels ----------------------------------------------------------------------------------


def _labels(rng: Rng, signal: np.ndarray) -> tuple[np.ndarray, Any, str, bool]:
    n = len(signal)
    n_classes = int(rng.choice([2, 3, 4, 5], p=[0.7, 0.15, 0.1, 0.05]))
    direction = rng.normal(size=(signal.shape[1], n_classes))
    codes = (signal @ direction + rng.choice([0.1, 1.0, 10.0]) * rng.normal(size=(n, n_classes))).argmax(
        axis=1
    )
    if rng.random() < 0.1:  # a class with a single row
        codes = np.where(np.arange(n) == rng.integers(n), n_classes - 1, codes % max(1, n_classes - 1))
    codes[rng.permutation(n)[:n_classes]] = np.arange(n_classes)[: min(n, n_classes)]
    counts = np.bincount(codes, minlength=n_classes)
    kinds = [
        "codes",
        "signs",
        "integers",
        "text",
        "objects",
        "floats",
        "booleans",
        "list",
        "series",
        "column",
    ]
    kind = str(rng.choice(kinds))
    names: Any = np.arange(n_classes)
    if kind == "signs":
        names = np.array([-1, 1, 0, 2, 3])[:n_classes]
    elif kind == "integers":
        names = np.array([-(2**40), 7, 2**31, 0, 5])[:n_classes]
    elif kind in ("text", "objects", "list", "series"):
        names = np.array(["no", "yes", "", "Ärger", "a b"], dtype=object if kind == "objects" else None)[
            :n_classes
        ]
    elif kind == "floats":
        names = np.array([1.0, -2.0, 0.0, 3.0, 1e6])[:n_classes]
    elif kind == "booleans" and n_classes == 2:
        names = np.array([True, False])
    labels = names[codes]
    given: Any = labels
    if kind == "list":
        given = labels.tolist()
    elif kind == "series":
        given = pd.Series(labels)
    about = f"{n_classes} classes ({'/'.join(map(str, counts))}) as {kind}"
    return labels, given, about, kind != "column" and bool((counts >= 2).all())


# -- weights ---------------------------------------------------------------------------------


def _weights(rng: Rng, labels: np.ndarray) -> tuple[np.ndarray | None, str, bool]:
    n = len(labels)
    kinds = ["none", "uniform", "counts", "constant", "extreme", "all tiny", "all huge", "few", "invalid"]
    kind = str(rng.choice(kinds, p=[0.4, 0.12, 0.12, 0.06, 0.12, 0.06, 0.06, 0.04, 0.02]))
    if kind == "none":
        return None, kind, True
    if kind == "uniform":
        return rng.uniform(0.2, 3, n), kind, True
    if kind == "counts":
        weight = rng.integers(0, 4, n).astype(np.float64)
        present = [(weight[labels == label] > 0).sum() for label in np.unique(labels)]
        return weight, kind, min(present) >= 2
    if kind == "constant":
        return np.full(n, rng.choice([0.1, 10.0, 1000.0])), kind, True
    digits = rng.choice([8, 20, 60, 100, 300])
    if kind == "extreme":
        weight = 10 ** rng.uniform(-digits, digits, n)
    elif kind == "all tiny":
        weight = rng.uniform(1, 2, n) * 10 ** rng.uniform(-digits, -digits / 2)
    elif kind == "all huge":
        weight = rng.uniform(1, 2, n) * 10 ** rng.uniform(digits / 2, digits)
    elif kind == "few":
        weight = np.where(rng.random(n) < 0.2, 1.0, 0.0)
    else:
        weight = np.ones(n)
        weight[rng.integers(n)] = rng.choice([-1.0, np.nan, np.inf])
    return weight, kind, False
