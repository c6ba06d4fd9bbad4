"""The affine recalibration that undoes the shrinkage of a penalised likelihood."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from sparseklr import SparseKLR
from sparseklr.datasets import make_ringnorm, make_twonorm, make_waveform
from sparseklr.refit.labels import Labels
from sparseklr.refit.recalibration import Recalibration, fit_recalibration, with_slope

pytestmark = pytest.mark.numerical


def drawn(slope: float, intercept: float, n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Outputs f, and labels drawn from the probabilities of an affine function of f."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=n)
    return f, (rng.uniform(size=n) < expit(slope * f + intercept)).astype(float)


@pytest.mark.parametrize(("slope", "intercept"), [*product((0.5, 1.5, 3.0), (-1.0, 0.0, 0.5))])
def test_recalibration_maximises_the_likelihood(slope, intercept) -> None:
    f, y = drawn(slope, intercept)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    line = fit_recalibration(Labels(y, weight).observations, f)
    targets = y
    if slope > 1:  # Platt's, for the number of equal weights that say as much as those of the class
        n = [weight[y == k].sum() ** 2 / (weight[y == k] ** 2).sum() for k in (0, 1)]
        targets = np.where(y == 1, (n[1] + 1) / (n[1] + 2), 1 / (n[0] + 2))

    def loss(ab: np.ndarray) -> float:
        g = ab[0] * f + ab[1]
        return float(weight @ (np.logaddexp(0, g) - targets * g))

    bounds = [(1.0, None), (None, None)]
    best = minimize(loss, [1.0, 0.0], tol=1e-12, bounds=bounds).x
    np.testing.assert_allclose(line, best, rtol=1e-4, atol=1e-4)
    assert fit_recalibration(Labels(y, 1e6 * weight).observations, f) == pytest.approx(
        line, rel=1e-3
    )  # but for Platt's targets


def test_slope_is_one_without_evidence() -> None:
    f, y = drawn(1.0, 0.0, 300)
    separated = np.where(y > 0, 8.0, -8.0)  # Platt's targets alone would make them smaller
    assert fit_recalibration(Labels(y, np.ones(300)).observations, separated).slope == 1
    assert (
        fit_recalibration(Labels(y, np.ones(300)).observations, separated / 20).slope > 5
    )  # as far as they allow
    for too_large in (3 * f, -f):
        assert fit_recalibration(Labels(y, np.ones(300)).observations, too_large).slope == 1


@pytest.mark.parametrize("f", [np.zeros(6), np.full(6, 1e8), np.array([-1e300, 0, 1e-300, 1, 2, 1e300])])
@pytest.mark.parametrize("y", [[0, 0, 0, 1, 1, 1], [1, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 1]])
def test_recalibration_of_extreme_outputs(f, y) -> None:
    line = fit_recalibration(
        Labels(np.repeat(y, 70).astype(float), np.ones(420)).observations, np.repeat(f, 70)
    )
    assert np.isfinite(line).all()
    assert line.slope >= 1
    few = fit_recalibration(Labels(np.repeat(y, 6).astype(float), np.ones(36)).observations, np.repeat(f, 6))
    assert few == Recalibration()


@pytest.mark.parametrize("slope", [1.0, 30.0, 1e3, 1e5])
def test_a_large_slope_has_the_intercept_of_the_maximum_likelihood(slope: float) -> None:
    """With a small C, outputs differ little from each other and are far from zero."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300).astype(float)
    f = -0.05 + (2 * y - 1 + rng.normal(size=300)) / slope
    line = with_slope(Labels(y, np.ones(300)), f, slope)
    assert expit(line(f)).sum() == pytest.approx(y.sum(), abs=1e-2)
    codes = rng.integers(0, 3, 300)
    F = np.array([0.1, -0.3, 0.2]) + (2 * np.eye(3)[codes] + rng.normal(size=(300, 3))) / slope
    line = with_slope(Labels(np.eye(3)[codes], np.ones(300)), F, slope)
    np.testing.assert_allclose(softmax(line(F), axis=1).sum(axis=0), np.bincount(codes), atol=1e-2)


def test_refit_is_the_recalibrated_optimum_of_its_likelihood() -> None:
    X, y = make_ringnorm(600, random_state=0)
    model = SparseKLR(kernel="rbf", prune=0).fit(X, y)
    a, C = model.slope_[0], model.C_[0]
    assert a > 1.5
    K = rbf_kernel(model._features(X), model._points_, gamma=model.gamma_)
    beta, Kbeta = model.dual_coef_[0] / a, K @ model.dual_coef_[0] / a
    shift = minimize(lambda c: np.logaddexp(0, Kbeta + c).sum() - y @ (Kbeta + c), [0.0], tol=1e-12).x
    gradient = K[model.support_] @ beta + C * K.T @ (expit(Kbeta + shift) - y)
    scale = C * np.abs(K.T) @ np.abs(expit(Kbeta + shift) - y)
    assert np.abs(gradient / scale).max() < 1e-3  # points that add next to nothing are not in the basis
    assert np.ptp(SparseKLR(C=C).fit(X, y).slope_) == 0


def test_recalibration_is_better_than_any_C() -> None:
    """Two normal distributions around almost the same centre: the outputs should be large, and smooth."""
    X, y = make_ringnorm(4000, random_state=0)
    train, test = slice(0, 800), slice(800, None)

    def loss(**parameters) -> float:
        model = SparseKLR(**parameters).fit(X[train], y[train])
        return log_loss(y[test], model.predict_proba(X[test]))

    assert loss() < 0.95 * min(loss(C=C) for C in (1.0, 3.0, 10.0, 30.0, 100.0))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("width", [1 / 30, 1 / 300, 1.0])
def test_fitted_probabilities_add_up_to_the_labels(width: float, n_classes: int) -> None:
    """Regression test: with wide kernels the intercept was that of another basis."""
    X, y = make_classification(
        600, 12, n_informative=8, n_classes=n_classes, class_sep=1.5, flip_y=0.02, random_state=0
    )
    X, weight = StandardScaler().fit_transform(X), np.random.default_rng(0).uniform(0.5, 2, 600)
    model = SparseKLR(gamma=width / X.shape[1]).fit(X, y, sample_weight=weight)
    P = model.predict_proba(X)
    np.testing.assert_allclose(weight @ P, np.bincount(y, weight), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_ringnorm, make_twonorm, make_waveform])
@pytest.mark.parametrize("random_state", [0, 1])
def test_a_kernel_that_is_far_too_narrow_is_not_worse_than_a_constant(make, random_state) -> None:
    """Regression test: steep recalibrations and excessive pruning gave log-losses of 2 to 7."""
    X, y = make(3500, random_state=random_state)[:2]
    y = (y == 0).astype(int)
    train, test = slice(0, 500), slice(500, None)
    gamma = 10 / (X.shape[1] * X[train].var())
    model = SparseKLR(gamma=gamma, random_state=random_state).fit(X[train], y[train])
    fraction = y.mean()
    constant = -(fraction * np.log(fraction) + (1 - fraction) * np.log(1 - fraction))
    assert log_loss(y[test], model.predict_proba(X[test])) < 1.02 * constant
