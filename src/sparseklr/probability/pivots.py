r"""Points drawn from many by randomly pivoted Cholesky, and the bases that no label has a part in.

References
----------
Chen, Epperly, Tropp and Webber (2025), "Randomly pivoted Cholesky: practical approximation of a kernel matrix
with few entry evaluations", Communications on Pure and Applied Mathematics 78.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import DistinctPoints
from ..threads import Map
from .basis import Basis, columns_fit, independent, row_blocks
from .triangular import solve_lower

# Points drawn at once, and among how many points at most.
_DRAWN_AT_ONCE = 120
_CANDIDATES = 20_000
# Sizes of the label-free bases. Up to _ALL_AT_ONCE points there is one basis, of all of them; up to _FEW
# points one of _OF_FEW. (With 280 rows of each of the 12 sets the mean log-loss for 100, 140 and 200 points
# was the same within 0.2%; with 700 rows that for 100 was .994 of that for 300, in two thirds of the time.
# With 100 of up to 250 points sonar loses 12%.)
SIZES = 100, 300
_ALL_AT_ONCE = 300
_OF_FEW, _FEW = 120, 1500


class RandomPivots:
    """Points and the Cholesky factor of their kernel matrix, with the features of all points; they grow.

    A point is drawn with probability proportional to what the points drawn before leave of its kernel
    function: spread out, but not after outliers. Weights and labels play no part.

    Attributes
    ----------
    chosen : array of int
    L : array (len(chosen), len(chosen))
    blocks : list of arrays (rows of a block, at least len(chosen))
        Features L^-1 k(B, x) of all points.
    """

    def __init__(self, points: DistinctPoints, rng: np.random.Generator, map_: Map = map) -> None:
        self.points, self.rng = points, rng
        self.map_ = map if callable(points.kernel.name) else map_
        self.chosen, self.L = np.empty(0, dtype=np.intp), np.empty((0, 0))
        self.slices = row_blocks(len(points))
        self.blocks = [np.empty((rows.stop - rows.start, 0)) for rows in self.slices]
        self.residual = np.maximum(points.diagonal(), 0.0)
        self.floor = 1e-6 * self.residual.max(initial=0.0)

    def grow(self, size: int) -> None:
        """Draw more points until there are ``size`` of them, or nothing is left to draw."""
        m, drawn_in_vain = len(self.chosen), False
        self._make_room(size)
        while m < size and self.residual.max(initial=0.0) > self.floor and not drawn_in_vain:
            share = self.residual / self.residual.sum()
            most = min(_DRAWN_AT_ONCE, size - m, int(np.count_nonzero(share)))
            drawn = np.sort(self.rng.choice(len(share), most, replace=False, p=share))
            # of the points drawn, those that are not nearly in the span of the rest
            before = np.array([self.blocks[i // self._step][i % self._step, :m] for i in drawn])
            left = self.points.values(drawn, drawn) - before @ before.T
            kept, corner = independent(left, tolerance=1e-3)
            if drawn_in_vain := not len(kept):  # a kernel that is not positive semidefinite
                break
            self._add(m, drawn[kept], before[kept], corner)
            m += len(kept)
        self.L = self.L[:m, :m]

    @property
    def _step(self) -> int:
        return self.slices[0].stop

    def _make_room(self, size: int) -> None:
        m = len(self.chosen)
        L, blocks = np.zeros((size, size)), [np.empty((len(block), size)) for block in self.blocks]
        L[:m, :m] = self.L
        for new, old in zip(blocks, self.blocks, strict=True):
            new[:, :m] = old[:, :m]
        self.L, self.blocks = L, blocks

    def _add(self, m: int, drawn: np.ndarray, before: np.ndarray, corner: np.ndarray) -> None:
        """Add points: ``before`` are their features so far, ``corner`` the factor of what is left of them."""
        end, inverse = m + len(drawn), solve_lower(corner, np.eye(len(drawn)))

        def extend(rows: slice, block: np.ndarray) -> None:
            rest = self.points.values(rows, drawn) - block[:, :m] @ before.T
            new = rest @ inverse.T
            block[:, m:end] = new
            left = self.residual[rows] - np.einsum("ij,ij->i", new, new)
            self.residual[rows] = np.maximum(left, 0.0)

        list(self.map_(extend, self.slices, self.blocks))
        self.L[m:end, :m], self.L[m:end, m:end] = before, corner
        self.chosen = np.append(self.chosen, drawn)
        self.residual[self.chosen] = 0.0


def random_basis(
    points: DistinctPoints,
    among: np.ndarray,
    size: int,
    rng: np.random.Generator,
    map_: Map = map,
    tolerance: float = 1e-8,
) -> Basis:
    """The span of ``size`` of the given points by randomly pivoted Cholesky, or of all if they are fewer."""
    if len(among) > size:
        if len(among) > _CANDIDATES:
            among = np.sort(rng.choice(among, _CANDIDATES, replace=False))
        pivots = RandomPivots(points.part(among), rng, map_)
        pivots.grow(size)
        among = among[pivots.chosen]
    return Basis.of(points, among, map_, tolerance)


class LabelFreeBases(Sequence[Basis]):
    """Bases of 100 and 300 points, each the beginning of the next, made when first asked for.

    Of up to 1500 points there is one basis of 120 of them, of up to 300 one of all.
    """

    def __init__(self, points: DistinctPoints, rng: np.random.Generator, map_: Map = map) -> None:
        n = len(points)
        self.points, self.map_ = points, map_
        self.sizes = [n] if n <= _ALL_AT_ONCE else [_OF_FEW] if n <= _FEW else list(SIZES)
        self._bases: list[Basis] = []
        self._lock = threading.Lock()  # outputs may ask in several threads
        self._some: Any = None
        if n > _CANDIDATES and not columns_fit(n, self.sizes[-1]):  # a part shows as well where points are
            self._some = np.sort(rng.choice(n, _CANDIDATES, replace=False))
        self._pivots = RandomPivots(points if self._some is None else points.part(self._some), rng, map_)

    def __len__(self) -> int:
        return len(self.sizes)

    def without_between(self, size: int) -> Sequence[Basis]:
        """The smallest basis, and those of at least this size."""
        made = [basis for basis in self._bases if basis.size >= size]
        return [self[0], *made] if made[0] is not self[0] else made

    def __getitem__(self, level: Any) -> Any:
        level = range(len(self.sizes))[level]
        with self._lock:
            while len(self._bases) <= level:
                self._bases.append(self._grown(self.sizes[len(self._bases)]))
        return self._bases[level]

    def _grown(self, size: int) -> Basis:
        pivots = self._pivots
        if size == len(self.points):
            return self._of_all()  # in one block
        pivots.grow(size)
        if self._some is not None:
            return Basis(self.points, self._some[pivots.chosen], pivots.L, self.map_)
        m = len(pivots.chosen)
        columns = [np.ascontiguousarray(block[:, :m]) for block in pivots.blocks]
        return Basis(self.points, pivots.chosen, pivots.L, self.map_, columns, whitened=True)

    def _of_all(self) -> Basis:
        """The span of all points: the features of those that it is made of are the rows of L."""
        everything = np.arange(len(self.points))
        K = self.points.values(everything, everything)
        kept, L = independent(K)
        features = np.empty((len(K), len(L)))
        features[kept] = L
        if len(kept) < len(K):
            rest = np.setdiff1d(everything, kept)
            features[rest] = solve_lower(L, K[np.ix_(kept, rest)]).T if len(L) else 0.0
        return Basis(self.points, kept, L, self.map_, [features], whitened=True)
