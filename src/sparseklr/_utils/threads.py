"""Threads for independent pieces of work, with results in a fixed order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

from joblib import cpu_count, effective_n_jobs
from threadpoolctl import ThreadpoolController

# map(function, items) returns the results in the order of the items.
Map = Callable[..., Iterable]


def n_threads(n_jobs: int | None) -> int:
    """The number of threads for ``n_jobs`` as in joblib, but at most 64 or one per core."""
    threads = int(effective_n_jobs(n_jobs))
    return threads if threads <= 64 else min(threads, max(64, cpu_count()))


def threads_of(map_: Map) -> int:
    """The number of threads of a ``map``."""
    return getattr(map_, "threads", 1)


class ThreadPool(ThreadPoolExecutor):
    """A thread pool that calls the function itself if the system cannot start a thread."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        begun = threading.Lock()

        def call() -> (
            None
        ):  # runs at most once, because the pool also queues calls for which it could not start a thread
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
    """The ``map`` of a thread pool."""

    def __init__(self, pool: ThreadPool, threads: int) -> None:
        self.pool, self.threads = pool, threads

    def __call__(self, function: Callable[..., Any], *items: Iterable) -> Iterable:
        arguments = list(zip(*items, strict=True))
        if len(arguments) < 2:  # a thread would not help
            return [function(*each) for each in arguments]
        return self.pool.map(lambda each: function(*each), arguments)


class _OneThread:
    """Limits linear algebra to one thread, because with a few hundred unknowns more threads only wait.

    The limit belongs to the process. If uses overlap, the first one sets it and the last one restores the
    original number of threads.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.RLock(), 0

    def after_fork_in_child(self) -> None:
        """Reset the state in a forked child, because the counted threads exist only in the parent."""
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
            self.inside = max(self.inside - 1, 0)  # 0 in a child that was forked inside
            if self.inside == 0:
                self._restore()

    def _restore(self) -> None:
        with _any_thread_may_set():
            self.limits.restore_original_limits()


@cache
def _linear_algebra() -> ThreadpoolController:
    """Find the linear algebra libraries once, because the search takes as long as a small fit."""
    return ThreadpoolController()


@contextmanager
def _any_thread_may_set() -> Iterator[None]:
    """Work around threadpoolctl 3.8, in which only the first thread that limited OpenBLAS can do it again."""

    def clear() -> None:
        for library in _linear_algebra().lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)

    clear()
    yield
    clear()  # other threads can restore their limits


one_thread = _OneThread()
if hasattr(os, "register_at_fork"):  # no other thread may hold the lock during a fork
    os.register_at_fork(
        before=one_thread.lock.acquire,
        after_in_parent=one_thread.lock.release,
        after_in_child=one_thread.after_fork_in_child,
    )


@contextmanager
def ordered_threads(n_jobs: int | None) -> Iterator[Map]:
    """Provide a ``map`` that uses ``n_jobs`` threads, each with single-threaded linear algebra.

    The pieces of work do not depend on the number of threads, and their results are summed in order, so
    results are bit-identical for any ``n_jobs``. With multithreaded matrix products they would not be.
    """
    with one_thread:
        if (n := n_threads(n_jobs)) == 1:
            yield map
            return
        with ThreadPool(n) as pool:
            yield _PoolMap(pool, n)
