r"""Functions in the span of a few kernel functions, and the random choice of these kernel functions.

Let B be a set of training points, :math:`K_{BB} = LL^\top` the Cholesky factorisation of their kernel matrix
and :math:`\phi(x) = L^{-1} k(B, x)`. A function :math:`f = \sum_b \beta_b k(x_b, \cdot) = v^\top\phi` has the
squared norm :math:`\|f\|^2 = \beta^\top K_{BB} \beta = \|v\|^2`. Likelihoods are therefore maximised over the
coordinates v and an intercept, which is the last entry of the coordinate vector. The features
:math:`\phi(x)` need not be stored: a product with them is a product with the kernel columns
:math:`k(x, B)`, followed or preceded by a triangular solve.

Random bases are drawn by randomly pivoted Cholesky. They are label-free: the labels do not influence which
points are drawn.

References
----------
Chen, Epperly, Tropp and Webber (2025), "Randomly pivoted Cholesky: practical approximation of a kernel matrix
with few entry evaluations", Communications on Pure and Applied Mathematics 78.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import qr
from scipy.linalg.blas import dtrsm, dtrsv
from scipy.linalg.lapack import dpstrf, dtrtri

from .. import _core
from .._utils.threads import Map, threads_of
from ..kernels import rounded
from ..samples import DistinctPoints

# Number of rows in a block of kernel columns. With 10,000 points there are ten blocks, five for each of two
# threads.
_BLOCK = 1024
# Up to this number of training points, :meth:`Basis.whiten_if_few` stores features instead of kernel columns.
_FEW_POINTS = 2048
# Kernel columns are kept in memory if they need at most this number of bytes.
_KEEP_BYTES = 1 << 29
# A product with a triangular matrix is computed for this number of its rows at a time. Larger blocks would
# multiply more zeros.
_ROWS_OF_INVERSE = 64
# Newton matrices are computed in float32 if C * max k(x, x) * (total weight) is below this number.
_LARGEST_IN_SINGLE = 1e6
# Threads are used for at least this number of multiplications.
_WORTH_A_THREAD = 1_000_000


def independent(K: np.ndarray, tolerance: float = 1e-8) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of numerically independent points and the Cholesky factor L of their kernel matrix.

    K is the kernel matrix of all points. Pivoted Cholesky drops a point, for example a duplicate, if its
    residual is below ``tolerance`` times the largest diagonal entry of K. Among equal pivots the function
    takes the point with the largest row sum of K. The result therefore does not depend on the order of the
    points.
    """
    scale = float(K.diagonal().max(initial=0.0))
    if scale <= 0:
        return np.empty(0, dtype=np.intp), np.empty((0, 0))
    order = np.argsort(-K.sum(axis=1), kind="stable")
    K = K.take(order, axis=0).take(order, axis=1)
    np.fill_diagonal(K, rounded(K.diagonal(), 40))  # equalise entries that differ only by rounding errors
    factor, pivots, rank, _ = dpstrf(K, lower=True, tol=tolerance * scale)
    return order[pivots[:rank] - 1], np.tril(factor[:rank, :rank])


def row_blocks(n: int) -> list[slice]:
    """Return slices that divide n rows into blocks of 1024, whatever the number of threads."""
    return [slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]


def columns_fit(n: int, size: int) -> bool:
    """Return whether ``size`` kernel columns with ``n`` entries each may be kept in memory."""
    return 8 * n * size <= _KEEP_BYTES


