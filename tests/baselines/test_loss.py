"""The logistic loss: derivatives against finite differences, symmetry, and accuracy far from zero."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from sparseklr.baselines.loss import LogisticLoss, cross_entropies
from sparseklr.refit.labels import Labels

pytestmark = pytest.mark.numerical


def derivatives(target: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and second derivatives of the loss of each point with weight 1."""
    here = LogisticLoss(target[None], 1 - target[None]).at(f[None])
    return here.slope[0], here.curvature[0]


@pytest.fixture(params=[1, 3], ids=["two classes", "softmax"])
def loss(request) -> LogisticLoss:
    rng = np.random.default_rng(0)
    target = rng.uniform(0, 2, (request.param, 6)) * (rng.random((request.param, 6)) > 0.3)
    return LogisticLoss.of(np.vstack([rng.uniform(0, 2, 6), target]) if request.param == 1 else target)


def test_derivatives_against_finite_differences(loss) -> None:
    shape = loss.target.shape
    F, D = np.random.default_rng(1).normal(size=(2, *shape))
    here = loss.at(F)
    numeric = approx_fprime(F.ravel(), lambda f: loss.value(f.reshape(shape)), 1e-6).reshape(shape)
    np.testing.assert_allclose(here.slope, numeric, atol=1e-5)
    step = 1e-6
    change = (loss.at(F + step * D).slope - loss.at(F - step * D).slope) / (2 * step)
    np.testing.assert_allclose(here.curved(D), change, atol=1e-7)
    diagonal = [here.curved(unit.reshape(shape)).ravel()[k] for k, unit in enumerate(np.eye(F.size))]
    np.testing.assert_allclose(here.curvature.ravel(), diagonal, atol=1e-14)


def test_trailing_axes_are_independent_problems(loss) -> None:
    F = np.random.default_rng(2).normal(size=(*loss.target.shape, 4))
    values, slopes = loss.value(F), loss.at(F).slope
    for k in range(4):
        assert values[k] == pytest.approx(loss.value(F[..., k]), rel=1e-14)
        np.testing.assert_array_equal(slopes[..., k], loss.at(F[..., k]).slope)


def test_exchanging_the_classes_changes_only_the_sign() -> None:
    f, target = np.random.default_rng(3).normal(scale=20, size=(2, 50))
    target = (target > 0).astype(float)
    np.testing.assert_array_equal(cross_entropies(target, f), cross_entropies(1 - target, -f))
    (slope, curvature), (other_slope, other_curvature) = derivatives(target, f), derivatives(1 - target, -f)
    np.testing.assert_array_equal(slope, -other_slope)
    np.testing.assert_array_equal(curvature, other_curvature)


def test_no_cancellation_far_from_zero() -> None:
    f = np.array([-700.0, -50.0, 50.0, 700.0])
    np.testing.assert_allclose(cross_entropies(f > 0, f), np.exp(-np.abs(f)), rtol=1e-14)
    slope, curvature = derivatives((f > 0).astype(float), f)
    np.testing.assert_allclose(np.abs(slope), np.exp(-np.abs(f)), rtol=1e-14)
    np.testing.assert_allclose(curvature, np.exp(-np.abs(f)), rtol=1e-14)
    assert cross_entropies(0.0, np.array([1e4]), 3.0)[0] == 3e4
    # a weight of 1 beside one of 1e20 on the same point
    loss, F = LogisticLoss.of(np.array([[1.0], [1e20]])), np.array([[60.0]])
    assert loss.value(F) == pytest.approx(60.0, rel=1e-5)
    assert loss.at(F).slope[0, 0] == pytest.approx(1.0, rel=1e-5)
    # three classes, the first certain
    loss, F = LogisticLoss.of(np.array([[1e20], [1.0], [0.0]])), np.array([[60.0], [0.0], [-60.0]])
    assert loss.value(F) == pytest.approx(60.0, rel=1e-5)
    np.testing.assert_allclose(
        loss.at(F).slope[:, 0], [1 - 1e20 * np.exp(-60), 1e20 * np.exp(-60) - 1, 0], atol=1e-6
    )
    D = np.array([[1.0], [0.0], [0.0]])
    assert loss.at(F).curved(D)[0, 0] == pytest.approx(1e20 * np.exp(-60))
    loss = LogisticLoss.of(np.array([[1e20], [0.0], [0.0]]))
    assert loss.value(F) == pytest.approx(1e20 * np.exp(-60))


@pytest.mark.parametrize("n", [1, 3, 4, 17])
def test_compiled_loss_agrees(n: int) -> None:
    rng = np.random.default_rng(n)
    target, weight = rng.choice([0.0, 0.3, 1.0], n), rng.uniform(0.5, 2, n)
    for scale in (0.0, 1.0, 30.0, 1e4):
        f = scale * rng.normal(size=n)
        here = Labels(target, weight).at(f)
        slope, curvature = derivatives(target, f)
        np.testing.assert_allclose(here.losses, cross_entropies(target, f), rtol=1e-14, atol=1e-300)
        whole = target % 1 == 0  # where the two parts of the slope do not cancel
        np.testing.assert_allclose(here.slope[whole], (weight * slope)[whole], rtol=1e-14, atol=1e-300)
        np.testing.assert_allclose(here.slope, weight * slope, rtol=0, atol=1e-15)
        np.testing.assert_allclose(here.information, weight * curvature, rtol=1e-14, atol=1e-300)
        assert here.value == pytest.approx(weight @ here.losses, rel=1e-14)
    for bad in (np.nan, np.inf, -np.inf):
        here = Labels(target, weight).at(np.where(np.arange(n) == n - 1, bad, 0.0))
        assert np.isnan([here.value, here.losses[-1], here.slope[-1], here.information[-1]]).all()
        assert np.isfinite(here.losses[:-1]).all()
