"""Products with the kernel matrix of all distinct points, and their likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp, softmax

from ..data import DistinctPoints
from ..kernels import cache_bytes


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
