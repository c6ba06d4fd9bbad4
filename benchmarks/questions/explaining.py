"""Importance of ten added noise features in CompactKLR."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sparseklr import CompactKLR

from .rows import splits, test_loss

SETS = ("diabetes", "wisconsin", "banknote")
NOTE = (
    "Ten noise features were added to each data set (at most 500 training rows). *Importance of "
    "the noise* is the fraction of the sum of `feature_importances_` that belongs to the noise "
    "features. The next two columns show how many real features and noise features "
    '`relevance="sparse"` keeps. The log-losses on new rows are those of `CompactKLR()`, of '
    '`CompactKLR(relevance="sparse")`, and of `CompactKLR()` fitted without the noise features.'
)
COLUMNS = [
    "data set",
    "importance of the noise",
    "real features kept",
    "noise features kept",
    "log-loss",
    'log-loss, `relevance="sparse"`',
    "log-loss without the noise",
]


def measure() -> list[list[Any]]:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    rows = []
    for name in SETS:
        X, y, new, truth = next(splits(name))
        p = X.shape[1]
        noisy = (
            np.hstack([X, rng.normal(size=(len(X), 10))]),
            y,
            np.hstack([new, rng.normal(size=(len(new), 10))]),
            truth,
        )
        plain, sparse = CompactKLR(), CompactKLR(relevance="sparse")
        losses = [
            test_loss(plain, noisy),
            test_loss(sparse, noisy),
            test_loss(CompactKLR(), (X, y, new, truth)),
        ]
        kept = sparse.get_support()
        rows.append(
            [
                name,
                f"{plain.feature_importances_[p:].sum():.1%}",
                f"{kept[:p].sum()} of {p}",
                f"{kept[p:].sum()} of 10",
                *losses,
            ]
        )
    return rows
