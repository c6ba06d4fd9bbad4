"""The NumPy oracle: derivatives by finite differences, duality, projection."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from sparseklr.dual.problem import DualProblem

pytestmark = pytest.mark.numerical


def random_problem(seed: int, n: int = 12, lam: float = 0.7) -> tuple[DualProblem, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1, -1
    box = rng.uniform(0.5, 3, n)
    problem = DualProblem(y, box, 1e-6 * box, lam)
    return problem, A @ A.T / n, rng.uniform(0.1, 0.9, n) * box


@pytest.mark.parametrize("seed", range(5))
def test_gradient_is_the_derivative_of_the_dual(seed: int) -> None:
    problem, K, alpha = random_problem(seed)
    numeric = approx_fprime(alpha, lambda a: problem.dual_objective(a, K @ (a * problem.y)), 1e-7)
    np.testing.assert_allclose(
        problem.gradient(alpha, K @ (alpha * problem.y)), numeric, rtol=1e-4, atol=1e-4
    )


@given(seed=st.integers(0, 10**6), lam=st.floats(0, 50), intercept=st.floats(-5, 5))
def test_weak_duality(seed: int, lam: float, intercept: float) -> None:
    problem, K, alpha = random_problem(seed, lam=lam)
    alpha = problem.project(alpha)
    other = problem.project(alpha[::-1])
    primal = problem.primal_objective(other, K @ (other * problem.y), intercept)
    dual = problem.dual_objective(alpha, K @ (alpha * problem.y))
    assert primal + dual >= -1e-9 * (abs(primal) + abs(dual))


@given(seed=st.integers(0, 10**6), digits=st.integers(0, 250))
def test_projection_of_any_point_is_feasible(seed: int, digits: int) -> None:
    problem, _, alpha = random_problem(seed)
    nearest = problem.project(10.0**digits * (alpha - 0.5))
    assert (nearest >= problem.bound).all()
    assert (nearest <= problem.box - problem.bound).all()
    assert abs(problem.y @ nearest) <= 1e-6 * problem.box.sum()


@given(seed=st.integers(0, 10**6), scale=st.floats(1e-3, 1e3))
def test_projection_is_feasible_and_nearest(seed: int, scale: float) -> None:
    problem, _, alpha = random_problem(seed)
    alpha = scale * (alpha - 0.5)
    nearest = problem.project(alpha)
    assert abs(problem.y @ nearest) <= 1e-12 * problem.box.sum()
    assert (nearest >= problem.bound * (1 - 1e-9)).all()
    assert (nearest <= (problem.box - problem.bound) * (1 + 1e-12)).all()
    # the optimality condition of a projection: no feasible point lies at an obtuse angle
    other = problem.project(np.random.default_rng(seed + 1).uniform(0, problem.box))
    assert (alpha - nearest) @ (other - nearest) <= 1e-7 * scale * problem.box.sum()


@given(seed=st.integers(0, 10**6), low=st.integers(-280, 0), high=st.integers(0, 50))
def test_projection_of_points_with_boxes_of_any_size(seed: int, low: int, high: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.append([1.0, -1.0], rng.choice([-1.0, 1.0], 10))
    box = 10.0 ** rng.uniform(low, high, 12)
    problem = DualProblem(y, box, 1e-9 * box, 0.0)
    assume(problem.feasible)
    nearest = problem.project(rng.normal(size=12) * rng.permutation(box))
    assert abs(y @ nearest) <= 1e-12 * nearest.sum()
    assert ((nearest >= 0) & (nearest <= box)).all()


def test_gradient_and_objective_are_finite_at_both_ends_of_the_box() -> None:
    y = np.array([1.0, -1.0])
    problem = DualProblem(y, np.ones(2), np.full(2, 1e-300), 1e4)
    assert problem.dual_objective(np.array([0.0, 1.0]), np.zeros(2)) == -1e4
    for f in (-1e6, 0.0, 1e6):
        assert np.isfinite(problem.primal_objective(np.ones(2), np.full(2, f), 0.0))
        alpha = problem.alpha_of(np.full(2, f))
        assert ((alpha >= 0) & (alpha <= 1)).all()


def test_feasibility() -> None:
    y = np.array([1.0] + [-1.0] * 20)
    box = np.full(21, 1e-4)
    assert DualProblem(y, box, 0.01 * box, 0.0).feasible
    assert not DualProblem(y, box, 0.1 * box, 0.0).feasible  # 20 bounds exceed one box
