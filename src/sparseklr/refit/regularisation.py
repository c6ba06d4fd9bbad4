r"""Choice of C by approximate leave-one-out on a label-free basis.

On a basis that depends on the labels, such as the points selected by S-KLR, leave-one-out is far too
optimistic. So C and the recalibration :math:`(a_C, b_C)` are chosen on a label-free basis and then kept.

Let :math:`\ell_i(C)` be the log-loss of the label of observation i at the output
:math:`a_C f_{-i,C}(x_i) + b_C`, where :math:`f_{-i,C}` is the approximate leave-one-out fit. C is the power
of ten with the smallest weighted mean of :math:`\ell_i(C)`. With two classes a larger C must be better than a
smaller one by half a standard error of the difference, because approximate leave-one-out is too optimistic
for large C; the cross-fitted losses of several classes are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from .._utils.progress import Report, silent
from .basis import Basis
from .cross_fit import joint_cross_fit
from .labels import Labels
from .leave_one_out import leave_one_out
from .newton import LikelihoodFit, embedded, fit_likelihood
from .recalibration import Recalibration, fit_recalibration


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search for C."""

    start: float = 10.0  # the first value of C
    least: float = 1e-4  # smallest C; below, the model is nearly constant
    most: float = 1e5  # largest C; above, regularisation has no effect
    larger_errors: float = 0.5  # with two classes, standard errors by which a larger C must be better
    clearly_worse: float = 2.0  # standard errors at which the search ends


SETTINGS = SearchSettings()


@dataclass(frozen=True, eq=False)
class EvaluatedFit:
    """A fit on a label-free basis with its leave-one-out outputs and losses."""

    chosen: np.ndarray  # basis points ...
    coef: np.ndarray  # ... and their coefficients, a column for each of several classes
    fit: LikelihoodFit
    recalibration: Recalibration
    left_out: np.ndarray  # leave-one-out outputs of the fit; with several classes cross-fitted ones
    losses: np.ndarray  # their log-losses after recalibration
    cross_fits: np.ndarray | None = None  # coordinates of all fits of a joint cross-fit, with several classes

    @property
    def C(self) -> float:
        return self.fit.C

    @property
    def loo(self) -> np.ndarray:
        """Recalibrated leave-one-out outputs."""
        return self.recalibration(self.left_out)


def evaluate_C(basis: Basis, labels: Labels, C: float) -> EvaluatedFit:
    """The fit for a given C, without recalibration."""
    fits = None
    if labels.several:
        fit, left_out, fits = joint_cross_fit(basis, labels, C, None, tol=1e-6)
    else:
        fit = fit_likelihood(basis, labels, C, tol=1e-6)
        left_out = leave_one_out(basis, labels, fit)
    return EvaluatedFit(
        basis.chosen,
        basis.coefficients(fit.v),
        fit,
        Recalibration(),
        left_out,
        labels.observations.losses(left_out),
        fits,
    )


def choose_C(
    bases: Sequence[Basis], labels: Labels, start: float | None = None, report: Report = silent
) -> EvaluatedFit:
    """The fit whose C is the best power of ten by leave-one-out log-loss, on the best of nested bases.

    ``start`` is the best C for another kernel or for other features, if known. The search then evaluates its
    neighbours, and proceeds in each direction while the loss falls.

    A larger basis replaces a smaller one if its loss is smaller with the same C. The next larger C is then
    evaluated too, because more points allow less regularisation. If the loss has fallen by more than its
    standard error, the search continues with the next smaller C and the next larger basis.
    """

    def loss(one: EvaluatedFit) -> float:
        return labels.observations.mean(one.losses)[0]

    # A basis has about three times the points of the one before, and nine times its cost.
    ends = (9.0 ** np.arange(len(bases) + 1) - 1) / (9.0 ** len(bases) - 1)
    report(f"choice of C on {bases[0].size} basis points", 0.0)
    first = _evaluate(bases[0], labels, start or SETTINGS.start, near=labels.guess())
    best = _best_decade(bases[0], labels, first, local=start is not None)
    for level, basis in enumerate(islice(bases, 1, None), start=1):
        report(f"choice of C on {basis.size} basis points", ends[level])
        larger = _evaluate(basis, labels, best.C, embedded(best.fit.v, basis), fits=best.cross_fits)
        report(f"choice of C on {basis.size} basis points", (2 * ends[level] + ends[level + 1]) / 3)
        gain = loss(best) - loss(larger)
        if gain <= 0:
            break
        clear = gain > labels.observations.mean(larger.losses)[1]
        neighbours = [
            _neighbour(basis, labels, larger, factor)
            for factor in ((10.0, 0.1) if clear else (10.0,))
            if SETTINGS.least <= larger.C * factor <= SETTINGS.most
        ]
        best = min([larger, *neighbours], key=loss)
        if not clear:
            break
    return best


def _best_decade(basis: Basis, labels: Labels, first: EvaluatedFit, local: bool) -> EvaluatedFit:
    """The fit with the best power of ten as C; each fit starts from its neighbour on the side of ``first``.

    The search ends in each direction at a C that is clearly worse; a ``local`` one where the loss rises.
    """
    fits, mean = [first], labels.observations.mean
    for factor in (10.0, 0.1):
        last = first
        while SETTINGS.least <= last.C * factor <= SETTINGS.most:
            last = _neighbour(basis, labels, last, factor)
            best = min(fits, key=lambda one: mean(one.losses)[0])
            worse, error = mean(last.losses - best.losses)
            fits.append(last)
            if worse > (0.0 if local else SETTINGS.clearly_worse) * error:
                break
    best, *others = sorted(fits, key=lambda one: one.C)
    for larger in others:
        gain, error = mean(best.losses - larger.losses)
        if gain > (0.0 if labels.several else SETTINGS.larger_errors) * error:
            best = larger
    return best


def fit_at(bases: Sequence[Basis], labels: Labels, C: float, near: np.ndarray | None = None) -> EvaluatedFit:
    """The fit on the last basis for a given C, started from a fit on the first basis.

    ``near`` are outputs near those of the solution, if known.
    """
    near = labels.guess() if near is None else near
    if len(bases) == 1:
        return _evaluate(bases[0], labels, C, near=near)
    rough = fit_likelihood(bases[0], labels, C, near=near, fresh=False, tol=0.1)
    return _evaluate(bases[-1], labels, C, embedded(rough.v, bases[-1]))


def _neighbour(basis: Basis, labels: Labels, one: EvaluatedFit, factor: float) -> EvaluatedFit:
    """The fit with another C, started from a given fit."""
    return _evaluate(basis, labels, one.C * factor, one.fit.v, one.fit.curvature, fits=one.cross_fits)


def _evaluate(
    basis: Basis,
    labels: Labels,
    C: float,
    start: np.ndarray | None = None,
    curvature: np.ndarray | None = None,
    near: np.ndarray | None = None,
    fits: np.ndarray | None = None,
) -> EvaluatedFit:
    """The fit with its recalibrated left-out outputs; with several classes it starts from ``fits``."""
    # The last step changes the objective by at most 1%; the remaining error is far smaller.
    if labels.several:
        fit, left_out, fits = joint_cross_fit(basis, labels, C, fits)
    else:
        fit = fit_likelihood(basis, labels, C, start, near=near, curvature=curvature, tol=1e-2)
        left_out = leave_one_out(basis, labels, fit)
    recalibration = fit_recalibration(labels.observations, left_out)
    losses = labels.observations.losses(recalibration(left_out))
    return EvaluatedFit(basis.chosen, basis.coefficients(fit.v), fit, recalibration, left_out, losses, fits)
