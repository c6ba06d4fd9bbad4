r"""Honest probabilities at the sparse model's size: refit the likelihood on the selected points.

The margin loss of S-KLR finds the points that matter, but its values are of no use as probabilities. So the
points are kept, and their coefficients become those of the plain penalised likelihood on all rows.

1. Strength: C is chosen by approximate leave-one-out on a basis picked *without* labels, and frozen. So is
   the line that undoes the shrinkage of its outputs (:mod:`~.slope`), with which every C is evaluated.
   (On a basis chosen by labels the leave-one-out loss is badly optimistic.)
2. Refit on the selected points; a pivoted Cholesky drops what is numerically dependent.
3. Pruning: the smallest part of them is kept whose mean Kullback-Leibler distance to the unpruned model is
   below ``c`` standard errors of the leave-one-out loss.

Everything here sees distinct points: equal rows are one point with all their weight. What is left out is an
observation, or a point with all its weight where equal rows are copies (:mod:`~.copies`). Weights are
relative to that of an observation, so multiplying all of them changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import log

import numpy as np

from ..data import DistinctPoints
from ..progress import GridProgressBar
from ..threads import Map, ordered_threads
from .basis import Basis
from .calibration import log_probabilities
from .likelihood import Labels, LikelihoodFit, factor_at, fit_likelihood, leave_one_out
from .pivots import LabelFreeBases, random_basis
from .prune import prune
from .slope import Line, fit_line, transferred, with_slope
from .soundness import Losses, entropy

# More points than this were numerically redundant for every smooth kernel that was tried.
MAX_POINTS = 700
# A larger basis is worth a look at a still larger one if the leave-one-out loss has fallen by this many
# standard errors of the paired difference and by this share.
_GROWTH_ERRORS, _GROWTH_SHARE = 0.5, 0.005
# Where C is looked for: the factor, and by how many standard errors the loss must fall.
_DIRECTIONS = (10.0, 0.5), (0.1, -0.5)
# If so many outputs agree on C, the others are not asked.
_MANY = 3
C_RANGE = 1e-4, 1e5  # below, the model is constant; above, there is no regularisation left


@dataclass(frozen=True, eq=False)
class Strength:
    """The C of a binary problem, with the fit on a label-free basis that it belongs to."""

    fit: LikelihoodFit
    line: Line  # that undoes the shrinkage of its outputs
    left_out: np.ndarray  # leave-one-out outputs of the fit
    losses: np.ndarray  # leave-one-out log-losses on the line

    @property
    def C(self) -> float:
        return self.fit.C

    @property
    def loo(self) -> np.ndarray:
        """Leave-one-out outputs on the line."""
        return self.line(self.left_out)


@dataclass(frozen=True, eq=False)
class Refit:
    """A refitted binary model on some of the points."""

    points: np.ndarray
    coef: np.ndarray
    intercept: float
    slope: float  # factor on the outputs of the likelihood
    strength: Strength  # with the leave-one-out outputs
    outputs: np.ndarray  # of all points
    L: np.ndarray  # Cholesky factor of the kernel matrix of the points
    factor: np.ndarray  # of Newton's matrix at the final outputs

    @property
    def C(self) -> float:
        return self.strength.C

    @property
    def prior(self) -> float:
        """Factor of the kernel in the covariance of the prior that the final outputs have."""
        return self.C * self.slope**2


def choose_C(bases: Sequence[Basis], labels: Labels, start: float = 10.0) -> Strength:
    """The fit of least leave-one-out log-loss over decades of C, each with a line of slope 1 or more.

    The search starts at ``start`` on the smallest basis. It goes in either direction while the loss falls, by
    two decades at once where it has fallen to less than half, and one decade further if the first does
    nothing much. The approximation is too optimistic for large C, so a larger C must be better by half a
    standard error of the paired difference. Then the basis grows, each the beginning of the next, for as long
    as that makes the loss clearly smaller. Where it does, larger C are tried once more: on few points, which
    follow a function only roughly, small ones with steep lines may seem as good. (2000 rows of a smooth
    function of two directions: a log-loss of .45 instead of .48. On the 12 sets it changes next to nothing.)
    """
    best = _climb(bases[0], labels, _attempt(bases[0], labels, start, near=_guess(labels)))
    for basis in islice(bases, 1, None):
        smaller = best
        best = _attempt(basis, labels, smaller.fit.C, smaller.fit.embedded(basis))
        gain, error = labels.observations.mean(smaller.losses - best.losses)
        if gain < 0:  # more points and a larger loss: C is too large for them
            best = _climb(basis, labels, best, _DIRECTIONS[1:])
        if gain <= max(_GROWTH_ERRORS * error, _GROWTH_SHARE * labels.observations.mean(smaller.losses)[0]):
            break
        best = _climb(basis, labels, best, _DIRECTIONS[:1], patience=1)  # they may carry a larger C
    return best


def fit_at(bases: Sequence[Basis], labels: Labels, C: float, near: np.ndarray | None = None) -> Strength:
    """The fit on the last basis for a given C; the first gives a start.

    ``near`` are outputs near those of the solution, where they are known.
    """
    near = _guess(labels) if near is None else near
    if len(bases) == 1:
        return _attempt(bases[0], labels, C, near=near)
    rough = fit_likelihood(bases[0], labels, C, near=near, fresh=False, tol=0.1)
    return _attempt(bases[-1], labels, C, rough.embedded(bases[-1]))


def _guess(labels: Labels) -> np.ndarray:
    """Outputs to start with: two above and below the log-odds of the classes."""
    share = float(np.average(labels.target, weights=labels.weight))
    return 4 * labels.target - 2 + log(max(share, 1e-9) / max(1 - share, 1e-9))


def _attempt(
    basis: Basis,
    labels: Labels,
    C: float,
    start: np.ndarray | None = None,
    curvature: np.ndarray | None = None,
    near: np.ndarray | None = None,
) -> Strength:
    # The last step gains a hundredth at most: after it hardly anything is left to gain.
    fit = fit_likelihood(basis, labels, C, start, near=near, curvature=curvature, tol=1e-2)
    left_out = leave_one_out(basis, labels, fit)
    line = fit_line(labels.observations, left_out)
    return Strength(fit, line, left_out, labels.observations.losses(line(left_out)))


def _climb(
    basis: Basis,
    labels: Labels,
    first: Strength,
    directions: Sequence[tuple[float, float]] = _DIRECTIONS,
    patience: int = 2,
) -> Strength:
    """The best of the neighbours of an attempt, from decade to decade; ``patience`` bounds the failures."""

    groups = labels.observations

    def better(new: Strength, old: Strength, by: float) -> bool:
        gain, error = groups.mean(old.losses - new.losses)
        return gain > by * error

    best = first
    for direction, by in directions:
        last, decades, may_jump, failures = first, 1, True, 0
        while failures < patience and C_RANGE[0] < last.fit.C < C_RANGE[1]:
            C = last.fit.C * direction**decades
            if not C_RANGE[0] <= C <= C_RANGE[1]:
                C, decades = last.fit.C * direction, 1
            new = _attempt(basis, labels, C, last.fit.v, last.fit.curvature)
            falls = better(new, best, by)
            to_half = falls and groups.mean(new.losses)[0] < 0.5 * groups.mean(best.losses)[0]
            if to_half or (falls and decades == 1):
                best = last = new
                decades, failures = 2 if to_half and may_jump else 1, 0
            elif decades == 2:  # perhaps too far: the decade between has not been looked at
                decades, may_jump = 1, False
            else:
                last = new
                failures = patience if best is not first or better(best, new, 1.0) else failures + 1
        if best is not first:  # the loss falls in this direction: no need to look into the other
            break
    return best


def choose_strengths(
    label_free: LabelFreeBases, outputs: Sequence[Labels], map_: Map = map
) -> list[Strength]:
    """The strength of every one-vs-rest problem, by leave-one-out.

    The problems after the first start with the size of the basis that the first has needed, and if the first
    three choose the same C, it is that of all: the log-loss of five sets of 8 to 26 classes was .99 of that
    of a choice for each.
    """
    chosen = [choose_C(label_free, outputs[0])]
    rest = label_free.without_between(len(chosen[0].fit.v) - 1)
    chosen += map_(lambda labels: choose_C(rest, labels), outputs[1:_MANY])
    if len({strength.C for strength in chosen}) > 1:
        return [*chosen, *map_(lambda labels: choose_C(rest, labels), outputs[_MANY:])]
    agreed = chosen[0].C
    return [*chosen, *map_(lambda labels: fit_at(rest, labels, agreed), outputs[_MANY:])]


def _given_strength(basis: Basis, labels: Labels, C: float) -> Strength:
    """The C that the user wants, and the outputs of the likelihood itself."""
    fit = fit_likelihood(basis, labels, C, tol=1e-6)
    left_out = leave_one_out(basis, labels, fit)
    return Strength(fit, Line(), left_out, labels.observations.losses(left_out))


def refit(
    points: DistinctPoints,
    labels: Labels,
    selected: np.ndarray,
    strength: Strength,
    *,
    prune_within: float = 0.05,
    rng: np.random.Generator,
    map_: Map = map,
) -> Refit:
    """Refit one binary problem on the points at the positions ``selected``.

    ``prune_within`` 0 keeps all of them.
    """
    C, line = strength.C, strength.line
    _, error = labels.observations.mean(strength.losses)

    # A point adds nothing if it moves the output by less than .03, in standard deviations of the prior.
    tolerance = min(max(1e-3 / (C * line.slope**2), 1e-8), 1e-2)
    basis = random_basis(points, selected, MAX_POINTS, rng, map_, tolerance).whiten_if_few()
    # Fitting the pruned model to the unpruned one's probabilities instead of the labels, or to a mix
    # of both, was tried: the same log-loss within noise on the five small sets.
    fit = fit_likelihood(basis, labels, C, near=strength.fit.f, fresh=False, tol=1e-4)
    line = transferred(labels, fit.f, basis.chosen, strength.left_out, line.slope)
    if prune_within > 0:
        basis, fit = prune(basis, labels, fit, prune_within * error, line)
    # now to full accuracy, and with the curvature that the uncertainty of the model needs
    fit = fit_likelihood(basis, labels, C, fit.v, curvature=fit.curvature, fresh=False)
    line = with_slope(labels, fit.f, line.slope if basis.size else 1.0)
    return Refit(
        points=basis.chosen,
        coef=line.slope * basis.coefficients(fit.v),
        intercept=line.slope * float(fit.v[-1]) + line.intercept,
        slope=line.slope,
        strength=strength,
        outputs=line(fit.f),
        L=basis.L,
        factor=factor_at(basis, labels, line(fit.f), C * line.slope**2),
    )


def refit_outputs(
    points: DistinctPoints,
    selected: Sequence[np.ndarray],
    *,
    C: float | str = "alo",
    strengths: Sequence[Strength] | None = None,
    prune_within: float = 0.05,
    rng: np.random.Generator,
    n_jobs: int | None = None,
    show: bool = False,
) -> list[Refit]:
    """Refit every one-vs-rest problem (a single one for two classes) on the points selected for it.

    The problems share the label-free bases on which their ``strengths`` are chosen, unless they are known or
    ``C`` is a number. With ``show`` a bar shows how many are done.
    """
    n_outputs = len(selected)
    labels = binary_labels(points, n_outputs)
    randoms = rng.spawn(n_outputs)
    with ordered_threads(n_jobs) as map_, GridProgressBar("refit", n_outputs, show) as progress:
        # several outputs are shared out among the threads, a single one is computed by all of them
        inner = map_ if n_outputs == 1 else map
        if C != "alo":
            basis = LabelFreeBases(points, rng, inner)[-1]
            strengths = list(map_(lambda one: _given_strength(basis, one, float(C)), labels))
        elif strengths is None:
            strengths = choose_strengths(LabelFreeBases(points, rng, inner), labels, map_)

        def fit(k: int) -> Refit:
            found = refit(
                points,
                labels[k],
                selected[k],
                strengths[k],
                prune_within=prune_within / n_outputs,  # the errors of the one-vs-rest problems add up
                rng=randoms[k],
                map_=inner,
            )
            progress.advance()
            return found

        return list(map_(fit, range(n_outputs)))


def binary_labels(points: DistinctPoints, n_outputs: int) -> list[Labels]:
    """The labels of every one-vs-rest problem; of the second class where there is a single one."""
    return [Labels.of_points(points, k if n_outputs > 1 else 1) for k in range(n_outputs)]


def left_out_outputs(models: Sequence[Refit]) -> np.ndarray:
    """Leave-one-out outputs (n_observations, n_outputs)."""
    return np.column_stack([model.strength.loo for model in models])


def losses_of(points: DistinctPoints, models: Sequence[Refit]) -> Losses:
    """Log-losses of a model: of the class fractions, left out, and on the training rows."""
    groups, total = points.observations, points.weight.sum()
    losses = -(groups.weight * log_probabilities(left_out_outputs(models))).sum(axis=1)
    estimate = float(losses.sum() / total)
    off = losses / groups.weight.sum(axis=1) - estimate
    error = float(np.linalg.norm(groups.weight.sum(axis=1) / total / np.sqrt(groups.count) * off))
    fitted = log_probabilities(np.column_stack([model.outputs for model in models]))
    training = float(-(points.weight * fitted).sum() / total)
    return Losses(entropy(points.weight.sum(axis=0)), estimate, error, training)


def class_fractions(points: DistinctPoints, models: Sequence[Refit]) -> list[Refit]:
    """The models replaced by constants: the fractions of the classes.

    Without its only observation a class counts half a one.
    """
    none = np.empty(0, dtype=np.intp)
    basis, constants = Basis.of(points, none), []
    for labels, model in zip(binary_labels(points, len(models)), models, strict=True):
        groups, fit = labels.observations, fit_likelihood(basis, labels, model.C)
        rest = [
            np.maximum((labels.weight * part).sum() - groups.removed * of_group, 0.5 * groups.removed)
            for part, of_group in (
                (labels.target, groups.target),
                (1 - labels.target, 1 - groups.target),
            )
        ]
        left_out = np.log(rest[0]) - np.log(rest[1])
        strength = Strength(fit, Line(), left_out, groups.losses(left_out))
        constants.append(refit(points, labels, none, strength, rng=np.random.default_rng(0)))
    return constants
