"""HalfKLR: the operator against brute force, the solver against its fixed-point equation and objective."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.alike import (
    KERNELS,
    assert_interrupted_fit_changes_nothing,
    assert_kernels_and_storage_agree,
    assert_refused,
    clearly_less,
    weighted_and_repeated,
)

from sparseklr._validation import kernel_parameters, make_samples
from sparseklr.baselines import HalfKLR, half_klr_path
from sparseklr.baselines.half import half_threshold

pytestmark = pytest.mark.numerical

Data = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def moons() -> Data:
    return make_moons(150, noise=0.25, random_state=0)


def objective(model: HalfKLR, X: np.ndarray, y: np.ndarray) -> float:
    """Return the documented objective of a fitted two-class model, computed from its attributes alone."""
    f = model.decision_function(X)
    loss = np.logaddexp(0, np.where(y == 1, -f, f)).sum()
    return float(model.C * loss + np.sqrt(np.abs(model.dual_coef_)).sum())


def coefficients(model: HalfKLR, n: int) -> np.ndarray:
    beta = np.zeros(n)
    beta[model.support_] = model.dual_coef_[0]
    return beta


@pytest.mark.slow
@parametrize_with_checks([HalfKLR()])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks set max_iter
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


# -- the operator -------------------------------------------------------------------------------


def test_operator_is_the_global_minimiser() -> None:
    """Compare 10^4 random pairs with a search on a grid that contains zero and is refined around its best
    point."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=10_000) * 10 ** rng.uniform(-2, 2, 10_000)
    t = 10 ** rng.uniform(-3, 3, 10_000)

    def value(x: np.ndarray) -> np.ndarray:
        return (x - z[:, None]) ** 2 + t[:, None] * np.sqrt(np.abs(x))

    low, high = np.minimum(z, 0)[:, None], np.maximum(z, 0)[:, None]
    for _ in range(6):
        grid = low + (high - low) * np.linspace(0, 1, 101)
        best = grid[np.arange(len(z)), value(grid).argmin(axis=1)][:, None]
        low, high = np.maximum(low, best - (high - low) / 50), np.minimum(high, best + (high - low) / 50)
    zero = value(np.zeros((len(z), 1)))
    brute = np.where(value(best) < zero, best, 0.0)
    ours = half_threshold(z, t)[:, None]
    lowest = np.minimum(value(best), zero)
    assert (value(ours) <= lowest * (1 + 1e-12)).all()
    tie = np.abs(value(best) - zero) <= 1e-9 * zero  # at the threshold both are minimisers
    np.testing.assert_allclose(ours[~tie], brute[~tie], rtol=1e-5, atol=1e-12)
    assert (ours == 0).any()
    assert (ours != 0).any()


def test_operator_threshold_and_shapes() -> None:
    threshold = 54 ** (1 / 3) / 4
    assert half_threshold(threshold * (1 - 1e-12), 1.0) == 0
    assert half_threshold(threshold * (1 + 1e-12), 1.0) == pytest.approx(2 / 3 * threshold)
    assert half_threshold(0.8, 1.0) == 0  # above the misprinted 3/4
    assert half_threshold(0.0, 1.0) == 0
    assert half_threshold(-3.0, 1.0) == -half_threshold(3.0, 1.0)
    assert half_threshold(np.ones((2, 1)), [1.0, 2.0, 3.0]).shape == (2, 3)


# -- the solver ---------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("algorithm", ["coordinate", "published"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_objective_never_rises(moons, algorithm, C) -> None:
    X, y = moons
    model = HalfKLR(C, gamma=1.0, algorithm=algorithm, max_iter=200).fit(X, y)
    path = model.objective_path_[0]
    assert (np.diff(path) <= 1e-12 * path[0]).all()
    np.testing.assert_allclose(path[-1], objective(model, X, y), rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [0.3, 3.0, 100.0])
