r"""The optimisation problem in NumPy, against which the compiled solver is tested.

Sparse kernel logistic regression with margin ``lam`` is

.. math:: \min_{f}\; \tfrac12 \|f\|^2 + \sum_i C_i \log(1 + e^{\lambda - y_i f(x_i)}),
          \qquad f(x) = \sum_j \alpha_j y_j k(x_j, x) + b

Its dual is formulation (2BM) of the paper, with one box per sample:

.. math:: \min_\alpha\; \tfrac12 \alpha^\top Q \alpha + \sum_i C_i G(\alpha_i / C_i)
          - \lambda \sum_i \alpha_i
          \quad\text{s.t.}\quad y^\top\alpha = 0,\; \ell_i \le \alpha_i \le C_i - \ell_i

where :math:`G(d) = d\log d + (1-d)\log(1-d)` and :math:`Q_{ij} = y_i y_j K_{ij}`. Given ``F = K @ (alpha *
y)``, every function here costs O(n).

The paper is Consolo, Manno and Amaldi (2025), Computers & Operations Research 188, 107363.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import entr, expit, xlogy
from sklearn.utils import column_or_1d

from ..samples import check_weight

Array = np.ndarray


@dataclass(frozen=True)
class DualProblem:
    """The dual problem without its kernel: labels, boxes, bounds and margin.

    Parameters
    ----------
    y : array (n,)
        Labels, -1 or +1.
    box : array (n,)
        ``C_i = C * weight_i > 0``.
    bound : array (n,)
        ``lo_i``: the distance of alpha from 0 and from ``C_i``, ``0 < lo_i < C_i / 2``.
    lam : float
        The margin, >= 0.
    """

    y: Array
    box: Array
    bound: Array
    lam: float

    def gradient(self, alpha: Array, F: Array) -> Array:
        """The gradient ``Q alpha + logit(alpha / C) - lam`` of the dual objective."""
        return self.y * F + np.log(alpha / (self.box - alpha)) - self.lam

    def dual_objective(self, alpha: Array, F: Array) -> float:
        """The dual objective, which is minimised; it is defined on the closed box [0, C_i]."""
        d = alpha / self.box
        entropy = -entr(d) + xlogy(1 - d, 1 - d)
        with np.errstate(over="ignore", invalid="ignore"):  # the solver raises on non-finite values
            return float(0.5 * (alpha * self.y) @ F + self.box @ entropy - self.lam * alpha.sum())

    def primal_objective(self, alpha: Array, F: Array, intercept: float) -> float:
        """The penalised loss of f = sum_j alpha_j y_j k(x_j, .) + intercept."""
        with np.errstate(over="ignore", invalid="ignore"):
            loss = np.logaddexp(0, self.lam - self.y * (F + intercept))
            return float(0.5 * (alpha * self.y) @ F + self.box @ loss)

    def gap(self, alpha: Array, F: Array, intercept: float) -> float:
        """The duality gap, primal plus dual value; it is 0 only at the optimum of the unbounded problem."""
        return self.primal_objective(alpha, F, intercept) + self.dual_objective(alpha, F)

    def alpha_of(self, f: Array) -> Array:
        """The dual variables that correspond to decision values ``f`` at the optimum."""
        return self.box * expit(self.lam - self.y * f)

    def violation_range(self, alpha: Array, F: Array) -> tuple[float, float]:
        """``(max_up E, min_low E)`` with ``E_i = -y_i grad_i``; the intercept lies between them."""
        E = -self.y * self.gradient(alpha, F)
        can_grow, can_fall = alpha < self.box - self.bound, alpha > self.bound
        up = np.where(self.y > 0, can_grow, can_fall)
        low = np.where(self.y > 0, can_fall, can_grow)
        return float(E[up].max(initial=-np.inf)), float(E[low].min(initial=np.inf))

    def kkt_violation(self, alpha: Array, F: Array) -> float:
        """``max(0, max_up E - min_low E)``: 0 if and only if alpha is optimal."""
        upper, lower = self.violation_range(alpha, F)
        return max(0.0, upper - lower)

    def alpha_above(self, above: Array) -> Array:
        """``bound + above``, rounded so that it never exceeds the upper bound."""
        high = self.box - self.bound
        return np.where(above < self.box - 2 * self.bound, np.minimum(self.bound + above, high), high)

    def project(self, alpha: Array) -> Array:
        """The nearest feasible point: ``clip(alpha - mu y)`` with ``mu`` such that y'alpha = 0.

        For very distant points it is only approximately the nearest.
        """
        low, high = self.bound, self.box - self.bound
        # From farther away, rounding would leave too few digits inside the box.
        far = 1e6 * self.box.sum()
        alpha = np.clip(alpha, low - far, high + far)

        def moved(mu: float) -> Array:
            return np.clip(alpha - mu * self.y, low, high)

        def excess(mu: float) -> float:
            return float(self.y @ moved(mu))

        start = moved(0.0)
        # The point is feasible up to rounding; moving it would take points off their bounds.
        if abs(excess(0.0)) <= 2 * np.finfo(float).eps * len(start) * start.sum():
            return start
        # y'moved(mu) decreases with mu and is linear between the values where a point reaches a bound.
        meets = np.unique(np.concatenate([self.y * (alpha - low), self.y * (alpha - high)]))
        right = bisect_left(meets, 0.0, key=lambda mu: -excess(mu), hi=len(meets) - 1)
        ends = meets[max(right - 1, 0)], meets[right]
        fall = excess(ends[0]) - excess(ends[1])
        fraction = np.clip(excess(ends[0]) / fall, 0.0, 1.0) if fall > 0 else 0.0
        feasible = moved(ends[0] + fraction * (ends[1] - ends[0]))
        # The point farthest from its bounds absorbs the rounding error of y'alpha.
        widest = int(np.argmax(np.minimum(feasible - low, high - feasible)))
        feasible[widest] -= self.y[widest] * (self.y @ feasible)
        return np.clip(feasible, low, high)

    @property
    def feasible(self) -> bool:
        """Whether some point of the box has y'alpha = 0, which may fail for a large bound and a small C."""
        positive = self.y > 0
        low, high = self.bound, self.box - self.bound
        return bool(
            (low < high).all()
            and low[positive].sum() <= high[~positive].sum()
            and low[~positive].sum() <= high[positive].sum()
        )


def labels_and_boxes(y: Any, C: float, sample_weight: Any = None) -> tuple[Array, Array]:
    """Return labels -1/+1 and ``C_i = C * sample_weight_i``; both classes must have positive weight."""
    y = column_or_1d(y).astype(np.float64)
    if not np.isin(y, (-1.0, 1.0)).all() or len(np.unique(y)) < 2:
        raise ValueError(f"y must contain both labels -1 and +1; got {np.unique(y)[:5]}.")
    if not (isinstance(C, Real) and np.isfinite(C) and C > 0):
        raise ValueError(f"C must be a positive number; got {C!r}.")
    weight = check_weight(sample_weight, len(y))
    if len(np.unique(y[weight > 0])) < 2:
        raise ValueError("sample_weight must leave points of both classes; one class has no positive weight.")
    box = boxes(C, weight)
    if ((box == 0) & (weight > 0)).any():
        raise ValueError(f"C={C:g} is too small: C times a positive sample_weight rounds to 0.")
    return y, box


def boxes(C: float, weight: Array) -> Array:
    """The boxes ``C_i = C * weight_i``; :meth:`Settings.bounds` checks their range."""
    with np.errstate(over="ignore"):
        return C * weight
