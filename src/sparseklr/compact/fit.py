"""A compact model of given rows, from the choice of its size to the last digit of its coefficients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..threads import ordered_threads
from .features import Round, eliminate, replay
from .objective import CompactModel, Objective
from .path import FIRST_C, SEGMENT, Path, PathSettings, Stage, choose, nothing_to_say
from .rows import LabelledRows, Observations
from .start import base_rate, started

# Segments of moves where nothing is held out that could end them earlier.
UNWATCHED = 4


@dataclass(frozen=True, eq=False)
class Plan:
    """How a model of all rows is to be fitted."""

    n_points: int
    C: float
    start_widths: tuple[np.ndarray, ...] = ()  # log gamma: their mean is where it starts
    moved_at: tuple[float, ...] = ()  # C of each segment of moves
    rounds: tuple[Round, ...] = ()  # in which features are dropped
    shrinkage: float = 1.0
    start: CompactModel | None = None  # instead of cluster centres


@dataclass(frozen=True, eq=False)
class CompactFit:
    """A fitted model and how it came about.

    Attributes
    ----------
    model : CompactModel
        In the units of the rows, shrinkage included.
    features : array of int
        The features of the rows that the model looks at.
    plan : Plan
    stages : list of Stage
        Of the path, then of the elimination of features. Empty where nothing was held out: number of points
        and C were given, or a class has a single row.
    held_out_loss : float or None
        Of the chosen stage.
    gradient_norm : float
        Largest derivative of the objective in a point or log-width, per unit of weight.
    n_iter : int
        Iterations of L-BFGS on all rows.
    """

    model: CompactModel
    features: np.ndarray
    plan: Plan
    stages: list[Stage]
    held_out_loss: float | None
    gradient_norm: float
    n_iter: int


def fit_compact(
    rows: LabelledRows,
    settings: PathSettings,
    observations: Observations,
    report: Callable[[str, float], Any] = nothing_to_say,
) -> CompactFit:
    """Choose what the settings leave open, then fit all rows."""
    plan, loss = _unwatched(rows, settings), None
    stages: list[Stage] = []
    if rows.X.shape[1] and (settings.n_points is None or settings.C is None or settings.sparse):
        path = Path(rows, settings, observations, report)
        if path.folds:
            stages = path.run()
            chosen = stages[-1] if settings.n_points else choose(stages, path.validation)
            last = chosen
            rounds: tuple[Round, ...] = ()
            if settings.sparse and chosen.n_points:
                tried, last, rounds = eliminate(path, chosen)
                stages = [*stages, *tried]
            loss = last.loss
            plan = Plan(chosen.n_points, last.C, chosen.start_widths, chosen.moved_at, rounds)
            if last.n_points:
                plan = replace(plan, shrinkage=path.shrinkage(last))
    report("all rows", 0.95)
    return _carried_out(rows, settings, plan, stages, loss)


def refit_compact(
    rows: LabelledRows, settings: PathSettings, start: CompactModel, C: float, shrinkage: float
) -> CompactFit:
    """Go on from a model: move its points, choose nothing."""
    plan = Plan(start.n_points, C, (), (C,) * UNWATCHED, (), shrinkage, start)
    return _carried_out(rows, settings, plan, [], None)


def _unwatched(rows: LabelledRows, settings: PathSettings) -> Plan:
    """The plan where nothing can be held out, or nothing need be."""
    C = settings.C or FIRST_C
    n_points = (settings.n_points or rows.n_classes) if rows.X.shape[1] else 0
    return Plan(n_points, C, (base_rate(rows).log_gamma,), (C,) * UNWATCHED)


def _carried_out(
    rows: LabelledRows, settings: PathSettings, plan: Plan, stages: list[Stage], loss: float | None
) -> CompactFit:
    features = np.arange(rows.X.shape[1])
    if plan.n_points == 0:
        nothing = features[:0]
        return CompactFit(base_rate(rows.columns(nothing)), nothing, plan, stages, loss, 0.0, 0)
    options: dict[str, Any] = {"shared": settings.shared, "threads": settings.threads}
    with ordered_threads(1):  # linear algebra on one thread: its last digit depends on their number
        objective = Objective(rows.compiled(), **options)
        model = plan.start or started(rows, plan.n_points, np.mean(plan.start_widths, axis=0))
        n_iter = 0
        for C in plan.moved_at:
            moved = objective.move(model, C, max_iter=SEGMENT)
            model, n_iter = moved.model, n_iter + moved.n_iter
        if plan.rounds:
            features, model = replay(rows, model, plan.rounds, **options)
            rows = rows.columns(features)
        # the coefficients once more, in double precision
        objective = Objective(rows.compiled(single=False), **options)
        model, _ = objective.solve(model, plan.C, 1e-12)
        norm = float(np.abs(objective.gradient(model.log_gamma, plan.C)).max() / rows.weight.sum())
    model = replace(model, coef=plan.shrinkage * model.coef)
    return CompactFit(model, features, plan, stages, loss, norm, n_iter)
