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

With several classes, :class:`SoftmaxProblem` has one function :math:`g_k = f_k + b_k` for each class,

.. math:: \min_{f, b}\; \tfrac12 \sum_k \|f_k\|^2
          + \sum_i C_i \log \sum_k e^{\lambda [k \ne y_i] + g_k(x_i) - g_{y_i}(x_i)}

and its dual, in probabilities :math:`\pi_i` with :math:`\beta_{ik} = C_i ([k = y_i] - \pi_{ik})`,

.. math:: \min_\pi\; \tfrac12 \sum_k \beta_k^\top K \beta_k + \sum_{ik} C_i \pi_{ik} \log \pi_{ik}
          - \lambda \sum_i C_i \sum_{k \ne y_i} \pi_{ik}
          \quad\text{s.t.}\quad \textstyle\sum_k \pi_{ik} = 1,\; \sum_i \beta_{ik} = 0 .

The paper is Consolo, Manno and Amaldi (2025), Computers & Operations Research 188, 107363.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import entr, expit, logsumexp, softmax, xlogy
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
            z = self.lam - self.y * (F + intercept)
            loss = np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))  # faster than np.logaddexp
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


@dataclass(frozen=True)
class SoftmaxProblem:
    """The dual problem of several classes without its kernel.

    Matrices have a row per class and a column per training row. ``coef`` is beta; ``F = coef @ K``. A mass
    ``C_i pi_ik`` is at least ``bound_i``, and a row whose own class has all the remaining mass is absent from
    the model: ``-coef`` is the mass above the bound of the other classes.

    Parameters
    ----------
    codes : array of int (n,)
        The class of each row, from 0 to ``n_classes - 1``.
    n_classes : int
    box : array (n,)
        ``C_i = C * weight_i > 0``.
    bound : array (n,)
        Least mass of every class, ``0 < n_classes * bound_i < C_i``.
    lam : float
        The margin, >= 0.
    """

    codes: Array
    n_classes: int
    box: Array
    bound: Array
    lam: float

    @property
    def own(self) -> Array:
        """Whether a class is that of the row, (n_classes, n)."""
        return np.arange(self.n_classes)[:, None] == self.codes

    def coef_of_masses(self, above: Array) -> Array:
        """``coef`` for masses above the bound; those of the own class are ignored."""
        coef = np.where(self.own, 0.0, -above)
        coef[self.codes, np.arange(len(self.codes))] = -coef.sum(axis=0)
        return coef

    def masses(self, coef: Array) -> Array:
        """The masses of all classes minus the bound; they sum to ``C_i - n_classes * bound_i``."""
        room = self.box - self.n_classes * self.bound
        rest = room - np.where(self.own, coef, 0.0).sum(axis=0)
        rest = np.where(rest > 8 * np.finfo(float).eps * self.box, rest, 0.0)  # rounding of the other masses
        return np.where(self.own, rest, np.maximum(-coef, 0.0))

    def gradient(self, coef: Array, F: Array) -> Array:
        """``G_ik = log a_ik - f_k(x_i) - lam [k != y_i]``, the derivative up to a constant of the row."""
        return np.log(self.bound + self.masses(coef)) - F - self.lam * ~self.own

    def dual_objective(self, coef: Array, F: Array) -> float:
        """Value of the dual objective, which is minimised; defined for probabilities from 0 to 1."""
        pi = np.where(self.own, 1.0, 0.0) - coef / self.box
        linear = self.lam * np.where(self.own, 0.0, coef).sum()
        return float(0.5 * np.vdot(coef, F) + (self.box * xlogy(pi, np.maximum(pi, 0.0))).sum() + linear)

    def primal_objective(self, coef: Array, F: Array, intercept: Array) -> float:
        """Penalised loss of ``f_k = sum_i coef_ik k(x_i, .)`` with the intercepts."""
        g = F + intercept[:, None]
        loss = logsumexp(g + self.lam * ~self.own, axis=0) - g[self.codes, np.arange(len(self.codes))]
        return float(0.5 * np.vdot(coef, F) + self.box @ loss)

    def gap(self, coef: Array, F: Array, intercept: Array) -> float:
        """Duality gap, primal plus dual value: >= 0, and 0 only at the optimum of the unbounded problem."""
        return self.primal_objective(coef, F, intercept) + self.dual_objective(coef, F)

    def coef_of(self, g: Array) -> Array:
        """The coefficients that correspond to decision values ``g`` at the optimum."""
        return self.box * (self.own - softmax(g + self.lam * ~self.own, axis=0))

    def kkt_violation(self, coef: Array, F: Array, intercept: Array) -> float:
        """Twice the largest ``(G_ik - b_k) - (G_il - b_l)`` of a row with mass k above its bound.

        A point is optimal if and only if some intercepts b make it 0. The factor makes it the violation of
        :class:`DualProblem` for two classes with their best intercept.
        """
        slack = self.gradient(coef, F) - intercept[:, None]
        largest = np.where(self.masses(coef) > 0, slack, -np.inf).max(axis=0)
        return float(2 * (largest - slack.min(axis=0)).max())

    def pair(self, p: int, q: int, coef: Array, F: Array) -> tuple[DualProblem, Array, Array]:
        """The problem of moving mass between two classes, which is a binary one with the kernel 2 K.

        Returns the problem, its variable (the mass of p, which is at most the sum of the masses of p and q)
        and its F up to a constant vector. Rows whose masses of p and q are at the bound are fixed.
        """
        masses, own = self.masses(coef)[[p, q]], self.own[[p, q]]
        problem = DualProblem(np.ones(len(self.box)), masses.sum(axis=0) + 2 * self.bound, self.bound, 0.0)
        return problem, self.bound + masses[0], F[q] - F[p] + self.lam * (own[0] * 1.0 - own[1])

    def feasible_start(self, coef: Array) -> Array:
        """A feasible point near ``coef``, whose rows may be a part of those of another problem.

        Rows of each class may have mass of another class. Unless all sums are 0 already, for each pair of
        classes the larger of the two total masses is scaled down to the smaller one. Then all masses are
        scaled until they fit.
        """
        given = np.where(self.own, 0.0, np.maximum(-coef, 0.0))
        classes, rows = given.nonzero()
        if not len(rows):
            return np.zeros_like(given)
        excess = np.abs(self.coef_of_masses(given).sum(axis=1)).max()
        if excess > 1e-12 * given.sum():
            shape = (self.n_classes, self.n_classes)
            flow = sparse.csr_array((given[classes, rows], (self.codes[rows], classes)), shape=shape)
            both = flow.minimum(flow.T).tocsr()
            given[classes, rows] *= _entries(both, self.codes[rows], classes) / _entries(
                flow, self.codes[rows], classes
            )
        room = self.box - self.n_classes * self.bound
        return self.coef_of_masses(given * min(1.0, (room / np.maximum(given.sum(axis=0), room)).min()))


def _entries(matrix: Any, rows: Array, columns: Array) -> Array:
    """Entries of a sparse matrix at some places."""
    return np.asarray(sparse.csr_matrix(matrix)[rows, columns]).ravel()


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