def test_fixed_point_of_the_published_iteration(moons, C, intercept) -> None:
    """With the published step mu = 4 / (C |K|^2), beta = H(beta - mu K'r), and r sums to zero."""
    X, y = moons
    model = HalfKLR(C, gamma=1.0, fit_intercept=intercept).fit(X, y)
    assert model.converged_
    assert model.fixed_point_residual_ <= 1e-6
    beta, K = coefficients(model, len(y)), rbf_kernel(X, gamma=1.0)
    r = C * (expit(K @ beta + model.intercept_) - y)
    mu = 4 / (C * np.linalg.norm(K, 2) ** 2)
    np.testing.assert_allclose(
        half_threshold(beta - mu * K @ r, 2 * mu), beta, atol=1e-6 * np.abs(beta).max()
    )
    if intercept:
        assert abs(r.sum()) <= 1e-4 * C
    # no coordinate alone can lower the objective, be it to zero or away from it
    f, present = K @ beta + model.intercept_, objective(model, X, y)
    for j in range(len(y)):
        for x in (0.0, *(np.array([-1, 1])[:, None] * np.geomspace(1e-3, 1e2, 30)).ravel()):
            g = f + (x - beta[j]) * K[:, j]
            penalty = np.sqrt(np.abs(beta)).sum() - np.sqrt(abs(beta[j])) + np.sqrt(abs(x))
            loss = C * np.logaddexp(0, np.where(y == 1, -g, g)).sum()
            assert loss + penalty >= present * (1 - 1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("C", [0.5, 5.0, 50.0])
def test_coordinate_steps_find_lower_minima(C) -> None:
    """The mean objective over six samples is lower, with fewer points unless published steps stay at zero."""
    ours, published = [], []
    for seed in range(6):
        X, y = make_moons(100, noise=0.25, random_state=seed)
        for found, options in (ours, {}), (published, {"algorithm": "published", "max_iter": 2000}):
            model = HalfKLR(C, gamma=1.0, **options).fit(X, y)
            found.append((objective(model, X, y), len(model.support_)))
    (ours, n_ours), (published, n_published) = np.transpose(ours), np.transpose(published)
    assert clearly_less(ours, published)
    if C > 1:
        assert clearly_less(n_ours, n_published)


@pytest.mark.parametrize(("scale", "definite"), [(3.0, True), (1e-3, False)])
def test_derivatives_against_finite_differences(moons, scale, definite) -> None:
    """The Hessian is exact if it is positive definite; otherwise the penalty is majorised."""
    X, y = moons
    model = HalfKLR(2.0, gamma=1.0)
    data = make_samples(X, y, None, class_weight=None, **kernel_parameters(model))
    solver = model._solvers(data)[0]
    solver.solve(2.0, 1e-3, 3)
    size, rng = len(solver.x), np.random.default_rng(0)
    solver.x = scale * rng.uniform(0.5, 2, size) * np.sign(solver.x)

    def put(v: np.ndarray) -> None:
        solver.x, solver.b = v[:size], float(v[size])
        solver.h = solver.columns @ solver.x

    def value(v: np.ndarray) -> float:
        put(v)
        return solver.objective(2.0)

    def gradient(v: np.ndarray) -> np.ndarray:
        put(v)
        return solver._gradient(2.0, solver._metric(2.0))

    at, steps = np.append(solver.x, 0.3), 1e-5 * np.append(np.abs(solver.x), 1.0)
    differences = [
        (value(at + d * e) - value(at - d * e)) / (2 * d)
        for d, e in zip(steps, np.eye(size + 1), strict=True)
    ]
    np.testing.assert_allclose(gradient(at), differences, rtol=1e-5, atol=1e-5)
    hessian = np.array(
        [
            (gradient(at + d * e) - gradient(at - d * e)) / (2 * d)
            for d, e in zip(steps, np.eye(size + 1), strict=True)
        ]
    )
    assert (np.linalg.eigvalsh(hessian).min() > 0) == definite
    expected = hessian
    if not definite:  # 1/2 in the place of -1/4
        expected = hessian + np.diag(0.75 * np.append(np.abs(at[:size]) ** -1.5, 0))
    put(at)
    metric = solver._metric(2.0)
    model_of = np.linalg.inv(metric.solve(np.eye(size + 1)))
    np.testing.assert_allclose(model_of, expected, atol=1e-5 * np.abs(expected).max())


def test_models_of_a_path_are_those_of_a_fit(moons) -> None:
    """Weights are equivalent to repetitions, and all fitted attributes are present."""
    X, y = moons
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    (weighted,) = half_klr_path(X, y, [10.0], sample_weight=weight)
    (repeated,) = half_klr_path(X[rows], y[rows], [10.0])
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    assert vars(weighted).keys() == vars(HalfKLR(10.0).fit(X, y)).keys()


def test_path(moons) -> None:
    X, y = moons
    Cs = [10.0, 0.1, 1.0]
    models = half_klr_path(X, y, Cs, gamma=1.0)
    assert [model.C for model in models] == Cs
    for C, model in zip(Cs, models, strict=True):
        alone = HalfKLR(C, gamma=1.0).fit(X, y)
        assert model.converged_
        np.testing.assert_allclose(objective(model, X, y), objective(alone, X, y), rtol=0.1)
    with pytest.raises(ValueError, match="Cs must be"):
        half_klr_path(X, y, [1.0, -1.0])


# -- data in every form -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["moons", "iris"])
def test_weights_equal_repetition(name, kernel, request) -> None:
    X, y = request.getfixturevalue(name)
    weighted, repeated, _, difference = weighted_and_repeated(HalfKLR(5.0), X, y, kernel)
    assert difference <= 1e-8
    if kernel != "precomputed":  # rows that are equal are merged
        assert len(weighted.support_) == len(repeated.support_)


def test_kernels_and_storage_agree(iris) -> None:
    assert_kernels_and_storage_agree(HalfKLR(10), *iris, "decision_function", rtol=1e-3)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("cache_size", ["auto", 1e-3])
def test_without_the_whole_matrix_in_float64(moons, monkeypatch, cache_size, form) -> None:
    """With a float32 kernel matrix, or without one, the result is a fixed point of the exact problem."""
    X, y = moons
    expected = HalfKLR(5, gamma=0.5).fit(X, y)
    monkeypatch.setattr("sparseklr.samples._WHOLE_MATRIX", 10)
    model = HalfKLR(5, gamma=0.5, cache_size=cache_size).fit(form(X), y)
    assert model.converged_
    assert model.fixed_point_residual_ <= 1e-6
    np.testing.assert_allclose(objective(model, X, y), objective(expected, X, y), rtol=0.02)


def test_predictions_are_consistent(moons, iris) -> None:
    for X, y in (moons, iris):
        labels = np.array(["a", "b", "c"])[y]
        model = HalfKLR().fit(X, labels)
        P, f = model.predict_proba(X), model.decision_function(X)
        positive = expit(np.column_stack([-f, f]) if f.ndim == 1 else f)
        np.testing.assert_allclose(P, positive / positive.sum(axis=1, keepdims=True), atol=1e-12)
        np.testing.assert_array_equal(model.predict(X), model.classes_[P.argmax(axis=1)])
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), P)
        assert model.dual_coef_.shape == (1 if f.ndim == 1 else 3, len(model.support_))


