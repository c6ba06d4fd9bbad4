"""Training data as the mathematics sees it: checked rows, labels as codes, weights, distinct points.

The models of the baselines, and leave-one-out values, depend on more than the optimum of a convex problem.
Equal rows are therefore merged, and the distinct ones are put in an order that depends only on their content.
A fit is then the same to the last bit whether a row is repeated or weighted, and in whatever order the rows
come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_class_weight

from .equal_rows import nearly_equal_rows, shuffled_keys
from .kernels import Kernel, rounded

# Sums and squares of weights up to this are finite.
_LARGEST_WEIGHT = 1e150
# Weights are counts of observations if they are whole multiples of the smallest one divided by at most
# MOST_PARTS, within this relative tolerance, and none is more than MOST_COPIES units: beyond, the tolerance
# would accept many a number that is not whole.
MOST_PARTS, MOST_COPIES, _WHOLE = 16, 1_000_000, 1e-9
# Fourth powers of C times the largest weight, and their inverses, are ordinary numbers within these.
_LOSS_WEIGHTS = 1e-75, 1e75
# The kernel matrix of up to this many points is kept whole (128 MB).
_WHOLE_MATRIX = 4096


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Checked training data: only rows of positive weight, labels as codes into ``classes``."""

    X: Any
    codes: np.ndarray
    classes: np.ndarray
    weight: np.ndarray
    positions: np.ndarray  # of the rows in what the user gave
    n_samples: int  # rows the user gave
    kernel: Kernel
    count: np.ndarray | None = None  # observations that each row represents; one each by default

    def points(self, indices: np.ndarray) -> Any:
        """What prediction needs of the given rows: the rows, or the kernel matrix among them."""
        if self.kernel.precomputed:
            return self.X[np.ix_(indices, indices)]
        return self.X[indices]

    def in_given_order(self, indices: np.ndarray) -> np.ndarray:
        """The given rows in the order in which the user gave them."""
        return indices[np.argsort(self.positions[indices])]

    def in_given_rows(self, values: np.ndarray) -> np.ndarray:
        """Values (n, n_outputs) of the rows, for all rows that the user gave: NaN for those of weight 0.

        A single output is an array (n_samples,).
        """
        out = np.full((self.n_samples, values.shape[1]), np.nan)
        out[self.positions] = values
        return out[:, 0] if values.shape[1] == 1 else out

    def part(self, indices: np.ndarray) -> TrainingSet:
        """Some of the rows, with the same kernel."""
        return replace(
            self,
            X=self.points(indices),
            codes=self.codes[indices],
            weight=self.weight[indices],
            positions=self.positions[indices],
            count=None if self.count is None else self.count[indices],
        )

    def signs(self) -> np.ndarray:
        """Labels -1/+1, one row per one-vs-rest problem (a single row for two classes)."""
        if len(self.classes) == 2:
            return np.where(self.codes == 1, 1.0, -1.0)[None, :]
        return np.where(self.codes == np.arange(len(self.classes))[:, None], 1.0, -1.0)


@dataclass(frozen=True, eq=False)
class Observations:
    """Groups of observations that are left out one at a time; those of a group are all alike.

    Attributes
    ----------
    point : array of int (n,)
        The distinct point on which the observations lie.
    weight : array (n, n_classes)
        Their weight by class: in one class, or in several where a point with all its copies is left out.
    count : array (n,)
        Number of observations in the group.
    """

    point: np.ndarray
    weight: np.ndarray
    count: np.ndarray


