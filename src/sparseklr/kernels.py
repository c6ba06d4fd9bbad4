"""Kernel functions, kernel matrices, and sums of kernel functions for prediction.

A :class:`Kernel` has numeric parameters; ``gamma="scale"`` is converted into a number once per fit. It
provides a *row source*, from which the solver gets rows of the kernel matrix, the *matrix* of kernel values
between two sets of rows, and the *sum* ``sum_j coef_j k(x_j, x)`` for predictions. The compiled core
evaluates named kernels. Callables and precomputed matrices have the same interface.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from . import _core
from ._utils.memory import available_memory
from ._utils.threads import n_threads

NAMED_KERNELS = tuple(_core.KernelKind.__members__)
# Kernels that use gamma.
KERNELS_WITH_GAMMA = ("rbf", "laplacian", "poly", "sigmoid")
RowSource = _core.RowSource
NonFiniteKernel = _core.NonFiniteKernel

# Up to this number of rows, the kernel matrix is small enough to be stored in float64.
_DOUBLE_UP_TO = 2000
# Up to this size in bytes, the available memory is not queried.
_ALWAYS_THERE = 64 << 20
# Bytes of the default cache for each feature of dense data with up to 64 features. Writing to new memory
# takes longer than computing kernel rows of few features: on the data set magic (10 features), a fit with 256
# MB takes 1.6 times as long as a fit with 64 MB.
_CACHE_PER_FEATURE = 8 << 20
# Approximate number of rows from which the centre of the data is computed.
_ROWS_OF_CENTER = 25
# Number of rows predicted at once, which limits the memory needed for predictions.
_QUERY_BLOCK = 8192


@dataclass(frozen=True)
class Kernel:
    """A kernel function with numeric parameters.

    Parameters
    ----------
    name : str or callable
        One of ``NAMED_KERNELS``, ``"precomputed"``, or ``f(X, Y) -> array (len(X), len(Y))``.
    gamma, coef0, degree : float
        Parameters as in ``pairwise_kernels`` of scikit-learn. Parameters that the kernel does not use are
        ignored.
    """

    name: str | Callable[..., Any]
    gamma: float = 1.0
    coef0: float = 0.0
    degree: float = 3.0

    def __post_init__(self) -> None:
        for name in ("gamma", "coef0", "degree"):
            if not np.isfinite(value := getattr(self, name)):
                raise ValueError(f"{name} must be a finite number; got {value!r}.")

    @classmethod
    def resolve(
        cls,
        name: str | Callable[..., Any],
        X: Any,
        *,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        degree: float = 3,
        weight: np.ndarray | None = None,
    ) -> Kernel:
        """Return the kernel for training data ``X``; ``gamma`` is ``"scale"`` or a number.

        ``"scale"`` weights the rows by ``weight``. Kernels that do not use gamma have ``gamma=1``.
        """
        if name not in KERNELS_WITH_GAMMA:
            value = 1.0
        elif not isinstance(gamma, str):
            value = float(gamma)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                X = X.astype(np.float64, copy=False)
                squares = X.multiply(X) if sparse.issparse(X) else np.square(X)
                by_row = [np.asarray(A.mean(axis=1, dtype=np.float64)).ravel() for A in (X, squares)]
                mean, mean_square = (float(np.average(values, weights=weight)) for values in by_row)
                variance = mean_square - mean * mean
            if not np.isfinite(variance):
                raise ValueError(
                    "gamma='scale' cannot be computed: the squares of the features overflow. Scale the "
                    "features."
                )
            if variance < 1e-10 * mean_square:  # the variance consists of rounding errors
                variance = 0.0
            # Rounding makes gamma independent of the rounding errors of sums over reordered or rescaled rows.
            value = 1.0 / (X.shape[1] * float(rounded(variance, 32))) if variance > 0 else 1.0
        return cls(name, value, float(coef0), float(degree))

    @property
    def precomputed(self) -> bool:
        """Whether the kernel matrix is passed instead of X."""
        return self.name == "precomputed"

    @property
    def _compiled(self) -> _core.Kernel:
        """The kernel as an object of the compiled core."""
        kind = getattr(_core.KernelKind, str(self.name))
        return _core.Kernel(kind, self.gamma, self.coef0, self.degree)

    @property
    def _by_distance(self) -> bool:
        """Whether kernel values depend only on the distance between two rows."""
        return self.name in ("rbf", "laplacian")

    @property
    def _named(self) -> bool:
        """Whether the compiled core evaluates the kernel."""
        return self.name in NAMED_KERNELS

    # -- rows, matrices and sums --------------------------------------------------------------

    def row_source(self, X: Any, *, cache_size: float | str = "auto") -> RowSource:
        """Return a row source for the kernel matrix of ``X`` (which is ``X`` itself if precomputed).

        Rows of the matrix are stored as float64, with two exceptions: they are stored as float32 if ``X`` is
        float32, or if the kernel depends on distances and ``X`` has more than 2000 rows. The exceptions do
        not apply if float32 is not accurate enough. This is the case if kernel values may exceed 1e30. For
        kernels that depend on distances, it is also the case if a row is more than 11 kernel widths from the
        centre of the data; the error of a kernel value in [0, 1] would then exceed about 1e-5.
        """
        if not self._named:
            return gram_row_source(X if self.precomputed else self.matrix(X, X))
        points = self._training_points(X)
        whole = X.shape[0] ** 2 * (4 if points.single else 8)
        if cache_size == "auto":
            if not _costly(X):
                whole = min(whole, max(_ALWAYS_THERE, _CACHE_PER_FEATURE * X.shape[1]))
            if whole <= _ALWAYS_THERE:
                return _core.kernel_row_source(points, whole)
        capacity = min(cache_bytes(cache_size, X), whole)
        if cache_size != "auto" and capacity > (free := available_memory()):
            raise MemoryError(
                f"cache_size={cache_size!r} needs {capacity >> 20} MB for kernel rows, but only {free >> 20} "
                "MB are available. Use a smaller number or 'auto'; rows that do not fit are recomputed."
            )
        return _core.kernel_row_source(points, capacity)

    def gram(
        self, X: Any, *, cache_size: float | str = "auto", n_jobs: int | None = None
    ) -> np.ndarray | None:
        """Return the kernel matrix of ``X`` in the precision of :meth:`row_source`.

        The result is None if the matrix exceeds ``cache_size``.
        """
        if self.precomputed:
            return np.ascontiguousarray(X)
        capacity, entries = cache_bytes(cache_size, X), X.shape[0] ** 2
        if entries * 4 > capacity:
            return None
        if not self._named:
            return self.matrix(X, X) if entries * 8 <= capacity else None
        points = self._training_points(X)
        if entries * (4 if points.single else 8) > capacity:
            return None
        return _core.kernel_matrix(points, points, n_threads(n_jobs))

    def matrix(self, X: Any, Y: Any, *, n_jobs: int | None = None) -> np.ndarray:
        """Return the kernel values between the rows of ``X`` and the rows of ``Y``.

        For ``"precomputed"``, ``X`` is the matrix and ``Y`` contains column indices.
        """
        if self.precomputed:
            return np.asarray(X[:, Y])
        if not self._named:
            return _checked_gram(self.name(X, Y), X, Y)  # type: ignore[operator]
        X, Y = _alike(X, Y)
        center, single = self._center(Y), X.dtype == np.float32 and Y.dtype == np.float32
        data, queries = self._points(Y, single, center), self._points(X, single, center)
        if data.single != queries.single:  # float32 is accurate enough for only one of the two matrices
            data, queries = self._points(Y, False, center), self._points(X, False, center)
        return _core.kernel_matrix(data, queries, n_threads(n_jobs))

    def diagonal(self, X: Any) -> np.ndarray:
        """Return the values k(x, x) of all rows in float64; for ``"precomputed"``, X is the matrix."""
        if self.precomputed:
            return X.diagonal().astype(np.float64)
        n = X.shape[0]
        if self._by_distance:
            return np.ones(n)
        blocks = [X[start : start + 64].astype(np.float64) for start in range(0, n, 64)]
        return np.concatenate([np.empty(0), *(self.matrix(block, block).diagonal() for block in blocks)])

    def sum(self, X: Any, support: Any, coef: np.ndarray, *, n_jobs: int | None = None) -> np.ndarray:
        """Return ``K(X, support) @ coef.T``, computed in blocks; ``coef`` has shape (n_outputs, n_support).

        For ``"precomputed"``, ``X`` already contains k(x, support) and ``support`` is ignored.
        """
        coef = np.ascontiguousarray(coef, dtype=np.float64)
        n_queries = X.shape[0]
        out = np.empty((n_queries, coef.shape[0]))
        if coef.shape[1] == 0:
            return np.zeros_like(out)
        if self._named:
            X, support = _alike(X, support)
            center, single = self._center(support), X.dtype == np.float32 and support.dtype == np.float32
            data = self._points(support, single, center)
        for start in range(0, n_queries, _QUERY_BLOCK):
            block = slice(start, min(start + _QUERY_BLOCK, n_queries))
            if self.precomputed:
                out[block] = X[block] @ coef.T
            elif not self._named:
                K = self.name(X[block], support)  # type: ignore[operator]
                out[block] = _checked_gram(K, X[block], support, start) @ coef.T
            else:
                queries = self._points(X[block], data.single, center)
                if data.single != queries.single:  # float32 is accurate enough for ``support`` only
                    data = self._points(support, False, center)
                out[block] = _core.kernel_sum(data, queries, coef, n_threads(n_jobs), start).T
        used = np.isfinite(coef).all(axis=1)  # NaN coefficients are allowed
        finite = np.isfinite(out[:, used]).all(axis=1)
        if not finite.all():
            raise ValueError(
                f"the decision value of row {np.argmin(finite)} overflows: kernel values or coefficients are "
                "too large. Scale the features."
            )
        return out

    # -- preparation --------------------------------------------------------------------------

    def _training_points(self, X: Any) -> _core.PointSet:
        """Return ``X`` for the compiled core, in the precision of its kernel matrix."""
        single = X.dtype == np.float32 or (self._by_distance and X.shape[0] > _DOUBLE_UP_TO)
        return self._points(X, single, self._center(X))

    def _center(self, X: Any) -> Any:
        """Return a vector near most rows, relative to which squared distances have smaller rounding errors.

        The vector is the median of about 25 rows, which a single distant row cannot move. For CSR it is a CSR
        row with entries only in columns that are non-zero in most rows.
        """
        if not self._by_distance or X.shape[0] == 0:
            return None
        sample = X[:: max(1, X.shape[0] // _ROWS_OF_CENTER)]
        columns = None
        if sparse.issparse(X):
            filled, counts = np.unique(sample.indices, return_counts=True)
            columns = filled[counts > sample.shape[0] // 2]
            sample = sample[:, columns].toarray()
        middle = len(sample) // 2  # np.median is slower; it would take a tenth of the time of a small fit
        medians = np.partition(sample, middle, axis=0)[middle].astype(np.float64)
        if columns is None:
            return medians
        return sparse.csr_array((medians, columns, [0, len(columns)]), shape=(1, X.shape[1]))

    def _points(self, X: Any, single: bool, center: Any) -> _core.PointSet:
        """Return ``X`` for the compiled core, in float32 if ``single`` and accurate enough, else float64."""
        if not sparse.issparse(X):
            return _core.dense_points(np.ascontiguousarray(X), self._compiled, center, single)
        if center is not None and center.nnz:  # distances do not depend on the order of columns
            others = np.setdiff1d(np.arange(X.shape[1]), center.indices)
            X = sparse.hstack([X[:, others], X[:, center.indices].toarray() - center.data], format="csr")
        X = summed_duplicates(X)
        index = np.int64 if X.indptr.dtype == np.int64 or X.indices.dtype == np.int64 else np.int32
        return _core.csr_points(
            np.ascontiguousarray(X.data),
            np.ascontiguousarray(X.indices, dtype=index),
            np.ascontiguousarray(X.indptr, dtype=index),
            X.shape[1],
            self._compiled,
            single,
        )


def gram_row_source(K: np.ndarray) -> RowSource:
    """Return a row source for a symmetric kernel matrix, float32 or float64. ``K`` must not be modified."""
    return _core.gram_row_source(np.ascontiguousarray(K))


def rounded(values: Any, bits: int) -> Any:
    """Return the values rounded to ``bits`` significant bits.

    Two values that differ by much less than the last bit almost surely become equal.

    >>> float(rounded(0.1 + 0.2, 40)) == float(rounded(0.3, 40))
    True
    """
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**bits) / 2.0**bits, exponent)


def summed_duplicates(X: Any) -> Any:
    """Return the same rows; repeated entries of a CSR matrix are summed in a copy."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def naming_row(error: NonFiniteKernel, row: int | None) -> str:
    """Return the error message with the row number in the X passed by the user; None omits the number."""
    place = "" if row is None else f" in row {row} of X (counted from 0)"
    return str(error).replace(f" in row {error.row} (counted from 0)", place)


