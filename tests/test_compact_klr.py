"""CompactKLR as a scikit-learn estimator."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparseklr import CompactKLR
from sparseklr.datasets import make_ringnorm


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(300, noise=0.25, random_state=0)


@pytest.fixture(scope="module")
def fitted(moons) -> CompactKLR:
    return CompactKLR().fit(*moons)


@parametrize_with_checks([CompactKLR()])
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


def test_two_points_do_for_ringnorm() -> None:
    """A Gaussian inside a wider one: the log-ratio of the densities is nearly two kernel functions."""
    model = CompactKLR().fit(*make_ringnorm(1000, random_state=0))
    X, y = make_ringnorm(4000, random_state=1)
    assert model.n_points_ <= 4
    assert log_loss(y, model.predict_proba(X)) < 0.08


def test_attributes(moons, fitted) -> None:
    X, _ = moons
    assert fitted.points_.shape == (fitted.n_points_, 2)
    assert fitted.coef_.shape == (1, fitted.n_points_)
    assert (fitted.points_ > X.min(axis=0) - 10).all()
    assert (fitted.relevance_ > 0).all()
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    assert fitted.held_out_log_loss_ in fitted.path_["held_out_log_loss"]
    assert fitted.n_points_ in fitted.path_["n_points"]
    assert np.isfinite(fitted.gradient_norm_)
    assert fitted.get_support().all()
    np.testing.assert_array_equal(fitted.get_support(indices=True), [0, 1])


def test_formula(moons, fitted) -> None:
    """The published attributes are the model: points in the units of X, widths for standardised features."""
    X, _ = moons
    spread = X.std(axis=0)
    assert (np.abs((X - X.mean(axis=0)) / spread) < 4).all()  # nothing is clipped, no feature is skewed
    difference = (X[:, None] - fitted.points_) / spread
    K = np.exp(-(difference**2) @ fitted.relevance_)
    np.testing.assert_allclose(
        fitted.decision_function(X), K @ fitted.coef_[0] + fitted.intercept_, atol=1e-9
    )


def test_probabilities_agree_with_decisions(moons, fitted) -> None:
    X, _ = moons
    f, p = fitted.decision_function(X), fitted.predict_proba(X)
    np.testing.assert_allclose(np.log(p[:, 1] / p[:, 0]), f, atol=1e-9)
    np.testing.assert_array_equal(fitted.predict(X), p.argmax(axis=1))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), p)


def test_threads_order_and_repetition_change_nothing(moons, fitted) -> None:
    X, y = moons
    np.testing.assert_array_equal(CompactKLR(n_jobs=3).fit(X, y).points_, fitted.points_)
    order = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_array_equal(CompactKLR().fit(X[order], y[order]).points_, fitted.points_)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = CompactKLR().fit(X, y, sample_weight=weight)
    repeated = CompactKLR().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(weighted.decision_function(X), repeated.decision_function(X))


def test_sparse_rows_give_the_same_model(moons, fitted) -> None:
    X, y = moons
    model = CompactKLR().fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(model.points_, fitted.points_, rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(sparse.csr_array(X)), fitted.predict_proba(X), rtol=1e-6)


def test_float32(moons, fitted) -> None:
    X, y = moons
    single = CompactKLR(n_points=4, C=10).fit(X.astype(np.float32), y)
    double = CompactKLR(n_points=4, C=10).fit(X.astype(np.float32).astype(np.float64), y)
    np.testing.assert_allclose(single.points_, double.points_, rtol=1e-6)
    np.testing.assert_allclose(
        single.decision_function(X.astype(np.float32)), double.decision_function(X), rtol=1e-3, atol=1e-3
    )


def test_many_classes() -> None:
    X, y = load_iris(return_X_y=True)
    model = CompactKLR().fit(X, np.array(["a", "b", "c"])[y])
    assert model.coef_.shape == (3, model.n_points_)
    assert model.score(X, np.array(["a", "b", "c"])[y]) > 0.95
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_given_number_of_points_and_C(moons) -> None:
    X, y = moons
    model = CompactKLR(n_points=5, C=3.0).fit(X, y)
    assert (model.n_points_, model.C_) == (5, 3.0)
    assert model.held_out_log_loss_ is None
    assert len(model.path_["n_points"]) == 0
    model = CompactKLR(n_points=5).fit(X, y)
    assert model.n_points_ == 5
    assert model.held_out_log_loss_ == model.path_["held_out_log_loss"][-1]


def test_persistence_and_clone(moons, fitted) -> None:
    X, _ = moons
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(X), fitted.predict_proba(X))
    assert len(pickle.dumps(fitted)) < 20_000
    assert not hasattr(clone(fitted), "points_")
