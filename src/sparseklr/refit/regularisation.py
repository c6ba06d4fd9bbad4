r"""Choice of C by approximate leave-one-out on a label-free basis.

On a basis that depends on the labels, such as the points selected by S-KLR, leave-one-out is far too
optimistic. C and the recalibration :math:`(a_C, b_C)` are therefore chosen on a basis that does not depend on
the labels, and kept when the model is refitted on the selected points.

Let :math:`f_{-i,C}` be the model fitted without observation i, approximated as in :mod:`~.leave_one_out`. Let
:math:`\ell_i(C)` be the log-loss of observation i at the output :math:`a_C f_{-i,C}(x_i) + b_C`. The chosen C
has the smallest weighted mean of :math:`\ell_i(C)` among values that differ by factors of ten. With two
classes, a larger C must be better than a smaller one by half a standard error of the difference, because
approximate leave-one-out is too optimistic for large C. Cross-fitted losses, which are used with more
classes, do not need this correction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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

    start: float = 10.0  # the first C to evaluate
    least: float = 1e-4  # the smallest C; with smaller values the model is nearly constant
    most: float = 1e5  # the largest C; with larger values regularisation has no effect
    larger_errors: float = 0.5  # with two classes, a larger C must be better by this many standard errors
    clearly_worse: float = 2.0  # the search ends at a C that is worse by this many standard errors
    known_worse: float = 1.0  # a C that is worse by this many standard errors is not evaluated again


SETTINGS = SearchSettings()


@dataclass(frozen=True, eq=False)
class EvaluatedFit:
    """A model on a label-free basis with its leave-one-out outputs and losses.

    With more than two classes, cross-fitted outputs take the place of leave-one-out outputs.
    """

    chosen: np.ndarray  # indices of the basis points
    coef: np.ndarray  # coefficients of the basis points, one column for each of several classes
    fit: LikelihoodFit
    recalibration: Recalibration
    left_out: np.ndarray  # leave-one-out outputs before recalibration
    losses: np.ndarray  # log-losses of the recalibrated leave-one-out outputs
    cross_fits: np.ndarray | None = None  # coordinates from :func:`~.cross_fit.joint_cross_fit`
    # The factors 10 and 0.1, if C times this factor is known to be worse. Larger bases and learned factors
    # hardly change this.
    worse: tuple[float, ...] = ()

    @property
    def C(self) -> float:
        """The regularisation parameter of the model."""
        return self.fit.C

    @property
    def loo(self) -> np.ndarray:
        """Leave-one-out outputs after recalibration."""
        return self.recalibration(self.left_out)


def evaluate_C(basis: Basis, labels: Labels, C: float) -> EvaluatedFit:
    """Return the evaluated model with a given C, without recalibration."""
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
    bases: Sequence[Basis],
    labels: Labels,
    start: float | EvaluatedFit | None = None,
    report: Report = silent,
    worse: tuple[float, ...] = (),
) -> EvaluatedFit:
    """Return the evaluated model with the best C, on the best of several nested bases.

    The best C has the smallest leave-one-out log-loss among values that differ by factors of ten. ``start``
    is the best C for another kernel or for other features, if known, or an evaluated model on the first
    basis. The search then evaluates the neighbours of this C, except those that are ``worse`` (see
    :class:`EvaluatedFit`), and proceeds in each direction while the loss falls.
    :func:`improve_on_larger_bases` then evaluates the best C on larger bases.
    """
    report(f"choice of C on {bases[0].size} basis points", 0.0)
    first = start
    if not isinstance(first, EvaluatedFit):
        first = _evaluate(bases[0], labels, first or SETTINGS.start, near=labels.guess())
    best = _best_decade(bases[0], labels, replace(first, worse=worse), local=start is not None)
    return improve_on_larger_bases(bases, labels, best, report)


def improve_on_larger_bases(
    bases: Sequence[Basis], labels: Labels, best: EvaluatedFit, report: Report = silent
) -> EvaluatedFit:
    """Return the best evaluated model on nested bases, given the model ``best`` on the first basis.

    A larger basis replaces a smaller one if its loss with the same C is smaller. The next larger C is then
    evaluated on the larger basis too, because a model with more points may need a larger C. If the loss has
    fallen by more than its standard error, the next smaller C and the next larger basis are evaluated as
    well. A neighbouring C that was worse by a standard error on the smaller basis is not evaluated.
    """

    def loss(one: EvaluatedFit) -> float:
        return labels.observations.mean(one.losses)[0]

    # A basis has about three times as many points as the previous one, and costs nine times as much.
    ends = (9.0 ** np.arange(len(bases) + 1) - 1) / (9.0 ** len(bases) - 1)
    for level, basis in enumerate(islice(bases, 1, None), start=1):
        if basis.size == bases[level - 1].size:  # the smaller basis already spans all kernel functions
            break
        report(f"choice of C on {basis.size} basis points", ends[level])
        larger = _evaluate(basis, labels, best.C, embedded(best.fit.v, basis), fits=best.cross_fits)
        report(f"choice of C on {basis.size} basis points", (2 * ends[level] + ends[level + 1]) / 3)
        gain = loss(best) - loss(larger)
        if gain <= 0:
            break
        significant = gain > labels.observations.mean(larger.losses)[1]
        neighbours = [
            _neighbour(basis, labels, larger, factor)
            for factor in ((10.0, 0.1) if significant else (10.0,))
            if factor not in best.worse and SETTINGS.least <= larger.C * factor <= SETTINGS.most
        ]
        fits = [replace(larger, worse=best.worse), *neighbours]
        best = _best(fits, labels)
        if not significant:
            break
    return best


def _best_decade(basis: Basis, labels: Labels, first: EvaluatedFit, local: bool) -> EvaluatedFit:
    """Return the evaluated model with the best C, among powers of ten times the C of ``first``.

    In each direction the search ends at a C whose loss is larger than the smallest loss by more than two
    standard errors of the difference, or after the loss has risen twice in a row. A ``local`` search ends as
    soon as the loss rises, and skips the neighbours of ``first`` that are known to be worse. The optimisation
    for each C starts from the solution for the previous C.
    """
    fits, mean = [first], labels.observations.mean
    for factor in (factor for factor in (10.0, 0.1) if factor not in first.worse):
        last, rises = first, 0
        while SETTINGS.least <= last.C * factor <= SETTINGS.most:
            before, last = last, _neighbour(basis, labels, last, factor)
            best = min(fits, key=lambda one: mean(one.losses)[0])
            worse, error = mean(last.losses - best.losses)
            rises = rises + 1 if mean(last.losses)[0] > mean(before.losses)[0] else 0
            fits.append(last)
            if rises == 2 or worse > (0.0 if local else SETTINGS.clearly_worse) * error:
                break
    return _best(fits, labels)


def _best(fits: Sequence[EvaluatedFit], labels: Labels) -> EvaluatedFit:
    """Return the model with the best C; ``worse`` lists factors by which C can be changed for a higher loss.

    With two classes, a larger C is chosen only if its mean loss is lower than that of the best smaller C by
    more than half a standard error; with more classes, the model with the smallest loss is chosen. The
    attribute ``worse`` of the result contains those of the factors 10 and 0.1 that, multiplied by C, give a
    clearly higher loss.
    """
    best, *others = sorted(fits, key=lambda one: one.C)
    for larger in others:
        gain, error = labels.observations.mean(best.losses - larger.losses)
        if gain > (0.0 if labels.several else SETTINGS.larger_errors) * error:
            best = larger
    found = list(best.worse)
    for one in fits:
        worse, error = labels.observations.mean(one.losses - best.losses)
        if worse > SETTINGS.known_worse * error:
            found += [factor for factor in (10.0, 0.1) if np.isclose(one.C, best.C * factor)]
    return replace(best, worse=tuple(found))


def fit_at(bases: Sequence[Basis], labels: Labels, C: float, near: np.ndarray | None = None) -> EvaluatedFit:
    """Return the model on the last basis for a given C, with its leave-one-out losses.

    If there are several bases, the optimisation starts from a rough solution on the first basis. ``near``
    contains approximate outputs of the solution, if known.
    """
    near = labels.guess() if near is None else near
    if len(bases) == 1:
        return _evaluate(bases[0], labels, C, near=near)
    rough = fit_likelihood(bases[0], labels, C, near=near, fresh=False, tol=0.1)
    return _evaluate(bases[-1], labels, C, embedded(rough.v, bases[-1]))


def _neighbour(basis: Basis, labels: Labels, one: EvaluatedFit, factor: float) -> EvaluatedFit:
    """Return the evaluated model with C multiplied by ``factor``; the optimisation starts from ``one``."""
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
    """Return the evaluated and recalibrated model with the given C.

    With two classes, the optimisation starts from ``start`` or ``near`` (see
    :func:`~.newton.fit_likelihood`). With more classes it starts from the coordinates ``fits`` of a
    cross-fit.
    """
    # The last step changes the objective by at most 1%; the remaining error is far smaller.
    if labels.several:
        fit, left_out, fits = joint_cross_fit(basis, labels, C, fits)
    else:
        fit = fit_likelihood(basis, labels, C, start, near=near, curvature=curvature, tol=1e-2)
        left_out = leave_one_out(basis, labels, fit)
    recalibration = fit_recalibration(labels.observations, left_out)
    losses = labels.observations.losses(recalibration(left_out))
    return EvaluatedFit(basis.chosen, basis.coefficients(fit.v), fit, recalibration, left_out, losses, fits)