def _alike(X: Any, Y: Any) -> tuple[Any, Any]:
    """Return the two matrices, both dense or both CSR; a sparse matrix is never converted to dense."""
    if sparse.issparse(X) != sparse.issparse(Y):
        X, Y = (sparse.csr_array(A) if not sparse.issparse(A) else A for A in (X, Y))
    return X, Y


def _checked_gram(K: Any, X: Any, Y: Any, first_row: int = 0) -> np.ndarray:
    """Return the result of a callable kernel as an array, or raise an error if it is invalid.

    ``first_row`` is the index of the first row of ``X``, for error messages.
    """
    expected = (X.shape[0], Y.shape[0])
    try:
        K = np.asarray(K).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"kernel(X, Y) must return a dense array of real numbers of shape {expected}; it returned a "
            f"{type(K).__name__}, which cannot be converted: {error}"
        ) from error
    if K.shape != expected:
        raise ValueError(f"kernel(X, Y) must return an array of shape {expected}; it returned {K.shape}.")
    if not (finite := np.isfinite(K).all(axis=1)).all():
        row = first_row + int(np.argmin(finite))
        non_finite = NonFiniteKernel(
            f"kernel(X, Y) gives NaN or infinity in row {row} (counted from 0); expected finite values."
        )
        non_finite.kernel, non_finite.row = None, row
        raise non_finite
    return np.ascontiguousarray(K)


