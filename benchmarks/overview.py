"""Models with default parameters on the twelve sets: ours, a calibrated SVC, gradient boosting, logistic regression.

Features are standardised, and three of five test folds are used. Each fit is stored in ``benchmarks/overview.csv``, so
that the same command resumes an interrupted run; ``--fresh`` starts again. The tables are written to ``docs/results``.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from paper.datasets import load_benchmark
from sparseklr import CompactKLR, SparseKLR

from .common import DATA, NAMES
from .sources import at_start
from .store import store

CELLS = Path(__file__).with_suffix(".csv")
FOLDS = 3
COMMAND = "python -m benchmarks.overview"
MODELS = {
    "`SparseKLR()`": SparseKLR(),
    "`CompactKLR()`": CompactKLR(),
    "calibrated `SVC()`": CalibratedClassifierCV(SVC(), ensemble=False),
    "`HistGradientBoosting`": HistGradientBoostingClassifier(random_state=0),
    "`LogisticRegression()`": LogisticRegression(max_iter=1000),
    "`SVC(probability=True)`": SVC(probability=True, random_state=0),  # used only by benchmarks.migration
}
SHOWN = tuple(MODELS)[:-1]
OURS = SHOWN[:2]
Cell = dict[str, Any]


def points(model: Any) -> int | None:
    """Return the number of points that a fitted model keeps; None if it has no points."""
    if isinstance(model, CalibratedClassifierCV):
        return sum(len(part.estimator.support_) for part in model.calibrated_classifiers_)
    return getattr(model, "n_points_", None) or (len(model.support_) if hasattr(model, "support_") else None)


def measure(name: str, fold: int, label: str) -> Cell:
    """Return the results of one model on one test fold of one set."""
    data = load_benchmark(name, data_home=DATA)
    X, y = data.data, data.target
    train, test = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))[fold]
    model = make_pipeline(StandardScaler(), MODELS[label])
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[train], y[train])
    seconds = time.perf_counter() - start
    p = model.predict_proba(X[test])
    predicted = model.predict(X[test])
    accuracy = float(np.mean(predicted == y[test]))
    agreement = float(np.mean(predicted == model.classes_[p.argmax(axis=1)]))
    kept = points(model[-1])
    return {"set": name, "fold": fold, "model": label, "loss": log_loss(y[test], p), "accuracy": accuracy,
            "points": "" if kept is None else kept, "agreement": agreement, "seconds": seconds,
            "sources": at_start("overview")}  # fmt: skip


def known() -> list[Cell]:
    if not CELLS.exists():
        return []
    with open(CELLS, newline="") as file:
        return [{k: v if k in ("set", "model", "sources") else float(v) if v else None for k, v in row.items()} for row in csv.DictReader(file)]  # fmt: skip


def run(sets: Sequence[str], models: Sequence[str] = SHOWN) -> None:
    """Measure all missing combinations of set, fold and model; each result is stored at once."""
    done = {(cell["set"], int(cell["fold"]), cell["model"]) for cell in known()}
    for name in sets:
        for fold in range(FOLDS):
            for label in models:
                if (name, fold, label) in done:
                    continue
                cell = measure(name, fold, label)
                new = not CELLS.exists()
                with open(CELLS, "a", newline="") as file:
                    writer = csv.DictWriter(file, list(cell))
                    if new:
                        writer.writeheader()
                    writer.writerow(cell)
                print(*cell.values(), flush=True)


def measured(cells: list[Cell]) -> set[str]:
    """Return the hashes of the sources with which our models were measured."""
    return {cell["sources"] for cell in cells if cell["model"] in OURS}


def tables(cells: list[Cell], sets: list[str]) -> None:
    def mean(key: str, label: str, name: str | None = None) -> float | None:
        values = [
            c[key] for c in cells if c["model"] == label and name in (None, c["set"]) and c[key] is not None
        ]
        return float(np.mean(values)) if values else None

    note = f"Means over {len(sets)} benchmark sets and {FOLDS} of 5 test folds, with standardised features and default parameters. Fit times are wall-clock times."
    rows = [
        [label, *(mean(key, label) for key in ("loss", "accuracy", "points", "seconds"))] for label in SHOWN
    ]
    columns = ["", "log-loss", "accuracy", "points kept", "fit time (s)"]
    store("overview", COMMAND, note, columns, rows, measured(cells))
    losses = []
    for name in sets:
        found = [mean("loss", label, name) for label in SHOWN]
        best = min(loss for loss in found if loss is not None)
        losses.append(
            [
                name,
                *(f"**{loss:.4f}**" if loss == best else f"{loss:.4f}" for loss in found if loss is not None),
            ]
        )
    store(
        "overview_losses",
        COMMAND,
        f"Log-loss on each set, averaged over {FOLDS} of 5 test folds. The lowest is in bold.",
        ["set", *SHOWN],
        losses,
        measured(cells),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=list(NAMES))
    parser.add_argument("--fresh", action="store_true", help="delete stored results first")
    arguments = parser.parse_args()
    if arguments.fresh:
        CELLS.unlink(missing_ok=True)
    run(arguments.sets)
    cells = known()
    full = FOLDS * len(SHOWN)
    measured = [
        name for name in NAMES if sum(c["set"] == name and c["model"] in SHOWN for c in cells) == full
    ]
    tables([cell for cell in cells if cell["set"] in measured], measured)


if __name__ == "__main__":
    main()
