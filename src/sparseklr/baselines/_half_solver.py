r"""The solver of :class:`HalfKLR`: the half-thresholding operator and two algorithms.

Both minimise

.. math:: \min_{\beta, b}\; C \sum_i m_i A(f_i) - t_i f_i + \sum_j |\beta_j|^{1/2},
          \qquad f = K\beta + b

The intercept is always at its best value, so that steps minimise
:math:`\Phi(\beta) = \min_b \text{loss}`, whose curvature is that of centred columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit

from ..data import DistinctPoints
from ..kernels import cache_bytes
from ..probability.loss import LogisticLoss
from ..progress import Iteration

Array = np.ndarray

# Zero is the minimiser up to |z| = THRESHOLD t^(2/3).
THRESHOLD = 54 ** (1 / 3) / 4
# Coordinates tried in a round, those of the largest promised decrease; only their columns are computed.
_SHORTLIST = 64
# Failed trials after which the rest of the short list waits for the next round.
_TRIALS = 4
# Between joins the support is fitted to this share of the objective. On ring with C = 1e4, a looser 1e-3 lets
# the support grow to 1500 coordinates (100 s and more); with 1e-4 it grows to 730 (55 s), of which 225
# remain.
_SETTLED = 1e-4
# What a coordinate promises must be more than this share of the objective; thoroughly, more than rounding.
_WORTH_A_TRIAL, _THOROUGHLY = 1e-9, 1e-13
# A coordinate below this share of the least size that a minimum allows is on its way to zero.
_VANISHING = 1e-6
# Newton steps on a support at most; a few are the rule.
_NEWTON_STEPS = 20


def half_threshold(z: Any, t: Any) -> Any:
    r"""The minimiser of :math:`(x - z)^2 + t|x|^{1/2}` over x, elementwise.

    .. math:: x = \tfrac23 z\left(1 + \cos\left(\tfrac{2\pi}3 -
              \tfrac23\arccos\left(\tfrac t8 (|z|/3)^{-3/2}\right)\right)\right)
              \text{ if } |z| > \tfrac{54^{1/3}}4 t^{2/3}, \text{ else } 0.

    Parameters
    ----------
    z : array-like
    t : array-like
        Positive weight of the penalty; broadcast against ``z``.

    Returns
    -------
    array

    Notes
    -----
    The threshold is often printed as :math:`\tfrac34 t^{2/3}`; there the minimum at 0 is still
    the lower one. Between the two thresholds the formula gives the other, local minimum.

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
    """Minimisers x of ``slope (x - at) + curvature (x - at)^2 / 2 + |x|^(1/2)``, and the decrease."""
    x = half_threshold(at - slope / curvature, 2 / curvature)
    move = x - at
    return x, np.sqrt(np.abs(at)) - np.sqrt(np.abs(x)) - slope * move - curvature * move**2 / 2


class Gram:
    """Products with the kernel matrix of all points, kept in memory where it fits.

    The matrix of more than a few thousand points is kept in float32. These products only rank coordinates;
    what enters the model is computed from exact columns.
    """

    def __init__(self, points: DistinctPoints, cache_size: float | str) -> None:
        self.points = points
        self.matrix: np.ndarray | None = points.X if points.kernel.precomputed else None
        n = len(points)
        if self.matrix is None and 4 * n * n <= cache_bytes(cache_size):
            self.matrix = np.empty((n, n), dtype=np.float32)
            for start in range(0, n, 512):
                self.matrix[start : start + 512] = self._rows(slice(start, start + 512))

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64) if self.matrix is None else self.matrix.dtype

    def _rows(self, block: slice) -> np.ndarray:
        X, kernel = self.points.X, self.points.kernel
        single = X if callable(kernel.name) else X.astype(np.float32)
        return kernel.matrix(single[block], single, n_jobs=self.points.n_jobs)

    def product(self, r: np.ndarray, exact: bool = False) -> np.ndarray:
        """K r; ``exact`` asks for float64 throughout."""
        if self.matrix is not None and not (exact and self.matrix.dtype == np.float32):
            return (self.matrix @ r.astype(self.matrix.dtype)).astype(np.float64)
        points = self.points
        queries = points.X.astype(np.float64)
        return points.kernel.sum(queries, queries, r[None, :], n_jobs=points.n_jobs)[:, 0]

    def spread(self, total: np.ndarray, centred: bool) -> np.ndarray:
        """``sum_i m_i (K_ij - mean_j)^2`` for every column j; without the mean if not centred.

        From exact columns. A nearly constant one counts as if a share of 1e-9 of it varied, one of zeros as
        1: it has no slope.
        """
        spread, share = np.empty(len(total)), total / total.sum()
        for start in range(0, len(total), 512):
            block = np.arange(start, min(start + 512, len(total)))
            K = self.points.columns(block)
            least = 1e-9 * (total @ K**2)
            if centred:
                K -= share @ K
            spread[block] = np.maximum(total @ K**2, least)
        return np.where(spread > 0, spread, 1.0)


