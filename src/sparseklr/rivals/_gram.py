"""Products with the kernel matrix of all distinct points."""

from __future__ import annotations

import numpy as np

from ..data import DistinctPoints
from ..kernels import cache_bytes


class Gram:
    """Products with the kernel matrix of all points, kept in memory where it fits.

    The matrix of more than a few thousand points is kept in float32. These products only rank coordinates;
    what enters the model is computed from exact columns.
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

    def _rows(self, block: slice) -> np.ndarray:
        X, kernel = self.points.X, self.points.kernel
        single = X if callable(kernel.name) else X.astype(np.float32)
        return kernel.matrix(single[block], single, n_jobs=self.points.n_jobs)

    def product(self, r: np.ndarray, exact: bool = False) -> np.ndarray:
        """K r; ``exact`` asks for float64 throughout."""
        if self.matrix is not None and not (exact and self.matrix.dtype == np.float32):
            return (self.matrix @ r.astype(self.matrix.dtype)).astype(np.float64)
        points = self.points
        queries = points.X.astype(np.float64)
        return points.kernel.sum(queries, queries, r[None, :], n_jobs=points.n_jobs)[:, 0]

    def spread(self, total: np.ndarray, centred: bool) -> np.ndarray:
        """``sum_i m_i (K_ij - mean_j)^2`` for every column j; without the mean if not centred.

        From exact columns. A nearly constant one counts as if a share of 1e-9 of it varied, one of zeros as
        1: it has no slope.
        """
        spread, share = np.empty(len(total)), total / total.sum()
        for start in range(0, len(total), 512):
            block = np.arange(start, min(start + 512, len(total)))
            K = self.points.columns(block)
            least = 1e-9 * (total @ K**2)
            if centred:
                K -= share @ K
            spread[block] = np.maximum(total @ K**2, least)
        return np.where(spread > 0, spread, 1.0)
