r"""The span of a few kernel functions, as well-conditioned features of all training points.

With points :math:`B`, :math:`K_{BB} = LL^\top` and :math:`\phi(x) = L^{-1} k(B, x)`, a function
:math:`f = \sum_b \beta_b k(x_b, \cdot) = v^\top\phi` has the norm :math:`\|f\|^2 = \beta^\top K_{BB}
\beta = \|v\|^2`. The features :math:`\phi` of the training points are what every likelihood is fitted on.

Of many points a few are drawn by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber, "Randomly
pivoted Cholesky: practical approximation of a kernel matrix with few entry evaluations", Communications on
Pure and Applied Mathematics 78, 2025), whose factor *is* the matrix of these features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpstrf

from ..data import DistinctPoints
from ..kernels import rounded
from ..threads import Map

# Rows of a block of features, and the memory for features that are kept rather than computed again.
_BLOCK = 2048
_KEEP_BYTES = 1 << 29
# Points drawn at once, and among how many points at most.
_DRAWN_AT_ONCE = 64
_CANDIDATES = 20_000
# Up to so many points the label-free basis is all of them; of more, so many are drawn.
ALL_POINTS = 800
LABEL_FREE_POINTS = 300


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
    K = K[np.ix_(order, order)]
    np.fill_diagonal(K, rounded(K.diagonal(), 40))  # equal but for rounding is equal
    factor, pivots, rank, _ = dpstrf(K, lower=True, tol=tolerance * scale)
    return order[pivots[:rank] - 1], np.tril(factor[:rank, :rank])


def _slices(n: int) -> list[slice]:
    return [slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]


def _fits(n: int, size: int) -> bool:
    return 8 * n * (size + 1) <= _KEEP_BYTES


class Basis:
    """The span of some of the points: features ``[L^-1 k(B, x), 1]`` of all points, in blocks of rows.

    Parameters
    ----------
    points : DistinctPoints
    chosen : array of int
        The points B.
    L : array (len(chosen), len(chosen))
        Cholesky factor of their kernel matrix, in this order.
    map_ : callable
        Calls a function for every block, in order (:func:`~sparseklr.threads.ordered_threads`).
    blocks : list of arrays, optional
        The features, where they are known. They are computed otherwise, and kept if there is room.
    """

    def __init__(
        self,
        points: DistinctPoints,
        chosen: np.ndarray,
        L: np.ndarray,
        map_: Map = map,
        blocks: list[np.ndarray] | None = None,
    ) -> None:
        self.points, self.chosen, self.L, self.map_ = points, chosen, L, map_
        self._kept = blocks
        if blocks is None and _fits(len(points), self.size):
            self._kept = list(self._map_rows(self._features))

    @classmethod
    def of(cls, points: DistinctPoints, chosen: np.ndarray, map_: Map = map) -> Basis:
        """The span of the given points, without those that depend on others."""
        kept, L = independent(points.values(chosen, chosen))
        return cls(points, chosen[kept], L, map_)

    def nested(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Q and L' such that the first s points in this order have the features of all times ``Q[:, :s]``.

        ``L'[:s, :s]`` is the factor of their kernel matrix. With ``L[order] = L' Q'`` (a QR factorisation)
        both follow from ``k(B, x) = L phi(x)``; Q is orthogonal.
        """
        Q, R = qr(self.L[order].T, check_finite=False)
        return Q, R.T

    def part(self, order: np.ndarray, Q: np.ndarray, L: np.ndarray) -> Basis:
        """The span of the first points of :meth:`nested`, as many as Q has columns; needs no kernel value."""
        size, blocks = Q.shape[1], None
        if self._kept is not None:
            turn = np.zeros((self.size + 1, size + 1))
            turn[:-1, :-1], turn[-1, -1] = Q, 1
            blocks = list(self.map_blocks(lambda rows, A: np.asfortranarray(A @ turn)))
        return Basis(self.points, self.chosen[order[:size]], L[:size, :size], self.map_, blocks)

    @property
    def size(self) -> int:
        return len(self.chosen)

    def _map_rows(self, function: Callable[[slice], Any]) -> Iterable[Any]:
        # a kernel that is the user's own function is called by one thread at a time
        map_ = map if self._kept is None and callable(self.points.kernel.name) else self.map_
        return map_(function, _slices(len(self.points)))

    def _features(self, rows: slice) -> np.ndarray:
        K = self.points.values(rows, self.chosen)
        out = np.empty((K.shape[0], self.size + 1), order="F")
        out[:, -1] = 1
        if self.size:
            out[:, :-1] = solve_triangular(self.L, K.T, lower=True, check_finite=False).T
        return out

    def map_blocks(self, function: Callable[[slice, np.ndarray], Any]) -> Iterable[Any]:
        """``function(rows, features)`` of every block of rows, in order."""

        def call(rows: slice) -> Any:
            kept = self._kept
            return function(rows, self._features(rows) if kept is None else kept[rows.start // _BLOCK])

        return self._map_rows(call)

    def outputs(self, v: np.ndarray) -> np.ndarray:
        """f of all points, from coordinates v with the intercept last."""
        return np.concatenate(list(self.map_blocks(lambda rows, A: A @ v)))

    def coefficients(self, v: np.ndarray) -> np.ndarray:
        """beta of the chosen points (without the intercept ``v[-1]``)."""
        return solve_triangular(self.L, v[:-1], lower=True, trans="T", check_finite=False)


def random_basis(
    points: DistinctPoints, among: np.ndarray, size: int, rng: np.random.Generator, map_: Map = map
) -> Basis:
    """The span of ``size`` of the given points by randomly pivoted Cholesky, or of all if they are fewer.

    A point is drawn with probability proportional to what the points drawn before leave of its kernel
    function: spread out, but not after outliers. Weights and labels play no part.
    """
    if len(among) <= size:
        return Basis.of(points, among, map_)
    n = len(points)
    if n > _CANDIDATES and not _fits(n, size):  # a part of the points shows as well where they are
        some = np.sort(rng.choice(among, min(len(among), _CANDIDATES), replace=False))
        of_some = random_basis(points.part(some), np.arange(len(some)), size, rng, map_)
        return Basis.of(points, some[of_some.chosen], map_)
    blocks = [np.empty((part.stop - part.start, size + 1), order="F") for part in _slices(n)]
    residual = np.maximum(points.diagonal(), 0.0)
    floor = 1e-6 * residual[among].max()
    chosen, L = np.empty(0, dtype=np.intp), np.zeros((size, size))
    while (m := len(chosen)) < size and (left := residual[among]).max() > floor:
        drawn = among[np.unique(rng.choice(len(among), min(_DRAWN_AT_ONCE, size - m), p=left / left.sum()))]
        # of the points drawn, those that are not nearly in the span of the rest
        before = np.array([blocks[i // _BLOCK][i % _BLOCK, :m] for i in drawn])
        kept, corner = independent(points.values(drawn, drawn) - before @ before.T, tolerance=1e-3)
        if not len(kept):  # a kernel that is not positive semidefinite
            break
        drawn, before = drawn[kept], before[kept]
        extend = partial(_extend, points, drawn, before, corner, residual)
        list((map if callable(points.kernel.name) else map_)(extend, _slices(n), blocks))
        L[m : m + len(kept), :m], L[m : m + len(kept), m : m + len(kept)] = before, corner
        chosen = np.append(chosen, drawn)
        residual[chosen] = 0.0
    m = len(chosen)
    for block in blocks:
        block[:, m] = 1
    return Basis(points, chosen, L[:m, :m], map_, [block[:, : m + 1] for block in blocks])


def _extend(
    points: DistinctPoints,
    drawn: np.ndarray,
    before: np.ndarray,
    L: np.ndarray,
    residual: np.ndarray,
    rows: slice,
    block: np.ndarray,
) -> None:
    """Add the features of the points drawn to a block of rows, and take them from its residual.

    ``before`` are the features that the points drawn have so far, L is the factor of what is left of them.
    """
    m = before.shape[1]
    rest = points.values(rows, drawn) - block[:, :m] @ before.T
    new = solve_triangular(L, rest.T, lower=True, check_finite=False).T
    block[:, m : m + len(drawn)] = new
    residual[rows] = np.maximum(residual[rows] - np.einsum("ij,ij->i", new, new), 0.0)


def label_free_basis(points: DistinctPoints, rng: np.random.Generator, map_: Map = map) -> Basis:
    """The basis on which C is chosen: all points, or a few hundred drawn without looking at labels."""
    n = len(points)
    return random_basis(points, np.arange(n), ALL_POINTS if n <= ALL_POINTS else LABEL_FREE_POINTS, rng, map_)
