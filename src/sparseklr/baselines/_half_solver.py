r"""Solver of :class:`HalfKLR`: the half-thresholding operator, and two algorithms for the problem

.. math:: \min_{\beta, b}\; C \sum_i m_i A(f_i) - t_i f_i + \sum_j |\beta_j|^{1/2},
          \qquad f = K\beta + b .

A coordinate is one coefficient :math:`\beta_j`, and the support is the set of non-zero coordinates. The step
sizes refer to the loss at the optimal intercept, :math:`\Phi(\beta) = \min_b \text{loss}`. Its second
derivatives are those of the loss with centred kernel columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit

from .._utils.progress import Iteration
from ..kernels import cache_bytes
from ..samples import DistinctPoints
from .loss import LogisticLoss

Array = np.ndarray

# The minimiser of (x - z)^2 + t |x|^(1/2) is zero if |z| <= THRESHOLD t^(2/3).
THRESHOLD = 54 ** (1 / 3) / 4


@dataclass(frozen=True)
class HalfSettings:
    """Settings of the coordinate algorithm; decreases are relative to the objective."""

    shortlist: int = 64  # number of coordinates tried in an iteration, the largest predicted decrease first
    trials: int = 4  # number of trials after which only coordinates with a guaranteed decrease are tried
    settled: float = 1e-4  # while the support grows, Newton steps stop at this predicted decrease
    worthwhile: float = 1e-9  # smallest predicted decrease for which a coordinate is tried
    worthwhile_at_end: float = 1e-13  # the same near convergence; it exceeds rounding errors
    vanishing: float = 1e-6  # coordinates below this fraction of their smallest possible size are set to zero
    newton_steps: int = 20  # maximum number of Newton steps per iteration
    block: int = 512  # number of kernel columns computed at once


SETTINGS = HalfSettings()


def half_threshold(z: Any, t: Any) -> Any:
    r"""Return the minimiser of :math:`(x - z)^2 + t|x|^{1/2}` over x, elementwise.

    .. math:: x = \tfrac23 z\left(1 + \cos\left(\tfrac{2\pi}3 -
              \tfrac23\arccos\left(\tfrac t8 (|z|/3)^{-3/2}\right)\right)\right)
              \text{ if } |z| > \tfrac{54^{1/3}}4 t^{2/3}, \text{ else } 0.

    Parameters
    ----------
    z : array-like
        Points at which the quadratic term vanishes.
    t : array-like
        Positive weights of the penalty; broadcast with ``z``.

    Returns
    -------
    array
        The minimisers.

    Notes
    -----
    In the literature, the threshold is often given as :math:`\tfrac34 t^{2/3}`, which is too small. Between
    the two thresholds, the formula gives a local minimum, but the value at 0 is lower.

    References
    ----------
    Xu, Chang, Xu and Zhang (2012), "L1/2 regularization: a thresholding representation theory and
    a fast solver", IEEE Transactions on Neural Networks and Learning Systems 23(7), 1013-1027,
    doi:10.1109/TNNLS.2012.2197412.

    Examples
    --------
    >>> half_threshold([0.9, 1.0, 3.0], 1.0).round(4)
    array([0.    , 0.7015, 2.852 ])
    """
    z, t = np.broadcast_arrays(np.asarray(z, dtype=np.float64), np.asarray(t, dtype=np.float64))
    x = np.zeros(z.shape)
    on = np.abs(z) > THRESHOLD * t ** (2 / 3)
    angle = np.arccos(t[on] / 8 * (np.abs(z[on]) / 3) ** -1.5)
    x[on] = 2 / 3 * z[on] * (1 + np.cos(2 * np.pi / 3 - 2 / 3 * angle))
    return x[()]


def step_of(slope: Array, curvature: Array, at: Array | float = 0.0) -> tuple[Array, Array]:
    """Return the minimisers x of ``slope (x - at) + curvature (x - at)^2 / 2 + |x|^(1/2)``.

    The second result is the decrease of this function from ``at`` to x.
    """
    x = half_threshold(at - slope / curvature, 2 / curvature)
    move = x - at
    return x, np.sqrt(np.abs(at)) - np.sqrt(np.abs(x)) - slope * move - curvature * move**2 / 2


class Gram:
    """Products with the kernel matrix of all points, which is stored if it fits into ``cache_size``.

    The kernel matrix of more than 4,096 points is stored in float32. Its products only rank the coordinates;
    the model is computed from kernel columns in float64.
    """

    def __init__(self, points: DistinctPoints, cache_size: float | str) -> None:
        self.points = points
        self.matrix: np.ndarray | None = points.X if points.kernel.precomputed else None
        n = len(points)
        if self.matrix is None and 4 * n * n <= cache_bytes(cache_size):
            self.matrix = np.empty((n, n), dtype=np.float32)
            for start in range(0, n, SETTINGS.block):
                block = slice(start, start + SETTINGS.block)
                self.matrix[block] = self._rows(block)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64) if self.matrix is None else self.matrix.dtype

    def _rows(self, block: slice) -> np.ndarray:
        X, kernel = self.points.X, self.points.kernel
        single = X if callable(kernel.name) else X.astype(np.float32)
        return kernel.matrix(single[block], single, n_jobs=self.points.n_jobs)

    def product(self, r: np.ndarray, exact: bool = False) -> np.ndarray:
        """Return the product K r; if ``exact`` is set, all kernel values are in float64."""
        if self.matrix is not None and not (exact and self.matrix.dtype == np.float32):
            return (self.matrix @ r.astype(self.matrix.dtype)).astype(np.float64)
        points = self.points
        queries = points.X.astype(np.float64)
        return points.kernel.sum(queries, queries, r[None, :], n_jobs=points.n_jobs)[:, 0]

    def spread(self, total: np.ndarray, centred: bool) -> np.ndarray:
        """Return ``sum_i m_i (K_ij - mean_j)^2`` for every column j, with mean 0 unless ``centred`` is set.

        The result is at least ``1e-9 * sum_i m_i K_ij^2``. For a zero column, on which the loss does not
        depend, it is 1.
        """
        spread, fraction = np.empty(len(total)), total / total.sum()
        for start in range(0, len(total), SETTINGS.block):
            block = np.arange(start, min(start + SETTINGS.block, len(total)))
            K = self.points.columns(block)
            least = 1e-9 * (total @ K**2)
            if centred:
                K -= fraction @ K
            spread[block] = np.maximum(total @ K**2, least)
        return np.where(spread > 0, spread, 1.0)


@dataclass(frozen=True)
class Convergence:
    """Number of iterations, accuracy and objective values of a run of the solver."""

    n_iter: int  # number of iterations
    residual: float  # largest change of a coordinate by half thresholding, divided by max(1, max |beta|)
    converged: bool  # whether the residual is at most tol
    history: Array  # objective before the first and after each iteration


Callback = Callable[[Iteration], Any] | None


@dataclass(frozen=True, eq=False)
class _Metric:
    """Positive definite approximation to the Hessian in the support and the intercept.

    If every coordinate is divided by |x|^(3/4), the penalty has the second derivative -1/4 in each of them.
    If the Hessian is then indefinite, -1/4 is replaced by 1/2, the second derivative of the quadratic
    function that touches the penalty from above (iteratively reweighted least squares).
    """

    A: Array  # kernel columns of the support, followed by a column of ones if there is an intercept
    unit: Array  # divisors of the coordinates and the intercept
    factor: Any  # Cholesky factor of the scaled Hessian
    n_coordinates: int  # size of the support

    def solve(self, G: Array) -> Array:
        """Return the solution of the linear system with this Hessian and the right-hand side G."""
        unit = self.unit if G.ndim == 1 else self.unit[:, None]
        return unit * cho_solve(self.factor, unit * G) if len(unit) else G


@dataclass(frozen=True, eq=False)
class _CoordinateModels:
    """Quadratic models of the loss along c coordinates outside the support; s is the size of the support.

    :meth:`HalfSolver._coordinate_models` computes them.
    """

    slope: Array  # (c,) derivative if the support and the intercept adapt
    curvature: Array  # (c,) second derivative if the support and the intercept adapt
    along: Array  # (s + 1, c) minus the change of support and intercept for a unit step of the coordinate
    rest: Array  # (s + 1,) minus the Newton step of support and intercept without the coordinate
    alone: Array  # (c,) derivative if the support is fixed
    bound: Array  # (c,) upper bound on the second derivative if the support is fixed


class HalfSolver:
    """Solver of one binary problem; each solve starts from the solution of the previous one.

    Attributes
    ----------
    support : array of int (s,)
        Indices of the non-zero coordinates.
    x : array (s,)
        Non-zero coordinates.
    columns : array (n, s)
        Kernel columns of the support.
    h : array (n,)
        Outputs without the intercept, ``columns @ x``.
    b : float
        Intercept.
    unit : float
        Number by which the kernel was divided.
    """

    def __init__(
        self,
        points: DistinctPoints,
        gram: Gram,
        loss: LogisticLoss,
        spread: Array,
        intercept: bool,
        unit: float = 1.0,
    ) -> None:
        self.points, self.gram, self.loss, self.intercept, self.unit = points, gram, loss, intercept, unit
        self.bound = spread / 4  # bound on the curvature of Phi along each coordinate, for C = 1
        self.support: Array = np.zeros(0, dtype=np.intp)
        self.x: Array = np.zeros(0)
        self.columns: Array = np.zeros((len(points), 0), order="F")
        self.h: Array = np.zeros(len(points))
        self.b = 0.0
        self.b = self._best_intercept(self.h)

    # -- values and derivatives at the current model ------------------------------------------

    def _loss(self, f: Array) -> float:
        return float(self.loss.value(f[None]))

    def objective(self, C: float) -> float:
        return C * self._loss(self.h + self.b) + float(np.sqrt(np.abs(self.x)).sum())

    def _residual(self, C: float) -> Array:
        return C * self.loss.at((self.h + self.b)[None]).slope[0]

    def _weights(self) -> Array:
        return self.loss.at((self.h + self.b)[None]).curvature[0]

    def _best_intercept(self, h: Array) -> float:
        """Return the intercept that minimises the loss for outputs h, by Newton's method in a bracket."""
        if not self.intercept:
            return 0.0
        low, high = -np.inf, np.inf
        total, target, other = self.loss.total, self.loss.target[0], self.loss.other[0]
        b = self.b + float(total @ (self.h - h)) / float(total.sum())  # exact if h changed by a constant
        for _ in range(100):
            p, q = expit(h + b), expit(-h - b)
            excess = float(other @ p - target @ q)
            step = -excess / max(float(total @ (p * q)), 1e-300)
            if abs(excess * step) <= 1e-13 * total.sum():  # the product is twice the remaining decrease
                return b + step if abs(step) < 1e-3 else b  # a last step, because convergence is quadratic
            low, high = (b, high) if excess < 0 else (low, b)
            new = b + min(max(step, -4.0), 4.0)
            b = new if low < new < high else (low + high) / 2
        return b

    def fixed_point_residual(self, C: float, among: Array | None = None) -> float:
        """Return the largest change of a coordinate by half thresholding, divided by max(1, max |beta|).

        ``among`` is the support, or None for all coordinates.
        """
        beta = np.zeros(len(self.points))
        beta[self.support] = self.x
        if among is None:
            among = np.arange(len(beta))
            slope = self.gram.product(self._residual(C), exact=True)
        else:
            slope = self._residual(C) @ self.columns
        moved, _ = step_of(slope, C * self.bound[among], beta[among])
        return float(np.abs(moved - beta[among]).max(initial=0.0) / max(1.0, np.abs(beta).max()))

    # -- single coordinates, with Newton steps on the support ---------------------------------

    def solve(self, C: float, tol: float, max_iter: int, callback: Callback = None) -> Convergence:
        """Minimise the objective by half thresholding of single coordinates.

        Each iteration has three steps:

        1. Half thresholding is applied to coordinates outside the support, beginning with the largest
           predicted decrease. A coordinate that becomes non-zero and lowers the objective joins the support.
        2. Newton steps are taken in the coordinates of the support. Coordinates that reach zero leave it.
        3. If no coordinate joined in step 1, half thresholding is applied to the support. The step size of a
           coordinate is the inverse of an upper bound on its curvature.
        """
        start, history = time.perf_counter(), [self.objective(C)]
        quiet, goal = 0, tol
        for iteration in range(1, max_iter + 1):
            joined = self._join(C, max(1, len(self.support) // 10), quiet > 1)
            left = self._newton(C, max(tol, SETTINGS.settled) if joined else goal)
            dropped = not joined and self._threshold(C)
            history.append(self.objective(C))
            if callback is not None:
                fall = (history[-2] - history[-1]) / history[-1]
                callback(Iteration(iteration, max(left, fall, 1e-300), time.perf_counter() - start))
            # Once no step changes the support any more, convergence is checked with exact derivatives.
            quiet = quiet + 1 if not joined and not dropped and left <= goal else 0
            if quiet > 2:
                self.b = self._best_intercept(self.h)
                residual = self.fixed_point_residual(C, self.support)
                if residual <= tol or goal < 1e-15:  # the remaining decrease is smaller than rounding errors
                    residual = self.fixed_point_residual(C)
                    return Convergence(iteration, residual, residual <= tol, np.array(history))
                goal /= 100
        return Convergence(iteration, self.fixed_point_residual(C), False, np.array(history))

    def _join(self, C: float, most: int, thorough: bool) -> int:
        """Add at most ``most`` coordinates to the support, and return their number.

        With ``thorough``, candidates are ranked by quadratic models of the objective instead of first
        derivatives.
        """
        metric = self._metric(C)
        short = self._shortlist(C, metric if thorough else None)
        columns = self.points.columns(short)
        for joined in range(most):
            chosen = self._best_trial(C, short, columns, metric, thorough)
            if chosen is None:
                return joined
            position, x, h, b = chosen
            self.support = np.append(self.support, short[position])
            self.x = x
            self.columns = np.concatenate([self.columns, columns[:, position : position + 1]], axis=1)
            self.h, self.b = h, b
            short, columns = np.delete(short, position), np.delete(columns, position, axis=1)
        return most

    def _shortlist(self, C: float, metric: _Metric | None) -> Array:
        """Return the indices of the best candidates for the support.

        They are ranked by first derivatives or, if ``metric`` is given, by quadratic models.
        """
        self.b = self._best_intercept(self.h)  # the derivatives of the loss are then those of Phi
        n = len(self.points)
        if metric is None:
            # Half thresholding makes a coordinate non-zero if this score exceeds a common threshold.
            score = np.abs(self.gram.product(self._residual(C))) / np.cbrt(self.bound)
        else:
            score = np.empty(n)
            for start in range(0, n, 1024):
                block = np.arange(start, min(start + 1024, n))
                models = self._coordinate_models(C, block, self.points.columns(block), metric)
                score[block] = step_of(models.slope, models.curvature)[1]
        score[self.support] = 0
        best = np.argsort(-score, kind="stable")[: SETTINGS.shortlist]
        return best[score[best] > 0]

    def _coordinate_models(
        self, C: float, among: Array, columns: Array, metric: _Metric
    ) -> _CoordinateModels:
        """Return quadratic models of the loss along coordinates, minimised over support and intercept.

        The curvature of such a model is a Schur complement. If kernel columns are similar, it is much smaller
        than the second derivative of the loss with a fixed support.
        """
        W = C * self._weights()
        U = metric.A.T @ (W[:, None] * columns)
        along, rest = metric.solve(U), metric.solve(self._gradient(C, metric))
        alone = self._residual(C) @ columns
        bound = C * self.bound[among]
        curvature = np.clip(W @ columns**2 - (U * along).sum(axis=0), 1e-6 * bound, bound)
        return _CoordinateModels(alone - U.T @ rest, curvature, along, rest, alone, bound)

    def _best_trial(
        self, C: float, short: Array, columns: Array, metric: _Metric, thorough: bool
    ) -> tuple[int, Array, Array, float] | None:
        """Return the candidate with the largest predicted decrease whose step lowers the objective, or None.

        The result consists of its position in ``short``, and the new x, h and b.
        """
        models, known = self._coordinate_models(C, short, columns, metric), metric.n_coordinates
        gain = step_of(models.slope, models.curvature)[1]
        certain = step_of(models.alone, models.bound)[1]
        order = np.argsort(-gain, kind="stable")
        present = self.objective(C)
        trials = (4 if thorough else 1) * SETTINGS.trials
        enough = (SETTINGS.worthwhile_at_end if thorough else SETTINGS.worthwhile) * present
        for rank, j in enumerate(order[gain[order] > enough]):
            if rank >= trials and not certain[j] > enough:
                continue
            steepness, bound = models.curvature[j], models.bound[j]
            # Backtracking: with a fixed support and the bound as curvature, a step always succeeds.
            while True:
                together = steepness < bound
                step = float(step_of((models.slope if together else models.alone)[j], steepness)[0])
                if step == 0:
                    break
                x = self.x.copy()
                if together:
                    move = models.rest + step * models.along[:, j]
                    moved = x[:known] - move[:known]
                    x[:known] = np.where(moved * x[:known] > 0, moved, x[:known])
                    h = self.columns @ x + step * columns[:, j]
                    b = self.b - float(move[known:].sum())
                else:
                    h = self.h + step * columns[:, j]
                    b = self._best_intercept(h)
                x = np.append(x, step)
                if C * self._loss(h + b) + np.sqrt(np.abs(x)).sum() < present:
                    return int(j), x, h, b
                if not together:
                    break
                steepness = min(8 * steepness, bound)
        return None

    def _metric(self, C: float) -> _Metric:
        """Return the Hessian in the support and the intercept, modified to be positive definite."""
        W, size = C * self._weights(), np.abs(self.x)
        A = np.concatenate([self.columns, np.ones((len(W), int(self.intercept)))], axis=1)
        # If points are misclassified with probabilities close to 1, the curvature vanishes but the slopes are
        # large. A fraction of the slopes bounds the step of the intercept by 1e10.
        curved = W.sum()
        held = max(1e-10 * np.abs(self._residual(C)).sum() - curved, 0.0)
        unit = np.append(size**0.75, [1 / np.sqrt(max(curved + held, 1e-300))] * self.intercept)
        B = (np.sqrt(W)[:, None] * A) * unit
        H, penalised = B.T @ B, np.arange(len(unit)) < len(size)
        H[~penalised, ~penalised] += held * unit[~penalised] ** 2
        try:
            factor = cho_factor(H - np.diag(0.25 * penalised))
        except LinAlgError:
            factor = cho_factor(H + np.diag(0.5 * penalised + 1e-10 * (1 + H.diagonal())))
        return _Metric(A, unit, factor, len(size))

    def _gradient(self, C: float, metric: _Metric) -> Array:
        """Return the gradient with respect to the coordinates and the intercept of ``metric``."""
        G = self._residual(C) @ metric.A
        x = self.x[: metric.n_coordinates]
        G[: len(x)] += 0.5 * np.sign(x) / np.sqrt(np.abs(x))
        return G

    def _newton(self, C: float, tol: float) -> float:
        """Take damped Newton steps in the support; return the predicted relative decrease that remains."""
        left = 0.0
        for step in range(SETTINGS.newton_steps + 1):
            if len(self.support) == 0:
                return 0.0
            metric = self._metric(C)
            G = self._gradient(C, metric)
            direction = -metric.solve(G)
            present = self.objective(C)
            left = -0.5 * float(G @ direction) / present
            if left <= tol or step == SETTINGS.newton_steps:
                break
            if not self._move(C, direction, present):
                return 0.0  # the remaining decrease is smaller than rounding errors
        return left

    def _move(self, C: float, direction: Array, present: float) -> bool:
        """Move along a direction, with backtracking; return whether the objective fell below ``present``.

        Coordinates that change sign become zero, and so do coordinates that nearly vanish. At a minimum, the
        curvature of the loss, at most ``C bound``, is at least the absolute curvature of the penalty,
        ``|x|^(-3/2) / 4``. This inequality gives a lower bound on ``|x|``.
        """
        t, least = 1.0, SETTINGS.vanishing * (4 * C * self.bound[self.support]) ** (-2 / 3)
        for _ in range(40):
            x = self.x + t * direction[: len(self.x)]
            x[(np.sign(x) != np.sign(self.x)) | (np.abs(x) < least)] = 0
            b = self.b + t * float(direction[len(self.x) :].sum())
            h = self.columns @ x
            if C * self._loss(h + b) + np.sqrt(np.abs(x)).sum() < present:
                self._keep(x)
                self.h, self.b = h, b
                return True
            t /= 2
        return False

    def _threshold(self, C: float) -> bool:
        """Set coordinates that half thresholding makes zero to zero; return whether the support shrank.

        The change is made only if it does not raise the objective.
        """
        slope = self._residual(C) @ self.columns
        kept, _ = step_of(slope, C * self.bound[self.support], self.x)
        if (kept != 0).all():
            return False
        x = np.where(kept != 0, self.x, 0.0)
        h = self.columns @ x
        b = self._best_intercept(h)
        if C * self._loss(h + b) + np.sqrt(np.abs(x)).sum() > self.objective(C):
            return False
        self._keep(x)
        self.h, self.b = h, b
        return True

    def _keep(self, x: Array) -> None:
        kept = x != 0
        self.x = x[kept]
        if not kept.all():
            self.support, self.columns = self.support[kept], self.columns[:, kept]

    # -- the published algorithm --------------------------------------------------------------

    def iterate(self, C: float, tol: float, max_iter: int, callback: Callback = None) -> Convergence:
        """Minimise the objective by half thresholding of all coordinates at once.

        All coordinates have the same step size.
        """
        beta = np.zeros(len(self.points))
        beta[self.support] = self.x
        lipschitz = self._lipschitz()
        start, history = time.perf_counter(), [self.objective(C)]
        rounding = 10 * float(np.finfo(self.gram.dtype).eps)
        for iteration in range(1, max_iter + 1):
            slope = self.gram.product(self._residual(1.0))
            while True:
                z = beta - slope / lipschitz
                new = half_threshold(z, 2 / (C * lipschitz))
                move = new - beta
                h = self.gram.product(new)
                b = self._best_intercept(h)
                model = self._loss(self.h + self.b) + slope @ move + 0.5 * lipschitz * move @ move
                if self._loss(h + b) <= model + rounding * abs(model):
                    break
                lipschitz *= 2
            residual = float(np.abs(move).max() / max(1.0, np.abs(new).max()))
            beta, self.h, self.b = new, h, b
            self.support = np.flatnonzero(beta)
            self.x = beta[self.support]
            history.append(self.objective(C))
            if callback is not None:
                callback(Iteration(iteration, max(residual, 1e-300), time.perf_counter() - start))
            if residual <= tol:
                break
        self.columns = self.points.columns(self.support)
        return Convergence(iteration, residual, residual <= tol, np.array(history))

    def _lipschitz(self) -> float:
        """Return the largest curvature of Phi for C = 1, computed by the power method."""
        m, vector = self.loss.total, np.ones(len(self.points))
        vector[::2] = -1.0
        value = float(self.bound.max())
        for _ in range(20):
            image = self.gram.product(vector / max(float(np.linalg.norm(vector)), np.finfo(float).tiny))
            image = m * (image - (m @ image / m.sum() if self.intercept else 0.0))
            vector = self.gram.product(image)
            value = max(value, 0.25 * float(np.linalg.norm(vector)))
        return 1.01 * value
