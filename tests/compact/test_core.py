"""The sums over rows and the inner solver of CompactKLR, against formulas, differences and another solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax, softmax

from sparseklr import _core
from sparseklr.compact.model import CompactModel, Objective, cluster_centres, gamma_of, width_penalty

pytestmark = pytest.mark.numerical

JITTER = 1e-6  # of CompactInner


@dataclass
class Problem:
    """Random rows and a random model; ``outputs`` is 1 for two classes, else the number of classes."""

    X: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    points: np.ndarray
    gamma: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    n_classes: int

    def rows(self, single: bool = False) -> _core.CompactRows:
        return _core.compact_rows(self.X, self.label, self.weight, self.n_classes, single)

    def kernel(self, points: np.ndarray, gamma: np.ndarray, X: np.ndarray | None = None) -> np.ndarray:
        difference = (self.X if X is None else X)[:, None, :] - points[None]
        return np.exp(-(difference**2) @ gamma)

    def outputs(self, points, gamma, coef, intercept) -> np.ndarray:
        return self.kernel(points, gamma) @ coef.T + intercept

    def loss(self, points, gamma, coef, intercept) -> float:
        f = self.outputs(points, gamma, coef, intercept)
        if self.n_classes == 2:
            f = np.hstack([np.zeros_like(f), f])
        return float(-self.weight @ log_softmax(f, axis=1)[np.arange(len(f)), self.label])


def problem(n: int, p: int, k: int, n_classes: int, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    outputs = 1 if n_classes == 2 else n_classes
    return Problem(
        rng.normal(size=(n, p)),
        rng.integers(0, n_classes, n).astype(np.int32),
        rng.uniform(0, 2, n) * (rng.random(n) < 0.9),
        rng.normal(size=(k, p)),
        rng.uniform(0.05, 1, p) / p,
        3 * rng.normal(size=(outputs, k)),
        rng.normal(size=outputs),
        n_classes,
    )


SHAPES = [(37, 3, 5, 2), (300, 5, 4, 3), (700, 2, 9, 2), (530, 1, 1, 4), (16, 4, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("single", "digits"), [(False, 1e-12), (True, 1e-5)])
def test_sums(shape, single, digits) -> None:
    """Loss, derivatives and decision values agree with explicit formulas."""
    q = problem(*shape)
    model = (q.points, q.gamma, q.coef, q.intercept)
    rows = q.rows(single)
    found = rows.sums(*model, _core.Curvature.full, True, 1)
    f = q.outputs(*model)
    np.testing.assert_allclose(rows.decision(*model, 1), f, rtol=digits, atol=digits * np.abs(q.coef).sum())
    np.testing.assert_allclose(found["loss"], q.loss(*model), rtol=digits * 10)

    if q.n_classes == 2:
        p = softmax(np.hstack([np.zeros_like(f), f]), axis=1)[:, 1:]
        residual = p - (q.label == 1)[:, None]
    else:
        p = softmax(f, axis=1)
        residual = p - np.eye(q.n_classes)[q.label]
    e = residual * q.weight[:, None]
    basis = np.hstack([q.kernel(q.points, q.gamma), np.ones((len(f), 1))])
    close = {"rtol": 0, "atol": 10 * digits * q.weight.sum() * (1 + np.abs(q.coef).max())}
    np.testing.assert_allclose(found["coef_gradient"], e.T @ basis, **close)
    position = 0
    for a in range(f.shape[1]):
        for b in range(a + 1):
            factor = q.weight * p[:, a] * ((a == b) - p[:, b])
            np.testing.assert_allclose(found["curvature"][position], (basis.T * factor) @ basis, **close)
            position += 1
    diagonal = rows.sums(*model, _core.Curvature.diagonal, False, 1)["curvature"]
    corners = [o * (o + 1) // 2 + o for o in range(f.shape[1])]
    np.testing.assert_array_equal(diagonal, found["curvature"][corners])

    W = basis[:, :-1] * (e @ q.coef)
    shift = q.X[:, None, :] - q.points[None]
    np.testing.assert_allclose(
        found["point_gradient"], 2 * q.gamma * np.einsum("ib,ibj->bj", W, shift), **close
    )
    np.testing.assert_allclose(
        found["width_gradient"], -q.gamma * np.einsum("ib,ibj->j", W, shift**2), **close
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_gradients_are_derivatives(n_classes) -> None:
    q = problem(60, 3, 4, n_classes)
    found = q.rows().sums(q.points, q.gamma, q.coef, q.intercept, _core.Curvature.none, True, 1)

    def difference(of, at: np.ndarray) -> np.ndarray:
        step = 1e-6
        forward, backward = (
            approx_fprime(at.ravel(), lambda x: of(x.reshape(at.shape)), s) for s in (step, -step)
        )
        return ((forward + backward) / 2).reshape(at.shape)

    close = {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(
        found["point_gradient"],
        difference(lambda z: q.loss(z, q.gamma, q.coef, q.intercept), q.points),
        **close,
    )
    np.testing.assert_allclose(
        found["width_gradient"],
        difference(lambda u: q.loss(q.points, np.exp(u), q.coef, q.intercept), np.log(q.gamma)),
        **close,
    )
    np.testing.assert_allclose(
        found["coef_gradient"][:, :-1],
        difference(lambda b: q.loss(q.points, q.gamma, b, q.intercept), q.coef),
        **close,
    )


def test_sums_of_blocks_add_up() -> None:
    """Sums over blocks equal the sum over all rows, as streaming requires."""
    q = problem(1000, 4, 6, 3)
    model = (q.points, q.gamma, q.coef, q.intercept, _core.Curvature.full, True, 1)
    whole = q.rows().sums(*model)
    parts = [
        _core.compact_rows(q.X[s], q.label[s], q.weight[s], 3, False).sums(*model)
        for s in (slice(0, 333), slice(333, 340), slice(340, 1000))
    ]
    for key, value in whole.items():
        np.testing.assert_allclose(sum(part[key] for part in parts), value, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_results_do_not_depend_on_threads(single, n_classes) -> None:
    q = problem(5000, 6, 20, n_classes)
    rows = q.rows(single)
    model = (q.points, q.gamma, q.coef, q.intercept)
    one, three = (rows.sums(*model, _core.Curvature.diagonal, True, threads) for threads in (1, 3))
    for key, value in one.items():
        np.testing.assert_array_equal(value, three[key])
    np.testing.assert_array_equal(rows.decision(*model, 1), rows.decision(*model, 3))
    fits = []
    for threads in (1, 3):
        coef = np.zeros((len(q.coef), 21))
        inner = _core.CompactInner(rows, threads)
        inner.move(q.points, q.gamma)
        value = inner.solve(coef, 10.0, 1e-9, 100).value
        inner.move(q.points + 0.01, q.gamma)
        again = inner.solve(coef, 1.0, 1e-9, 100).value
        fits.append((value, again, coef, *inner.gradient(1.0)))
    for a, b in zip(*fits, strict=True):
        np.testing.assert_array_equal(a, b)


def test_cluster_centres_of_rows_with_hardly_any_weight() -> None:
    """A fraction of the smallest positive number rounds to that number."""
    X = np.arange(6.0)[:, None]
    centres = cluster_centres(X, np.full(6, 5e-324), 4)
    assert ((centres >= 0) & (centres <= 5)).all()


def independent_minimum(q: Problem, C: float) -> tuple[float, np.ndarray]:
    """The minimum of J over coefficients and intercept by SciPy's trust-region Newton method."""
    K, K_zz = q.kernel(q.points, q.gamma), q.kernel(q.points, q.gamma, q.points)
    K_zz = K_zz + JITTER * np.eye(len(K_zz))
    m, k = q.coef.shape
    L = np.linalg.cholesky(K_zz)
    basis = np.hstack([np.linalg.solve(L, K.T).T, np.ones((len(K), 1))])
    ridge = np.append(np.full(k, 1 / C), 0.0)

    def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        v = x.reshape(m, k + 1)
        f = basis @ v.T
        return v, np.hstack([np.zeros_like(f), f]) if m == 1 else f

    def value(x: np.ndarray) -> float:
        v, f = parts(x)
        return float(
            -q.weight @ log_softmax(f, axis=1)[np.arange(len(f)), q.label] + 0.5 * (v**2 @ ridge).sum()
        )

    def gradient(x: np.ndarray) -> np.ndarray:
        v, f = parts(x)
        e = (softmax(f, axis=1) - np.eye(f.shape[1])[q.label]) * q.weight[:, None]
        return (e[:, -m:].T @ basis + v * ridge).ravel()

    def hessian(x: np.ndarray) -> np.ndarray:
        _, f = parts(x)
        p = softmax(f, axis=1)[:, -m:]
        H = np.empty((m, k + 1, m, k + 1))
        for a in range(m):
            for b in range(m):
                H[a, :, b] = (basis.T * (q.weight * p[:, a] * ((a == b) - p[:, b]))) @ basis
                H[a, :, b] += (a == b) * np.diag(ridge)
        return H.reshape(m * (k + 1), -1)

    found = minimize(
        value, np.zeros(m * (k + 1)), jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-9}
    )
    return found.fun, parts(found.x)[1]


