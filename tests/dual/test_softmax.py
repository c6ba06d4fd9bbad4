"""The softmax problem: its specification, certificates, independent solvers, limits and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from sparseklr.dual import Settings, Status, solve_dual
from sparseklr.dual.problem import SoftmaxProblem
from sparseklr.dual.softmax import SoftmaxSolution, SoftmaxSolver, solve_masses
from sparseklr.kernels import Kernel, NonFiniteKernel, gram_row_source
from sparseklr.samples import Samples

pytestmark = pytest.mark.numerical


def draw(
    seed: int, n: int, n_classes: int, weighted: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A kernel matrix, class codes and weights; every class has a row and some rows are equal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[n // 2] = X[0]
    codes = (X[:, :2].sum(axis=1) + rng.normal(size=n) > rng.normal(size=(n_classes - 1, 1))).sum(axis=0)
    codes[:n_classes] = np.arange(n_classes)
    weight = rng.integers(1, 4, n) * rng.uniform(0.5, 2) if weighted else np.ones(n)
    return rbf_kernel(X, gamma=0.4), codes, weight


def solve(
    K: np.ndarray, codes: np.ndarray, C: float, lam: float, weight: np.ndarray | float = 1.0, **parameters
) -> SoftmaxSolution:
    chosen = Settings(**{"tol": 1e-6, **parameters})
    box = C * np.broadcast_to(weight, len(codes)).astype(float)
    problem = SoftmaxProblem(codes, int(codes.max()) + 1, box, chosen.bounds(box), lam)
    zero = np.zeros((problem.n_classes, len(codes)))
    return solve_masses(gram_row_source(K), problem, chosen, coef=zero, F=zero)


def solve_softmax(
    samples: Samples, C: float, lam: float, settings: Settings, start: np.ndarray | None = None, **parameters
) -> SoftmaxSolution:
    solver = SoftmaxSolver(samples, settings, **parameters)
    return solver.solve(solver.problem(C, lam), start)


def samples_of(X: np.ndarray, codes: np.ndarray, **kernel) -> Samples:
    n, classes = len(codes), np.arange(codes.max() + 1)
    return Samples(X, codes, classes, np.ones(n), np.arange(n), n, Kernel("rbf", **{"gamma": 0.4, **kernel}))


def random_coef(problem: SoftmaxProblem, seed: int) -> np.ndarray:
    """Feasible coefficients: random masses, made to sum to zero."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.05, 0.9, (problem.n_classes, len(problem.codes))) / problem.n_classes
    return problem.feasible_start(problem.coef_of_masses(share * problem.box))


# -- the specification ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_gradient_is_the_derivative_of_the_dual(seed: int) -> None:
    """Mass that moves between two classes changes the objective by the difference of their gradients."""
    K, codes, weight = draw(seed, 12, 3, True)
    problem = SoftmaxProblem(codes, 3, 2.0 * weight, 1e-13 * weight, 0.7)
    coef = random_coef(problem, seed)
    G = problem.gradient(coef, coef @ K)
    rng = np.random.default_rng(seed)
    for _ in range(10):
        i, (p, q), h = rng.integers(12), rng.choice(3, 2, replace=False), 1e-6
        values = []
        for sign in (1, -1):
            moved = coef.copy()
            moved[p, i] -= sign * h
            moved[q, i] += sign * h
            values.append(problem.dual_objective(moved, moved @ K))
        assert abs((values[0] - values[1]) / (2 * h) - (G[p, i] - G[q, i])) < 1e-6


@given(seed=st.integers(0, 10**6), lam=st.floats(0, 50), n_classes=st.integers(2, 5))
def test_weak_duality(seed: int, lam: float, n_classes: int) -> None:
    K, codes, weight = draw(seed, 14, n_classes, True)
    problem = SoftmaxProblem(codes, n_classes, weight, 1e-9 * weight, lam)
    one, other = random_coef(problem, seed), random_coef(problem, seed + 1)
    intercept = np.random.default_rng(seed).normal(size=n_classes)
    primal = problem.primal_objective(other, other @ K, intercept)
    dual = problem.dual_objective(one, one @ K)
    assert primal + dual >= -1e-12 * (abs(primal) + abs(dual))


