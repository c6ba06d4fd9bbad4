"""Training rows of a compact model: scaled, merged if equal, and sorted by a hash of their contents.

Equal rows with equal labels are merged into one (row, class) *pair*. The weight of a pair is the sum of the
weights of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import log_softmax

from .. import _core
from .._utils.memory import available_memory
from ..kernels import rounded
from ..samples import row_keys, shuffled_keys, splitmix64
from ..scaling import Scaling, columns


@dataclass(frozen=True, eq=False)
class Rotation:
    """An orthonormal basis of the span of n rows with p > n features.

    If the kernel has the same width along all features, distances depend only on coordinates in this span,
    and the optimal points lie in it. The penalty on log gamma is zero at gamma = 1 / n for the n coordinates,
    and at gamma = 1 / p for the p features. Multiplying the coordinates by sqrt(n / p) makes the two
    penalties equivalent.
    """

    basis: np.ndarray  # (p, n)

    @classmethod
    def of(cls, rows: LabelledRows) -> tuple[Rotation, LabelledRows]:
        """Return the basis, and the rows in its coordinates."""
        basis, triangle = np.linalg.qr(rows.X.T.astype(np.float64))
        rotation = cls(basis)
        return rotation, replace(rows, X=np.ascontiguousarray(triangle.T * rotation.scale))

    @property
    def scale(self) -> float:
        """The factor sqrt(n / p) by which the coordinates are multiplied."""
        p, n = self.basis.shape
        return float(np.sqrt(n / p))

    def undone(self, points: np.ndarray, log_gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points and log gamma in terms of the original features."""
        shared = log_gamma[:1] + 2 * np.log(self.scale)
        return points @ self.basis.T / self.scale, np.repeat(shared, len(self.basis))


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Dense rows with labels 0, 1, ..., n_classes - 1, and weights."""

    X: np.ndarray  # (n, p), float32 or float64
    label: np.ndarray  # int32
    weight: np.ndarray
    n_classes: int

    def __len__(self) -> int:
        return len(self.label)

    @property
    def n_outputs(self) -> int:
        """Number of decision values of a row: one for two classes, otherwise one for each class."""
        return 1 if self.n_classes == 2 else self.n_classes

    def take(self, indices: np.ndarray) -> LabelledRows:
        """Return the rows at ``indices``."""
        return LabelledRows(self.X[indices], self.label[indices], self.weight[indices], self.n_classes)

    def fraction(self, fractions: np.ndarray) -> LabelledRows:
        """Return the rows with weights multiplied by ``fractions``; rows of weight zero are dropped."""
        left = np.flatnonzero(fractions > 0)
        return replace(self.take(left), weight=self.weight[left] * fractions[left])

    def columns(self, features: np.ndarray) -> LabelledRows:
        """Return the same rows with the given features only."""
        X = np.ascontiguousarray(self.X[:, features])
        return LabelledRows(X, self.label, self.weight, self.n_classes)

    def compiled(self, *, single: bool = True) -> _core.CompactRows:
        """Return the rows in the layout of the compiled core, in float32, or in float64 if not ``single``."""
        return _core.compact_rows(self.X, self.label, self.weight, self.n_classes, single)

    def losses(self, outputs: np.ndarray) -> np.ndarray:
        """Return the log-loss of each row, given its decision values (n, n_outputs)."""
        if self.n_classes == 2:
            f = outputs[:, 0]
            return np.logaddexp(0, np.where(self.label == 1, -f, f))
        return -log_softmax(outputs, axis=1)[np.arange(len(self)), self.label]


@dataclass(frozen=True, eq=False)
class Observations:
    """Number of independent observations of each distinct (row, class) pair.

    Equal rows with equal labels form one pair. They are independent observations, unless equal rows are
    ``copies``; then each distinct row is one observation, even if it occurs with several labels.
    """

    count: np.ndarray  # number of training rows of each pair
    point: np.ndarray  # index of the distinct row of each pair, ascending from 0
    copies: bool = False
    key: np.ndarray | None = None  # hash of the rounded row of each pair; by default ``point`` is used

    @classmethod
    def single(cls, n_rows: int) -> Observations:
        """Return the observations of ``n_rows`` rows, each of which is one observation."""
        return cls(np.ones(n_rows, dtype=np.int64), np.arange(n_rows))

    @property
    def n_points(self) -> int:
        """Number of distinct rows."""
        return int(self.point[-1]) + 1

    def __len__(self) -> int:
        return self.n_points if self.copies else int(self.count.sum())

    def shuffled(self, seed: int) -> tuple[np.ndarray, Observations]:
        """Return the positions of the pairs in a random order, and the observations in this order.

        The order depends only on the contents of the rows and on ``seed``.
        """
        key = self.point.astype(np.uint64) if self.key is None else self.key
        order = np.argsort(splitmix64(key ^ splitmix64(np.array([seed], dtype=np.uint64))), kind="stable")
        point = self.point[order]
        renumbered = np.cumsum(np.append(False, point[1:] != point[:-1]))
        return order, Observations(self.count[order], renumbered, self.copies)

    def independent(self, n_rows: np.ndarray) -> np.ndarray:
        """Return the number of independent observations among ``n_rows`` equal rows."""
        return np.minimum(n_rows, 1) if self.copies else n_rows


@dataclass(frozen=True, eq=False)
class DistinctPairs:
    """Distinct (row, class) pairs, sorted by a hash of the contents of the row.

    A model fitted to the pairs does not depend on the order of the rows, nor on whether a row is repeated or
    has a larger weight.
    """

    positions: np.ndarray  # position of one training row of each pair
    label: np.ndarray  # class of each pair, int32
    weight: np.ndarray  # sum of the weights of the training rows of each pair
    observations: Observations


def distinct_pairs(X: Any, codes: np.ndarray, weight: np.ndarray, count: np.ndarray) -> DistinctPairs:
    """Return the distinct (row, class) pairs; ``count`` is the number of observations of each row."""
    keys, coarse = shuffled_keys(X, 0), shuffled_keys(_coarse(X), 0)
    order = np.lexsort((weight, codes, keys, coarse))
    keys, codes = keys[order], codes[order]
    new_row = np.append(True, keys[1:] != keys[:-1])
    first = np.flatnonzero(new_row | np.append(True, codes[1:] != codes[:-1]))
    observations = Observations(
        np.add.reduceat(count[order], first), np.cumsum(new_row)[first] - 1, key=coarse[order][first]
    )
    total = np.add.reduceat(weight[order], first)
    return DistinctPairs(order[first], codes[first].astype(np.int32), total, observations)


def _coarse(X: Any, bits: int = 10) -> Any:
    """Return the features divided by a unit and rounded to integers; noise of 1e-9 rarely changes them.

    The unit is the largest absolute value of a feature, rounded up to a power of two, times 2^-bits.
    """
    largest = abs(X).max(axis=0)
    largest = np.asarray(largest.toarray() if sparse.issparse(largest) else largest, dtype=np.float64).ravel()
    scale = np.exp2(bits - np.frexp(largest)[1])
    if not sparse.issparse(X):
        return np.rint(np.asarray(X, dtype=np.float64) * scale)
    return X.multiply(scale).tocsr().rint()


def canonical_features(X: Any, codes: np.ndarray, weight: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the positions of the features that vary, in an order that depends only on their contents.

    Each feature is scaled to [0, 1]. The features are sorted by the means of their values and of the squared
    values within each class. The means are rounded so that noise does not change the order. Features with
    equal means are sorted by :func:`_joint_keys`.
    """
    varying, keys = [], []
    mass = np.bincount(codes, weight, minlength=n_classes)
    for j, x in enumerate(columns(X)):
        if x.min() == x.max():
            continue
        unit = _unit(x)
        sums = [np.bincount(codes, weight * power, minlength=n_classes) for power in (unit, unit**2)]
        varying.append(j)
        keys.append(np.floor(np.concatenate(sums) / np.tile(mass, 2) * 2**16 + 0.37))
    features = np.array(varying, dtype=np.intp)
    if len(features) < 2:
        return features
    _, group = np.unique(np.array(keys), axis=0, return_inverse=True)
    group = group.ravel()
    tied = np.bincount(group)[group] > 1
    joint = _joint_keys(X[:, features], codes, group, tied) if tied.any() else group
    return features[np.lexsort((joint, group))]


