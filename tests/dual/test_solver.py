"""Optimality of solve_dual: certificates, an independent solver, limits, warm starts, bad input."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from support.reference import decision_accuracy, largest_gap, primal_newton
from support.standins import available

from sparseklr.dual import Settings, Status, solve_dual
from sparseklr.dual.problem import DualProblem

pytestmark = pytest.mark.numerical

TIGHT = 1e-9


def draw_problem(seed: int, n: int, kernel: str, weighted: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[n // 2] = X[0]  # duplicates are part of life
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1, -1
    weight = rng.integers(1, 4, n) * rng.uniform(0.5, 2) if weighted else np.ones(n)
    parameters = {} if kernel == "linear" else {"gamma": 0.4}
    return pairwise_kernels(X, metric=kernel, **parameters), y, weight


problems = {
    "seed": st.integers(0, 10**6),
    "n": st.integers(2, 80),
    "kernel": st.sampled_from(["linear", "poly", "rbf", "laplacian"]),
    "weighted": st.booleans(),
    "log_C": st.floats(-4, 4),
    "share": st.sampled_from([0.0, 1e-3, 0.1, 1.0]),
}


@settings(max_examples=150)
@given(**problems, working_set=st.sampled_from(["mixed", "second-order", "first-order"]))
@example(90902, 37, "linear", True, 3.75, 1e-3, "second-order")  # stopped within rounding of a bound
def test_certificate(
    seed: int, n: int, kernel: str, weighted: bool, log_C: float, share: float, working_set: str
) -> None:
    """Status, violation and gap agree with values recomputed from alpha, whether or not the run converged."""
    K, y, weight = draw_problem(seed, n, kernel, weighted)
    C, cap = 10**log_C, 100_000
    solution = solve_dual(
        K, y, C=C, lam=share * C, sample_weight=weight, tol=1e-6, working_set=working_set, max_iter=cap
    )
    box = C * weight
    problem = DualProblem(y, box, 1e-9 * box, share * C)
    F, tolerance = K @ (solution.alpha * y), 1e-6 * max(1.0, share * C)
    # The solver also stores box - alpha, which may contain a distance to the bound that alpha has lost
    # to rounding.
    lost = 4 * np.finfo(float).eps * box
    least, violation = (
        DualProblem(y, box, bound, share * C).kkt_violation(solution.alpha, F)
        for bound in (problem.bound + lost, problem.bound - lost)
    )
    # of K @ alpha; and of logit(alpha / box), which loses what the nearer end of the box is small by
    rounding = 1e-13 * (np.abs(K).max() * solution.alpha.sum() + share * C + 1)
    used = box > 0
    room = np.minimum(solution.alpha, box - solution.alpha)[used]
    rounding += 4 * np.finfo(float).eps * (box[used] / room).max()
    assert least - 2 * rounding <= solution.kkt_violation <= violation + 2 * rounding
    if solution.status is Status.OPTIMAL:
        assert solution.kkt_violation <= tolerance
    else:
        assert solution.status is Status.MAX_ITER
        assert solution.n_iter == cap
        assert solution.kkt_violation > tolerance
    gap = problem.gap(solution.alpha, F, solution.intercept)
    size = max(abs(solution.primal_objective), abs(solution.dual_objective))
    assert -1e-12 * size <= gap <= largest_gap(problem, solution.decision, violation) + 1e-12 * size
    assert abs(y @ solution.alpha) <= 1e-10 * box.sum()
    assert (solution.alpha >= problem.bound).all()
    assert (solution.alpha <= box - problem.bound).all()


@settings(max_examples=30)
@given(**{**problems, "kernel": st.sampled_from(["rbf", "laplacian"]), "log_C": st.floats(-4, 1)})
def test_converges(seed: int, n: int, kernel: str, weighted: bool, log_C: float, share: float) -> None:
    """Every working-set rule solves well-conditioned problems."""
    K, y, weight = draw_problem(seed, n, kernel, weighted)
    C = 10**log_C
    for working_set in ("mixed", "second-order", "first-order"):
        solution = solve_dual(K, y, C=C, lam=share * C, sample_weight=weight, working_set=working_set)
        assert solution.status is Status.OPTIMAL


@settings(max_examples=60)
@given(**{**problems, "n": st.integers(2, 40), "kernel": st.sampled_from(["linear", "rbf", "laplacian"])})
@example(4, 14, "linear", False, 4.0, 0.0)  # for 1000 steps, the smallest violation does not decrease
def test_agrees_with_primal_newton(
    seed: int, n: int, kernel: str, weighted: bool, log_C: float, share: float
) -> None:
    K, y, weight = draw_problem(seed, n, kernel, weighted)
    C = 10**log_C
    alpha, _, _ = primal_newton(K, y, C * weight, share * C)
    assume(abs(y @ alpha) <= 1e-6 * C)  # Newton's own certificate: at an extreme margin it may crawl
    solution = solve_dual(K, y, C=C, lam=share * C, sample_weight=weight, tol=TIGHT)
    assert solution.status is Status.OPTIMAL
    np.testing.assert_allclose(solution.alpha / (C * weight), alpha / (C * weight), atol=1e-4)


def test_cycle_of_rounding_errors_ends() -> None:
    """A tolerance below the attainable accuracy, at which the pair steps repeat."""
    X, y = load_iris(return_X_y=True)
    train = next(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))[0]
    K, y = X[train] @ X[train].T, np.where(y[train] == 1, 1.0, -1.0)
    solution = solve_dual(K, y, C=10, lam=0, tol=1e-14, max_iter=10**6)
    assert solution.status is Status.STALLED
    assert solution.kkt_violation < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", available("banknote", "diabetes", "ionosphere", "sonar"))
@pytest.mark.parametrize(("C", "lam"), [(1.0, 0.0), (100.0, 1.0), (1e4, 1e3)])
def test_real_data(name: str, C: float, lam: float, benchmark) -> None:
    X, y = benchmark(name)
    X, y = X[::4] if name == "waveform" else X, y[::4] if name == "waveform" else y
    K = rbf_kernel(X, gamma=0.5)
    box = np.full(len(y), C)
    problem = DualProblem(y, box, 1e-9 * box, lam)
    values, f = [], []
    for working_set in ("mixed", "first-order"):
        solution = solve_dual(K, y, C=C, lam=lam, tol=1e-7, working_set=working_set)
        assert solution.status is Status.OPTIMAL
        rounding = 1e-12 * abs(solution.primal_objective)
        allowed = largest_gap(problem, solution.decision, 1e-7 * max(1.0, lam)) + rounding
        assert -rounding <= solution.gap <= allowed
        values.append(solution.dual_objective)
        f.append(solution.decision)
    assert abs(values[0] - values[1]) <= allowed
    np.testing.assert_allclose(*f, atol=decision_accuracy(problem, 1e-7 * max(1.0, lam)))


def test_plain_klr_probabilities(benchmark) -> None:
    X, y = (a[::3] for a in benchmark("wisconsin"))
    K = rbf_kernel(X, gamma=0.5)
    _, f, _ = primal_newton(K, y, np.full(len(y), 10.0), 0.0)
    solution = solve_dual(K, y, C=10.0, lam=0.0, tol=1e-9)
    np.testing.assert_allclose(1 / (1 + np.exp(-solution.decision)), 1 / (1 + np.exp(-f)), atol=1e-6)


def test_becomes_an_svm_as_the_margin_grows() -> None:
    """log(1 + exp(lam - lam z)) / lam is within log(2) / lam of the hinge; so are the objectives."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=120) > 0, 1.0, -1.0)
    K = rbf_kernel(X, gamma=0.5)
    svc = SVC(C=2.0, kernel="precomputed", tol=1e-8).fit(K, y)

    def objective(coef: np.ndarray, intercept: float) -> float:
        f = K @ coef
        return float(0.5 * coef @ f + 2.0 * np.maximum(0, 1 - y * (f + intercept)).sum())

    coef = np.zeros(len(y))
    coef[svc.support_] = svc.dual_coef_[0]
    best = objective(coef, svc.intercept_[0])
    for lam in (1.0, 10.0, 1e3, 1e5):
        solution = solve_dual(K, y, C=2.0 * lam, lam=lam, tol=1e-6)
        ours = objective(solution.alpha * y / lam, solution.intercept / lam)
        assert (
            best * (1 - 1e-6) <= ours <= best + 2.0 * len(y) * np.log(2) / lam + solution.gap / lam**2 + 1e-6
        )


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.0, 1e-3, 1.0, 1e3]))
@settings(max_examples=30)
def test_warm_start_from_anywhere(seed: int, scale: float) -> None:
    K, y, _ = draw_problem(seed, 30, "rbf", False)
    cold = solve_dual(K, y, C=5.0, lam=1.0, tol=TIGHT)
    alpha0 = scale * np.random.default_rng(seed).normal(size=30)
    warm = solve_dual(K, y, C=5.0, lam=1.0, tol=TIGHT, alpha0=alpha0)
    np.testing.assert_allclose(warm.alpha, cold.alpha, atol=1e-6)
    assert solve_dual(K, y, C=5.0, lam=1.0, tol=1e-6, alpha0=cold.alpha).n_iter == 0


