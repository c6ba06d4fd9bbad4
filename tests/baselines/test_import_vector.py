"""ImportVectorMachine against exhaustive search, kernel logistic regression and its documentation."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.special import softmax
from sklearn.datasets import make_circles, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.alike import (
    KERNELS,
    assert_interrupted_fit_changes_nothing,
    assert_kernels_and_storage_agree,
    assert_refused,
    weighted_and_repeated,
)
from support.reference import primal_newton

from sparseklr.baselines import ImportVectorMachine
from sparseklr.baselines.import_vector import Machine
from sparseklr.baselines.loss import LogisticLoss
from sparseklr.kernels import Kernel
from sparseklr.samples import DistinctPoints, Samples, row_keys

pytestmark = pytest.mark.numerical

Data = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def moons() -> Data:
    return make_moons(120, noise=0.25, random_state=0)


def objective(model: ImportVectorMachine, X: np.ndarray, y: np.ndarray) -> float:
    """Return the documented objective of a fitted model, from its attributes and probabilities alone."""
    K = model.kernel_.matrix(model.support_vectors_, model.support_vectors_)
    codes = np.searchsorted(model.classes_, y)
    loss = -model.predict_log_proba(X)[np.arange(len(y)), codes].sum()
    return model.C * loss + 0.5 * np.einsum("ki,ij,kj->", model.dual_coef_, K, model.dual_coef_)


def minimum_with(K: np.ndarray, y: np.ndarray, C: float, S: list[int]) -> float:
    """Return the smallest objective with the points S, by damped Newton steps in the coefficients."""
    A = np.column_stack([np.ones(len(y)), K[:, S]])
    penalty = np.zeros((len(S) + 1, len(S) + 1))
    penalty[1:, 1:] = K[np.ix_(S, S)]
    t = (y == 1).astype(float)

    def value(w: np.ndarray) -> float:
        f = A @ w
        return float(0.5 * w @ penalty @ w + C * (np.logaddexp(0, f) - t * f).sum())

    w = np.zeros(len(S) + 1)
    for _ in range(100):
        p = 1 / (1 + np.exp(-(A @ w)))
        G = penalty @ w + C * A.T @ (p - t)
        H = penalty + C * (A * (p * (1 - p))[:, None]).T @ A
        d = -np.linalg.lstsq(H, G, rcond=1e-13)[0]
        step = 1.0
        while step > 1e-10 and value(w + step * d) > value(w) + 0.25 * step * (G @ d):
            step /= 2
        w = w + step * d
        if -G @ d <= 1e-11 * value(w):
            break
    return value(w)


@pytest.mark.slow
@parametrize_with_checks([ImportVectorMachine()])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks set max_iter
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


# -- the search ---------------------------------------------------------------------------------


def small_problems() -> list[tuple[np.ndarray, np.ndarray, float]]:
    tables = [
        make_moons(60, noise=0.3, random_state=1),
        make_circles(60, noise=0.15, factor=0.5, random_state=2),
        make_classification(60, n_features=6, n_informative=4, flip_y=0.1, random_state=3),
    ]
    return [(rbf_kernel(X, gamma=0.5), y, C) for X, y in tables for C in (0.1, 10.0, 1000.0)]


@pytest.mark.slow
def test_picks_the_point_of_an_exhaustive_search() -> None:
    same = steps = 0
    for K, y, C in small_problems():
        n_points = 8
        model = ImportVectorMachine(
            C, kernel="precomputed", n_candidates="all", epsilon=0, max_points=n_points
        ).fit(K, y)
        chosen = model.selection_.tolist()
        # the same step, taken by fitting with every candidate
        for size in range(n_points):
            rest = [j for j in range(len(y)) if j not in chosen[:size]]
            values = {j: minimum_with(K, y, C, [*chosen[:size], j]) for j in rest}
            same += values[chosen[size]] <= min(values.values()) * (1 + 1e-8)
            steps += 1
        # the whole search, taken by fitting with every candidate
        best: list[int] = []
        for _ in range(n_points):
            best.append(
                min(
                    (j for j in range(len(y)) if j not in best),
                    key=lambda j: minimum_with(K, y, C, [*best, j]),
                )
            )
        assert model.objective_path_[-1] <= 1.01 * minimum_with(K, y, C, best)
        np.testing.assert_allclose(model.objective_path_[-1], minimum_with(K, y, C, chosen), rtol=1e-6)
    assert same >= 0.9 * steps


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_all_points_give_plain_kernel_logistic_regression(moons, C) -> None:
    X, y = moons
    model = ImportVectorMachine(C, gamma=2.0, epsilon=0, tol=1e-14).fit(X, y)
    _, f, b = primal_newton(rbf_kernel(X, gamma=2.0), np.where(y == 1, 1.0, -1.0), np.full(len(y), C), 0.0)
    np.testing.assert_allclose(model.decision_function(X), f, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, b, atol=1e-5)
    assert len(model.support_) > 60  # the rest is spanned to 1e-10


def test_linear_kernel_gives_softmax_regression(iris) -> None:
    X, y = iris
    X = X - X.mean(axis=0)
    model = ImportVectorMachine(2.0, kernel="linear", epsilon=0, tol=1e-14).fit(X, y)
    reference = LogisticRegression(C=2.0, tol=1e-10, max_iter=10000).fit(X, y)
    assert len(model.support_) == X.shape[1]  # they span the rest
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(model.intercept_.sum(), 0, atol=1e-10)


def test_stopping_rule_and_objective_path(moons) -> None:
    X, y = moons
    for delta_k in (1, 3):
        model = ImportVectorMachine(10, epsilon=1e-3, delta_k=delta_k).fit(X, y)
        path = model.objective_path_
        fall = (path[:-delta_k] - path[delta_k:]) / path[delta_k:]
        assert fall[-1] < 1e-3 <= fall[:-1].min()
        assert len(path) == len(model.support_) + 1
    assert (np.diff(path) <= 0).all()
    np.testing.assert_allclose(path[-1], objective(model, X, y), rtol=1e-9)
    np.testing.assert_array_equal(np.sort(model.selection_), model.support_)
    np.testing.assert_array_equal(X[model.support_], model.support_vectors_)
    assert len(ImportVectorMachine(10, max_points=4, epsilon=0).fit(X, y).support_) == 4


def test_one_step(moons, iris) -> None:
    for X, y in (moons, iris):
        full = ImportVectorMachine(100, epsilon=0, max_points=15).fit(X, y)
        quick = ImportVectorMachine(100, epsilon=0, max_points=15, update="one-step").fit(X, y)
        assert quick.n_iter_ < full.n_iter_
        assert (np.diff(quick.objective_path_) <= 0).all()
        assert quick.objective_path_[-1] <= 1.05 * full.objective_path_[-1]
        np.testing.assert_allclose(quick.objective_path_[-1], objective(quick, X, y), rtol=1e-9)


def test_without_intercept(moons) -> None:
    X, y = moons
    model = ImportVectorMachine(10, fit_intercept=False).fit(X, y)
    assert model.intercept_ == 0
    assert model.objective_path_[0] == pytest.approx(10 * len(y) * np.log(2))
    np.testing.assert_allclose(model.objective_path_[-1], objective(model, X, y), rtol=1e-9)


# -- derivatives --------------------------------------------------------------------------------


def machine(X: np.ndarray, y: np.ndarray, n_points: int = 4) -> Machine:
    classes, codes = np.unique(y, return_inverse=True)
    data = Samples(X, codes, classes, np.ones(len(y)), np.arange(len(y)), len(y), Kernel("rbf", 0.5))
    points = DistinctPoints.of(data).with_gram()
    state = Machine(points, LogisticLoss.of(points.weight.T), True, 1e-10)
    for _ in range(n_points):
        gains = state.gains(np.arange(len(points)))
        state.join(np.array([int(np.argmax(gains))]), 1)
    return state


@pytest.mark.parametrize("name", ["moons", "iris"])
def test_derivatives_against_finite_differences(name, request) -> None:
    X, y = request.getfixturevalue(name)
    state, rng = machine(X, y), np.random.default_rng(0)
    w = rng.normal(size=state.w.shape)

    def gradient(flat: np.ndarray) -> np.ndarray:
        other = copy.copy(state)
        other.w = flat.reshape(w.shape)
        other.F = other.w @ state.A.T
        return other.gradient().ravel()

    def value(flat: np.ndarray) -> float:
        v = flat.reshape(w.shape)
        return state._value(v, v @ state.A.T)

    np.testing.assert_allclose(
        gradient(w.ravel()), approx_fprime(w.ravel(), value, 1e-6), rtol=1e-4, atol=1e-3
    )
    D = rng.normal(size=w.shape)
    here = state.loss.at(w @ state.A.T)
    curved = here.curved(D @ state.A.T) @ state.A + state.penalty * D
    h = 1e-6
    difference = (gradient((w + h * D).ravel()) - gradient((w - h * D).ravel())) / (2 * h)
    np.testing.assert_allclose(curved.ravel(), difference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["moons", "iris"])
def test_gains_are_those_of_the_bordered_newton_system(name, request) -> None:
    """The gains equal a Newton step; with several classes, with the diagonal blocks of the Hessian."""
    X, y = request.getfixturevalue(name)
    state = machine(X, y)
    candidates = np.arange(10, 20)
    gains = state.gains(candidates)
    phi, spanned = state.whiten(candidates)
    assert not spanned.any()
    residual, W = state.loss.at(state.F).slope, state.loss.at(state.F).curvature
    # the whitened column is what an orthogonal complement in the kernel's space gives
    K = state.points.columns(np.array([*state.chosen, 10]))
    L = np.linalg.cholesky(K[[*state.chosen, 10]])
    np.testing.assert_allclose(phi[:, 0], np.linalg.solve(L, K.T)[-1], atol=1e-9)
    for j in range(len(candidates)):
        A = np.column_stack([state.A, phi[:, j]])
        penalty = np.append(state.penalty, 1.0)
        fall = 0.0
        for k in range(len(state.w)):
            G = A.T @ residual[k] + penalty * np.append(state.w[k], 0.0)
            H = (A * W[k][:, None]).T @ A + np.diag(penalty)
            fall += 0.5 * (G @ np.linalg.solve(H, G) - G[:-1] @ np.linalg.solve(H[:-1, :-1], G[:-1]))
        np.testing.assert_allclose(gains[j], fall, rtol=1e-6)


# -- data in every form -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["moons", "iris"])
def test_weights_equal_repetition(name, kernel, request) -> None:
    """A weight of 2 equals a repeated row, even with random candidates and another order of rows."""
    X, y = request.getfixturevalue(name)
    machine = ImportVectorMachine(5.0, n_candidates=20)
    weighted, repeated, rows, difference = weighted_and_repeated(machine, X, y, kernel)
    assert difference <= 1e-10
    if kernel != "precomputed":
        np.testing.assert_array_equal(X[weighted.selection_], X[rows[repeated.selection_]])


@pytest.mark.slow
def test_kernels_and_storage_agree(iris) -> None:
    X, y = iris
    machine = ImportVectorMachine(n_candidates="all")
    assert_kernels_and_storage_agree(machine, X, y, "predict_proba", rtol=0, atol=1e-8)
    double, single = (
        ImportVectorMachine(gamma=0.5, n_candidates="all").fit(rows, y).predict_proba(rows)
        for rows in (X, X.astype(np.float32))
    )
    np.testing.assert_allclose(single, double, atol=1e-3)


def test_columns_without_the_whole_matrix(moons, monkeypatch) -> None:
    X, y = moons
    expected = ImportVectorMachine(gamma=0.5).fit(X, y)
    monkeypatch.setattr("sparseklr.samples._WHOLE_MATRIX", 10)
    model = ImportVectorMachine(gamma=0.5).fit(X, y)
    np.testing.assert_array_equal(model.selection_, expected.selection_)


def test_row_keys() -> None:
    X = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [-0.0, 0.0, -0.0]])
    keys = row_keys(X)
    assert len(np.unique(keys)) == 3
    assert keys[0] == keys[2]
    assert keys[3] == keys[4]
    np.testing.assert_array_equal(row_keys(sparse.csr_array(X)), keys)
    np.testing.assert_array_equal(row_keys(X.astype(np.float32)), keys)
    twice = sparse.csr_matrix(([1.0, 1.0, 1.0], [1, 2, 2], [0, 3, 3]), shape=(2, 3))  # 2 given as 1 + 1
    np.testing.assert_array_equal(row_keys(twice), keys[[0, 3]])
    assert twice.nnz == 3


def test_predictions_are_consistent(moons, iris) -> None:
    for X, y in (moons, iris):
        labels = np.array(["a", "b", "c"])[y]
        model = ImportVectorMachine().fit(X, labels)
        P, f = model.predict_proba(X), model.decision_function(X)
        scores = np.column_stack([np.zeros_like(f), f]) if f.ndim == 1 else f
        np.testing.assert_allclose(P, softmax(scores, axis=1), atol=1e-12)
        np.testing.assert_array_equal(model.predict(X), model.classes_[P.argmax(axis=1)])
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), P)


def test_class_weight(moons) -> None:
    X, y = moons
    by_class = ImportVectorMachine(gamma=1.0, class_weight={0: 1, 1: 3}).fit(X, y)
    by_sample = ImportVectorMachine(gamma=1.0).fit(X, y, np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(by_class.predict_proba(X), by_sample.predict_proba(X), atol=1e-8)


def test_random_state(moons) -> None:
    X, y = moons
    paths = [
        ImportVectorMachine(n_candidates=5, random_state=s, epsilon=0, max_points=10).fit(X, y).selection_
        for s in (0, 0, 1)
    ]
    np.testing.assert_array_equal(paths[0], paths[1])
    assert (paths[0] != paths[2]).any()


def test_features_without_information() -> None:
    y = np.repeat([0, 1, 2], [10, 6, 4])
    for kernel in ("linear", "rbf"):
        model = ImportVectorMachine(kernel=kernel).fit(np.zeros((20, 3)), y)
        assert len(model.support_) <= 1
        np.testing.assert_allclose(model.predict_proba(np.zeros((1, 3))), [[0.5, 0.3, 0.2]], atol=1e-4)


# -- when things go wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0}, "'C' parameter"),
        ({"epsilon": -1}, "'epsilon' parameter"),
        ({"delta_k": 0}, "'delta_k' parameter"),
        ({"max_points": 0}, "'max_points' parameter"),
        ({"n_candidates": "some"}, "'n_candidates' parameter"),
        ({"update": "twice"}, "'update' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
    ],
)
def test_errors_name_the_argument(moons, params, message) -> None:
    assert_refused(ImportVectorMachine(**params), moons, message)


def test_max_iter_warns(moons) -> None:
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        model = ImportVectorMachine(1e4, max_iter=1, tol=1e-15).fit(*moons)
    assert not model.converged_


def test_interrupted_fit_changes_nothing(moons, monkeypatch) -> None:
    X, y = moons
    model = ImportVectorMachine(C=3.0).fit(X, y)
    calls = []

    def interrupt(self: Machine, *args: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        minimise(self, *args)

    minimise = Machine.minimise
    monkeypatch.setattr(Machine, "minimise", interrupt)
    assert_interrupted_fit_changes_nothing(model, X[::2], y[::2])


def test_progress_is_shown(moons, capsys) -> None:
    ImportVectorMachine(10, verbose=1).fit(*moons)
    assert "ImportVectorMachine" in capsys.readouterr().err