@given(seed=st.integers(0, 10**6))
def test_a_pair_of_classes_is_a_binary_problem(seed: int) -> None:
    """Along a pair step, the objective of two classes and the binary one with the kernel 2 K change alike."""
    K, codes, weight = draw(seed, 10, 4, True)
    problem = SoftmaxProblem(codes, 4, 3.0 * weight, 1e-6 * weight, 1.3)
    coef = random_coef(problem, seed)
    rng = np.random.default_rng(seed)
    (i, j), (p, q) = rng.choice(10, 2, replace=False), rng.choice(4, 2, replace=False)
    binary, alpha, F = problem.pair(p, q, coef, coef @ K)
    G = problem.gradient(coef, coef @ K)
    np.testing.assert_allclose(binary.gradient(alpha, F), G[p] - G[q], rtol=1e-9, atol=1e-9)
    t = 0.5 * min(problem.masses(coef)[q, i], problem.masses(coef)[p, j])
    after, step = coef.copy(), t * (np.eye(10)[i] - np.eye(10)[j])
    after[p] -= step
    after[q] += step
    again = problem.gradient(after, after @ K)
    moved = binary.gradient(alpha + step, F + 2 * K @ step)
    np.testing.assert_allclose(moved[[i, j]], (again[p] - again[q])[[i, j]], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(after.sum(axis=1), coef.sum(axis=1), atol=1e-12)


@given(seed=st.integers(0, 10**6), n_classes=st.integers(2, 6), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_any_start_becomes_feasible(seed: int, n_classes: int, scale: float) -> None:
    _, codes, weight = draw(seed, 20, n_classes, True)
    problem = SoftmaxProblem(codes, n_classes, weight, 1e-9 * weight, 1.0)
    coef = problem.feasible_start(scale * np.random.default_rng(seed).normal(size=(n_classes, 20)))
    np.testing.assert_allclose(coef.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(coef.sum(axis=1), 0, atol=1e-12)
    assert (problem.masses(coef) >= 0).all()
    assert (coef[codes, np.arange(20)] <= weight * (1 - n_classes * 1e-9) * (1 + 1e-15)).all()
    np.testing.assert_allclose(
        problem.feasible_start(coef), coef, rtol=1e-14
    )  # a feasible point is its own start


# -- certificates ---------------------------------------------------------------------------------


def largest_mean_cycle(problem: SoftmaxProblem, coef: np.ndarray, F: np.ndarray) -> float:
    """Largest mean violation of a cycle of classes (Karp 1978): no intercepts make all rows violate less."""
    G, holds = problem.gradient(coef, F), problem.masses(coef) > 0
    k = problem.n_classes
    W = np.array([[(G[p] - G[q])[holds[p]].max() for q in range(k)] for p in range(k)])
    np.fill_diagonal(W, -np.inf)
    best = np.full((k + 1, k), -np.inf)
    best[0, 0] = 0
    for m in range(1, k + 1):
        best[m] = (best[m - 1][:, None] + W).max(axis=0)
    means = (best[k] - best[:k]) / (k - np.arange(k))[:, None]
    return float(np.where(np.isfinite(best[:k]), means, np.inf).min(axis=0).max())


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(6, 60),
    n_classes=st.integers(2, 6),
    weighted=st.booleans(),
    log_C=st.floats(-3, 4),
    share=st.sampled_from([0.0, 1e-3, 0.1, 1.0]),
)
def test_certificate(seed: int, n: int, n_classes: int, weighted: bool, log_C: float, share: float) -> None:
    """Status, violation, gap and F agree with values recomputed from the coefficients."""
    K, codes, weight = draw(seed, n, n_classes, weighted)
    C = 10**log_C
    lam = share * C
    solution = solve(K, codes, C, lam, weight, max_iter=200_000)
    problem, coef = solution.problem, solution.coef
    size = max(abs(solution.primal_objective), abs(solution.dual_objective))
    rounding = 1e-12 * (np.abs(coef).sum() + lam + 1)
    np.testing.assert_allclose(solution.F, coef @ K, atol=rounding)
    np.testing.assert_allclose(coef.sum(axis=0), 0, atol=1e-12 * problem.box.max())
    np.testing.assert_allclose(coef.sum(axis=1), 0, atol=1e-10 * problem.box.sum())
    assert (np.where(problem.own, 0, coef) <= 0).all()
    assert (problem.masses(coef).sum(axis=0) <= problem.box * (1 + 1e-12)).all()
    assert abs(solution.intercept.sum()) <= 1e-10 * (np.abs(solution.intercept).max() + 1)
    gap = problem.gap(coef, coef @ K, solution.intercept)
    assert abs(gap - solution.gap) <= 1e-11 * size + rounding
    assert gap >= -1e-12 * size
    # The mass of the own class is recovered from the others; near its bound, its logarithm loses digits.
    mass = problem.bound + problem.masses(coef)[codes, np.arange(n)]
    rounding += 16 * np.finfo(float).eps * float((problem.box / mass).max())
    tolerance = 1e-6 * max(1.0, lam)
    if solution.status is Status.OPTIMAL:
        assert solution.kkt_violation <= tolerance or solution.relative_gap <= 1e-7 * (1 + 1e-6)
    assert (
        solution.kkt_violation
        >= 2 * largest_mean_cycle(problem, coef, coef @ K) - 1e-3 * tolerance - rounding
    )


def least_primal(K: np.ndarray, problem: SoftmaxProblem) -> tuple[float, np.ndarray]:
    """Least value of the primal and its decision values, by L-BFGS on coordinates of the functions."""
    n, k = len(problem.codes), problem.n_classes
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0))
    rows = np.arange(n)

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        u, b = flat[:-k].reshape(k, n), flat[-k:]
        g = u @ root.T + b[:, None]
        z = g + problem.lam * ~problem.own
        top = logsumexp(z, axis=0)
        residual = problem.box * (np.exp(z - top) - problem.own)
        total = 0.5 * np.vdot(u, u) + problem.box @ (top - g[problem.codes, rows])
        return total, np.concatenate([(u + residual @ root).ravel(), residual.sum(axis=1)])

    found = minimize(
        value,
        np.zeros(n * k + k),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50},
    )
    u, b = found.x[:-k].reshape(k, n), found.x[-k:]
    return float(found.fun), u @ root.T + b[:, None]


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(2, 5),
    weighted=st.booleans(),
    log_C=st.floats(-2, 1.5),
    lam=st.sampled_from([0.0, 0.5, 3.0]),
)
def test_agrees_with_an_independent_solver(
    seed: int, n_classes: int, weighted: bool, log_C: float, lam: float
) -> None:
    """The least primal value lies between minus the dual value and the primal value."""
    K, codes, weight = draw(seed, 25, n_classes, weighted)
    solution = solve(K, codes, 10**log_C, lam, weight, tol=1e-8)
    assert solution.status is Status.OPTIMAL
    least, g = least_primal(K, solution.problem)
    slack = 1e-8 * (1 + least)
    assert -solution.dual_objective <= least + slack
    assert least <= solution.primal_objective + slack
    # the norm of f is strongly convex: |f - f*|^2 <= 2 gap, for either solution, and |f(x)| <= |f|
    allowed = 2 * np.sqrt(2 * max(solution.primal_objective - least, 0) + 2 * slack)
    difference = g - solution.decision.T
    difference -= difference.mean(axis=1, keepdims=True)  # intercepts apart
    assert np.abs(difference).max() <= 2 * allowed


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), log_C=st.floats(-2, 4), share=st.sampled_from([0.0, 1e-2, 0.1]))
def test_two_classes_are_binary_sklr_with_the_kernel_doubled(seed: int, log_C: float, share: float) -> None:
    K, codes, weight = draw(seed, 40, 2, True)
    C, y = 10**log_C, 2.0 * codes - 1
    softmax = solve(K, codes, C, share * C, weight, tol=1e-9)
    binary = solve_dual(2 * K, y, C=C, lam=share * C, sample_weight=weight, tol=1e-9)
    size = max(abs(binary.primal_objective), 1e-300)
    gaps = softmax.gap + binary.gap
    # objectives are those of the binary problem at the optimum, and a solution is within its gap of it
    assert abs(softmax.primal_objective - binary.primal_objective) <= gaps + 1e-9 * size
    f = softmax.F[1] - softmax.F[0]
    allowed = 2 * np.sqrt(2 * gaps * 2) + 1e-9 * (C + share * C)
    assert np.abs(f - binary.F).max() <= allowed
    np.testing.assert_array_equal(softmax.coef[0], -softmax.coef[1])


