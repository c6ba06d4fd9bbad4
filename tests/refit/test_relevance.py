"""A width for each feature from the derivatives of a model, and the preceding scaling of the features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris, load_wine, make_moons
from sklearn.metrics import log_loss

from sparseklr import SparseKLR
from sparseklr.kernels import Kernel
from sparseklr.refit import relevance
from sparseklr.refit.basis import Basis
from sparseklr.refit.labels import Labels
from sparseklr.refit.newton import fit_likelihood
from sparseklr.refit.regularisation import evaluate_C
from sparseklr.refit.relevance import _factors, learned_factors, mean_squared_derivatives
from sparseklr.samples import DistinctPoints, Samples
from sparseklr.scaling import Scaling

pytestmark = pytest.mark.numerical

KERNELS = [Kernel("rbf", 0.4), Kernel("laplacian", 0.3)]


def noisy_points(n_classes: int, kernel: Kernel, n: int = 60) -> DistinctPoints:
    """Weighted points with four features, the last of which the labels do not depend on."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(n, 4)), rng.uniform(0.5, 2, n)
    scores = X @ np.array([[3.0, 0.0, 1.0], [-1.0, 2.0, 0.0], [0.5, -2.0, 1.0], [0.0, 0.0, 0.0]])
    codes = scores[:, :n_classes].argmax(axis=1)
    data = Samples(X, codes, np.arange(n_classes), weight, np.arange(n), n, kernel)
    return DistinctPoints.of(data).relative()


def moons_with_noise(n: int = 250) -> tuple[np.ndarray, np.ndarray]:
    """Two moons and four features of noise."""
    X, y = make_moons(n, noise=0.3, random_state=0)
    return np.column_stack([X, np.random.default_rng(0).normal(size=(n, 4))]), y


# -- derivatives and factors ------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_rows", [1000, 20])
def test_squared_derivatives_are_those_of_finite_differences(
    monkeypatch, kernel: Kernel, n_classes: int, n_rows: int
) -> None:
    """The derivatives agree with central differences of the outputs.

    The Laplacian kernel has a kink where a feature equals that of a basis point. The slopes on the two sides
    are opposite there; central differences and the formula give their mean.
    """
    monkeypatch.setattr(relevance, "SETTINGS", replace(relevance.SETTINGS, n_rows=n_rows))
    points = noisy_points(n_classes, kernel)
    basis, labels = Basis.of(points, np.arange(0, 60, 2)), Labels.of(points.weight)
    fit = fit_likelihood(basis, labels, 10.0)
    coef = basis.coefficients(fit.v).reshape(basis.size, -1)
    Z, X, weight, step = points.X[basis.chosen], points.X[:n_rows], points.weight[:n_rows].sum(axis=1), 1e-6

    def outputs(rows: np.ndarray) -> np.ndarray:
        return kernel.matrix(rows, Z) @ coef

    expected = []
    for unit in np.eye(4):
        slopes = (outputs(X + step * unit) - outputs(X - step * unit)) / (2 * step)
        expected.append(np.average((slopes**2).sum(axis=1), weights=weight))
    np.testing.assert_allclose(mean_squared_derivatives(points, basis.chosen, coef), expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@given(squares=st.lists(st.floats(1e-200, 1e200) | st.just(0.0), min_size=1, max_size=8))
def test_factors_are_fourth_roots_that_keep_the_mean_coefficient(
    kernel: Kernel, squares: list[float]
) -> None:
    """Squared differences of the rbf kernel are multiplied by s^2, absolute ones of the Laplacian by s."""
    g = np.array(squares)
    s = _factors(g, kernel)
    assert np.mean(s**2 if kernel.name == "rbf" else s) == pytest.approx(1, rel=1e-12)
    if g.any():
        np.testing.assert_allclose(s / s.max(), (g / g.max()) ** 0.25, rtol=1e-12)
    else:
        np.testing.assert_array_equal(s, 1.0)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_second_fit_gives_the_final_factors(kernel: Kernel, n_classes: int) -> None:
    """The derivatives of the second model with respect to the original features are s times those in its
    own, which the factors multiply."""
    points = noisy_points(n_classes, kernel)
    basis, labels = Basis.of(points, np.arange(60)), Labels.of(points.weight)
    evaluated = evaluate_C(basis, replace(labels, left_out=Labels.of_points(points).left_out), 10.0)
    factors = learned_factors(basis, labels, evaluated, seed=0)
    first = _factors(mean_squared_derivatives(points, evaluated.chosen, evaluated.coef), kernel)
    second = Basis.of(replace(points, X=points.X * first), np.arange(60))
    coef = second.coefficients(fit_likelihood(second, labels, 10.0).v)
    derivatives = mean_squared_derivatives(second.points, second.chosen, coef)
    np.testing.assert_allclose(factors, _factors(first**2 * derivatives, kernel), rtol=1e-2)
    assert factors.argmin() == 3  # the labels do not depend on this feature


# -- the relevance of a model -----------------------------------------------------------------


def test_many_irrelevant_features_do_not_flatter_the_estimate() -> None:
    """Factors learned from the labels of all rows would make leave-one-out too optimistic."""
    rng = np.random.default_rng(0)
    new = rng.normal(size=(2000, 50))
    logs = []
    for _ in range(6):
        X = rng.normal(size=(100, 50))
        y, new_y = ((A[:, 0] + A[:, 1] + 0.5 * rng.normal(size=len(A)) > 0) for A in (X, new))
        model = SparseKLR().fit(X, y)
        logs.append(np.log(model.loo_log_loss_ / log_loss(new_y, model.predict_proba(new))))
    assert abs(np.mean(logs)) < 0.3


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "auto"])
def test_features_of_noise_have_a_smaller_relevance(kernel: str) -> None:
    X, y = moons_with_noise()
    model = SparseKLR(kernel=kernel).fit(X, y)
    assert model.relevance_.shape == (6,)
    assert model.relevance_[:2].min() > 1.3 * model.relevance_[2:].max()
    assert model.relevance_.mean() == pytest.approx(model.gamma_)
    shared = SparseKLR(kernel=kernel, relevance="shared").fit(X, y)
    np.testing.assert_allclose(shared.relevance_, shared.gamma_)
    assert model.loo_log_loss_ < shared.loo_log_loss_


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_factors_that_do_not_pay_on_folds_are_not_used(kernel: str, n_classes: int) -> None:
    """Many features matter equally, so differences between their derivatives are noise."""
    X = np.random.default_rng(0).normal(size=(120, 30))
    total = X.sum(axis=1)
    y = np.searchsorted(np.quantile(total, np.arange(1, n_classes) / n_classes), total)
    model = SparseKLR(kernel=kernel).fit(X, y)
    np.testing.assert_allclose(model.relevance_, model.gamma_)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("scale", ["auto", None])
