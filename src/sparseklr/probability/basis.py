r"""The span of a few kernel functions, and sums over all training points in coordinates that suit it.

With points :math:`B`, :math:`K_{BB} = LL^\top` and :math:`\phi(x) = L^{-1} k(B, x)`, a function
:math:`f = \sum_b \beta_b k(x_b, \cdot) = v^\top\phi` has the norm :math:`\|f\|^2 = \beta^\top K_{BB}
\beta = \|v\|^2`. A likelihood is fitted in the coordinates v and an intercept, which comes last.

The features :math:`\phi` of the training points need not be computed: what is asked for are products with
them, and those are products with the kernel columns :math:`k(B, x)` and triangular systems of the size of B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.linalg import qr
from scipy.linalg.lapack import dpstrf

from .. import _core
from ..data import DistinctPoints
from ..kernels import rounded
from ..threads import Map, threads_of
from .triangular import solve_lower

# Rows of a block of kernel columns, and the memory for columns that are kept rather than computed again.
_BLOCK = 2048
_KEEP_BYTES = 1 << 29
# So many rows of a triangular matrix make one product: of more rows most entries are zeros.
_ROWS_OF_INVERSE = 64
# Multiplications for which a thread is worth its start.
_WORTH_A_THREAD = 1_000_000


def independent(K: np.ndarray, tolerance: float = 1e-8) -> tuple[np.ndarray, np.ndarray]:
    """Positions of numerically independent points and the Cholesky factor L of their kernel matrix.

    Pivoted Cholesky: points whose residual is below ``tolerance`` times the largest diagonal entry
    add nothing (duplicates, and the tail of a kernel of low rank). Of equal pivots, such as the first of a
    kernel with k(x, x) = 1, the one of the largest row sum is taken: the result does not depend on the order.
    """
    scale = float(K.diagonal().max(initial=0.0))
    if scale <= 0:
        return np.empty(0, dtype=np.intp), np.empty((0, 0))
    order = np.argsort(-K.sum(axis=1), kind="stable")
    K = K.take(order, axis=0).take(order, axis=1)
    np.fill_diagonal(K, rounded(K.diagonal(), 40))  # equal but for rounding is equal
    factor, pivots, rank, _ = dpstrf(K, lower=True, tol=tolerance * scale)
    return order[pivots[:rank] - 1], np.tril(factor[:rank, :rank])


def row_blocks(n: int) -> list[slice]:
    """The blocks of rows in which everything is computed, whatever the number of threads."""
    return [slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]


def columns_fit(n: int, size: int) -> bool:
    """Whether so many kernel columns of so many points are kept in memory."""
    return 8 * n * size <= _KEEP_BYTES


class Basis:
    """The span of some of the points, with products over all points in blocks of rows.

    Parameters
    ----------
    points : DistinctPoints
    chosen : array of int
        The points B.
    L : array (len(chosen), len(chosen))
        Cholesky factor of their kernel matrix, in this order.
    map_ : callable
        Calls a function for every block, in order (:func:`~sparseklr.threads.ordered_threads`).
    columns : list of arrays, optional
        Blocks of k(x, B), where they are known. They are computed otherwise, and kept if there is room.
    whitened : bool
        The columns given are features L^-1 k(B, x) instead.
    """

    def __init__(
        self,
        points: DistinctPoints,
        chosen: np.ndarray,
        L: np.ndarray,
        map_: Map = map,
        columns: list[np.ndarray] | None = None,
        whitened: bool = False,
    ) -> None:
        self.points, self.chosen, self.map_ = points, chosen, map_
        self.L = np.ascontiguousarray(L)
        self.whitened, self._columns = whitened, columns
        if columns is None and columns_fit(len(points), self.size):
            self._columns = list(self._over_blocks(lambda rows, K: np.ascontiguousarray(K), 0))

    @classmethod
    def of(
        cls, points: DistinctPoints, chosen: np.ndarray, map_: Map = map, tolerance: float = 1e-8
    ) -> Basis:
        """The span of the given points, without those that depend on others (:func:`independent`)."""
        kept, L = independent(points.values(chosen, chosen), tolerance)
        return cls(points, chosen[kept], L, map_)

    def whiten(self) -> Basis:
        """The same with features instead of kernel columns, for many sums over few points."""
        if self._columns is None or self.whitened:
            return self
        columns = list(self._over_blocks(lambda _, K: self._from_left(K.T).T, self.size**2))
        return Basis(self.points, self.chosen, self.L, self.map_, columns, whitened=True)

    def whiten_if_few(self) -> Basis:
        """Features instead of kernel columns if one block holds all points."""
        return self.whiten() if len(self.points) <= _BLOCK else self

    @property
    def kept(self) -> list[np.ndarray] | None:
        """The blocks of columns, by rows, if they are kept; the compiled core makes products with them."""
        return self._columns

    @property
    def threads(self) -> int:
        return threads_of(self.map_)

    def part(self, positions: np.ndarray) -> Basis:
        """The span of some of the points, without another look at the kernel if columns are kept."""
        rows, columns = self.L[positions], None
        if self._columns is not None:
            pick = (lambda _, K: K @ rows.T) if self.whitened else (lambda _, K: K.take(positions, axis=1))
            columns = list(self._over_blocks(pick, self.size * (len(rows) if self.whitened else 1)))
        (R,) = qr(rows.T, mode="r", check_finite=False)
        L = R[: len(rows)].T
        return Basis(self.points, self.chosen[positions], L * np.sign(L.diagonal()), self.map_, columns)

    def turned(self, positions: np.ndarray, part: Basis, matrix: np.ndarray) -> np.ndarray:
        """A :meth:`curvature` of this basis as that of :meth:`part` at these positions."""
        T = np.zeros((part.size + 1, self.size + 1))
        T[:-1, :-1] = solve_lower(part.L, self.L[positions])
        T[-1, -1] = 1
        return T @ matrix @ T.T

    @property
    def size(self) -> int:
        return len(self.chosen)

    def _over_blocks(self, function: Callable[[slice, np.ndarray], Any], work: int) -> Iterable[Any]:
        """``function(rows, columns)`` of every block of rows, in order; ``work`` is what it does in a row."""
        kept = self._columns

        def call(rows: slice) -> Any:
            return function(
                rows, self.points.values(rows, self.chosen) if kept is None else kept[rows.start // _BLOCK]
            )

        # a kernel that is the user's own function is called by one thread at a time
        alone = callable(self.points.kernel.name) if kept is None else _BLOCK * work < _WORTH_A_THREAD
        return (map if alone else self.map_)(call, row_blocks(len(self.points)))

    # -- coordinates and coefficients -----------------------------------------------------------

    def coefficients(self, v: np.ndarray) -> np.ndarray:
        """beta of the chosen points (without the intercept ``v[-1]``)."""
        return solve_lower(self.L, v[:-1], trans=True)

    def coordinates(self, coef: np.ndarray, intercept: float) -> np.ndarray:
        """v of the function with these coefficients."""
        return np.append(self.L.T @ coef, intercept)

    # -- sums over the training points ----------------------------------------------------------

    def outputs(self, v: np.ndarray) -> np.ndarray:
        """f of all points, from coordinates v with the intercept last; v may have several columns."""
        coef = v[:-1] if self.whitened else self.coefficients(v)
        if self.kept is not None and v.ndim == 1:
            out = np.empty(len(self.points))
            _core.row_products(self.kept, coef, v[-1], out, self.threads)
            return out
        return np.concatenate(list(self._over_blocks(lambda rows, K: K @ coef, coef.size))) + v[-1]

    def project(self, e: np.ndarray) -> np.ndarray:
        """``sum_i e_i [phi(x_i), 1]``: the gradient of ``e @ outputs(v)`` in v; e may have columns."""
        out = np.zeros((self.size, *e.shape[1:]))
        if self.kept is not None and e.ndim == 1:
            _core.weighted_row_sum(self.kept, e, out, self.threads)
        else:
            for part in self._over_blocks(lambda rows, K: K.T @ e[rows], self.size):
                out += part
        return np.concatenate([self._from_left(out), e.sum(axis=0)[None]])

    def curvature(self, information: np.ndarray) -> np.ndarray:
        """``sum_i h_i [phi(x_i), 1] [phi(x_i), 1]'``; rows with h = 0 cost nothing."""
        root, some = np.sqrt(information), information > 0
        m = self.size

        def block(rows: slice, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            # rows with h = 0 add nothing; taking the others costs more than it saves if they are nearly all
            kept: Any = some[rows] if np.count_nonzero(some[rows]) < 0.9 * len(K) else slice(None)
            scale = root[rows][kept]
            scaled = K[kept] * scale[:, None]
            return scaled.T @ scaled, scale @ scaled

        H = np.zeros((m + 1, m + 1))
        for square, border in self._over_blocks(block, m * m):
            H[:m, :m] += square
            H[m, :m] += border
        if not self.whitened:
            H[:m, :m] = self._from_left(self._from_left(H[:m, :m]).T)
            H[m, :m] = self._from_left(H[m, :m])
        H[:m, m] = H[m, :m]
        H[m, m] = information.sum()
        return H

    def leverages(self, factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """``[phi, 1]' H^-1 [phi, 1]`` of the points at ``rows`` (a mask), H = factor factor'; 0 elsewhere.

        By products with the inverse of the factor, a few of its rows at a time: SciPy's triangular systems
        keep other threads waiting.
        """
        m = self.size
        inverse = solve_lower(factor, np.eye(m + 1))
        if not self.whitened and m:  # from kernel columns straight away
            inverse[:, :m] = solve_lower(self.L, inverse[:, :m].T, trans=True).T

        def block(part: slice, K: np.ndarray) -> np.ndarray:
            some, out = rows[part], np.zeros(len(K))
            K = K if some.all() else K[some]
            total = np.zeros(len(K))
            for first in range(0, m + 1, _ROWS_OF_INVERSE):
                end = min(first + _ROWS_OF_INVERSE, m + 1)
                half = K[:, :end] @ inverse[first:end, : min(end, m)].T
                half += inverse[first:end, m]
                total += np.einsum("ij,ij->i", half, half)
            out[some] = total
            return out

        return np.concatenate(list(self._over_blocks(block, m * m)))

    def features(self, indices: np.ndarray) -> np.ndarray:
        """``[phi, 1]`` of the given points, (len(indices), size + 1)."""
        out = np.ones((len(indices), self.size + 1))
        if self.whitened and self._columns is not None:
            out[:, :-1] = [self._columns[i // _BLOCK][i % _BLOCK] for i in indices]
        else:
            out[:, :-1] = self._from_left(self.points.values(indices, self.chosen).T).T
        return out

    def _from_left(self, columns: np.ndarray) -> np.ndarray:
        """L^-1 times vectors of products with kernel columns; what are features already stays."""
        if self.whitened or not self.size:
            return columns
        return solve_lower(self.L, columns)
