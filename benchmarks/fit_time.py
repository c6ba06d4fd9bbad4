"""Fit time of SparseKLR relative to a calibrated SVC, on one thread.

The script divides the CPU time of ``SparseKLR``, without and with the search for the kernel width, by the CPU time of
``CalibratedClassifierCV(SVC(), ensemble=False)``, which fits a sigmoid in five folds. The data are the 12 sets, with
features in [0, 1] or standardised (``--standard``), and 3000 rows of 26 classes. With ``--arena``, the data are the
two-class tables of ``benchmarks.arena``, with at most 1500 standardised training rows. Fits of the models alternate,
and the fastest fit of each is reported. Results are stored in ``--results`` and not measured again; ``--fresh`` deletes
them.

``--against PYTHON`` compares ``SparseKLR()`` with another version of sparseklr on all tables of the arena. PYTHON is an
interpreter in which the other version is installed. Fits of the two versions alternate.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
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

from .arena_measure import HALVES, SMALLEST_PROBABILITY, divide, numeric, table
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


def arena_fit(name: str, split: int) -> dict[str, float]:
    """Return the CPU seconds of a fit to training rows of the arena, and the log-loss on the test rows."""
    X, y = table(name, str(DATA))
    train, test = divide(y, split, 1500, 0)
    text = [column for column in X if X[column].dtype == object]
    scaling = make_pipeline(numeric(text), StandardScaler()).fit(X.iloc[train])
    rows = scaling.transform(X.iloc[train])
    start = time.process_time()
    model = SparseKLR().fit(rows, y[train])
    spent = time.process_time() - start
    probabilities = model.predict_proba(scaling.transform(X.iloc[test]))[np.arange(len(test)), y[test]]
    loss = float(-np.log(np.maximum(probabilities, SMALLEST_PROBABILITY)).mean())
    return {"seconds": spent, "log-loss": loss, "points": len(model.support_)}


def serve() -> None:
    """Answer requests from :func:`compare`: each line of the input has the name of a table and a split."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SparseKLR().fit([[0.0], [1.0]], [0, 1])
        for line in sys.stdin:
            name, split = line.split()
            print(json.dumps(arena_fit(name, int(split))), flush=True)


def compare(other: str, sets: list[str], splits: int, repeats: int) -> None:
    """Compare the installed version with the version of another interpreter; fits alternate."""
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    versions = [subprocess.Popen([python, "-m", "benchmarks.fit_time", "--serve"], **pipe)
                for python in (other, sys.executable)]  # fmt: skip

    def fit(version: subprocess.Popen, name: str, split: int) -> dict[str, float]:
        version.stdin.write(f"{name} {split}\n")
        version.stdin.flush()
        return json.loads(version.stdout.readline())

    rows, ratios = [], []
    for name in sets:
        logs = []
        for split in range(splits):
            fits = [[fit(version, name, split) for version in versions] for _ in range(repeats)]
            fastest = [min(one["seconds"] for one in each) for each in zip(*fits, strict=True)]
            before, after = (np.array([one["log-loss"], one["points"]]) for one in fits[0])
            # A loss below 1e-3 differs by rounding alone.
            logs.append(
                np.log(np.append(np.maximum(after, 1e-3) / np.maximum(before, 1e-3), fastest[1] / fastest[0]))
            )
        ratios.append(np.mean(logs, axis=0))
        rows.append([name, fastest[1], *(f"{ratio:.3f}" for ratio in np.exp(ratios[-1]))])
        print(*rows[-1], flush=True)
    for half, names in HALVES.items():
        chosen = [ratio for name, ratio in zip(sets, ratios, strict=True) if name in names]
        if chosen:
            rows.append([f"mean of {half}", "", *(f"{r:.3f}" for r in np.exp(np.mean(chosen, axis=0)))])
    show("this version divided by the other one", ["set", "seconds", "log-loss", "points", "time"], rows)
    for version in versions:
        version.stdin.close()
        version.wait()


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
    parser.add_argument("--against", metavar="PYTHON", help="interpreter of another version of sparseklr")
    parser.add_argument("--splits", type=int, default=1, help="number of splits with --against")
    parser.add_argument("--repeats", type=int, default=3, help="number of fits with --against")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve()
    if arguments.against:
        sets = list(HALVES["all"]) if arguments.sets == [*NAMES, LETTERS] else arguments.sets
        return compare(arguments.against, sets, arguments.splits, arguments.repeats)
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