@dataclass(frozen=True)
class Convergence:
    """How far a solve came; ``residual`` is the largest move of half thresholding over max |beta|."""

    n_iter: int
    residual: float
    converged: bool
    history: Array  # the objective after each iteration


Callback = Callable[[Iteration], Any] | None


@dataclass(frozen=True, eq=False)
class _Metric:
    """A positive definite model of the second derivatives on the support and the intercept.

    In units of |x|^(3/4) the penalty's curvature is -1/4 for every coordinate. Where that makes
    the system indefinite it is replaced by 1/2, the curvature of the quadratic that touches the
    penalty from above (iteratively reweighted least squares).
    """

    A: Array  # columns of the support, and of ones for the intercept
    unit: Array
    factor: Any
    n_coordinates: int

    def solve(self, G: Array) -> Array:
        unit = self.unit if G.ndim == 1 else self.unit[:, None]
        return unit * cho_solve(self.factor, unit * G) if len(unit) else G


@dataclass(frozen=True, eq=False)
class _Promise:
    """Models of the loss along c coordinates off the support, see ``HalfSolver._promise``."""

    slope: Array  # (c,) with the support and the intercept moving along
    curvature: Array
    along: Array  # (s + 1, c) minus their move for a unit step of the coordinate
    rest: Array  # (s + 1,) minus the Newton step that they would take without it
    alone: Array  # (c,) slope with the support held
    bound: Array  # of the curvature


