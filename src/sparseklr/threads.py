"""Threads over independent pieces of work whose results come in a fixed order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from .kernels import n_threads

# map(function, items): the results in the order of the items.
Map = Callable[..., Iterable]


def threads_of(map_: Map) -> int:
    """With how many threads a ``map`` calls its function.

    >>> threads_of(map)
    1
    """
    return getattr(map_, "threads", 1)


class _PoolMap:
    """The ``map`` of a pool of threads."""

    def __init__(self, pool: ThreadPoolExecutor, threads: int) -> None:
        self.pool, self.threads = pool, threads

    def __call__(self, function: Callable[..., Any], *items: Iterable) -> Iterable:
        arguments = list(zip(*items, strict=True))
        if len(arguments) < 2:  # a thread would only be waited for
            return [function(*each) for each in arguments]
        return self.pool.map(lambda each: function(*each), arguments)


class _OneThread:
    """Linear algebra on one thread while anybody is inside: on a few hundred unknowns threads only wait.

    The number of threads belongs to the process: of fits that overlap the first sets it, and the last
    restores what the first has found.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.limits = _linear_algebra().limit(limits=1, user_api="blas")
            self.inside += 1

    def __exit__(self, *exception: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.limits.restore_original_limits()


@cache
def _linear_algebra() -> ThreadpoolController:
    """The libraries of NumPy and SciPy, looked for once: that takes as long as a small fit."""
    return ThreadpoolController()


one_thread = _OneThread()


@contextmanager
def ordered_threads(n_jobs: int | None) -> Iterator[Map]:
    """A ``map`` that calls its function in ``n_jobs`` threads, with linear algebra on one thread each.

    The pieces do not depend on the number of threads and their results are added up in the order of the
    pieces, so the sums are the same to the last bit for any ``n_jobs``. That is why the matrix products
    themselves must not be split among threads; on systems of a few hundred unknowns splitting them would
    cost more than it gains.
    """
    with one_thread:
        if (n := n_threads(n_jobs)) == 1:
            yield map
            return
        with ThreadPoolExecutor(n) as pool:
            yield _PoolMap(pool, n)
