r"""Posterior variance of a decision value, and familiarity of a row.

**Posterior variance.** The penalised likelihood is, up to a constant, the posterior density of a Gaussian
process with covariance :math:`C\,k(x, x')`, restricted to the span of the kernel functions of the kept
points. Let :math:`a(x) = (\phi(x), 1)`, and let H be the Newton matrix at the solution. With more than two
classes, each class has its own H (:mod:`~.labels`). The Laplace approximation of the variance of f(x) is
:math:`a(x)^\top H^{-1} a(x)`. The prior variance that the kept points do not explain,
:math:`C\,(k(x, x) - \|\phi(x)\|^2)`, is added. The variance therefore grows with the distance from the kept
points. If the likelihood has the parameter :math:`C'` and the recalibration has multiplied the outputs by s,
then :math:`C = s^2 C'`.

**Familiarity.** The familiarity of a row x measures how well the points of the model represent x. The
projection of :math:`k(x, \cdot)` onto the span of the kernel functions of the points z has the squared norm
:math:`k_{xz} K_{zz}^{-1} k_{zx}`. The ratio of this norm to :math:`k(x, x)` is the *similarity* of x to the
points. It is 1 if x is a point of the model, and it falls to 0 far from all points. Typical similarities
depend on the data. The familiarity of x is therefore the fraction of the training rows whose similarity is at
most the similarity of x. For a training row that is a point of the model, the similarity to the other points
is used.

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

# Moderation starts above this quantile of the variances of the training rows (benchmarks/moderated.py).
_USUAL = 0.9
# Maximum number of points that span the space for familiarity. A larger model uses a subset of its points.
_MOST_POINTS = 700
# Ridge for nearly dependent points, relative to the largest k(z, z).
_RIDGE = 1e-8
# Number of quantiles that summarise the similarities of the training rows.
_LEVELS = 250


@dataclass(frozen=True, eq=False)
class Posterior:
    """Laplace approximation of the posterior distribution of one output."""

    points: Any  # feature vectors of the kept points; for a precomputed kernel, their kernel matrix
    of_points: np.ndarray  # indices of the kept points among the distinct training points
    L: np.ndarray  # Cholesky factor of the kernel matrix of the kept points
    factor: np.ndarray  # Cholesky factor of the Newton matrix at the solution
    C: float  # factor of the kernel in the prior covariance

    @classmethod
    def of(cls, points: DistinctPoints, model: Refit) -> list[Posterior]:
        """Return the posterior of every output of a model; they differ only in ``factor``."""
        chosen = model.points
        X = points.X[np.ix_(chosen, chosen)] if points.kernel.precomputed else points.X[chosen]
        return [cls(X, chosen, model.L, factor, model.prior) for factor in model.factors]

    def variance(self, kernel: Kernel, rows: Any) -> np.ndarray:
        """Return the posterior variance of f at each row."""
        explained, within = self._parts(self._kernel_values(kernel, rows))
        return within + self.C * np.maximum(kernel.diagonal(rows) - explained, 0.0)

    def usual_variance(self, kernel: Kernel, rows: Any, weight: np.ndarray, information: np.ndarray) -> float:
        """Return the 90% quantile of the leave-one-out variances of the given training points.

        ``rows`` contains the distinct training points up to a certain index, so that row i is training point
        i. ``information`` is the Fisher information of each row (:mod:`~.labels`), multiplied by its weight.
        """
        explained, within = self._parts(self._kernel_values(kernel, rows))
        within = within / np.maximum(1 - information * within, 1e-2)  # leave out the row itself
        left = kernel.diagonal(rows) - explained
        if len(self.L):
            half = solve_lower(self.L, np.eye(len(self.L)))
            sampled = self.of_points < len(left)
            left[self.of_points[sampled]] = (1 / np.einsum("ij,ij->j", half, half))[sampled]
        variance = within + self.C * np.maximum(left, 0.0)
        return float(weighted_quantiles(variance, weight, np.array([_USUAL]))[0])

    def _kernel_values(self, kernel: Kernel, rows: Any) -> np.ndarray:
        """Return the kernel values between the rows and the kept points."""
        return kernel.matrix(rows, self.points) if len(self.L) else np.empty((rows.shape[0], 0))

    def _parts(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared norm of phi(x) and the variance within the span, for rows x.

        K contains the kernel values between the rows and the kept points.
        """
        A = np.ones((len(self.L) + 1, len(K)), order="F")
        if len(self.L):
            A[:-1] = solve_lower(self.L, K.T)
        half = solve_lower(self.factor, A)
        return np.einsum("ij,ij->j", A[:-1], A[:-1]), np.einsum("ij,ij->j", half, half)


