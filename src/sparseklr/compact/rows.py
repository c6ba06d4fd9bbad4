"""Rows as a compact model sees them: scaled, distinct, in an order that depends on their contents only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax

from .. import _core
from ..equal_rows import shuffled_keys
from ..memory import available_memory
from .scaling import Scaling

# Rows made dense at once where they come as a sparse matrix.
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Dense rows, labels 0, 1, ..., n_classes - 1, and weights."""

    X: np.ndarray  # (n, p), float32 or float64
    label: np.ndarray  # int32
    weight: np.ndarray
    n_classes: int

    def __len__(self) -> int:
        return len(self.label)

    @property
    def n_outputs(self) -> int:
        """One for two classes, else one for each."""
        return 1 if self.n_classes == 2 else self.n_classes

    def part(self, indices: np.ndarray) -> LabelledRows:
        return LabelledRows(self.X[indices], self.label[indices], self.weight[indices], self.n_classes)

    def columns(self, features: np.ndarray) -> LabelledRows:
        """The same rows with some of the features."""
        X = np.ascontiguousarray(self.X[:, features])
        return LabelledRows(X, self.label, self.weight, self.n_classes)

    def compiled(self, *, single: bool = True) -> _core.CompactRows:
        """The rows in the layout of the compiled core, in float32 or float64."""
        return _core.compact_rows(self.X, self.label, self.weight, self.n_classes, single)

    def losses(self, outputs: np.ndarray) -> np.ndarray:
        """Log-loss of each row, given its outputs (n, n_outputs)."""
        if self.n_classes == 2:
            f = outputs[:, 0]
            return np.logaddexp(0, np.where(self.label == 1, -f, f))
        return -log_softmax(outputs, axis=1)[np.arange(len(self)), self.label]


def distinct_rows(
    X: Any, codes: np.ndarray, weight: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, labels and summed weights of the distinct pairs of row and class, in random order.

    The order is that of a hash of a row's content and the seed. So nothing that is fitted to the result can
    depend on the order in which rows came, or on whether a row was repeated or given more weight.
    """
    keys = shuffled_keys(X, seed)
    order = np.lexsort((weight, codes, keys))
    keys, codes = keys[order], codes[order]
    new = np.append(True, (keys[1:] != keys[:-1]) | (codes[1:] != codes[:-1]))
    first = np.flatnonzero(new)
    return order[first], codes[first].astype(np.int32), np.add.reduceat(weight[order], first)


def scaled_rows(
    X: Any, codes: np.ndarray, weight: np.ndarray, n_classes: int, *, scale: bool | Scaling, seed: int
) -> tuple[LabelledRows, Scaling]:
    """The distinct rows in hashed order, scaled, and the scaling; rows of CSR are made dense by blocks.

    ``scale`` says whether to scale at all, or is the scaling to use.
    """
    positions, label, total = distinct_rows(X, codes, weight, seed)
    needed = len(positions) * X.shape[1] * 4
    if needed > (room := available_memory()):
        raise MemoryError(
            f"X has {len(positions)} distinct rows and {X.shape[1]} features: {needed >> 20} MB as a dense "
            f"array, and {room >> 20} MB are free. Use fewer features, or a linear model."
        )
    rows = X[positions]
    scaling = scale if isinstance(scale, Scaling) else Scaling.of(rows, total, auto=scale)
    scaled = np.empty((len(positions), len(scaling.kept)), dtype=np.float32)
    for start in range(0, len(positions), _BLOCK):
        scaled[start : start + _BLOCK] = scaling.transform_single(rows[start : start + _BLOCK])
    return LabelledRows(scaled, label, total, n_classes), scaling


def held_out_folds(rows: LabelledRows) -> list[np.ndarray]:
    """Positions of the rows held out, fold by fold; no fold where a class has fewer than two rows.

    Ten folds up to 500 distinct rows, five up to 1500, three of five beyond. Classes are spread evenly.
    """
    n = len(rows)
    n_folds, used = (10, 10) if n <= 500 else (5, 5) if n <= 1500 else (5, 3)
    counts = np.bincount(rows.label, minlength=rows.n_classes)
    n_folds = min(n_folds, int(counts.min()))
    if n_folds < 2:
        return []
    rank = np.empty(n, dtype=np.intp)
    for label in range(rows.n_classes):
        own = np.flatnonzero(rows.label == label)
        rank[own] = np.arange(len(own))
    return [np.flatnonzero(rank % n_folds == fold) for fold in range(min(used, n_folds))]
