"""The refit of more than two classes: softmax loss, joint fit, folds and pruning by groups."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from sparseklr import SparseKLR
from sparseklr._validation import make_samples
from sparseklr.refit import cross_fit as cross_fit_module
from sparseklr.refit.basis import Basis, LabelFreeBases
from sparseklr.refit.cross_fit import CrossFitSettings, joint_cross_fit
from sparseklr.refit.labels import Labels, in_folds
from sparseklr.refit.newton import LikelihoodFit, fit_likelihood
from sparseklr.refit.prune import prune
from sparseklr.refit.recalibration import fit_recalibration, with_slope
from sparseklr.refit.regularisation import evaluate_C
from sparseklr.samples import DistinctPoints, Observations


def iris_points(**more) -> DistinctPoints:
    X, y = load_iris(return_X_y=True)
    samples = make_samples(
        scale(X), y, None, class_weight=None, kernel="rbf", gamma=0.25, degree=3, coef0=0, **more
    )
    return DistinctPoints.of(samples).relative()


def random_labels(n: int, n_classes: int, seed: int) -> tuple[Labels, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = Labels(rng.dirichlet(np.ones(n_classes), n), rng.uniform(0.1, 2, n))
    return labels, rng.normal(size=(n, n_classes)) * rng.choice([0.1, 3.0])


@given(st.integers(2, 6), st.integers(0, 10**6))
def test_derivatives_of_the_softmax_loss(n_classes: int, seed: int) -> None:
    labels, f = random_labels(5, n_classes, seed)
    here, change, step = labels.at(f), np.random.default_rng(seed + 1).normal(size=f.shape), 1e-5
    direct = -labels.weight @ (labels.target * log_softmax(f, axis=1)).sum(axis=1)
    assert here.value == pytest.approx(direct, rel=1e-12)
    up, down = (labels.at(f + sign * step * change) for sign in (1, -1))
    assert (up.value - down.value) / (2 * step) == pytest.approx((here.slope * change).sum(), abs=1e-6)
    np.testing.assert_allclose((up.slope - down.slope) / (2 * step), here.times(change), atol=1e-7)
    P = softmax(f, axis=1)
    exact = labels.weight[:, None] * P * (1 - P)  # the diagonal
    assert (here.by_output >= exact * (1 - 1e-9)).all()
    assert (here.by_output <= 2 * exact * (1 + 1e-9)).all()
    np.testing.assert_array_equal(here.information, here.by_output)


@pytest.mark.parametrize("f", [[1.3, -0.4, -800.0, -800.0], [0.2, 0.2, 0.2, 0.2]])
def test_the_information_is_exact_for_two_classes_and_for_equal_ones(f: list[float]) -> None:
    here = Labels(np.full((1, 4), 0.25), np.array([2.0])).at(np.array([f]))
    change = np.array([[1.0, -1.0, 0.0, 0.0]])
    np.testing.assert_allclose(here.times(change), here.by_output * change, rtol=1e-12)


@pytest.mark.parametrize("C", [0.1, 10.0, 1e3, 1e5])
def test_the_joint_fit_minimises_the_penalised_loss(C: float) -> None:
    points = iris_points()
    labels, basis = Labels.of(points.weight), Basis.of(points, np.arange(0, 147, 7))
    fit = fit_likelihood(basis, labels, C)
    A = basis.features(np.arange(len(points)))

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        v = flat.reshape(fit.v.shape)
        here = labels.at(A @ v)
        penalised = np.append(v[:-1], np.zeros((1, 3)), axis=0)
        value = (penalised**2).sum() / (2 * C) + here.value
        return value, (A.T @ here.slope + penalised / C).ravel()

    found = minimize(objective, np.zeros(fit.v.size), jac=True, method="L-BFGS-B",
                     options={"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-10})  # fmt: skip
    assert objective(fit.v.ravel())[0] == pytest.approx(found.fun, rel=1e-8)
    np.testing.assert_allclose(fit.v.sum(axis=1), 0, atol=1e-9 * np.abs(fit.v).max())
    np.testing.assert_allclose(fit.f, A @ fit.v, atol=1e-7)


def test_two_classes_are_the_binary_fit_with_twice_the_kernel() -> None:
    points = iris_points()
    points = points.part(np.flatnonzero(points.weight[:, 1:].any(axis=1)))
    weight, basis = points.weight[:, 1:], LabelFreeBases(points, np.random.default_rng(0))[0]
    total = weight.sum(axis=1)
    joint = fit_likelihood(basis, Labels(weight / total[:, None], total), 5.0)
    binary = fit_likelihood(basis, Labels.of(weight), 10.0)
    np.testing.assert_allclose(joint.f[:, 1] - joint.f[:, 0], binary.f, atol=1e-5)


@given(st.lists(st.integers(1, 30), min_size=3, max_size=40), st.integers(0, 10**6))
def test_folds_divide_the_observations(count: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = np.append([0, 1, 2], rng.integers(0, 3, len(count) - 3))
    weight = np.eye(3)[codes] * rng.uniform(0.5, 2, len(count))[:, None]
    pieces = in_folds(Observations(np.arange(len(count)), weight, np.array(count, dtype=float)))
    np.testing.assert_allclose(np.bincount(pieces.group, pieces.count), count)
    np.testing.assert_allclose(np.bincount(pieces.group, pieces.weight), weight.sum(axis=1))
    sizes = np.bincount(pieces.fold, pieces.count)
    assert np.ptp(sizes) <= 1
    for code in range(3):  # every class is spread over the folds
        of_class = np.bincount(
            pieces.fold, pieces.count * (codes[pieces.group] == code), minlength=len(sizes)
        )
        assert np.ptp(of_class) <= 1


@pytest.mark.parametrize("most_outputs", [4_000_000, 1500])  # all fits at once, and three at a time
@threadpool_limits.wrap(limits=1)
def test_cross_fitted_outputs_are_those_of_fits_without_the_fold(most_outputs: int, monkeypatch) -> None:
    points = iris_points()
    labels, basis = Labels.of_points(points), LabelFreeBases(points, np.random.default_rng(0))[0]
    groups, fit = labels.observations, fit_likelihood(basis, labels, 10.0)
    monkeypatch.setattr(cross_fit_module, "SETTINGS", CrossFitSettings(most_outputs=most_outputs))
    _, first, starts = joint_cross_fit(basis, labels, 10.0, None)
    whole, again, _ = joint_cross_fit(basis, labels, 10.0, starts)
    np.testing.assert_allclose(whole.f, fit.f, atol=0.02)
    for fold in range(0, 10, 3):
        held_out = groups.fold == fold
        weight = points.weight.copy()
        np.subtract.at(weight, groups.point[held_out], (groups.weight[:, None] * groups.target)[held_out])
        kept = np.flatnonzero(weight.sum(axis=1) > 1e-9)
        part = replace(points, weight=weight).part(kept)
        alone = Basis(part, basis.chosen, basis.L, columns=[basis.features(kept)[:, :-1]], whitened=True)
        exact = fit_likelihood(alone, Labels.of(part.weight), 10.0)
        expected = basis.features(groups.point[held_out]) @ exact.v
        np.testing.assert_allclose(again[held_out], expected, atol=0.02)
        np.testing.assert_allclose(first[held_out], expected, atol=0.1)


def test_recalibration_of_several_classes_has_one_slope() -> None:
    rng = np.random.default_rng(0)
    F = rng.normal(size=(4000, 4)) * 2
    shift = np.array([0.5, -0.5, 0.2, -0.2])
    code = (2.5 * F + shift + rng.gumbel(size=F.shape)).argmax(axis=1)
    labels = Labels(np.eye(4)[code], np.ones(4000)).observations
    line = fit_recalibration(labels, F)
    assert line.slope == pytest.approx(2.5, abs=0.2)
    np.testing.assert_allclose(line.intercept, shift, atol=0.2)
    assert fit_recalibration(labels, 4 * F).slope == 1.0  # never below
    fixed = with_slope(labels, F, 2.0)
    np.testing.assert_allclose(
        softmax(fixed(F), axis=1).sum(axis=0), labels.by_class().sum(axis=1), rtol=1e-6
    )


def test_pruning_drops_points_of_all_classes_together() -> None:
    points = iris_points()
    labels, basis = Labels.of(points.weight), Basis.of(points, np.arange(0, 147, 3))
    fit = fit_likelihood(basis, labels, 10.0)
    part, pruned = prune(basis, labels, fit, 1e-3)
    assert 0 < part.size < basis.size
    assert set(part.chosen) <= set(basis.chosen)
    P, Q = softmax(fit.f, axis=1), log_softmax(pruned.f, axis=1)
    divergence = np.average((P * (np.log(P) - Q)).sum(axis=1), weights=labels.weight)
    assert 0 < divergence <= 1e-3 * 1.001
    assert isinstance(pruned, LikelihoodFit)
    assert pruned.v.shape == (part.size + 1, 3)


def test_outputs_are_softmax_outputs_whatever_the_order_of_the_classes() -> None:
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    model = SparseKLR().fit(X, y)
    assert model.link_ == "softmax"
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert model.C_.shape == model.slope_.shape == (1,)
    f = model.decision_function(X)
    np.testing.assert_allclose(softmax(f, axis=1), model.predict_proba(X), rtol=1e-10)
    np.testing.assert_allclose(f.sum(axis=1), 0, atol=1e-6 * np.abs(f).max())
    renamed = SparseKLR().fit(X, np.array([2, 0, 1])[y])
    np.testing.assert_allclose(renamed.predict_proba(X)[:, [2, 0, 1]], model.predict_proba(X), atol=1e-6)
    moderated = model.predict_proba(X * 100, moderated=True)
    assert moderated.max() < model.predict_proba(X * 100).max()
    np.testing.assert_array_equal(moderated.argmax(axis=1), model.predict_proba(X * 100).argmax(axis=1))


def test_weights_equal_repetition_with_several_classes() -> None:
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = SparseKLR(tol=1e-8).fit(X, y, sample_weight=weight)
    repeated = SparseKLR(tol=1e-8).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)
    assert weighted.loo_log_loss_ == pytest.approx(repeated.loo_log_loss_, rel=1e-6)


@pytest.mark.parametrize("n_classes", [6, 15])
def test_the_estimate_is_not_optimistic_with_many_classes_and_few_rows(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_classes, 8)) * 1.2
    code = rng.integers(0, n_classes, 1500)
    X = centres[code] + rng.normal(size=(1500, 8))
    model = SparseKLR().fit(X[:250], code[:250])
    log_proba = model.predict_log_proba(X[250:])
    loss = -log_proba[np.arange(1250), np.searchsorted(model.classes_, code[250:])].mean()
    assert 0.9 * loss < model.loo_log_loss_ < 1.3 * loss


# -- unusual data -----------------------------------------------------------------------------------


def test_a_class_of_one_row() -> None:
    X, y = load_iris(return_X_y=True)
    lonely = np.where(np.arange(len(y)) == 3, 7, y)
    model = SparseKLR().fit(X, lonely)
    assert list(model.classes_) == [0, 1, 2, 7]
    assert np.isfinite(model.predict_log_proba(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_equal_rows_give_the_class_fractions() -> None:
    codes = np.repeat(np.arange(3), [10, 20, 30])
    model = SparseKLR().fit(np.ones((60, 2)), codes)
    np.testing.assert_allclose(model.predict_proba([[1, 1]]), [[1 / 6, 1 / 3, 1 / 2]], atol=1e-6)


def test_kernel_values_that_are_not_finite() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="NaN"):
        SparseKLR(kernel=lambda A, B: np.full((len(A), len(B)), np.nan)).fit(X, y)


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_kernel_values_outside_the_range_of_float32(unit: float) -> None:
    """A kernel multiplied by s gives the same outputs with C / s; here s = unit^6 is about 1e-54 or 1e54."""
    X, y = load_iris(return_X_y=True)
    outputs = []
    for factor in (1.0, unit):
        samples = make_samples(
            scale(X) * factor, y, None, class_weight=None, kernel="poly", gamma=1.0, degree=3, coef0=0
        )
        points = DistinctPoints.of(samples).relative()
        basis = LabelFreeBases(points, np.random.default_rng(0))[-1]
        outputs.append(evaluate_C(basis, Labels.of_points(points), 0.01 / factor**6).fit.f)
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-4)


def test_memory_is_not_quadratic_in_the_number_of_classes() -> None:
    n_classes, n, m = 400, 600, 20
    rng = np.random.default_rng(0)
    codes = np.arange(n) % n_classes
    X = rng.normal(size=(n_classes, 3))[codes] + 0.1 * rng.normal(size=(n, 3))
    samples = make_samples(X, codes, None, class_weight=None, kernel="rbf", gamma=1.0, degree=3, coef0=0)
    points = DistinctPoints.of(samples).relative()
    labels, basis = Labels.of_points(points), Basis.of(points, np.arange(0, n, n // m))
    outputs = (
        8 * n * n_classes * (int(labels.observations.fold.max()) + 2)
    )  # bytes of the outputs of all fits
    tracemalloc.start()
    fit, left_out, _ = joint_cross_fit(basis, labels, 1.0, None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.isfinite(left_out).all()
    assert fit.f.shape == (n, n_classes)
    assert peak < 25 * outputs < 8 * (m * n_classes) ** 2  # a Newton matrix of all classes
