"""Several fits at once, in threads of one process: the same as one after the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_moons

from sparseklr import Settings, SparseKLR, solve_dual
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
