"""Quality, size and speed of CompactKLR, compared with SparseKLR, a tuned SVC and boosted trees.

The benchmark has these parts, each with limits and goals for its results:

- quality: log-loss, accuracy and number of points of CompactKLR and three baselines on 12 sets, in 5 folds
- noise: 20 noise features are appended to four sets, and CompactKLR has ``relevance="sparse"``
- multiclass: comparison with SparseKLR on digits, iris, wine and the three-class waveform
- sparse-gp: 20 samples of 400 rows of ringnorm and twonorm. The limit and the goal are the log-losses of the sparse
  Gaussian process with 2 points and of the full one in Naish-Guzman and Holden (NIPS 2007). They were quoted from
  memory and must be checked before they are published.
- time: fit times compared with a calibrated SVC (large sets) and HistGradientBoosting (small sets)
- predict: prediction times for a million rows, compared with an SVC

``python -m benchmarks.compact quality noise`` measures what docs/compact.csv does not contain yet. Results
are stored one by one, so that the same command resumes an interrupted run; ``--again`` repeats stored
measurements. Every run prints all tables and writes docs/compact.md. Without the name of a part, a run
measures nothing.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from paper.datasets import load_benchmark
from sparseklr import CompactKLR, SparseKLR
from sparseklr.datasets import make_ringnorm, make_twonorm, make_waveform

from .common import DATA, NAMES
from .compact_report import write_report
from .sources import at_start, record

STORE = Path(__file__).resolve().parents[1] / "docs" / "compact.csv"
OURS = ("CompactKLR", "SparseKLR")
COLUMNS = (
    "part",
    "set",
    "fold",
    "model",
    "loss",
    "accuracy",
    "points",
    "rows",
    "noise",
    "seconds",
    "sources",
)
LARGE = 3000  # with more rows, times are compared with an SVC

Row = dict[str, Any]
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class TunedSVC(CalibratedClassifierCV):
    """SVC whose C and gamma are chosen by accuracy in three folds of at most 2000 rows, with sigmoid calibration."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TunedSVC:
        some = np.random.default_rng(0).permutation(len(y))[:2000]
        grid = {"C": [1.0, 10.0, 100.0], "gamma": [0.25 / X.shape[1], 1 / X.shape[1], 4 / X.shape[1]]}
        found = GridSearchCV(SVC(), grid, cv=StratifiedKFold(3)).fit(X[some], y[some])
        self.estimator, self.ensemble = SVC(**found.best_params_, cache_size=1000), False
        return super().fit(X, y)


def models() -> dict[str, Any]:
    return {
        "CompactKLR": CompactKLR(),
        "SparseKLR": make_pipeline(StandardScaler(), SparseKLR()),
        "SVC tuned": make_pipeline(StandardScaler(), TunedSVC()),
        "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
    }


# -- data -------------------------------------------------------------------------------------


def folds(X: np.ndarray, y: np.ndarray) -> Iterator[Split]:
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        yield X[train], y[train], X[test], y[test]