def test_the_kernel_has_the_width_of_each_feature(kernel: str, scale: str | None) -> None:
    X, y = moons_with_noise()
    X[:, 3] = np.exp(2 * X[:, 3])  # skewed: mapped by rank
    model = SparseKLR(kernel=kernel, scale=scale).fit(X, y)
    Z, Q = (model.scaling_.transform(rows) for rows in (model.support_vectors_, X))
    difference = np.abs(Q[:, None] - Z)
    exponent = (difference**2 if kernel == "rbf" else difference) @ model.relevance_
    expected = np.exp(-exponent) @ model.dual_coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
def test_constant_features_have_no_relevance_and_no_effect(kernel: str) -> None:
    X, y = moons_with_noise()
    alone = SparseKLR(kernel=kernel).fit(X, y)
    wider = np.insert(X, [0, 3, 6], [7.0, -1e6, 0.0], axis=1)
    model = SparseKLR(kernel=kernel).fit(wider, y)
    np.testing.assert_array_equal(model.relevance_[[0, 4, 8]], 0)
    np.testing.assert_array_equal(np.delete(model.relevance_, [0, 4, 8]), alone.relevance_)
    np.testing.assert_array_equal(model.predict_proba(wider), alone.predict_proba(X))
    wider[:, [0, 4, 8]] += 1e3  # values that training has not seen
    np.testing.assert_array_equal(model.predict_proba(wider), alone.predict_proba(X))


def wine_of_two_classes() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    return X, y == 1