def moderation(variance: np.ndarray, usual: float) -> np.ndarray:
    r"""Return the factor by which f is multiplied to account for the posterior variance of f.

    MacKay's approximation of the mean of sigmoid(f) divides f by :math:`\sqrt{1 + \pi v/8}`, where v is the
    variance of f. C was chosen such that sigmoid(f) has a small leave-one-out loss, so the probabilities
    already account for a variance of up to u = ``usual``, the 90% quantile of the leave-one-out variances of
    the training rows. The factor is therefore :math:`\sqrt{(1 + \pi u/8) / (1 + \pi v/8)}` if v > u, and one
    otherwise.
    """
    return np.sqrt((1 + np.pi / 8 * usual) / (1 + np.pi / 8 * np.maximum(variance, usual)))


def representatives(n_points: int) -> np.ndarray:
    """Return the positions of the points that familiarity refers to: all, or 700 equally spaced ones.

    >>> representatives(4), len(representatives(100_000))
    (array([0, 1, 2, 3]), 700)
    """
    return np.unique(np.linspace(0, n_points - 1, min(n_points, _MOST_POINTS)).astype(np.intp))


class Span:
    """The span of the kernel functions of points z with the kernel matrix K.

    An indefinite K raises :class:`numpy.linalg.LinAlgError`.
    """

    def __init__(self, K: np.ndarray) -> None:
        self._diagonal = K.diagonal().copy()
        self._ridge = _RIDGE * float(self._diagonal.max(initial=0.0)) or 1.0
        self._factor = cholesky(K + self._ridge * np.eye(len(K)), lower=True)

    def explained(self, K: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """Return the similarity of each row x to the points, in millionths.

        The similarity is the squared norm of the projection of ``k(x, .)`` onto the span, divided by k(x, x).
        ``K`` (n_rows, n_points) contains k(x, z), and ``diagonal`` contains k(x, x).
        """
        half = solve_lower(self._factor, K.T)
        return _fraction(np.einsum("ij,ij->j", half, half), diagonal)

    def explained_by_others(self) -> np.ndarray:
        """Return the similarity of each point to the other points, in millionths.

        The projection of the kernel function of point b onto those of the other points lacks
        :math:`1/d_b - r` of its squared norm :math:`k(z_b, z_b)`, where r is the ridge and :math:`d_b` is the
        b-th diagonal entry of :math:`(K_{zz} + rI)^{-1}`.
        """
        half = solve_lower(self._factor, np.eye(len(self._diagonal)))
        left = 1 / np.einsum("ij,ij->j", half, half) - self._ridge
        return _fraction(self._diagonal - left, self._diagonal)


def _fraction(explained: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """Return ``explained / k(x, x)`` in integer millionths, which removes rounding errors."""
    whole = np.where(diagonal > 0, diagonal, 1.0)
    fraction = np.where(diagonal > 0, np.clip(explained / whole, 0.0, 1.0), 1.0)
    return np.round(1e6 * fraction).astype(np.int32)


def weighted_quantiles(values: np.ndarray, weight: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the smallest values with at least the given fractions of the weight at or below them.

    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]), np.array([0.25, 0.6, 1.0]))
    array([1., 2., 3.])
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    places = np.searchsorted(below, levels * below[-1] * (1 - 1e-12))
    return values[order][np.minimum(places, len(values) - 1)]


def reference_quantiles(explained: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return 250 quantiles, in ascending order, of the similarities of the training rows."""
    return weighted_quantiles(explained, weight, (np.arange(_LEVELS) + 0.5) / _LEVELS)


def rank(explained: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the familiarity: the fraction of the reference quantiles at or below each similarity."""
    return np.searchsorted(reference, explained, side="right") / len(reference)
