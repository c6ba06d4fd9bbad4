"""Rows as a compact model sees them: scaled, distinct, in an order that depends on their contents only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_softmax

from .. import _core
from ..equal_rows import shuffled_keys
from ..kernels import rounded
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

    def fraction(self, fractions: np.ndarray) -> LabelledRows:
        """The rows with a fraction of their weights; rows of which nothing is left are dropped."""
        left = np.flatnonzero(fractions > 0)
        return replace(self.part(left), weight=self.weight[left] * fractions[left])

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


@dataclass(frozen=True, eq=False)
class Observations:
    """The independent observations behind the distinct pairs of row and class.

    Attributes
    ----------
    count : array of int (n,)
        Observations of each pair.
    point : array of int (n,)
        Number of the distinct row of each pair, ascending from 0.
    copies : bool
        Whether equal rows are copies: a distinct row, with whatever classes, is then one observation.
    """

    count: np.ndarray
    point: np.ndarray
    copies: bool = False

    @classmethod
    def single(cls, n_rows: int) -> Observations:
        """Every row is an observation."""
        return cls(np.ones(n_rows, dtype=np.int64), np.arange(n_rows))

    @property
    def n_points(self) -> int:
        """Distinct rows."""
        return int(self.point[-1]) + 1

    def __len__(self) -> int:
        return self.n_points if self.copies else int(self.count.sum())

    def independent(self, n_held_out: np.ndarray) -> np.ndarray:
        """The number of independent observations among given numbers of rows equal to each pair."""
        return np.minimum(n_held_out, 1) if self.copies else n_held_out


@dataclass(frozen=True, eq=False)
class DistinctPairs:
    """Distinct pairs of row and class, in the order of a hash of a row's content and the seed.

    Nothing that is fitted to them can depend on the order in which rows came, or on whether a row was
    repeated or given more weight.
    """

    positions: np.ndarray  # of a row equal to each pair
    label: np.ndarray  # int32
    weight: np.ndarray  # summed
    observations: Observations


def distinct_pairs(
    X: Any, codes: np.ndarray, weight: np.ndarray, count: np.ndarray, seed: int
) -> DistinctPairs:
    """Merge equal rows of the same class; ``count`` has the observations that each row represents."""
    keys = shuffled_keys(X, seed)
    order = np.lexsort((weight, codes, keys))
    keys, codes = keys[order], codes[order]
    new_row = np.append(True, keys[1:] != keys[:-1])
    first = np.flatnonzero(new_row | np.append(True, codes[1:] != codes[:-1]))
    observations = Observations(np.add.reduceat(count[order], first), np.cumsum(new_row)[first] - 1)
    total = np.add.reduceat(weight[order], first)
    return DistinctPairs(order[first], codes[first].astype(np.int32), total, observations)


def by_point(rows: LabelledRows, observations: Observations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct rows, and the weight and the number of observations of each class on each of them.

    Weights and counts have the shape (n_points, n_classes).
    """
    first = np.flatnonzero(np.append(True, np.diff(observations.point)))
    shape = observations.n_points, rows.n_classes
    weight, count = np.zeros(shape), np.zeros(shape, dtype=np.int64)
    weight[observations.point, rows.label] = rows.weight
    count[observations.point, rows.label] = observations.count
    return rows.X[first], weight, count


def relative_weights(weight: np.ndarray, observations: Observations) -> np.ndarray:
    """Weights divided by the mean weight of an observation: a factor on all weights changes nothing.

    The quotients are rounded to 24 bits, which removes the rounding errors of such a factor as well.
    """
    scaled = np.maximum(weight / weight.max(), np.finfo(np.float64).tiny)
    relative: np.ndarray = rounded(scaled * (len(observations) / scaled.sum()), 24)
    return relative


def scaled_rows(
    X: Any,
    codes: np.ndarray,
    weight: np.ndarray,
    count: np.ndarray,
    n_classes: int,
    *,
    scale: bool | Scaling,
    seed: int,
) -> tuple[LabelledRows, Observations, Scaling]:
    """The distinct pairs of row and class in hashed order, scaled; rows of CSR are made dense by blocks.

    ``count`` has the observations that each row represents, ``scale`` is whether to scale at all, or the
    scaling to use.
    """
    pairs = distinct_pairs(X, codes, weight, count, seed)
    positions, relative = pairs.positions, relative_weights(pairs.weight, pairs.observations)
    needed = len(positions) * X.shape[1] * 4
    if needed > (room := available_memory()):
        raise MemoryError(
            f"X has {len(positions)} distinct rows and {X.shape[1]} features: {needed >> 20} MB as a dense "
            f"array, and {room >> 20} MB are free. Use fewer features, or a linear model."
        )
    rows = X[positions]
    scaling = scale if isinstance(scale, Scaling) else Scaling.of(rows, relative, auto=scale)
    scaled = np.empty((len(positions), len(scaling.kept)), dtype=np.float32)
    for start in range(0, len(positions), _BLOCK):
        scaled[start : start + _BLOCK] = scaling.transform_single(rows[start : start + _BLOCK])
    return LabelledRows(scaled, pairs.label, relative, n_classes), pairs.observations, scaling


def held_out_folds(label: np.ndarray, n_classes: int, observations: Observations) -> list[np.ndarray]:
    """The number of observations of each pair that each fold holds out.

    Ten folds up to 500 observations, five up to 1500, three of five beyond; none where a class has a single
    observation. The observations of a class, in the order of the rows, go to the folds in turn, so that a
    pair may have some in the training part and some in the validation part. Copies of a row stay together:
    distinct rows go to the folds in turn, those with the same rarest class one after the other.
    """
    count = observations.count
    n_folds, used = (10, 10) if len(observations) <= 500 else (5, 5) if len(observations) <= 1500 else (5, 3)
    units = np.bincount(label, observations.independent(count), minlength=n_classes)
    n_folds = min(n_folds, int(units.min()))
    if n_folds < 2:
        return []
    if observations.copies:
        rarest_first = np.lexsort((label, units[label], observations.point))
        _, first = np.unique(observations.point[rarest_first], return_index=True)
        fold = _turns(label[rarest_first[first]], n_classes, np.ones(len(first), dtype=np.int64)) % n_folds
        held_out = [np.where(fold[observations.point] == f, count, 0) for f in range(n_folds)]
    else:
        # of the numbers start, ..., start + count - 1, those that leave the remainder f
        start = _turns(label, n_classes, count)
        held_out = [(start + count - 1 - f) // n_folds - (start - 1 - f) // n_folds for f in range(n_folds)]
    left = [np.bincount(label, count - part, minlength=n_classes) for part in held_out[:used]]
    return [part for part, rest in zip(held_out, left, strict=False) if rest.all() and part.any()]


def _turns(label: np.ndarray, n_classes: int, count: np.ndarray) -> np.ndarray:
    """The observations of the same class that come before those of each pair."""
    start = np.empty(len(label), dtype=np.int64)
    for code in range(n_classes):
        own = np.flatnonzero(label == code)
        start[own] = np.cumsum(count[own]) - count[own]
    return start
