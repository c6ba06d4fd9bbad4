"""SparseKLR with more than two classes: number of points, log-loss, error of the estimated loss, and time.

``bars`` measures SparseKLR, one-vs-rest models of SparseKLR, CompactKLR, the two dual problems of SKLR, and
the time with 26 classes, and prints which limits are met::

    python -m benchmarks.several_classes bars results.csv

A run writes one row of a CSV file per set, split and model; rows that the file contains are not measured again. To
measure the effect of a change, run the benchmark before and after the change with two files, and compare the files::

    python -m benchmarks.several_classes run before.csv
    python -m benchmarks.several_classes run after.csv
    python -m benchmarks.several_classes compare before.csv after.csv
    python -m benchmarks.several_classes time        # 26 classes, 3000 rows, against a calibrated SVC

The sets are those of ``data/arena`` with more than two classes, the digits of scikit-learn, Breiman's waveforms, and two
samples with 20 classes. One sample has 4000 rows. The other has 250 rows, on which estimates of the loss are easily too
optimistic; ``bars`` omits it.
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
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from sparseklr import SparseKLR

from . import softmax_dual
from .arena_measure import divide, evaluate, maker, scaled, table
from .common import DATA

ARENA = list(softmax_dual.ARENA)
SHOWN = [*ARENA, "digits", "waveform", "20 classes"]
SETS = [*SHOWN, "20 classes, few rows"]
ONE_VS_REST = "one-vs-rest"
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


class OneVsRest(OneVsRestClassifier):
    """One-vs-rest classifier, with one model per class; its points are the union of the points of all models."""

    @property
    def support_(self) -> np.ndarray:
        return np.unique(np.concatenate([one.support_ for one in self.estimators_]))


def blobs(n_rows: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a sample of overlapping classes with 20 features."""
    return make_classification(
        n_rows,
        n_classes=n_classes,
        n_features=20,
        n_informative=10,
        n_clusters_per_class=1,
        random_state=seed,
    )


def several(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the features and classes of a set."""
    if name in ARENA:
        return table(name, str(DATA))
    if name == "waveform":
        X, y = softmax_dual.waveform(6500)
    else:
        X, y = load_digits(return_X_y=True) if name == "digits" else blobs(9000, 20)
    return pd.DataFrame(X), y


def training_rows(name: str) -> int:
    return {"20 classes": 4000, "20 classes, few rows": 250}.get(name, 1500)


def measure(name: str, split: int, model: str) -> dict[str, object]:
    """Return the results of one fit with one thread."""
    X, y = several(name)
    train, test = divide(y, split, training_rows(name), seed=0)
    make = scaled(OneVsRest(SparseKLR())) if model == ONE_VS_REST else maker(model)
    made = make([column for column in X if X[column].dtype == object], split)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        cpu = time.process_time()
        made.fit(X.iloc[train], y[train])
        cpu = time.process_time() - cpu
        found = evaluate(made, X, y, train, test, int(y.max()) + 1)
    row = {"set": name, "split": split, "model": model, "cpu_seconds": cpu, **found}
    return {column: row[column] for column in COLUMNS}


def run(path: Path, model: str, sets: list[str], splits: int) -> pd.DataFrame:
    """Measure the rows that are missing in the file, and return all its rows."""
    rows = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=COLUMNS)
    for name in sets:
        for split in range(splits):
            if ((rows["set"] == name) & (rows["split"] == split) & (rows["model"] == model)).any():
                continue
            row = measure(name, split, model)
            print(*(f"{v:.4g}" if isinstance(v, float) else v for v in row.values()), flush=True)
            rows = pd.DataFrame([*rows.to_dict("records"), row], columns=COLUMNS)
            rows.to_csv(path, index=False)
    return rows


def geometric(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))


def bars(path: Path, splits: int) -> None:
    """Measure everything, and print every limit with the measured value."""
    for model in ("SparseKLR", ONE_VS_REST, "CompactKLR"):
        rows = run(path, model, SHOWN, splits)
    means = rows.groupby(["model", "set"])[["points", "log_loss"]].mean()
    ours, separate, compact = (
        means.loc[model].loc[SHOWN] for model in ("SparseKLR", ONE_VS_REST, "CompactKLR")
    )
    print(
        (ours / separate)
        .join(ours / compact, lsuffix=" / one-vs-rest", rsuffix=" / CompactKLR")
        .round(3)
        .to_string()
    )
    loss, points = ours["log_loss"] / separate["log_loss"], ours["points"] / separate["points"]
    duals = [
        softmax_dual.measure(name, seed=0, repeats=1)[1]
        for name in (*softmax_dual.ARENA, *softmax_dual.OTHERS)
    ]
    checks = [
        ("points against one-vs-rest, geometric mean", geometric(points), 0.5),
        ("log-loss against one-vs-rest, geometric mean", geometric(loss), 0.93),
        (f"log-loss against one-vs-rest, worst set ({loss.idxmax()})", loss.max(), 1.03),
        (
            "log-loss against CompactKLR, geometric mean",
            geometric(ours["log_loss"] / compact["log_loss"]),
            1.05,
        ),
        ("time of the dual against one-vs-rest", geometric(pd.Series([a[1] / b[1] for a, b in duals])), 1.5),
        ("largest relative gap of the dual", max(one[3] for one, _ in duals), 1e-3),
        ("26 classes, 3000 rows: fit against a calibrated SVC", compare_times(), 2.0),
    ]
    for what, value, bar in checks:
        print(f"{what}: {value:.3g}, bar {bar:g}, {'reached' if value <= bar else 'missed'}")


def compare(before: Path, after: Path) -> None:
    """Print the means of each set over the splits, and the ratios after / before with their geometric mean."""
    numbers = ["points", "log_loss", "estimate", "cpu_seconds"]
    a, b = (pd.read_csv(path).groupby("set", sort=False)[numbers].mean() for path in (before, after))
    both = a.index.intersection(b.index, sort=False)
    a, b = a.loc[both], b.loc[both]
    ratio = b / a
    shown = pd.concat([a, b, ratio.drop(columns="estimate")], axis=1, keys=["before", "after", "ratio"])
    print(shown.round(4).to_string())
    for column in ratio.drop(columns="estimate"):
        worst = f"{ratio[column].max():.3f} ({ratio[column].idxmax()})"
        print(f"{column}: geometric mean {geometric(ratio[column]):.3f}, largest {worst}")


def compare_times(repeats: int = 3) -> float:
    """Return the ratio of the CPU times of SparseKLR and a calibrated SVC on 3000 rows with 26 classes."""
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
    print(medians)
    return medians["SparseKLR"] / medians["SVC"]


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
    three = commands.add_parser("bars", help="measure everything, and print which limits are kept")
    three.add_argument("file", type=Path)
    three.add_argument("--splits", type=int, default=1)
    given = parser.parse_args()
    if given.command == "run":
        run(given.file, given.model, given.sets, given.splits)
    elif given.command == "compare":
        compare(given.before, given.after)
    elif given.command == "bars":
        bars(given.file, given.splits)
    else:
        print(f"ratio {compare_times():.2f}")


if __name__ == "__main__":
    main()
