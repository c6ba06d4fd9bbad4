"""Fit time of SparseKLR relative to a calibrated SVC, on one thread.

The script divides the CPU time of ``SparseKLR``, without and with the search for the kernel width, by the CPU time of
``CalibratedClassifierCV(SVC(), ensemble=False)``, which fits a sigmoid in five folds. The data are the 12 sets, with
features in [0, 1] or standardised (``--standard``), and 3000 rows of 26 classes. With ``--arena``, the data are the
two-class tables of ``benchmarks.arena``, with at most 1500 standardised training rows. Fits of the models alternate,
and the fastest fit of each is reported. Results are stored in ``--results`` and not measured again; ``--fresh`` deletes
them.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, minmax_scale, scale
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from sparseklr import SparseKLR

from .arena_measure import HALVES, divide, numeric, table
from .common import DATA, NAMES, load, show

LETTERS = "26 classes"
BASELINE = "calibrated SVC"
MODELS: dict[str, Callable[[], ClassifierMixin]] = {
    BASELINE: lambda: CalibratedClassifierCV(SVC(), ensemble=False),
    "SparseKLR": lambda: SparseKLR(gamma="scale"),
    "width by leave-one-out": lambda: SparseKLR(gamma="auto"),
}
# Upper limits for the ratios, without and with the search for the kernel width, on each set with two classes, and with
# 26 classes.
BARS = {"SparseKLR": 0.8, "width by leave-one-out": 1.5}
BAR_OF_LETTERS = 2.0
ARENA = "arena "  # prefix of the names of arena tables


def load_any(name: str, standard: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return a benchmark set, or a mixture of one cluster for each of 26 classes in 16 dimensions."""
    if name == LETTERS:
        X, y = make_classification(
            3000,
            16,
            n_informative=12,
            n_redundant=0,
            n_classes=26,
            n_clusters_per_class=1,
            class_sep=2.0,
            random_state=0,
        )
        X = minmax_scale(X)
    else:
        X, y = load(name)
    return (scale(X) if standard else X), y


def arena_tables() -> list[str]:
    """Return the tables of the arena with two classes."""
    return [ARENA + name for name in HALVES["all"] if table(name, str(DATA))[1].max() == 1]


def arena_rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the training rows of the first split, preprocessed as in the arena."""
    X, y = table(name, str(DATA))
    train, _ = divide(y, 0, 1500, 0)
    text = [column for column in X if X[column].dtype == object]
    return make_pipeline(numeric(text), StandardScaler()).fit_transform(X.iloc[train]), y[train]


def seconds(name: str, standard: bool) -> dict[str, float]:
    """Return the CPU seconds of the fastest fit of each model; small sets are fitted more often."""
    arena = name.startswith(ARENA)
    X, y = arena_rows(name.removeprefix(ARENA)) if arena else load_any(name, standard)
    models = dict(MODELS)
    if name == LETTERS or arena:
        del models["width by leave-one-out"]
    fastest = dict.fromkeys(models, np.inf)
    for _ in range(1 if len(y) > 15_000 else 3 if len(y) > 2000 else 9):
        for title, make in models.items():
            start = time.process_time()
            make().fit(X, y)
            fastest[title] = min(fastest[title], time.process_time() - start)
    return fastest


def measure(sets: list[str], standard: bool, results: Path) -> dict[str, dict[str, float]]:
    found = json.loads(results.read_text()) if results.exists() else {}
    scaling = "standardised" if standard else "in [0, 1]"
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SparseKLR().fit([[0.0], [1.0]], [0, 1])  # the first fit imports modules and is not timed
        for name in sets:
            if f"{name}, {scaling}" not in found:
                found[f"{name}, {scaling}"] = seconds(name, standard)
                results.write_text(json.dumps(found, indent=1))
                print(
                    name, {title: round(s, 3) for title, s in found[f"{name}, {scaling}"].items()}, flush=True
                )
    return {name: found[f"{name}, {scaling}"] for name in sets}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=[*NAMES, LETTERS])
    parser.add_argument("--arena", action="store_true", help="the two-class tables of the arena")
    parser.add_argument("--standard", action="store_true", help="standardise features")
    parser.add_argument("--results", type=Path, default=Path("fit_time.json"))
    parser.add_argument("--fresh", action="store_true", help="delete stored results first")
    arguments = parser.parse_args()
    if arguments.fresh:
        arguments.results.unlink(missing_ok=True)
    sets = arena_tables() if arguments.arena else arguments.sets
    found = measure(sets, arguments.standard, arguments.results)
    rows, ratios = [], {title: [] for title in BARS}
    for name, times in found.items():
        row: list[object] = [name, times[BASELINE]]
        for title, bar in BARS.items():
            if title not in times:
                row += ["", ""]
                continue
            ratio = times[title] / times[BASELINE]
            if name != LETTERS:
                ratios[title].append(ratio)
            above = ratio > (BAR_OF_LETTERS if name == LETTERS else bar)
            row += [times[title], f"{ratio:.2f}{' above' if above else ''}"]
        rows.append(row)
    means = [float(np.exp(np.mean(np.log(values)))) if values else np.nan for values in ratios.values()]
    rows.append(["geometric mean of the sets", "", "", f"{means[0]:.2f}", "", f"{means[1]:.2f}"])
    columns = ["set", BASELINE, *(title for name in BARS for title in (name, "ratio"))]
    bars = ", ".join(f"{title} {bar:g}" for title, bar in BARS.items())
    show(f"CPU seconds of a fit; bars: {bars}, {LETTERS} {BAR_OF_LETTERS:g}", columns, rows)


if __name__ == "__main__":
    main()
