r"""The optimisation problems of S-KLR in NumPy; the compiled solver is tested against this module.

Sparse kernel logistic regression with margin :math:`\lambda` (``lam``) is

.. math:: \min_{f}\; \tfrac12 \|f\|^2 + \sum_i C_i \log(1 + e^{\lambda - y_i f(x_i)}),
          \qquad f(x) = \sum_j \alpha_j y_j k(x_j, x) + b

Its dual is formulation (2BM) of the paper:

.. math:: \min_\alpha\; \tfrac12 \alpha^\top Q \alpha + \sum_i C_i G(\alpha_i / C_i)
          - \lambda \sum_i \alpha_i
          \quad\text{s.t.}\quad y^\top\alpha = 0,\; \ell_i \le \alpha_i \le C_i - \ell_i

where :math:`G(d) = d\log d + (1-d)\log(1-d)` and :math:`Q_{ij} = y_i y_j K_{ij}`. The box constraint of each
training row i has its own size :math:`C_i`, which is C times the weight of the row. The array ``box``
contains the values :math:`C_i`. The small number :math:`\ell_i` (``bound``) keeps :math:`\alpha_i` away from
0 and from :math:`C_i`, where the logarithms are singular. Given ``F = K @ (alpha * y)``, every function of
this module costs O(n).

With more than two classes, :class:`SoftmaxProblem` has one function :math:`g_k = f_k + b_k` for each class,

.. math:: \min_{f, b}\; \tfrac12 \sum_k \|f_k\|^2
          + \sum_i C_i \log \sum_k e^{\lambda [k \ne y_i] + g_k(x_i) - g_{y_i}(x_i)}

and the dual problem in probabilities :math:`\pi_i`, with :math:`\beta_{ik} = C_i ([k = y_i] - \pi_{ik})`, is

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

from ..weights import check_weight

Array = np.ndarray


@dataclass(frozen=True)
class DualProblem:
    """The binary dual problem without its kernel matrix.

    Parameters
    ----------
    y : array (n,)
        Labels, -1 or +1.
    box : array (n,)
        Sizes ``C_i = C * weight_i > 0`` of the box constraints.
    bound : array (n,)
        Smallest distance that ``alpha_i`` may have from 0 and from ``C_i``, with ``0 < bound_i < C_i / 2``.
    lam : float
        The margin, >= 0.
    """

    y: Array
    box: Array
    bound: Array
    lam: float

    def gradient(self, alpha: Array, F: Array) -> Array:
        """Return the gradient ``Q alpha + logit(alpha / C) - lam`` of the dual objective."""
        return self.y * F + np.log(alpha / (self.box - alpha)) - self.lam

    def dual_objective(self, alpha: Array, F: Array) -> float:
        """Return the value of the dual objective, which is minimised, for ``0 <= alpha_i <= C_i``."""
        d = alpha / self.box
        entropy = -entr(d) + xlogy(1 - d, 1 - d)
        with np.errstate(over="ignore", invalid="ignore"):  # the solver raises an error for non-finite values
            return float(0.5 * (alpha * self.y) @ F + self.box @ entropy - self.lam * alpha.sum())

    def primal_objective(self, alpha: Array, F: Array, intercept: float) -> float:
        """Return the penalised loss of f = sum_j alpha_j y_j k(x_j, .) + intercept."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = self.lam - self.y * (F + intercept)
            loss = np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))  # faster than np.logaddexp
            return float(0.5 * (alpha * self.y) @ F + self.box @ loss)

    def gap(self, alpha: Array, F: Array, intercept: float) -> float:
        """Return the duality gap, the sum of the primal and the dual value.

        The gap is non-negative. It is 0 only at the optimum of the problem without ``bound``.
        """
        return self.primal_objective(alpha, F, intercept) + self.dual_objective(alpha, F)

    def alpha_of(self, f: Array) -> Array:
        """Return the dual variables at the optimum whose decision values are ``f``."""
        return self.box * expit(self.lam - self.y * f)

    def violation_range(self, alpha: Array, F: Array) -> tuple[float, float]:
        """Return ``(max_up E, min_low E)`` with ``E_i = -y_i grad_i``.

        ``up`` contains the rows for which ``y_i alpha_i`` can grow, ``low`` the rows for which it can fall.
        At the optimum, the intercept lies between the two values.
        """
        E = -self.y * self.gradient(alpha, F)
        can_grow, can_fall = alpha < self.box - self.bound, alpha > self.bound
        up = np.where(self.y > 0, can_grow, can_fall)
        low = np.where(self.y > 0, can_fall, can_grow)
        return float(E[up].max(initial=-np.inf)), float(E[low].min(initial=np.inf))

    def kkt_violation(self, alpha: Array, F: Array) -> float:
        """Return ``max(0, max_up E - min_low E)``, which is 0 if and only if alpha is optimal."""
        upper, lower = self.violation_range(alpha, F)
        return max(0.0, upper - lower)

    def alpha_above(self, above: Array) -> Array:
        """Return ``bound + above``, rounded so that it never exceeds the upper bound."""
        high = self.box - self.bound
        return np.where(above < self.box - 2 * self.bound, np.minimum(self.bound + above, high), high)

    def project(self, alpha: Array) -> Array:
        """Return the feasible point nearest to ``alpha``.

        The result is ``clip(alpha - mu y)`` with the number ``mu`` for which it satisfies y'alpha = 0. If
        ``alpha`` is very far from the feasible set, the result is only approximately the nearest point.
        """
        low, high = self.bound, self.box - self.bound
        # For more distant points, rounding errors would be too large relative to the box.
        far = 1e6 * self.box.sum()
        alpha = np.clip(alpha, low - far, high + far)

        def moved(mu: float) -> Array:
            return np.clip(alpha - mu * self.y, low, high)

        def excess(mu: float) -> float:
            return float(self.y @ moved(mu))

        start = moved(0.0)
        # If the start is feasible up to rounding, keep it: a change would move variables off their bounds.
        if abs(excess(0.0)) <= 2 * np.finfo(float).eps * len(start) * start.sum():
            return start
        # y'moved(mu) decreases with mu, and is linear between the values at which a variable meets a bound.
        meets = np.unique(np.concatenate([self.y * (alpha - low), self.y * (alpha - high)]))
        right = bisect_left(meets, 0.0, key=lambda mu: -excess(mu), hi=len(meets) - 1)
        ends = meets[max(right - 1, 0)], meets[right]
        fall = excess(ends[0]) - excess(ends[1])
        fraction = np.clip(excess(ends[0]) / fall, 0.0, 1.0) if fall > 0 else 0.0
        feasible = moved(ends[0] + fraction * (ends[1] - ends[0]))
        # The variable farthest from its bounds absorbs the rounding error of y'alpha.
        widest = int(np.argmax(np.minimum(feasible - low, high - feasible)))
        feasible[widest] -= self.y[widest] * (self.y @ feasible)
        return np.clip(feasible, low, high)

    @property
    def feasible(self) -> bool:
        """Whether the constraints have a solution; there may be none if the bound is large and C is small."""
        positive = self.y > 0
        low, high = self.bound, self.box - self.bound
        return bool(
            (low < high).all()
            and low[positive].sum() <= high[~positive].sum()
            and low[~positive].sum() <= high[positive].sum()
        )


