"""Properties of the solution as a function of the margin, checked against the solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from support.reference import rho
from support.standins import needs_published

from sparseklr.dual import DualProblem, margins, solve_dual
from sparseklr.dual.margins import nu_limit, saturation_bound, support_band

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
def test_minority_is_saturated_at_and_above_the_bound(problem, fraction: float, factor: float) -> None:
    K, y, C, weight = problem
    gamma = fraction * C
    lam = factor * saturation_bound(K, y, C, gamma, sample_weight=weight)
    alpha = solve_dual(K, y, C=C, lam=lam, sample_weight=weight, tol=1e-9, scale_tol=False).alpha
    slack = (weight * C - alpha) / weight
    few = minority(y, weight)
    assert slack[few].max() <= gamma * (1 + 1e-6) + 1e-8 * C
    if weight[few].sum() == weight[~few].sum():
        assert slack.max() <= gamma * (1 + 1e-6) + 1e-8 * C


def simple_bound(K: np.ndarray, y: np.ndarray, C: float, gamma: float) -> float:
    """A looser bound for K >= 0, in which all pairs of points have the largest load."""
    few = minority(y, np.ones(len(y)))
    own = K[np.ix_(few, few)].sum(axis=1).max()
    other = np.sort(K[np.ix_(~few, ~few)], axis=1)[:, -few.sum() :].sum(axis=1).max()
    return (C * (own + other) + logit(1 - gamma / C) + logit(1 - gamma / (C * (~few).sum()))) / 2


@given(problems(), st.integers(0, 1))
def test_bound_is_tighter_than_the_simple_one(problem, pairwise: int) -> None:
    K, y, C, _ = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(margins, "_PAIRWISE", pairwise * margins._PAIRWISE)
        bound = saturation_bound(np.abs(K), y, C, 1e-5 * C)
    few = minority(y, np.ones(len(y)))
    sides = [y] if few.sum() < (~few).sum() else [y, -y]
    assert bound <= max(simple_bound(np.abs(K), side, C, 1e-5 * C) for side in sides) + 1e-6


@given(problems())
def test_pairwise_bound_is_tighter_than_the_bound_for_many_points(problem) -> None:
    K, y, C, weight = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(margins, "_PAIRWISE", 0)
        loose = saturation_bound(K, y, C, sample_weight=weight)
    assert saturation_bound(K, y, C, sample_weight=weight) <= loose + 1e-9


def paper_saturation_bound(K: np.ndarray, y: np.ndarray, gamma: float) -> float:
    """Proposition 1 of the paper for C = 1: max over i in I_- of sum_j (1 - gamma - alpha_j(0)) y_j K_ij.

    The proof loses the sign y_i, and takes every majority variable to reach its box. I_- is the minority
    class; labels are exchanged if it is the positive one.
    """
    y = -y if (y > 0).sum() < (y < 0).sum() else y
    alpha = solve_dual(K, y, C=1.0, lam=0.0).alpha
    return float((K[y < 0] @ ((1 - gamma - alpha) * y)).max())


@pytest.mark.parametrize(
    ("name", "paper", "true", "ours"),
    [pytest.param("sonar", 3.9, 13.9, 20.6, marks=needs_published), ("monk2", 16.3, 29.5, 44.5)],
)
def test_saturation_bounds_where_proposition_1_fails(benchmark, name, paper, true, ours) -> None:
    """Erratum 5: Proposition 1 as printed is below the margin at which saturation begins."""
    X, y = benchmark(name)
    K, gamma = rbf_kernel(X, gamma=0.5), 1e-5
    few = minority(y, np.ones(len(y)))

    def least(lam: float) -> float:
        return solve_dual(K, y, C=1.0, lam=lam, tol=1e-9, scale_tol=False).alpha[few].min()

    printed, bound = paper_saturation_bound(K, y, gamma), saturation_bound(K, y, 1.0, gamma)
    assert printed == pytest.approx(paper, abs=0.05)
    assert bound == pytest.approx(ours, abs=0.05)
    assert least(printed) < 1 - gamma
    assert least(0.98 * true) < 1 - gamma <= least(1.02 * true)
    assert least(bound) >= 1 - gamma


@pytest.mark.slow
@given(problems())
def test_alpha_sum_grows_with_lam_up_to_its_limit(problem) -> None:
    K, y, C, weight = problem
    sums, alpha0 = np.empty(5), None
    for k, lam in enumerate([0.0, 0.5, 2.0, 10.0, 1e3 * C * (1 + np.abs(K).max() * len(y))]):
        alpha0 = solve_dual(K, y, C=C, lam=lam, sample_weight=weight, alpha0=alpha0, tol=1e-9).alpha
        sums[k] = alpha0.sum()
    limit = nu_limit(y, C=C, sample_weight=weight)
    assert np.all(np.diff(sums) >= -1e-6 * C * len(y))
    assert np.all(sums <= limit * (1 + 1e-9))
    assert sums[-1] == pytest.approx(limit, rel=1e-5)


@given(problems(), st.sampled_from([0.0, 0.7, 5.0]))
def test_alpha_is_inside_its_box_and_rho_is_lam(problem, lam: float) -> None:
    K, y, C, weight = problem
    solution = solve_dual(K, y, C=C, lam=lam, sample_weight=weight, tol=1e-9)
    assert np.all((solution.alpha > 0) & (solution.alpha < C * weight))
    assert rho(solution, y, C=C, sample_weight=weight) == pytest.approx(lam, abs=1e-6)


def test_bound_is_finite_for_tiny_weights() -> None:
    K, y = np.eye(4), np.array([-1, -1, 1, 1])
    with np.errstate(all="raise", under="ignore"):
        bound = saturation_bound(K, y, C=1e-15, sample_weight=[1.0, 1e6, 1e-300, 1e-305])
    assert np.isfinite(bound)


def test_points_of_weight_zero_are_ignored() -> None:
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
        ({"y": [1, 1, 1]}, "y must contain both labels -1 and"),
        ({"C": -1.0}, "C must be a positive number; got -1.0"),
        ({"tol": 2.0}, "tol must lie between 0 and C=1; got 2.0"),
        ({"K": np.ones((3, 2))}, r"K must be a square kernel matrix; its shape is \(3, 2\)"),
        ({"sample_weight": [1, -1, 1]}, "sample_weight must be non-negative; got a weight of -1"),
        ({"sample_weight": [1, 1, 0]}, "sample_weight must contain positive weights of both classes"),
    ],
)
def test_invalid_input_raises(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        saturation_bound(**{"K": np.eye(3), "y": [-1, -1, 1], "C": 1.0} | arguments)


# -- which points are kept ------------------------------------------------------------------------


@given(
    problems(),
    st.sampled_from([0.0, 0.5, 5.0, 100.0]),
    st.sampled_from([None, 1e-9, 1e-4, 0.02]),
    st.booleans(),
)
def test_kept_points_are_those_below_the_band(problem, lam: float, fraction, scale_tol: bool) -> None:
    """Every point is on the side of the band that its dual variable says, up to the certified violation."""
    K, y, C, weight = problem
    box = C * weight
    bound = None if fraction is None else fraction * C
    solution = solve_dual(
        K, y, C=C, lam=lam, sample_weight=weight, bound=bound, tol=1e-7, scale_tol=scale_tol
    )
    lower, upper = support_band(box, lam, bound)
    error = abs(solution.kkt_violation) + 1e-12 * (1 + np.abs(solution.F).max())  # and rounding of F
    margin = y * solution.decision
    kept = np.isin(np.arange(len(y)), solution.support)
    assert (margin[kept] <= upper[kept] + error).all()
    assert (margin[~kept] >= upper[~kept] - error).all()
    least = 1e-9 * box if bound is None else bound
    full = solution.alpha >= box - least
    # box - alpha, whose logarithm determines the margin, is rounded
    error = error + 4 * np.finfo(float).eps * box / least
    assert (margin - lower <= error)[full].all()
    assert (margin - lower >= -error)[~full].all()


@given(st.floats(1e-4, 1e4), st.floats(0, 1e3), st.sampled_from([1e-9, 1e-5, 0.1]))
def test_dual_variables_reach_their_bounds_at_the_ends_of_the_band(
    C: float, lam: float, fraction: float
) -> None:
    ends = np.array(support_band(C, lam, fraction * C))
    problem = DualProblem(np.ones(2), np.full(2, C), np.full(2, fraction * C), lam)
    # lam + w has the rounding error of lam + w, by which the exponent is wrong
    error = 4 * np.finfo(float).eps * (1 + np.abs(ends).max())
    np.testing.assert_allclose(C - problem.alpha_of(ends)[0], fraction * C, rtol=error, atol=4e-16 * C)
    np.testing.assert_allclose(problem.alpha_of(ends)[1], fraction * C, rtol=error)


@given(problems(), st.sampled_from([0.5, 5.0, 100.0]))
def test_sum_of_dual_variables_bounds_the_number_of_points(problem, lam: float) -> None:
    """With nu = sum alpha: nu / C <= kept points, and points inside the margin <= 2 nu / C."""
    K, y, C, _ = problem
    solution = solve_dual(K, y, C=C, lam=lam, tol=1e-8)
    nu, inside = solution.alpha.sum(), int((y * solution.decision < lam - 1e-6 * lam).sum())
    assert inside <= 2 * nu / C + 1e-9
    assert len(solution.support) >= (nu - len(y) * 1e-9 * C) / C


@pytest.mark.parametrize("lam", [100.0, 1000.0])
def test_points_are_predicted_by_a_support_vector_machine(lam: float) -> None:
    X, labels = make_moons(300, noise=0.3, random_state=0)
    y, box, bound = 2 * labels - 1, 10.0, 1e-5
    solution = solve_dual(rbf_kernel(X, gamma=1.0), y, C=box * lam, lam=lam, bound=bound)
    svm = SVC(C=box, gamma=1.0, tol=1e-6).fit(X, labels)
    margin = y * svm.decision_function(X)
    upper = support_band(box * lam, lam, bound)[1] / lam
    near = np.abs(solution.decision / lam - svm.decision_function(X)).max()
    assert near < 20 / lam  # f / lam tends to the machine
    kept = np.isin(np.arange(len(y)), solution.support)
    assert kept[margin < upper - near].all()
    assert not kept[margin > upper + near].any()
    assert len(svm.support_) < len(solution.support) < len(y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"C": 0.0, "lam": 1.0}, "C must be positive"),
        ({"C": np.array([1.0, np.inf]), "lam": 1.0}, "C must be positive and finite"),
        ({"C": 1.0, "lam": -1.0}, "lam must be a number >= 0"),
        ({"C": 1.0, "lam": np.nan}, "lam must be a number >= 0"),
        ({"C": 1e-5, "lam": 1.0, "bound": 1e-5}, "bound must be positive and less than C / 2"),
        ({"C": 1.0, "lam": 1.0, "bound": 0.0}, "bound must be positive"),
    ],
)
def test_band_needs_a_box(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        support_band(**arguments)
