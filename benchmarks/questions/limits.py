"""Problems that favour other methods, and two that favour kernels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.datasets import make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import CompactKLR, SparseKLR

from .rows import best_in_bold

NOTE = (
    "The table shows log-losses on 5,000 new rows of generated data. The fit times, in seconds, "
    "are in brackets, and the lowest log-loss of each row is in bold."
)
MODELS = {
    "`SparseKLR()`": SparseKLR(),
    "`CompactKLR()`": CompactKLR(),
    "`HistGradientBoosting`": HistGradientBoostingClassifier(random_state=0),
    "`LogisticRegressionCV`": LogisticRegressionCV(scoring="neg_log_loss", max_iter=1000),
}
COLUMNS = ["problem", *MODELS]
Maker = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def drawn(X: np.ndarray, logit: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return X, (rng.random(len(X)) < expit(logit)).astype(int)


def linear(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return data whose log-odds are a linear function of 200 features."""
    X = rng.normal(size=(n, 200))
    return drawn(X, X @ np.random.default_rng(1).normal(size=200) / 5, rng)


def steps(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return data whose classes depend on thresholds of three features and their interactions, and 17 noise features."""
    X = rng.uniform(size=(n, 20))
    cells = (X[:, :3] > [0.3, 0.5, 0.8]) @ [1, 2, 4]
    return drawn(X, np.array([2, -2, -2, 2, 3, -3, -1, 1])[cells], rng)


def rare_codes(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return data with a column of 300 codes, whose order has no meaning, and two features with smooth effects."""
    X = np.column_stack([rng.integers(0, 300, n), rng.normal(size=(n, 2))])
    worth = np.random.default_rng(2).normal(size=300) * 2
    return drawn(X, worth[X[:, 0].astype(int)] + X[:, 1], rng)


def moons(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return data from the two moons of scikit-learn."""
    return make_moons(n, noise=0.3, random_state=int(rng.integers(1000)))


def ridge_wave(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return data whose log-odds are a smooth function of two linear combinations of ten features."""
    X = rng.normal(size=(n, 10))
    return drawn(X, 3 * np.sin(X[:, :5].sum(axis=1) / 1.5) + X[:, 5:].sum(axis=1) / 2, rng)


PROBLEMS: dict[str, tuple[Maker, int]] = {
    "linear rule, 200 features, 1000 rows": (linear, 1000),
    "steps in 3 of 20 features, 2000 rows": (steps, 2000),
    "300 codes as a number, 4000 rows": (rare_codes, 4000),
    "two moons, 500 rows": (moons, 500),
    "smooth in two directions of 10, 2000 rows": (ridge_wave, 2000),
}


def measure() -> list[list[Any]]:
    warnings.simplefilter("ignore")
    rows = []
    for title, (make, n) in PROBLEMS.items():
        rng = np.random.default_rng(0)
        (X, y), (new, truth) = make(rng, n), make(rng, 5000)
        losses, seconds = [], []
        for model in MODELS.values():
            pipeline = make_pipeline(StandardScaler(), model)
            start = time.perf_counter()
            pipeline.fit(X, y)
            seconds.append(time.perf_counter() - start)
            losses.append(float(log_loss(truth, pipeline.predict_proba(new))))
        rows.append(
            [title, *(f"{loss} ({s:.1f})" for loss, s in zip(best_in_bold(losses), seconds, strict=True))]
        )
    return rows