def check_gram(K: np.ndarray, name: str = "K") -> None:
    """Raise an error unless ``K`` is square and symmetric (up to rounding errors of its dtype)."""
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"{name} must be a square kernel matrix; its shape is {K.shape}.")
    scale = max(float(np.abs(K.diagonal()).max(initial=0.0)), np.finfo(K.dtype).tiny)
    allowed = 1e3 * float(np.finfo(K.dtype).eps)
    for start in range(0, len(K), 256):
        rows = slice(start, start + 256)
        difference = float(np.abs(K[rows] - K[:, rows].T).max(initial=0.0))
        if difference > allowed * max(scale, float(np.abs(K[rows]).max(initial=0.0))):
            raise ValueError(
                f"{name} must be a symmetric kernel matrix; entries (i, j) and (j, i) differ by up "
                f"to {difference:.3g}. If rounding errors cause the difference, pass ({name} + {name}.T) / 2."
            )


def cache_bytes(cache_size: float | str, X: Any = None) -> int:
    """Return the memory for kernel rows in bytes; ``cache_size`` is in MB.

    ``"auto"`` means half of the available memory, but at most 256 MB. The maximum is 2 GB if kernel rows of
    ``X`` take long to compute, that is for sparse data or more than 64 features.
    """
    if cache_size == "auto":
        return min(available_memory() // 2, (2 << 30) if X is not None and _costly(X) else (256 << 20))
    return int(min(float(cache_size) * 2**20, np.iinfo(np.int64).max // 2))


def _costly(X: Any) -> bool:
    """Whether computing a kernel row takes much longer than reading it from memory."""
    return sparse.issparse(X) or X.shape[1] > 64
