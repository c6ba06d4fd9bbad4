r"""Penalised likelihood in the span of a few kernel functions, and its leave-one-out values.

With basis points ``B`` the model is :math:`f(x) = \sum_{b \in B} \beta_b k(x_b, x) + c` and

.. math:: \min_{\beta, c}\; \tfrac12 \beta^\top K_{BB} \beta + C \sum_i w_i \log(1 + e^{-y_i f(x_i)})

over *all* training rows. Equal rows are one point with all their weight :math:`w_i`; the share of it that
the positive class has is the target :math:`t_i`. In the coordinates v of :class:`~.basis.Basis` the penalty
is :math:`\tfrac12\|v\|^2` and Newton's system is well conditioned.

A Newton matrix costs as much as tens of products with it. So Newton's equations are solved by conjugate
gradients, preconditioned by the matrix of an earlier step or of a neighbouring C; a new one is computed when
that takes too many products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf

from .. import _core
from .basis import Basis
from .loss import derivatives
from .triangular import solve_symmetric

# At most so many heavy points get a second step when they are left out.
_SECOND_STEPS = 64
# ... whose loss changes by this share of the total loss at least.
_SECOND_STEP_FROM = 3e-4
# Newton's method takes ten steps or so; where kernel values are so large that their rounding errors outweigh
# the ridge it would go on without an end.
_MOST_STEPS = 200
# Conjugate gradients reduce the residual of Newton's equations by this factor.
_REDUCTION = 0.03
# The share of the information that is left out of Newton matrices on the way, and in the end. (A hundredth
# is too much for leave-one-out: it misleads on sonar for large C.)
_LEFT_OUT, _LEFT_OUT_IN_THE_END = 1e-2, 1e-3
# Leaving out a row is not looked at if that could change the mean loss by this share at most.
_NO_CHANGE = 1e-3
# Products with a few rows, which stay in the cache, cost a third as much beside a Newton matrix.
_FEW_ROWS = 2000


class LossAt(NamedTuple):
    """The loss of all points at some outputs."""

    value: float  # the weighted sum
    losses: np.ndarray  # of each point, whatever it weighs
    slope: np.ndarray  # first derivative of each point's weighted loss
    information: np.ndarray  # and the second


@dataclass(frozen=True, eq=False)
class Labels:
    """What a binary problem knows of every point: the share t of the positive class, and the weight w."""

    target: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray, k: int) -> Labels:
        """Class k against the rest, from the weight of each class on each point."""
        total = weight.sum(axis=1)
        return cls(weight[:, k] / total, total)

    def losses(self, f: np.ndarray) -> np.ndarray:
        """Log-loss of each point, whatever it weighs: ``-t log p - (1 - t) log(1 - p)``, p = sigmoid(f)."""
        return self.at(f).losses

    def at(self, f: np.ndarray) -> LossAt:
        """The weighted loss of all points at outputs f, with its derivatives."""
        out = np.empty((3, len(f)))
        return LossAt(_core.cross_entropy(f, self.target, self.weight, out), *out)

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivative of the weighted loss of each point."""
        here = self.at(f)
        return here.slope, here.information

    def mean(self, losses: np.ndarray) -> tuple[float, float]:
        r"""Weighted mean of one number for each point, and its standard error.

        Points are what is independent, whatever they weigh: with :math:`m = \sum w_i l_i / \sum w_i` the
        error is :math:`\sqrt{\sum_i w_i^2 (l_i - m)^2} / \sum_i w_i`. Multiplying all weights changes
        neither.
        """
        mean = float(self._share @ losses)
        off = self._share * (losses - mean)
        return mean, sqrt(off @ off)

    @cached_property
    def _share(self) -> np.ndarray:
        return self.weight / self.weight.sum()


@dataclass(frozen=True, eq=False)
class LikelihoodFit:
    """A fitted penalised likelihood."""

    v: np.ndarray  # coordinates in the basis, the intercept last
    f: np.ndarray  # outputs of all points
    C: float
    curvature: np.ndarray  # second derivatives of the likelihood (at f, unless asked otherwise), in v
    factor: np.ndarray  # Cholesky factor (lower) of the Newton matrix: curvature plus ridge

    def embedded(self, basis: Basis) -> np.ndarray:
        """Coordinates of the same function in a basis of which this one is the beginning."""
        return np.concatenate([self.v[:-1], np.zeros(basis.size + 1 - len(self.v)), self.v[-1:]])


