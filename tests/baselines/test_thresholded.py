"""ThresholdedKLR: the kept points, and agreement with kernel logistic regression."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparseklr import SKLR
from sparseklr.baselines import ThresholdedKLR

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(120, noise=0.3, random_state=0)


@pytest.mark.slow
@parametrize_with_checks([ThresholdedKLR(), ThresholdedKLR(C=10, kernel="linear", retrain=True)])
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


def plain(X: np.ndarray, y: np.ndarray) -> SKLR:
    return SKLR(C=30, lam=0, tol=1e-8, gamma=1.0, calibration=None).fit(X, y)


def test_largest_coefficients_are_kept_unchanged(moons) -> None:
    X, y = moons
    dense = plain(X, y)
    model = ThresholdedKLR(C=30, n_points=15, gamma=1.0, tol=1e-8).fit(X, y)
    size = np.abs(dense.dual_coef_[0])
    np.testing.assert_array_equal(model.support_, np.sort(np.argsort(-size)[:15]))
    np.testing.assert_allclose(model.dual_coef_, dense.dual_coef_[:, model.support_], atol=1e-5)
    np.testing.assert_allclose(model.intercept_, dense.intercept_, atol=1e-6)
    f = rbf_kernel(X, X[model.support_], gamma=1.0) @ model.dual_coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), f)
    assert model.threshold_ == pytest.approx(np.sort(size)[-16], abs=1e-5)


def test_threshold_keeps_larger_dual_variables(moons) -> None:
    X, y = moons
    by_number = ThresholdedKLR(C=30, n_points=15, gamma=1.0).fit(X, y)
    by_size = ThresholdedKLR(C=30, threshold=by_number.threshold_, gamma=1.0).fit(X, y)
    np.testing.assert_array_equal(by_size.support_, by_number.support_)
    assert np.abs(by_size.dual_coef_).min() > by_number.threshold_


def test_default_threshold_is_that_of_the_paper(moons) -> None:
    X, y = moons
    model = ThresholdedKLR(C=30, gamma=1.0, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), plain(X, y).decision_function(X), atol=1e-3)
    everything = ThresholdedKLR(C=30, n_points=1000).fit(X, y)
    assert len(everything.support_) == len(y)
    assert everything.threshold_ == 0


def test_retraining_is_a_fit_on_the_kept_points(moons) -> None:
    X, y = moons
    model = ThresholdedKLR(C=30, n_points=15, gamma=1.0, tol=1e-8, retrain=True).fit(X, y)
    alone = plain(X[model.support_], y[model.support_])
    np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-5)


def test_step_limit_warns() -> None:
    X, y = make_moons(100, noise=0.3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter or tol, or scale the features"):
        model = ThresholdedKLR(n_points=9, max_iter=5).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 5
    assert ThresholdedKLR(n_points=9).fit(X, y).converged_


def test_more_than_two_classes() -> None:
    X, y = load_iris(return_X_y=True)
    model = ThresholdedKLR(C=10, n_points=30).fit(X, y)
    assert len(model.support_) == 30
    assert model.dual_coef_.shape == (3, 30)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_sparse_klr_beats_thresholding_at_the_same_size() -> None:
    """The mean loss over samples is lower by more than two standard errors."""
    gains = []
    for seed in range(10):
        X, y = make_moons(1000, noise=0.3, random_state=seed)
        train, test = (X[:200], y[:200]), (X[200:], y[200:])
        sparse = SKLR(C=1e3, calibration=None).fit(*train)
        heuristic = ThresholdedKLR(C=1e3, n_points=len(sparse.support_)).fit(*train)
        gains.append(sparse.score(*test) - heuristic.score(*test))
    assert np.mean(gains) > 2 * np.std(gains, ddof=1) / np.sqrt(len(gains))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"n_points": 3, "threshold": 0.1},
            "n_points and threshold must not both be given; got n_points=3 and threshold=0.1",
        ),
        ({"n_points": 0}, "'n_points' parameter"),
        ({"threshold": -1.0}, "'threshold' parameter"),
        ({"threshold": 1e9}, r"threshold=1e\+09 drops all points: the largest dual variable is 2"),
        ({"cache_size": -1}, "'cache_size' parameter"),
        ({"n_points": 1, "retrain": True}, "none of the 1 kept points belongs to class"),
    ],
)
def test_invalid_input_raises_and_leaves_no_state(moons, params, message) -> None:
    model = ThresholdedKLR(C=30, **params)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(*moons)
    assert vars(model) == before


def test_warning_covers_both_trainings(moons) -> None:
    """The fit to all points does not converge, but the fit to the kept points does."""
    with pytest.warns(ConvergenceWarning) as caught:
        model = ThresholdedKLR(n_points=4, retrain=True, max_iter=100).fit(*moons)
    assert model.n_iter_ < 100
    assert not model.converged_
    assert float(str(caught[0].message).split("violation of ")[1].split()[0]) > 0.1
