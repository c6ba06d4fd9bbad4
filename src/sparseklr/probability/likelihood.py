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

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dnrm2
from scipy.linalg.lapack import dpotrf
from scipy.special import expit

from .. import _core
from ..data import DistinctPoints
from .basis import Basis
from .triangular import solve_symmetric

# A class is rare if it has fewer points than this (of equal weight) and at most this share of the weight.
# (For 10 of 100 rows, 30 of 600, 60 of 6000 one step is enough; for 10 of 300, 30 of 3000 it is not.)
_FEW_POINTS, _SMALL_SHARE = 60, 0.05
# A class of fewer is gone without its point, whose loss is then infinite whatever C is: no steps lead there.
_MORE_THAN_ONE = 1.5
# At most so many points that are heavy or of a rare class get further steps when they are left out ...
_MOST_FURTHER = 64
# ... whose loss changes by this share of the total loss at least.
_FURTHER_FROM = 1e-2
# At most so many steps, which end when the square of the distance to go has fallen by this factor.
_FURTHER_STEPS, _NEAR = 8, 1e-2
# So many outputs of models without a point are computed at once.
_MOST_OUTPUTS = 2**22
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
    """The labels of a binary problem: on every point the fraction t of the positive class and the weight w.

    ``left_out`` are those of the observations that are left out in turn; None where every point is one.
    """

    target: np.ndarray
    weight: np.ndarray
    left_out: LeftOut | None = None

    @classmethod
    def of(cls, weight: np.ndarray, k: int) -> Labels:
        """Class k against the rest, from the weight of each class on each point."""
        total = weight.sum(axis=1)
        return cls(weight[:, k] / total, total)

    @classmethod
    def of_points(cls, points: DistinctPoints, k: int) -> Labels:
        """Class k against the rest, with the observations of the points."""
        every = points.observations
        left_out = cls.of(every.weight, k)
        return replace(
            cls.of(points.weight, k),
            left_out=LeftOut(left_out.target, left_out.weight, point=every.point, count=every.count),
        )

    @cached_property
    def observations(self) -> LeftOut:
        """The labels of the observations that are left out in turn."""
        if self.left_out is not None:
            return self.left_out
        n = len(self.weight)
        return LeftOut(self.target, self.weight, point=np.arange(n), count=np.ones(n))

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


