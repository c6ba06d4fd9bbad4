r"""How familiar a row is: how much of its kernel function the points of a model explain.

The part of :math:`k(x, \cdot)` in the span of the kernel functions of points z has the squared norm
:math:`k_{xz} K_{zz}^{-1} k_{zx}`. Its share of :math:`k(x, x)` is 1 for a point of the model, and falls to 0
far from all of them. What share is usual depends on the data. So it is compared with those of the training
rows, each of which is left out if it is one of the points.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky

from .triangular import solve_lower

# Of more points than this, so many stand for all.
_MOST_POINTS = 700
# Of the largest k(z, z): points that nearly depend on others, and leaving out one of them, do no harm.
_RIDGE = 1e-8
# The training rows are remembered by so many quantiles.
_LEVELS = 250


def representatives(n_points: int) -> np.ndarray:
    """The points of which the span is taken: all, or so many of them that stand for many.

    >>> representatives(4), len(representatives(100_000))
    (array([0, 1, 2, 3]), 700)
    """
    return np.unique(np.linspace(0, n_points - 1, min(n_points, _MOST_POINTS)).astype(np.intp))


class Span:
    """The span of the kernel functions of some points.

    Parameters
    ----------
    K : array (n_points, n_points)
        Their kernel matrix; an indefinite one is a :class:`numpy.linalg.LinAlgError`.
    """

    def __init__(self, K: np.ndarray) -> None:
        self._diagonal = K.diagonal().copy()
        self._ridge = _RIDGE * float(self._diagonal.max(initial=0.0)) or 1.0
        self._factor = cholesky(K + self._ridge * np.eye(len(K)), lower=True)

    def shares(self, K: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """The share explained of each row in millionths, from k(x, z), (n_rows, n_points), and k(x, x)."""
        half = solve_lower(self._factor, K.T)
        return _share(np.einsum("ij,ij->j", half, half), diagonal)

    def shares_left_out(self) -> np.ndarray:
        """The share of each point that the others explain, in millionths.

        With :math:`d_b` the diagonal of :math:`(K_{zz} + rI)^{-1}`, the others leave :math:`1/d_b - r`.
        """
        half = solve_lower(self._factor, np.eye(len(self._diagonal)))
        left = 1 / np.einsum("ij,ij->j", half, half) - self._ridge
        return _share(self._diagonal - left, self._diagonal)


def _share(explained: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """Explained over k(x, x) in millionths, whole ones: equal shares must not differ by rounding."""
    whole = np.where(diagonal > 0, diagonal, 1.0)
    share = np.where(diagonal > 0, np.clip(explained / whole, 0.0, 1.0), 1.0)
    return np.round(1e6 * share).astype(np.int32)


def weighted_quantiles(values: np.ndarray, weight: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The smallest values that leave at least the given shares of the weight at or below them.

    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]), np.array([0.25, 0.6, 1.0]))
    array([1., 2., 3.])
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    places = np.searchsorted(below, levels * below[-1] * (1 - 1e-12))
    return values[order][np.minimum(places, len(values) - 1)]


def remembered(shares: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Quantiles that stand for the shares of the training rows, ascending."""
    return weighted_quantiles(shares, weight, (np.arange(_LEVELS) + 0.5) / _LEVELS)


def rank(shares: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The part of the reference that is not above each share."""
    return np.searchsorted(reference, shares, side="right") / len(reference)
