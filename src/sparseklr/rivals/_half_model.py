r"""The l1/2 problem on kernel columns: a model on its support, and the published algorithm.

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
from scipy.special import expit

from ..data import DistinctPoints
from ..probability.loss import LogisticLoss
from ..progress import Iteration
from ._gram import Gram
from ._half_operator import THRESHOLD, half_threshold, step_of

Array = np.ndarray


@dataclass(frozen=True)
class Convergence:
    """How far a solve came; ``residual`` is the largest move of half thresholding over max |beta|."""

    n_iter: int
    residual: float
    converged: bool
    history: Array  # the objective after each iteration


Callback = Callable[[Iteration], Any] | None


class HalfModel:
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

    # -- the published algorithm --------------------------------------------------------------

    def iterate(
        self, C: float, tol: float, max_iter: int, callback: Callback = None, n_nonzero: int | None = None
    ) -> tuple[Convergence, float]:
        """Half thresholding of all coordinates at once, with one step size for all.

        With ``n_nonzero`` C is at each iteration the one that leaves so many coordinates (Xu et
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
