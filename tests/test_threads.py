"""Threads change nothing: in a fit, or where several fits run at once in one process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from sparseklr import Settings, SparseKLR, _core, solve_dual
from sparseklr.dual.problem import DualProblem
from sparseklr.dual.solver import Solution, solve_above_bound
from sparseklr.kernels import Kernel

pytestmark = pytest.mark.numerical

N_THREADS = 8


def in_threads(job: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(job, range(N_THREADS)))


@pytest.mark.parametrize("calibration", ["refit", "sigmoid"])
def test_fits_on_data_of_their_own(calibration: str) -> None:
    def fit(seed: int) -> np.ndarray:
        X, y = make_moons(150, noise=0.3, random_state=seed)
        return SparseKLR(C=100, calibration=calibration).fit(X, y).predict_proba(X)

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


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
def test_a_solve_is_the_same_with_any_number_of_threads(as_given: Callable[[Any], Any]) -> None:
    X, y = make_moons(9001, noise=0.4, random_state=0)  # several pieces for each thread
    runs = [
        SparseKLR(C=10, gamma=1.0, calibration=None, max_iter=2000, n_jobs=n_jobs) for n_jobs in (1, 2, 3)
    ]
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


def test_solves_on_one_row_source() -> None:
    """The cache holds a twentieth of the rows, so that the threads would take them from one another."""
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
