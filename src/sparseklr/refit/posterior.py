r"""Posterior variance of an output, and familiarity of a row.

**Posterior variance.** The penalised likelihood is the posterior density of a Gaussian process with
covariance :math:`C\,k(x, x')`, restricted to the span of the kept points. With :math:`a(x) = (\phi(x), 1)`
and the Newton matrix H at the fit (with several classes, that of the class; :mod:`~.labels`), the Laplace
approximation of the variance of f(x) is :math:`a(x)^\top H^{-1} a(x)`. The prior variance that the kept
points do not explain, :math:`C\,(k(x, x) - \|\phi(x)\|^2)`, is added, so the variance grows with the
distance from the points. If recalibration multiplied the outputs of a likelihood with :math:`C'` by s, then
:math:`C = s^2 C'`.

**Familiarity.** The projection of :math:`k(x, \cdot)` on the span of the kernel functions of points z has the
squared norm :math:`k_{xz} K_{zz}^{-1} k_{zx}`. As a fraction of :math:`k(x, x)` it is 1 at a point of the
model and falls to 0 far from all of them. Typical values depend on the data, so the fraction is compared with
those of the training rows; a training row that is a point of the model is left out of the span.

References
----------
MacKay (1992), "The evidence framework applied to classification networks", Neural Computation 4, 720-736:
averaging sigmoid(f) over a normal f of variance v is close to ``sigmoid(f / sqrt(1 + pi v / 8))``.
Rasmussen and Williams (2006), "Gaussian Processes for Machine Learning", sections 3.4 and 8.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky

from ..kernels import Kernel
from ..samples import DistinctPoints
from .basis import solve_lower
from .refit import Refit

# Quantile of the variances of the training rows above which moderation starts (benchmarks/moderated.py).
_USUAL = 0.9
# Maximum number of points that span the space; more are subsampled.
_MOST_POINTS = 700
# Ridge relative to the largest k(z, z), for nearly dependent points.
_RIDGE = 1e-8
# Number of quantiles that describe the training rows.
_LEVELS = 250


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of one output."""

    points: Any  # rows of the basis
    of_points: np.ndarray  # their positions among the distinct training points
    L: np.ndarray  # Cholesky factor of their kernel matrix
    factor: np.ndarray  # Cholesky factor of the Newton matrix at the fit
    C: float  # factor of the kernel in the prior covariance

    @classmethod
    def of(cls, points: DistinctPoints, model: Refit) -> list[Posterior]:
        """The posteriors of the outputs of a model, which share everything but ``factor``."""
        chosen = model.points
        X = points.X[np.ix_(chosen, chosen)] if points.kernel.precomputed else points.X[chosen]
        return [cls(X, chosen, model.L, factor, model.prior) for factor in model.factors]

    def variance(self, kernel: Kernel, rows: Any) -> np.ndarray:
        """Variance of f at each row."""
        explained, within = self._parts(self._kernel_values(kernel, rows))
        return within + self.C * np.maximum(kernel.diagonal(rows) - explained, 0.0)

    def usual_variance(self, kernel: Kernel, rows: Any, weight: np.ndarray, information: np.ndarray) -> float:
        """The 90% quantile of the leave-one-out variances of the training rows.

        ``rows`` are the first distinct training points, with their weights and information.
        """
        explained, within = self._parts(self._kernel_values(kernel, rows))
        within = within / np.maximum(1 - information * within, 1e-2)  # without the row itself
        left = kernel.diagonal(rows) - explained
        if len(self.L):
            half = solve_lower(self.L, np.eye(len(self.L)))
            sampled = self.of_points < len(left)
            left[self.of_points[sampled]] = (1 / np.einsum("ij,ij->j", half, half))[sampled]
        variance = within + self.C * np.maximum(left, 0.0)
        return float(weighted_quantiles(variance, weight, np.array([_USUAL]))[0])

    def _kernel_values(self, kernel: Kernel, rows: Any) -> np.ndarray:
        return kernel.matrix(rows, self.points) if len(self.L) else np.empty((rows.shape[0], 0))

    def _parts(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The squared norm of phi(x), and the variance within the span."""
        A = np.ones((len(self.L) + 1, len(K)), order="F")
        if len(self.L):
            A[:-1] = solve_lower(self.L, K.T)
        half = solve_lower(self.factor, A)
        return np.einsum("ij,ij->j", A[:-1], A[:-1]), np.einsum("ij,ij->j", half, half)


def moderation(variance: np.ndarray, usual: float) -> np.ndarray:
    r"""The factor on f that averages its probability over the uncertainty of f.

    C was chosen such that sigmoid(f) is calibrated on left-out training rows, so it already includes the
    average over their typical uncertainty. The factor is therefore the ratio
    :math:`\sqrt{(1 + \pi u/8) / (1 + \pi v/8)}` relative to the usual variance u, and at most one.
    """
    return np.sqrt((1 + np.pi / 8 * usual) / (1 + np.pi / 8 * np.maximum(variance, usual)))


def representatives(n_points: int) -> np.ndarray:
    """Positions of the points that span the space: all, or an equally spaced sample of 700.

    >>> representatives(4), len(representatives(100_000))
    (array([0, 1, 2, 3]), 700)
    """
    return np.unique(np.linspace(0, n_points - 1, min(n_points, _MOST_POINTS)).astype(np.intp))


class Span:
    """The span of the kernel functions of points with kernel matrix K.

    An indefinite K raises :class:`numpy.linalg.LinAlgError`.
    """

    def __init__(self, K: np.ndarray) -> None:
        self._diagonal = K.diagonal().copy()
        self._ridge = _RIDGE * float(self._diagonal.max(initial=0.0)) or 1.0
        self._factor = cholesky(K + self._ridge * np.eye(len(K)), lower=True)

    def explained(self, K: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """Explained fraction of each row in millionths, from k(x, z) (n_rows, n_points) and k(x, x)."""
        half = solve_lower(self._factor, K.T)
        return _fraction(np.einsum("ij,ij->j", half, half), diagonal)

    def explained_by_others(self) -> np.ndarray:
        """Fraction of each point that the others explain, in millionths.

        The others leave :math:`1/d_b - r` unexplained, where d is the diagonal of
        :math:`(K_{zz} + rI)^{-1}`.
        """
        half = solve_lower(self._factor, np.eye(len(self._diagonal)))
        left = 1 / np.einsum("ij,ij->j", half, half) - self._ridge
        return _fraction(self._diagonal - left, self._diagonal)


def _fraction(explained: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """``explained / k(x, x)`` in integer millionths, which removes rounding errors."""
    whole = np.where(diagonal > 0, diagonal, 1.0)
    fraction = np.where(diagonal > 0, np.clip(explained / whole, 0.0, 1.0), 1.0)
    return np.round(1e6 * fraction).astype(np.int32)


def weighted_quantiles(values: np.ndarray, weight: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The smallest values with at least the given fractions of the weight at or below them.

    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]), np.array([0.25, 0.6, 1.0]))
    array([1., 2., 3.])
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    places = np.searchsorted(below, levels * below[-1] * (1 - 1e-12))
    return values[order][np.minimum(places, len(values) - 1)]


def reference_quantiles(explained: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Quantiles, ascending, of the explained fractions of the training rows."""
    return weighted_quantiles(explained, weight, (np.arange(_LEVELS) + 0.5) / _LEVELS)


def rank(explained: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The fraction of the reference at or below each explained fraction."""
    return np.searchsorted(reference, explained, side="right") / len(reference)
