"""Weights, features and constants of extreme size: regression tests from ``make fuzz``."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from sparseklr import SKLR, CompactKLR, SparseKLR, tabular_pipeline
from sparseklr.baselines import HalfKLR, ImportVectorMachine
from sparseklr.compact.model import CompactModel
from sparseklr.dual import solve_dual
from sparseklr.kernels import Kernel
from sparseklr.scaling import Scaling, rank_knots

pytestmark = pytest.mark.numerical


@pytest.fixture(autouse=True)
def _no_overflow():
    """A fit may warn that it has not converged; no operation may overflow or give NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def rows(n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).normal(size=(n, p))
    y = X[:, 0] + 0.5 * np.random.default_rng(seed + 1).normal(size=n) > 0
    y[:2] = False, True
    return X, y.astype(int)


def weights(n: int, digits: float, seed: int) -> np.ndarray:
    return 10 ** np.random.default_rng(seed).uniform(-digits, digits, n)


# -- SparseKLR -----------------------------------------------------------------------------------


def test_order_of_elimination_without_a_ridge() -> None:
    """At C=2e22 the ridge is below the rounding errors of the second derivatives."""
    X = np.round(np.random.default_rng(1).normal(size=(18, 20))).astype(np.float32)
    y = np.random.default_rng(2).integers(0, 3, 18)
    model = SparseKLR(C=2e22, kernel="linear").fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_distant_start_leaves_no_rounding_errors() -> None:
    """F is 1e13 at the start and 1e5 at the solution; the certificate refers to the solution."""
    K = np.array(
        [
            [6e7, 7e6, 5e13, 8e4],
            [7e6, 2.4e14, 6e15, 4.8e13],
            [5e13, 6e15, 1.3e20, 5.8e14],
            [8e4, 4.8e13, 5.8e14, 1e13],
        ]
    )
    y = np.array([1, -1, 1, -1])
    for seed in range(10):
        start = 0.003 * np.random.default_rng(seed).normal(size=4)
        solution = solve_dual(K, y, C=0.99, lam=0.0, alpha0=start)
        fresh = K.astype(np.longdouble) @ (solution.alpha * y)
        size = np.abs(K) @ solution.alpha
        assert (np.abs(solution.F - fresh) <= 1e-5 + 1e-14 * size).all()


@pytest.mark.parametrize("seed", range(3, 9))
def test_leave_one_out_without_curvature_of_other_rows(seed) -> None:
    """Regression test: the second step, and with it the leave-one-out loss, was infinite."""
    rng = np.random.default_rng(seed)
    X, y = np.round(rng.normal(size=(30, 3))) * 1e-50, np.arange(30) % 2
    model = SparseKLR(C=0.5, kernel="poly", gamma=1e-5, prune=0.0)
    model.fit(X, y, sample_weight=10 ** rng.uniform(-60, 60, 30))
    assert np.isfinite(model.loo_log_loss_)


def test_boxes_that_underflow_raise() -> None:
    for weight in ([1e-100, 1e-100], [1e-100, 1e100]):
        with pytest.raises(ValueError, match="C times a positive sample_weight rounds to 0"):
            solve_dual(np.eye(2), [-1, 1], C=1e-240, lam=0.0, sample_weight=weight)


def test_a_distant_row_does_not_reduce_accuracy() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[7] *= 1e10
    expected = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(Kernel("rbf", gamma=0.5).matrix(X, X), expected, atol=1e-12)


