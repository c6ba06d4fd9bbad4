"""Training and test rows for all questions: parts of the benchmark sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit

from paper.datasets import load_benchmark

from ..common import DATA

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def splits(name: str, *, n_train: int = 500, repeats: int = 1) -> Iterator[Split]:
    """Yield training rows with labels and test rows with labels; features are not scaled."""
    data = load_benchmark(name, data_home=DATA)
    X, y = data.data, data.target
    size = min(n_train, int(0.7 * len(y)))
    draws = StratifiedShuffleSplit(
        repeats, train_size=size, test_size=min(4000, len(y) - size), random_state=0
    )
    for train, test in draws.split(X, y):
        yield X[train], y[train], X[test], y[test]


def test_loss(model: Any, split: Split) -> float:
    """Return the log-loss on the test rows of a model that is fitted to the training rows."""
    X, y, new, truth = split
    return float(log_loss(truth, model.fit(X, y).predict_proba(new)))


def best_in_bold(values: list[float]) -> list[str]:
    """Return losses as text, with the lowest in bold."""
    return [f"**{value:.4f}**" if value == min(values) else f"{value:.4f}" for value in values]
