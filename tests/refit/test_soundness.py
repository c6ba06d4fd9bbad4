"""Invariants of every fit: the losses of training rows, estimate and class fractions."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from sparseklr import SparseKLR
from sparseklr.refit import refit
from sparseklr.refit.refit import Losses, advice_without_signal

pytestmark = pytest.mark.numerical


def income_and_age() -> tuple[np.ndarray, np.ndarray]:
    """Labels depend on age alone, and income is thousands of times as large."""
    rng = np.random.default_rng(0)
    age, income = rng.normal(40, 12, 500), np.exp(rng.normal(10, 1, 500))
    return np.column_stack([income, age]), (age + rng.normal(0, 4, 500) > 40).astype(int)


def test_unscaled_features_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = income_and_age()
    plain = {"kernel": "rbf", "scale": None, "relevance": "shared"}
    with pytest.warns(
        UserWarning, match="'income' varies [0-9]+ times as much as feature 'age': standardise"
    ):
        SparseKLR(**plain).fit(pandas.DataFrame(X, columns=["income", "age"]), y)
    with pytest.warns(UserWarning, match="Feature 0 varies"):
        model = SparseKLR(**plain).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], y.mean())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = StandardScaler().fit_transform(X)
        assert SparseKLR(**plain).fit(scaled, y).score(scaled, y) > 0.85
        assert SparseKLR().fit(X, y).score(X, y) > 0.85


def test_scaled_features_need_no_scaling() -> None:
    """The advice to standardise is given only if the features are not scaled."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(200, 3)) * [1.0, 1e6, 1e-3], np.arange(200) % 2
    with pytest.warns(UserWarning, match="found no signal.*other values of gamma"):
        SparseKLR().fit(X, y)
    with pytest.warns(UserWarning, match="Feature 1 varies [0-9]+ times as much as feature 2"):
        SparseKLR(scale=None).fit(X, y)


def test_a_given_c_without_signal_points_to_auto() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match=r"found no signal.*with C=1000000000000.0; try C='auto'"):
        SparseKLR(C=1e12).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_noise_gives_the_class_fractions(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.permutation(np.arange(300) % 10 % n_classes)
    weight = rng.uniform(0.5, 2, 300)
    with pytest.warns(UserWarning, match="found no signal.*so the model predicts the class fractions"):
        model = SparseKLR().fit(X, y, sample_weight=weight)
    fractions = np.bincount(y, weight) / weight.sum()
    np.testing.assert_allclose(model.predict_proba(X), np.tile(fractions, (300, 1)), rtol=1e-6)
    assert len(model.support_) == 0
    assert model.loo_log_loss_ == pytest.approx(-fractions @ np.log(fractions), rel=0.02)
    assert model.predict_proba(X[:3], moderated=True).shape == (3, n_classes)


def test_a_given_C_is_kept_with_a_warning() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), np.arange(200) % 2
    with pytest.warns(UserWarning, match="with C=100"):
        model = SparseKLR(C=100.0).fit(X, y)
    assert len(model.support_) > 0


def test_a_refit_worse_than_its_estimate_is_repeated_without_recalibration(monkeypatch) -> None:
    """An injected fault makes all coefficients of the first attempt wrong."""
    X, y = make_moons(200, noise=0.2, random_state=0)
    plain, calls = SparseKLR(prune=0).fit(X, y), []
    fit_once = refit.refit_with

    def wrong_at_first(*args, **kwargs):
        model = fit_once(*args, **kwargs)
        calls.append(kwargs["prune_within"])
        wrong = len(calls) == 1 or always
        return replace(model, outputs=-model.outputs) if wrong else model

    monkeypatch.setattr(refit, "refit_with", wrong_at_first)
    always = False
    repaired = SparseKLR().fit(X, y)
    assert calls == [0.05, 0.0]
    np.testing.assert_allclose(repaired.predict_proba(X), plain.predict_proba(X), atol=0.02)
    always = True
    with pytest.warns(UserWarning, match="training rows, .*, is above the leave-one-out estimate"):
        SparseKLR().fit(X, y)


def test_losses_are_compared_up_to_noise() -> None:
    sound = Losses(fractions=0.69, estimate=0.30, error=0.02, training=0.31)
    assert not sound.training_is_worse
    assert not sound.no_signal
    assert Losses(0.69, 0.30, 0.02, 0.33).training_is_worse
    assert Losses(0.69, np.nan, np.nan, 0.33).training_is_worse
    assert Losses(0.69, 0.69, 0.02, 0.69).no_signal


def test_advice_for_unscaled_features() -> None:
    from scipy import sparse

    for X in (np.zeros((5, 3)), np.ones((5, 1)), sparse.eye_array(4, format="csr"), np.empty((3, 0)), None):
        assert "other values of gamma" in advice_without_signal(X, None, has_gamma=True)


@pytest.mark.slow
def test_a_searched_kernel_is_confirmed_on_folds() -> None:
    """On a full factorial of three features, leave-one-out alone gives a third of the true loss."""
    grid = np.array(np.meshgrid(*[np.arange(6.0)] * 3)).reshape(3, -1).T
    y = ((grid[:, 0] + grid[:, 1]) % 4 > 1).astype(int)
    rows = np.random.default_rng(0).permutation(len(grid))
    train, test = rows[:150], rows[150:]
    plain = {"scale": None, "relevance": "shared"}
    model = SparseKLR(kernel="auto", gamma="auto", **plain).fit(grid[train], y[train])
    loss = log_loss(y[test], model.predict_proba(grid[test]))
    first = SparseKLR(kernel="rbf", **plain).fit(grid[train], y[train])
    assert loss < 1.02 * log_loss(y[test], first.predict_proba(grid[test]))
    if model.validation_log_loss_ is not None:
        assert loss < 2 * model.validation_log_loss_ + 0.05