def _joint_keys(X: Any, codes: np.ndarray, group: np.ndarray, tied: np.ndarray) -> np.ndarray:
    """Return a hash of the distinct triples (row, class, value) of each tied feature; zero for the others.

    A row is hashed as the set of its (group, value) pairs, so the order of the features of a group does not
    matter. This is one round of colour refinement (Weisfeiler and Leman 1968).
    """

    def cells(j: int, x: np.ndarray) -> np.ndarray:
        return splitmix64((group[j] * 4096 + np.floor(_unit(x) * 1024 + 0.37)).astype(np.uint64))

    rows = splitmix64(codes.astype(np.uint64))
    for j, x in enumerate(columns(X)):
        rows += cells(j, x)
    keys = np.zeros(len(group), dtype=np.uint64)
    for j, x in enumerate(columns(X)):
        if tied[j]:
            keys[j] = np.unique(splitmix64(rows ^ splitmix64(cells(j, x)))).sum()
    return keys


def _unit(x: np.ndarray) -> np.ndarray:
    """Scale values to [0, 1]; their range may exceed the largest float."""
    least, most = x.min() / 2, x.max() / 2
    unit: np.ndarray = (x / 2 - least) / (most - least)
    return unit


def by_point(rows: LabelledRows, observations: Observations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct rows, and their weights and observation counts (n_points, n_classes)."""
    first = np.flatnonzero(np.append(True, np.diff(observations.point)))
    shape = observations.n_points, rows.n_classes
    weight, count = np.zeros(shape), np.zeros(shape, dtype=np.int64)
    weight[observations.point, rows.label] = rows.weight
    count[observations.point, rows.label] = observations.count
    return rows.X[first], weight, count


def relative_weights(weight: np.ndarray, observations: Observations) -> np.ndarray:
    """Return the weights divided by the mean weight of an observation, rounded to 24 bits.

    A common factor of all weights then has no effect, not even by rounding errors.
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
    block: int = 4096,
    steps: float = 4096.0,
) -> tuple[LabelledRows, Observations, Scaling]:
    """Return the scaled distinct (row, class) pairs, their observations, and the scaling.

    The pairs are sorted by a hash of their contents. Sparse rows are converted to dense rows in blocks.
    ``count`` is the number of observations of each row. ``scale`` is a :class:`Scaling`, or a bool: whether
    to scale the features. Scaled values are rounded to multiples of 1 / ``steps``, and rows that become equal
    are merged. Without rounding, noise with a relative size of 1e-9, for instance from another BLAS, could
    lead to another optimum, because the iterations amplify differences.
    """
    given = scale if isinstance(scale, Scaling) else None
    features = canonical_features(X, codes, weight, n_classes) if given is None else given.kept
    X = X[:, features]
    pairs = distinct_pairs(X, codes, weight, count)
    positions, relative = pairs.positions, relative_weights(pairs.weight, pairs.observations)
    needed = len(positions) * X.shape[1] * 4
    if needed > (free := available_memory()):
        raise MemoryError(
            f"X has {len(positions)} distinct rows and {X.shape[1]} features. A dense array needs "
            f"{needed >> 20} MB, but only {free >> 20} MB are free. Use fewer features, or a linear model."
        )
    rows = X[positions]
    if given is None:
        scaling = Scaling.of(rows, relative, auto=bool(scale), ramps=bool(scale))
    else:
        scaling = replace(given, kept=np.arange(len(features)))
    scaled = np.empty((len(positions), len(scaling.kept)), dtype=np.float32)
    for start in range(0, len(positions), block):
        scaled[start : start + block] = scaling.transform_single(rows[start : start + block])
    if np.isfinite(scaling.clip):  # otherwise the rows keep the units of X
        np.rint(scaled * steps, out=scaled)
        scaled /= steps
    scaling = replace(scaling, kept=features[scaling.kept])
    return *_merged(LabelledRows(scaled, pairs.label, relative, n_classes), pairs.observations), scaling


