"""Distinct training points and their likelihood, for fits that must not depend on how rows are given.

The rivals' models depend on more than the optimum: a greedy choice, or a minimum of many. Merging equal
rows and putting the distinct ones in an order that depends only on their content makes the fit
the same, to the last bit, whether a row is repeated or weighted, and in whatever order rows come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, logsumexp, softmax

from ._base import TrainingSet
from .kernels import Kernel, cache_bytes

# Up to this many points the kernel matrix is kept whole (128 MB).
_WHOLE_MATRIX = 4096


@dataclass(frozen=True, eq=False)
class DistinctPoints:
    """The distinct rows of a training set and the weight of each class on each of them.

    Attributes
    ----------
    X : array or CSR (n, n_features)
        The rows; for a precomputed kernel its matrix (n, n).
    first : array of int (n,)
        A row of the training set that equals each point.
    weight : array (n, n_classes)
        Summed weights of the training rows equal to the point, by class.
    kernel : Kernel
    n_jobs : int or None
    """

    X: Any
    first: np.ndarray
    weight: np.ndarray
    kernel: Kernel
    n_jobs: int | None

    @classmethod
    def of(cls, data: TrainingSet, n_jobs: int | None = None) -> DistinctPoints:
        """Merge equal rows, in the order of their keys (of appearance for a precomputed kernel)."""
        X, precomputed = data.X, data.kernel.precomputed
        # A repeated point may differ by rounding in a matrix that came from a matrix product.
        keys = row_keys(X.astype(np.float32) if precomputed else X)
        _, first, code = np.unique(keys, return_index=True, return_inverse=True)
        if precomputed:
            order = np.argsort(first)
            first, code = first[order], np.argsort(order)[code]
        weight = np.zeros((len(first), len(data.classes)))
        np.add.at(weight, (code, data.codes), data.weight)
        points = X[np.ix_(first, first)] if precomputed else X[first]
        if not precomputed and len(first) <= _WHOLE_MATRIX:
            gram = data.kernel.matrix(points, points.astype(np.float64), n_jobs=n_jobs)
            return cls(gram, first, weight, Kernel("precomputed"), n_jobs)
        return cls(points, first, weight, data.kernel, n_jobs)

    def __len__(self) -> int:
        return len(self.first)

    def columns(self, indices: np.ndarray) -> np.ndarray:
        """Kernel values between all points and the given ones, float64 (n, len(indices))."""
        if len(indices) == 0:
            return np.zeros((len(self), 0))
        if self.kernel.precomputed:
            return self.X[:, indices].astype(np.float64, order="F")
        # float64 queries: the kernel is then evaluated in float64 also for float32 data
        return self.kernel.matrix(self.X, self.X[indices].astype(np.float64), n_jobs=self.n_jobs)


class Gram:
    """Products with the kernel matrix of all points, kept in memory where it fits.

    More than a few thousand points are kept in float32: these products rank coordinates, what
    enters the model is computed from exact columns.
    """

    def __init__(self, points: DistinctPoints, cache_size: float | str) -> None:
        self.points = points
        self.matrix: np.ndarray | None = points.X if points.kernel.precomputed else None
        n = len(points)
        if self.matrix is None and 4 * n * n <= cache_bytes(cache_size):
            self.matrix = np.empty((n, n), dtype=np.float32)
            for start in range(0, n, 512):
                self.matrix[start : start + 512] = self._rows(slice(start, start + 512))

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64) if self.matrix is None else self.matrix.dtype

    def _rows(self, rows: slice) -> np.ndarray:
        X, kernel = self.points.X, self.points.kernel
        single = X if callable(kernel.name) else X.astype(np.float32)
        return kernel.matrix(single[rows], single, n_jobs=self.points.n_jobs)

    def product(self, r: np.ndarray, exact: bool = False) -> np.ndarray:
        """K r; ``exact`` asks for float64 throughout."""
        if self.matrix is not None and not (exact and self.matrix.dtype == np.float32):
            return (self.matrix @ r.astype(self.matrix.dtype)).astype(np.float64)
        points = self.points
        queries = points.X.astype(np.float64)
        return points.kernel.sum(queries, queries, r[None, :], n_jobs=points.n_jobs)[:, 0]

    def spread(self, total: np.ndarray, centred: bool) -> np.ndarray:
        """``sum_i m_i (K_ij - mean_j)^2`` for every column j; without the mean if not centred."""
        first, second = np.zeros(len(total)), np.zeros(len(total))
        for start in range(0, len(total), 512):
            rows = slice(start, start + 512)
            K = self.matrix[rows] if self.matrix is not None else self._rows(rows)
            m = total[rows].astype(K.dtype)
            first += m @ K
            second += m @ K**2
        # a column that is nearly constant counts as if 1e-6 of it were not; one of zeros has no slope
        spread = np.maximum(second - centred * first**2 / total.sum(), 1e-6 * second)
        return np.where(second > 0, spread, 1.0)


def row_keys(X: Any) -> np.ndarray:
    """64-bit keys of the contents of rows: equal rows, dense or CSR, have equal keys.

    The key is the sum, modulo 2**64, of a mixed value of every non-zero entry and its column;
    unequal rows collide with a probability of about 1e-19 per pair.

    Examples
    --------
    >>> keys = row_keys(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]]))
    >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
    (True, False)
    """
    if sparse.issparse(X):
        if not X.has_canonical_format:
            X = X.copy()  # the user's matrix stays as it is
            X.sum_duplicates()
        mixed = _mixed(X.data, X.indices)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        return sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    keys = np.empty(X.shape[0], dtype=np.uint64)
    step = max(1, 2**20 // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        keys[start : start + step] = _mixed(block, np.arange(X.shape[1])).sum(axis=1, dtype=np.uint64)
    return keys


def _mixed(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    mixed = _splitmix(bits ^ _splitmix(columns.astype(np.uint64) + np.uint64(1)))
    return np.where(values != 0, mixed, np.uint64(0))


def _splitmix(z: np.ndarray) -> np.ndarray:
    """The finaliser of the SplitMix64 generator (Steele, Lea and Flood 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True, eq=False)
