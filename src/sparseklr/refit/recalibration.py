"""Affine recalibration, which corrects the shrinkage of decision values by the penalty.

C determines both the smoothness of f and its shrinkage towards zero. If classes hardly overlap, a smooth
function may separate them well while its values are far too small. Each output f is therefore replaced by
:math:`a f + b`. C is chosen together with the a and b that maximise the likelihood of the labels given
leave-one-out outputs. docs/design/refit.md has measurements.

References
----------
Copas (1983), "Regression, prediction and shrinkage", Journal of the Royal Statistical Society B 45, 311-354.
Platt (2000), "Probabilistic outputs for support vector machines", in: Advances in Large Margin Classifiers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

from .. import _core
from .labels import Labels, LeftOut, SoftmaxLossAt


@dataclass(frozen=True)
class RecalibrationSettings:
    """Settings of the affine recalibration."""

    # With fewer observations than this outside the largest class, the slope is 1, because a single outlier
    # might determine it.
    least_of_class: int = 60
    # With two classes, the slope is also 1 if fewer observations than this are not basis points.
    least_away: int = 10
    largest_output: float = 1e4  # leave-one-out outputs are clipped to this absolute value
    max_steps: int = 100  # maximum number of Newton steps
    bisections: int = 20  # number of bisections in :func:`tempered`


SETTINGS = RecalibrationSettings()


class Recalibration(NamedTuple):
    """The map from an output f to ``slope * f + intercept``.

    With more than two classes, every class has its own intercept.
    """

    slope: float = 1.0
    intercept: Any = 0.0

    def __call__(self, f: np.ndarray) -> np.ndarray:
        return self.slope * f + self.intercept


def fit_recalibration(labels: LeftOut, f: np.ndarray) -> Recalibration:
    """Return the maximum-likelihood recalibration with slope at least 1 for leave-one-out outputs f.

    A slope above 1 is fitted to Platt's targets: :math:`(n+1)/(n+2)` for a class of n observations, and
    :math:`1/(n+2)` for the other classes together. These targets allow for one unseen wrong label in each
    class. A slope below 1 is not allowed, because it would give even a C that is far too large a small loss,
    and because approximate leave-one-out is optimistic for large C.
    """
    f = np.clip(f, -SETTINGS.largest_output, SETTINGS.largest_output)
    sizes = np.array(labels.class_sizes())
    not_largest = sizes.sum() - sizes.max()
    if not_largest < SETTINGS.least_of_class or np.ptp(f) <= max(1e-10 * np.abs(f).max(), 1e-200):
        return Recalibration()
    targets = replace(labels, target=_platt_targets(labels.target, sizes))
    line, steepness = _fitted(targets, f, Recalibration(), free=False)
    if steepness < 0:
        return _fitted(targets, f, line, free=True)[0]
    return _fitted(labels, f, Recalibration(), free=False)[0]


def _platt_targets(target: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return targets that assign a little weight to the other classes.

    ``sizes`` contains the effective number of observations of each class.
    """
    if target.ndim == 1:
        high, low = (sizes[1] + 1) / (sizes[1] + 2), 1 / (sizes[0] + 2)
        return low + (high - low) * target
    wrong, others = 1 / (sizes + 2), len(sizes) - 1
    given = np.diag(1 - wrong - wrong / others) + (wrong / others)[:, None]  # one row for each class
    mixed: np.ndarray = target @ given
    return mixed


def with_slope(labels: Labels, f: np.ndarray, slope: float) -> Recalibration:
    r"""Return the recalibration of the given slope whose intercept maximises the likelihood.

    f contains the outputs of a fitted model. At the maximum, :math:`\sum_i w_i (p_i - t_i) = 0`, where
    :math:`p_i` is the probability and :math:`t_i` the target of point i. The intercept of a model on another
    basis cannot be used: with a wide kernel, functions that agree on all rows may have very different
    intercepts.
    """
    # Start with an unchanged mean output. Far from the outputs f, the loss has hardly any curvature.
    intercept = (1 - slope) * np.average(f, axis=0, weights=labels.weight)
    return _fitted(labels, f, Recalibration(slope, intercept), free=False)[0]


def transferred(
    labels: Labels, f: np.ndarray, chosen: np.ndarray, left_out: np.ndarray, slope: float
) -> Recalibration:
    """Return the recalibration of a model on the points ``chosen``, given the slope found on another basis.

    f contains the outputs of the model on ``chosen``, and ``left_out`` contains the leave-one-out outputs of
    the model on the other basis. The intercept is determined by :func:`with_slope`.

    The slope is kept unless it increases the leave-one-out loss on the new basis. The leave-one-out outputs
    on the new basis are approximated by ``left_out`` plus a constant. This constant is the mean difference
    between f and ``left_out`` over the observations that are not basis points, with equal total weight for
    each class. If the loss of these approximate outputs is larger with the given slope than with a slope of
    1, the slope is 1. This happens if the kernel is so narrow that fitted outputs depend only on the label of
    the row itself. The slope is also 1 if there are two classes and nearly all observations are basis points
    (:func:`few_others`).
    """
    line, plain = with_slope(labels, f, slope), with_slope(labels, f, 1.0)
    groups = labels.observations
    away = ~np.isin(groups.point, chosen)
    weights = groups.by_class()[:, away]
    if few_others(labels, chosen):
        return plain
    difference = (f[groups.point] - left_out)[away]
    means = [np.average(difference, weights=weight, axis=0) for weight in weights if weight.any()]
    shift = np.mean(means, axis=0) if means else 0.0
    losses = [groups.mean(groups.losses(each(left_out + shift)))[0] for each in (line, plain)]
    return line if losses[0] <= losses[1] else plain


