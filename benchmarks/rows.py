"""Time, memory and log-loss of SparseKLR with many rows, compared with HistGradientBoostingClassifier.

The data are from ``make_classification`` with 10 features and 5% wrong labels; 20,000 further rows are the test rows.
Every size runs in its own process, in which both models are fitted in turn. The table contains the CPU seconds on one
thread and their ratio, the peak memory of the fit of SparseKLR minus the memory before it, the numbers of points, and
the log-losses. The last line is the exponent with which the time grows with the number of rows. ``--whole`` adds fits
whose selection, choice of C and pruning use all rows. ``--threads`` compares wall-clock times of ``n_jobs=1`` and
``n_jobs=2``, which requires an idle machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from sparseklr import SparseKLR
from sparseklr.dual import parts
from sparseklr.refit import sample

from .common import show
from .store import ROOT

SIZES = (20_000, 40_000, 80_000, 160_000, 320_000)
TEST_ROWS = 20_000
COLUMNS = ["rows", "method", "CPU seconds", "/ HistGradientBoosting", "memory (MB)", "points", "log-loss"]


def data(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the training rows, followed by the test rows."""
    return make_classification(
        n + TEST_ROWS,
        10,
        n_informative=6,
        n_redundant=2,
        n_clusters_per_class=4,
        flip_y=0.05,
        random_state=0,
    )


def status(key: str) -> float:
    """Return an entry of /proc/self/status about the memory of this process, in MB."""
    return int(Path("/proc/self/status").read_text().split(key + ":")[1].split()[0]) / 1024


def timed(action: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[float, Any]:
    start = clock()
    result = action()
    return clock() - start, result


def on_all_rows() -> None:
    """Change the settings of SparseKLR such that every step of a fit uses all rows instead of a sample."""
    sample.SETTINGS = replace(sample.SETTINGS, points=sys.maxsize)
    parts.SETTINGS = replace(parts.SETTINGS, rows=sys.maxsize)


def one_size(n: int, whole: bool) -> None:
    """Print the results of both models for one number of rows."""
    X, y = data(n)
    if whole:
        on_all_rows()
    with threadpool_limits(1):
        SparseKLR().fit(X[:200], y[:200])
        baseline, trees = timed(lambda: HistGradientBoostingClassifier().fit(X[:n], y[:n]))
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak memory
        before = status("VmRSS")
        seconds, model = timed(lambda: SparseKLR().fit(X[:n], y[:n]))
        memory = status("VmHWM") - before
    losses = [log_loss(y[n:], each.predict_proba(X[n:])) for each in (trees, model)]
    print(baseline, seconds, memory, len(model.support_), *losses)


def threads(n: int, repetitions: int) -> float:
    """Return the smallest wall-clock time with two threads divided by the smallest with one; fits alternate."""
    X, y = data(n)
    fastest = {1: np.inf, 2: np.inf}
    for _ in range(repetitions):
        for n_jobs in fastest:
            fit = SparseKLR(n_jobs=n_jobs).fit
            fastest[n_jobs] = min(
                fastest[n_jobs], timed(lambda fit=fit: fit(X[:n], y[:n]), time.perf_counter)[0]
            )
    return fastest[2] / fastest[1]


def measured(n: int, whole: bool) -> list[list[Any]]:
    """Return the lines of the table for one number of rows."""
    command = [sys.executable, "-m", "benchmarks.rows", "--one", str(n), *(["--whole"] if whole else [])]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    baseline, seconds, memory, points, *losses = map(float, run.stdout.split())
    name = "SparseKLR on all rows" if whole else "SparseKLR"
    return [
        [n, "HistGradientBoosting", baseline, 1.0, "", "", losses[0]],
        [n, name, seconds, seconds / baseline, round(memory), int(points), losses[1]],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument(
        "--whole", action="store_true", help="also fit SparseKLR with every stage on all rows"
    )
    parser.add_argument("--threads", action="store_true", help="compare n_jobs=1 and 2 at 20,000 rows")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one_size(arguments.one, arguments.whole)
        return
    table: list[list[Any]] = []
    for n in arguments.sizes:
        for whole in (False, True) if arguments.whole else (False,):
            table += measured(n, whole)[1 if whole else 0 :]
            print(*table[-1], flush=True)
    show("Many rows", COLUMNS, table)
    ours = [(row[0], row[2]) for row in table if row[1] == "SparseKLR"]
    if len(ours) > 1:
        sizes, seconds = np.log(ours).T
        print(f"exponent of the time: {np.polyfit(sizes, seconds, 1)[0]:.2f}")
    if arguments.threads:
        print(f"n_jobs=2 / n_jobs=1 at 20,000 rows: {threads(20_000, 3):.2f}")


if __name__ == "__main__":
    main()
