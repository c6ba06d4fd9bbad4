"""Training data: validated rows with class codes and weights, and the distinct points among them.

Equal rows are merged into one *point*, and the points are sorted by a hash of their contents. Among rows of
weight 1, a row of weight 2 is therefore equivalent to a repeated row, and the order of the rows has no
effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dnrm2
from sklearn.utils.sparsefuncs import min_max_axis

from .kernels import Kernel, rounded, summed_duplicates

# Up to this number of points, the kernel matrix is computed once and kept in memory (128 MB).
_WHOLE_MATRIX = 4096


@dataclass(frozen=True, eq=False)
class Samples:
    """Validated training rows of positive weight, with their labels, weights and kernel."""

    X: Any  # the rows; for a precomputed kernel, the kernel matrix
    codes: np.ndarray  # the label of each row, as an index into ``classes``
    classes: np.ndarray
    weight: np.ndarray
    positions: np.ndarray  # positions of the rows in the data passed by the user
    n_samples: int  # number of rows passed by the user
    kernel: Kernel
    count: np.ndarray | None = None  # number of observations that each row represents; None means one each

    def points(self, indices: np.ndarray) -> Any:
        """Return the rows at ``indices``; for a precomputed kernel, their kernel matrix."""
        if self.kernel.precomputed:
            return self.X[np.ix_(indices, indices)]
        return self.X[indices]

    def in_given_order(self, indices: np.ndarray) -> np.ndarray:
        """Return the indices, sorted by the positions of their rows in the data passed by the user."""
        return indices[np.argsort(self.positions[indices])]

    def in_given_rows(self, values: np.ndarray) -> np.ndarray:
        """Return the values (n, n_outputs), arranged like the rows passed by the user.

        Rows of weight 0 get NaN. With a single output, the result has the shape (n_samples,).
        """
        out = np.full((self.n_samples, values.shape[1]), np.nan)
        out[self.positions] = values
        return out[:, 0] if values.shape[1] == 1 else out

    def part(self, indices: np.ndarray) -> Samples:
        """Return the samples at ``indices``, with the same kernel."""
        return replace(
            self,
            X=self.points(indices),
            codes=self.codes[indices],
            weight=self.weight[indices],
            positions=self.positions[indices],
            count=None if self.count is None else self.count[indices],
        )

    def signs(self) -> np.ndarray:
        """Return the labels -1 and +1, with a row for each one-vs-rest problem or one row for two classes."""
        if len(self.classes) == 2:
            return np.where(self.codes == 1, 1.0, -1.0)[None, :]
        return np.where(self.codes == np.arange(len(self.classes))[:, None], 1.0, -1.0)


@dataclass(frozen=True, eq=False)
class Observations:
    """Groups of identical observations; leave-one-out removes one observation of a group at a time.

    Attributes
    ----------
    point : array of int (n,)
        Index of the distinct point to which each group belongs.
    weight : array (n, n_classes)
        Total weight of each class in the group. Usually, the rows of a group belong to a single class. If
        equal rows are treated as copies of a single observation, however, all rows with the same features
        form one group, and leave-one-out removes the whole group.
    count : array (n,)
        Number of observations in the group.
    """

    point: np.ndarray
    weight: np.ndarray
    count: np.ndarray


@dataclass(frozen=True, eq=False)
class DistinctPoints:
    """The distinct training rows, called points, and the weight of each class on each point.

    Attributes
    ----------
    X : array or CSR (n, n_features)
        The points; for a precomputed kernel, the kernel matrix (n, n).
    first : array of int (n,)
        For each point, the index of a training row equal to it.
    point_of_row : array of int (n_rows,)
        For each training row, the index of the point equal to it.
    weight : array (n, n_classes)
        Total weight, by class, of the training rows equal to each point.
    kernel : Kernel
    n_jobs : int or None
        Number of threads for kernel values.
    count : array (n, n_classes) or None
        Number of observations of each class on each point. None means one observation wherever the weight is
        positive.
    copies : bool
        Whether equal rows are copies of one observation rather than independent observations.
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
    def of(cls, data: Samples, n_jobs: int | None = None) -> DistinctPoints:
        """Return the distinct points of the samples, sorted by hash key.

        For a precomputed kernel, the points are in the order of their first appearance.
        """
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
        """Return the same points, with a precomputed kernel matrix if there are at most 4096 points."""
        if self.kernel.precomputed or len(self) > _WHOLE_MATRIX:
            return self
        gram = self.kernel.matrix(self.X, self.X.astype(np.float64), n_jobs=self.n_jobs)
        return replace(self, X=gram, kernel=Kernel("precomputed"))

    def __len__(self) -> int:
        return len(self.first)

    def relative(self) -> DistinctPoints:
        """Return the same points with weights scaled to sum to the number of observations.

        A common factor of all weights then has no effect. Rounding to 24 bits removes the rounding errors of
        the scaling.
        """
        tiny = np.finfo(np.float64).tiny
        weight = np.where(self.weight > 0, np.maximum(self.weight / self.weight.max(), tiny), 0.0)
        total = self.observations.count.sum()
        return replace(self, weight=rounded(weight * (total / weight.sum()), 24))

    @property
    def observations(self) -> Observations:
        """The groups of identical observations, from which leave-one-out removes one observation at a time.

        If equal rows are copies of one observation, a group consists of all rows of a point and counts as one
        observation.
        """
        if self.copies:
            n = len(self)
            return Observations(np.arange(n), self.weight, np.ones(n))
        point, code = np.nonzero(self.weight)
        weight = np.zeros((len(point), self.weight.shape[1]))
        weight[np.arange(len(point)), code] = self.weight[point, code]
        count = np.ones(len(point)) if self.count is None else self.count[point, code]
        return Observations(point, weight, count)

    def observations_by_class(self) -> np.ndarray:
        """Return the number of observations of each class."""
        groups = self.observations
        sizes: np.ndarray = groups.count @ (groups.weight > 0)
        return sizes

    def observation_of_row(self, codes: np.ndarray) -> np.ndarray:
        """Return, for each training row, the index of its group in :attr:`observations`.

        ``codes`` contains the classes of the rows.
        """
        if self.copies:
            return self.point_of_row
        pairs = np.flatnonzero(self.weight)
        return np.searchsorted(pairs, self.point_of_row * self.weight.shape[1] + codes)

    def labelled(self, samples: Samples | None = None) -> tuple[Samples, np.ndarray]:
        """Return a weighted row for each pair of a point and one of its classes, and the index of each point.

        The rows are in the order of the points. ``samples`` contains the rows from which the points were
        made; they determine the classes and positions of the result. Without ``samples``, the positions in
        the result are indices of points.
        """
        point, code = np.nonzero(self.weight)
        X = self.X
        if len(point) > len(self):  # some points belong to several classes
            X = X[np.ix_(point, point)] if self.kernel.precomputed else X[point]
        n_classes = self.weight.shape[1]
        classes, positions, n_samples = np.arange(n_classes), point, len(self)
        if samples is not None:
            _, first = np.unique(self.point_of_row * n_classes + samples.codes, return_index=True)
            classes, positions, n_samples = samples.classes, samples.positions[first], samples.n_samples
        count = None if self.count is None else self.count[point, code]
        weight = self.weight[point, code]
        return Samples(X, code, classes, weight, positions, n_samples, self.kernel, count), point

    def part(self, indices: np.ndarray) -> DistinctPoints:
        """Return the points at ``indices``."""
        X = self.X[np.ix_(indices, indices)] if self.kernel.precomputed else self.X[indices]
        count = None if self.count is None else self.count[indices]
        return replace(self, X=X, first=self.first[indices], weight=self.weight[indices], count=count)

    def fraction(self, fractions: np.ndarray) -> DistinctPoints:
        """Return the points with weights and counts multiplied by the array ``fractions`` (n, n_classes).

        Points without remaining observations are dropped.
        """
        count = (self.weight > 0) if self.count is None else self.count
        left = np.flatnonzero((self.weight * fractions).any(axis=1))
        rest = replace(
            self, weight=self.weight * fractions, count=np.rint(count * fractions).astype(np.int64)
        )
        return rest.part(left)

    def columns(self, indices: np.ndarray) -> np.ndarray:
        """Return kernel values between all points and the points at ``indices``, in float64."""
        return self.values(slice(None), indices)

    def values(self, rows: slice | np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return kernel values between the points at ``rows`` and the points at ``columns``, in float64."""
        if self.kernel.precomputed:
            block = self.X[rows, columns] if isinstance(rows, slice) else self.X[np.ix_(rows, columns)]
            return block.astype(np.float64, order="F")
        X = self.X[rows]
        if len(columns) == 0:
            return np.zeros((X.shape[0], 0))
        # Because the columns are float64, the kernel is evaluated in float64 even if the data are float32.
        return self.kernel.matrix(X, self.X[columns].astype(np.float64), n_jobs=self.n_jobs)

    def diagonal(self) -> np.ndarray:
        """Return the values k(x, x) of all points, in float64."""
        return self.kernel.diagonal(self.X)

    def kernel_unit(self) -> float:
        """Return the typical size of the kernel values, rounded to a power of four.

        Divisions by a power of four, or by its square root, are exact.
        """
        values = self.X if self.kernel.precomputed else self.diagonal()
        size = float(max(values.max(), -values.min()))
        return float(np.ldexp(1.0, (np.frexp(size)[1] - 1) // 2 * 2)) if size > 0 else 1.0


def first_of_each_class(weight: np.ndarray, order: np.ndarray, most: int, least: int) -> np.ndarray:
    """Return indices, in ascending order, of the first ``most`` points in the given order.

    The result also contains the first ``least`` points of each class. ``weight`` has the shape
    (n_points, n_classes).

    Examples
    --------
    >>> first_of_each_class(np.array([[1, 0], [1, 0], [1, 0], [0, 1]]), np.arange(4), 2, 1)
    array([0, 1, 3])
    """
    by_class = [order[weights[order] > 0][:least] for weights in weight.T]
    return np.unique(np.concatenate([order[:most], *by_class]))


def weighted_mean(
    values: np.ndarray, weight: np.ndarray, count: np.ndarray | float = 1.0
) -> tuple[float, float]:
    r"""Return the weighted mean of one value per group of observations, and its standard error.

    For groups of :math:`n_g` observations (``count``), total weight :math:`w_g` and value :math:`l_g`, the
    mean is :math:`m = \sum w_g l_g / \sum w_g`, and its standard error is
    :math:`\sqrt{\sum_g w_g^2 (l_g - m)^2 / n_g} / \sum_g w_g`. A common factor of all weights has no effect.
    """
    fraction = weight / weight.sum()
    mean = float(fraction @ values)
    # dnrm2 avoids overflow
    return mean, float(dnrm2(fraction / np.sqrt(count) * (values - mean)))


def row_keys(X: Any) -> np.ndarray:
    """Return 64-bit hash keys of the rows; equal rows, dense or CSR, have equal keys.

    The key of a row is the sum, modulo 2**64, of hashes of the non-zero entries and their columns. Two
    different rows have equal keys with a probability of about 1e-19.

    Examples
    --------
    >>> keys = row_keys(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]]))
    >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
    (True, False)
    """
    if sparse.issparse(X):
        X = summed_duplicates(X)
        return _row_sums(X, _mixed(X.data, X.indices))
    keys = np.empty(X.shape[0], dtype=np.uint64)
    step = max(1, 2**20 // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        keys[start : start + step] = _mixed(block, np.arange(X.shape[1])).sum(axis=1, dtype=np.uint64)
    return keys


def nearly_equal_rows(K: np.ndarray) -> np.ndarray:
    """Return group numbers of the rows of a kernel matrix; rows that agree up to rounding share a number.

    Rows a and b agree if k(a, x) and k(b, x) differ by at most 1e-10 sqrt(k(a, a) k(x, x)) for all x (4e-7 in
    float32). This tolerance allows for the rounding errors of a matrix product. The rows are sorted by a
    fixed linear combination of their entries, and each row is compared with the first row of the current
    group.

    Examples
    --------
    >>> nearly_equal_rows(np.array([[1.0, 0.5, 1.0], [0.5, 1.0, 0.5], [1.0, 0.5, 1 - 1e-15]]))
    array([0, 1, 0])
    """
    n, size = len(K), np.sqrt(np.abs(K.diagonal().astype(np.float64)))
    tolerance = 1e-10 if K.dtype == np.float64 else 4e-7
    order = np.argsort(K @ (np.cos(np.arange(1, n + 1)) / (n * np.maximum(size, 1e-150))), kind="stable")
    labels, label, first = np.empty(n, dtype=np.intp), 0, order[0]
    for row in order:
        with np.errstate(over="ignore"):  # infinity exceeds the tolerance
            if (np.abs(K[row] - K[first]) > tolerance * size[row] * size).any():
                label, first = label + 1, row
        labels[row] = label
    return labels


def shuffled_keys(X: Any, seed: int) -> np.ndarray:
    """Return 64-bit hash keys of the rows, which define a random order when the rows are sorted by them.

    Equal rows have equal keys. The order depends only on ``seed`` and on the contents of the rows, rounded to
    about a millionth of the largest value of each feature. Rounding errors in the features, for instance
    after standardisation on another machine, therefore almost surely leave the order unchanged.

    Examples
    --------
    >>> X = np.arange(9.0)[:, None] / 3
    >>> orders = [np.argsort(shuffled_keys(X, seed)) for seed in (0, 1)]
    >>> sorted(map(int, orders[0])), bool((orders[0] == orders[1]).all())
    ([0, 1, 2, 3, 4, 5, 6, 7, 8], False)
    >>> bool((np.argsort(shuffled_keys(X + 1e-15, 0)) == orders[0]).all())
    True
    """
    X = summed_duplicates(X)
    salt = splitmix64(np.array([seed], dtype=np.uint64) + np.uint64(1))
    keys = splitmix64(_rounded_row_keys(X) ^ salt)
    _, group, size = np.unique(keys, return_inverse=True, return_counts=True)
    several = np.flatnonzero(size[group] > 1)
    # Rows that are equal after rounding get consecutive keys, in the order of their exact keys.
    exact = splitmix64(row_keys(X[several]) ^ salt)
    order = np.lexsort((exact, keys[several]))
    several, exact = several[order], exact[order]
    is_first = np.append(True, keys[several][1:] != keys[several][:-1])[: len(several)]
    is_new = is_first | np.append(True, exact[1:] != exact[:-1])[: len(several)]
    count = np.cumsum(is_new)
    rank = count - np.maximum.accumulate(np.where(is_first, count, 0))
    keys[several] += rank.astype(np.uint64)
    return keys


def _rounded_row_keys(X: Any) -> np.ndarray:
    """Return hash keys of rows with features rounded to 20 bits.

    A key is a weighted sum of the rounded features with a random factor for each feature.
    """
    if X.shape[0] == 0:
        return np.empty(0, dtype=np.uint64)
    least, most = min_max_axis(X, axis=0) if sparse.issparse(X) else (X.min(axis=0), X.max(axis=0))
    mantissa, exponent = np.frexp(np.maximum(most, -least).astype(np.float64))
    # The rounding unit is a power of two that depends on the largest value. The unit changes at 0.77 times a
    # power of two, because a largest value is unlikely to be exactly there.
    shift = 20 - exponent - (mantissa > 0.77)
    halves = np.ldexp(1.0, shift // 2), np.ldexp(1.0, shift - shift // 2)  # a single factor might overflow
    factors = splitmix64(np.arange(1, X.shape[1] + 1, dtype=np.uint64))

    def integers(values: np.ndarray, columns: Any) -> np.ndarray:
        return np.rint(values * halves[0][columns] * halves[1][columns]).astype(np.int64).view(np.uint64)

    if sparse.issparse(X):
        return _row_sums(X, integers(X.data, X.indices) * factors[X.indices])
    step = max(1, 2**20 // max(1, X.shape[1]))
    blocks = [X[start : start + step] for start in range(0, X.shape[0], step)]
    return np.concatenate([integers(block, slice(None)) @ factors for block in blocks])


def _row_sums(X: Any, values: np.ndarray) -> np.ndarray:
    """Return the sum over each row of a CSR matrix, modulo 2**64; ``values`` has one value for each entry."""
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    return sums[X.indptr[1:]] - sums[X.indptr[:-1]]


def _mixed(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return hashes of values and their columns; zeros have the hash 0."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    mixed = splitmix64(bits ^ splitmix64(columns.astype(np.uint64) + np.uint64(1)))
    return np.where(values != 0, mixed, np.uint64(0))


def splitmix64(z: np.ndarray) -> np.ndarray:
    """Return 64-bit hashes by the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
