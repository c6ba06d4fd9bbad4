"""Fewer features: those that a model hardly uses are dropped, a fifth at a time.

What a feature is worth is the mean squared derivative of the outputs in it. As for the number of points,
every fold drops its own features, the held-out rows say how many are too many, and then all rows go the same
way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..threads import Map
from .objective import CompactModel, Objective
from .path import SEGMENT, Fold, Path, Stage, Validation
from .rows import LabelledRows
from .start import started

# Share of the features dropped in a round.
DROPPED = 0.2
# The fewest features within so many standard errors of the best loss are kept. The search ends where the loss
# is beyond any doubt: by so many standard errors and by this share of it.
ALLOWED, HOPELESS, MUCH = 1.0, 3.0, 0.05
# Between the fewest that will do and the next number tried, so many steps are tried at most.
STEPS = 4
# Rows on which derivatives are taken.
_SAMPLE = 4096


@dataclass(frozen=True)
class Round:
    """So many features are left, and points move at these C."""

    n_features: int
    moved_at: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Fewer:
    """A stage with fewer features: the folds that have only these, and the rounds that led there."""

    stage: Stage
    folds: list[Fold]
    features: list[np.ndarray]  # of each fold
    rounds: tuple[Round, ...] = ()

    @classmethod
    def none(cls, path: Path, stage: Stage) -> Fewer:
        """No feature is dropped."""
        return cls(stage, path.folds, [np.arange(stage.n_features)] * len(path.folds))

    @property
    def n_features(self) -> int:
        return self.stage.n_features


def most_used(rows: LabelledRows, model: CompactModel, n_features: int) -> np.ndarray:
    """Positions of the features with the largest derivatives, in order of position."""
    worth = model.squared_derivatives(rows.X[:_SAMPLE])
    return np.sort(np.argsort(-worth, kind="stable")[:n_features])


def eliminate(path: Path, stage: Stage) -> tuple[list[Stage], Fewer]:
    """The stages tried, and that with the fewest features that is good enough."""
    tried = [Fewer.none(path, stage)]
    with path.in_threads() as each:
        while tried[-1].n_features > 1 and not _hopeless(tried, path.validation):
            dropped = max(1, round(DROPPED * tried[-1].n_features))
            tried.append(_dropped(path, each, tried[-1], dropped))
        chosen = _fewest(tried, path.validation)
        below = [at.n_features for at in tried if at.n_features < chosen.n_features]
        gap = chosen.n_features - max(below, default=chosen.n_features)
        step = max(1, -(-gap // STEPS))
        at = chosen
        for _ in range(step, gap, step):
            at = _dropped(path, each, at, step)
            tried.append(at)
        chosen = _fewest(tried, path.validation)
    return [at.stage for at in tried[1:]], chosen


def _dropped(path: Path, each: Map, at: Fewer, n_dropped: int) -> Fewer:
    """Drop the features of least use, and fit points anew."""
    n_features = at.n_features - n_dropped
    path.report(f"{n_features} features", 0.9)
    models = at.stage.models
    features = [most_used(f.rows, m, n_features) for f, m in zip(at.folds, models, strict=True)]
    folds = list(each(Fold.columns, at.folds, features))
    widths = [model.log_gamma[left] for model, left in zip(models, features, strict=True)]
    # With the same C to start from as before: points that start at a larger one end elsewhere, and a stage
    # that took another way cannot be compared. So ringnorm kept all of 20 noise features in a fold of three.
    stage = path.fit_size(each, folds, at.stage.n_points, at.stage.moved_at[0], widths)
    kept = [before[left] for before, left in zip(at.features, features, strict=True)]
    return Fewer(stage, folds, kept, (*at.rounds, Round(n_features, stage.moved_at)))


def _best(tried: list[Fewer]) -> Stage:
    return min((at.stage for at in tried), key=lambda stage: stage.loss)


def _fewest(tried: list[Fewer], validation: Validation) -> Fewer:
    """The fewest features that are good enough."""
    best = _best(tried)
    enough = [at for at in tried if at.stage is best or _excess(at.stage, best, validation) <= ALLOWED]
    return min(enough, key=lambda at: at.n_features)


def _hopeless(tried: list[Fewer], validation: Validation) -> bool:
    """Whether the last stage is worse than the best beyond any doubt."""
    best, last = _best(tried), tried[-1].stage
    return last.loss > (1 + MUCH) * best.loss and _excess(last, best, validation) > HOPELESS


def _excess(stage: Stage, best: Stage, validation: Validation) -> float:
    """Loss beyond the best, in standard errors of the difference."""
    error = validation.standard_error(stage.losses - best.losses)
    return (stage.loss - best.loss) / max(error, 1e-300)


def replay(
    rows: LabelledRows, model: CompactModel, rounds: tuple[Round, ...], *, shared: bool, threads: int
) -> tuple[np.ndarray, CompactModel]:
    """The rounds on all rows: positions of the features that are left, and the model with them."""
    kept = np.arange(rows.X.shape[1])
    for step in rounds:
        features = most_used(rows, model, step.n_features)
        rows, kept = rows.columns(features), kept[features]
        model = moved(
            rows, started(rows, model.n_points, model.log_gamma[features]), step.moved_at, shared, threads
        )
    return kept, model


def moved(
    rows: LabelledRows, model: CompactModel, moved_at: tuple[float, ...], shared: bool, threads: int
) -> CompactModel:
    """Points and widths after a segment of moves at each C."""
    objective = Objective(rows.compiled(), shared=shared, threads=threads)
    for C in moved_at:
        model = objective.move(model, C, max_iter=SEGMENT).model
    return model
