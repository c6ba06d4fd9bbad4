"""Weights in the refit: a weight is a number of copies, and only the ratios of weights matter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)

from sparseklr import SKLR, SparseKLR
from sparseklr.baselines import HalfKLR, ImportVectorMachine
from sparseklr.kernels import Kernel
from sparseklr.samples import DistinctPoints, Samples, nearly_equal_rows

pytestmark = pytest.mark.numerical


def problem(seed: int, n: int = 60, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points on a grid, so that some are equal (with equal labels or not), and weights 0 to 3."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 2)), 1)
    X[n // 2 : n // 2 + 5] = X[:5]
    y = np.digitize(X[:, 0] + rng.normal(scale=0.5, size=n), np.arange(n_classes - 1))
    y[:n_classes] = np.arange(n_classes)
    weight = rng.integers(0, 4, n)
    weight[:n_classes] = 1
    return X, y, weight


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [SparseKLR(), SparseKLR(gamma="auto"), SKLR(calibration="link"), HalfKLR(), ImportVectorMachine()],
    ids=str,
)
def test_the_weight_of_a_class_is_that_of_its_rows(model) -> None:
    X, y, weight = problem(0)
    weight = weight * np.random.default_rng(0).uniform(0.5, 2, len(y))  # no numbers of copies
    by_class = clone(model).set_params(class_weight={0: 3.0, 1: 1.0}).fit(X, y, sample_weight=weight)
    by_row = clone(model).fit(X, y, sample_weight=weight * np.where(y == 0, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([2, 3]))
def test_a_weight_is_a_number_of_copies(seed: int, n_classes: int) -> None:
    """The models agree exactly, at the default tolerance and with the rows in another order."""
    X, y, weight = problem(seed, n_classes=n_classes)
    weighted = SparseKLR().fit(X, y, sample_weight=weight)
    order = np.random.default_rng(seed).permutation(weight.sum())
    repeated = SparseKLR().fit(np.repeat(X, weight, axis=0)[order], np.repeat(y, weight)[order])
    # the same coefficients, added up in another order
    np.testing.assert_array_equal(np.sort(repeated.dual_coef_), np.sort(weighted.dual_coef_))
    np.testing.assert_allclose(repeated.predict_proba(X), weighted.predict_proba(X), atol=1e-12)
    assert repeated.loo_log_loss_ == pytest.approx(weighted.loo_log_loss_, rel=1e-12)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(1e-6, 1e6), st.sampled_from([None, "balanced"]))
def test_a_constant_factor_on_all_weights_changes_nothing(seed: int, factor: float, class_weight) -> None:
    X, y, weight = problem(seed)
    one = SparseKLR(class_weight=class_weight).fit(X, y, sample_weight=weight)
    many = SparseKLR(class_weight=class_weight).fit(X, y, sample_weight=factor * weight)
    np.testing.assert_allclose(many.predict_proba(X), one.predict_proba(X), rtol=1e-9)
    np.testing.assert_array_equal(many.support_, one.support_)
    assert many.loo_log_loss_ == pytest.approx(one.loo_log_loss_, rel=1e-9)


@pytest.mark.parametrize(
    "estimator",
    [
        SparseKLR(kernel="rbf", scale=None, relevance="shared"),
        SKLR(C=100, calibration="sigmoid"),
        SKLR(C=100, calibration="link"),
    ],
    ids=str,
)
def test_near_rows_of_a_kernel_matrix_are_not_the_same_row(estimator) -> None:
    """Rows of a group differ by at least 1e-9; repeated rows only by rounding."""
    rng = np.random.default_rng(0)
    X = np.column_stack([100.0 * rng.integers(0, 5, 100), 1e-3 * rng.permutation(100)])
    X[90:] = X[:10]
    y = X[:, 0] / 100 + rng.normal(size=100) > 2
    model = clone(estimator).fit(X, y)
    K = rbf_kernel(X, gamma=model.gamma_)
    noise = rng.normal(scale=1e-15, size=K.shape)
    given = clone(estimator).set_params(kernel="precomputed").fit(K + noise + noise.T, y)
    np.testing.assert_allclose(given.predict_proba(K), model.predict_proba(X), atol=1e-3)


def test_near_equality_is_not_transitive() -> None:
    x = 1e5 + 1e-7 * np.arange(1000)
    n = len(np.unique(nearly_equal_rows(np.outer(x, x))))
    assert 10 <= n <= 20  # the first and the last differ by 1e-9 of their size


def test_a_constant_factor_with_a_precomputed_kernel_and_a_given_C() -> None:
    X, y, weight = problem(0)
    K = rbf_kernel(X)
    one, ten = (
        SparseKLR(kernel="precomputed", C=3.0).fit(K, y, sample_weight=factor * weight) for factor in (1, 10)
    )
    np.testing.assert_allclose(ten.predict_proba(K), one.predict_proba(K), rtol=1e-9)


@pytest.mark.parametrize("n", [300, 1200])
def test_heavy_rows_do_not_spoil_the_test_loss(n: int) -> None:
    X, y = make_moons(n + 2000, noise=0.4, random_state=0)
    losses = []
    for weight in (1, 3, 10):
        model = SparseKLR().fit(X[:n], y[:n], sample_weight=np.full(n, weight))
        losses.append(log_loss(y[n:], model.predict_proba(X[n:])))
    np.testing.assert_allclose(losses, losses[0], rtol=0.01)


def test_the_basis_is_drawn_by_content() -> None:
    """With more rows than the label-free basis, neither copies nor the order of rows change the basis."""
    X, y = make_moons(900, noise=0.4, random_state=0)
    copies = np.random.default_rng(0).permutation(np.repeat(np.arange(900), 2))
    once, twice = SparseKLR().fit(X, y), SparseKLR().fit(X[copies], y[copies])
    np.testing.assert_allclose(twice.predict_proba(X), once.predict_proba(X), rtol=1e-9)


@pytest.mark.slow
def test_leave_one_out_under_imbalance_is_not_optimistic() -> None:
    """The ratio is averaged over 30 draws, because that of a single draw has a standard deviation of 0.2."""
    ratios = []
    for seed in range(30):
        X, y = make_classification(4000, n_features=10, n_informative=5, weights=[0.95], random_state=seed)
        train, test = slice(0, 1000), slice(1000, None)
        model = SparseKLR(class_weight="balanced").fit(X[train], y[train])
        by_class = compute_class_weight("balanced", classes=np.array([0, 1]), y=y[train])
        held_out = log_loss(y[test], model.predict_proba(X[test]), sample_weight=by_class[y[test]])
        ratios.append(model.loo_log_loss_ / held_out)
    assert abs(np.mean(ratios) - 1) < 0.1


@pytest.mark.filterwarnings("error")
def test_balanced_weights_ignore_rows_of_weight_zero() -> None:
    X, y, weight = problem(0, n_classes=3)
    weight[y == 2] = 0
    model = SKLR(class_weight="balanced", calibration=None)
    all_rows, part = clone(model).fit(X, y, sample_weight=weight), weight > 0
    np.testing.assert_array_equal(
        all_rows.decision_function(X),
        clone(model).fit(X[part], y[part], sample_weight=weight[part]).decision_function(X),
    )


def test_distinct_points_have_the_total_weight() -> None:
    X = np.array([[0.0], [1.0], [0.0], [0.0], [2.0]])
    codes, weight = np.array([0, 1, 1, 0, 1]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    data = Samples(X, codes, np.array([0, 1]), weight, np.arange(5) + 10, 15, Kernel("linear"))
    points = DistinctPoints.of(data)
    assert len(points) == 3
    zero = points.point_of_row[0]
    np.testing.assert_array_equal(points.point_of_row[[0, 2, 3]], zero)
    np.testing.assert_array_equal(points.weight[zero], [5.0, 3.0])
    np.testing.assert_array_equal(points.X[points.point_of_row], X)
    rows, point = points.labelled(data)
    assert len(rows.codes) == 4
    np.testing.assert_array_equal(rows.X, points.X[point])
    np.testing.assert_array_equal(rows.X, X[rows.positions - 10])
    np.testing.assert_array_equal(rows.codes, codes[rows.positions - 10])
    assert rows.weight.sum() == weight.sum()
    assert points.relative().weight.sum() == pytest.approx(5, rel=1e-6)  # observations
    assert replace(points, copies=True).relative().weight.sum() == pytest.approx(3, rel=1e-6)
    every = points.observations
    assert sorted(every.count) == [1, 1, 1, 2]
    np.testing.assert_array_equal(
        points.weight[every.point[points.observation_of_row(codes)]], points.weight[points.point_of_row]
    )


@pytest.mark.parametrize("size", [1e-60, 1.0, 1e60])
def test_equal_rows_of_kernel_matrices_of_any_magnitude(size: float) -> None:
    """The third row equals the first one up to rounding."""
    K = size * np.array([[2.0, 1.0, 2.0], [1.0, 2.0, 1.0], [2.0, 1.0, 2.0 * (1 + 1e-15)]])
    codes, kernel = np.array([0, 1, 0]), Kernel("precomputed")
    data = Samples(K, codes, np.array([0, 1]), np.ones(3), np.arange(3), 3, kernel)
    np.testing.assert_array_equal(DistinctPoints.of(data).point_of_row, [0, 1, 0])


@pytest.mark.parametrize(
    "check", [check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data]
)
def test_the_default_estimator_passes_the_check_of_scikit_learn(check) -> None:
    check("SparseKLR", SparseKLR())
