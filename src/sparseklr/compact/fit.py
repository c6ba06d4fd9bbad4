"""Fit of a compact model to rows in memory.

The number of points, C and the features are chosen on validation folds, and a model is then fitted to all
rows. This final fit uses only the choices made on the folds: the numbers of points, C, the number of L-BFGS
runs, and the factor by which the decision values are multiplied. Two divisions into folds that lead to the
same choices therefore give the same model.

The objective has many local minima, and the final fit may end in a worse minimum than the fits of the folds.
The models of the folds, with coefficients refitted to all rows, therefore serve as candidates. If the
objective of the final model exceeds the median of the objectives of the candidates, the candidate with the
lowest objective replaces it. The points of this candidate are then optimised further on all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .._utils.threads import ordered_threads
from .features import ReducedStage, eliminate, replay
from .model import CompactModel, Objective, base_rate, width_penalty
from .rows import LabelledRows, Observations, Rotation
from .size_search import (
    SEARCH,
    CompactSettings,
    Report,
    SizeSearch,
    Stage,
    Validation,
    at_centres,
    choose,
    no_report,
)

# Number of runs of L-BFGS if there are no validation rows, so that early stopping is impossible.
UNWATCHED = 4


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model that may become the final model."""

    features: np.ndarray  # positions of the features that the model uses
    model: CompactModel
    value: float = np.nan  # objective on all rows; NaN until the coefficients are fitted to all rows
    n_iter: int = 0  # number of L-BFGS iterations on all rows


@dataclass(frozen=True, eq=False)
class Plan:
    """Choices that determine the final fit to all rows."""

    n_points: int
    C: float
    # Numbers of points of the models that are fitted one after the other. Each fit starts with the widths of
    # the previous model.
    sizes: tuple[int, ...] = ()
    rounds: tuple[int, ...] = ()  # number of remaining features after each round of elimination
    moved_at: tuple[float, ...] = ()  # value of C in each run of L-BFGS; empty for points at cluster centres
    shrinkage: float = 1.0  # factor by which the decision values are multiplied
    start: CompactModel | None = None  # initial model; None for points at cluster centres
    validated: tuple[Candidate, ...] = ()  # the models of the folds

    @property
    def start_C(self) -> float:
        """Value of C with which the fit of each size starts."""
        return (*self.moved_at, self.C)[0]


@dataclass(frozen=True, eq=False)
class CompactFit:
    """A fitted model and the search that led to it.

    ``stages`` contains the stages (see :class:`~.size_search.Stage`) of the size search, followed by those of
    the feature elimination. It is empty if there was no validation. This is the case if the number of points
    and C were given, or if a class has a single row.
    """

    model: CompactModel  # in the units of the scaled rows; the coefficients include the shrinkage
    features: np.ndarray  # positions of the features that the model uses
    plan: Plan
    stages: list[Stage]
    chosen: Stage | None  # the stage whose settings were used for the final fit; None without validation
    # Largest derivative of the objective with respect to a point or log gamma, divided by the total weight
    gradient_norm: float
    n_iter: int  # number of L-BFGS iterations on all rows
    training_loss: float = np.nan  # mean log-loss of the training rows; NaN for an out-of-core fit
    validation: Validation | None = None  # the validation rows on which ``chosen`` was evaluated

    @property
    def validation_loss(self) -> float | None:
        """Mean log-loss of the chosen models on their validation rows; None without validation."""
        return None if self.chosen is None else self.chosen.loss

    @property
    def baseline_loss(self) -> float | None:
        """Mean log-loss of the class fractions on the validation rows; None without validation."""
        return self.stages[0].loss if self.stages else None

    @property
    def in_poor_optimum(self) -> bool:
        """Whether the training loss exceeds the validation loss by more than two standard errors."""
        if self.chosen is None:
            return False
        return self.training_loss > self.chosen.loss + 2.0 * self.chosen.standard_error

    def search_results(self) -> dict[str, np.ndarray]:
        """Return a table with one row for each stage, as a dictionary of columns.

        The column ``fold_error`` is present only if the rows were divided into folds several times.
        """
        stages = self.stages
        fold_error = np.array([stage.fold_error for stage in stages])
        return {
            "n_points": np.array([stage.n_points for stage in stages], dtype=int),
            "n_features": np.array([stage.n_features for stage in stages], dtype=int),
            "C": np.array([stage.C for stage in stages]),
            "log_loss": np.array([stage.loss for stage in stages]),
            "standard_error": np.array([stage.standard_error for stage in stages]),
            **({} if np.isnan(fold_error).any() else {"fold_error": fold_error}),
            "seconds": np.array([stage.seconds for stage in stages]),
        }


