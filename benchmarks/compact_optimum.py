"""Variation of the losses of CompactKLR between fits that should agree.

Every set is fitted unchanged, with features changed by a relative 1e-9, and with other folds (``random_state``). The
data of these fits are practically the same, but they may find different minima of the non-convex objective and choose
different sizes and C. Two ratios are reported. The ratio of training loss to validation loss should not exceed 1.05,
and the ratio of test loss to the smallest test loss of these fits should not exceed 1.15::

    python -m benchmarks.compact_optimum
    python -m benchmarks.compact_optimum --sets 2 --rows 150 300
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import log_loss

from sparseklr import CompactKLR

MOST_TRAINING, MOST_TEST = 1.05, 1.15
Data = tuple[np.ndarray, np.ndarray]


def spirals(n: int, seed: int) -> Data:
    rng = np.random.default_rng(seed)
    angle, label = 9 * np.sqrt(rng.random(n)), rng.integers(0, 2, n)
    turned = angle + np.pi * label
    arms = angle[:, None] * np.column_stack([np.cos(turned), np.sin(turned)])
    return arms + 0.5 * rng.normal(size=(n, 2)), label


def blobs(n: int, seed: int) -> Data:
    centres = 3 * np.random.default_rng(7).normal(size=(12, 2))
    rng = np.random.default_rng(seed)
    blob = rng.integers(0, 12, n)
    return centres[blob] + 0.5 * rng.normal(size=(n, 2)), blob % 2


KINDS: dict[str, Callable[[int, int], Data]] = {
    "moons .3": lambda n, seed: make_moons(n, noise=0.3, random_state=seed),
    "moons .2": lambda n, seed: make_moons(n, noise=0.2, random_state=seed),
    "circles": lambda n, seed: make_circles(n, noise=0.15, factor=0.5, random_state=seed),
    "spirals": spirals,
    "12 blobs": blobs,
}


def siblings(X: np.ndarray, n_siblings: int) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the features and seed of each fit: the original ones first, then perturbed features or another seed."""
    yield X, 0
    for turn in range(1, n_siblings):
        noise = 1e-9 * np.random.default_rng(turn).normal(size=X.shape)
        yield (X * (1 + noise), 0) if turn % 2 else (X, turn)


def measured(kind: str, n: int, seed: int, n_siblings: int) -> np.ndarray:
    """Return the number of points, the validation, training and test loss, and the seconds of each fit."""
    X, y = KINDS[kind](n, seed)
    new, labels = KINDS[kind](5000, 1000 + seed)
    found = []
    for changed, state in siblings(X, n_siblings):
        began = time.perf_counter()
        model = CompactKLR(random_state=state).fit(changed, y)
        seconds = time.perf_counter() - began
        training, test = log_loss(y, model.predict_proba(changed)), log_loss(labels, model.predict_proba(new))
        found.append((model.n_points_, model.validation_log_loss_, training, test, seconds))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sets", type=int, default=8, help="number of sets of each kind and size (default: 8)"
    )
    parser.add_argument("--siblings", type=int, default=3, help="number of fits of each set (default: 3)")
    parser.add_argument("--rows", type=int, nargs="+", default=[150, 300, 1000])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| kind | rows | points | validation | training | test | seconds | worst training/validation | worst "
          "test/sibling | above 1.05 | above 1.15 |")  # fmt: skip
    print("|" + "---|" * 11)
    every, high = [], np.zeros(2, dtype=int)
    for kind in KINDS:
        for n in given.rows:
            sets = np.array([measured(kind, n, seed, given.siblings) for seed in range(given.sets)])
            ratios = sets[..., 2] / sets[..., 1], sets[..., 3] / sets[..., 3].min(axis=1, keepdims=True)
            above = [
                int((r > most).sum()) for r, most in zip(ratios, (MOST_TRAINING, MOST_TEST), strict=True)
            ]
            points, *losses, seconds = sets.mean(axis=(0, 1))
            print(f"| {kind} | {n} | {points:.0f} | " + " | ".join(f"{loss:.4f}" for loss in losses)
                  + f" | {seconds:.2f} | {ratios[0].max():.2f} | {ratios[1].max():.2f} | {above[0]} | {above[1]} |",
                  flush=True)  # fmt: skip
            every.append(sets)
            high += above
    table = np.array(every)
    print(f"{table[..., 0].size} fits, mean test log-loss {table[..., 3].mean():.4f}, {high[0]} with a training loss "
          f"above {MOST_TRAINING} of the validation loss, {high[1]} with a test loss above {MOST_TEST} of the best "
          "sibling")  # fmt: skip


if __name__ == "__main__":
    main()
