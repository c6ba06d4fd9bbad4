"""Fit times of the baselines of the paper: the Import Vector Machine and HalfKLR.

The Import Vector Machine is fitted to magic with 200 points, and HalfKLR to ring, each on the training rows of one
of five folds. ``python -m paper --methods IVM l1/2-KLR`` measures their accuracy under the protocol of the paper.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from sparseklr.baselines import HalfKLR, ImportVectorMachine

from .common import load, show


def folds(name: str) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    X, y = load(name)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        yield X[train], y[train], X[test], y[test]


def speed(repeats: int, threads: int) -> None:
    """Print the times of the two fits with a time limit, and the times of HalfKLR with other values of C."""
    rows = []
    fits: list[tuple[str, str, str, Any]] = [
        (
            "IVM, 200 points",
            "magic",
            "60 / 15",
            ImportVectorMachine(100, gamma=0.5, epsilon=0, max_points=200),
        )
    ]
    fits += [(f"HalfKLR, C={C:g}", "ring", "60 / 10", HalfKLR(C, gamma=0.5)) for C in (1, 10, 100)]
    published = HalfKLR(1, gamma=0.5, algorithm="published")
    fits.append(("HalfKLR, C=1, as published, 1000 iterations", "ring", "", published))
    for title, name, bar, model in fits:
        X, y, X_test, y_test = next(folds(name))
        model.set_params(n_jobs=threads)
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", ConvergenceWarning
                )  # maximum number of iterations of the published algorithm
                model.fit(X, y)
            seconds.append(time.perf_counter() - start)
        objective = float(np.concatenate([np.ravel(path) for path in model.objective_path_])[-1])
        accuracy = float(model.score(X_test, y_test))
        kept, set_ = len(model.support_), f"{name} ({len(y)} rows)"
        rows.append([title, set_, float(np.median(seconds)), max(seconds), bar, kept, objective, accuracy])
    columns = ["fit", "set", "median s", "largest s", "bar / goal s", "points", "objective", "test accuracy"]
    show(f"Speed, {threads} threads, {repeats} runs", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="number of runs of each fit")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    with threadpool_limits(arguments.threads):
        speed(arguments.repeats, arguments.threads)


if __name__ == "__main__":
    main()