def test_class_weight_and_an_empty_model(moons) -> None:
    X, y = moons
    by_class = HalfKLR(gamma=1.0, class_weight={0: 1, 1: 3}).fit(X, y)
    by_sample = HalfKLR(gamma=1.0).fit(X, y, np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(by_class.predict_proba(X), by_sample.predict_proba(X), atol=1e-6)
    empty = HalfKLR(1e-6).fit(X, y, np.where(y == 1, 3.0, 1.0))
    assert len(empty.support_) == 0
    np.testing.assert_allclose(empty.predict_proba(X)[:, 1], 0.75, atol=1e-6)


def test_features_without_information() -> None:
    y = np.repeat([0, 1], [12, 8])
    for kernel in ("linear", "rbf"):
        model = HalfKLR(kernel=kernel).fit(np.zeros((20, 3)), y)
        assert len(model.support_) == 0
        np.testing.assert_allclose(model.predict_proba(np.zeros((1, 3))), [[0.6, 0.4]], atol=1e-6)


# -- when things go wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0}, "'C' parameter"),
        ({"algorithm": "fast"}, "'algorithm' parameter"),
        ({"tol": 0}, "'tol' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"cache_size": 0}, "'cache_size' parameter"),
    ],
)
def test_errors_name_the_argument(moons, params, message) -> None:
    assert_refused(HalfKLR(**params), moons, message)


def test_max_iter_warns(moons) -> None:
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        model = HalfKLR(100, max_iter=2).fit(*moons)
    assert not model.converged_
    assert model.n_iter_ == 2


def test_interrupted_fit_changes_nothing(moons) -> None:
    X, y = moons
    interrupts = False

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        if interrupts:
            raise KeyboardInterrupt
        return rbf_kernel(A, B)

    model = HalfKLR(kernel=kernel).fit(X, y)
    model.predict(X)
    interrupts = True
    assert_interrupted_fit_changes_nothing(model, X[::2], y[::2])


@pytest.mark.parametrize("params", [{}, {"algorithm": "published", "tol": 1e-2}])
def test_progress_is_shown(moons, capsys, params) -> None:
    HalfKLR(verbose=1, **params).fit(*moons)
    assert "HalfKLR" in capsys.readouterr().err


def test_equal_rows_have_an_empty_model() -> None:
    """The minimum is the intercept alone, for any weights of the rows."""
    X, weight = np.ones((2, 1)), np.array([16518640.73422155, 6561406.2852813])
    model = HalfKLR(260.2452542277681, tol=1e-6).fit(X, [0, 1], sample_weight=weight)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], weight[1] / weight.sum(), rtol=1e-12)
    assert model.converged_
    assert model.fixed_point_residual_ <= model.tol


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_constant_kernel_has_an_empty_model() -> None:
    X, y = np.arange(4.0)[:, None], [0, 0, 0, 1]
    model = HalfKLR(kernel="poly", degree=0).fit(X, y)
    assert len(model.support_) == 0
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / 4, rtol=1e-6)


@pytest.mark.filterwarnings("error")
def test_overflowing_coefficients_raise() -> None:
    X = 1e-158 * np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match=r"coefficients overflow: .* are too large or too small"):
        HalfKLR(1e170, kernel="linear").fit(X, X[:, 0] > 0)