@dataclass(frozen=True)
class SoftmaxProblem:
    """The dual problem with more than two classes, without its kernel matrix.

    Matrices have a row for each class and a column for each training row. ``coef`` contains beta, and
    ``F = coef @ K``. The mass of class k on row i is ``C_i pi_ik``; it is at least ``bound_i``. For the
    classes to which a row does not belong, ``-coef`` is the excess of the mass over this bound. A row has no
    influence on the model if all these excesses are zero.

    Parameters
    ----------
    codes : array of int (n,)
        The class of each row, from 0 to ``n_classes - 1``.
    n_classes : int
    box : array (n,)
        Total masses ``C_i = C * weight_i > 0``.
    bound : array (n,)
        Smallest mass of a class, with ``0 < n_classes * bound_i < C_i``.
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
        """Mask of shape (n_classes, n); entry (k, i) is True if row i belongs to class k."""
        return np.arange(self.n_classes)[:, None] == self.codes

    def coef_of_masses(self, above: Array) -> Array:
        """Return ``coef`` for given excesses of the masses over the bound; the true class is ignored."""
        coef = np.where(self.own, 0.0, -above)
        coef[self.codes, np.arange(len(self.codes))] = -coef.sum(axis=0)
        return coef

    def masses(self, coef: Array) -> Array:
        """Return the excesses of all masses over the bound.

        The excesses of a row sum to ``C_i - n_classes * bound_i``.
        """
        total = self.box - self.n_classes * self.bound
        rest = total - np.where(self.own, coef, 0.0).sum(axis=0)
        rest = np.where(rest > 8 * np.finfo(float).eps * self.box, rest, 0.0)  # a rounding error
        return np.where(self.own, rest, np.maximum(-coef, 0.0))

    def gradient(self, coef: Array, F: Array) -> Array:
        """Return ``G_ik = log a_ik - f_k(x_i) - lam [k != y_i]``, where a_ik is the mass of class k on row i.

        Up to a constant for each row, G is the derivative of the dual objective with respect to the masses.
        """
        return np.log(self.bound + self.masses(coef)) - F - self.lam * ~self.own

    def dual_objective(self, coef: Array, F: Array) -> float:
        """Return the value of the dual objective, which is minimised, for probabilities from 0 to 1."""
        pi = np.where(self.own, 1.0, 0.0) - coef / self.box
        linear = self.lam * np.where(self.own, 0.0, coef).sum()
        return float(0.5 * np.vdot(coef, F) + (self.box * xlogy(pi, np.maximum(pi, 0.0))).sum() + linear)

    def primal_objective(self, coef: Array, F: Array, intercept: Array) -> float:
        """Return the penalised loss of ``f_k = sum_i coef_ik k(x_i, .)`` with the intercepts."""
        g = F + intercept[:, None]
        loss = logsumexp(g + self.lam * ~self.own, axis=0) - g[self.codes, np.arange(len(self.codes))]
        return float(0.5 * np.vdot(coef, F) + self.box @ loss)

    def gap(self, coef: Array, F: Array, intercept: Array) -> float:
        """Return the duality gap, the sum of the primal and the dual value.

        The gap is non-negative. It is 0 only at the optimum of the problem without ``bound``.
        """
        return self.primal_objective(coef, F, intercept) + self.dual_objective(coef, F)

    def coef_of(self, g: Array) -> Array:
        """Return the coefficients that correspond to the decision values ``g`` at the optimum."""
        return self.box * (self.own - softmax(g + self.lam * ~self.own, axis=0))

    def kkt_violation(self, coef: Array, F: Array, intercept: Array) -> float:
        """Return twice the largest ``(G_ik - b_k) - (G_il - b_l)`` over rows i and classes k and l.

        Only classes k whose mass on row i is above its bound are considered. ``coef`` is optimal if and only
        if the violation is 0 for some intercepts b. With two classes and their best intercepts, the violation
        equals the violation of :class:`DualProblem`, because of the factor 2.
        """
        slack = self.gradient(coef, F) - intercept[:, None]
        largest = np.where(self.masses(coef) > 0, slack, -np.inf).max(axis=0)
        return float(2 * (largest - slack.min(axis=0)).max())

    def pair(self, p: int, q: int, coef: Array, F: Array) -> tuple[DualProblem, Array, Array]:
        """Return the problem in which mass moves between the classes p and q, its variable, and its F.

        This is a binary problem with the kernel 2 K. Its variable is the mass of p, which is at most the sum
        of the masses of p and q. F is correct up to a constant. Rows whose masses of p and q are both at the
        bound are fixed.
        """
        masses, own = self.masses(coef)[[p, q]], self.own[[p, q]]
        problem = DualProblem(np.ones(len(self.box)), masses.sum(axis=0) + 2 * self.bound, self.bound, 0.0)
        return problem, self.bound + masses[0], F[q] - F[p] + self.lam * (own[0] * 1.0 - own[1])

    def feasible_start(self, coef: Array) -> Array:
        """Return feasible coefficients near ``coef``, for example near the coefficients of a larger problem.

        The coefficients of each class must sum to 0. This holds if the mass of class l on the rows of class k
        equals the mass of class k on the rows of class l, for each pair of classes. Unless the sums are
        already 0, the larger of these two masses is scaled down to the smaller one. All masses are then
        scaled by a common factor so that they do not exceed their limits.
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
        total = self.box - self.n_classes * self.bound
        return self.coef_of_masses(given * min(1.0, (total / np.maximum(given.sum(axis=0), total)).min()))