def test_zero_weight_equals_absence() -> None:
    K, y, _ = draw_problem(3, 40, "rbf", False)
    weight = np.ones(40)
    weight[5:15] = 0
    keep = weight > 0
    with_zeros = solve_dual(K, y, C=3.0, lam=0.5, sample_weight=weight, tol=TIGHT)
    without = solve_dual(K[np.ix_(keep, keep)], y[keep], C=3.0, lam=0.5, tol=TIGHT)
    np.testing.assert_allclose(with_zeros.alpha[keep], without.alpha, atol=1e-9)
    assert (with_zeros.alpha[~keep] == 0).all()
    np.testing.assert_allclose(with_zeros.F, K @ (with_zeros.alpha * y), atol=1e-9)


def test_shrinking_does_not_change_the_optimum() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2500, 2))  # well separated: most points settle at a bound
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=2500) > 0, 1.0, -1.0)
    K = rbf_kernel(X, gamma=1.0)
    solution = solve_dual(K, y, C=1e4, lam=1e3, tol=1e-6)
    problem = DualProblem(y, np.full(2500, 1e4), np.full(2500, 1e-5), 1e3)
    assert solution.n_iter > 2000  # long enough to have shrunk
    assert len(solution.support) < 800
    assert problem.kkt_violation(solution.alpha, K @ (solution.alpha * y)) <= 1.01e-3


