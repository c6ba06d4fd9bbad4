"""Elimination of features that a model hardly uses; each round drops 20% of the remaining features.

The use of a feature is measured by the mean squared derivative of the outputs (decision values) with respect
to the feature. In each fold, the features that the model of the fold uses least are dropped. The validation
rows determine how many features are dropped. The models of all folds after a round form a *stage* of the
search (:class:`~.size_search.Stage`). The rounds up to the chosen stage are finally repeated on all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._utils.threads import Map
from .model import CompactModel, Objective
from .rows import LabelledRows
from .size_search import SEARCH, Fold, SizeSearch, Stage, Validation, at_centres


@dataclass(frozen=True)
class EliminationSettings:
    """Settings of the elimination of features.

    The search compares each validation loss with the smallest validation loss. Their difference is divided by
    its standard error.
    """

    dropped: float = 0.2  # fraction of the features dropped in a round
    allowed: float = 1.0  # the smallest number of features within this many standard errors is chosen
    hopeless: float = 3.0  # the search ends if the difference exceeds this many standard errors ...
    much: float = 0.05  # ... and this fraction of the smallest loss
    # After the rounds, bisection between the chosen number of features and the next smaller one takes at most
    # this number of steps.
    steps: int = 4
    n_rows: int = 4096  # maximum number of rows from which the derivatives are computed


ELIMINATION = EliminationSettings()


@dataclass(frozen=True, eq=False)
class ReducedStage:
    """Models with fewer features, one for each fold, and their validation loss."""

    stage: Stage
    folds: list[Fold]  # the folds, restricted to the remaining features
    features: list[np.ndarray]  # positions of the remaining features in each fold
    rounds: tuple[int, ...] = ()  # number of features after each round

    @classmethod
    def full(cls, search: SizeSearch, stage: Stage) -> ReducedStage:
        """Return the stage with all features."""
        return cls(stage, search.folds, [np.arange(stage.n_features)] * len(search.folds))

    @property
    def n_features(self) -> int:
        """Number of remaining features."""
        return self.stage.n_features


def most_used(rows: LabelledRows, model: CompactModel, n_features: int) -> np.ndarray:
    """Return the positions, in ascending order, of the features with the largest derivatives."""
    use = model.squared_derivatives(rows.X[: ELIMINATION.n_rows])
    return np.sort(np.argsort(-use, kind="stable")[:n_features])


def eliminate(search: SizeSearch, stage: Stage) -> tuple[list[Stage], ReducedStage]:
    """Drop features in rounds; return all stages with fewer features than ``stage``, and the chosen stage.

    The chosen stage has the fewest features among the stages whose loss exceeds the smallest loss by at most
    one standard error of the difference.
    """
    tried = [ReducedStage.full(search, stage)]
    with search.in_threads() as each:
        while tried[-1].n_features > 1 and not _hopeless(tried, search.validation):
            dropped = max(1, round(ELIMINATION.dropped * tried[-1].n_features))
            tried.append(_dropped(search, each, tried[-1], dropped))
        chosen = _fewest(tried, search.validation)
        below = [reduced.n_features for reduced in tried if reduced.n_features < chosen.n_features]
        gap = chosen.n_features - max(below, default=chosen.n_features)
        step = max(1, -(-gap // ELIMINATION.steps))
        last = chosen
        for _ in range(step, gap, step):
            last = _dropped(search, each, last, step)
            tried.append(last)
        chosen = _fewest(tried, search.validation)
    return [reduced.stage for reduced in tried[1:]], chosen


def _dropped(search: SizeSearch, each: Map, last: ReducedStage, n_dropped: int) -> ReducedStage:
    """Return the stage in which the least used features are dropped and the models are fitted again."""
    n_features = last.n_features - n_dropped
    search.report(f"{n_features} features", 0.9)
    models = last.stage.models
    features = [most_used(f.rows, m, n_features) for f, m in zip(last.folds, models, strict=True)]
    folds = list(each(Fold.columns, last.folds, features))
    widths = [model.log_gamma[left] for model, left in zip(models, features, strict=True)]
    # All rounds start with the same C. Another C would lead to other points, and the losses would not be
    # comparable.
    stage = search.fit_size(each, folds, last.stage.n_points, last.stage.start_C, widths)
    kept = [before[left] for before, left in zip(last.features, features, strict=True)]
    return ReducedStage(stage, folds, kept, (*last.rounds, n_features))


def _best(tried: list[ReducedStage]) -> Stage:
    """Return the stage with the smallest validation loss."""
    return min((reduced.stage for reduced in tried), key=lambda stage: stage.loss)


def _fewest(tried: list[ReducedStage], validation: Validation) -> ReducedStage:
    """Return the stage with the fewest features whose loss is close enough to the smallest loss."""
    best = _best(tried)
    enough = [
        reduced
        for reduced in tried
        if reduced.stage is best or _excess(reduced.stage, best, validation) <= ELIMINATION.allowed
    ]
    return min(enough, key=lambda reduced: reduced.n_features)


def _hopeless(tried: list[ReducedStage], validation: Validation) -> bool:
    """Return whether the last stage is so much worse than the best stage that the search can end."""
    best, last = _best(tried), tried[-1].stage
    much_worse = last.loss > (1 + ELIMINATION.much) * best.loss
    return much_worse and _excess(last, best, validation) > ELIMINATION.hopeless


def _excess(stage: Stage, best: Stage, validation: Validation) -> float:
    """Return the excess of the loss over the loss of ``best``, in standard errors of the difference."""
    error = validation.standard_error(stage.losses - best.losses)
    return (stage.loss - best.loss) / max(error, 1e-300)


def replay(
    rows: LabelledRows,
    model: CompactModel,
    rounds: tuple[int, ...],
    C: float,
    moved_at: tuple[float, ...],
    *,
    shared: bool,
    threads: int,
) -> tuple[np.ndarray, CompactModel]:
    """Repeat the rounds of elimination on all rows; return the remaining features, and the model.

    The features are given by their positions.
    """
    kept = np.arange(rows.X.shape[1])
    for n_features in rounds:
        features = most_used(rows, model, n_features)
        rows, kept = rows.columns(features), kept[features]
        objective = Objective(rows.compiled(), shared=shared, threads=threads)
        model = at_centres(rows, objective, model.n_points, C, model.log_gamma[features])
        model, _ = objective.move_along(model, moved_at, max_iter=SEARCH.segment)
    return kept, model
