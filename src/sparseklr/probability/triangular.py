"""Triangular systems of a few hundred unknowns, straight from BLAS.

The general functions of SciPy take longer to look at such a system than to solve it: 30 microseconds for each
call, of which a fit makes hundreds.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dtrsm, dtrsv


def solve_lower(L: np.ndarray, b: np.ndarray, trans: bool = False, overwrite: bool = False) -> np.ndarray:
    """``L^-1 b``, or ``L^-T b``, for a lower triangular L; b is a vector or a matrix, float64.

    With ``overwrite`` a matrix by columns may be where the result is written to.

    Examples
    --------
    >>> L = np.array([[2.0, 0.0], [1.0, 1.0]])
    >>> solve_lower(L, np.array([2.0, 3.0])), solve_lower(L, np.array([2.0, 3.0]), trans=True)
    (array([1., 2.]), array([-0.5,  3. ]))
    """
    if b.size == 0:
        return b.copy()
    lower, turned = 1, int(trans)
    if not L.flags.f_contiguous:  # what is handed over is read by columns: the transposed matrix
        L, lower, turned = L.T, 0, 1 - turned
    if b.ndim == 1:
        return dtrsv(L, b, lower=lower, trans=turned)
    return dtrsm(1.0, L, b, lower=lower, trans_a=turned, overwrite_b=overwrite)


def solve_symmetric(factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``H^-1 b`` for ``H = factor factor'``, a lower triangular factor.

    Examples
    --------
    >>> solve_symmetric(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([4.0, 3.0]))
    array([1., 3.])
    """
    return solve_lower(factor, solve_lower(factor, b), trans=True)
