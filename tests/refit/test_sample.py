"""Fits to more rows than the sample: the likelihood of all rows, and held-out outputs of other rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import make_classification, make_moons
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

from sparseklr import SparseKLR
from sparseklr.dual import parts
from sparseklr.refit import sample

PLAIN = {"kernel": "rbf", "gamma": 0.5, "scale": None, "relevance": "shared"}


@pytest.fixture(autouse=True)
def small_sample(monkeypatch) -> None:
    monkeypatch.setattr(sample, "SETTINGS", replace(sample.SETTINGS, points=350, least_of_class=50))
    monkeypatch.setattr(parts, "SETTINGS", replace(parts.SETTINGS, rows=200, least_of_class=20))


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(1000, noise=0.3, random_state=0)


def test_the_coefficients_minimise_the_likelihood_of_all_rows(moons) -> None:
    """The gradient of |f|^2 / 2 + C * (sum of log-losses) is zero; f is fitted to a relative 1e-10 of it."""
    X, y = moons
    model = SparseKLR(C=1.0, **PLAIN).fit(X, y)
    K = rbf_kernel(X, model.support_vectors_, gamma=0.5)
    residual = y - expit(K @ model.dual_coef_[0] + model.intercept_)
    assert abs(residual.sum()) < 1e-3
    np.testing.assert_allclose(K[model.support_] @ model.dual_coef_[0], K.T @ residual, atol=1e-3)


def test_outputs_outside_the_sample_do_not_depend_on_labels_there(moons) -> None:
    X, y = moons
    model = SparseKLR(C=1.0, **PLAIN).fit(X, y)
    changed = []
    for row in range(12):
        flipped = y.copy()
        flipped[row] = 1 - flipped[row]
        other = SparseKLR(C=1.0, **PLAIN).fit(X, flipped)
        changed.append(other.loo_decision_function_[row] != model.loo_decision_function_[row])
    # Rows of the sample keep their leave-one-out output approximately, the others exactly.
    assert 0 < sum(changed) < len(changed)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_repeated_and_weighted_rows_and_threads_give_the_same_model(n_classes: int) -> None:
    X, y = make_classification(600, 4, n_informative=4, n_redundant=0, n_classes=n_classes, random_state=0)
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    weighted = SparseKLR().fit(X, y, sample_weight=weight)
    repeated = SparseKLR().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    threads = SparseKLR(n_jobs=2).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    np.testing.assert_array_equal(weighted.dual_coef_, threads.dual_coef_)
    np.testing.assert_array_equal(weighted.loo_decision_function_, threads.loo_decision_function_)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_sample_costs_little_log_loss(n_classes: int, monkeypatch) -> None:
    X, y = make_classification(3000, 4, n_informative=4, n_redundant=0, n_classes=n_classes, random_state=1)
    train, test = slice(0, 1200), slice(1200, None)
    sampled = SparseKLR().fit(X[train], y[train])
    monkeypatch.undo()
    whole = SparseKLR().fit(X[train], y[train])
    losses = [log_loss(y[test], model.predict_proba(X[test])) for model in (sampled, whole)]
    assert losses[0] < 1.1 * losses[1]
    assert sampled.loo_log_loss_ == pytest.approx(losses[0], rel=0.25)
    assert np.isfinite(sampled.loo_decision_function_).all()


def test_a_sample_without_signal_gives_the_class_fractions() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(800, 3)), rng.random(800) < 0.3
    with pytest.warns(UserWarning, match="found no signal"):
        model = SparseKLR().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], y.mean(), rtol=1e-6)