@dataclass(frozen=True, eq=False)
class LeftOut(Labels):
    """Labels of groups of observations that are left out one at a time.

    ``count`` observations with the same label lie on each ``point`` of the problem.
    """

    point: np.ndarray = field(kw_only=True)
    count: np.ndarray = field(kw_only=True)

    @property
    def removed(self) -> np.ndarray:
        """The weight that is taken away with one observation of each group."""
        return self.weight / self.count

    def mean(self, values: np.ndarray) -> tuple[float, float]:
        r"""Weighted mean of one number for each observation, and its standard error.

        Where group g has :math:`n_g` observations of total weight :math:`w_g`, the mean is
        :math:`m = \sum w_g l_g / \sum w_g` and its error
        :math:`\sqrt{\sum_g w_g^2 (l_g - m)^2 / n_g} / \sum_g w_g`. Multiplying all weights changes neither.
        """
        share = self.weight / self.weight.sum()
        mean = float(share @ values)
        # dnrm2 does not overflow
        return mean, float(dnrm2(share / np.sqrt(self.count) * (values - mean)))

    def class_sizes(self) -> tuple[float, float]:
        r"""Effective number of negative and of positive observations (Kish): the square of the sum of their
        weights over the sum of their squares.
        """
        sizes = []
        for weight in (self.weight * (1 - self.target), self.weight * self.target):
            squares = float(weight @ (weight / self.count))
            sizes.append(float(weight.sum()) ** 2 / squares if squares > 0 else 0.0)
        return sizes[0], sizes[1]


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
    r"""Approximate output of every observation by the model fitted without it.

    One Newton step from the full fit, the weight r of the observation taken away from its point i:
    :math:`f_i + a s_i` with :math:`a = r (p_i - t) / (1 - r p_i (1 - p_i) s_i)` and
    :math:`s_i = \phi_i^\top H^{-1} \phi_i`. Equal rows with equal labels have the same output. Where they
    are copies of one observation, r is all the weight of the point: a copy that stays would give away the
    label.

    The step is too short where the points around lose curvature on the way: around points of much weight, and
    around those of a rare class, without which nothing near them is uncertain. (Of 1000 rows of noise 5 are
    positive: for C = 100 their part of the mean loss is .020 after one step, .036 after a few more, and
    .038 if the model is fitted again; with one step this C seemed the best, and was worse on new rows than
    the share of the class.) So the few of these whose loss changes most get further steps. The other points
    do not need them: the mean loss of balanced classes is within 2% of the exact one. (Further steps for all
    points whose loss changes much were tried: a mean log-loss of 1.01 on the 12 sets, in a fifth to a third
    more of the time.)

    Rows that are fitted so well that leaving them out changes next to nothing keep their output: with
    :math:`s_i \le C k(x_i, x_i)` but for the intercept, the change of their loss is known to be small.

    References
    ----------
    Cawley and Talbot (2008), "Efficient approximate leave-one-out cross-validation for kernel logistic
    regression", Machine Learning 71, 243-264.
    """
    groups = labels.observations
    point, removed = groups.point, groups.removed
    f = fit.f[point]
    _, losses, slope, information = replace(groups, weight=removed).at(f)
    total = float(groups.weight @ losses)
    curvature = max(float(labels.at(fit.f).information.sum()), 1e-300)
    most = fit.C * basis.points.diagonal()[point] + 1 / curvature
    considered = slope**2 * most > _NO_CHANGE * removed * groups.mean(losses)[0]
    rows = np.zeros(len(fit.f), dtype=bool)
    rows[point[considered]] = True
    s = np.where(considered, basis.leverages(fit.factor, rows)[point], 0.0)
    loo = f + slope / np.maximum(1 - information * s, 1e-3) * s
    change = groups.weight * (groups.losses(loo) - losses)
    step_is_short = (removed > 2 * removed.mean()) | _of_rare_class(groups)
    further = np.flatnonzero(step_is_short & (change > _FURTHER_FROM * total))
    further = np.sort(further[np.argsort(-change[further], kind="stable")[:_MOST_FURTHER]])
    at_once = max(_MOST_OUTPUTS // len(fit.f), 1)
    for first in range(0, len(further), at_once):
        out = further[first : first + at_once]
        with np.errstate(over="ignore", invalid="ignore"):
            moved = _further_left_out(basis, labels, fit, out)
        loo[out] = np.where(np.isfinite(moved), moved, loo[out])
    return loo


def _of_rare_class(groups: LeftOut) -> np.ndarray:
    """Which observations belong to a class of few observations that has a small fraction of the weight."""
    rare = np.zeros(len(groups.weight), dtype=bool)
    of_class = groups.weight * (1 - groups.target), groups.weight * groups.target
    for size, weight in zip(groups.class_sizes(), of_class, strict=True):
        few = _MORE_THAN_ONE < size < _FEW_POINTS
        if few and weight.sum() <= _SMALL_SHARE * groups.weight.sum():
            rare |= weight > 0
    return rare


def _further_left_out(basis: Basis, labels: Labels, fit: LikelihoodFit, out: np.ndarray) -> np.ndarray:
    r"""Outputs of the observations ``out``, each by a model that is nearly the one fitted without it.

    Conjugate gradients (Polak and Ribière) lead there from the full fit, preconditioned by its Newton matrix;
    the first step is that of :func:`leave_one_out`. Each observation has a column; all take equally many
    steps.
    """
    groups, columns, ridge = labels.observations, np.arange(len(out)), _ridge(basis, fit.C)[:, None]
    points, removed = groups.point[out], groups.removed[out]
    positive, negative = (
        np.repeat((labels.weight * part)[:, None], len(out), axis=1)
        for part in (labels.target, 1 - labels.target)
    )
    positive[points, columns] = np.maximum(positive[points, columns] - removed * groups.target[out], 0.0)
    negative[points, columns] = np.maximum(
        negative[points, columns] - removed * (1 - groups.target[out]), 0.0
    )
    V, F = (np.repeat(start[:, None], len(out), axis=1) for start in (fit.v, fit.f))
    direction, last, size, near = 0.0 * V, 0.0 * V, np.ones(len(out)), 0.0
    for _ in range(_FURTHER_STEPS):
        P, Q = expit(F), expit(-F)
        gradient = basis.project(negative * P - positive * Q) + ridge * V
        z = solve_symmetric(fit.factor, gradient)
        direction = np.maximum((z * (gradient - last)).sum(axis=0) / size, 0.0) * direction - z
        last, size = gradient, np.maximum((z * gradient).sum(axis=0), np.finfo(float).tiny)
        near = near or _NEAR * size.sum()
        if size.sum() <= near:
            break
        along = basis.outputs(direction)
        first = (gradient * direction).sum(axis=0)
        second = (ridge * direction**2).sum(axis=0) + ((positive + negative) * P * Q * along**2).sum(axis=0)
        # Where none of the others is curved no output moves by more than 1e10.
        least = 1e-10 * np.abs(first) * np.abs(along).max(axis=0)
        length = -first / np.maximum(np.maximum(second, least), np.finfo(float).tiny)
        V, F = V + length * direction, F + length * along
    return F[points, columns]