def _merged(rows: LabelledRows, observations: Observations) -> tuple[LabelledRows, Observations]:
    """Merge the rows that rounding made equal, such as copies that differ by noise of 1e-9."""
    _, first, point = np.unique(row_keys(rows.X), return_index=True, return_inverse=True)
    if len(first) == observations.n_points or observations.key is None:
        return rows, observations
    first = first[point]  # the first of the rows equal to each row
    _, kept, pair = np.unique(first * rows.n_classes + rows.label, return_index=True, return_inverse=True)
    merged = replace(rows.take(kept), weight=np.bincount(pair, rows.weight))
    count = np.bincount(pair, observations.count).astype(np.int64)
    point = np.unique(first[kept], return_inverse=True)[1]
    return merged, Observations(count, point, key=observations.key[first[kept]])


_MOST_UNITS = 1_000_000  # maximum number of units that are divided into folds, in addition to the rows


def validation_folds(label: np.ndarray, n_classes: int, observations: Observations) -> list[np.ndarray]:
    """Return, for each fold, the number of observations of each pair that are used for validation.

    There are ten folds with up to 500 observations, and five with up to 1500. With more observations, three
    of five folds are used. The result is empty if a class has a single observation. The rows must be in
    random order. Each fold contains consecutive observations of every class, so that few observations change
    their fold if a row is added or removed. Observations of the same row are assigned at random: if they were
    spread evenly, every fold would have the same fractions of the classes in its training and validation
    parts, and the validation loss would be too small. Copies of a row stay together: folds consist of
    distinct rows, grouped by their rarest class.
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
        fold = _fold_of_unit(label[rarest_first[first]], np.zeros(len(first), dtype=bool), n_folds)
        held_out = [np.where(fold[observations.point] == f, count, 0) for f in range(n_folds)]
    else:
        # With large weights, several observations of a pair form a unit, which limits the memory.
        size = -(-int(count.sum()) // _MOST_UNITS)
        n_units = -(-count // size)
        pair, amount = np.repeat(np.arange(len(count)), n_units), np.full(int(n_units.sum()), size)
        amount[np.cumsum(n_units) - 1] = count - (n_units - 1) * size
        repeated = np.bincount(observations.point, count)[observations.point] > 1
        fold = _fold_of_unit(label[pair], repeated[pair], n_folds)
        held_out = [np.zeros_like(count) for _ in range(n_folds)]
        for f, part in enumerate(held_out):
            np.add.at(part, pair[fold == f], amount[fold == f])
    left = [np.bincount(label, count - part, minlength=n_classes) for part in held_out[:used]]
    return [part for part, rest in zip(held_out, left, strict=False) if rest.all() and part.any()]


def repeated_folds(
    label: np.ndarray, n_classes: int, observations: Observations, *, n_rows: int, most: int
) -> list[list[np.ndarray]]:
    """Return the folds of :func:`validation_folds` for one to ``most`` pseudo-random orders of the pairs.

    Orders are added until the folds have at least ``n_rows`` validation observations in total. If the first
    few folds of the first order already suffice, its other folds are omitted.
    """
    repeats: list[list[np.ndarray]] = []
    held_out = 0
    while len(repeats) < most and held_out < n_rows:
        order, shuffled = observations.shuffled(len(repeats))
        repeats.append([])
        for part in validation_folds(label[order], n_classes, shuffled):
            if held_out >= n_rows and len(repeats) == 1:
                break
            held_out += int(observations.independent(part).sum())
            repeats[-1].append(np.empty_like(part))
            repeats[-1][-1][order] = part
    return repeats


def _fold_of_unit(label: np.ndarray, repeated: np.ndarray, n_folds: int) -> np.ndarray:
    """Return the fold of each unit; ``repeated`` marks the observations whose row occurs more than once.

    A unit is an observation or, if equal rows are copies, a distinct row. The units of a class are sorted by
    a position in [0, 1), and each fold gets consecutive units. The position is the rank of the unit, or a
    pseudo-random number for repeated rows.
    """
    fold, rng = np.empty(len(label), dtype=np.int64), np.random.default_rng(0)
    for code in np.unique(label):
        members = np.flatnonzero(label == code)
        rank = np.arange(len(members)) / len(members)
        position = np.where(repeated[members], rng.random(len(members)), rank)
        order = np.argsort(position, kind="stable")
        fold[members[order]] = np.arange(len(members)) * n_folds // len(members)
    return fold
