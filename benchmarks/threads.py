"""What a second thread is worth: wall seconds of a fit with ``n_jobs=2`` against ``n_jobs=1``.

Four sizes (300 to 19 020 rows, and 26 classes), on a quiet machine and beside a process that keeps one core busy, which
this program starts and ends itself. Fits with one and two threads alternate, the fastest of each counts. Two threads
must never be slower by more than 10%, and on the largest set they must be 1.5 times as fast where two cores are free.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from sparseklr import SparseKLR

from .common import load, show
from .fit_time import LETTERS, load_any

SETS = ("diabetes", "spambase", LETTERS, "magic")
SLOWER, FASTER = 1.1, 1 / 1.5


@contextmanager
def load_on_one_core(busy: bool) -> Iterator[None]:
    """A process that computes all the time while the block runs."""
    if not busy:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: sum(range(10**6))"])
    try:
        time.sleep(0.5)
        yield
    finally:
        process.kill()
        process.wait()


def seconds(X: np.ndarray, y: np.ndarray, repetitions: int) -> dict[int, float]:
    fastest = {1: np.inf, 2: np.inf}
    for _ in range(repetitions):
        for n_jobs in fastest:
            start = time.perf_counter()
            SparseKLR(gamma="scale", n_jobs=n_jobs).fit(X, y)
            fastest[n_jobs] = min(fastest[n_jobs], time.perf_counter() - start)
    return fastest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    arguments = parser.parse_args()
    load("diabetes")
    SparseKLR(n_jobs=2).fit([[0.0], [1.0]], [0, 1])  # what is loaded by the first fit is not counted
    table = []
    for busy in (False, True):
        with load_on_one_core(busy):
            for name in arguments.sets:
                X, y = load_any(name, standard=False)
                found = seconds(X, y, 9 if len(y) < 1000 else 3)
                ratio = found[2] / found[1]
                bar = FASTER if name == "magic" and not busy else SLOWER
                verdict = "" if ratio <= bar else "above"
                table.append([name, "busy" if busy else "quiet", found[1], found[2], ratio, bar, verdict])
                print(*table[-1], flush=True)
    columns = ["set", "machine", "one thread, s", "two threads, s", "ratio", "bar", ""]
    show(f"wall seconds of a fit, {os.cpu_count()} cores", columns, table)


if __name__ == "__main__":
    main()