def _entries(matrix: Any, rows: Array, columns: Array) -> Array:
    """Return the entries of a sparse matrix at the given rows and columns."""
    return np.asarray(sparse.csr_matrix(matrix)[rows, columns]).ravel()


def labels_and_boxes(y: Any, C: float, sample_weight: Any = None) -> tuple[Array, Array]:
    """Return the labels -1 and +1 as floats, and ``C_i = C * sample_weight_i``.

    An error is raised unless both classes have positive weight.
    """
    y = column_or_1d(y).astype(np.float64)
    if not np.isin(y, (-1.0, 1.0)).all() or len(np.unique(y)) < 2:
        raise ValueError(f"y must contain both labels -1 and +1; got {np.unique(y)[:5]}.")
    if not (isinstance(C, Real) and np.isfinite(C) and C > 0):
        raise ValueError(f"C must be a positive number; got {C!r}.")
    weight = check_weight(sample_weight, len(y))
    if len(np.unique(y[weight > 0])) < 2:
        raise ValueError("sample_weight must contain positive weights of both classes; one class has none.")
    box = boxes(C, weight)
    if ((box == 0) & (weight > 0)).any():
        raise ValueError(f"C={C:g} is too small: C times a positive sample_weight rounds to 0.")
    return y, box


def boxes(C: float, weight: Array) -> Array:
    """Return ``C_i = C * weight_i``; :meth:`Settings.bounds` checks the range of these values."""
    with np.errstate(over="ignore"):
        return C * weight
