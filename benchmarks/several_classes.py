"""SparseKLR with more than two classes: points, log-loss, accuracy of the estimated loss, and time.

A run writes one row of a CSV file per set, split and model. To measure a change, run it before and after with two
files, add CompactKLR, and compare them set by set::

    python -m benchmarks.several_classes run before.csv
    python -m benchmarks.several_classes run after.csv
    python -m benchmarks.several_classes run compact.csv --model CompactKLR
    python -m benchmarks.several_classes compare before.csv after.csv
    python -m benchmarks.several_classes time        # 26 classes, 3000 rows, against a calibrated SVC

The sets are those of ``data/arena`` with several classes, digits of scikit-learn, and two samples of 20
classes: one of 4000 rows, and one of 250 rows, on which estimates of the loss are easily too optimistic.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from sparseklr import SparseKLR

from .arena_measure import divide, evaluate, maker, table
from .common import DATA

ARENA = ["vehicle", "vowel", "segment", "led7digit", "splice", "wine", "iris", "tae", "contraceptive"]
SETS = [*ARENA, "digits", "20 classes", "20 classes, few rows"]
COLUMNS = (
    "set",
    "split",
    "model",
    "points",
    "log_loss",
    "accuracy",
    "estimate",
    "train_log_loss",
    "cpu_seconds",
)


def blobs(n_rows: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes in 20 features."""
    return make_classification(
        n_rows,
        n_classes=n_classes,
        n_features=20,
        n_informative=10,
        n_clusters_per_class=1,
        random_state=seed,
    )


def several(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Features and classes of a set."""
    if name in ARENA:
        return table(name, str(DATA))
    X, y = load_digits(return_X_y=True) if name == "digits" else blobs(9000, 20)
    return pd.DataFrame(X), y


def training_rows(name: str) -> int:
    return {"20 classes": 4000, "20 classes, few rows": 250}.get(name, 1500)


def measure(name: str, split: int, model: str) -> dict[str, object]:
    """Results of one fit, with one thread."""
    X, y = several(name)
    train, test = divide(y, split, training_rows(name), seed=0)
    made = maker(model)([column for column in X if X[column].dtype == object], split)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        cpu = time.process_time()
        made.fit(X.iloc[train], y[train])
        cpu = time.process_time() - cpu
        found = evaluate(made, X, y, train, test, int(y.max()) + 1)
    row = {"set": name, "split": split, "model": model, "cpu_seconds": cpu, **found}
    return {column: row[column] for column in COLUMNS}


def run(path: Path, model: str, sets: list[str], splits: int) -> None:
    rows = []
    for name in sets:
        for split in range(splits):
            rows.append(measure(name, split, model))
            print(*(f"{v:.4g}" if isinstance(v, float) else v for v in rows[-1].values()), flush=True)
            pd.DataFrame(rows).to_csv(path, index=False)


def compare(before: Path, after: Path) -> None:
    """Means of each set over the splits, and ratios after / before with their geometric mean."""
    numbers = ["points", "log_loss", "estimate", "cpu_seconds"]
    a, b = (pd.read_csv(path).groupby("set", sort=False)[numbers].mean() for path in (before, after))
    both = a.index.intersection(b.index, sort=False)
    a, b = a.loc[both], b.loc[both]
    ratio = b / a
    shown = pd.concat([a, b, ratio.drop(columns="estimate")], axis=1, keys=["before", "after", "ratio"])
    print(shown.round(4).to_string())
    for column in ratio.drop(columns="estimate"):
        geometric = np.exp(np.log(ratio[column]).mean())
        print(
            f"{column}: geometric mean {geometric:.3f}, largest {ratio[column].max():.3f} ({ratio[column].idxmax()})"
        )


def compare_times(repeats: int = 3) -> None:
    """CPU time of SparseKLR and of a calibrated SVC, alternating, on 3000 rows with 26 classes."""
    X, y = blobs(3000, 26)
    X = StandardScaler().fit_transform(X)
    models = {"SparseKLR": SparseKLR(), "SVC": CalibratedClassifierCV(SVC(), ensemble=False)}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    with threadpool_limits(1):
        for _ in range(repeats):
            for name, model in models.items():
                cpu = time.process_time()
                model.fit(X, y)
                seconds[name].append(time.process_time() - cpu)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    print(medians, f"ratio {medians['SparseKLR'] / medians['SVC']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.several_classes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="measure a model")
    one.add_argument("file", type=Path)
    one.add_argument("--model", default="SparseKLR", help="name of the arena, or an expression")
    one.add_argument("--sets", nargs="+", default=SETS)
    one.add_argument("--splits", type=int, default=3)
    two = commands.add_parser("compare", help="compare two files")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    commands.add_parser("time", help="time against a calibrated SVC")
    given = parser.parse_args()
    if given.command == "run":
        run(given.file, given.model, given.sets, given.splits)
    elif given.command == "compare":
        compare(given.before, given.after)
    else:
        compare_times()


if __name__ == "__main__":
    main()
