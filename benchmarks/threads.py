"""Speed-up by a second thread: wall-clock time of a fit with ``n_jobs=2`` relative to ``n_jobs=1``.

The fits are to data of four sizes (300 to 19,020 rows, and 26 classes), on an idle machine and while another process,
which this program starts and ends, keeps one core busy. Fits with one and two threads alternate, and the fastest of each
is reported. A fit with two threads must never be slower by more than 10%. On the largest set, it must be 1.5 times as
fast if two cores are free.

The last column is the limit of the machine. It is half the time of two processes that run the same fit with one thread
at the same time, divided by the time of one process. It would be 0.5 if the two cores were independent; shared caches,
memory bandwidth, other programs and the clock rate increase it. Threads cannot be faster than this limit.
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
    """Keep one core busy with another process while the block runs."""
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


def side_by_side(name: str, repetitions: int) -> float:
    """Return half the time of a fit in two processes at once, divided by the time in one process alone."""
    code = (
        "import sys, time; from benchmarks.fit_time import load_any; from sparseklr import SparseKLR\n"
        f"X, y = load_any({name!r}, standard=False); SparseKLR(gamma='scale', n_jobs=1).fit(X, y)\n"
        "for line in sys.stdin:\n"
        "    start = time.perf_counter(); SparseKLR(gamma='scale', n_jobs=1).fit(X, y)\n"
        "    print(time.perf_counter() - start, flush=True)"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for _ in range(2)
    ]

    def fit(which: list[subprocess.Popen[str]]) -> float:
        for process in which:
            print("go", file=process.stdin)
        return max(float(process.stdout.readline()) for process in which if process.stdout)

    fit(processes)  # both processes are ready now
    alone, both = np.inf, np.inf
    for _ in range(repetitions):
        alone, both = min(alone, fit(processes[:1])), min(both, fit(processes))
    for process in processes:
        process.communicate()
    return both / 2 / alone


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    arguments = parser.parse_args()
    load("diabetes")
    SparseKLR(n_jobs=2).fit([[0.0], [1.0]], [0, 1])  # the first fit imports modules and is not timed
    table = []
    for busy in (False, True):
        with load_on_one_core(busy):
            for name in arguments.sets:
                X, y = load_any(name, standard=False)
                found = seconds(X, y, 9 if len(y) < 1000 else 3)
                ratio = found[2] / found[1]
                bar = FASTER if name == "magic" and not busy else SLOWER
                verdict = "" if ratio <= bar else "above"
                least = side_by_side(name, 9 if len(y) < 1000 else 3)
                table.append(
                    [name, "busy" if busy else "quiet", found[1], found[2], ratio, bar, verdict, least]
                )
                print(*table[-1], flush=True)
    columns = ["set", "machine", "one thread, s", "two threads, s", "ratio", "bar", "", "machine allows"]
    show(f"wall seconds of a fit, {os.cpu_count()} cores", columns, table)


if __name__ == "__main__":
    main()