def test_settings_of_the_paper() -> None:
    """The solver stops at a violation of 1e-5 or after 10000 steps; alpha stays 1e-5 inside its box."""
    K, y, _ = draw_problem(0, 80, "linear", False)
    ends = []
    for C in (1e-2, 1e6):  # the latter needs millions of steps
        solution = solve_dual(K, y, C=C, lam=0.0, **asdict(Settings.paper()))
        box = np.full(len(y), C)
        again = DualProblem(y, box, np.full(len(y), 1e-5), 0.0).kkt_violation(
            solution.alpha, K @ (solution.alpha * y)
        )
        rounding = 1e-13 * (1 + K.max() * solution.alpha.sum())
        assert abs(again - solution.kkt_violation) <= 2 * rounding
        assert (solution.alpha >= 1e-5).all()
        assert (solution.alpha <= C - 1e-5).all()
        ends.append((solution.status, solution.kkt_violation <= 1e-5, solution.n_iter == 10_000))
    assert ends == [(Status.OPTIMAL, True, False), (Status.MAX_ITER, False, True)]


def test_two_points() -> None:
    solution = solve_dual(np.eye(2), [1, -1], C=1.0, lam=0.0, tol=TIGHT)
    a = solution.alpha[0]
    assert solution.alpha[1] == a
    # stationarity: a + logit(a) = 0 for either point
    assert abs(a + np.log(a / (1 - a))) < 1e-8


def test_history_and_callback() -> None:
    K, y, _ = draw_problem(0, 60, "rbf", False)
    solution = solve_dual(K, y, C=1e3, lam=1.0, tol=1e-10)
    assert solution.history["n_iter"][-1] == solution.n_iter
    assert solution.history["violation"][-1] == solution.kkt_violation
    rng = np.random.default_rng(0)
    K = rbf_kernel(rng.normal(size=(1500, 4)), gamma=0.01)
    y = np.where(rng.random(1500) < 0.5, 1.0, -1.0)
    seen = []
    stopped = solve_dual(
        K, y, C=1e4, lam=0.0, tol=1e-12, callback=lambda record: seen.append(record.n_iter) or True
    )
    assert stopped.status is Status.INTERRUPTED
    assert len(seen) == 1
    with pytest.raises(ZeroDivisionError):
        solve_dual(K, y, C=1e4, lam=0.0, tol=1e-12, callback=lambda record: 1 / 0)


def test_indefinite_kernel_gives_a_finite_answer() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 30))
    solution = solve_dual(A + A.T, np.where(rng.random(30) < 0.5, 1, -1), C=10.0, lam=1.0, max_iter=10_000)
    assert solution.min_curvature < -0.01
    assert np.isfinite(solution.alpha).all()
    assert np.isfinite(solution.dual_objective)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"K": np.ones((2, 3))}, "square"),
        ({"K": np.array([[1.0, 2.0], [0.0, 1.0]])}, "symmetric"),
        ({"K": np.array([[1.0, np.nan], [np.nan, 1.0]])}, "NaN"),
        ({"y": [1, 1]}, "both"),
        ({"y": [0, 1]}, "-1"),
        ({"C": 0.0}, "C must be"),
        ({"C": np.inf}, "C must be"),
        ({"lam": -1.0}, "lam must be"),
        ({"tol": 0.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"bound": -1.0}, "bound must be"),
        ({"bound": 0.6}, "half of the smallest value of C"),
        ({"working_set": "third-order"}, "working_set must be"),
        ({"sample_weight": [1, -1]}, "non-negative"),
        ({"sample_weight": [1, 0]}, "both classes"),
        ({"alpha0": [np.nan, 0]}, "alpha0"),
        ({"alpha0": [1.0]}, "inconsistent"),
    ],
)
def test_bad_input(change: dict, message: str) -> None:
    arguments = {"K": np.eye(2), "y": [1, -1], "C": 1.0, "lam": 0.0} | change
    with pytest.raises(ValueError, match=message):
        solve_dual(arguments.pop("K"), arguments.pop("y"), **arguments)


def test_infeasible_bound_is_named() -> None:
    y = np.array([1.0] + [-1.0] * 20)
    with pytest.raises(ValueError, match="infeasible"):
        solve_dual(np.eye(21), y, C=1e-4, lam=0.0, bound=1e-5)