def test_becomes_crammer_singer_as_the_margin_grows() -> None:
    """f / lam tends to the multi-class SVM of Crammer and Singer with the box C / lam.

    Rows that are rotated by a third of a turn from class to class make equal intercepts optimal, so that
    LinearSVC, which has none here, solves the same problem. The loss divided by lam is within log(K) / lam of
    the hinge.
    """
    rng = np.random.default_rng(0)
    first = rng.normal(size=(30, 2)) + np.array([1.0, 0.3])
    turn = 2 * np.pi / 3
    R = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    X = np.vstack([first, first @ R.T, first @ R.T @ R.T])
    codes = np.repeat(np.arange(3), 30)
    svc = LinearSVC(
        C=2.0, multi_class="crammer_singer", fit_intercept=False, tol=1e-7, max_iter=100_000, random_state=0
    ).fit(X, codes)

    def objective(W: np.ndarray) -> float:
        g = X @ W.T
        hinge = (g + 1 - np.eye(3)[codes]).max(axis=1) - g[np.arange(90), codes]
        return float(0.5 * (W**2).sum() + 2.0 * hinge.sum())

    best = objective(svc.coef_)
    for lam in (10.0, 1e3, 1e5):
        solution = solve(X @ X.T, codes, 2.0 * lam, lam, tol=1e-5)
        ours = objective(solution.coef @ X / lam)
        allowed = 2.0 * 90 * np.log(3) / lam + solution.gap / lam**2
        assert best * (1 - 1e-7) <= ours <= best * (1 + 1e-7) + allowed
    np.testing.assert_allclose(solution.coef @ X / lam, svc.coef_, atol=2e-2)


