"""The folds of a cross-validation: models fitted on one part and scored on the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from ..dual.path import solve_grid
from .base import KernelClassifier
from .sparse_klr import SparseKLR
from .training import GivenData

# What is measured of a candidate in a fold.
MEASURES = ("test_score", "n_support", "support_share", "fit_time", "score_time")


def checked_splits(
    cv: Any, given: GivenData, classes: np.ndarray, metadata: dict[str, Any]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The splits that ``cv`` makes, each with every class to learn from and something to score."""
    y = given.y
    splits = list(check_cv(cv, y, classifier=True).split(given.X, y, **metadata))
    if not splits:
        raise ValueError(f"cv={cv!r} has no splits; at least one is needed.")
    counted = np.ones(len(y), dtype=bool) if given.weight is None else given.weight > 0
    for k, (train, test) in enumerate(splits):
        missing = np.setdiff1d(classes, y[train][counted[train]])
        if len(missing):
            names = ", ".join(map(str, missing))
            raise ValueError(
                f"cv={cv!r}: the training part of split {k} has no row of class {names}; every class must be "
                "in every training part. Use stratified splits, or fewer of them."
            )
        if not counted[test].any():
            raise ValueError(f"cv={cv!r}: split {k} has no test row of positive weight to score.")
    return splits


@dataclass(frozen=True, eq=False)
class Scoring:
    """A scorer with the metadata that it is given, such as the weights of the rows."""

    scorer: Any
    metadata: dict[str, Any]

    def part(self, indices: np.ndarray, n_samples: int) -> Scoring:
        """With the metadata of some rows only."""
        metadata = {
            name: np.asarray(value)[indices] if np.ndim(value) and len(value) == n_samples else value
            for name, value in self.metadata.items()
        }
        return Scoring(self.scorer, metadata)

    def __call__(self, model: Any, X: Any, y: np.ndarray) -> float:
        return float(self.scorer(model, X, y, **self.metadata))


@dataclass(frozen=True, eq=False)
class Fold:
    """Training and test part of checked data, and how models are scored on the latter."""

    train: GivenData
    test: GivenData
    scoring: Scoring

    @classmethod
    def of(cls, given: GivenData, train: np.ndarray, test: np.ndarray, scoring: Scoring) -> Fold:
        n_samples = len(given.y)
        return cls(given.part(train), given.part(test, train), scoring.part(test, n_samples))


def weight_share(given: GivenData, kept: np.ndarray) -> float:
    """Share of the rows kept, each counted by its weight."""
    weight = np.ones(len(given.y)) if given.weight is None else given.weight
    return float(weight[kept].sum() / weight.sum())


def score_path(
    model: SparseKLR,
    fold: Fold,
    Cs: np.ndarray,
    lams: np.ndarray,
    done: Callable[[], None],
    *,
    check_saturation: bool,
) -> np.ndarray:
    """Measures (n_Cs, n_lams, len(MEASURES)) of the S-KLR models of a path."""
    data = model._training_set(fold.train)
    path = solve_grid(
        data,
        Cs,
        lams,
        model._settings,
        cache_size=model.cache_size,
        n_jobs=model.n_jobs,
        check_saturation=check_saturation,
        done=done,
    )
    start = time.perf_counter()
    outputs = path.outputs(fold.test.X, n_jobs=model.n_jobs)
    shared_time = (time.perf_counter() - start) / lams.size
    measured = np.empty((*lams.shape, len(MEASURES)))
    for cell in np.ndindex(*lams.shape):
        start = time.perf_counter()
        score = fold.scoring(Known(outputs[cell], data.classes), fold.test.X, fold.test.y)
        score_time = shared_time + time.perf_counter() - start
        solutions = path.solutions[cell]
        kept = data.positions[np.unique(np.concatenate([s.support for s in solutions]))]
        fit_time = sum(float(s.history["seconds"][-1]) for s in solutions)
        measured[cell] = score, len(kept), weight_share(fold.train, kept), fit_time, score_time
    return measured


def score_fits(models: Sequence[SparseKLR], fold: Fold, done: Callable[[], None]) -> np.ndarray:
    """Measures (len(models), len(MEASURES)) of estimators, calibration included, which are fitted here."""
    measured = np.empty((len(models), len(MEASURES)))
    for k, model in enumerate(models):
        start = time.perf_counter()
        model._fit_checked(fold.train)
        fit_time = time.perf_counter() - start
        start = time.perf_counter()
        score = fold.scoring(model, fold.test.X, fold.test.y)
        score_time = time.perf_counter() - start
        kept = model.support_
        measured[k] = score, len(kept), weight_share(fold.train, kept), fit_time, score_time
        done()
    return measured


class Known(KernelClassifier):
    """A model known by its outputs for the rows that it is asked for."""

    kernel = "rbf"

    def __init__(self, outputs: np.ndarray, classes: np.ndarray) -> None:
        self.outputs = outputs
        self.classes_ = classes

    def _outputs(self, X: Any) -> np.ndarray:
        return self.outputs