def fit_compact(
    rows: LabelledRows,
    settings: CompactSettings,
    observations: Observations,
    report: Report = no_report,
) -> CompactFit:
    """Choose by validation the settings that are None, and fit a model to all rows.

    If features far outnumber rows, all features share one width (unless ``sparse``), because few rows cannot
    determine thousands of widths.
    """
    if rows.X.shape[1] > SEARCH.features_per_row * len(rows) and not settings.sparse:
        with ordered_threads(1):
            rotation, rotated = Rotation.of(rows)
        fit = _fit(rotated, replace(settings, shared=True), observations, report)
        return _rotated_back(fit, rotation)
    return _fit(rows, settings, observations, report)


def _rotated_back(fit: CompactFit, rotation: Rotation) -> CompactFit:
    """Return the fitted model in terms of the original features."""

    def back(model: CompactModel) -> CompactModel:
        return CompactModel(*rotation.undone(model.points, model.log_gamma), model.coef)

    stages = [replace(stage, models=tuple(map(back, stage.models))) for stage in fit.stages]
    features = np.arange(len(rotation.basis) if fit.model.n_points else 0)
    model = back(fit.model) if fit.model.n_points else fit.model
    return replace(fit, model=model, features=features, stages=stages)


def _fit(
    rows: LabelledRows, settings: CompactSettings, observations: Observations, report: Report
) -> CompactFit:
    """Choose the settings that are None, by validation if there are folds, and fit a model to all rows."""
    plan, chosen, validation = _without_validation(rows, settings), None, None
    stages: list[Stage] = []
    if rows.X.shape[1] and (settings.n_points is None or settings.C is None or settings.sparse):
        search = SizeSearch(rows, settings, observations, report)
        if search.folds:
            plan, stages, chosen = _validated_plan(search, settings)
            validation = search.validation
    report("all rows", 0.95)
    return replace(_fit_all_rows(rows, settings, plan, stages, chosen), validation=validation)


def refit_compact(
    rows: LabelledRows, settings: CompactSettings, start: CompactModel, C: float, shrinkage: float
) -> CompactFit:
    """Return the model after further optimisation of its points on the given rows.

    The number of points, the features and C stay fixed.
    """
    plan = Plan(start.n_points, C, moved_at=(C,) * UNWATCHED, shrinkage=shrinkage, start=start)
    return _fit_all_rows(rows, settings, plan, [], None)


def _without_validation(rows: LabelledRows, settings: CompactSettings) -> Plan:
    """Return the plan for given settings, with default values for settings that are None."""
    C = settings.C or SEARCH.first_C
    n_points = (settings.n_points or rows.n_classes) if rows.X.shape[1] else 0
    return Plan(n_points, C, (n_points,), moved_at=(C,) * UNWATCHED)


def _validated_plan(search: SizeSearch, settings: CompactSettings) -> tuple[Plan, list[Stage], Stage]:
    """Return the plan of the final fit, all evaluated stages, and the stage on which the plan is based."""
    stages = search.run()
    sized = stages[-1] if settings.n_points else choose(stages, search.validation)
    reduced = ReducedStage.full(search, sized)
    if settings.sparse and sized.n_points:
        tried, reduced = eliminate(search, sized)
        stages = [*stages, *tried]
        if reduced.stage.loss >= stages[0].loss and settings.n_points is None:
            sized = stages[0]
            reduced = ReducedStage.full(search, sized)
    chosen = reduced.stage
    path = tuple(size for size in search.sizes if size <= sized.n_points)
    plan = Plan(sized.n_points, chosen.C, path, reduced.rounds, chosen.moved_at)
    if chosen.n_points:
        validated = tuple(map(Candidate, reduced.features, chosen.models))
        plan = replace(plan, shrinkage=search.validation.shrinkage(chosen), validated=validated)
    return plan, stages, chosen


def _fit_all_rows(
    rows: LabelledRows, settings: CompactSettings, plan: Plan, stages: list[Stage], chosen: Stage | None
) -> CompactFit:
    """Fit the final model to all rows with the settings in ``plan``."""
    with ordered_threads(1):  # one thread, because rounding errors of BLAS depend on the number of threads
        fit = AllRows(rows, plan, shared=settings.shared, threads=settings.threads)
        best = fit.fitted()
        model, norm = fit.finished(best)
        training = fit.loss(best.features, model)
    return CompactFit(model, best.features, plan, stages, chosen, norm, best.n_iter, training)