def benchmark(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = load_benchmark(name, data_home=DATA)
    return data.data, data.target


def with_noise(X: np.ndarray) -> np.ndarray:
    return np.hstack([X, np.random.default_rng(0).standard_normal((len(X), 20))])


def many_classes(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "waveform, 3 classes":
        return make_waveform(5000, random_state=0)
    return {"digits": load_digits, "iris": load_iris, "wine": load_wine}[name](return_X_y=True)


# -- measurements -----------------------------------------------------------------------------


def kept_points(model: Any) -> int:
    """Return the number of points of a fitted model; 0 for trees."""
    if hasattr(model, "steps"):
        model = model[-1]
    if hasattr(model, "calibrated_classifiers_"):
        model = model.calibrated_classifiers_[0].estimator
    return int(getattr(model, "n_points_", len(getattr(model, "support_", ()))))


def evaluated(model: Any, split: Split) -> Row:
    """Return the results of a model that is fitted to the first part of a split and evaluated on the second part."""
    X, y, X_test, y_test = split
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = clone(model).fit(X, y)
    seconds = time.process_time() - began
    p = model.predict_proba(X_test)
    noise = ""
    if isinstance(model, CompactKLR) and model.relevance == "sparse":
        noise = int(model.get_support()[-20:].sum())
    return {
        "loss": log_loss(y_test, p, labels=model.classes_),
        "accuracy": float(np.mean(model.classes_[p.argmax(axis=1)] == y_test)),
        "points": kept_points(model),
        "rows": len(y),
        "noise": noise,
        "seconds": seconds,
    }


Work = Iterator[tuple[str, int, str, Any]]  # data set, fold, model, and the function that measures it


def quality() -> Work:
    by_size = sorted(NAMES, key=lambda name: benchmark(name)[0].size)
    for name in by_size:
        for fold, split in enumerate(folds(*benchmark(name))):
            for label, model in models().items():
                yield name, fold, label, partial(evaluated, model, split)


def noise() -> Work:
    """Yield the fits with noise features; the part ``quality`` contains the fits without noise features."""
    sparse = CompactKLR(relevance="sparse")
    for name in ("diabetes", "ring", "waveform", "magic"):
        X, y = benchmark(name)
        for fold, split in enumerate(folds(with_noise(X), y)):
            yield name, fold, "CompactKLR", partial(evaluated, sparse, split)
            yield (
                name,
                fold,
                "HistGradientBoosting",
                partial(evaluated, models()["HistGradientBoosting"], split),
            )


def multiclass() -> Work:
    for name in ("iris", "wine", "waveform, 3 classes", "digits"):
        for fold, split in enumerate(folds(*many_classes(name))):
            for label in ("CompactKLR", "SparseKLR"):
                yield name, fold, label, partial(evaluated, models()[label], split)


def sparse_gp() -> Work:
    for name, make in (("ring", make_ringnorm), ("twonorm", make_twonorm)):
        for draw in range(20):
            X, y = make(7400, random_state=1000 + draw)
            split = X[:400], y[:400], X[400:], y[400:]
            yield name, draw, "CompactKLR", partial(evaluated, CompactKLR(max_points=4), split)


def fit_seconds(model: Any, X: np.ndarray, y: np.ndarray) -> Row:
    began = time.perf_counter()
    clone(model).fit(X, y)
    return {"rows": len(y), "seconds": time.perf_counter() - began}


def fit_time() -> Work:
    """Yield fit times from three alternating runs of each model, on the training rows of the first fold.

    With the default ``n_jobs``, CompactKLR and the SVC use one thread, and the trees use all processors."""
    for name in NAMES:
        X, y, _, _ = next(folds(*benchmark(name)))
        baseline, label = HistGradientBoostingClassifier(), "HistGradientBoosting"
        if len(y) > LARGE:
            baseline = make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(C=10), ensemble=False))
            label = "SVC(C=10) calibrated"
        for run in range(3):
            yield name, run, "CompactKLR", partial(fit_seconds, CompactKLR(), X, y)
            yield name, run, label, partial(fit_seconds, baseline, X, y)


def predict_seconds(model: Any, X: np.ndarray, points: int) -> Row:
    began = time.perf_counter()
    model.predict(X)
    return {"points": points, "rows": len(X), "seconds": time.perf_counter() - began}


def predict() -> Work:
    """Yield prediction times with one thread; the SVC predicts 1% of the rows, and its time is multiplied by 100."""
    X, y = make_twonorm(1_000_000, random_state=0)
    ours = CompactKLR(n_points=16, C=10.0).fit(X[:5000], y[:5000])
    svc = SVC().fit(X[:5000], y[:5000])
    for run in range(3):
        yield "twonorm", run, "CompactKLR", partial(predict_seconds, ours, X, ours.n_points_)
        yield "twonorm", run, "SVC", partial(predict_seconds, svc, X[::100], len(svc.support_))


PARTS = {
    "quality": quality,
    "noise": noise,
    "multiclass": multiclass,
    "sparse-gp": sparse_gp,
    "time": fit_time,
    "predict": predict,
}


# -- store ------------------------------------------------------------------------------------


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def key(row: Row) -> tuple[str, str, int, str]:
    return row["part"], row["set"], int(row["fold"]), row["model"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"what to measure: {', '.join(PARTS)}")
    parser.add_argument("--sets", nargs="*", help="only these sets")
    parser.add_argument("--folds", nargs="*", type=int, help="only these folds, draws or runs")
    parser.add_argument("--models", nargs="*", help="only these models")
    parser.add_argument("--again", action="store_true", help="repeat stored measurements")
    parser.add_argument("--store", type=Path, default=STORE)
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(unknown)}; there are {', '.join(PARTS)}")

    def wanted(row: Row) -> bool:
        return (
            row["part"] in arguments.parts
            and (not arguments.sets or row["set"] in arguments.sets)
            and (not arguments.folds or int(row["fold"]) in arguments.folds)
            and (not arguments.models or row["model"] in arguments.models)
        )

    rows = [row for row in read(arguments.store) if not (arguments.again and wanted(row))]
    done = {key(row) for row in rows}
    for part in arguments.parts:
        for name, fold, label, measure in PARTS[part]():
            row: Row = {"part": part, "set": name, "fold": fold, "model": label}
            if key(row) in done or not wanted(row):
                continue
            row |= measure() | {"sources": at_start("compact")}
            print(
                ", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{v}" for k, v in row.items()),
                flush=True,
            )
            rows.append(row)
            write(arguments.store, sorted(rows, key=key))
    rows = read(arguments.store)
    write_report(rows, arguments.store.with_suffix(".md"))
    if arguments.store == STORE:
        record("compact", {row["sources"] or "" for row in rows if row["model"] in OURS})


if __name__ == "__main__":
    main()
