"""One fold of a cross-validation: every (C, lam) of a grid fitted on one part and scored on the other."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import _safe_split

from ..dual.path import solve_grid
from .base import KernelClassifier
from .sparse_klr import SparseKLR

# What is recorded of a candidate in a fold.
RECORD = ("test_score", "n_support", "support_share", "fit_time", "score_time")


@dataclass(frozen=True, eq=False)
class Fold:
    """Training and test part; ``weight`` is None or one number per row of X."""

    estimator: SparseKLR
    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    train: np.ndarray
    test: np.ndarray

    def part(self, rows: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """X, y and weights of some rows; kernel values against the training rows if precomputed."""
        X, y = _safe_split(self.estimator, self.X, self.y, rows, self.train)
        return X, y, None if self.weight is None else self.weight[rows]

    def share(self, kept: np.ndarray) -> float:
        """Share of the training rows kept, each counted by its weight."""
        weight = np.ones(len(self.train)) if self.weight is None else self.weight[self.train]
        return float(weight[kept].sum() / weight.sum())


def asks_for_labels_or_values(scorer: Any) -> bool:
    """Whether a scorer looks at predictions or decision values only, not at probabilities or the model."""
    method = getattr(scorer, "_response_method", None)
    return (method[0] if isinstance(method, tuple) else method) in ("predict", "decision_function")


def score_path(
    model: SparseKLR,
    fold: Fold,
    Cs: np.ndarray,
    lams: np.ndarray,
    scorer: Any,
    done: Callable[[], None],
    *,
    warn: bool,
) -> np.ndarray:
    """Records (n_Cs, n_lams, len(RECORD)) of the S-KLR models of a path."""
    X, y, weight = fold.part(fold.train)
    data = clone(model)._check_training(X, y, weight)
    path = solve_grid(
        data,
        Cs,
        lams,
        model._settings,
        cache_size=model.cache_size,
        n_jobs=model.n_jobs,
        warn=warn,
        done=done,
    )
    X, y, weight = fold.part(fold.test)
    start = time.perf_counter()
    outputs = path.decision_function(X, n_jobs=model.n_jobs)
    shared_time = (time.perf_counter() - start) / lams.size
    records = np.empty((*lams.shape, len(RECORD)))
    for cell in np.ndindex(*lams.shape):
        start = time.perf_counter()
        value = score(scorer, _Known(outputs[cell], data.classes), X, y, weight)
        score_time = shared_time + time.perf_counter() - start
        solutions = path.solutions[cell]
        kept = data.rows[np.unique(np.concatenate([s.support for s in solutions]))]
        fit_time = sum(float(s.history["seconds"][-1]) for s in solutions)
        records[cell] = value, len(kept), fold.share(kept), fit_time, score_time
    return records


def score_fits(
    model: SparseKLR,
    fold: Fold,
    Cs: np.ndarray,
    lams: np.ndarray,
    scorer: Any,
    done: Callable[[], None],
    *,
    warn: bool,
) -> np.ndarray:
    """The same of estimators fitted one by one, calibration included."""
    X, y, weight = fold.part(fold.train)
    test = fold.part(fold.test)
    records = np.empty((*lams.shape, len(RECORD)))
    for cell in np.ndindex(*lams.shape):
        start = time.perf_counter()
        fitted = clone(model).set_params(C=float(Cs[cell[0]]), lam=float(lams[cell]))
        fitted.fit(X, y, sample_weight=weight)
        fit_time = time.perf_counter() - start
        start = time.perf_counter()
        value = score(scorer, fitted, *test)
        score_time = time.perf_counter() - start
        records[cell] = value, len(fitted.support_), fold.share(fitted.support_), fit_time, score_time
        done()
    return records


class _Known(KernelClassifier):
    """A model known by its outputs for the rows that it is asked for."""

    kernel = "rbf"

    def __init__(self, outputs: np.ndarray, classes: np.ndarray) -> None:
        self.outputs = outputs
        self.classes_ = classes

    def _outputs(self, X: Any) -> np.ndarray:
        return self.outputs


def score(scorer: Any, model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None) -> float:
    """The score, weighted if there are weights and the scorer can."""
    target = getattr(scorer, "_score_func", scorer)
    if weight is None or "sample_weight" not in inspect.signature(target).parameters:
        return float(scorer(model, X, y))
    return float(scorer(model, X, y, sample_weight=weight))
