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

from ._distinct import DistinctPoints, Likelihood
from .kernels import cache_bytes

Array = np.ndarray

# Zero is the minimiser up to |z| = THRESHOLD t^(2/3).
THRESHOLD = 54 ** (1 / 3) / 4
# Coordinates with the largest promised decrease whose columns are computed and tried.
_SHORTLIST = 64
# Trials before the rest of the short list is given up in this round.
_TRIALS = 4
# Between joins the support is fitted to this share of the objective. On ring with C = 1e4 a looser
# 1e-3 lets it swell to 1500 coordinates (100 s and more), here to 730 of which 225 remain (55 s).
_SETTLED = 1e-4


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
    array([0.    , 0.7042, 2.8532])
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

    More than a few thousand points are kept in float32: these products rank coordinates, what
    enters the model is computed from exact columns.
    """

    def __init__(self, points: DistinctPoints, cache_size: float | str) -> None:
        self.points = points
        self.matrix: Array | None = points.X if points.kernel.precomputed else None
        n = len(points)
        if self.matrix is None and 4 * n * n <= cache_bytes(cache_size):
            self.matrix = np.empty((n, n), dtype=np.float32)
            for start in range(0, n, 512):
                self.matrix[start : start + 512] = self._rows(slice(start, start + 512))

    def _rows(self, rows: slice) -> Array:
        X, kernel = self.points.X, self.points.kernel
        single = X if callable(kernel.name) else X.astype(np.float32)
        return kernel.matrix(single[rows], single, n_jobs=self.points.n_jobs)

    def product(self, r: Array, exact: bool = False) -> Array:
        """K r; ``exact`` asks for float64 throughout."""
        if self.matrix is not None and not (exact and self.matrix.dtype == np.float32):
            return (self.matrix @ r.astype(self.matrix.dtype)).astype(np.float64)
        points = self.points
        queries = points.X.astype(np.float64)
        return points.kernel.sum(queries, queries, r[None, :], n_jobs=points.n_jobs)[:, 0]

    def spread(self, total: Array, centred: bool) -> Array:
        """``sum_i m_i (K_ij - mean_j)^2`` for every column j; without the mean if not centred."""
        first, second = np.zeros(len(total)), np.zeros(len(total))
        for start in range(0, len(total), 512):
            rows = slice(start, start + 512)
            K = self.matrix[rows] if self.matrix is not None else self._rows(rows)
            m = total[rows].astype(K.dtype)
            first += m @ K
            second += m @ K**2
        # a column that is nearly constant counts as if 1e-6 of it were not
        return np.maximum(second - centred * first**2 / total.sum(), 1e-6 * second + np.finfo(float).tiny)


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

    def __init__(self, points: DistinctPoints, gram: Gram, loss: Likelihood, spread: Array, intercept: bool) -> None:
        self.points, self.gram, self.loss, self.intercept = points, gram, loss, intercept
        self.bound = spread / 4  # of the curvature of Phi along each coordinate, for C = 1
        self.support: Array = np.zeros(0, dtype=np.intp)
        self.x: Array = np.zeros(0)
        self.columns: Array = np.zeros((len(points), 0), order="F")
        self.h: Array = np.zeros(len(points))
        self.b = 0.0
        self.b = self._best_intercept(self.h)

    # -- the published algorithm --------------------------------------------------------------

    def iterate(self, C: float, tol: float, max_iter: int, n_nonzero: int | None = None) -> tuple[Outcome, float]:
        """Half thresholding of all coordinates at once, with one step size for all.

        With ``n_nonzero`` C is at each iteration the one that leaves so many coordinates (Xu et
        al. 2012, scheme 3). Returns the C of the last iteration too.
        """
        n = len(self.points)
        beta = np.zeros(n)
        beta[self.support] = self.x
        lipschitz = self._lipschitz()
        history, residual = [self.objective(C)], np.inf
        for iteration in range(max_iter):
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
                # the slack is what rounding of the products can amount to
                if self._loss(h + b) <= model + 1e-6 * abs(model):
                    break
                lipschitz *= 2
            residual = float(np.abs(move).max() / max(1.0, np.abs(new).max()))
            beta, self.h, self.b = new, h, b
            self.support = np.flatnonzero(beta)
            self.x = beta[self.support]
            history.append(self.objective(C))
            if residual <= tol:
                break
        self.columns = self.points.columns(self.support)
        return Outcome(iteration + 1, residual, residual <= tol, np.array(history)), C

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

    # -- one coordinate at a time, Newton on the support --------------------------------------

    def solve(
        self,
        C: float,
        tol: float,
        max_iter: int,
        callback: Callable[[Record], Any] | None = None,
        max_support: int | None = None,
    ) -> Outcome:
        """Half thresholding with the curvature of each coordinate as its step, from where it stands.

        1. Coordinates off the support that half thresholding makes non-zero join, best first.
        2. Newton steps on the support; coordinates that reach zero leave.
        3. When none joins, thresholding of the support with the bound of the curvature.
        """
        start, history = time.perf_counter(), [self.objective(C)]
        exact = settled = False
        for iteration in range(1, max_iter + 1):
            room = np.inf if max_support is None else max_support - len(self.support)
            joined = self._join(C, int(min(room, max(1, len(self.support) // 10))), exact)
            left = self._newton(C, max(tol, _SETTLED) if joined else tol)
            dropped = not joined and self._threshold(C)
            history.append(self.objective(C))
            if callback is not None:
                callback(Record(iteration, max(left, 1e-300), time.perf_counter() - start))
            quiet = not joined and not dropped and left <= tol
            settled = quiet and exact
            exact = quiet  # once nothing moves, slopes of full precision have the last word
            if settled:
                break
        return Outcome(iteration, self.fixed_point_residual(C), settled, np.array(history))

    def _join(self, C: float, most: int, exact: bool) -> int:
        """Let at most so many coordinates off the support take their half-thresholding step."""
        # how far each coordinate is above the threshold of its step, whatever the scale of C
        slope = self.gram.product(self._residual(C), exact)
        urgency = np.abs(slope) / np.cbrt(self.bound)
        urgency[self.support] = 0
        short = np.argsort(-urgency, kind="stable")[:_SHORTLIST]
        short = short[urgency[short] > 0]
        columns, metric = self.points.columns(short), self._metric(C)
        for joined in range(most):
            chosen = self._best_trial(C, short, columns, metric) if len(short) else None
            if chosen is None:
                return joined
            position, x, h, b = chosen
            self.support = np.append(self.support, short[position])
            self.x = x
            self.columns = np.concatenate([self.columns, columns[:, position : position + 1]], axis=1)
            self.h, self.b = h, b
            short, columns = np.delete(short, position), np.delete(columns, position, axis=1)
        return most

    def _best_trial(
        self, C: float, short: Array, columns: Array, metric: _Metric
    ) -> tuple[int, Array, Array, float] | None:
        """The listed coordinate of largest promise whose step lowers the objective.

        The support that ``metric`` knows moves along, so the curvature of a coordinate is a Schur
        complement, much below its own where columns are alike.
        """
        W = C * self._weights()
        slope = self._residual(C) @ columns
        U = metric.A.T @ (W[:, None] * columns)
        along = metric.solve(U)
        bound = C * self.bound[short]
        curvature = np.clip(W @ columns**2 - (U * along).sum(axis=0), 1e-6 * bound, bound)
        gain, certain = step_of(slope, curvature)[1], step_of(slope, bound)[1]
        order = np.argsort(-gain, kind="stable")
        present, known = self.objective(C), metric.n_coordinates
        for rank, j in enumerate(order[gain[order] > 1e-9 * present]):
            if rank >= _TRIALS and not certain[j] > 1e-9 * present:
                continue
            steepness = curvature[j]
            while True:  # backtracking: alone and at the bound the objective is sure to fall
                step = float(step_of(slope[j], steepness)[0])
                if step == 0:
                    break
                x = self.x.copy()
                if steepness < bound[j]:
                    moved = x[:known] - step * along[:known, j]
                    x[:known] = np.where(moved * x[:known] > 0, moved, x[:known])
                h = self.columns @ x + step * columns[:, j]
                b = self._best_intercept(h)
                x = np.append(x, step)
                if C * self._loss(h + b) + np.sqrt(np.abs(x)).sum() < present:
                    return int(j), x, h, b
                if steepness >= bound[j]:
                    break
                steepness = min(4 * steepness, bound[j])
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

    def _newton(self, C: float, tol: float, max_steps: int = 20) -> float:
        """Damped Newton steps on the support, signs kept; returns what is left to gain, relative."""
        left = 0.0
        for step in range(max_steps + 1):
            if len(self.support) == 0:
                return 0.0
            metric = self._metric(C)
            G = self._residual(C) @ metric.A
            G[: len(self.x)] += 0.5 * np.sign(self.x) / np.sqrt(np.abs(self.x))
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
        kept = half_threshold(self.x - slope / (C * self.bound[self.support]), 2 / (C * self.bound[self.support]))
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

    def fixed_point_residual(self, C: float) -> float:
        """Largest move of a coordinate under its half-thresholding step, over max(1, max |beta|)."""
        beta = np.zeros(len(self.points))
        beta[self.support] = self.x
        slope = self.gram.product(self._residual(C), exact=True)
        moved, _ = step_of(slope, C * self.bound, beta)
        return float(np.abs(moved - beta).max() / max(1.0, np.abs(beta).max()))

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