@pytest.mark.parametrize("data", [moons_with_noise, wine_of_two_classes])
def test_permuted_columns_permute_the_relevance(data) -> None:
    """Up to 300 rows the basis has all points, so only the order of sums changes. (With several classes, the
    folds change too.)"""
    X, y = data()
    model, order = SparseKLR(tol=1e-8).fit(X, y), np.random.default_rng(0).permutation(X.shape[1])
    other = SparseKLR(tol=1e-8).fit(X[:, order], y)
    assert other.kernel_.name == model.kernel_.name
    np.testing.assert_allclose(other.relevance_, model.relevance_[order], rtol=1e-6)
    np.testing.assert_allclose(other.predict_proba(X[:, order]), model.predict_proba(X), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("data", [moons_with_noise, lambda: load_iris(return_X_y=True)])
def test_units_of_columns_change_nothing(data) -> None:
    X, y = data()
    units, zero = np.geomspace(1e-3, 1e6, X.shape[1]), np.linspace(-10, 10, X.shape[1])
    model = SparseKLR(tol=1e-8).fit(X, y)
    other = SparseKLR(tol=1e-8).fit(units * (X + zero), y)
    # The features differ by rounding. Inexact fits with products in float32 amplify the difference.
    np.testing.assert_allclose(other.relevance_, model.relevance_, rtol=1e-3)
    np.testing.assert_allclose(other.predict_proba(units * (X + zero)), model.predict_proba(X), atol=1e-3)
    # multiplication by powers of two is exact
    powers = 2.0 ** np.arange(-20, -20 + 7 * X.shape[1], 7)
    np.testing.assert_array_equal(
        SparseKLR().fit(powers * X, y).predict_proba(powers * X), SparseKLR().fit(X, y).predict_proba(X)
    )


@pytest.mark.parametrize("parameters", [{"kernel": "linear"}, {"kernel": "poly"}, {"relevance": "shared"}])
def test_other_kernels_have_one_width(parameters: dict) -> None:
    X, y = moons_with_noise()
    model = SparseKLR(**parameters).fit(X, y)
    np.testing.assert_array_equal(model.relevance_, model.kernel_.gamma)


# -- sparse rows ------------------------------------------------------------------------------


def sparse_rows() -> tuple[sparse.csr_array, np.ndarray]:
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((200, 5)) < 0.3, rng.normal(2, 1, (200, 5)), 0.0) * [1, 10, 100, 0.1, 0]
    return sparse.csr_array(dense), dense[:, 0] + dense[:, 1] / 10 + rng.normal(size=200) > 1


def test_uncentred_scaling_keeps_zeros() -> None:
    X, _ = sparse_rows()
    weight = np.random.default_rng(1).uniform(0.5, 2, 200)
    scaling = Scaling.uncentred(X, weight)
    scaled, dense = scaling.transform(X), X.toarray()
    assert sparse.issparse(scaled)
    np.testing.assert_array_equal(scaled.indptr, X.indptr)
    np.testing.assert_array_equal(scaled.indices, X.indices)
    mean = np.average(dense, axis=0, weights=weight)
    spread = np.sqrt(np.average((dense - mean) ** 2, axis=0, weights=weight))
    spread[4] = 1.0  # only zeros
    np.testing.assert_allclose(scaled.toarray(), dense / spread, rtol=1e-9)
    np.testing.assert_allclose(scaling.transform(dense), scaled.toarray(), rtol=1e-12)


@pytest.mark.parametrize("value", [1e-3, 0.1, 1e6])
def test_uncentred_scaling_of_a_constant_column(value: float) -> None:
    X, _ = sparse_rows()
    X = sparse.csr_array(sparse.hstack([X, np.full((200, 1), value)]))
    scaling = Scaling.uncentred(X, np.random.default_rng(1).uniform(0.5, 2, 200))
    assert scaling.spread[5] == 1.0


def test_sparse_rows_stay_sparse_and_predict_like_dense_ones() -> None:
    X, y = sparse_rows()
    model = SparseKLR().fit(X, y)
    assert sparse.issparse(model.support_vectors_)
    np.testing.assert_array_equal(model.support_vectors_.toarray(), X.toarray()[model.support_])
    np.testing.assert_allclose(model.predict_proba(X.toarray()), model.predict_proba(X), atol=1e-12)
    units = np.array([8.0, 1 / 1024, 2.0, 64.0, 1.0])
    scaled = sparse.csr_array(X.multiply(units))
    np.testing.assert_allclose(
        SparseKLR().fit(scaled, y).predict_proba(scaled), model.predict_proba(X), atol=1e-12
    )