def test_class_fraction_below_the_smallest_double() -> None:
    X = np.arange(8.0)[:, None]
    weight = np.where(np.arange(8) < 4, 1e-200, 1e140)
    model = CompactKLR(n_points=1).fit(X, np.arange(8) // 4, sample_weight=weight)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("make", [SKLR, SparseKLR, CompactKLR])
def test_balanced_classes_of_too_unequal_weights(make) -> None:
    X = np.arange(8.0)[:, None]
    weight = np.where(np.arange(8) < 4, 1e-200, 1e140)
    with pytest.raises(ValueError, match="class_weight='balanced' overflows for class 0"):
        make(class_weight="balanced").fit(X, np.arange(8) // 4, sample_weight=weight)


@pytest.mark.parametrize("make", [SKLR, SparseKLR, CompactKLR])
@pytest.mark.parametrize("factor", ["heavy", None, np.nan, np.inf, -1])
def test_factors_of_classes_must_be_numbers(make, factor) -> None:
    with pytest.raises(ValueError, match=rf"class_weight must be non-negative.*got {factor!r} for class 1"):
        make(class_weight={0: 1, 1: factor}).fit(np.arange(8.0)[:, None], np.arange(8) // 4)


# -- the Import Vector Machine -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_intercept_is_stationary_whatever_the_weights(seed) -> None:
    """Half the squared Newton decrement of the intercept alone is at most the remaining decrease.

    If classes are separated at weights of 1e20, only few rows have curvature; a ridge of 1e-10 times the
    weights hid all of it.
    """
    X, y = rows(30, 5, seed)
    weight = weights(30, 20, seed)
    model = ImportVectorMachine(C=100.0, kernel="linear", max_points=3).fit(X, y, sample_weight=weight)
    f = model.decision_function(X)
    slope = 100 * np.where(y == 1, -weight * expit(-f), weight * expit(f)).sum()
    curvature = 100 * (weight * expit(f) * expit(-f)).sum()
    assert model.converged_
    assert 0.5 * slope**2 / curvature <= 1e-6 * model.objective_path_[-1]


@pytest.mark.parametrize("seed", [7, 108, 163])
def test_import_vectors_with_a_row_far_out(seed) -> None:
    """Its curvature hides the decrease that the others allow, and vanishes once it is on its own side."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3))
    y = (X[:, 0] + rng.normal(size=30) > 0).astype(int)
    X[5] *= 1e9
    model = ImportVectorMachine(C=30.0, kernel="linear", fit_intercept=False, epsilon=0.1, n_candidates="all")
    model.fit(X, y)
    assert model.converged_
    theta = model.dual_coef_[0] @ model.support_vectors_

    def objective(theta: np.ndarray) -> float:
        return 0.5 * theta @ theta + 30 * np.logaddexp(0, np.where(y == 1, -1, 1) * (X @ theta)).sum()

    # the best of the functions for which the far row is on its own side, by a little or by more
    away = X[5] / np.linalg.norm(X[5])
    across, side = np.eye(3) - np.outer(away, away), (2 * y[5] - 1) * away
    tried = [
        minimize(lambda z, share=share: objective(across @ z + share * side), theta).fun
        for share in (1e-7, 0.01, 0.1, 0.3)
    ]
    assert objective(theta) <= min(tried) * (1 + 1e-5)


@pytest.mark.parametrize("power", [-400, 400])
def test_import_vectors_do_not_depend_on_the_unit_of_the_kernel(power) -> None:
    """K times s and C over s are the same problem, with coefficients over s."""
    X, y = rows(40, 3, 0)
    model = ImportVectorMachine(C=2.0, kernel="linear").fit(X, y)
    scaled = ImportVectorMachine(C=float(np.ldexp(2.0, -2 * power)), kernel="linear").fit(
        np.ldexp(X, power), y
    )
    np.testing.assert_array_equal(
        scaled.selection_[:2], model.selection_[:2]
    )  # the third: any completes the span
    np.testing.assert_allclose(
        scaled.decision_function(np.ldexp(X, power)), model.decision_function(X), rtol=1e-9
    )
    np.testing.assert_allclose(np.ldexp(scaled.objective_path_, 2 * power), model.objective_path_, rtol=1e-9)
    with pytest.raises(ValueError, match="C times the largest sample_weight times the size of the kernel"):
        ImportVectorMachine(C=2.0, kernel="linear").fit(np.ldexp(X, power), y)


def test_import_vectors_of_an_outlier() -> None:
    """An outlier of 1e8 in a quadratic kernel dominates the other columns unless these are rescaled."""
    X, y = rows(6, 2, 3)
    X[2] *= 1e8
    model = ImportVectorMachine(
        C=120.0, kernel="poly", degree=2, coef0=1.0, gamma=0.5, update="one-step"
    ).fit(X, y)
    assert np.isfinite(model.dual_coef_).all()
    assert (np.diff(model.objective_path_) <= 0).all()


@pytest.mark.parametrize("digits", [20, 60])
def test_import_vectors_of_classes_of_any_weight(digits) -> None:
    """One point, four classes: the intercepts are the logarithms of the class fractions."""
    y = np.arange(12) % 4
    weight = weights(12, digits, 1)
    model = ImportVectorMachine(epsilon=0.0, max_iter=1000).fit(np.ones((12, 2)), y, sample_weight=weight)
    shares = np.bincount(y, weight) / weight.sum()
    assert model.converged_
    # accurate to 1e-3, because the objective is quadratic and accurate to 1e-8
    common = shares > 1e-4
    P = model.predict_proba(np.ones((1, 2)))[0]
    np.testing.assert_allclose(P[common], shares[common], rtol=1e-2)
    np.testing.assert_allclose(P.sum(), 1)


@pytest.mark.parametrize("update", ["converged", "one-step"])
@pytest.mark.parametrize("seed", range(4))
def test_import_vector_coefficients_are_centred_with_an_outlier(seed, update) -> None:
    """A common component of all classes' coefficients has a penalty and no effect on probabilities.

    It is gained by its removal alone, so that a converged model may have no more than tol of it.
    """
    X, _ = rows(48, 3, seed)
    X[5] *= 1e5
    model = ImportVectorMachine(C=20.0, kernel="linear", max_points=1, n_candidates="all", update=update)
    model.fit(X, np.random.default_rng(seed).choice(3, 48, p=[0.6, 0.35, 0.05]))
    common = model.dual_coef_.mean(axis=0) @ model.support_vectors_
    assert model.converged_
    assert 0.5 * 3 * common @ common <= model.tol * model.objective_path_[-1]


def test_import_vectors_beside_a_saturated_class() -> None:
    """Rounding errors in other classes' slopes must not move an intercept without curvature."""
    rng = np.random.default_rng(129)
    n_classes = int(rng.integers(3, 6))
    X = rng.normal(size=(60, 3))
    X[3] *= 10 ** rng.uniform(1, 6)
    y = rng.choice(n_classes, 60, p=rng.dirichlet(np.full(n_classes, 0.5)))
    y[:n_classes] = np.arange(n_classes)
    C, max_points = 10 ** rng.uniform(-1, 5), int(rng.integers(1, 8))
    model = ImportVectorMachine(C, kernel="linear", max_points=max_points, epsilon=0, n_candidates="all")
    assert np.isfinite(model.fit(X, y).predict_proba(X)).all()
    assert model.converged_


# -- the l1/2 penalty ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [5, 54, 92, 325])
def test_import_vectors_without_curvature(seed) -> None:
    """The Newton step of the intercept is finite even if all rows are far from the decision boundary."""
    rng = np.random.default_rng(seed)
    X, y, weight = rng.normal(size=(30, 3)), np.arange(30) % 2, 10 ** rng.uniform(-60, 60, 30)
    parameters = {"kernel": "sigmoid", "coef0": 0.3, "gamma": 1e-3, "update": "one-step", "n_candidates": 1}
    model = ImportVectorMachine(C=2.0, random_state=0, **parameters)
    assert np.isfinite(model.fit(X, y, sample_weight=weight).decision_function(X)).all()


@pytest.mark.parametrize("seed", [0, 2, 7, 10])
def test_half_coordinates_that_shrink_reach_zero(seed) -> None:
    """With the identity as kernel, coordinates are independent; from 1e-100 they could never recover."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 145)
    weight = rng.uniform(0.2, 3, 145) * np.array([58.0, 0.66, 12.6])[y]
    model = HalfKLR(C=0.13, kernel="precomputed", tol=1e-6).fit(np.eye(145), y == 0, sample_weight=weight)
    assert model.converged_
    assert model.fixed_point_residual_ <= 1e-6


@pytest.mark.parametrize("seed", range(12, 18))
def test_half_converges_with_extreme_weights(seed) -> None:
    """With weights of 1e-20 to 1e20 most points change the objective little, but still move."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(49, 3))[rng.integers(0, 16, 49)]
    y, weight = rng.integers(0, 2, 49), 10 ** rng.uniform(-20, 20, 49)
    model = HalfKLR(C=1.5, tol=5e-5).fit(X, y, sample_weight=weight)
    assert model.converged_
    assert model.fixed_point_residual_ <= 5e-5


@pytest.mark.parametrize("seed", [287, 299, 332])
def test_half_intercept_without_curvature(seed) -> None:
    """Regression test: with rows of weight 1e60 far on the wrong side, the Newton step was infinite."""
    rng = np.random.default_rng(seed)
    X, weight = rng.normal(size=(16, 20)), 10 ** rng.uniform(-70, 70, 16)
    model = HalfKLR(tol=6e-3, class_weight="balanced").fit(X, np.arange(16) % 2, sample_weight=weight)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("seed", [1, 5, 6])
def test_half_converges_with_nearly_constant_columns(seed) -> None:
    """Regression test: overly short steps hid the remaining movement."""
    X, y = make_moons(60, noise=0.3, random_state=seed)
    K = 1 + 3e-4 * rbf_kernel(X, gamma=1.0)
    model = HalfKLR(C=1e4, kernel="precomputed", tol=1e-4).fit(K, y)
    assert model.converged_
    columns, coef = K[:, model.support_], model.dual_coef_[0]
    residual = expit(columns @ coef + model.intercept_) - y
    slope = 1e4 * residual @ columns + np.sign(coef) / np.sqrt(np.abs(coef)) / 2
    curvature = 1e4 * ((columns - columns.mean(axis=0)) ** 2).sum(axis=0) / 4
    assert np.abs(slope / curvature).max() <= 1.1e-4 * np.abs(coef).max()


@pytest.mark.parametrize("power", [-300, 400])
def test_half_does_not_depend_on_the_unit_of_the_kernel(power) -> None:
    """K times s and C over the root of s are the same problem, with coefficients over s."""
    X, y = rows(40, 3, 0)
    model = HalfKLR(C=2.0, kernel="linear").fit(X, y)
    scaled = HalfKLR(C=float(np.ldexp(2.0, -power)), kernel="linear").fit(np.ldexp(X, power), y)
    np.testing.assert_allclose(
        scaled.decision_function(np.ldexp(X, power)), model.decision_function(X), rtol=1e-6
    )


# -- CompactKLR ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_ranks_of_weighted_values_are_fractions(seed) -> None:
    """Sums of weights in two orders differ by rounding; no rank may exceed 1, where the quantile is NaN."""
    x = np.exp(np.random.default_rng(seed).normal(size=80))
    _, z = rank_knots(x, weights(80, 20, seed))
    assert np.isfinite(z).all()
    assert (np.diff(z) >= 0).all()
    scaling = Scaling.of(x[:, None], weights(80, 20, seed))
    assert np.isfinite(scaling.transform(x[:, None])).all()


def test_points_far_from_zero_and_close_together() -> None:
    points = 1e9 + np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 0.0]])
    distance = CompactModel(points, np.zeros(2), np.zeros((1, 4))).distances(points)
    np.testing.assert_allclose(distance**2, [[0, 5, 9], [5, 0, 8], [9, 8, 0]], rtol=1e-15)


