r"""The choice of C by approximate leave-one-out on a label-free basis.

On a basis that depends on the labels, such as the points selected by S-KLR, leave-one-out is far too
optimistic. So C and the recalibration :math:`(a_C, b_C)` are chosen on a label-free basis and then kept.

Let :math:`\ell_i(C)` be the log-loss of the label of observation i at the output
:math:`a_C f_{-i,C}(x_i) + b_C`, where :math:`f_{-i,C}` is the approximate leave-one-out fit. C is the decade
with the smallest weighted mean of :math:`\ell_i(C)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import log

import numpy as np

from .basis import Basis
from .leave_one_out import leave_one_out
from .newton import Labels, LikelihoodFit, fit_likelihood
from .recalibration import Recalibration, fit_recalibration


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search for C."""

    start: float = 10.0  # the first of the decades that is evaluated
    least: float = 1e-4  # below, the model is constant
    most: float = 1e5  # above, there is no regularisation left


SETTINGS = SearchSettings()


@dataclass(frozen=True, eq=False)
class EvaluatedFit:
    """A fit on a label-free basis with its leave-one-out outputs and losses."""

    fit: LikelihoodFit
    recalibration: Recalibration
    left_out: np.ndarray  # leave-one-out outputs of the fit
    losses: np.ndarray  # leave-one-out log-losses after recalibration

    @property
    def C(self) -> float:
        return self.fit.C

    @property
    def loo(self) -> np.ndarray:
        """Recalibrated leave-one-out outputs."""
        return self.recalibration(self.left_out)


def evaluate_C(basis: Basis, labels: Labels, C: float) -> EvaluatedFit:
    """The fit for a given C, without recalibration."""
    fit = fit_likelihood(basis, labels, C, tol=1e-6)
    left_out = leave_one_out(basis, labels, fit)
    return EvaluatedFit(fit, Recalibration(), left_out, labels.observations.losses(left_out))


def choose_C(bases: Sequence[Basis], labels: Labels) -> EvaluatedFit:
    """The fit whose C is the best of all decades by leave-one-out log-loss, on the best of nested bases.

    A larger basis replaces a smaller one if its loss is smaller with the same C; only the neighbours of this
    C are evaluated on it. The next larger one is tried if the loss has fallen by more than its standard error.
    """

    def loss(one: EvaluatedFit) -> float:
        return labels.observations.mean(one.losses)[0]

    best = _best_decade(bases[0], labels, _evaluate(bases[0], labels, SETTINGS.start, near=_guess(labels)))
    for basis in islice(bases, 1, None):
        larger = _evaluate(basis, labels, best.C, best.fit.embedded(basis))
        gain = loss(best) - loss(larger)
        if gain <= 0:
            break
        neighbours = [
            _evaluate(basis, labels, larger.C * factor, larger.fit.v, larger.fit.curvature)
            for factor in (0.1, 10.0)
            if SETTINGS.least <= larger.C * factor <= SETTINGS.most
        ]
        best = min([larger, *neighbours], key=loss)
        if gain <= labels.observations.mean(best.losses)[1]:
            break
    return best


def _best_decade(basis: Basis, labels: Labels, first: EvaluatedFit) -> EvaluatedFit:
    """The fit with the best C of all decades, each started from its neighbour on the side of ``first``."""
    fits = [first]
    for factor in (10.0, 0.1):
        last = first
        while SETTINGS.least <= last.C * factor <= SETTINGS.most:
            last = _evaluate(basis, labels, last.C * factor, last.fit.v, last.fit.curvature)
            fits.append(last)
    return min(sorted(fits, key=lambda one: one.C), key=lambda one: labels.observations.mean(one.losses)[0])


def fit_at(bases: Sequence[Basis], labels: Labels, C: float, near: np.ndarray | None = None) -> EvaluatedFit:
    """The fit on the last basis for a given C, started from a fit on the first basis.

    ``near`` are outputs near those of the solution, if known.
    """
    near = _guess(labels) if near is None else near
    if len(bases) == 1:
        return _evaluate(bases[0], labels, C, near=near)
    rough = fit_likelihood(bases[0], labels, C, near=near, fresh=False, tol=0.1)
    return _evaluate(bases[-1], labels, C, rough.embedded(bases[-1]))


def _guess(labels: Labels) -> np.ndarray:
    """Initial outputs: the log-odds of the classes plus or minus two."""
    if labels.several:
        weight = labels.by_class().sum(axis=1)
        return 4 * labels.target - 2 + np.log(np.maximum(weight / weight.sum(), 1e-9))
    fraction = float(np.average(labels.target, weights=labels.weight))
    return 4 * labels.target - 2 + log(max(fraction, 1e-9) / max(1 - fraction, 1e-9))


def _evaluate(
    basis: Basis,
    labels: Labels,
    C: float,
    start: np.ndarray | None = None,
    curvature: np.ndarray | None = None,
    near: np.ndarray | None = None,
) -> EvaluatedFit:
    # The last step changes the objective by at most a hundredth; what remains after it is far less.
    fit = fit_likelihood(basis, labels, C, start, near=near, curvature=curvature, tol=1e-2)
    left_out = leave_one_out(basis, labels, fit)
    recalibration = fit_recalibration(labels.observations, left_out)
    losses = labels.observations.losses(recalibration(left_out))
    return EvaluatedFit(fit, recalibration, left_out, losses)