def fit_likelihood(
    basis: Basis,
    labels: Labels,
    C: float,
    start: np.ndarray | None = None,
    *,
    near: np.ndarray | None = None,
    curvature: np.ndarray | None = None,
    fresh: bool = True,
    tol: float = 1e-10,
) -> LikelihoodFit:
    """Damped Newton for ``|v|^2 / (2C) + sum_i w_i [log(1 + exp(f_i)) - t_i f_i]``.

    Parameters
    ----------
    start : array, optional
        Coordinates to start at; zero by default.
    near : array, optional
        Outputs near those of the solution (of another basis): starts where a Newton step leads from them.
    curvature : array, optional
        Second derivatives of the likelihood somewhere near the solution.
    fresh : bool
        The curvature returned is that at the solution; otherwise it may be a neighbour's.
    tol : float
        Ends with the step whose Newton decrement is below ``tol`` times the value.
    """
    ridge = _ridge(basis, C)

    def look(v: np.ndarray, f: np.ndarray) -> tuple[float, LossAt]:
        here = labels.at(f)
        return 0.5 * float(ridge @ (v * v)) + here.value, here

    factor = None if curvature is None else newton_factor(curvature, ridge)
    v = np.zeros(basis.size + 1) if start is None else start
    if near is not None:
        there = labels.at(near)
        information = _most_of(there.information)
        curvature = basis.curvature(information)
        factor = newton_factor(curvature, ridge)
        v = solve_symmetric(factor, basis.project(information * near - there.slope))
    f = basis.outputs(v)
    (current, here), products, left_out = look(v, f), 0, _LEFT_OUT
    # Products that cost as much as a new matrix; fewer where the caller gets the matrix, which is then newer.
    enough = 3 + basis.size // (10 if fresh and len(f) <= _FEW_ROWS else 30)
    for _ in range(_MOST_STEPS):
        gradient = basis.project(here.slope) + ridge * v
        new = factor is None
        if factor is None:
            curvature = basis.curvature(_most_of(here.information, left_out))
            factor = newton_factor(curvature, ridge)
        # Where rows are far on the wrong side nothing is curved but the slopes are large: a share of these
        # keeps the step of the intercept, which has no ridge, below 1e10.
        held = ridge.copy()
        held[-1] = max(1e-10 * np.abs(here.slope).sum() - here.information.sum(), 0.0)
        step, change, taken = _newton_step(basis, here.information, held, gradient, factor, enough)
        products += taken
        decrement = -float(gradient @ step)
        t = 1.0
        trial, there = look(v + step, f + change)
        while trial > current - 1e-4 * t * decrement and t > 1e-10:
            t /= 2
            trial, there = look(v + t * step, f + t * change)
        done = decrement <= max(tol * abs(current), 1e-14 * labels.weight.sum())
        if trial < current:
            v, f, current, here = v + t * step, f + t * change, trial, there
        else:  # rounding is all that is left
            done = True
        if done:
            break
        if products >= enough:
            if new:  # the rows that were left out matter, as where kernel values are huge
                left_out = 0.0
            factor, products = None, 0
    if fresh or factor is None:
        curvature = basis.curvature(_most_of(here.information, _LEFT_OUT_IN_THE_END))
        factor = newton_factor(curvature, ridge)
    assert curvature is not None
    return LikelihoodFit(v, f, C, curvature, factor)


def _ridge(basis: Basis, C: float) -> np.ndarray:
    """Second derivatives of the penalty; the intercept has none."""
    return np.append(np.full(basis.size, 1.0 / C), 0.0)


def factor_at(basis: Basis, labels: Labels, f: np.ndarray, C: float) -> np.ndarray:
    """Cholesky factor (lower) of the Newton matrix at outputs f."""
    information = _most_of(labels.at(f).information, _LEFT_OUT_IN_THE_END)
    return newton_factor(basis.curvature(information), _ridge(basis, C))


def _most_of(information: np.ndarray, left_out: float = _LEFT_OUT) -> np.ndarray:
    """The information of the rows that have most of it, all but a small share; 0 for the others.

    Where the classes are well separated a small part of the rows is left. The Newton matrices made of them
    serve where something corrects for the rest, as conjugate gradients do, or a few percent do not matter.
    """
    ordered = np.sort(information)
    share = np.cumsum(ordered)
    return np.where(information >= ordered[np.searchsorted(share, left_out * share[-1])], information, 0.0)