def test_skewness_with_tiny_weights() -> None:
    X, weight = np.arange(6.0)[:, None], np.array([1.0, 1e-240, 1e-240, 1e-240, 1e-240, 1e-240])
    assert np.isfinite(Scaling.of(X, weight).transform(X)).all()


@pytest.mark.parametrize("values", [(0.0, 1.0), (-3.0, 7.0), (0.0, 5e-324)])
@pytest.mark.parametrize("n_rare", [1, 50])
def test_two_values_have_the_same_distance_whether_rare_or_frequent(values, n_rare: int) -> None:
    X = np.column_stack([np.repeat(values, [n_rare, 100 - n_rare]), np.linspace(0, 1, 100)])
    scaled = Scaling.of(X, np.ones(100), ranges=True).without_rounding_errors().transform(X)
    np.testing.assert_allclose([np.ptp(scaled[:, 0]), scaled[:, 1].std()], 1, rtol=1e-9)


def test_two_values_whose_difference_overflows() -> None:
    X = np.array([[-1.7e308], [1.7e308]])
    scaled = Scaling.of(X, np.ones(2), ranges=True).without_rounding_errors().transform(X)
    assert np.isfinite(scaled).all()
    assert scaled[0] < scaled[1]


def test_compact_model_of_any_weights() -> None:
    X, y = make_moons(80, noise=0.3, random_state=0)
    for seed in range(3):
        model = CompactKLR(2, C=1.0).fit(np.exp(3 * X), y, sample_weight=weights(80, 60, seed))
        assert np.isfinite(model.predict_proba(np.exp(3 * X))).all()


# -- tables --------------------------------------------------------------------------------------


def test_numbers_of_a_table_whose_squares_overflow() -> None:
    frame = pd.DataFrame({"size": np.arange(20) % 7 * 1e200, "other": np.arange(20) % 5 / 3})
    with pytest.raises(ValueError, match="column 'size' contains values beyond 1e\\+150"):
        tabular_pipeline().fit(frame, np.arange(20) % 2)
