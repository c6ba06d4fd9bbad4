"""Threads over independent pieces of work whose results come in a fixed order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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


class ThreadPool(ThreadPoolExecutor):
    """A pool of threads that calls a function itself where the system cannot start a thread for it."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        begun = threading.Lock()

        def call() -> None:  # once: the pool keeps what it could not start a thread for in its queue
            if not begun.acquire(blocking=False) or not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)
                raise

        try:
            super().submit(call)
        except RuntimeError:  # "can't start new thread"
            call()
        return future


class _PoolMap:
    """The ``map`` of a pool of threads."""

    def __init__(self, pool: ThreadPool, threads: int) -> None:
        self.pool, self.threads = pool, threads

    def __call__(self, function: Callable[..., Any], *items: Iterable) -> Iterable:
        arguments = list(zip(*items, strict=True))
        if len(arguments) < 2:  # a thread would only be waited for
            return [function(*each) for each in arguments]
        return self.pool.map(lambda each: function(*each), arguments)


class _OneThread:
    """Limits linear algebra to one thread: on a few hundred unknowns more threads only wait.

    The number of threads belongs to the process. When uses overlap, the first one sets it to one and the last
    one restores the number that the first has found.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.RLock(), 0

    def after_fork_in_child(self) -> None:
        """The threads that were inside exist in the parent only."""
        if self.inside:
            self._restore()
        self.inside = 0
        self.lock.release()

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                with _any_thread_may_set():
                    self.limits = _linear_algebra().limit(limits=1, user_api="blas")
            self.inside += 1

    def __exit__(self, *exception: object) -> None:
        with self.lock:
            self.inside = max(self.inside - 1, 0)  # 0 already in a child that was forked inside
            if self.inside == 0:
                self._restore()

    def _restore(self) -> None:
        with _any_thread_may_set():
            self.limits.restore_original_limits()


@cache
def _linear_algebra() -> ThreadpoolController:
    """The libraries of NumPy and SciPy, looked for once: that takes as long as a small fit."""
    return ThreadpoolController()


@contextmanager
def _any_thread_may_set() -> Iterator[None]:
    """threadpoolctl 3.8 ignores all threads but the first one that has limited OpenBLAS."""

    def clear() -> None:
        for library in _linear_algebra().lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)

    clear()
    yield
    clear()  # whoever has set a limit before can restore it


one_thread = _OneThread()
if hasattr(os, "register_at_fork"):  # no other thread holds the lock when a process is forked
    os.register_at_fork(
        before=one_thread.lock.acquire,
        after_in_parent=one_thread.lock.release,
        after_in_child=one_thread.after_fork_in_child,
    )


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
        with ThreadPool(n) as pool:
            yield _PoolMap(pool, n)
