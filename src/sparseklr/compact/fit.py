"""A compact model of given rows, from the choice of its size to the last digit of its coefficients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..threads import ordered_threads
from .all_rows import AllRows, Candidate, Fitted, Plan
from .features import Fewer, eliminate
from .objective import CompactModel
from .path import FIRST_C, Path, PathSettings, Stage, choose, nothing_to_say
from .rows import LabelledRows, Observations
from .start import base_rate

# Segments of moves where nothing is held out that could end them earlier.
UNWATCHED = 4
# A training loss exceeds a held-out loss beyond noise from this many standard errors on.
NOISE = 2.0


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
    training_loss : float
        Mean log-loss of the rows; NaN for a streamed fit.
    standard_error : float
        Of the held-out loss.
    """

    model: CompactModel
    features: np.ndarray
    plan: Plan
    stages: list[Stage]
    held_out_loss: float | None
    gradient_norm: float
    n_iter: int
    training_loss: float = np.nan
    standard_error: float = 0.0

    @property
    def baseline_loss(self) -> float | None:
        """Held-out loss of the class fractions."""
        return self.stages[0].loss if self.stages else None

    @property
    def lost(self) -> bool:
        """Whether the training loss exceeds the held-out loss beyond its noise."""
        if self.held_out_loss is None:
            return False
        return self.training_loss > self.held_out_loss + NOISE * self.standard_error

    def path(self) -> dict[str, np.ndarray]:
        """A row for each stage."""
        stages = self.stages
        return {
            "n_points": np.array([stage.n_points for stage in stages], dtype=int),
            "n_features": np.array([stage.n_features for stage in stages], dtype=int),
            "C": np.array([stage.C for stage in stages]),
            "held_out_log_loss": np.array([stage.loss for stage in stages]),
            "standard_error": np.array([stage.standard_error for stage in stages]),
            "seconds": np.array([stage.seconds for stage in stages]),
        }


def fit_compact(
    rows: LabelledRows,
    settings: PathSettings,
    observations: Observations,
    report: Callable[[str, float], Any] = nothing_to_say,
) -> CompactFit:
    """Choose what the settings leave open, then fit all rows."""
    plan, last = _unwatched(rows, settings), None
    stages: list[Stage] = []
    if rows.X.shape[1] and (settings.n_points is None or settings.C is None or settings.sparse):
        path = Path(rows, settings, observations, report)
        if path.folds:
            stages = path.run()
            chosen = stages[-1] if settings.n_points else choose(stages, path.validation)
            fewer = Fewer.none(path, chosen)
            if settings.sparse and chosen.n_points:
                tried, fewer = eliminate(path, chosen)
                stages = [*stages, *tried]
                if fewer.stage.loss >= stages[0].loss and settings.n_points is None:
                    chosen = stages[0]
                    fewer = Fewer.none(path, chosen)
            last = fewer.stage
            plan = Plan(chosen.n_points, last.C, chosen.start_widths, chosen.moved_at, fewer.rounds)
            if last.n_points:
                validated = tuple(map(Candidate, fewer.features, last.models))
                plan = replace(plan, shrinkage=path.shrinkage(last), validated=validated)
    report("all rows", 0.95)
    return _carried_out(rows, settings, plan, stages, last)


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
    rows: LabelledRows, settings: PathSettings, plan: Plan, stages: list[Stage], last: Stage | None
) -> CompactFit:
    """The plan on all rows; a model whose training loss is too high is replaced by the best that is found."""
    with ordered_threads(1):  # linear algebra on one thread: its last digit depends on their number
        fit = AllRows(rows, plan, shared=settings.shared, threads=settings.threads)
        found = _completed(fit, fit.typical(), stages, last)
        if found.lost and plan.validated:
            again = _completed(fit, fit.best(), stages, last)
            found = min(found, again, key=lambda one: one.training_loss)
    return found


def _completed(fit: AllRows, fitted: Fitted, stages: list[Stage], last: Stage | None) -> CompactFit:
    model, norm = fit.finished(fitted)
    features = fitted.candidate.features
    loss, error = (None, 0.0) if last is None else (last.loss, last.standard_error)
    training = fit.loss(features, model)
    return CompactFit(model, features, fit.plan, stages, loss, norm, fitted.n_iter, training, error)