def few_others(labels: Labels, chosen: np.ndarray) -> bool:
    """Return whether there are two classes and only a few observations that are not basis points.

    In this case the slope stays 1, because these few observations alone would determine the constant that
    :func:`transferred` adds to the leave-one-out outputs.
    """
    away = int(np.count_nonzero(~np.isin(labels.observations.point, chosen)))
    return not labels.several and 0 < away < SETTINGS.least_away


def tempered(labels: Labels, f: np.ndarray, line: Recalibration, estimate: float) -> Recalibration:
    """Return ``line``, shrunk so that the training loss equals the estimated loss on new rows.

    Outputs of training rows are larger in absolute value than outputs of new rows. A factor of at most 1 on
    the slope and the intercept of ``line`` compensates for this. It is 1 if the training loss is not below
    ``estimate``.
    """
    total, low, high = labels.weight.sum(), 0.0, 1.0
    if labels.at(line(f)).value / total >= estimate:
        return line
    for _ in range(SETTINGS.bisections):
        middle = (low + high) / 2
        too_small = labels.at(middle * line(f)).value / total > estimate
        low, high = (middle, high) if too_small else (low, middle)
    return Recalibration(high * line.slope, high * line.intercept)


def _fitted(labels: Labels, f: np.ndarray, line: Recalibration, *, free: bool) -> tuple[Recalibration, float]:
    """Return the recalibration whose intercept, and slope if ``free``, minimise the loss.

    The minimum is found by damped Newton steps. The second result is the derivative of the loss with respect
    to the slope.
    """
    loss_at = _softmax_at if labels.several else _logistic_at
    centre = np.average(f, axis=0, weights=labels.weight)  # squares of centred outputs are accurate
    f, line = f - centre, line._replace(intercept=line.intercept + line.slope * centre)
    here = loss_at(labels, f, line)
    for _ in range(SETTINGS.max_steps):
        step, decrement = here.step(free)
        t = 1.0
        while True:
            trial = Recalibration(line.slope + t * step.slope, line.intercept + t * step.intercept)
            there = loss_at(labels, f, trial)
            if there.value <= here.value - 1e-4 * t * decrement or t < 1e-10:
                break
            t /= 2
        done = decrement <= max(1e-8 * here.value, 1e-14 * labels.weight.sum())
        if there.value >= here.value:  # the remaining decrease is below rounding
            break
        line, here = trial, there
        if done:
            break
    return line._replace(intercept=line.intercept - line.slope * centre), here.steepness


class _LossAt(NamedTuple):
    """The loss of recalibrated outputs, with its derivatives with respect to slope and intercepts."""

    value: float
    steepness: float  # first derivative with respect to the slope
    gradient: Any  # first derivatives with respect to the intercepts
    curvature: float  # second derivative with respect to the slope
    mixed: Any  # second derivatives with respect to the slope and the intercepts
    information: Any  # second derivatives with respect to the intercepts

    def step(self, free: bool) -> tuple[Recalibration, float]:
        """Return the Newton step and the squared Newton decrement, which is twice the predicted decrease."""
        intercept = -_over_information(self.information, self.gradient)
        decrement = -float(np.dot(self.gradient, intercept))
        if not free:
            return Recalibration(0.0, intercept), decrement
        # After the outputs are centred at ``middle``, the steps of intercept and slope are independent.
        middle = _over_information(self.information, self.mixed)
        steepness = self.steepness - float(np.dot(self.gradient, middle))
        curvature = max(self.curvature - float(np.dot(self.mixed, middle)), 1e-200)
        slope = -steepness / curvature
        return Recalibration(slope, intercept - middle * slope), decrement + steepness**2 / curvature


def _logistic_at(labels: Labels, f: np.ndarray, line: Recalibration) -> _LossAt:
    """Return the two-class loss of the recalibrated outputs, and its derivatives."""
    found = _core.affine_loss(f, labels.target, labels.weight, line.slope, float(line.intercept))
    value, steepness, gradient, curvature, mixed, information = found
    return _LossAt(value, steepness, gradient, curvature, mixed, information)


def _softmax_at(labels: Labels, f: np.ndarray, line: Recalibration) -> _LossAt:
    """Return the softmax loss of the recalibrated outputs, and its derivatives."""
    here = labels.at(line(f))
    assert isinstance(here, SoftmaxLossAt)
    change = here.times(f)
    both = here.weighted.T @ here.probabilities
    np.fill_diagonal(both, 0.0)
    information = np.diag(both.sum(axis=1)) - both  # w p (1 - p) without cancellation
    steepness, gradient = float(np.vdot(here.slope, f)), here.slope.sum(axis=0)
    curvature, mixed = float(np.vdot(f, change)), change.sum(axis=0)
    return _LossAt(here.value, steepness, gradient, curvature, mixed, information)


def _over_information(information: Any, b: Any) -> Any:
    """Return the solution x of A x = b, where A is the second derivative of the loss in the intercepts.

    With more than two classes A is a singular matrix: adding a constant to all intercepts changes nothing.
    The entries of x sum to zero.
    """
    if np.ndim(information) == 0:
        return b / max(information, 1e-200)
    unit = max(float(np.trace(information)), 1e-200) / len(information)
    regular = information + unit / len(information)  # makes the matrix regular in its null space
    regular.flat[:: len(regular) + 1] += 1e-12 * unit  # a class may have no information
    _, x, failed = dposv(regular, b)
    if failed:
        raise FloatingPointError("the second derivatives of the recalibration are not finite")
    return x - x.mean()  # rounding errors of tiny information
