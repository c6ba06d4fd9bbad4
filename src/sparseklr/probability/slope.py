r"""How much a penalised likelihood has shrunk its outputs, as the outputs of rows that were left out tell.

One number C decides both how smooth f is and how far it is drawn to zero. Where classes hardly overlap, the
smooth function may be right and its outputs far too small: on ring (2500 rows, ``gamma="scale"``) C = 0.1 has
a log-loss of .210 on new rows, and of .055 when its outputs are multiplied by 4.6; without a factor the best
is .060, for C = 10. So outputs are replaced by :math:`a f + b`, and C is chosen together with this line. Both
numbers maximise the likelihood of the labels, given outputs by models that have not seen them.

Slopes below 1 were tried for the C that is chosen: on the arena (three splits, 1500 rows) the geometric mean
of the log-losses is .993 without them on the sets that chose nothing, and 1.002 on the others. Without any
line it is 1.008 on all sets, with ring and twonorm at 1.17 and 1.15.

References
----------
Copas (1983), "Regression, prediction and shrinkage", Journal of the Royal Statistical Society B 45, 311-354.
Platt (2000), "Probabilistic outputs for support vector machines", in: Advances in Large Margin Classifiers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .likelihood import Labels, LeftOut, LossAt

# Beyond this, outputs are as good as infinite.
_LARGEST_OUTPUT = 1e4
_MOST_STEPS = 100
# Fewer points of a class than this say too little of a line: a single one that is misjudged when it is left
# out decides about it. (Chosen on wine, of 40 to 60 rows for a class, whose log-loss is .051 for 10, .043 for
# 50 and .040 without a line, and on iris: .094 and .092.)
_LEAST_OF_CLASS = 60


class Line(NamedTuple):
    """Outputs ``slope * f + intercept`` in the place of f."""

    slope: float = 1.0
    intercept: float = 0.0

    def __call__(self, f: np.ndarray) -> np.ndarray:
        return self.slope * f + self.intercept


def fit_line(labels: LeftOut, f: np.ndarray) -> Line:
    r"""The line of greatest likelihood, of slope 1 or more, for outputs f of rows that were left out.

    It makes outputs larger only as far as Platt's targets do, :math:`(n+1)/(n+2)` and :math:`1/(n+2)` for a
    class of n observations: they represent a wrong label in each class that has not been seen. A slope below
    1 would let any C seem good, and the approximation of leave-one-out flatters large ones.
    """
    f = np.clip(f, -_LARGEST_OUTPUT, _LARGEST_OUTPUT)
    of_class = labels.class_sizes()
    if min(of_class) < _LEAST_OF_CLASS or np.ptp(f) <= max(1e-10 * np.abs(f).max(), 1e-200):
        return Line()
    targets = _platt_targets(labels, *of_class)
    line, steepness = _fitted(targets, f, Line(), free=False)
    if steepness < 0:
        return _fitted(targets, f, line, free=True)[0]
    return _fitted(labels, f, Line(), free=False)[0]


def with_slope(labels: Labels, f: np.ndarray, slope: float) -> Line:
    r"""The line of given slope whose probabilities add up to the labels, :math:`\sum_i w_i (p_i - t_i) = 0`.

    This is the intercept of greatest likelihood for fitted outputs f. The intercept of a fit on other basis
    points says nothing here: where the kernel is wide, functions that agree on all rows have intercepts that
    differ by far more than their outputs do.
    """
    return _fitted(labels, f, Line(slope), free=False)[0]


def transferred(
    labels: Labels, f: np.ndarray, chosen: np.ndarray, left_out: np.ndarray, slope: float
) -> Line:
    r"""The line of a fit f on the points ``chosen``, from the slope that suits the outputs ``left_out``.

    Its intercept is that of :func:`with_slope`. The outputs left out belong to a fit on other points; those
    of the new fit differ from them by about a constant, which is estimated by the mean difference, with equal
    weight of both classes, over rows that are not points themselves. If their loss on the new line is larger
    than with a slope of 1, the slope is 1. This happens where the kernel is so narrow that fitted outputs
    depend on the row's own label only: a steep line through these says nothing of other rows.
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


def _platt_targets(labels: LeftOut, negative: float, positive: float) -> LeftOut:
    """Targets that stay away from 0 and 1 by what one more point of the other class would do."""
    high, low = (positive + 1) / (positive + 2), 1 / (negative + 2)
    return replace(labels, target=low + (high - low) * labels.target)


def _fitted(labels: Labels, f: np.ndarray, line: Line, *, free: bool) -> tuple[Line, float]:
    """Damped Newton for the intercept, and the slope if it is ``free``; the derivative in the slope there."""
    here = labels.at(line(f))
    for _ in range(_MOST_STEPS):
        step, decrement = _step(here, f, free)
        t = 1.0
        while True:
            trial = Line(line.slope + t * step.slope, line.intercept + t * step.intercept)
            there = labels.at(trial(f))
            if there.value <= here.value - 1e-4 * t * decrement or t < 1e-10:
                break
            t /= 2
        done = decrement <= max(1e-8 * here.value, 1e-14 * labels.weight.sum())
        if there.value >= here.value:  # rounding is all that is left
            break
        line, here = trial, there
        if done:
            break
    return line, float(here.slope @ f)


def _step(here: LossAt, f: np.ndarray, free: bool) -> tuple[Line, float]:
    """Newton's step, and the decrement: twice what it gains."""
    gradient, information = float(here.slope.sum()), max(float(here.information.sum()), 1e-200)
    intercept = -gradient / information
    if not free:
        return Line(0.0, intercept), gradient**2 / information
    middle = float(here.information @ f) / information  # seen from there, height and slope are independent
    across = f - middle
    steepness, curvature = float(here.slope @ across), max(float(here.information @ across**2), 1e-200)
    slope = -steepness / curvature
    return Line(slope, intercept - middle * slope), gradient**2 / information + steepness**2 / curvature
