"""Threads for independent tasks, whose results are returned in a fixed order."""

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

# A function with the interface of the built-in map: the results are in the order of the items.
Map = Callable[..., Iterable]


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs`` as in joblib.

    The result is at most 64, or at most the number of cores if there are more than 64.
    """
    threads = int(effective_n_jobs(n_jobs))
    return threads if threads <= 64 else min(threads, max(64, cpu_count()))


def threads_of(map_: Map) -> int:
    """Return the number of threads that a ``Map`` uses; 1 for the built-in ``map``."""
    return getattr(map_, "threads", 1)


class ThreadPool(ThreadPoolExecutor):
    """A thread pool that calls a function in the current thread if the system cannot start another thread."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        begun = threading.Lock()

        # The lock makes ``call`` run at most once: the pool also queues a call for which it could not start a
        # thread.
        def call() -> None:
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
    """A ``Map`` that uses the threads of a pool."""

    def __init__(self, pool: ThreadPool, threads: int) -> None:
        self.pool, self.threads = pool, threads

    def __call__(self, function: Callable[..., Any], *items: Iterable) -> Iterable:
        arguments = list(zip(*items, strict=True))
        if len(arguments) < 2:  # another thread would not save time
            return [function(*each) for each in arguments]
        return self.pool.map(lambda each: function(*each), arguments)


class _OneThread:
    """Context manager that limits linear algebra to one thread, which is faster for a few hundred unknowns.

    The limit applies to the whole process. If several threads use the context manager at the same time, the
    first one sets the limit, and the last one restores the original number of threads.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.RLock(), 0

    def after_fork_in_child(self) -> None:
        """Reset the counter in a forked child process, as the counted threads exist only in the parent."""
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
            self.inside = max(self.inside - 1, 0)  # already 0 in a child process forked inside the context
            if self.inside == 0:
                self._restore()

    def _restore(self) -> None:
        with _any_thread_may_set():
            self.limits.restore_original_limits()


@cache
def _linear_algebra() -> ThreadpoolController:
    """Return a controller of the linear algebra libraries, which are searched for only once.

    The search takes as long as a small fit.
    """
    return ThreadpoolController()


@contextmanager
def _any_thread_may_set() -> Iterator[None]:
    """Allow any thread to limit OpenBLAS; in threadpoolctl 3.8, only the first thread that did so can."""

    def clear() -> None:
        for library in _linear_algebra().lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)

    clear()
    yield
    clear()  # so that other threads can restore their limits


one_thread = _OneThread()
if hasattr(os, "register_at_fork"):  # the lock must be free in a forked child process
    os.register_at_fork(
        before=one_thread.lock.acquire,
        after_in_parent=one_thread.lock.release,
        after_in_child=one_thread.after_fork_in_child,
    )


@contextmanager
def ordered_threads(n_jobs: int | None) -> Iterator[Map]:
    """Provide a ``Map`` with ``n_jobs`` threads, in which linear algebra uses one thread.

    Callers divide their work into tasks that do not depend on the number of threads, and sum the results in a
    fixed order. Their results are therefore bit-identical for any ``n_jobs``, which multithreaded matrix
    products would not guarantee.
    """
    with one_thread:
        if (n := n_threads(n_jobs)) == 1:
            yield map
            return
        with ThreadPool(n) as pool:
            yield _PoolMap(pool, n)