def newton_factor(curvature: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Cholesky factor of the Newton matrix."""
    H = np.array(curvature.T, order="F")  # it is symmetric
    diagonal = H.reshape(-1, order="F")[:: len(H) + 1]
    diagonal += ridge
    diagonal[-1] += 1e-12 * (1 + diagonal[-1])  # all rows saturated: the intercept is free
    trace = diagonal.sum()
    for share in (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4):  # a ridge below the rounding errors of the curvature
        diagonal += share * trace
        factor, failed = dpotrf(H, lower=0)
        if not failed:
            return factor.T  # lower, and by rows
    raise FloatingPointError("the second derivatives of the likelihood are lost in rounding errors")


def _newton_step(
    basis: Basis,
    information: np.ndarray,
    ridge: np.ndarray,
    gradient: np.ndarray,
    factor: np.ndarray,
    most_products: int,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Conjugate gradients for Newton's equations: the step, its change of the outputs, products taken."""
    step, change = np.zeros_like(gradient), np.zeros_like(information)
    if basis.kept is not None:
        system = None if basis.whitened else basis.L, information, ridge, gradient, factor
        products = _core.newton_step(
            basis.kept, *system, _REDUCTION, most_products, step, change, basis.threads
        )
        return step, change, products
    residual = -gradient
    direction = z = solve_symmetric(factor, residual)
    size = first = float(residual @ z)
    products = 0
    while products < most_products:
        products += 1
        along = basis.outputs(direction)
        turned = basis.project(information * along) + ridge * direction
        length = size / max(float(information @ along**2 + ridge @ direction**2), 1e-300)
        step, change = step + length * direction, change + length * along
        residual = residual - length * turned
        z = solve_symmetric(factor, residual)
        last, size = size, float(residual @ z)
        if size <= _REDUCTION**2 * first:
            break
        direction = z + (size / last) * direction
    return step, change, products


def leave_one_out(basis: Basis, labels: Labels, fit: LikelihoodFit) -> np.ndarray:
    r"""Approximate outputs of every point by the model fitted without it.

    One Newton step from the full fit, the point with all its weight taken away: :math:`f_i + a_i s_i` with
    :math:`a_i = w_i (p_i - t_i) / (1 - w_i p_i (1 - p_i) s_i)`, :math:`s_i = \phi_i^\top H^{-1} \phi_i`.
    Taking away a part of the weight only (one of several equal rows) would let the point speak for itself.
    The step is too short for points of much weight, because those around them lose curvature on the way; a
    second one follows for the few whose loss changes most. (Points of equal weight do not need it: their
    mean loss is within 2% of the exact one.)

    Rows that are fitted so well that leaving them out changes next to nothing keep their output: with
    :math:`s_i \le C k(x_i, x_i)` but for the intercept, the change of their loss is known to be small.

    References
    ----------
    Cawley and Talbot (2008), "Efficient approximate leave-one-out cross-validation for kernel logistic
    regression", Machine Learning 71, 243-264.
    """
    total, losses, slope, information = labels.at(fit.f)
    most = fit.C * basis.points.diagonal() + 1 / max(float(information.sum()), 1e-300)
    looked_at = slope**2 * most > _NO_CHANGE * labels.weight * labels.mean(losses)[0]
    s = basis.leverages(fit.factor, looked_at)
    a = slope / np.maximum(1 - information * s, 1e-3)
    loo = fit.f + a * s
    change = labels.weight * (labels.losses(loo) - losses)
    heavy = (labels.weight > 2 * labels.weight.mean()) & (change > _SECOND_STEP_FROM * total)
    if heavy.any():
        most_changed = np.argsort(np.where(heavy, -change, 0.0), kind="stable")
        out = np.sort(most_changed[: min(_SECOND_STEPS, np.count_nonzero(heavy))])
        loo[out] += s[out] * _second_step(basis, labels, fit, out, a[out])
    return loo


def _second_step(
    basis: Basis, labels: Labels, fit: LikelihoodFit, out: np.ndarray, a: np.ndarray
) -> np.ndarray:
    r"""How much further the points ``out`` move the coordinates, each when it alone is left out.

    Leaving out i has led from v to :math:`v + a_i u_i`, :math:`u_i = H^{-1}\phi_i`. This is a Newton step
    along :math:`u_i` from there, on the objective of all other points.
    """
    U = solve_symmetric(fit.factor, basis.features(out).T)
    C = basis.outputs(U)
    slope, curvature = derivatives(labels.target[:, None], fit.f[:, None] + a * C)
    weight = np.repeat(labels.weight[:, None], len(out), axis=1)
    weight[out, np.arange(len(out))] = 0.0
    square = (U[:-1] ** 2).sum(axis=0)
    first = (U[:-1].T @ fit.v[:-1] + a * square) / fit.C + (weight * slope * C).sum(axis=0)
    second = square / fit.C + (weight * curvature * C**2).sum(axis=0)
    # Where none of the others is curved no output moves by more than 1e10.
    least = 1e-10 * np.abs(first) * np.abs(C).max(axis=0)
    return -first / np.maximum(np.maximum(second, least), np.finfo(float).tiny)