@pytest.mark.slow
@given(
    n=st.integers(2, 80),
    p=st.integers(1, 4),
    k=st.integers(1, 30),
    n_classes=st.integers(2, 4),
    log_C=st.integers(-2, 4),
    seed=st.integers(0, 10**6),
)
def test_inner_solver_agrees_with_an_independent_one(n, p, k, n_classes, log_C, seed) -> None:
    q = problem(n, p, k, n_classes, seed)
    assume(len(np.unique(q.label[q.weight > 0])) == n_classes)  # without a class the intercept has no optimum
    C = 10.0**log_C
    inner = _core.CompactInner(q.rows(), 1)
    inner.move(q.points, q.gamma)
    coef = np.zeros((len(q.coef), k + 1))
    outcome = inner.solve(coef, C, 1e-12, 200)
    best, _ = independent_minimum(q, C)
    assert outcome.converged
    # K_zz + 1e-6 I may have a condition of k * 1e6, so that rounding leaves about 1e-9 of the value
    assert outcome.value <= best * (1 + 1e-8) + 1e-8
    # the value belongs to the coefficients
    K_zz = q.kernel(q.points, q.gamma, q.points) + JITTER * np.eye(k)
    penalty = np.einsum("ob,bc,oc", coef[:, :-1], K_zz, coef[:, :-1]) / (2 * C)
    loss = q.loss(q.points, q.gamma, coef[:, :-1], coef[:, -1])
    np.testing.assert_allclose(outcome.value, loss + penalty, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_gradient_of_the_minimum(n_classes) -> None:
    """By the envelope theorem no derivative of the coefficients is needed; differences include it."""
    q = problem(80, 3, 5, n_classes)
    C = 7.0
    inner = _core.CompactInner(q.rows(), 1)

    def minimum(points: np.ndarray, gamma: np.ndarray) -> float:
        inner.move(points, gamma)
        return inner.solve(np.zeros((len(q.coef), 6)), C, 1e-14, 100).value

    minimum(q.points, q.gamma)
    by_points, by_widths = inner.gradient(C)
    step = 1e-5
    for b, j in np.ndindex(5, 3):
        move = np.zeros((5, 3))
        move[b, j] = step
        slope = (minimum(q.points + move, q.gamma) - minimum(q.points - move, q.gamma)) / (2 * step)
        assert by_points[b, j] == pytest.approx(slope, rel=1e-5, abs=1e-6)
    for j in range(3):
        factor = np.exp(step * (np.arange(3) == j))
        slope = (minimum(q.points, q.gamma * factor) - minimum(q.points, q.gamma / factor)) / (2 * step)
        assert by_widths[j] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_warm_starts_reach_the_same_minimum() -> None:
    """A Hessian of other points or another C changes only the path of the solver."""
    q = problem(600, 4, 40, 2)
    inner = _core.CompactInner(q.rows(), 1)
    coef = np.zeros((1, 41))
    for scale in (0.9, 1.0, 1.1, 1.0):
        inner.move(scale * q.points, q.gamma)
        for C in (1.0, 100.0, 10.0):
            warm = inner.solve(coef, C, 1e-11, 100)
            fresh = _core.CompactInner(q.rows(), 1)
            fresh.move(scale * q.points, q.gamma)
            cold = fresh.solve(np.zeros((1, 41)), C, 1e-11, 100)
            assert warm.converged
            assert warm.value == pytest.approx(cold.value, rel=1e-9)


def test_separable_rows_without_bound_on_the_coefficients() -> None:
    """With a large C on separable rows, coefficients are finite and the loss nearly vanishes."""
    X = np.linspace(-1, 1, 40)[:, None]
    rows = _core.compact_rows(X, (X[:, 0] > 0).astype(np.int32), np.ones(40), 2, False)
    inner = _core.CompactInner(rows, 1)
    inner.move(X[::4].copy(), np.array([2.0]))
    coef = np.zeros((1, 11))
    outcome = inner.solve(coef, 1e8, 1e-7, 200)
    assert np.isfinite(coef).all()
    assert outcome.loss < 1e-3


# -- moving points ----------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_points_stop_at_a_minimum(n_classes, shared) -> None:
    """The end point is stationary, and SciPy's L-BFGS finds no descent from it."""
    q = problem(120, 3, 4, n_classes)
    C = 2.0
    objective = Objective(q.rows(), shared=shared)
    coef = np.zeros((len(q.coef), 5))
    start = CompactModel(q.points, np.full(3, -1.0), coef)
    moved = objective.move(start, C, max_iter=3000, tol=0.0, inner_tol=1e-13)
    assert moved.value < objective.solve(start, C, 1e-13)[1]

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        log_gamma = np.full(3, x[12]) if shared else x[12:].copy()
        model = CompactModel(x[:12].reshape(4, 3).copy(), log_gamma, moved.model.coef)
        value = objective.solve(model, C, 1e-13)[1] + width_penalty(log_gamma)[0]
        return value, objective.gradient(log_gamma, C)

    widths = moved.model.log_gamma[:1] if shared else moved.model.log_gamma
    x = np.concatenate([moved.model.points.ravel(), widths])
    value, gradient = value_and_gradient(x)
    assert value == pytest.approx(moved.value, rel=1e-10)
    assert np.abs(gradient).max() < 1e-4
    found = minimize(value_and_gradient, x, jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-9})
    assert found.fun > value * (1 - 1e-7)


