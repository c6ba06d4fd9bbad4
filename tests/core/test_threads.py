"""Results do not depend on threads, within a fit or in concurrent fits."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info, threadpool_limits

from sparseklr import SKLR, CompactKLR, SparseKLR, _core
from sparseklr._utils.threads import ThreadPool, n_threads, ordered_threads
from sparseklr.dual import Settings, solve_dual
from sparseklr.dual.problem import DualProblem
from sparseklr.dual.smo import Solution, solve_above_bound
from sparseklr.kernels import Kernel
from sparseklr.streaming import ArraySource
from sparseklr.streaming.passes import LocalBlocks

pytestmark = pytest.mark.numerical

N_THREADS = 8


def in_threads(job: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(job, range(N_THREADS)))


@pytest.mark.parametrize("estimator", [SparseKLR(), SKLR(C=100)])
def test_fits_on_data_of_their_own(estimator: Any) -> None:
    def fit(seed: int) -> np.ndarray:
        X, y = make_moons(150, noise=0.3, random_state=seed)
        return clone(estimator).fit(X, y).predict_proba(X)

    # The number of threads of BLAS is one setting of the process, which fits beside each other change. With
    # it the rounding of sums changes, and nothing else.
    for together, alone in zip(in_threads(fit), map(fit, range(N_THREADS)), strict=True):
        np.testing.assert_allclose(together, alone, atol=1e-6)


def test_solves_on_one_kernel_matrix() -> None:
    X, y = make_moons(200, noise=0.3, random_state=0)
    K = Kernel("rbf", 1.0).matrix(X, X)

    def solve(k: int) -> np.ndarray:
        return solve_dual(K, 2 * y - 1, C=100, lam=float(k)).alpha

    for together, alone in zip(in_threads(solve), map(solve, range(N_THREADS)), strict=True):
        np.testing.assert_array_equal(together, alone)


@pytest.mark.slow
@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
def test_a_solve_is_the_same_with_any_number_of_threads(as_given: Callable[[Any], Any]) -> None:
    X, y = make_moons(9001, noise=0.4, random_state=0)  # several pieces for each thread
    runs = [SKLR(C=10, gamma=1.0, calibration=None, max_iter=2000, n_jobs=n_jobs) for n_jobs in (1, 2, 3)]
    with pytest.warns(ConvergenceWarning):
        one, *others = [run.fit(as_given(X), y) for run in runs]
    for other in others:
        np.testing.assert_array_equal(other.dual_coef_, one.dual_coef_)
        np.testing.assert_array_equal(other.intercept_, one.intercept_)


def test_products_with_many_rows_are_the_same_with_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    blocks, m = [rng.normal(size=(6000, 100)), rng.normal(size=(4500, 100))], 100
    A, weight, coef = np.concatenate(blocks), rng.uniform(size=10_500), rng.normal(size=m)
    ridge, gradient = np.ones(m + 1), rng.normal(size=m + 1)
    results = []
    for threads in (1, 2, 3):
        f, total, step, change = np.empty(len(A)), np.empty(m), np.empty(m + 1), np.empty(len(A))
        _core.row_products(blocks, coef, 0.5, f, threads)
        _core.weighted_row_sum(blocks, weight, total, threads)
        system = None, weight, ridge, gradient, 60.0 * np.eye(m + 1)
        _core.newton_step(blocks, *system, 1e-8, 50, step, change, threads)
        results.append(np.concatenate([f, total, step, change]))
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])
    np.testing.assert_allclose(f, A @ coef + 0.5, rtol=0, atol=1e-11)
    np.testing.assert_allclose(total, weight @ A, rtol=0, atol=1e-9)
    with_ones = np.column_stack([A, np.ones(len(A))])
    H = with_ones.T @ (weight[:, None] * with_ones) + np.diag(ridge)
    np.testing.assert_allclose(step, -np.linalg.solve(H, gradient), rtol=0, atol=1e-6 * np.abs(step).max())
    np.testing.assert_allclose(change, with_ones @ step, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_solves_on_one_row_source() -> None:
    """The cache holds a twentieth of the rows, so concurrent threads would evict each other's rows."""
    X, y = make_moons(1500, noise=0.3, random_state=0)
    signs, box = 2.0 * y - 1, np.full(len(y), 100.0)
    row_source = Kernel("rbf", 1.0).row_source(X, cache_size=1)
    settings = Settings(tol=1e-3)

    def solve(k: int) -> Solution:
        problem = DualProblem(signs, box, settings.bounds(box), float(k))
        return solve_above_bound(row_source, problem, settings, above=np.zeros(len(y)), F=np.zeros(len(y)))

    for together, alone in zip(in_threads(solve), map(solve, range(N_THREADS)), strict=True):
        np.testing.assert_array_equal(together.alpha, alone.alpha)
        np.testing.assert_array_equal(together.F, alone.F)


