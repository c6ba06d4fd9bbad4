"""Effect of threads, precision and random seeds on predicted probabilities."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from sparseklr import CompactKLR, SparseKLR

from .rows import splits

NOTE = (
    "Each row shows the largest change of a test probability, with the mean change in brackets. "
    "Changes are relative to the model with default parameters, fitted on one thread. Features are "
    "standardised. The models were fitted to 1,000 rows of waveform and 2,500 rows of spambase."
)
COLUMNS = ["change", "`SparseKLR`, waveform", "`SparseKLR`, spambase", "`CompactKLR`, waveform"]


def changes(make: Any, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> dict[str, np.ndarray]:
    """Return the change of each probability, by the name of what was changed."""
    base = make().fit(X, y).predict_proba(new)
    order = np.random.default_rng(0).permutation(len(y))
    twice = np.repeat(np.arange(len(y)), 2)
    variants = {
        "four threads": make(n_jobs=4).fit(X, y).predict_proba(new),
        "rows in another order": make().fit(X[order], y[order]).predict_proba(new),
        "every row twice": make().fit(X[twice], y[twice]).predict_proba(new),
        "float32 features": make().fit(X.astype(np.float32), y).predict_proba(new.astype(np.float32)),
        "`random_state=1`": make(random_state=1).fit(X, y).predict_proba(new),
        "`tol` ten times smaller": make(tol=make().tol / 10).fit(X, y).predict_proba(new),
    }
    return {title: np.abs(p - base).ravel() for title, p in variants.items()}


def measure() -> list[list[Any]]:
    warnings.simplefilter("ignore")
    found = []
    for make, name, n_train in ((SparseKLR, "waveform", 1000), (SparseKLR, "spambase", 2500), (CompactKLR, "waveform", 1000)):  # fmt: skip
        X, y, new, _ = next(splits(name, n_train=n_train))
        scaler = StandardScaler().fit(X)
        found.append(changes(make, scaler.transform(X), y, scaler.transform(new)))
    return [[title, *(moved(part[title]) for part in found)] for title in found[0]]


def moved(change: np.ndarray) -> str:
    return f"{change.max():.1g} ({change.mean():.1g})" if change.any() else "0"
