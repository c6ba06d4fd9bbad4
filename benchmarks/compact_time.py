"""Fit time of CompactKLR on one thread: with many classes, with many features, and with many rows.

With many classes, the time is compared with CatBoost. The fits of the two models alternate in one process, and the
smallest CPU time of each is reported, so that other processes hardly affect the ratio::

    python -m benchmarks.compact_time classes wide rows --runs 2
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_classification
from threadpoolctl import threadpool_limits

from sparseklr import CompactKLR
from sparseklr.datasets import make_waveform

from .arena_measure import catboost, divide, table
from .common import DATA, show

Data = tuple[np.ndarray, np.ndarray]
LARGEST_RATIO = 1.0  # largest acceptable ratio to the time of CatBoost
LARGEST_WIDE = 3.0  # seconds
LARGEST_EXPONENT = 1.05  # largest acceptable exponent with which the time grows with the number of rows


def from_arena(name: str) -> Data:
    """Return at most 1500 training rows of a numeric set of the arena."""
    frame, y = table(name, str(DATA))
    train, _ = divide(y, 0, 1500, 0)
    return frame.to_numpy(dtype=float)[train], y[train]


def clusters(n_classes: int, n_rows: int) -> Data:
    """Return a sample with one normal cluster for each class in 16 dimensions."""
    X, y = make_classification(
        n_rows,
        16,
        n_informative=12,
        n_redundant=0,
        n_classes=n_classes,
        n_clusters_per_class=1,
        class_sep=2.0,
        random_state=0,
    )
    return X, y


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return X[:1500], y[:1500]


def wide_rows() -> Data:
    X = np.random.default_rng(0).normal(size=(100, 10_000))
    return X, (X[:, :5].sum(axis=1) > 0).astype(int)


CLASSES: dict[str, Callable[[], Data]] = {
    "digits, 1500 rows": digits,
    "vowel": lambda: from_arena("vowel"),
    "segment": lambda: from_arena("segment"),
    "20 classes, 3000 rows": lambda: clusters(20, 3000),
    "26 classes, 1500 rows": lambda: clusters(26, 1500),
}
ROWS = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)


def seconds(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the CPU seconds of a fit."""
    began = time.process_time()
    model.fit(X, y)
    return time.process_time() - began


def classes(runs: int) -> None:
    """Print the times with many classes, and the ratios to CatBoost."""
    found = []
    for name, make in CLASSES.items():
        X, y = make()
        pairs = [(seconds(CompactKLR(), X, y), seconds(catboost([], 0), X, y)) for _ in range(runs)]
        ours, theirs = np.min(pairs, axis=0)
        found.append([name, float(ours), float(theirs), float(ours / theirs)])
        print(*found[-1], flush=True)
    show(
        f"Many classes: CPU seconds (bar for the ratio: {LARGEST_RATIO})",
        ["set", "CompactKLR", "CatBoost", "ratio"],
        found,
    )


def wide(runs: int) -> None:
    """Print the time with more features than rows."""
    X, y = wide_rows()
    least = min(seconds(CompactKLR(), X, y) for _ in range(runs))
    show(
        f"Wide rows: CPU seconds (bar: {LARGEST_WIDE})",
        ["set", "CompactKLR"],
        [["100 rows of 10,000 features", least]],
    )


def rows(runs: int) -> None:
    """Print the times for growing samples from the same distribution."""
    X, y = make_waveform(max(ROWS), random_state=0)
    found: list[list[Any]] = []
    for n in ROWS:
        models = [CompactKLR() for _ in range(runs)]
        least = min(seconds(model, X[:n], y[:n]) for model in models)
        exponent = np.log(least / found[-1][2]) / np.log(n / found[-1][0]) if found else np.nan
        found.append([n, models[0].n_points_, least, float(exponent)])
        print(*found[-1], flush=True)
    show(
        f"Rows of waveform (bar: exponents from 0 to {LARGEST_EXPONENT})",
        ["rows", "points", "CPU seconds", "exponent"],
        found,
    )


PARTS: dict[str, Callable[[int], None]] = {"classes": classes, "wide": wide, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    parser.add_argument(
        "--runs", type=int, default=2, help="number of fits of each model; the fastest is reported"
    )
    given = parser.parse_args()
    with threadpool_limits(1):
        for part in given.parts:
            PARTS[part](given.runs)


if __name__ == "__main__":
    main()
