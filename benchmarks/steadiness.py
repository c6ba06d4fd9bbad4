"""Stability of CompactKLR: largest change in a predicted probability after changes that should not matter.

On the test rows of every set of the arena, a fit is compared with six further fits: with permuted features, with
features changed by a relative 1e-9, with another seed, with permuted rows, and twice without one of the training rows::

    python -m benchmarks.steadiness
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import CompactKLR

from .arena_measure import HALVES, divide, numeric, table
from .common import DATA

NOISE = 1e-9
KINDS = "columns", "noise", "seed", "order", "row"


def changes(name: str, rows: int, data: str) -> tuple[dict[str, float], set[int]]:
    """Return the largest change of a probability for each kind of change, and the numbers of points of all fits."""
    frame, y = table(name, data)
    train, test = divide(y, 0, rows, 0)
    text = [column for column in frame if frame[column].dtype == object]
    pipeline = make_pipeline(numeric(text), StandardScaler()).fit(frame.iloc[train])
    X, X_test = (pipeline.transform(frame.iloc[part]) for part in (train, test))
    y = y[train]
    order = np.random.default_rng(0).permutation(X.shape[1])
    rows_order = np.random.default_rng(2).permutation(len(y))
    noisy = X * (1 + NOISE * np.random.default_rng(1).standard_normal(X.shape))
    fits = [
        ("first", X, y, X_test, 0),
        ("columns", X[:, order], y, X_test[:, order], 0),
        ("noise", noisy, y, X_test, 0),
        ("seed", X, y, X_test, 1),
        ("order", X[rows_order], y[rows_order], X_test, 0),
        ("row", X[1:], y[1:], X_test, 0),
        ("row", X[:-1], y[:-1], X_test, 0),
    ]
    found, sizes = dict.fromkeys(KINDS, 0.0), set()
    for kind, X_fit, y_fit, X_predict, seed in fits:
        model = CompactKLR(random_state=seed).fit(X_fit, y_fit)
        p = model.predict_proba(X_predict)
        sizes.add(model.n_points_)
        if kind == "first":
            first = p
        else:
            found[kind] = max(found[kind], float(np.abs(p - first).max()))
    return found, sizes


def measured(sets: list[str], rows: int, data: str) -> Iterator[dict[str, float]]:
    for name in sets:
        found, sizes = changes(name, rows, data)
        print(
            f"{name:26s}",
            *(f"{kind} {found[kind]:.3f} " for kind in KINDS),
            "points",
            *sorted(sizes),
            flush=True,
        )
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=list(HALVES), default="all")
    parser.add_argument("--sets", nargs="+", help="instead of a half")
    parser.add_argument("--rows", type=int, default=500, help="maximum number of training rows")
    parser.add_argument("--data", default=str(DATA))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    results = list(measured(given.sets or list(HALVES[given.half]), given.rows, given.data))
    for kind in KINDS:
        values = [found[kind] for found in results]
        print(f"{kind:8s} median {np.median(values):.4f}, worst {max(values):.4f}, sets {len(values)}")


if __name__ == "__main__":
    main()
