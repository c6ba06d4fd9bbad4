"""Fit of a compact model to rows in memory: choose size, C and features on folds, then fit all rows.

The fit to all rows takes from the folds only what they chose: sizes, C, the number of moves and the factor on
the outputs. Folds that choose the same give the same model, whichever rows they hold.

The objective has many minima, and the fit to all rows may end in a worse one than the folds did. The models
of the folds, with coefficients refitted to all rows, therefore serve as candidates: if the objective of the
fit to all rows exceeds their median, the best of them replaces it, and its points are moved further.
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

# Number of runs of L-BFGS without validation rows, which could stop them earlier.
UNWATCHED = 4


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model and its features, with the value of its objective once it is fitted to all rows."""

    features: np.ndarray
    model: CompactModel
    value: float = np.nan
    n_iter: int = 0  # iterations of L-BFGS on all rows


@dataclass(frozen=True, eq=False)
class Plan:
    """Instructions for the fit to all rows."""

    n_points: int
    C: float
    sizes: tuple[int, ...] = ()  # models fitted one after the other, each starts with the widths of the last
    rounds: tuple[int, ...] = ()  # numbers of remaining features, as features are dropped
    moved_at: tuple[float, ...] = ()  # value of C in each run of L-BFGS
    shrinkage: float = 1.0
    start: CompactModel | None = None  # initial model, instead of points at cluster centres
    validated: tuple[Candidate, ...] = ()  # the models of the folds


