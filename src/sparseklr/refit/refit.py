r"""The refit: penalised maximum likelihood with the points selected by S-KLR.

S-KLR selects points by a margin loss. Its decision values are not logits, so they do not give probabilities
directly. The refit keeps the selected points, and fits their coefficients to all training rows by penalised
maximum likelihood:

1. C and the recalibration are chosen by leave-one-out, on a basis that does not depend on the labels
   (:mod:`~.regularisation`).
2. Selected points whose kernel functions are numerically dependent are dropped. The coefficients of the
   remaining points are fitted by penalised maximum likelihood.
3. The points are pruned: the least important points are dropped as long as the mean Kullback-Leibler
   divergence from the unpruned model is at most ``prune_within`` standard errors of the leave-one-out loss
   (:mod:`~.prune`).
4. Three log-losses are compared: :math:`L_0` of the class fractions, the leave-one-out estimate :math:`L_e`,
   and the training loss :math:`L_t`. Up to the standard error of :math:`L_e`, a valid model has
   :math:`L_t \le L_e`. It also has :math:`L_e < L_0` unless it is constant.

Equal rows form one point with their total weight. Leave-one-out removes one observation, or the whole point
if equal rows are copies (:mod:`~.copies`). Weights are divided by the mean weight of an observation, so a
common factor of all weights has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._utils.progress import Report, between, silent
from .._utils.threads import Map, ordered_threads
from ..samples import DistinctPoints
from .basis import Basis, LabelFreeBases, random_basis
from .calibration import SOFTMAX, log_probabilities
from .labels import Labels, LeftOut
from .newton import factors_at, fit_likelihood
from .prune import prune
from .recalibration import Recalibration, few_others, tempered, transferred, with_slope
from .regularisation import EvaluatedFit, choose_C, evaluate_C
from .relevance import LearnedFolds


@dataclass(frozen=True)
class RefitSettings:
    """Settings of the refit."""

    # Maximum number of points, and of points times classes. If C was chosen on a larger basis, its size is
    # the limit.
    usual_points: int = 700
    usual_coefficients: int = 6000
    negligible: float = 1e-3  # a point is dropped if it adds less prior variance than this, in squared logits
    unscaled: float = 100.0  # scaling is advised if standard deviations of features differ by this factor


SETTINGS = RefitSettings()


@dataclass(frozen=True, eq=False)
class Refit:
    """A refitted model. With two classes it has a single output, otherwise one output for each class."""

    points: np.ndarray  # indices of the kept points among the distinct training points
    coef: np.ndarray  # coefficients of the kept points, (n_outputs, n_kept)
    intercept: np.ndarray  # (n_outputs,)
    slope: float  # recalibration factor, already included in ``coef`` and ``intercept``
    evaluated: EvaluatedFit  # the model on the label-free basis, with leave-one-out outputs
    outputs: np.ndarray  # outputs of all training points, (n_points, n_outputs)
    L: np.ndarray  # Cholesky factor of the kernel matrix of the kept points
    factors: np.ndarray  # for each output, the Cholesky factor of the Newton matrix at ``outputs``

    @property
    def C(self) -> float:
        """The regularisation parameter of the penalised likelihood."""
        return self.evaluated.C

    @property
    def prior(self) -> float:
        """Prior variance of an output where k(x, x) = 1: C times the squared recalibration factor."""
        return self.C * self.slope**2


def refit(
    points: DistinctPoints,
    labels: Labels,
    selected: np.ndarray,
    evaluated: EvaluatedFit,
    *,
    prune_within: float,
    rng: np.random.Generator,
    max_points: int | None = None,
    report: Report = silent,
    map_: Map = map,
) -> Refit:
    """Return the model refitted on the points ``selected``, with at most ``max_points`` points.

    ``evaluated`` is a model on a label-free basis; it provides C, the recalibration and leave-one-out losses.
    ``prune_within=0`` disables pruning, except to enforce ``max_points``.
    """
    report("likelihood on the selected points", 0.0)
    C, line = evaluated.C, evaluated.recalibration
    estimate, error = labels.observations.mean(evaluated.losses)

    # Drop a point whose residual adds less than 0.03 logits to the prior standard deviation of an output.
    tolerance = min(max(SETTINGS.negligible / (C * line.slope**2), 1e-8), 1e-2)
    n_outputs = labels.target.shape[1] if labels.several else 1
    most = min(SETTINGS.usual_points, SETTINGS.usual_coefficients // n_outputs)
    most = max(most, len(evaluated.chosen))
    basis = random_basis(points, selected, most, rng, map_, tolerance).whiten_if_few()
    fit = fit_likelihood(basis, labels, C, near=evaluated.fit.f, fresh=labels.several, tol=1e-4)
    line = transferred(labels, fit.f, basis.chosen, evaluated.left_out, line.slope)
    if prune_within > 0 or (max_points is not None and basis.size > max_points):
        report("pruning", 0.5)
        maps = [Recalibration(), line, tempered(labels, fit.f, line, estimate)]
        basis, fit = prune(basis, labels, fit, prune_within * error, maps, max_points)
    return finished(basis, labels, evaluated, fit.v, fit.curvature, line.slope)


def finished(
    basis: Basis,
    labels: Labels,
    evaluated: EvaluatedFit,
    start: np.ndarray,
    curvature: np.ndarray | None,
    slope: float,
) -> Refit:
    """Return the final model on a basis: an accurate solution, recalibrated with the given slope.

    The optimisation starts from the coordinates ``start``.
    """
    fit = fit_likelihood(basis, labels, evaluated.C, start, curvature=curvature, fresh=False)
    plain = not basis.size or few_others(labels, basis.chosen)
    line = with_slope(labels, fit.f, 1.0 if plain else slope)
    if line.slope != evaluated.recalibration.slope:  # the leave-one-out losses must refer to the final slope
        losses = labels.observations.losses(evaluated.left_out)
        evaluated = replace(evaluated, recalibration=Recalibration(), losses=losses)
    n_outputs = labels.target.shape[1] if labels.several else 1
    intercept = line.slope * fit.v[-1] + line.intercept
    return Refit(
        points=basis.chosen,
        coef=line.slope * basis.coefficients(fit.v).reshape(-1, n_outputs).T,
        intercept=np.reshape(intercept, n_outputs),
        slope=line.slope,
        evaluated=evaluated,
        outputs=line(fit.f).reshape(-1, n_outputs),
        L=basis.L,
        factors=factors_at(basis, labels, line(fit.f), evaluated.C * line.slope**2),
    )


def refit_with(
    points: DistinctPoints,
    selected: np.ndarray,
    *,
    C: float | str,
    evaluated: EvaluatedFit | None,
    prune_within: float,
    seed: int,
    near_C: float | None = None,
    worse: tuple[float, ...] = (),
    max_points: int | None = None,
    report: Report = silent,
    n_jobs: int | None = None,
) -> Refit:
    """Return the model refitted on the points ``selected``, with the given C or, if it is "auto", the best C.

    The best C has the smallest leave-one-out loss. ``evaluated`` is a model with the best C on a label-free
    basis, if already known. Otherwise the search for C starts at ``near_C``, and skips neighbours that are
    ``worse`` (see :func:`~.regularisation.choose_C`).
    """
    rng, labels = np.random.default_rng(seed), Labels.of_points(points)
    (random,) = rng.spawn(1)
    with ordered_threads(n_jobs) as map_:
        if C != "auto":
            evaluated = evaluate_C(LabelFreeBases(points, rng, map_)[-1], labels, float(C))
        elif evaluated is None:
            bases = LabelFreeBases(points, rng, map_)
            evaluated = choose_C(bases, labels, near_C, between(report, 0.0, 0.7), worse)
        return refit(
            points,
            labels,
            selected,
            evaluated,
            prune_within=prune_within,
            rng=random,
            max_points=max_points,
            report=between(report, 0.7, 1.0),
            map_=map_,
        )


def checked_refit(
    points: DistinctPoints,
    selected: np.ndarray,
    *,
    prune_within: float,
    folds: LearnedFolds | None = None,
    **arguments: Any,
) -> tuple[Refit, Losses]:
    """Return the refitted model and its log-losses, after checks that may replace the model.

    If the training loss exceeds the leave-one-out estimate by more than one standard error, the model is
    refitted without recalibration and pruning, and the model with the smaller training loss is kept. If the
    estimate is not below the loss of the class fractions, a constant model replaces the model, unless the
    user has set C or a class has a single observation.

    ``folds`` is described at :func:`with_learned_folds`; it is given if factors of the features were learned
    from few points. The other arguments are passed to :func:`refit_with`.
    """
    model = refit_with(points, selected, prune_within=prune_within, **arguments)
    losses = losses_of(points, model)
    if losses.training_is_worse:
        plain_fit = replace(model.evaluated, recalibration=Recalibration())
        plain = refit_with(points, selected, prune_within=0.0, **{**arguments, "evaluated": plain_fit})
        if (plain_losses := losses_of(points, plain)).training < losses.training:
            model, losses = plain, plain_losses
    if folds is not None:
        model = with_learned_folds(points, model, folds)
        losses = losses_of(points, model)
    if losses.no_signal and arguments["C"] == "auto" and min(points.observations_by_class()) >= 2:
        model = class_fractions(points, model)
    return model, losses


# -- checks of the losses -----------------------------------------------------------------------


class Losses(NamedTuple):
    """Mean log-losses of a model and of the class fractions."""

    fractions: float  # loss of predicting the class fractions for every row
    estimate: float  # leave-one-out estimate of the loss on new rows
    error: float  # standard error of ``estimate``
    training: float  # loss on the training rows

    @property
    def training_is_worse(self) -> bool:
        """Whether the training loss exceeds the estimated loss on new rows by more than a standard error."""
        return not self.training <= self.estimate + self.error + 1e-9

    @property
    def no_signal(self) -> bool:
        """Whether the estimated loss is not below the loss of the class fractions, up to rounding."""
        return not self.estimate < self.fractions - 1e-9


def entropy(weight: np.ndarray) -> float:
    """Return the log-loss of predicting the class fractions for every row, given the class weights."""
    fraction = weight / weight.sum()
    positive = fraction[fraction > 0]
    return float(-positive @ np.log(positive))


def advice_without_signal(X: Any, names: Any, has_gamma: bool) -> str:
    """Return advice for the user if the features X do not help to predict the classes.

    The advice is to standardise the features if their scales differ widely, and otherwise to try other
    kernels or features. X is None if the features were already scaled or the kernel is precomputed.
    """
    tried = "other values of gamma and kernel" if has_gamma else "another kernel"
    advice = f"If you expect a signal, try {tried}, or other features."
    if X is None or sparse.issparse(X) or X.shape[1] < 2:
        return advice
    with np.errstate(over="ignore", invalid="ignore"):
        spread = X.std(axis=0, dtype=np.float64)
    spread[~((spread > 0) & np.isfinite(spread))] = np.nan
    if not np.nanmax(spread, initial=0) > SETTINGS.unscaled * np.nanmin(spread, initial=np.inf):
        return advice
    largest, smallest = int(np.nanargmax(spread)), int(np.nanargmin(spread))
    name = [f"{i}" if names is None else repr(str(names[i])) for i in (largest, smallest)]
    return (
        f"Feature {name[0]} varies {spread[largest] / spread[smallest]:.0f} times as much as feature "
        f"{name[1]}: standardise the features (sklearn.preprocessing.StandardScaler)."
    )


def losses_of(points: DistinctPoints, model: Refit) -> Losses:
    """Return the log-losses of a model and of the class fractions."""
    labels, total = Labels.of_points(points), points.weight.sum()
    estimate, error = labels.observations.mean(model.evaluated.losses)
    training = float(-(points.weight * log_probabilities(model.outputs, SOFTMAX)).sum() / total)
    return Losses(entropy(points.weight.sum(axis=0)), estimate, error, training)


def left_out_outputs(points: DistinctPoints, model: Refit) -> np.ndarray:
    """Return recalibrated leave-one-out outputs, one row for each group of equal observations."""
    return of_groups(Labels.of_points(points).observations, model.evaluated.loo)


def held_out_outputs(points: DistinctPoints, model: Refit) -> np.ndarray:
    """Return approximate leave-one-out outputs (n_groups, n_outputs) of the final model.

    Each row of the result corresponds to a group of equal observations. It approximates the outputs that the
    final model would have for this group if one of these observations were left out of the fit. The
    computation starts from the leave-one-out outputs of the label-free fit, a preliminary fit whose basis is
    chosen without the labels. The final fit has different points and a different intercept. These differences
    hardly affect the loss, but they change the ranking of confident predictions. The difference between the
    two fits at a row is therefore added to the leave-one-out output of the row. At its own points, the final
    model follows the labels more closely than the label-free fit does. If a kept point consists of a single
    observation, a fit without this observation could not have this point. For such a point, the mean
    difference over the other rows is used instead, with equal weight for each class.
    """
    groups, evaluated = points.observations, model.evaluated
    first = evaluated.recalibration(evaluated.fit.f).reshape(len(points), -1)
    change = (model.outputs - first)[groups.point]
    removed = groups.weight.sum(axis=1) / groups.count
    alone = removed > (1 - 1e-9) * points.weight.sum(axis=1)[groups.point]
    lost = alone & np.isin(groups.point, model.points)
    weights = [weight for weight in groups.weight[~lost].T if weight.any()]
    means = [np.average(change[~lost], weights=weight, axis=0) for weight in weights]
    change[lost] = np.mean(means, axis=0) if means else 0.0
    outputs: np.ndarray = left_out_outputs(points, model) + change
    return outputs


def of_groups(pieces: LeftOut, outputs: np.ndarray) -> np.ndarray:
    """Return the outputs (n_groups, n_outputs), with one row for each group of observations.

    If the groups were divided into folds, the outputs are averaged over the observations of a group.
    """
    if pieces.group is None:
        return outputs[:, None]
    fraction = pieces.count / np.bincount(pieces.group, pieces.count)[pieces.group]
    return np.column_stack([np.bincount(pieces.group, fraction * column) for column in outputs.T])


def with_learned_folds(points: DistinctPoints, model: Refit, folds: LearnedFolds) -> Refit:
    """Return the model with cross-fitted outputs in place of leave-one-out outputs.

    The features of the model are multiplied by factors learned from all labels (:mod:`~.relevance`). With
    many features and few rows, this makes leave-one-out too optimistic. The factors for each of the ``folds``
    were learned from the other folds. A constant model is returned unchanged, and so is the model if a class
    has a single observation.
    """
    if not len(model.points) or min(points.observations_by_class()) < 2:
        return model
    evaluated, pieces = model.evaluated, Labels.of_points(points).observations
    outputs = folds.outputs(model.C)
    left_out = of_groups(folds.groups, outputs.reshape(len(outputs), -1))
    left_out = left_out[:, 0] if pieces.group is None else left_out[pieces.group]
    losses = pieces.losses(evaluated.recalibration(left_out))
    return replace(model, evaluated=replace(evaluated, left_out=left_out, losses=losses))


def class_fractions(points: DistinctPoints, model: Refit) -> Refit:
    """Return a constant model that predicts the class fractions.

    ``model`` provides C. If leave-one-out removes the only observation of a class, the class counts as half
    an observation.
    """
    no_points, labels = np.empty(0, dtype=np.intp), Labels.of_points(points)
    groups, basis = labels.observations, Basis.of(points, no_points)
    fit = fit_likelihood(basis, labels, model.C)
    removed = groups.removed / groups.weight * groups.by_class()
    rest = np.maximum(labels.by_class().sum(axis=1)[:, None] - removed, 0.5 * groups.removed)
    left_out = np.log(rest).T if labels.several else np.log(rest[1]) - np.log(rest[0])
    evaluated = EvaluatedFit(
        no_points, basis.coefficients(fit.v), fit, Recalibration(), left_out, groups.losses(left_out)
    )
    return refit(points, labels, no_points, evaluated, prune_within=0.0, rng=np.random.default_rng(0))