class Likelihood:
    r"""Weighted negative log-likelihood of outputs F, an array (n_outputs, n, ...).

    .. math:: \sum_i m_i A(F_i) - \sum_i t_i^\top F_i

    with one output :math:`A(f) = \log(1+e^f)` (logistic), with several
    :math:`A(F) = \log\sum_k e^{F_k}` (softmax). Trailing axes are independent problems.

    Attributes
    ----------
    target : array (n_outputs, n)
        Weight of the class of each output on each point, t.
    total : array (n,)
        Weight of each point, m.
    """

    target: np.ndarray
    total: np.ndarray

    def value(self, F: np.ndarray) -> Any:
        """The loss; an array over the trailing axes of F."""
        if len(F) == 1:  # max(f, 0) - log(sigmoid(|f|)) is softplus, twice as fast as logaddexp
            size = np.abs(F[0])
            cumulant = (size + F[0]) / 2 - np.log(expit(size))
        else:
            cumulant = logsumexp(F, axis=0)
        linear = np.tensordot(self.target, F, axes=([0, 1], [0, 1]))
        return np.tensordot(self.total, cumulant, axes=(0, 0)) - linear

    def mean(self, F: np.ndarray) -> np.ndarray:
        """Probabilities, the derivative of A."""
        return expit(F) if len(F) == 1 else softmax(F, axis=0)

    def residual(self, P: np.ndarray) -> np.ndarray:
        """Derivative of the loss with respect to F, given probabilities P."""
        return self._total(P) * P - self.target.reshape(self.target.shape + (1,) * (P.ndim - 2))

    def weights(self, P: np.ndarray) -> np.ndarray:
        """Diagonal of the second derivative: m p (1 - p)."""
        return self._total(P) * P * (1 - P)

    def curved(self, P: np.ndarray, D: np.ndarray) -> np.ndarray:
        """Second derivative times D."""
        if len(P) == 1:
            return self.weights(P) * D
        return self._total(P) * P * (D - (P * D).sum(axis=0))

    def _total(self, P: np.ndarray) -> np.ndarray:
        return self.total.reshape((-1,) + (1,) * (P.ndim - 2))
