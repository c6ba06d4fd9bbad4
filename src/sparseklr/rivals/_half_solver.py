"""Half thresholding one coordinate at a time, with Newton's method on the support."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..progress import Iteration
from ._half_model import Callback, Convergence, HalfModel
from ._half_operator import THRESHOLD, step_of

Array = np.ndarray

# So many coordinates, those of the largest promised decrease, have their columns computed and are tried.
_SHORTLIST = 64
# After so many trials in vain the rest of the short list is left for the next round.
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


class HalfSolver(HalfModel):
    """Solves one binary problem from where its model stands, for a C or for a number of points."""

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
        """The same with C from the sparsity: the largest C that leaves so many coordinates non-zero.

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
