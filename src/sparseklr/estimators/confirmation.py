"""Validation of a searched kernel on folds, before it replaces the default.

Leave-one-out chooses among kernels, and what it prefers it may flatter: the loss of the best of several is
too low, and the approximation is too optimistic for some kernels more than for others. The winner of a search
is therefore compared with the kernel that the search started from, by models that are fitted to the rest of
the rows. It replaces that kernel only if its validation loss is lower, and this is the loss to report.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..compact.rows import Observations, held_out_folds
from ..data import DistinctPoints, TrainingSet
from ..probability.width import LEAST_OF_CLASS, MOST_POINTS
from .training import GivenData

if TYPE_CHECKING:
    from .sparse_klr import SparseKLR


def validation_losses(
    models: Sequence[SparseKLR], given: GivenData, rows: TrainingSet, copies: bool
) -> np.ndarray | None:
    """Mean log-loss of each of some unfitted models on validation folds; None where folds are impossible.

    Folds consist of observations, as in CompactKLR; equal rows stay together if they are copies. Of many
    distinct rows 1500 represent all. ``rows`` are the given ones of positive weight with their classes.
    """
    sample_weight = np.ones(len(rows.codes)) if given.weight is None else given.weight[rows.positions]
    unweighted = TrainingSet(
        rows.X,
        rows.codes,
        rows.classes,
        sample_weight,
        rows.positions,
        rows.n_samples,
        rows.kernel,
        rows.count,
    )
    points = DistinctPoints.of(unweighted)
    some = _some(points.weight)
    point, codes = np.nonzero(points.weight[some])
    X, weight = points.X[some][point], points.weight[some][point, codes]
    count = np.ones(len(codes)) if points.count is None else points.count[some][point, codes]
    by_class = np.bincount(rows.codes, rows.weight) / np.bincount(rows.codes, sample_weight)
    observations = Observations(count.astype(np.int64), point, copies)
    totals, total = np.zeros(len(models)), 0.0
    for held_out in held_out_folds(codes, len(rows.classes), observations):
        fraction = held_out / count
        train, test = fraction < 1, fraction > 0
        part = GivenData(X[train], codes[train], (weight * (1 - fraction))[train], precomputed=False)
        counted = (weight * fraction * by_class[codes])[test]
        total += counted.sum()
        for k, model in enumerate(models):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit to all rows warns
                probability = model._fit_checked(part).predict_proba(X[test])
            right = probability[np.arange(len(counted)), codes[test]]
            totals[k] -= counted @ np.log(np.maximum(right, np.finfo(float).tiny))
    return totals / total if total else None


def _some(weight: np.ndarray) -> np.ndarray:
    """Points that represent all: the first, and the first of each class. They are in random order."""
    first = [np.arange(min(len(weight), MOST_POINTS))]
    first += [np.flatnonzero(of_class)[:LEAST_OF_CLASS] for of_class in weight.T]
    return np.unique(np.concatenate(first))