class Basis:
    """The span of the kernel functions of the basis points B, a subset of the training points.

    The methods compute sums over all training points, one block of rows at a time.

    Parameters
    ----------
    points : DistinctPoints
        All training points.
    chosen : array of int
        Indices of the basis points B in ``points``.
    L : array (len(chosen), len(chosen))
        Cholesky factor of the kernel matrix of the basis points.
    map_ : callable
        The built-in ``map``, or its threaded version from
        :func:`~sparseklr._utils.threads.ordered_threads`.
    columns : list of arrays, optional
        The kernel values k(x, B) of all points x, in blocks of rows. By default they are computed, and kept
        if they need at most 512 MiB.
    whitened : bool
        Whether ``columns`` contain the features L^-1 k(B, x) instead of kernel values.
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
        """Return the span of the points ``chosen``, without the points that :func:`independent` drops."""
        kept, L = independent(points.values(chosen, chosen), tolerance)
        return cls(points, chosen[kept], L, map_)

    def whiten(self) -> Basis:
        """Return the same basis with stored features instead of stored kernel columns.

        This saves the triangular solves, which is worthwhile if many sums over few points follow.
        """
        if self._columns is None or self.whitened:
            return self
        columns = list(self._over_blocks(lambda _, K: self._from_left(K.T).T, self.size**2))
        return Basis(self.points, self.chosen, self.L, self.map_, columns, whitened=True)

    def whiten_if_few(self) -> Basis:
        """Return a copy with stored features if there are at most 2,048 training points, else ``self``."""
        return self.whiten() if len(self.points) <= _FEW_POINTS else self

    @property
    def kept(self) -> list[np.ndarray] | None:
        """The stored blocks of kernel columns or features in row-major order; None if nothing is stored."""
        return self._columns

    @property
    def threads(self) -> int:
        """Number of threads that ``map_`` uses."""
        return threads_of(self.map_)

    def part(self, positions: np.ndarray) -> Basis:
        """Return the span of the basis points at ``positions``; stored columns are reused."""
        rows, columns = self.L[positions], None
        if self._columns is not None:
            pick = (lambda _, K: K @ rows.T) if self.whitened else (lambda _, K: K.take(positions, axis=1))
            columns = list(self._over_blocks(pick, self.size * (len(rows) if self.whitened else 1)))
        (R,) = qr(rows.T, mode="r", check_finite=False)
        L = R[: len(rows)].T
        return Basis(self.points, self.chosen[positions], L * np.sign(L.diagonal()), self.map_, columns)

    def projection(self, positions: np.ndarray, part: Basis) -> np.ndarray:
        """Return the matrix that maps the coordinates of a function to the coordinates of its projection.

        The function is projected onto the span of ``part``, which is ``self.part(positions)``. The intercept
        is unchanged.
        """
        T = np.zeros((part.size + 1, self.size + 1))
        T[:-1, :-1] = solve_lower(part.L, self.L[positions])
        T[-1, -1] = 1
        return T

    @property
    def size(self) -> int:
        """Number of basis points."""
        return len(self.chosen)

    @cached_property
    def largest(self) -> float:
        """The largest k(x, x) over the basis points."""
        return float(np.einsum("ij,ij->i", self.L, self.L).max(initial=0.0))

    @property
    def precision(self) -> type:
        """The data type for approximate products: float32 if it can represent the kernel values."""
        return np.float32 if 1e-30 < self.largest < 1e30 else np.float64

    def precision_at(self, C: float) -> type:
        """The data type of Newton matrices: float32 if its rounding errors are far below the ridge 1/C.

        The entries of the curvature are at most a quarter of the product of the total weight and k(x, x), so
        the rounding errors of float32 are proportional to this product. A basis of raw kernel columns always
        uses float64, because these columns are nearly linearly dependent; only a whitened basis may use
        float32.
        """
        small = C * self.largest * float(self.points.weight.sum()) < _LARGEST_IN_SINGLE
        return self.precision if self.whitened and small else np.float64

    @cached_property
    def _single(self) -> list[np.ndarray] | None:
        """The stored kernel columns or features in float32; None if nothing is stored."""
        return None if self._columns is None else [block.astype(np.float32) for block in self._columns]

    def _over_blocks(
        self, function: Callable[[slice, np.ndarray], Any], work: int, single: bool = False
    ) -> Iterable[Any]:
        """Return ``function(rows, columns)`` of every block, in order.

        ``rows`` is the slice of the block and ``columns`` contains its kernel columns or features, in float32
        if ``single``. The number ``work`` of multiplications per row decides whether threads are used.
        """
        kept = self._single if single else self._columns

        def call(rows: slice) -> Any:
            if kept is not None:
                return function(rows, kept[rows.start // _BLOCK])
            K = self.points.values(rows, self.chosen)
            return function(rows, K.astype(np.float32) if single else K)

        # A user's kernel function is called by one thread at a time.
        alone = callable(self.points.kernel.name) if kept is None else _BLOCK * work < _WORTH_A_THREAD
        return (map if alone else self.map_)(call, row_blocks(len(self.points)))

    # -- coordinates and coefficients -----------------------------------------------------------

    def coefficients(self, v: np.ndarray) -> np.ndarray:
        """Return the coefficients beta of the basis points, without the intercept.

        If v is a matrix, each of its columns gives one column of coefficients.
        """
        return solve_lower(self.L, v[:-1], trans=True).astype(v.dtype, copy=False)

    def coordinates(self, coef: np.ndarray, intercept: Any) -> np.ndarray:
        """Return the coordinates v of the function with the given coefficients and intercept.

        If ``coef`` is a matrix, each of its columns is one function and gives one column of coordinates.
        """
        return np.concatenate([self.L.T @ coef, np.asarray(intercept)[None]])

    # -- sums over the training points ----------------------------------------------------------

    def outputs(self, v: np.ndarray) -> np.ndarray:
        """Return the values f(x) of all training points for the function with the coordinates v.

        The last entry of v is the intercept. Further axes of v contain further functions. If v is a matrix in
        float32, the products are computed in float32, as in :meth:`project`.
        """
        if v.ndim > 2:
            return self.outputs(v.reshape(len(v), -1)).reshape(-1, *v.shape[1:])
        coef = v[:-1] if self.whitened else self.coefficients(v)
        if self.kept is not None and v.ndim == 1:
            out = np.empty(len(self.points))
            _core.row_products(self.kept, coef, v[-1], out, self.threads)
            return out
        blocks = self._over_blocks(lambda rows, K: K @ coef, coef.size, single=v.dtype == np.float32)
        return np.concatenate(list(blocks)) + v[-1]

    def project(self, e: np.ndarray) -> np.ndarray:
        """Return ``sum_i e_i [phi(x_i), 1]``, the gradient of ``e @ outputs(v)`` with respect to v.

        Further axes of e give further sums.
        """
        if e.ndim > 2:
            return self.project(e.reshape(len(e), -1)).reshape(-1, *e.shape[1:])
        out = np.zeros((self.size, *e.shape[1:]), dtype=e.dtype)
        if self.kept is not None and e.ndim == 1:
            _core.weighted_row_sum(self.kept, e, out, self.threads)
        else:
            for part in self._over_blocks(lambda rows, K: K.T @ e[rows], self.size, e.dtype == np.float32):
                out += part
        return np.concatenate([self._from_left(out), e.sum(axis=0)[None]])

    def product(self, information: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``f = outputs(v)`` and ``project(information * f)``, computed in a single pass."""
        coef = v[:-1] if self.whitened else self.coefficients(v)
        out = np.zeros(self.size)

        def block(rows: slice, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            f = K @ coef + v[-1]
            return f, K.T @ (information[rows] * f)

        blocks = []
        for f, part in self._over_blocks(block, 2 * self.size):
            blocks.append(f)
            out += part
        f = np.concatenate(blocks)
        return f, np.append(self._from_left(out), information @ f)

    def curvature(self, information: np.ndarray) -> np.ndarray:
        """Return ``sum_i h_i [phi(x_i), 1] [phi(x_i), 1]'``, where h is ``information``.

        Training points with h_i = 0 are skipped. If ``information`` has the type float32, the products are
        computed in float32.
        """
        root, positive = np.sqrt(information), information > 0
        m = self.size

        def block(rows: slice, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            # Skipping rows copies the other rows, so it saves time only if more than 10% are skipped.
            kept: Any = positive[rows] if np.count_nonzero(positive[rows]) < 0.9 * len(K) else slice(None)
            scale = root[rows][kept]
            scaled = K[kept] * scale[:, None]
            return scaled.T @ scaled, scale @ scaled

        H = np.zeros((m + 1, m + 1))
        for square, border in self._over_blocks(block, m * m, single=information.dtype == np.float32):
            H[:m, :m] += square
            H[m, :m] += border
        if not self.whitened:
            H[:m, :m] = self._from_left(self._from_left(H[:m, :m]).T)
            H[m, :m] = self._from_left(H[m, :m])
        H[:m, m] = H[m, :m]
        H[m, m] = information.sum(dtype=np.float64)
        return H

    def leverages(self, factor: np.ndarray, rows: np.ndarray, precision: type = np.float64) -> np.ndarray:
        """Return ``[phi(x), 1]' H^-1 [phi(x), 1]`` of every point x in the mask ``rows``, and 0 elsewhere.

        Products are computed in the data type ``precision``. H is ``factor factor'`` with a lower triangular
        factor. The method multiplies by the inverse of the factor, because SciPy's triangular solves would
        block other threads.
        """
        m = self.size
        upper, _ = dtrtri(factor.T, lower=0)
        inverse = upper.T
        if not self.whitened and m:  # apply L^-1 to the inverse rather than to the kernel columns
            inverse[:, :m] = solve_lower(self.L, inverse[:, :m].T, trans=True).T
        inverse = inverse.astype(precision, copy=False)

        def block(part: slice, K: np.ndarray) -> np.ndarray:
            mask, out = rows[part], np.zeros(len(K))
            K = K if mask.all() else K[mask]
            total = np.zeros(len(K))
            for first in range(0, m + 1, _ROWS_OF_INVERSE):
                end = min(first + _ROWS_OF_INVERSE, m + 1)
                half = K[:, :end] @ inverse[first:end, : min(end, m)].T
                half += inverse[first:end, m]
                total += np.einsum("ij,ij->i", half, half)
            out[mask] = total
            return out

        return np.concatenate(list(self._over_blocks(block, m * m, single=precision is np.float32)))

    def features(self, indices: np.ndarray) -> np.ndarray:
        """Return ``[phi(x), 1]`` of the given points as an array of shape (len(indices), size + 1)."""
        out = np.ones((len(indices), self.size + 1))
        if self.whitened and self._columns is not None:
            out[:, :-1] = [self._columns[i // _BLOCK][i % _BLOCK] for i in indices]
        else:
            out[:, :-1] = self._from_left(self.points.values(indices, self.chosen).T).T
        return out

    def _from_left(self, columns: np.ndarray) -> np.ndarray:
        """Return ``L^-1 columns``, or ``columns`` unchanged if they already are sums of features."""
        if self.whitened or not self.size:
            return columns
        return solve_lower(self.L, columns).astype(columns.dtype, copy=False)


# -- random bases -------------------------------------------------------------------------------

# Number of points drawn at once.
_DRAWN_AT_ONCE = 120
# Points are drawn from a random subset if there are more candidates than this.
_CANDIDATES = 20_000
# Sizes of the nested label-free bases.
SIZES = 100, 300, 1000, 3000
# Up to this number of training points, a single basis contains all of them.
ALL_AT_ONCE = 300
# Bases are not larger than these limits allow: the number of coefficients, and the number of multiplications
# needed to compute a Newton matrix.
MOST_COEFFICIENTS, MOST_PRODUCTS = 3000, 40_000_000_000


class RandomPivots:
    r"""Basis points drawn by randomly pivoted Cholesky; :meth:`grow` draws more of them.

    A point is drawn with a probability proportional to its residual :math:`k(x, x) - \|\phi(x)\|^2` given
    the points drawn before. This rule spreads the basis points over the data without preferring outliers.

    Attributes
    ----------
    chosen : array of int
        Indices of the points B drawn so far.
    L : array (len(chosen), len(chosen))
        Cholesky factor of the kernel matrix of B.
    blocks : list of arrays (n_rows, at least len(chosen))
        Features L^-1 k(B, x) of all points x, in blocks of rows.
    residual : array (n_points,)
        Residual of every point given B.
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
        """Draw points until the basis has ``size`` points, or until all residuals are negligible."""
        m = len(self.chosen)
        self._reserve(size)
        while m < size and self.residual.max(initial=0.0) > self.floor:
            probability = self.residual / self.residual.sum()
            most = min(_DRAWN_AT_ONCE, size - m, int(np.count_nonzero(probability)))
            drawn = np.sort(self.rng.choice(len(probability), most, replace=False, p=probability))
            # Drop drawn points whose kernel functions are nearly in the span of other kernel functions.
            before = self._features(drawn, m)
            left = self.points.values(drawn, drawn) - before @ before.T
            kept, corner = independent(left, tolerance=1e-3)
            if not len(kept):  # the kernel is not positive semidefinite
                break
            self._add(m, drawn[kept], before[kept], corner)
            m += len(kept)
        self.L = self.L[:m, :m]

    def _features(self, indices: np.ndarray, m: int) -> np.ndarray:
        """Return the first m features of the points with the given indices."""
        block, row = np.divmod(indices, self.slices[0].stop)
        out = np.empty((len(indices), m))
        for each in np.unique(block):
            here = block == each
            out[here] = self.blocks[each][row[here], :m]
        return out

    def _reserve(self, size: int) -> None:
        """Enlarge the arrays ``L`` and ``blocks`` for ``size`` basis points."""
        m = len(self.chosen)
        L, blocks = np.zeros((size, size)), [np.empty((len(block), size)) for block in self.blocks]
        L[:m, :m] = self.L
        for new, old in zip(blocks, self.blocks, strict=True):
            new[:, :m] = old[:, :m]
        self.L, self.blocks = L, blocks

    def _add(self, m: int, drawn: np.ndarray, before: np.ndarray, corner: np.ndarray) -> None:
        """Add the points ``drawn`` to a basis of m points, and update features and residuals.

        ``before`` contains the m features of these points, ``corner`` the Cholesky factor of their residual
        kernel matrix.
        """
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
    """Return a basis of at most ``size`` points, chosen from those whose indices are in ``among``.

    If ``among`` contains more points, randomly pivoted Cholesky draws ``size`` of them.
    """
    if len(among) > size:
        if len(among) > _CANDIDATES:
            among = np.sort(rng.choice(among, _CANDIDATES, replace=False))
        pivots = RandomPivots(points.part(among), rng, map_)
        pivots.grow(size)
        among = among[pivots.chosen]
    return Basis.of(points, among, map_, tolerance)


class LabelFreeBases(Sequence[Basis]):
    """A sequence of nested random bases, which do not depend on the labels.

    The bases have 100, 300, 1000 and 3000 points by default, as far as ``MOST_COEFFICIENTS`` and
    ``MOST_PRODUCTS`` allow. Each basis is computed on first access. Up to 300 training points, the sequence
    has a single basis, which contains all of them.
    """

    def __init__(
        self,
        points: DistinctPoints,
        rng: np.random.Generator,
        map_: Map = map,
        sizes: Sequence[int] = SIZES,
    ) -> None:
        n = len(points)
        self.points, self.map_ = points, map_
        n_outputs = points.weight.shape[1] if points.weight.shape[1] > 2 else 1
        most = min(MOST_COEFFICIENTS / n_outputs, (MOST_PRODUCTS / max(n, 1)) ** 0.5)
        few = [size for size in sizes if size <= most] or sizes[:1]
        self.sizes = [n] if n <= ALL_AT_ONCE else sorted({min(size, n) for size in few})
        self._bases: list[Basis] = []
        self._lock = threading.Lock()  # different threads may access the bases
        self._sample: Any = None
        if n > _CANDIDATES and not columns_fit(n, self.sizes[-1]):  # draw from a random sample
            self._sample = np.sort(rng.choice(n, _CANDIDATES, replace=False))
        self._pivots = RandomPivots(points if self._sample is None else points.part(self._sample), rng, map_)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, level: Any) -> Any:
        level = range(len(self.sizes))[level]
        with self._lock:
            while len(self._bases) <= level:
                self._bases.append(self._grown(self.sizes[len(self._bases)]))
        return self._bases[level]

    def _grown(self, size: int) -> Basis:
        """Return the basis of the first ``size`` points drawn, which contains all smaller bases."""
        pivots = self._pivots
        if len(self.sizes) == 1 and size == len(self.points):
            return self._full()
        pivots.grow(size)
        if self._sample is not None:
            return Basis(self.points, self._sample[pivots.chosen], pivots.L, self.map_)
        m = len(pivots.chosen)
        columns = [np.ascontiguousarray(block[:, :m]) for block in pivots.blocks]
        return Basis(self.points, pivots.chosen, pivots.L, self.map_, columns, whitened=True)

    def _full(self) -> Basis:
        """Return the span of all points, with the features of all points in one block.

        The features of the basis points are the rows of L.
        """
        everything = np.arange(len(self.points))
        K = self.points.values(everything, everything)
        kept, L = independent(K)
        features = np.empty((len(K), len(L)))
        features[kept] = L
        if len(kept) < len(K):
            rest = np.setdiff1d(everything, kept)
            features[rest] = solve_lower(L, K[np.ix_(kept, rest)]).T if len(L) else 0.0
        return Basis(self.points, kept, L, self.map_, [features], whitened=True)


# -- triangular systems -------------------------------------------------------------------------


def solve_lower(L: np.ndarray, b: np.ndarray, trans: bool = False, overwrite: bool = False) -> np.ndarray:
    """Return ``L^-1 b``, or ``L^-T b`` if ``trans``, for a lower triangular L and a vector or matrix b.

    Both arrays have the type float64. The function calls BLAS directly, because SciPy's general functions
    have an overhead of 30 microseconds per call. With ``overwrite``, b may be overwritten if it is a matrix
    in column-major order.

    Examples
    --------
    >>> L = np.array([[2.0, 0.0], [1.0, 1.0]])
    >>> solve_lower(L, np.array([2.0, 3.0])), solve_lower(L, np.array([2.0, 3.0]), trans=True)
    (array([1., 2.]), array([-0.5,  3. ]))
    """
    if b.size == 0:
        return b.copy()
    lower, transposed = 1, int(trans)
    if not L.flags.f_contiguous:  # BLAS reads column-major matrices: pass the transpose
        L, lower, transposed = L.T, 0, 1 - transposed
    if b.ndim == 1:
        return dtrsv(L, b, lower=lower, trans=transposed)
    return dtrsm(1.0, L, b, lower=lower, trans_a=transposed, overwrite_b=overwrite)


def solve_symmetric(factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``H^-1 b`` for ``H = factor factor'`` with a lower triangular factor."""
    return solve_lower(factor, solve_lower(factor, b), trans=True)
