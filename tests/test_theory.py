"""The statements of theory.py against the solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit
from sklearn.metrics.pairwise import rbf_kernel
from standins import needs_published

from sparseklr import solve_dual
from sparseklr.dual import theory
from sparseklr.dual.theory import alpha_sums, nu_limit, paper_saturation_bound, rho, saturation_bound

pytestmark = pytest.mark.numerical


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """K (rbf, or linear with entries of both signs), y, C and weights."""
    n_min, n_more = draw(st.integers(1, 6)), draw(st.integers(0, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = 2 * n_min + n_more
    X = rng.normal(size=(n, 2)) * draw(st.sampled_from([0.3, 1.0, 3.0]))
    y = np.ones(n)
    y[:n_min] = -1
    y *= draw(st.sampled_from([-1, 1]))
    K = rbf_kernel(X, gamma=0.5) if draw(st.booleans()) else X @ X.T + 1e-3 * np.eye(n)
    weight = rng.integers(1, 4, n).astype(float) if draw(st.booleans()) else np.ones(n)
    return K, y, draw(st.sampled_from([0.1, 1.0, 20.0])), weight


def minority(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return y == (1 if weight[y > 0].sum() < weight[y < 0].sum() else -1)


@given(problems(), st.sampled_from([1e-2, 1e-4]), st.sampled_from([1.0, 1.3, 10.0]))
def test_minority_is_saturated_from_the_bound_on(problem, share: float, factor: float) -> None:
    K, y, C, weight = problem
    gamma = share * C
    lam = factor * saturation_bound(K, y, C, gamma, sample_weight=weight)
    alpha = solve_dual(K, y, C=C, lam=lam, sample_weight=weight, tol=1e-9, scale_tol=False).alpha
    slack = (weight * C - alpha) / weight
    few = minority(y, weight)
    assert slack[few].max() <= gamma * (1 + 1e-6) + 1e-8 * C
    if weight[few].sum() == weight[~few].sum():
        assert slack.max() <= gamma * (1 + 1e-6) + 1e-8 * C


def simple_bound(K: np.ndarray, y: np.ndarray, C: float, gamma: float) -> float:
    """The looser bound of the docstring, for K >= 0."""
    few = minority(y, np.ones(len(y)))
    own = K[np.ix_(few, few)].sum(axis=1).max()
    other = np.sort(K[np.ix_(~few, ~few)], axis=1)[:, -few.sum() :].sum(axis=1).max()
    return (C * (own + other) + logit(1 - gamma / C) + logit(1 - gamma / (C * (~few).sum()))) / 2


@given(problems(), st.integers(0, 1))
def test_bound_is_tighter_than_the_simple_one(problem, pairwise: int) -> None:
    K, y, C, _ = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theory, "_PAIRWISE", pairwise * theory._PAIRWISE)
        bound = saturation_bound(np.abs(K), y, C, 1e-5 * C)
    few = minority(y, np.ones(len(y)))
    sides = [y] if few.sum() < (~few).sum() else [y, -y]
    assert bound <= max(simple_bound(np.abs(K), side, C, 1e-5 * C) for side in sides) + 1e-6


@given(problems())
def test_bound_over_pairs_is_tighter_than_that_for_many_points(problem) -> None:
    K, y, C, weight = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theory, "_PAIRWISE", 0)
        loose = saturation_bound(K, y, C, sample_weight=weight)
    assert saturation_bound(K, y, C, sample_weight=weight) <= loose + 1e-9


@pytest.mark.parametrize(
    ("name", "paper", "true", "ours"),
    [pytest.param("sonar", 3.9, 13.9, 20.6, marks=needs_published), ("monk2", 16.3, 29.5, 44.5)],
)
def test_bounds_on_the_sets_where_the_papers_fails(benchmark, name, paper, true, ours) -> None:
    """Erratum 5: Proposition 1 as printed is below the margin at which saturation sets in."""
    X, y = benchmark(name)
    K, gamma = rbf_kernel(X, gamma=0.5), 1e-5
    few = minority(y, np.ones(len(y)))

    def least(lam: float) -> float:
        return solve_dual(K, y, C=1.0, lam=lam, tol=1e-9, scale_tol=False).alpha[few].min()

    printed, bound = paper_saturation_bound(K, y, 1.0, gamma), saturation_bound(K, y, 1.0, gamma)
    assert printed == pytest.approx(paper, abs=0.05)
    assert bound == pytest.approx(ours, abs=0.05)
    assert least(printed) < 1 - gamma
    assert least(0.98 * true) < 1 - gamma <= least(1.02 * true)
    assert least(bound) >= 1 - gamma


@given(problems())
def test_alpha_sum_grows_with_lam_up_to_its_limit(problem) -> None:
    K, y, C, weight = problem
    lams = np.array([10.0, 0.0, 0.5, 2.0, 1e3 * C * (1 + np.abs(K).max() * len(y))])
    sums = alpha_sums(K, y, C=C, lams=lams, sample_weight=weight, tol=1e-9)
    limit = nu_limit(y, C=C, sample_weight=weight)
    assert np.all(np.diff(sums[np.argsort(lams)]) >= -1e-6 * C * len(y))
    assert np.all(sums <= limit * (1 + 1e-9))
    assert sums[-1] == pytest.approx(limit, rel=1e-5)


@given(problems(), st.sampled_from([0.0, 0.7, 5.0]))
def test_alpha_is_inside_its_box_and_rho_is_lam(problem, lam: float) -> None:
    K, y, C, weight = problem
    solution = solve_dual(K, y, C=C, lam=lam, sample_weight=weight, tol=1e-9)
    assert np.all((solution.alpha > 0) & (solution.alpha < C * weight))
    assert rho(solution, y, C=C, sample_weight=weight) == pytest.approx(lam, abs=1e-6)


def test_bound_for_weights_next_to_the_smallest_number() -> None:
    K, y = np.eye(4), np.array([-1, -1, 1, 1])
    with np.errstate(all="raise", under="ignore"):
        bound = saturation_bound(K, y, C=1e-15, sample_weight=[1.0, 1e6, 1e-300, 1e-305])
    assert np.isfinite(bound)


def test_weights_of_zero_do_not_count() -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    y, weight = np.repeat([-1, 1], [5, 7]), np.ones(12)
    weight[[0, 8]] = 0
    K, keep = rbf_kernel(X), weight > 0
    weighted = saturation_bound(K, y, 2.0, sample_weight=weight)
    assert weighted == pytest.approx(saturation_bound(K[np.ix_(keep, keep)], y[keep], 2.0))
    assert nu_limit(y, C=2.0, sample_weight=weight) == nu_limit(y[keep], C=2.0) == 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [1, 1, 1]}, "y must hold the labels -1 and"),
        ({"C": -1.0}, "C must be a positive number; got -1.0"),
        ({"tol": 2.0}, "tol must lie between 0 and C=1; got 2.0"),
        ({"K": np.ones((3, 2))}, r"K must be a square kernel matrix; its shape is \(3, 2\)"),
        ({"sample_weight": [1, -1, 1]}, "sample_weight must be non-negative; got a weight of -1"),
        ({"sample_weight": [1, 1, 0]}, "sample_weight must leave points of both classes"),
    ],
)
def test_bad_input_is_named(arguments, message) -> None:
    given = {"K": np.eye(3), "y": [-1, -1, 1], "C": 1.0} | arguments
    for bound in (saturation_bound, paper_saturation_bound):
        with pytest.raises(ValueError, match=message):
            bound(**given)


def test_rho_needs_a_point_inside_its_box() -> None:
    solution = solve_dual(np.eye(2), [-1, 1], C=1.0, lam=1e4)
    with pytest.raises(ValueError, match="no dual variable inside its box"):
        rho(solution, [-1, 1], C=1.0)
