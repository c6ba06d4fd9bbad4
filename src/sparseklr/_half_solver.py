r"""Iterative half thresholding for logistic regression on kernel columns.

.. math:: \min_{\beta, b}\; C \sum_i m_i A(f_i) - t_i f_i + \sum_j |\beta_j|^{1/2},
          \qquad f = K\beta + b

The intercept is always at its best value, so everything here is about
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

from ._distinct import DistinctPoints, Gram, Likelihood
from ._half_operator import THRESHOLD, half_threshold, step_of

Array = np.ndarray

# Coordinates with the largest promised decrease whose columns are computed and tried.
_SHORTLIST = 64
# Trials before the rest of the short list is given up in this round.
_TRIALS = 4
# Between joins the support is fitted to this share of the objective. On ring with C = 1e4 a looser
# 1e-3 lets it swell to 1500 coordinates (100 s and more), here to 730 of which 225 remain (55 s).
_SETTLED = 1e-4


@dataclass(frozen=True)
class Record:
    """Where a solve stands: iterations, what is left to gain relative to the objective, time."""

    n_iter: int
    violation: float
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """How a solve ended; ``residual`` is the largest move of half thresholding over max |beta|."""

    n_iter: int
    residual: float
    converged: bool
    history: Array  # the objective after each iteration


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
    along: Array  # (s + 1, c) how these move for a unit step, with a minus sign
    rest: Array  # (s + 1,) and what they have left to move by themselves
    alone: Array  # (c,) slope with the support held
    bound: Array  # of the curvature


Callback = Callable[[Record], Any] | None


class HalfSolver:
    """One binary problem: its data, and a model on its support that the next solve starts from.

    Attributes
    ----------
    support : array of int (s,)
    x : array (s,)
        beta on the support.
    columns : array (n, s)
        Kernel columns of the support.
    h : array (n,)
        ``columns @ x``; f = h + b.
    """

    def __init__(
        self, points: DistinctPoints, gram: Gram, loss: Likelihood, spread: Array, intercept: bool
    ) -> None:
        self.points, self.gram, self.loss, self.intercept = points, gram, loss, intercept
        self.bound = spread / 4  # of the curvature of Phi along each coordinate, for C = 1
        self.support: Array = np.zeros(0, dtype=np.intp)
        self.x: Array = np.zeros(0)
        self.columns: Array = np.zeros((len(points), 0), order="F")
        self.h: Array = np.zeros(len(points))
        self.b = 0.0
        self.b = self._best_intercept(self.h)

    # -- the published algorithm --------------------------------------------------------------

    def iterate(
        self, C: float, tol: float, max_iter: int, callback: Callback = None, n_nonzero: int | None = None
    ) -> tuple[Outcome, float]:
        """Half thresholding of all coordinates at once, with one step size for all.

        With ``n_nonzero`` C is at each iteration the one that leaves so many coordinates (Xu et
        al. 2012, scheme 3). Returns the C of the last iteration too.
        """
        n = len(self.points)
        beta = np.zeros(n)
        beta[self.support] = self.x
        lipschitz = self._lipschitz()
        start, history = time.perf_counter(), [self.objective(C)]
        rounding = 10 * float(np.finfo(self.gram.dtype).eps)
        for iteration in range(1, max_iter + 1):
            slope = self.gram.product(self._residual(1.0))
            while True:
                z = beta - slope / lipschitz
                if n_nonzero is not None and n_nonzero < n:
                    cut = np.partition(np.abs(z), n - n_nonzero - 1)[n - n_nonzero - 1]
                    C = 2 / lipschitz * (THRESHOLD / max(cut * (1 + 1e-12), np.finfo(float).tiny)) ** 1.5
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
                callback(Record(iteration, max(residual, 1e-300), time.perf_counter() - start))
            if residual <= tol:
                break
        self.columns = self.points.columns(self.support)
        return Outcome(iteration, residual, residual <= tol, np.array(history)), C

    def _lipschitz(self) -> float:
        """Largest curvature of Phi for C = 1, by the power method on the centred, weighted Gram."""
        m, vector = self.loss.total, np.ones(len(self.points))
        vector[::2] = -1.0
        value = float(self.bound.max())
        for _ in range(20):
            image = self.gram.product(vector / np.linalg.norm(vector))
            image = m * (image - (m @ image / m.sum() if self.intercept else 0.0))
            vector = self.gram.product(image)
            value = max(value, 0.25 * float(np.linalg.norm(vector)))
        return 1.01 * value

    def solve_sparse(
        self, n_nonzero: int, tol: float, max_iter: int, callback: Callback = None
    ) -> tuple[Outcome, float]:
        """The same with C from the sparsity: the largest C that leaves so many coordinates.

        C is the one at which the next coordinate would pass the threshold of its step, found by
        raising it from zero. Returns it too.
        """
        C, history, steps = 0.0, [], 0
        for _ in range(500):
            least = self._critical()
            full = len(self.support) >= n_nonzero
            if (full and abs(least - C) <= 1e-3 * C) or least > 1e12 or steps >= max_iter:
                break
            C = least if full else max(least * 1.001, 1.1 * C)
            outcome = self.solve(C, tol, max_iter - steps, callback, n_nonzero)
            steps += outcome.n_iter
            history.append(outcome.history[-1])
        C = min(C, least * (1 - 1e-9))
        left = self._newton(C, tol)
        reached = len(self.support) == n_nonzero and left <= tol
        return Outcome(steps, self.fixed_point_residual(C), reached, np.array(history)), C

    def _critical(self) -> float:
        """The smallest C at which a coordinate off the support would pass its threshold."""
        slope = np.abs(self.gram.product(self._residual(1.0), exact=True))
        slope[self.support] = 0
        return float((2 * THRESHOLD**1.5 * np.sqrt(self.bound) / np.maximum(slope, 1e-100) ** 1.5).min())

    # -- one coordinate at a time, Newton on the support --------------------------------------

    def solve(
        self,
        C: float,
        tol: float,
        max_iter: int,
        callback: Callback = None,
        max_support: int | None = None,
    ) -> Outcome:
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
                callback(Record(iteration, max(left, 1e-300), time.perf_counter() - start))
            # Once nothing moves, also from a fully fitted support, exact slopes have the last word.
            quiet = quiet + 1 if not joined and not dropped and left <= goal else 0
            if quiet > 2:
                residual = self.fixed_point_residual(C, self.support)
                if residual <= tol or goal < 1e-15:  # the objective cannot be told from lower ones
                    return Outcome(iteration, self.fixed_point_residual(C), True, np.array(history))
                goal /= 100
        return Outcome(iteration, self.fixed_point_residual(C), False, np.array(history))

    def _join(self, C: float, most: int, thorough: bool) -> int:
        """Let at most so many coordinates off the support take their half-thresholding step."""
        metric = self._metric(C)
        short = self._shortlist(C, metric if thorough else None)
        columns = self.points.columns(short)
        for joined in range(most):
            chosen = self._best_trial(C, short, columns, metric, (4 if thorough else 1) * _TRIALS)
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
        """Coordinates off the support worth a trial: by their slopes, or by a look at every column."""
        self.b = self._best_intercept(self.h)  # the slopes are those of Phi
        n = len(self.points)
        if metric is None:
            # how far each coordinate is above the threshold of its step, but for a factor
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
        """Quadratic models of the loss along coordinates, with what the metric knows moving along.

        The curvature of a coordinate is then a Schur complement, much below its own where columns
        are alike.
        """
        W = C * self._weights()
        U = metric.A.T @ (W[:, None] * columns)
        along, rest = metric.solve(U), metric.solve(self._gradient(C, metric))
        alone = self._residual(C) @ columns
        bound = C * self.bound[among]
        curvature = np.clip(W @ columns**2 - (U * along).sum(axis=0), 1e-6 * bound, bound)
        return _Promise(alone - U.T @ rest, curvature, along, rest, alone, bound)

    def _best_trial(
        self, C: float, short: Array, columns: Array, metric: _Metric, trials: int
    ) -> tuple[int, Array, Array, float] | None:
        """The listed coordinate of largest promise whose step lowers the objective."""
        promise, known = self._promise(C, short, columns, metric), metric.n_coordinates
        gain = step_of(promise.slope, promise.curvature)[1]
        certain = step_of(promise.alone, promise.bound)[1]
        order = np.argsort(-gain, kind="stable")
        present = self.objective(C)
        for rank, j in enumerate(order[gain[order] > 1e-9 * present]):
            if rank >= trials and not certain[j] > 1e-9 * present:
                continue
            steepness, bound = promise.curvature[j], promise.bound[j]
            while True:  # backtracking: alone and at the bound the objective is sure to fall
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
        unit = np.concatenate([size**0.75, np.full(int(self.intercept), 1 / np.sqrt(max(W.sum(), 1e-300)))])
        B = (np.sqrt(W)[:, None] * A) * unit
        H, penalised = B.T @ B, np.arange(len(unit)) < len(size)
        try:
            factor = cho_factor(H - np.diag(0.25 * penalised))
        except LinAlgError:
            factor = cho_factor(H + np.diag(0.5 * penalised + 1e-10))
        return _Metric(A, unit, factor, len(size))

    def _gradient(self, C: float, metric: _Metric) -> Array:
        """First derivatives with respect to the coordinates and the intercept that a metric knows."""
        G = self._residual(C) @ metric.A
        x = self.x[: metric.n_coordinates]
        G[: len(x)] += 0.5 * np.sign(x) / np.sqrt(np.abs(x))
        return G

    def _newton(self, C: float, tol: float, max_steps: int = 20) -> float:
        """Damped Newton steps on the support, signs kept; returns what is left to gain, relative."""
        left = 0.0
        for step in range(max_steps + 1):
            if len(self.support) == 0:
                return 0.0
            metric = self._metric(C)
            G = self._gradient(C, metric)
            direction = -metric.solve(G)
            present = self.objective(C)
            left = -0.5 * float(G @ direction) / present
            if left <= tol or step == max_steps:
                break
            if not self._move(C, direction, present):
                return 0.0  # not to be told from rounding
        return left

    def _move(self, C: float, direction: Array, present: float) -> bool:
        """Go along a direction, coordinates that change sign to zero, as far as the objective falls."""
        t = 1.0
        for _ in range(40):
            x = self.x + t * direction[: len(self.x)]
            x[np.sign(x) != np.sign(self.x)] = 0
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
        if C * self._loss(h + b) + np.sqrt(np.abs(x)).sum() >= self.objective(C):
            return False
        self._keep(x)
        self.h, self.b = h, b
        return True

    def _keep(self, x: Array) -> None:
        kept = x != 0
        self.x = x[kept]
        if not kept.all():
            self.support, self.columns = self.support[kept], self.columns[:, kept]

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

    # -- values and derivatives at the present model ------------------------------------------

    def _loss(self, f: Array) -> float:
        return float(self.loss.value(f[None]))

    def objective(self, C: float) -> float:
        return C * self._loss(self.h + self.b) + float(np.sqrt(np.abs(self.x)).sum())

    def _residual(self, C: float) -> Array:
        return C * self.loss.residual(expit(self.h + self.b)[None])[0]

    def _weights(self) -> Array:
        return self.loss.weights(expit(self.h + self.b)[None])[0]

    def _best_intercept(self, h: Array) -> float:
        """The b at which the loss is stationary: Newton's method kept inside a bracket."""
        if not self.intercept:
            return 0.0
        low, high = -np.inf, np.inf
        total, wanted = self.loss.total, self.loss.target.sum()
        b = self.b + float(total @ (self.h - h)) / float(total.sum())  # were the change of h constant
        for _ in range(100):
            p = expit(h + b)
            excess = float(total @ p - wanted)
            step = -excess / max(float(total @ (p * (1 - p))), 1e-300)
            if abs(excess * step) <= 1e-13 * total.sum():  # twice the loss that is left to gain
                break
            low, high = (b, high) if excess < 0 else (low, b)
            new = b + min(max(step, -4.0), 4.0)
            b = new if low < new < high else (low + high) / 2
        return b