def test_moving_is_as_good_as_scipy_lbfgs() -> None:
    """After the same number of iterations, both methods have lowered the objective equally."""
    falls = []
    for seed in range(8):
        q = problem(150, 4, 6, 2, seed)
        objective = Objective(q.rows())
        start = CompactModel(q.points, np.log(q.gamma), np.zeros((1, 7)))
        before = objective.solve(start, 5.0)[1] + width_penalty(start.log_gamma)[0]
        ours = objective.move(start, 5.0, max_iter=20)
        assert ours.n_eval <= 40
        coef = np.zeros((1, 7))

        def value_and_gradient(x: np.ndarray, objective=objective, coef=coef) -> tuple[float, np.ndarray]:
            inner = objective._inner
            inner.move(x[:24].reshape(6, 4), gamma_of(x[24:]))
            value = inner.solve(coef, 5.0, 1e-5, 100).value + width_penalty(x[24:])[0]
            return value, objective.gradient(x[24:], 5.0)

        x = np.concatenate([start.points.ravel(), start.log_gamma])
        scipys = minimize(value_and_gradient, x, jac=True, method="L-BFGS-B", options={"maxiter": 20})
        falls.append((before - ours.value) / (before - scipys.fun))
    assert np.mean(falls) > 0.95


def test_moving_can_be_stopped() -> None:
    """A failing check ends the run within a tenth of a second and leaves the model unchanged."""
    q = problem(3000, 10, 40, 2)
    inner = _core.CompactInner(q.rows(), 1)
    points, log_gamma, coef = q.points.copy(), np.log(q.gamma), np.zeros((1, 41))

    def check() -> None:
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        inner.descend(points, log_gamma, coef, 1e3, 0.1, 1.0, False, 10**6, 0.0, 1e-12, check)
    np.testing.assert_array_equal(points, q.points)
    assert not coef.any()


