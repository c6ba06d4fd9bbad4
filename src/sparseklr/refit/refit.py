r"""The refit: a penalised likelihood on the points selected by S-KLR.

The margin loss of S-KLR selects good points, but its outputs do not give probabilities. The refit keeps the
points and fits their coefficients by penalised likelihood to all rows:

1. C and the recalibration are chosen by leave-one-out, on a basis that does not depend on the labels
   (:mod:`~.regularisation`).
2. The coefficients of the selected points, without numerically dependent points, are fitted by penalised
   likelihood.
3. The smallest part of the points is kept whose mean Kullback-Leibler divergence from the unpruned model is
   below ``prune_within`` standard errors of the leave-one-out loss (:mod:`~.prune`).
4. Three log-losses are compared: :math:`L_0` of the class fractions, the leave-one-out estimate :math:`L_e`,
   and :math:`L_t` on the training rows. A sound model has :math:`L_t \le L_e` up to the noise of :math:`L_e`,
   and :math:`L_e < L_0` unless it is constant.

Equal rows form one point with their total weight. Leave-one-out removes an observation, or a whole point if
equal rows are copies (:mod:`~.copies`). Weights are divided by the mean weight of an observation, so a common
factor has no effect.
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
from .relevance import outputs_of_folds


@dataclass(frozen=True)
class RefitSettings:
    """Limits of the refit."""

    usual_points: int = 700  # maximum number of points, unless C was chosen on a larger basis
    usual_coefficients: int = 6000  # maximum number of points times classes, likewise
    negligible: float = 1e-3  # prior variance, in squared logits, that a point must add
    unscaled: float = 100.0  # ratio of standard deviations of features above which scaling is advised


SETTINGS = RefitSettings()


@dataclass(frozen=True, eq=False)
class Refit:
    """A refitted model; two classes have one output, more classes one each."""

    points: np.ndarray
    coef: np.ndarray  # (n_outputs, n_points)
    intercept: np.ndarray  # (n_outputs,)
    slope: float  # factor on the outputs of the likelihood
    evaluated: EvaluatedFit  # on the label-free basis, with the leave-one-out outputs
    outputs: np.ndarray  # of all points, (n_points, n_outputs)
    L: np.ndarray  # Cholesky factor of the kernel matrix of the points
    factors: np.ndarray  # Cholesky factor of the Newton matrix of each output, at the final outputs

    @property
    def C(self) -> float:
        return self.evaluated.C

    @property
    def prior(self) -> float:
        """Factor of the kernel in the prior covariance of the final outputs."""
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
    """Refit the likelihood on the points at ``selected``, and keep at most ``max_points``.

    ``prune_within=0`` disables further pruning.
    """
    report("likelihood on the selected points", 0.0)
    C, line = evaluated.C, evaluated.recalibration
    estimate, error = labels.observations.mean(evaluated.losses)

    # A point is negligible if it changes the output by less than 0.03 prior standard deviations.
    tolerance = min(max(SETTINGS.negligible / (C * line.slope**2), 1e-8), 1e-2)
    n_outputs = labels.target.shape[1] if labels.several else 1
    most = min(SETTINGS.usual_points, SETTINGS.usual_coefficients // n_outputs)
    most = max(most, len(evaluated.chosen))
    basis = random_basis(points, selected, most, rng, map_, tolerance).whiten_if_few()
    fit = fit_likelihood(basis, labels, C, near=evaluated.fit.f, fresh=False, tol=1e-4)
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
    """The accurate fit on a basis, from the coordinates ``start``, recalibrated with the given slope."""
    fit = fit_likelihood(basis, labels, evaluated.C, start, curvature=curvature, fresh=False)
    plain = not basis.size or few_others(labels, basis.chosen)
    line = with_slope(labels, fit.f, 1.0 if plain else slope)
    if line.slope != evaluated.recalibration.slope:  # the estimate must refer to the final slope
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
    max_points: int | None = None,
    report: Report = silent,
    n_jobs: int | None = None,
) -> Refit:
    """Refit on the selected points with the given C, or with the best one by leave-one-out for ``"auto"``.

    ``evaluated`` is the fit on a label-free basis, if known; ``near_C`` is where the search for C starts.
    """
    rng, labels = np.random.default_rng(seed), Labels.of_points(points)
    (random,) = rng.spawn(1)
    with ordered_threads(n_jobs) as map_:
        if C != "auto":
            evaluated = evaluate_C(LabelFreeBases(points, rng, map_)[-1], labels, float(C))
        elif evaluated is None:
            evaluated = choose_C(LabelFreeBases(points, rng, map_), labels, near_C, between(report, 0.0, 0.7))
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


def sound_refit(
    points: DistinctPoints,
    selected: np.ndarray,
    *,
    prune_within: float,
    origin: tuple[Basis, EvaluatedFit] | None = None,
    **arguments: Any,
) -> tuple[Refit, Losses]:
    """The refitted model and its losses; without recalibration and pruning if these increase the loss.

    ``origin`` of learned factors of the features is that of :func:`with_learned_folds`. Without signal, the
    class fractions replace the model, unless the user has set C. The other arguments are those of
    :func:`refit_with`.
    """
    model = refit_with(points, selected, prune_within=prune_within, **arguments)
    losses = losses_of(points, model)
    if losses.training_is_worse:
        plain_fit = replace(model.evaluated, recalibration=Recalibration())
        plain = refit_with(points, selected, prune_within=0.0, **{**arguments, "evaluated": plain_fit})
        if (plain_losses := losses_of(points, plain)).training < losses.training:
            model, losses = plain, plain_losses
    if origin is not None:
        model = with_learned_folds(points, model, origin, arguments["seed"])
        losses = losses_of(points, model)
    if losses.nothing_found and arguments["C"] == "auto" and min(points.observations_by_class()) >= 2:
        model = class_fractions(points, model)
    return model, losses


# -- checks of the losses -----------------------------------------------------------------------


class Losses(NamedTuple):
    """Mean log-losses, with the standard error of the estimate."""

    fractions: float
    estimate: float
    error: float
    training: float

    @property
    def training_is_worse(self) -> bool:
        """Whether the training loss exceeds the estimate for new rows."""
        return not self.training <= self.estimate + self.error + 1e-9

    @property
    def nothing_found(self) -> bool:
        """Whether the estimated loss is not below that of the class fractions."""
        return not self.estimate < self.fractions


def entropy(weight: np.ndarray) -> float:
    """Log-loss of the class fractions, from the weight of each class."""
    fraction = weight / weight.sum()
    positive = fraction[fraction > 0]
    return float(-positive @ np.log(positive))


def remedy(X: Any, names: Any) -> str:
    """Advice for data X without signal: standardise the features if their scales differ widely.

    X is None for scaled features and for a precomputed kernel.
    """
    advice = "If you expect one, try other values of gamma and kernel, or other features."
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
    """Log-losses of the class fractions, of leave-one-out, and on the training rows."""
    labels, total = Labels.of_points(points), points.weight.sum()
    estimate, error = labels.observations.mean(model.evaluated.losses)
    training = float(-(points.weight * log_probabilities(model.outputs, SOFTMAX)).sum() / total)
    return Losses(entropy(points.weight.sum(axis=0)), estimate, error, training)


def left_out_outputs(points: DistinctPoints, model: Refit) -> np.ndarray:
    """Recalibrated leave-one-out outputs of the groups of observations, (n_groups, n_outputs)."""
    return of_groups(Labels.of_points(points).observations, model.evaluated.loo)


def held_out_outputs(points: DistinctPoints, model: Refit) -> np.ndarray:
    """Outputs of the groups of observations by the final model without them, (n_groups, n_outputs).

    Leave-one-out refers to the fit on the label-free basis. The final fit has other points and another
    intercept, which hardly change the loss but do change the order of confident predictions. So the
    difference of the two fits at a row is added to its leave-one-out output. A point of the final model
    follows its own label more closely than the label-free fit does. If it is a single observation, without
    which it would not be a point, its difference is replaced by the mean over the other rows, with equal
    weight of all classes.
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
    """Outputs of the groups of observations, (n_groups, n_outputs).

    Cross-fitted outputs of several classes are averaged over the observations of a group.
    """
    if pieces.group is None:
        return outputs[:, None]
    fraction = pieces.count / np.bincount(pieces.group, pieces.count)[pieces.group]
    return np.column_stack([np.bincount(pieces.group, fraction * column) for column in outputs.T])


def with_learned_folds(
    points: DistinctPoints, model: Refit, origin: tuple[Basis, EvaluatedFit], seed: int
) -> Refit:
    """The same model with leave-one-out values whose factors of the features were learned without them.

    ``origin`` is the basis and the fit that the factors were learned from. Factors that have seen all labels
    make leave-one-out too optimistic if there are many features and few rows. A constant model, and a class
    with a single observation, keep their values.
    """
    if not len(model.points) or min(points.observations_by_class()) < 2:
        return model
    (basis, first), evaluated, labels = origin, model.evaluated, Labels.of_points(points)
    pieces, _, outputs = outputs_of_folds(basis, labels, first, model.C, seed)
    left_out = outputs if labels.several else of_groups(pieces, outputs[:, None])[:, 0]
    losses = labels.observations.losses(evaluated.recalibration(left_out))
    return replace(model, evaluated=replace(evaluated, left_out=left_out, losses=losses))


def class_fractions(points: DistinctPoints, model: Refit) -> Refit:
    """The model replaced by constants, the class fractions.

    In leave-one-out, a class that loses its only observation counts as half an observation.
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