class HalfSolver:
    """One binary problem: its data, and a model on its support from which the next solve starts.

    Attributes
    ----------
    support : array of int (s,)
    x : array (s,)
        beta on the support.
    columns : array (n, s)
        Kernel columns of the support.
    h : array (n,)
        ``columns @ x``; f = h + b.
    unit : float
        What the kernel was divided by.
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
        self.bound = spread / 4  # bounds the curvature of Phi along each coordinate, for C = 1
        self.support: Array = np.zeros(0, dtype=np.intp)
        self.x: Array = np.zeros(0)
        self.columns: Array = np.zeros((len(points), 0), order="F")
        self.h: Array = np.zeros(len(points))
        self.b = 0.0
        self.b = self._best_intercept(self.h)

    # -- values and derivatives at the present model ------------------------------------------

    def _loss(self, f: Array) -> float:
        return float(self.loss.value(f[None]))

    def objective(self, C: float) -> float:
        return C * self._loss(self.h + self.b) + float(np.sqrt(np.abs(self.x)).sum())

    def _residual(self, C: float) -> Array:
        return C * self.loss.at((self.h + self.b)[None]).slope[0]

    def _weights(self) -> Array:
        return self.loss.at((self.h + self.b)[None]).curvature[0]

    def _best_intercept(self, h: Array) -> float:
        """The b at which the loss is stationary: Newton's method kept inside a bracket."""
        if not self.intercept:
            return 0.0
        low, high = -np.inf, np.inf
        total, target, other = self.loss.total, self.loss.target[0], self.loss.other[0]
        b = self.b + float(total @ (self.h - h)) / float(total.sum())  # exact if the change of h is constant
        for _ in range(100):
            p, q = expit(h + b), expit(-h - b)
            excess = float(other @ p - target @ q)
            step = -excess / max(float(total @ (p * q)), 1e-300)
            if abs(excess * step) <= 1e-13 * total.sum():  # twice what can still be gained
                return b + step if abs(step) < 1e-3 else b  # the last step doubles the digits of the slopes
            low, high = (b, high) if excess < 0 else (low, b)
            new = b + min(max(step, -4.0), 4.0)
            b = new if low < new < high else (low + high) / 2
        return b

    def fixed_point_residual(self, C: float, among: Array | None = None) -> float:
        """Largest move of a coordinate under its half-thresholding step, over max(1, max |beta|)."""
        beta = np.zeros(len(self.points))
        beta[self.support] = self.x
        if among is None:
            among = np.arange(len(beta))
            slope = self.gram.product(self._residual(C), exact=True)
        else:
            slope = self._residual(C) @ self.columns
        moved, _ = step_of(slope, C * self.bound[among], beta[among])
        return float(np.abs(moved - beta[among]).max(initial=0.0) / max(1.0, np.abs(beta).max()))

    # -- one coordinate at a time, with Newton steps on the support --------------------------

    def solve(
        self,
        C: float,
        tol: float,
        max_iter: int,
        callback: Callback = None,
        max_support: int | None = None,
    ) -> Convergence:
        """Half thresholding with the curvature of each coordinate as its step, from where it stands.

        1. Coordinates off the support that half thresholding makes non-zero join, best first.
        2. Newton steps on the support; coordinates that reach zero leave.
        3. When none joins, thresholding of the support with the bound of the curvature.
        """
        start, history = time.perf_counter(), [self.objective(C)]
        quiet, goal = 0, tol
        for iteration in range(1, max_iter + 1):
            room = np.inf if max_support is None else max_support - len(self.support)
            joined = self._join(C, int(min(room, max(1, len(self.support) // 10))), quiet > 1)
            left = self._newton(C, max(tol, _SETTLED) if joined else goal)
            dropped = not joined and self._threshold(C)
            history.append(self.objective(C))
            if callback is not None:
                fall = (history[-2] - history[-1]) / history[-1]
                callback(Iteration(iteration, max(left, fall, 1e-300), time.perf_counter() - start))
            # Once nothing moves, even from a fully fitted support, exact slopes decide.
            quiet = quiet + 1 if not joined and not dropped and left <= goal else 0
            if quiet > 2:
                self.b = self._best_intercept(self.h)
                residual = self.fixed_point_residual(C, self.support)
                if residual <= tol or goal < 1e-15:  # lower objectives are indistinguishable from rounding
                    residual = self.fixed_point_residual(C)
                    return Convergence(iteration, residual, residual <= tol, np.array(history))
                goal /= 100
        return Convergence(iteration, self.fixed_point_residual(C), False, np.array(history))

    def solve_sparse(
        self, n_nonzero: int, tol: float, max_iter: int, callback: Callback = None
    ) -> tuple[Convergence, float]:
        """The same with C from the sparsity: the largest C that leaves as many coordinates non-zero.

        C is the one at which the next coordinate would pass the threshold of its step, found by
        raising it from zero. Returns it too.
        """
        C, history, steps, left = 0.0, [], 0, 0.0
        endless = 1e15 / float(self.loss.total.sum())  # the classes are separated: no C is large enough
        while steps < max_iter:
            least = self._critical()
            full = len(self.support) >= n_nonzero
            if (full and abs(least - C) <= 1e-3 * C) or least > endless:
                break
            C = least if full else max(least * 1.001, 1.1 * C)
            run = self.solve(C, tol, max_iter - steps, callback, n_nonzero)
            steps += run.n_iter
            history.append(run.history[-1])
        C = C or endless
        for _ in range(20):  # bring C just below the threshold, from whichever side
            C = min(C, 0.999 * self._critical())
            left = self._newton(C, 1e-4 * tol)
            self.b = self._best_intercept(self.h)
            if self._critical() > C:
                break
        reached = len(self.support) == n_nonzero and left <= tol
        return Convergence(max(steps, 1), self.fixed_point_residual(C), reached, np.array(history)), C

    def _critical(self) -> float:
        """The smallest C at which a coordinate off the support would pass its threshold."""
        slope = np.abs(self.gram.product(self._residual(1.0), exact=True))
        slope[self.support] = 0
        return float((2 * THRESHOLD**1.5 * np.sqrt(self.bound) / np.maximum(slope, 1e-100) ** 1.5).min())

    def _join(self, C: float, most: int, thorough: bool) -> int:
        """Let at most so many coordinates off the support take their half-thresholding step."""
        if most <= 0:
            return 0
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
        """Coordinates off the support that are worth a trial, found by their slopes or from every column."""
        self.b = self._best_intercept(self.h)  # the slopes are those of Phi
        n = len(self.points)
        if metric is None:
            # How far each coordinate is above the threshold of its step, up to a common factor.
            score = np.abs(self.gram.product(self._residual(C))) / np.cbrt(self.bound)
        else:
            score = np.empty(n)
            for start in range(0, n, 1024):
                block = np.arange(start, min(start + 1024, n))
                promise = self._promise(C, block, self.points.columns(block), metric)
                score[block] = step_of(promise.slope, promise.curvature)[1]
        score[self.support] = 0
        best = np.argsort(-score, kind="stable")[:_SHORTLIST]
        return best[score[best] > 0]

    def _promise(self, C: float, among: Array, columns: Array, metric: _Metric) -> _Promise:
        """Quadratic models of the loss along coordinates, while those that the metric knows move as well.

        The curvature of a coordinate is then a Schur complement, which is much smaller than its own
        curvature where columns are alike.
        """
        W = C * self._weights()
        U = metric.A.T @ (W[:, None] * columns)
        along, rest = metric.solve(U), metric.solve(self._gradient(C, metric))
        alone = self._residual(C) @ columns
        bound = C * self.bound[among]
        curvature = np.clip(W @ columns**2 - (U * along).sum(axis=0), 1e-6 * bound, bound)
        return _Promise(alone - U.T @ rest, curvature, along, rest, alone, bound)

    def _best_trial(
        self, C: float, short: Array, columns: Array, metric: _Metric, thorough: bool
    ) -> tuple[int, Array, Array, float] | None:
        """The listed coordinate of largest promise whose step lowers the objective."""
        promise, known = self._promise(C, short, columns, metric), metric.n_coordinates
        gain = step_of(promise.slope, promise.curvature)[1]
        certain = step_of(promise.alone, promise.bound)[1]
        order = np.argsort(-gain, kind="stable")
        present = self.objective(C)
        trials = (4 if thorough else 1) * _TRIALS
        enough = (_THOROUGHLY if thorough else _WORTH_A_TRIAL) * present
        for rank, j in enumerate(order[gain[order] > enough]):
            if rank >= trials and not certain[j] > enough:
                continue
            steepness, bound = promise.curvature[j], promise.bound[j]
            while True:  # backtracking; a step of the coordinate alone, at the bound, is sure to succeed
                together = steepness < bound
                step = float(step_of((promise.slope if together else promise.alone)[j], steepness)[0])
                if step == 0:
                    break
                x = self.x.copy()
                if together:
                    move = promise.rest + step * promise.along[:, j]
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
        """Second derivatives on the support and the intercept, made positive definite."""
        W, size = C * self._weights(), np.abs(self.x)
        A = np.concatenate([self.columns, np.ones((len(W), int(self.intercept)))], axis=1)
        # Far from the border nothing is curved, but slopes of rows on the wrong side may be large: a share of
        # them keeps the step of the intercept below 1e10.
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
        """First derivatives with respect to the coordinates and the intercept that a metric knows."""
        G = self._residual(C) @ metric.A
        x = self.x[: metric.n_coordinates]
        G[: len(x)] += 0.5 * np.sign(x) / np.sqrt(np.abs(x))
        return G

    def _newton(self, C: float, tol: float) -> float:
        """Damped Newton steps on the support, signs kept; returns what is left to gain, relative."""
        left = 0.0
        for step in range(_NEWTON_STEPS + 1):
            if len(self.support) == 0:
                return 0.0
            metric = self._metric(C)
            G = self._gradient(C, metric)
            direction = -metric.solve(G)
            present = self.objective(C)
            left = -0.5 * float(G @ direction) / present
            if left <= tol or step == _NEWTON_STEPS:
                break
            if not self._move(C, direction, present):
                return 0.0  # what is left is indistinguishable from rounding
        return left

    def _move(self, C: float, direction: Array, present: float) -> bool:
        """Go along a direction until the objective falls; coordinates that would change sign become zero.

        So do those that nearly vanish. At a minimum ``C bound`` is at least the curvature of the root of a
        coordinate, ``|x|^(-3/2) / 4``, from which its least size follows.
        """
        t, least = 1.0, _VANISHING * (4 * C * self.bound[self.support]) ** (-2 / 3)
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
        """Half thresholding of the support: coordinates too small to stay leave, if any."""
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

    def iterate(
        self, C: float, tol: float, max_iter: int, callback: Callback = None, n_nonzero: int | None = None
    ) -> tuple[Convergence, float]:
        """Half thresholding of all coordinates at once, with one step size for all.

        With ``n_nonzero`` C is at each iteration the one that leaves as many coordinates (Xu et
        al. 2012, scheme 3). Returns the C of the last iteration too.
        """
        n = len(self.points)
        beta = np.zeros(n)
        beta[self.support] = self.x
        lipschitz = self._lipschitz()
        # Fewer slopes may be other than zero than are asked for, whatever C is: it stays finite.
        endless = 1e15 / float(self.loss.total.sum())
        start, history = time.perf_counter(), [self.objective(C)]
        rounding = 10 * float(np.finfo(self.gram.dtype).eps)
        for iteration in range(1, max_iter + 1):
            slope = self.gram.product(self._residual(1.0))
            while True:
                z = beta - slope / lipschitz
                if n_nonzero is not None and n_nonzero < n:
                    cut = np.partition(np.abs(z), n - n_nonzero - 1)[n - n_nonzero - 1]
                    least = THRESHOLD * (2 / lipschitz / endless) ** (2 / 3)
                    C = 2 / lipschitz * (THRESHOLD / max(cut * (1 + 1e-12), least)) ** 1.5
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
        return Convergence(iteration, residual, residual <= tol, np.array(history)), C

    def _lipschitz(self) -> float:
        """Largest curvature of Phi for C = 1, by the power method on the centred, weighted Gram."""
        m, vector = self.loss.total, np.ones(len(self.points))
        vector[::2] = -1.0
        value = float(self.bound.max())
        for _ in range(20):
            image = self.gram.product(vector / max(float(np.linalg.norm(vector)), np.finfo(float).tiny))
            image = m * (image - (m @ image / m.sum() if self.intercept else 0.0))
            vector = self.gram.product(image)
            value = max(value, 0.25 * float(np.linalg.norm(vector)))
        return 1.01 * value