def test_wrong_shapes_raise() -> None:
    q = problem(10, 2, 3, 2)
    with pytest.raises(ValueError, match="labels"):
        _core.compact_rows(q.X, q.label + 5, q.weight, 2, False)
    with pytest.raises(ValueError, match="one entry per row"):
        _core.compact_rows(q.X, q.label[:5], q.weight, 2, False)
    rows = q.rows()
    with pytest.raises(ValueError, match="one column per feature"):
        rows.decision(q.points[:, :1].copy(), q.gamma, q.coef, q.intercept, 1)
    with pytest.raises(ValueError, match="n_points"):
        rows.decision(q.points, q.gamma, q.coef[:, :2].copy(), q.intercept, 1)
    inner = _core.CompactInner(rows, 1)
    inner.move(q.points, q.gamma)
    with pytest.raises(ValueError, match="coef"):
        inner.solve(np.zeros((1, 3)), 1.0, 1e-7, 10)
    with pytest.raises(ValueError, match="log_gamma one entry per feature"):
        inner.descend(
            q.points, q.gamma[:1].copy(), np.zeros((1, 4)), 1.0, 0.1, 1.0, False, 5, 1e-7, 1e-5, None
        )
    with pytest.raises(ValueError, match="coef"):
        inner.descend(q.points, q.gamma, np.zeros((1, 3)), 1.0, 0.1, 1.0, False, 5, 1e-7, 1e-5, None)
