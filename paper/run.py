"""Computation of cells in local processes or on a Dask cluster; each finished cell is stored at once."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from threadpoolctl import threadpool_limits

from .datasets import BENCHMARKS, load_benchmark
from .methods import compute
from .protocol import Cell, split
from .store import Results

# The seconds that a cell takes with n = 1000 training rows, and the exponent with which they grow with n.
# They determine the order of the cells and the estimate of the remaining time.
_COST = {
    "S-KLR": (0.6, 2.0),
    "S-KLR refit": (0.4, 1.2),
    "SparseKLR": (1.0, 1.2),
    "CompactKLR": (2.0, 1.0),
    "lam-choice": (0.1, 2.0),
    "SVM": (0.3, 2.0),
    "IVM": (8.0, 1.0),
    "l1/2-KLR": (2.0, 1.8),
    "KLR-2ord": (0.2, 2.0),
    "KLR-1ord": (0.5, 2.0),
    "S-KLR-1ord": (3.0, 1.8),
}


@dataclass(frozen=True)
class RunState:
    """Progress of a run; ``share`` is the completed fraction of the expected work."""

    done: int
    total: int
    share: float
    seconds: float
    cell: Cell | None

    @property
    def seconds_left(self) -> float | None:
        return self.seconds * (1 - self.share) / self.share if self.share > 0 else None


@dataclass(frozen=True)
class Failure:
    """A cell that could not be computed."""

    cell: Cell
    reason: str
    trace: str


def expected_cost(cell: Cell) -> float:
    """Return the expected time of a cell, relative to other cells."""
    seconds, power = _COST[cell.method]
    return seconds * (BENCHMARKS[cell.dataset].n_samples / 1000) ** power


def run(
    cells: Iterable[Cell],
    path: str | os.PathLike[str],
    *,
    jobs: int = -1,
    scheduler: str | None = None,
    data_home: str | os.PathLike[str] | None = None,
    progress: Callable[[RunState], None] = lambda state: None,
) -> list[Failure]:
    """Compute the cells that are missing in a file of results, and store each at once.

    A run may be interrupted or killed at any time; the same call resumes it.

    Parameters
    ----------
    cells : iterable of Cell
        The cells to compute; see :func:`~paper.protocol.plan`.
    path : path
        File of results, created if it does not exist.
    jobs : int, default=-1
        Number of processes; -1 means one per core.
    scheduler : str, optional
        Address of the scheduler of a Dask cluster, which replaces local processes. Its workers need
        sparseklr, this package on their path, and the data at the same ``data_home``.
    data_home : path, optional
        Directory of the data, see :func:`~paper.datasets.load_benchmark`.
    progress : callable, optional
        Called with a :class:`RunState` at the start and after each cell.

    Returns
    -------
    list of Failure
        Cells that raised an error. They are not stored and will be tried again the next time.
    """
    cells = list(dict.fromkeys(cells))
    home = None if data_home is None else os.path.abspath(data_home)
    with Results(path) as results:
        todo = sorted(results.missing(cells), key=expected_cost, reverse=True)  # the longest cells come first
        if todo and scheduler is None:
            for name in dict.fromkeys(cell.dataset for cell in todo):
                load_benchmark(name, data_home=home)  # a missing set raises an error before any work is done
        run_id = results.start_run(jobs=jobs, scheduler=scheduler, cells=len(todo))
        costs, start = {cell: expected_cost(cell) for cell in todo}, time.perf_counter()
        total, done, work, failures = sum(costs.values()) or 1.0, 0, 0.0, []
        progress(RunState(len(cells) - len(todo), len(cells), 0.0, 0.0, None))
        with _backend(jobs, scheduler) as parallel:
            for cell, seconds, result in parallel(delayed(_compute)(cell, home) for cell in todo):
                if isinstance(result, Failure):
                    failures.append(result)
                else:
                    results.add(cell, run_id, seconds, result)
                done, work = done + 1, work + costs[cell]
                elapsed = time.perf_counter() - start
                finished = len(cells) - len(todo) + done
                progress(RunState(finished, len(cells), work / total, elapsed, cell))
    return failures


def _compute(cell: Cell, data_home: str | None) -> tuple[Cell, float, Any]:
    start = time.perf_counter()
    try:
        with threadpool_limits(1):
            result: Any = compute(cell, split(cell, data_home))
    except Exception as error:
        result = Failure(cell, f"{type(error).__name__}: {error}", traceback.format_exc())
    return cell, time.perf_counter() - start, result


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Make processes that are started inside this context ignore Ctrl-C, which this process handles.

    Without this, a worker that is interrupted while it still imports its modules prints a traceback.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _backend(jobs: int, scheduler: str | None) -> Iterator[Callable[[Any], Iterable[Any]]]:
    """Provide a function that yields the results of delayed calls, in the order in which they finish."""
    if scheduler is None:
        if effective_n_jobs(jobs) == 1:
            yield lambda calls: (function(*args, **kwargs) for function, args, kwargs in calls)
            return
        with Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1) as parallel:

            def started(calls: Any) -> Iterable[Any]:
                with _interrupts_ignored():
                    return parallel(calls)

            yield started
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            'A Dask scheduler needs the package distributed: pip install "sparseklr[dask]".'
        ) from error
    with (
        Client(scheduler, timeout="20s", set_as_default=True) as client,
        parallel_config("dask", client=client),
    ):
        yield Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all")
