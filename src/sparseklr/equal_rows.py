"""Which rows are equal, and an order of rows that depends on their contents alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import min_max_axis

from .kernels import summed_duplicates


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
        X = summed_duplicates(X)
        return _row_sums(X, _mixed(X.data, X.indices))
    keys = np.empty(X.shape[0], dtype=np.uint64)
    step = max(1, 2**20 // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        keys[start : start + step] = _mixed(block, np.arange(X.shape[1])).sum(axis=1, dtype=np.uint64)
    return keys


def nearly_equal_rows(K: np.ndarray) -> np.ndarray:
    """A number for each row of a kernel matrix, the same for rows that are equal up to rounding.

    Repeated points may differ in the last digits of a matrix that came from a matrix product: k(a, x) and
    k(b, x) by up to 1e-10 of the root of k(a, a) k(x, x), or by 4e-7 of it in float32. Rows are compared in
    the order of a sum in which all columns have another weight, each with the first of those before it that
    were equal.

    Examples
    --------
    >>> nearly_equal_rows(np.array([[1.0, 0.5, 1.0], [0.5, 1.0, 0.5], [1.0, 0.5, 1 - 1e-15]]))
    array([0, 1, 0])
    """
    n, size = len(K), np.sqrt(np.abs(K.diagonal().astype(np.float64)))
    share = 1e-10 if K.dtype == np.float64 else 4e-7
    order = np.argsort(K @ (np.cos(np.arange(1, n + 1)) / (n * np.maximum(size, 1e-150))), kind="stable")
    number, found, first = np.empty(n, dtype=np.intp), 0, order[0]
    for row in order:
        with np.errstate(over="ignore"):  # infinity is more than is allowed
            if (np.abs(K[row] - K[first]) > share * size[row] * size).any():
                found, first = found + 1, row
        number[row] = found
    return number


def shuffled_keys(X: Any, seed: int) -> np.ndarray:
    """64-bit keys in whose order rows are in a random one, which depends on their contents and a seed only.

    Equal rows have equal keys. The order is that of the rows rounded to about a millionth of the largest
    value of each feature, so that features which differ in their last digits only, as those that were scaled
    on different machines do, are in the same order almost surely. (With keys of all digits a fold of monk2
    had a log-loss of .007 or of .040, by the order in which the sums of the standardisation were taken.)

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
    # those that are equal when rounded: one after the other, in the order of their exact keys
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
    """Keys of rows whose features are integers of 20 bits: a sum with a random factor for each feature."""
    if X.shape[0] == 0:
        return np.empty(0, dtype=np.uint64)
    least, most = min_max_axis(X, axis=0) if sparse.issparse(X) else (X.min(axis=0), X.max(axis=0))
    mantissa, exponent = np.frexp(np.maximum(most, -least).astype(np.float64))
    # The unit is a power of two that jumps where the largest value is .77 of one: few data end just there.
    shift = 20 - exponent - (mantissa > 0.77)
    halves = np.ldexp(1.0, shift // 2), np.ldexp(1.0, shift - shift // 2)  # the whole might overflow
    factors = splitmix64(np.arange(1, X.shape[1] + 1, dtype=np.uint64))

    def integers(values: np.ndarray, columns: Any) -> np.ndarray:
        return np.rint(values * halves[0][columns] * halves[1][columns]).astype(np.int64).view(np.uint64)

    if sparse.issparse(X):
        return _row_sums(X, integers(X.data, X.indices) * factors[X.indices])
    step = max(1, 2**20 // max(1, X.shape[1]))
    blocks = [X[start : start + step] for start in range(0, X.shape[0], step)]
    return np.concatenate([integers(block, slice(None)) @ factors for block in blocks])


def _row_sums(X: Any, values: np.ndarray) -> np.ndarray:
    """Sums, modulo 2**64, of values of the entries of a CSR matrix over each of its rows."""
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    return sums[X.indptr[1:]] - sums[X.indptr[:-1]]


def _mixed(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    mixed = splitmix64(bits ^ splitmix64(columns.astype(np.uint64) + np.uint64(1)))
    return np.where(values != 0, mixed, np.uint64(0))


def splitmix64(z: np.ndarray) -> np.ndarray:
    """The finaliser of the SplitMix64 generator (Steele, Lea and Flood 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