# -- all rows --------------------------------------------------------------------------------------


class AllRows:
    """The final fit to all rows according to a plan."""

    def __init__(self, rows: LabelledRows, plan: Plan, *, shared: bool, threads: int) -> None:
        self.rows, self.plan = rows, plan
        self._options: dict[str, Any] = {"shared": shared, "threads": threads}
        self._every = np.arange(rows.X.shape[1])

    @cached_property
    def _objective(self) -> Objective:
        """The objective on all rows with all features."""
        return Objective(self.rows.compiled(), **self._options)

    def fresh(self) -> Candidate:
        """Return a model fitted to all rows from scratch.

        Models with the numbers of points of the plan are fitted one after the other, and features are then
        dropped as in the folds.
        """
        rows, plan = self.rows, self.plan
        features, model, n_iter = self._every, plan.start or base_rate(rows), 0
        for size in plan.sizes:
            model = at_centres(rows, self._objective, size, plan.start_C, model.log_gamma)
            moves = plan.moved_at if size == plan.n_points else (plan.start_C,)
            model, n_iter = self._objective.move_along(model, moves, max_iter=SEARCH.segment)
        if plan.start:
            model, n_iter = self._objective.move_along(model, plan.moved_at, max_iter=SEARCH.segment)
        if plan.rounds:
            features, model = replay(rows, model, plan.rounds, plan.start_C, plan.moved_at, **self._options)
        return self._solved(Candidate(features, model, n_iter=n_iter))

    def fitted(self) -> Candidate:
        """Return the model fitted from scratch or, if its objective is too high, an improved fold model.

        The model from scratch is returned if its objective on all rows is at most the median of the
        objectives of the fold models. Otherwise the points of the best fold model are optimised further on
        all rows. If the plan has no points, the model predicts the class fractions.
        """
        if self.plan.n_points == 0:
            nothing = self._every[:0]
            return Candidate(nothing, base_rate(self.rows.columns(nothing)))
        fresh = self.fresh()
        folds = [self._solved(candidate) for candidate in self.plan.validated]
        if not folds or fresh.value <= np.median([fold.value for fold in folds]):
            return fresh
        best = min(folds, key=lambda fold: fold.value)
        if not self.plan.moved_at:  # the points were not optimised in the folds either
            return best
        moved = self._objective_of(best).move(best.model, self.plan.C, max_iter=SEARCH.segment)
        return Candidate(best.features, moved.model, moved.value, moved.n_iter)

    def finished(self, candidate: Candidate) -> tuple[CompactModel, float]:
        """Return the final model, and the norm of the gradient divided by the total weight.

        The coefficients are computed in double precision and multiplied by the shrinkage factor.
        """
        C = self.plan.C
        if candidate.model.n_points == 0:
            return candidate.model, 0.0
        rows = self._rows_of(candidate).compiled(single=False)
        objective = Objective(rows, **self._options)
        model, _ = objective.solve(candidate.model, C, 1e-12)
        norm = float(np.abs(objective.gradient(model.log_gamma, C)).max() / self.rows.weight.sum())
        return CompactModel(model.points, model.log_gamma, self.plan.shrinkage * model.coef), norm

    def loss(self, features: np.ndarray, model: CompactModel) -> float:
        """Return the mean log-loss of a model on the rows, in double precision as for predictions."""
        rows = self.rows.columns(features)
        outputs = model.outputs(rows.compiled(single=False), self._options["threads"])
        return float(np.average(rows.losses(outputs), weights=rows.weight))

    def _rows_of(self, candidate: Candidate) -> LabelledRows:
        """Return the rows with the features of a candidate."""
        every = len(candidate.features) == len(self._every)
        return self.rows if every else self.rows.columns(candidate.features)

    def _objective_of(self, candidate: Candidate) -> Objective:
        """Return the objective on all rows with the features of a candidate."""
        if len(candidate.features) == len(self._every):
            return self._objective
        return Objective(self._rows_of(candidate).compiled(), **self._options)

    def _solved(self, candidate: Candidate) -> Candidate:
        """Return the candidate with coefficients fitted to all rows, and with the value of its objective."""
        model, value = self._objective_of(candidate).solve(candidate.model, self.plan.C)
        value += width_penalty(model.log_gamma)[0]
        return replace(candidate, model=model, value=value)