@dataclass(frozen=True, eq=False)
class DistinctPoints:
    """The distinct rows of a training set and the weight of each class on each of them.

    Attributes
    ----------
    X : array or CSR (n, n_features)
        The rows; for a precomputed kernel its matrix (n, n).
    first : array of int (n,)
        A row of the training set that equals each point.
    point_of_row : array of int (n_rows,)
        The point that each row of the training set equals.
    weight : array (n, n_classes)
        Summed weights of the training rows equal to the point, by class.
    kernel : Kernel
    n_jobs : int or None
    count : array (n, n_classes) or None
        Number of observations of each class on each point; None for one wherever there is weight.
    copies : bool
        Equal rows are copies of one observation, not observations that happen to be equal.
    """

    X: Any
    first: np.ndarray
    point_of_row: np.ndarray
    weight: np.ndarray
    kernel: Kernel
    n_jobs: int | None
    count: np.ndarray | None = None
    copies: bool = False

    @classmethod
    def of(cls, data: TrainingSet, n_jobs: int | None = None) -> DistinctPoints:
        """Merge equal rows; the points are in the order of their keys (precomputed kernel: of appearance)."""
        X, precomputed = data.X, data.kernel.precomputed
        keys = nearly_equal_rows(X) if precomputed else shuffled_keys(X, seed=0)
        _, first, code = np.unique(keys, return_index=True, return_inverse=True)
        if precomputed:
            order = np.argsort(first)
            first, code = first[order], np.argsort(order)[code]
        n, n_classes = len(first), len(data.classes)
        pair = code * n_classes + data.codes
        weight = np.bincount(pair, data.weight, n * n_classes).reshape(n, n_classes)
        count = np.bincount(pair, data.count, n * n_classes).reshape(n, n_classes)
        if not precomputed:
            X = X[first]
        elif len(first) < len(X):
            X = X[np.ix_(first, first)]
        return cls(X, first, code, weight, data.kernel, n_jobs, count)

    def with_gram(self) -> DistinctPoints:
        """The same points; the kernel matrix of up to 4096 is computed at once and kept."""
        if self.kernel.precomputed or len(self) > _WHOLE_MATRIX:
            return self
        gram = self.kernel.matrix(self.X, self.X.astype(np.float64), n_jobs=self.n_jobs)
        return replace(self, X=gram, kernel=Kernel("precomputed"))

    def __len__(self) -> int:
        return len(self.first)

    def relative(self) -> DistinctPoints:
        """The same points with weights whose sum is the number of observations.

        Multiplying all weights then changes nothing. The quotients are rounded to 24 bits, which removes the
        rounding errors of such a factor as well.
        """
        tiny = np.finfo(np.float64).tiny
        weight = np.where(self.weight > 0, np.maximum(self.weight / self.weight.max(), tiny), 0.0)
        total = self.observations.count.sum()
        return replace(self, weight=rounded(weight * (total / weight.sum()), 24))

    @property
    def observations(self) -> Observations:
        """What is left out in turn: every observation, or every point if equal rows are copies."""
        if self.copies:
            n = len(self)
            return Observations(np.arange(n), self.weight, np.ones(n))
        point, code = np.nonzero(self.weight)
        weight = np.zeros((len(point), self.weight.shape[1]))
        weight[np.arange(len(point)), code] = self.weight[point, code]
        count = np.ones(len(point)) if self.count is None else self.count[point, code]
        return Observations(point, weight, count)

    def observations_by_class(self) -> np.ndarray:
        """Number of observations of each class."""
        every = self.observations
        found: np.ndarray = every.count @ (every.weight > 0)
        return found

    def observation_of_row(self, codes: np.ndarray) -> np.ndarray:
        """Index into :attr:`observations` of each row of the training set, whose classes are ``codes``."""
        if self.copies:
            return self.point_of_row
        pairs = np.flatnonzero(self.weight)
        return np.searchsorted(pairs, self.point_of_row * self.weight.shape[1] + codes)

    def labelled(self, data: TrainingSet) -> tuple[TrainingSet, np.ndarray]:
        """One row for each class of each point, with its weight, and the point of each of these rows.

        ``data`` is what the points were made of. The rows are in the order of the points.
        """
        n_classes = len(data.classes)
        pairs, first = np.unique(self.point_of_row * n_classes + data.codes, return_index=True)
        point, code = np.divmod(pairs, n_classes)
        X = self.X
        if len(pairs) > len(self):  # some points have several classes
            X = X[np.ix_(point, point)] if self.kernel.precomputed else X[point]
        rows = replace(
            data,
            X=X,
            codes=code,
            weight=self.weight[point, code],
            positions=data.positions[first],
            count=None if self.count is None else self.count[point, code],
        )
        return rows, point

    def part(self, indices: np.ndarray) -> DistinctPoints:
        """Some of the points."""
        X = self.X[np.ix_(indices, indices)] if self.kernel.precomputed else self.X[indices]
        count = None if self.count is None else self.count[indices]
        return replace(self, X=X, first=self.first[indices], weight=self.weight[indices], count=count)

    def columns(self, indices: np.ndarray) -> np.ndarray:
        """Kernel values between all points and the given ones, float64 (n, len(indices))."""
        return self.values(slice(None), indices)

    def values(self, rows: slice | np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Kernel values between the points at ``rows`` and at ``columns``, float64."""
        if self.kernel.precomputed:
            block = self.X[rows, columns] if isinstance(rows, slice) else self.X[np.ix_(rows, columns)]
            return block.astype(np.float64, order="F")
        X = self.X[rows]
        if len(columns) == 0:
            return np.zeros((X.shape[0], 0))
        # With columns in float64 the kernel is evaluated in float64 even if the data are float32.
        return self.kernel.matrix(X, self.X[columns].astype(np.float64), n_jobs=self.n_jobs)

    def diagonal(self) -> np.ndarray:
        """k(x, x) of every point, float64."""
        return self.kernel.diagonal(self.X)

    def kernel_unit(self) -> float:
        """The size of kernel values as a power of four, which it and its root divide without rounding."""
        values = self.X if self.kernel.precomputed else self.diagonal()
        size = float(max(values.max(), -values.min()))
        return float(np.ldexp(1.0, (np.frexp(size)[1] - 1) // 2 * 2)) if size > 0 else 1.0


def check_weight(sample_weight: Any, n_samples: int) -> np.ndarray:
    """Weights of rows as float64, ones for None; raises unless finite, non-negative and not all zero.

    Examples
    --------
    >>> check_weight(None, 2)
    array([1., 1.])
    """
    if sample_weight is None or isinstance(sample_weight, Real):
        sample_weight = np.full(n_samples, 1.0 if sample_weight is None else sample_weight)
    weight: np.ndarray = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must have one number for each of the {n_samples} rows; its shape is "
            f"{weight.shape}."
        )
    if weight.min() < 0:
        raise ValueError(f"sample_weight must be non-negative; got a weight of {weight.min():g}.")
    if not weight.any():
        raise ValueError("sample_weight must hold a positive value; all of them are zero.")
    check_largest("sample_weight", weight)
    return weight


def observation_counts(weight: np.ndarray) -> np.ndarray:
    """Number of observations that each row represents, as int64: 0 for a row of weight 0.

    Weights that are whole multiples of a common unit are numbers of copies: a row of weight 2 among rows of
    weight 1 is the row repeated. Other weights measure importance, and each row is one observation. The unit
    is the largest for which all weights are whole, so a factor on all weights changes nothing, and equal
    weights are one observation each.

    Examples
    --------
    >>> observation_counts(np.array([0.2, 0.3, 0.0, 0.2]))
    array([2, 3, 0, 2])
    >>> observation_counts(np.array([1.0, 0.7351, 2.0]))
    array([1, 1, 1])
    """
    used = weight > 0
    counts = used.astype(np.int64)
    least = weight[used].min(initial=np.inf)
    with np.errstate(over="ignore"):
        quotient = np.unique(weight[used] / least)
    if not len(quotient) or quotient[-1] > MOST_COPIES:
        return counts
    for parts in range(1, MOST_PARTS + 1):
        whole = np.rint(parts * quotient)
        if whole[-1] <= MOST_COPIES and (np.abs(parts * quotient - whole) <= _WHOLE * whole).all():
            counts[used] = np.rint(parts * (weight[used] / least)).astype(np.int64)
            break
    return counts


def check_indices(X: Any) -> None:
    """Raise unless the indices of a sparse matrix lie within it: SciPy and the core read where they point."""
    if getattr(X, "format", None) == "coo" and X.ndim == 2:
        _check_range("row", X.row, X.shape[0])
        _check_range("column", X.col, X.shape[1])
    if getattr(X, "format", None) in ("csr", "csc", "bsr"):
        height, width = X.blocksize if X.format == "bsr" else (1, 1)
        sizes = [("row", X.shape[0] // height), ("column", X.shape[1] // width)]
        (_, n), (name, size) = reversed(sizes) if X.format == "csc" else sizes
        ends, entries = X.indptr, len(X.data)
        if X.indices.shape != (entries,):
            raise ValueError(
                f"X is not a valid sparse matrix: X.indices has the shape {X.indices.shape}, and there are "
                f"{entries} entries."
            )
        if len(ends) != n + 1 or ends[0] != 0 or ends[-1] > entries or (ends[1:] < ends[:-1]).any():
            raise ValueError(
                f"X is no valid sparse matrix: X.indptr must be {n + 1} ascending numbers from 0 to at most "
                f"{entries}, the number of entries."
            )
        _check_range(name, X.indices, size)


def _check_range(name: str, indices: np.ndarray, size: int) -> None:
    for index in (indices.min(initial=0), indices.max(initial=0)):
        if not 0 <= index < max(size, 1):
            raise ValueError(
                f"X is no valid sparse matrix: it has a {name} index of {index}, and {size} {name}s."
            )


def check_largest(name: str, weight: np.ndarray) -> None:
    """Raise if a weight is so large that sums and squares of weights overflow."""
    if not weight.max() <= _LARGEST_WEIGHT:
        raise ValueError(f"{name} must be at most {_LARGEST_WEIGHT:g}; got {weight.max():g}.")


def class_factors(class_weight: Any, classes: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The factor of each class that ``class_weight`` stands for; raises unless finite and non-negative.

    Examples
    --------
    >>> y = np.array(["no", "no", "yes"])
    >>> class_factors("balanced", np.array(["no", "yes"]), y, np.ones(3))
    array([0.75, 1.5 ])
    """
    with np.errstate(over="ignore"):
        factors: np.ndarray = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=weight)
    if (factors < 0).any():
        raise ValueError(f"class_weight must be non-negative; got {class_weight!r}.")
    if not np.isfinite(factors).all():
        largest = classes.tolist()[np.argmax(factors)]
        raise ValueError(
            f"class_weight={class_weight!r} gives the class {largest!r} a factor that overflows: the sums of "
            "sample_weight by class are too unequal."
        )
    return factors


def loss_weights(C: float, weight: np.ndarray, unit: float = 1.0) -> np.ndarray:
    """``C`` times the weights of rows, what the loss of each counts in an objective, times a kernel's unit.

    Raises if the largest is beyond what the objective and its derivatives can be computed with.

    Examples
    --------
    >>> loss_weights(10.0, np.array([1.0, 0.5]))
    array([10.,  5.])
    """
    with np.errstate(over="ignore"):
        product = C * weight * unit
    least, most = _LOSS_WEIGHTS
    if not least <= product.max() <= most:
        size = "" if unit == 1 else f" times the size of the kernel, about {unit:.1g},"
        raise ValueError(
            f"C times the largest sample_weight{size} must lie between {least:g} and {most:g}; C={C:g} gives "
            f"{product.max():g}."
        )
    return product