@pytest.mark.parametrize("estimator", [SparseKLR(), SKLR(C=10), CompactKLR(n_points=6)])
def test_a_model_is_the_same_with_any_number_of_threads(estimator: Any) -> None:
    X, y = make_moons(1100, noise=0.3, random_state=0)
    one, *others = [clone(estimator).set_params(n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2, 3, 7)]
    new = np.random.default_rng(0).normal(size=(20_000, 2))
    expected = one.predict_proba(new)
    for other in others:
        np.testing.assert_array_equal(other.predict_proba(new), expected)


# -- the threads themselves ---------------------------------------------------------------------


def test_n_jobs_is_the_number_of_threads() -> None:
    with parallel_config(n_jobs=1):  # what None means is joblib's to decide
        assert [n_threads(n_jobs) for n_jobs in (None, 1, 2, 7)] == [1, 1, 2, 7]
    assert n_threads(100_000) < 10_000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux lists the threads of a process")
def test_kernel_sums_start_threads() -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 10))
    kernel, coef = Kernel("rbf", 1.0), np.ones((1, 2000))

    def most_threads(n_jobs: int) -> int:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(int).result()  # its thread is there
            time.sleep(0.2)  # the threads of other tests have ended
            before = most = len(list(Path("/proc/self/task").iterdir()))
            running = pool.submit(kernel.sum, X, X[:2000], coef, n_jobs=n_jobs)
            while not running.done():
                most = max(most, len(list(Path("/proc/self/task").iterdir())))
        return most - before

    assert most_threads(1) == 0
    # Two and the caller; the sum is computed in blocks, and threads of the block before may be about to end.
    assert 2 <= most_threads(3) <= 4


def test_a_pool_without_threads_calls_the_functions_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    begun: list[int] = []
    with ThreadPool(4) as pool:
        pool.submit(int).result()  # one thread starts, the others do not
        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert list(pool.map(lambda k: begun.append(k) or k * k, range(20))) == [k * k for k in range(20)]
    assert sorted(begun) == list(range(20))
    with ThreadPool(4) as pool:
        assert list(pool.map(lambda k: k * k, range(5))) == [0, 1, 4, 9, 16]
        with pytest.raises(ZeroDivisionError):
            pool.submit(lambda: 1 // 0).result()


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads() -> Iterator[None]:
    def limit(threads: int) -> None:  # by a thread that ends, so that threadpoolctl lets any other one set it
        thread = threading.Thread(target=threadpool_limits, args=(threads, "blas"))
        thread.start()
        thread.join()

    if len(before := blas_threads()) != 1:
        pytest.skip("no BLAS whose number of threads can be set")
    limit(2)
    yield
    limit(*before)


def test_limits_of_blas_that_overlap_are_restored(two_blas_threads: None) -> None:
    """A pass over blocks begins, a fit begins in another thread, the pass ends, then the fit."""
    inside, leave = threading.Event(), threading.Event()

    def hold(block: Any) -> float:
        inside.set()
        leave.wait(60)
        return float(len(block))

    source = ArraySource(np.zeros((10, 1)), np.arange(10) % 2)
    with ThreadPoolExecutor(1) as pool:
        assert blas_threads() == {2}
        rows = pool.submit(LocalBlocks(source).sum, hold)
        assert inside.wait(60)
        with ordered_threads(1):
            leave.set()
            rows.result()
            assert blas_threads() == {1}
        assert blas_threads() == {2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_forked_child_does_not_inherit_a_limit_of_blas(two_blas_threads: None) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with ordered_threads(1):
            entered.set()
            leave.wait(60)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        assert entered.wait(60)
        if (child := os.fork()) == 0:
            with ordered_threads(1):
                pass
            os._exit(0 if blas_threads() == {2} else 1)
        leave.set()
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
def test_calls_of_one_inner_solver_are_serialised() -> None:
    X, y = make_moons(3000, noise=0.3, random_state=0)
    rows = _core.compact_rows(X, y.astype(np.int32), np.ones(len(y)), 2, False)
    inner = _core.CompactInner(rows, 2)

    def solve(seed: int) -> np.ndarray:
        inner.move(X[:30].copy(), np.ones(2))
        coef = np.zeros((1, 31))
        for _ in range(20):
            coef[:] = 0
            inner.solve(coef, 1.0, 1e-12, 100)
            inner.gradient(1.0)
        return coef

    for together, alone in zip(in_threads(solve), map(solve, range(N_THREADS)), strict=True):
        np.testing.assert_allclose(together, alone, rtol=0, atol=1e-4 * np.abs(alone).max())