# -- invariances ----------------------------------------------------------------------------------


def f_accuracy(*solutions: SoftmaxSolution) -> float:
    """The largest difference in f(x), for kernels of at most 1, of solutions with these gaps."""
    return sum(float(np.sqrt(2 * solution.gap)) for solution in solutions) + 1e-9


def test_a_weight_is_a_repetition() -> None:
    K, codes, _ = draw(3, 40, 4)
    count = np.random.default_rng(0).integers(1, 4, 40)
    rows = np.repeat(np.arange(40), count)
    weighted = solve(K, codes, 100.0, 10.0, count, tol=1e-8)
    repeated = solve(np.ascontiguousarray(K[np.ix_(rows, rows)]), codes[rows], 100.0, 10.0, tol=1e-8)
    assert abs(weighted.primal_objective - repeated.primal_objective) <= weighted.gap + repeated.gap
    assert np.abs(weighted.F[:, rows] - repeated.F).max() <= f_accuracy(weighted, repeated)


@pytest.mark.parametrize("order", [[2, 0, 3, 1], [3, 2, 1, 0]])
def test_the_order_of_classes_is_irrelevant(order: list[int]) -> None:
    K, codes, _ = draw(5, 50, 4)
    one = solve(K, codes, 1e3, 100.0, tol=1e-8)
    other = solve(K, np.array(order)[codes], 1e3, 100.0, tol=1e-8)
    assert abs(one.primal_objective - other.primal_objective) <= one.gap + other.gap
    assert np.abs(one.F - other.F[order]).max() <= f_accuracy(one, other)
    np.testing.assert_array_equal(one.support, other.support)


