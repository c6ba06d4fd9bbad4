"""Agreement between a model's own estimate of its log-loss and its log-loss on new rows.

The script fits ``SparseKLR()`` and ``CompactKLR()`` to 100, 300, 1,000 and 5,000 training rows. It compares
``loo_log_loss_`` and ``validation_log_loss_`` with the log-loss on other rows. The data are

- *tables*: the 43 tables of ``benchmarks.arena``, if they have enough rows;
- *discrete*: three features with three values each, so that most rows are equal to others;
- *factorial*: all combinations of three features with six values each; the classes depend on all three;
- *xor*: the class is the sign of the product of three features, with 10% wrong labels;
- *rare*: two normal distributions; the positive class has 1% of the rows.

For every kind of data and number of rows, the script prints the mean of log(estimate / test loss), its standard error
over tables or samples, and the fraction of fits for which the absolute value is below 0.3. The sampling error of the
training and the test rows contributes to both. Fits with a test loss below 0.001 are omitted.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

from sparseklr import CompactKLR, SparseKLR

from .arena_measure import HALVES, TEST_ROWS, log_loss, measure, own_estimate
from .common import DATA, show

SIZES = (100, 300, 1000, 5000)
LEAST_LOSS = 1e-3
MODELS = {"SparseKLR": SparseKLR, "CompactKLR": CompactKLR}


def discrete(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.integers(0, 3, (n, 3)).astype(float)
    return X, (rng.random(n) < expit(1.5 * (X[:, 0] - 1) + (X[:, 1] == 1) - 0.5)).astype(int)


def factorial(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = np.array(np.meshgrid(*[np.arange(6.0)] * 3)).reshape(3, -1).T[rng.permutation(n) % 216]
    return X, (rng.random(n) < expit(2 * np.sin(X.sum(axis=1)))).astype(int)


def xor(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(-1, 1, (n, 3))
    return X, (X.prod(axis=1) > 0).astype(int) ^ (rng.random(n) < 0.1)


def rare(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y = (rng.permutation(n) < 0.01 * n).astype(int)
    return rng.normal(size=(n, 5)) + 1.5 * y[:, None], y


GENERATORS = {"discrete": discrete, "factorial": factorial, "xor": xor, "rare": rare}


def on_tables(model: str, n: int, splits: int) -> Iterator[tuple[str, float, float]]:
    """Yield the name, the estimate and the test loss for every fit to a table of the arena."""
    for name in HALVES["all"]:
        for split in range(splits):
            row = measure((name, split, model, 0, n), model, str(DATA))
            if row["n_train"] == n and not row["error"]:
                yield name, float(row["estimate"]), float(row["log_loss"])


def on_samples(model: str, kind: str, n: int, draws: int) -> Iterator[tuple[str, float, float]]:
    """Yield the seed, the estimate and the test loss for every fit to a generated sample."""
    for seed in range(draws):
        rng = np.random.default_rng([seed, n])
        X, y = GENERATORS[kind](n, rng)
        if np.bincount(y).min() < 2:
            continue
        fitted = MODELS[model]().fit(X, y)
        X, y = GENERATORS[kind](10 * TEST_ROWS, rng)
        yield str(seed), own_estimate(fitted) or np.nan, log_loss(y, fitted.predict_proba(X))


def summary(fits: list[tuple[str, float, float]]) -> list[float | int]:
    """Return the number of fits, the mean of log(estimate / test loss), its error, and the fraction within 0.3."""
    fits = [(name, estimate, loss) for name, estimate, loss in fits if loss > LEAST_LOSS]
    logs: dict[str, list[float]] = {}
    for name, estimate, loss in fits:
        logs.setdefault(name, []).append(float(np.log(estimate / loss)))
    means, all_logs = [np.mean(values) for values in logs.values()], np.concatenate([*logs.values()])
    error = np.std(means, ddof=1) / np.sqrt(len(means))
    return [len(fits), float(np.mean(means)), float(error), float(np.mean(np.abs(all_logs) < 0.3))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument(
        "--kinds", nargs="*", default=["tables", *GENERATORS], choices=["tables", *GENERATORS]
    )
    parser.add_argument("--splits", type=int, default=2, help="random splits of every table")
    parser.add_argument("--draws", type=int, default=20, help="generated samples")
    given = parser.parse_args()
    rows = []
    for model in given.models:
        for kind in given.kinds:
            for n in SIZES:
                with threadpool_limits(1), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = on_tables(model, n, given.splits) if kind == "tables" else on_samples(model, kind, n, given.draws)  # fmt: skip
                    if fits := list(found):
                        rows.append([model, kind, n, *summary(fits)])
                        print(*rows[-1], flush=True)
    show("estimates", ["model", "data", "rows", "fits", "mean", "error", "within 0.3"], rows)


if __name__ == "__main__":
    main()
