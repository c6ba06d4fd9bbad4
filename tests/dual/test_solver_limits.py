"""The solver at its limits: extreme weights, overflow, invalid arrays, interruptions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from sparseklr import SKLR, SparseKLR, _core, klr_path
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR
from sparseklr.dual import Settings, Status, smo, solve_dual
from sparseklr.dual.problem import DualProblem
from sparseklr.dual.smo import solve_above_bound
from sparseklr.kernels import gram_row_source

pytestmark = pytest.mark.numerical

# -- extreme weights ----------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    exponents=st.sampled_from(
        [(-45, -45), (-45, 0), (-280, 0), (-100, 50), (-30, 25), (-280, -270), (0, 50)]
    ),
    working_set=st.sampled_from(["mixed", "second-order"]),
)
def test_weights_of_any_size(seed: int, exponents: tuple[int, int], working_set: str) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1, -1
    K = rbf_kernel(X, gamma=0.5)
    box = 10.0 ** rng.uniform(*exponents, n)
    rules = Settings(working_set, tol=1e-3, max_iter=100_000)
    problem = DualProblem(y, box, rules.bounds(box), 0.1)
    zero = np.zeros(n)
    solution = solve_above_bound(gram_row_source(K), problem, rules, above=zero, F=zero)
    rounding = 1e-12 * solution.alpha.sum()
    if solution.status is Status.STALLED:  # digits of alpha itself are larger than the tolerance
        assert 1e-11 * box.max() > 1e-3
        return
    assert solution.status is Status.OPTIMAL
    violation = problem.kkt_violation(problem.alpha_above(solution.alpha), K @ (solution.alpha * y))
    assert violation <= 1.001e-3 + rounding + 1e-6  # 1e-6: what alpha alone says of its distance to the box


@pytest.mark.parametrize("seed", [0, 1, 5, 6, 7])
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*saturation:UserWarning"
)
def test_no_false_certificate_after_loss_of_digits(seed) -> None:
    """With a constant kernel F is constant; starts of size 1e65 leave rounding errors in the iterates."""
    rng = np.random.default_rng(seed)
    weight, y = 10.0 ** rng.uniform(-90, 85, 12), np.arange(12) % 2
    path = klr_path(np.ones((12, 1)), y, Cs=[3e4], lams=[0, 0.1, 0.5, 1.0], sample_weight=weight, tol=1e-3)
    optimal = [solution for solution in path.solutions.flat if solution.status is Status.OPTIMAL]
    assert all(np.ptp(solution.F) <= 1 for solution in optimal)


@pytest.mark.parametrize("lam", [1e-3, 1e6, 1e12, 1e17])
def test_a_huge_margin_preserves_the_digits_of_F(lam: float) -> None:
    """F is the start for a smaller margin, where the rounding errors of a huge margin would matter."""
    rng = np.random.default_rng(0)
    K, y = rbf_kernel(rng.normal(size=(30, 2))), np.where(rng.random(30) < 0.5, 1.0, -1.0)
    box = 10.0 ** rng.uniform(-17, 3, 30)
    problem = DualProblem(y, box, 1e-9 * box, lam)
    zero = np.zeros(30)
    solution = solve_above_bound(gram_row_source(K), problem, Settings(), above=zero, F=zero)
    assert solution.status is Status.OPTIMAL
    F = K @ (solution.alpha * y)
    np.testing.assert_allclose(solution.F, F, rtol=0, atol=1e-5 + 1e-12 * solution.alpha.sum())
    plain = replace(problem, lam=0.0)
    then = solve_above_bound(gram_row_source(K), plain, Settings(), above=solution.alpha, F=solution.F)
    assert then.status is Status.OPTIMAL
    # 1e-6: what alpha alone says of its distance to the box
    assert plain.kkt_violation(plain.alpha_above(then.alpha), K @ (then.alpha * y)) <= 2e-5 + 1e-6


def test_paths_do_not_continue_from_a_stalled_solution(monkeypatch) -> None:
    """The rounding errors in F of a stalled solution would otherwise persist in all later solutions."""
    starts = []

    def solve(*args, above: np.ndarray, **kwargs) -> smo.Solution:
        starts.append(above)
        status = Status.STALLED if len(starts) == 1 else Status.OPTIMAL
        return replace(solve_above_bound(*args, above=above, **kwargs), status=status)

    monkeypatch.setattr("sparseklr.dual.path.solve_above_bound", solve)
    with pytest.warns(ConvergenceWarning):
        klr_path(*make_moons(40, random_state=0), Cs=[10.0], lams=[1.0, 0.5, 0.2])
    assert not starts[1].any()
    assert starts[2].any()


def test_a_bound_below_rounding() -> None:
    """C - bound rounds to C; a warm start at the end of the box must still be valid."""
    rng = np.random.default_rng(0)
    K = rbf_kernel(rng.normal(size=(40, 2)))
    y = np.where(rng.random(40) < 0.5, 1, -1)
    first = solve_dual(K, y, C=1.0, lam=50.0, bound=1e-20)
    again = solve_dual(K, y, C=1.0, lam=50.0, bound=1e-20, alpha0=first.alpha)
    assert first.status is again.status is Status.OPTIMAL
    assert again.n_iter <= 2


@pytest.mark.parametrize("model", [SKLR(), SparseKLR(), ImportVectorMachine(), HalfKLR(), ThresholdedKLR()])
def test_weights_whose_squares_overflow_raise(model) -> None:
    X, y = np.arange(4.0)[:, None], [0, 1, 0, 1]
    with pytest.raises(ValueError, match="sample_weight must be at most 1e\\+150; got 1e\\+200"):
        model.fit(X, y, sample_weight=[1, 1, 1, 1e200])
    if "class_weight" in model.get_params():
        heavy = clone(model).set_params(class_weight={0: 1.0, 1: 1e100})
        with pytest.raises(ValueError, match="class_weight times sample_weight must be at most 1e\\+150"):
            heavy.fit(X, y, sample_weight=[1, 1e100, 1, 1])


@pytest.mark.parametrize("model", [ImportVectorMachine(), HalfKLR()])
@pytest.mark.parametrize("C", [1e-100, 1e100])
def test_objectives_that_overflow_raise(model, C) -> None:
    with pytest.raises(ValueError, match="C times the largest sample_weight must lie between"):
        clone(model).set_params(C=C).fit(np.arange(4.0)[:, None], [0, 1, 0, 1])


# -- arguments and results ----------------------------------------------------------------------


def test_a_solution_that_overflows_is_an_error() -> None:
    K = np.array([[1e300, 0.0], [0.0, 1e300]])
    with pytest.raises(ValueError, match="overflow"):
        solve_dual(K, [1, -1], C=1e200, lam=1e200)
    with pytest.raises(ValueError, match="C times sample_weight"):
        solve_dual(np.eye(2), [1, -1], C=1.0, lam=0.0, sample_weight=[1.0, 1e-310])
    for nonsense in ([], "1", None):
        with pytest.raises(ValueError, match="lam must be a number >= 0"):
            solve_dual(np.eye(2), [1, -1], C=1.0, lam=nonsense)
        with pytest.raises(ValueError, match="C must be a positive number"):
            solve_dual(np.eye(2), [1, -1], C=nonsense, lam=1.0)
    for name in ("tol", "max_iter", "bound"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            solve_dual(np.eye(2), [1, -1], C=1.0, lam=1.0, **{name: []})
    with pytest.raises(ValueError, match=r"bound=None \(1e-09 times C and sample_weight\) is infeasible"):
        solve_dual(np.eye(2), [1, -1], C=1.0, lam=0.0, sample_weight=[1.0, 1e-20])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bound": np.zeros(2)}, "bound"),
        ({"bound": np.ones(2)}, "bound"),
        ({"box": np.array([1.0, np.inf])}, "bound"),
        ({"above": np.array([np.nan, 0.1])}, "finite"),
        ({"F": np.array([np.nan, 0.1])}, "finite"),
        ({"F": np.zeros(3)}, "one entry"),
    ],
)
def test_the_solver_checks_its_arrays(change: dict, message: str) -> None:
    arrays = {
        "y": np.array([1.0, -1.0]),
        "box": np.ones(2),
        "bound": np.full(2, 0.1),
        "lam": 0.0,
        "above": np.zeros(2),
        "F": np.zeros(2),
    } | change
    rules = _core.Settings(_core.WorkingSet.mixed, 1e-3, 100, 1, 0.05)
    with pytest.raises(ValueError, match=message):
        _core.solve_in_place(_core.gram_row_source(np.eye(2)), *arrays.values(), rules, None)


# -- interruptions ------------------------------------------------------------------------------


def test_an_interruption_leaves_a_consistent_solution(monkeypatch) -> None:
    """The interruption may happen at any time: while most points are shrunk, or while F is updated."""
    monkeypatch.setattr(smo, "POLL_SECONDS", 0.0)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 2))  # well separated: most points settle at a bound
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=1500) > 0, 1.0, -1.0)
    K = rbf_kernel(X, gamma=1.0)
    box = np.full(1500, 1e4)
    problem = DualProblem(y, box, 1e-9 * box, 1e3)
    zero, source, rules = np.zeros(1500), gram_row_source(K), Settings(tol=1e-9)

    def solve(calls: int, above: np.ndarray = zero, F: np.ndarray = zero) -> smo.Solution:
        left = iter(range(calls))
        return solve_above_bound(
            source, problem, rules, above=above, F=F, callback=lambda _: next(left, None) is None
        )

    optimum = solve(10**9)
    assert optimum.status is Status.OPTIMAL
    assert optimum.n_iter > 4000  # long enough to have shrunk
    violation = problem.kkt_violation(problem.alpha_above(optimum.alpha), K @ (optimum.alpha * y))
    assert violation <= 1.01 * rules.tolerance(problem.lam)
    interrupted = 0
    for calls in range(1, 200):
        stopped = solve(calls)
        if stopped.status is Status.OPTIMAL:
            break
        interrupted += 1
        assert stopped.status is Status.INTERRUPTED
        np.testing.assert_allclose(stopped.F, K @ (stopped.alpha * y), atol=1e-6)
        assert abs(y @ stopped.alpha) <= 1e-8 * stopped.alpha.sum()
        violation = problem.kkt_violation(problem.alpha_above(stopped.alpha), stopped.F)
        assert stopped.kkt_violation == pytest.approx(violation, rel=1e-6)
        if calls % 10 == 0:
            goes_on = solve(10**9, stopped.alpha, stopped.F)
            assert goes_on.status is Status.OPTIMAL
            assert goes_on.dual_objective == pytest.approx(optimum.dual_objective, rel=1e-9)
    assert interrupted > 15
