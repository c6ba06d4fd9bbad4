r"""Affine recalibration of a penalised likelihood, which undoes the shrinkage of its outputs.

C determines both the smoothness of f and its shrinkage towards zero. If classes hardly overlap, a smooth
function may be right while its outputs are far too small. Outputs are therefore replaced by :math:`a f + b`,
and C is chosen together with the a and b that maximise the likelihood of the labels given leave-one-out
outputs. docs/design/refit.md has measurements.

References
----------
Copas (1983), "Regression, prediction and shrinkage", Journal of the Royal Statistical Society B 45, 311-354.
Platt (2000), "Probabilistic outputs for support vector machines", in: Advances in Large Margin Classifiers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .newton import Labels, LeftOut, LossAt


@dataclass(frozen=True)
class RecalibrationSettings:
    """Conditions and limits of the recalibration."""

    least_of_class: int = 60  # with fewer observations of a class, the slope is 1: an outlier would decide it
    largest_output: float = 1e4  # leave-one-out outputs are clipped to this
    max_steps: int = 100  # of Newton's method


SETTINGS = RecalibrationSettings()


class Recalibration(NamedTuple):
    """The map from outputs f to ``slope * f + intercept``."""

    slope: float = 1.0
    intercept: float = 0.0

    def __call__(self, f: np.ndarray) -> np.ndarray:
        return self.slope * f + self.intercept


def fit_recalibration(labels: LeftOut, f: np.ndarray) -> Recalibration:
    r"""The maximum-likelihood recalibration with slope at least 1 for leave-one-out outputs f.

    A slope above 1 is fitted to Platt's targets :math:`(n+1)/(n+2)` and :math:`1/(n+2)` for a class of n
    observations, which allow for an unseen wrong label in each class. A slope below 1 would make every C look
    good, and the leave-one-out approximation is optimistic for large C.
    """
    f = np.clip(f, -SETTINGS.largest_output, SETTINGS.largest_output)
    sizes = labels.class_sizes()
    if min(sizes) < SETTINGS.least_of_class or np.ptp(f) <= max(1e-10 * np.abs(f).max(), 1e-200):
        return Recalibration()
    high, low = (sizes[1] + 1) / (sizes[1] + 2), 1 / (sizes[0] + 2)
    targets = replace(labels, target=low + (high - low) * labels.target)
    line, steepness = _fitted(targets, f, Recalibration(), free=False)
    if steepness < 0:
        return _fitted(targets, f, line, free=True)[0]
    return _fitted(labels, f, Recalibration(), free=False)[0]


def with_slope(labels: Labels, f: np.ndarray, slope: float) -> Recalibration:
    r"""The recalibration of given slope with :math:`\sum_i w_i (p_i - t_i) = 0` for fitted outputs f.

    Its intercept maximises the likelihood. The intercept for another basis does not apply: with a wide
    kernel, functions that agree on all rows may have very different intercepts.
    """
    return _fitted(labels, f, Recalibration(slope), free=False)[0]


def transferred(
    labels: Labels, f: np.ndarray, chosen: np.ndarray, left_out: np.ndarray, slope: float
) -> Recalibration:
    r"""The recalibration of a fit f on the points ``chosen``, given the slope of another basis.

    The intercept is that of :func:`with_slope`. The leave-one-out outputs of the two fits differ by about a
    constant, estimated by the mean difference over rows that are not basis points, with equal weight of both
    classes. If the loss of the shifted outputs is larger than with a slope of 1, the slope is 1. This happens
    if the kernel is so narrow that fitted outputs depend only on the row's own label.
    """
    line, plain = with_slope(labels, f, slope), with_slope(labels, f, 1.0)
    groups = labels.observations
    new = f[groups.point]
    away = ~np.isin(groups.point, chosen)
    shifts = [
        np.average((new - left_out)[away], weights=weight[away])
        for weight in (groups.weight * groups.target, groups.weight * (1 - groups.target))
        if weight[away].any()
    ]
    expected = left_out + (np.mean(shifts) if shifts else 0.0)
    losses = [groups.mean(groups.losses(each(expected)))[0] for each in (line, plain)]
    return line if losses[0] <= losses[1] else plain


def _fitted(labels: Labels, f: np.ndarray, line: Recalibration, *, free: bool) -> tuple[Recalibration, float]:
    """Fit the intercept, and the slope if ``free``, by damped Newton steps; also return the derivative of the
    loss in the slope."""
    here = labels.at(line(f))
    for _ in range(SETTINGS.max_steps):
        step, decrement = _step(here, f, free)
        t = 1.0
        while True:
            trial = Recalibration(line.slope + t * step.slope, line.intercept + t * step.intercept)
            there = labels.at(trial(f))
            if there.value <= here.value - 1e-4 * t * decrement or t < 1e-10:
                break
            t /= 2
        done = decrement <= max(1e-8 * here.value, 1e-14 * labels.weight.sum())
        if there.value >= here.value:  # the remaining decrease is below rounding
            break
        line, here = trial, there
        if done:
            break
    return line, float(here.slope @ f)


def _step(here: LossAt, f: np.ndarray, free: bool) -> tuple[Recalibration, float]:
    """The Newton step and its decrement, twice the predicted decrease."""
    gradient, information = float(here.slope.sum()), max(float(here.information.sum()), 1e-200)
    intercept = -gradient / information
    if not free:
        return Recalibration(0.0, intercept), gradient**2 / information
    middle = float(here.information @ f) / information  # relative to it, height and slope are independent
    across = f - middle
    steepness, curvature = float(here.slope @ across), max(float(here.information @ across**2), 1e-200)
    slope = -steepness / curvature
    decrement = gradient**2 / information + steepness**2 / curvature
    return Recalibration(slope, intercept - middle * slope), decrement