@dataclass(frozen=True, eq=False)
class CompactFit:
    """A fitted model and the search that led to it.

    ``stages`` are those of the size search, then of the feature elimination. The list is empty if nothing was
    validated, because the number of points and C were given or a class has a single row.
    """

    model: CompactModel  # in the units of the rows, shrinkage included
    features: np.ndarray  # positions of the features that the model uses
    plan: Plan
    stages: list[Stage]
    chosen: Stage | None
    gradient_norm: float  # largest derivative of the objective in a point or log-width, per unit of weight
    n_iter: int  # iterations of L-BFGS on all rows
    training_loss: float = np.nan  # mean log-loss of the rows; NaN for a streamed fit
    validation: Validation | None = None  # the rows that ``chosen`` was evaluated on

    @property
    def validation_loss(self) -> float | None:
        return None if self.chosen is None else self.chosen.loss

    @property
    def baseline_loss(self) -> float | None:
        """Validation loss of the class fractions."""
        return self.stages[0].loss if self.stages else None

    @property
    def in_poor_optimum(self) -> bool:
        """Whether the training loss exceeds the validation loss by more than two standard errors."""
        if self.chosen is None:
            return False
        return self.training_loss > self.chosen.loss + 2.0 * self.chosen.standard_error

    def search_results(self) -> dict[str, np.ndarray]:
        """One row per stage; the fold error only if the folds were repeated."""
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
    """Choose the settings that are None, then fit all rows.

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
    """The fit in the original features."""

    def back(model: CompactModel) -> CompactModel:
        return CompactModel(*rotation.undone(model.points, model.log_gamma), model.coef)

    stages = [replace(stage, models=tuple(map(back, stage.models))) for stage in fit.stages]
    features = np.arange(len(rotation.basis) if fit.model.n_points else 0)
    model = back(fit.model) if fit.model.n_points else fit.model
    return replace(fit, model=model, features=features, stages=stages)


def _fit(
    rows: LabelledRows, settings: CompactSettings, observations: Observations, report: Report
) -> CompactFit:
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
    """Continue to move the points of a model, with its number of points and features and a given C."""
    plan = Plan(start.n_points, C, moved_at=(C,) * UNWATCHED, shrinkage=shrinkage, start=start)
    return _fit_all_rows(rows, settings, plan, [], None)


def _without_validation(rows: LabelledRows, settings: CompactSettings) -> Plan:
    C = settings.C or SEARCH.first_C
    n_points = (settings.n_points or rows.n_classes) if rows.X.shape[1] else 0
    return Plan(n_points, C, (n_points,), moved_at=(C,) * UNWATCHED)


def _validated_plan(search: SizeSearch, settings: CompactSettings) -> tuple[Plan, list[Stage], Stage]:
    """The plan chosen on the validation rows, all stages that were tried, and the chosen stage."""
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
    with ordered_threads(1):  # linear algebra on one thread: rounding depends on the number of threads
        fit = AllRows(rows, plan, shared=settings.shared, threads=settings.threads)
        best = fit.fitted()
        model, norm = fit.finished(best)
        training = fit.loss(best.features, model)
    return CompactFit(model, best.features, plan, stages, chosen, norm, best.n_iter, training)


# -- all rows --------------------------------------------------------------------------------------


class AllRows:
    """Fits to all rows according to a plan."""

    def __init__(self, rows: LabelledRows, plan: Plan, *, shared: bool, threads: int) -> None:
        self.rows, self.plan = rows, plan
        self._options: dict[str, Any] = {"shared": shared, "threads": threads}
        self._every = np.arange(rows.X.shape[1])

    @cached_property
    def _objective(self) -> Objective:
        return Objective(self.rows.compiled(), **self._options)

    def fresh(self) -> Candidate:
        """Fit models of all sizes up to the chosen one, then drop features as in the folds."""
        rows, plan = self.rows, self.plan
        features, model, n_iter = self._every, plan.start or base_rate(rows), 0
        for size in plan.sizes:
            model = at_centres(rows, self._objective, size, plan.moved_at[0], model.log_gamma)
            moves = plan.moved_at if size == plan.n_points else plan.moved_at[:1]
            model, n_iter = self._objective.move_along(model, moves, max_iter=SEARCH.segment)
        if plan.start:
            model, n_iter = self._objective.move_along(model, plan.moved_at, max_iter=SEARCH.segment)
        if plan.rounds:
            features, model = replay(rows, model, plan.rounds, plan.moved_at, **self._options)
        return self._solved(Candidate(features, model, n_iter=n_iter))

    def fitted(self) -> Candidate:
        """Choose between a fit from scratch and the models of the folds by the objective on all rows.

        The fit from scratch is returned if its objective is at most the median of those of the fold models.
        Otherwise the points of the best fold model are optimised further on all rows. If the plan has no
        points, the model predicts the class fractions.
        """
        if self.plan.n_points == 0:
            nothing = self._every[:0]
            return Candidate(nothing, base_rate(self.rows.columns(nothing)))
        fresh = self.fresh()
        folds = [self._solved(candidate) for candidate in self.plan.validated]
        if not folds or fresh.value <= np.median([fold.value for fold in folds]):
            return fresh
        best = min(folds, key=lambda fold: fold.value)
        moved = self._objective_of(best).move(best.model, self.plan.C, max_iter=SEARCH.segment)
        return Candidate(best.features, moved.model, moved.value, moved.n_iter)

    def finished(self, candidate: Candidate) -> tuple[CompactModel, float]:
        """The model with shrunk double-precision coefficients, and its gradient norm per unit of weight."""
        C = self.plan.C
        if candidate.model.n_points == 0:
            return candidate.model, 0.0
        rows = self._rows_of(candidate).compiled(single=False)
        objective = Objective(rows, **self._options)
        model, _ = objective.solve(candidate.model, C, 1e-12)
        norm = float(np.abs(objective.gradient(model.log_gamma, C)).max() / self.rows.weight.sum())
        return CompactModel(model.points, model.log_gamma, self.plan.shrinkage * model.coef), norm

    def loss(self, features: np.ndarray, model: CompactModel) -> float:
        """Mean log-loss of a model on the rows, in double precision as for predictions."""
        rows = self.rows.columns(features)
        outputs = model.outputs(rows.compiled(single=False), self._options["threads"])
        return float(np.average(rows.losses(outputs), weights=rows.weight))

    def _rows_of(self, candidate: Candidate) -> LabelledRows:
        every = len(candidate.features) == len(self._every)
        return self.rows if every else self.rows.columns(candidate.features)

    def _objective_of(self, candidate: Candidate) -> Objective:
        if len(candidate.features) == len(self._every):
            return self._objective
        return Objective(self._rows_of(candidate).compiled(), **self._options)

    def _solved(self, candidate: Candidate) -> Candidate:
        model, value = self._objective_of(candidate).solve(candidate.model, self.plan.C)
        value += width_penalty(model.log_gamma)[0]
        return replace(candidate, model=model, value=value)