def test_results_do_not_depend_on_threads_or_cache() -> None:
    X, codes = make_classification(
        4600, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    samples, loose = samples_of(X, codes), Settings(tol=1e-2)
    one = solve_softmax(samples, 100.0, 10.0, loose)
    for other in (
        solve_softmax(samples, 100.0, 10.0, loose, n_jobs=2),
        solve_softmax(samples, 100.0, 10.0, loose, cache_size=8),
    ):
        np.testing.assert_array_equal(one.coef, other.coef)
        np.testing.assert_array_equal(one.intercept, other.intercept)


def test_warm_start() -> None:
    X = np.random.default_rng(0).normal(size=(150, 3))
    codes = np.digitize(X[:, 0] + 0.3 * X[:, 1] ** 2, [-0.5, 0.6])
    samples, tight = samples_of(X, codes), Settings(tol=1e-7)
    cold = solve_softmax(samples, 1e4, 1e3, tight)
    assert solve_softmax(samples, 1e4, 1e3, tight, start=cold.coef).n_iter == 0
    warm = solve_softmax(samples, 9e3, 9e2, tight, start=cold.coef)
    other = solve_softmax(samples, 9e3, 9e2, tight)
    assert warm.n_iter < other.n_iter
    assert np.abs(warm.F - other.F).max() <= f_accuracy(warm, other)
    rows = np.arange(0, 150, 2)  # a start that lacks rows is made feasible
    half = solve_softmax(samples.part(rows), 1e4, 1e3, tight, start=cold.coef[:, rows])
    again = solve_softmax(samples.part(rows), 1e4, 1e3, tight)
    assert np.abs(half.F - again.F).max() <= f_accuracy(half, again)


def test_points_are_shared_and_settled_rows_are_absent() -> None:
    """A row is kept if and only if its loss is not negligible: the margin of its class is below lam + w."""
    X = np.random.default_rng(1).normal(size=(300, 2))
    codes = np.digitize(X[:, 0] + 0.2 * X[:, 1], [-0.6, 0.6])
    solution = solve_softmax(samples_of(X, codes), 1e4, 1e3, Settings(tol=1e-8))
    g = solution.decision
    own = g[np.arange(300), codes]
    rival = np.where(np.eye(3, dtype=bool)[codes], -np.inf, g).max(axis=1)
    band = 1e3 + np.log(1e9)
    clear = np.abs(own - rival - band) > 1  # up to the violation and the third class
    np.testing.assert_array_equal(
        (own - rival < band)[clear], np.isin(np.arange(300), solution.support)[clear]
    )
    assert len(solution.support) < 100


def test_limits_and_callback() -> None:
    K, codes, _ = draw(0, 60, 4)
    stopped = solve(K, codes, 1e4, 1e3, max_iter=50)
    assert stopped.status is Status.MAX_ITER
    assert stopped.n_iter == 50
    np.testing.assert_allclose(stopped.coef.sum(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(stopped.F, stopped.coef @ K, atol=1e-8)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2500, 4)), rng.integers(0, 6, 2500)
    solver = SoftmaxSolver(samples_of(X, y, gamma=0.01), Settings(tol=1e-12))
    problem = solver.problem(1e4, 0.0)
    zero, seen = np.zeros((6, 2500)), []
    interrupted = solve_masses(
        solver.row_source,
        problem,
        solver.settings,
        coef=zero,
        F=zero,
        callback=lambda record: seen.append(record.n_iter) or True,
    )
    assert interrupted.status is Status.INTERRUPTED
    assert len(seen) == 1
    np.testing.assert_allclose(interrupted.coef.sum(axis=1), 0, atol=1e-6)
    with pytest.raises(ZeroDivisionError):
        solve_masses(
            solver.row_source, problem, solver.settings, coef=zero, F=zero, callback=lambda record: 1 / 0
        )


# -- unusual data -----------------------------------------------------------------------------------


def test_a_class_of_one_row() -> None:
    K, codes, _ = draw(2, 30, 3)
    codes = np.where(codes == 2, 1, codes)
    codes[7] = 2
    solution = solve(K, codes, 1e4, 1e3)
    assert solution.status is Status.OPTIMAL
    assert 7 in solution.support
    assert solution.decision[7].argmax() == 2


@pytest.mark.parametrize("lam", [0.0, 100.0])
def test_all_rows_equal(lam: float) -> None:
    """If all rows are equal, f = 0, and with lam = 0 the intercepts are those of the class fractions."""
    codes = np.repeat(np.arange(3), [10, 20, 30])
    solution = solve(np.ones((60, 60)), codes, 1e3, lam, tol=1e-9)
    assert np.abs(solution.F).max() <= 1e-6 * (1 + lam)
    if lam == 0:
        p = np.exp(solution.intercept) / np.exp(solution.intercept).sum()
        np.testing.assert_allclose(p, [1 / 6, 1 / 3, 1 / 2], atol=1e-4)


def test_a_thousand_classes() -> None:
    """A run that is cut short is feasible and has a certificate; the whole one takes minutes."""
    rng = np.random.default_rng(0)
    codes = np.concatenate([np.arange(1000), rng.integers(0, 1000, 200)])
    X = rng.normal(size=(1000, 6))[codes] + 0.1 * rng.normal(size=(1200, 6))
    solution = solve_softmax(samples_of(X, codes), 10.0, 1.0, Settings(max_iter=5000))
    assert solution.status is Status.MAX_ITER
    np.testing.assert_allclose(solution.coef.sum(axis=1), 0, atol=1e-9)
    assert 0 < solution.relative_gap < 1


def test_bad_input() -> None:
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(30, 2)), np.arange(30) % 3
    with pytest.raises(ValueError, match="too large for 3 classes"):
        solve_softmax(samples_of(X, codes), 1.0, 0.0, Settings(bound=0.4))
    huge = X.copy()
    huge[4] = 1e200
    with pytest.raises(NonFiniteKernel):
        solve_softmax(samples_of(huge, codes), 1.0, 0.0, Settings())
