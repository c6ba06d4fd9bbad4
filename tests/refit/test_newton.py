"""Bases, the penalised likelihood on them, and pruning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel
from support.problems import moons_points

from sparseklr._utils.threads import ordered_threads
from sparseklr.kernels import Kernel
from sparseklr.refit import newton
from sparseklr.refit.basis import Basis, LabelFreeBases, independent, random_basis
from sparseklr.refit.labels import Labels
from sparseklr.refit.leave_one_out import leave_one_out
from sparseklr.refit.newton import _newton_step, embedded, fit_likelihood
from sparseklr.refit.prune import _eliminate, elimination_order, prune
from sparseklr.samples import DistinctPoints, Samples

pytestmark = pytest.mark.numerical


def features(basis: Basis) -> np.ndarray:
    return basis.features(np.arange(len(basis.points)))


def test_likelihood_against_a_general_optimiser() -> None:
    points = moons_points()
    labels, basis = Labels.of(points.weight), Basis.of(points, np.arange(0, 80, 8))
    fit = fit_likelihood(basis, labels, C=5.0)
    K = rbf_kernel(points.X, points.X[basis.chosen], gamma=1.0)
    K_BB = rbf_kernel(points.X[basis.chosen], gamma=1.0)
    y = 2 * labels.target - 1

    def value(v: np.ndarray) -> float:
        f = K @ v[:-1] + v[-1]
        return 0.5 * v[:-1] @ K_BB @ v[:-1] + 5.0 * np.logaddexp(0, -y * f).sum()

    def slope(v: np.ndarray) -> np.ndarray:
        by_output = -5.0 * y * expit(-y * (K @ v[:-1] + v[-1]))
        return np.append(K_BB @ v[:-1] + K.T @ by_output, by_output.sum())

    best = minimize(value, np.zeros(basis.size + 1), jac=slope, method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(fit.f, K @ best.x[:-1] + best.x[-1], atol=1e-5)
    np.testing.assert_allclose(fit.f, K @ basis.coefficients(fit.v) + fit.v[-1], atol=1e-9)
    for near in (fit.f, np.zeros_like(fit.f), 5 * y):
        np.testing.assert_allclose(fit_likelihood(basis, labels, C=5.0, near=near).f, fit.f, atol=1e-6)


@pytest.mark.parametrize("intercept", [-1e5, -800.0, 800.0, 1e5])
def test_likelihood_from_a_start_without_curvature(intercept) -> None:
    """All rows of one class are so far on the wrong side that the loss is linear."""
    points = moons_points()
    labels, basis = Labels.of(points.weight), Basis.of(points, np.arange(0, 80, 8))
    start = np.append(np.zeros(basis.size), intercept)
    with np.errstate(all="raise", under="ignore"):
        far = fit_likelihood(basis, labels, C=5.0, start=start)
    np.testing.assert_allclose(far.f, fit_likelihood(basis, labels, C=5.0).f, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "scale", "offset"), [(Kernel("linear"), 40, 1e9), (Kernel("poly", 0.5, 1.0, 3.0), 4000, 0.0)]
)
def test_newton_terminates_for_huge_kernel_values(kernel, scale, offset, monkeypatch) -> None:
    """A nearly constant kernel function is equivalent to the intercept; distant rows have leverage."""
    X, codes = make_classification(60, 8, random_state=0)
    X = np.round(scale * X) + offset
    data = Samples(X, codes, np.array([0, 1]), np.ones(60), np.arange(60), 60, kernel)
    points = DistinctPoints.of(data)
    labels, basis = Labels.of(points.weight), Basis.of(points, np.arange(60))
    steps = []
    monkeypatch.setattr(newton, "_newton_step", lambda *given: steps.append(1) or _newton_step(*given))
    fit = fit_likelihood(basis, labels, C=100.0)
    assert np.isfinite(fit.f).all()
    assert len(steps) < newton.SETTINGS.max_steps


def test_newton_at_its_step_limit_returns_a_matrix(monkeypatch) -> None:
    """The result contains a matrix even if the last step required a new one."""
    points = moons_points()
    labels, basis = Labels.of(points.weight), Basis.of(points, np.arange(len(points)))
    flat = 1e-8 * np.eye(basis.size + 1)  # a poor guess: conjugate gradients take long with it
    monkeypatch.setattr(newton, "SETTINGS", replace(newton.SETTINGS, max_steps=1))
    fit = fit_likelihood(basis, labels, C=1e4, curvature=flat, fresh=False)
    assert np.isfinite(fit.factor).all()


def test_fractional_targets_are_equivalent_to_rows() -> None:
    """A point of weight 3, two thirds of it positive, is two positive rows and a negative one."""
    points = moons_points()
    basis = Basis.of(points, np.arange(0, 80, 8))
    labels = Labels.of(points.weight)
    target, weight = labels.target.copy(), labels.weight.copy()
    target[7], weight[7] = 2 / 3, 3.0
    merged = fit_likelihood(basis, Labels(target, weight), C=5.0)
    f = np.append(merged.f, merged.f[[7, 7]])
    y = np.append(labels.target, [0.0, 1.0])
    y[7] = 1.0
    # stationarity of the separate rows in the merged solution
    A = features(basis)
    A = np.vstack([A, A[[7, 7]]])
    gradient = A.T @ (1 / (1 + np.exp(-f)) - y) + np.append(merged.v[:-1], 0) / 5.0
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


def test_singular_kernel() -> None:
    points = moons_points()
    labels, chosen = Labels.of(points.weight), np.repeat(np.arange(0, 80, 8), 3)  # duplicates
    basis = Basis.of(points, chosen)
    assert basis.size == 10
    reference = fit_likelihood(Basis.of(points, chosen[::3]), labels, C=5.0)
    np.testing.assert_allclose(fit_likelihood(basis, labels, C=5.0).f, reference.f, atol=1e-8)
    kept, L = independent(np.ones((4, 4)))
    assert len(kept) == 1
    assert L.shape == (1, 1)


def test_independent_points_do_not_depend_on_the_order() -> None:
    K = rbf_kernel(moons_points().X, gamma=0.1)
    order = np.random.default_rng(0).permutation(len(K))
    kept, L = independent(K)
    again, _ = independent(K[np.ix_(order, order)])
    assert len(kept) < len(K)
    np.testing.assert_array_equal(order[again], kept)
    np.testing.assert_allclose(L @ L.T, K[np.ix_(kept, kept)], atol=1e-12)


def test_recomputed_columns_equal_kept_columns(monkeypatch) -> None:
    points = moons_points(300)
    labels, chosen = Labels.of(points.weight), np.arange(0, 300, 10)
    kept = fit_likelihood(Basis.of(points, chosen), labels, C=5.0, tol=1e-14)
    monkeypatch.setattr("sparseklr.refit.basis._KEEP_BYTES", 0)
    monkeypatch.setattr("sparseklr.refit.basis._BLOCK", 64)
    streamed = fit_likelihood(Basis.of(points, chosen), labels, C=5.0, tol=1e-14)
    np.testing.assert_allclose(streamed.f, kept.f, atol=1e-6)  # objectives agree to 1e-14
    monkeypatch.setattr("sparseklr.refit.basis._CANDIDATES", 100)
    drawn = random_basis(points, np.arange(50, 300), 40, np.random.default_rng(0))
    assert len(np.unique(drawn.chosen)) == drawn.size > 30  # a few may depend on the others
    assert drawn.chosen.min() >= 50


def test_threads_change_nothing(monkeypatch) -> None:
    monkeypatch.setattr("sparseklr.refit.basis._BLOCK", 64)
    points = moons_points(400)
    labels, results = Labels.of(points.weight), []
    for n_jobs in (1, 3):
        with ordered_threads(n_jobs) as map_:
            basis = random_basis(points, np.arange(400), 50, np.random.default_rng(0), map_)
            fit = fit_likelihood(basis, labels, C=5.0)
            part, pruned = prune(basis, labels, fit, 1e-3)
            results.append((basis.chosen, fit.v, leave_one_out(basis, labels, fit), part.chosen, pruned.v))
    for one, three in zip(*results, strict=True):
        np.testing.assert_array_equal(one, three)


def test_random_basis() -> None:
    points = moons_points(1000, gamma=5.0)
    basis = random_basis(points, np.arange(1000), 50, np.random.default_rng(0))
    assert len(np.unique(basis.chosen)) == 50
    K = rbf_kernel(points.X, gamma=5.0)
    # the factor of the draw is that of the kernel matrix of the points drawn, and its rows are the features
    np.testing.assert_allclose(basis.L @ basis.L.T, K[np.ix_(basis.chosen, basis.chosen)], atol=1e-10)
    np.testing.assert_allclose(features(basis)[:, :-1] @ basis.L.T, K[:, basis.chosen], atol=1e-10)

    def residual(chosen: np.ndarray) -> float:
        return float(np.trace(K - K[:, chosen] @ np.linalg.pinv(K[np.ix_(chosen, chosen)]) @ K[chosen]))

    uniform = [residual(np.random.default_rng(s).choice(1000, 50, replace=False)) for s in range(10)]
    assert residual(basis.chosen) < np.median(uniform)
    some = np.arange(5, 1000, 7)
    assert set(random_basis(points, some, 50, np.random.default_rng(0)).chosen) <= set(some)
    assert random_basis(points, some[:10], 50, np.random.default_rng(0)).size == 10


@pytest.mark.parametrize("kernel", ["zero", "negative"])
def test_random_basis_of_degenerate_kernels(kernel: str) -> None:
    n = 40
    K = np.zeros((n, n)) if kernel == "zero" else -np.eye(n)
    data = Samples(K, np.arange(n) % 2, np.array([0, 1]), np.ones(n), np.arange(n), n, Kernel("precomputed"))
    points = DistinctPoints.of(data)
    basis = random_basis(points, np.arange(len(points)), 10, np.random.default_rng(0))
    assert basis.size == 0 or kernel == "negative"
    fit = fit_likelihood(basis, Labels.of(points.weight), C=1.0)
    np.testing.assert_allclose(fit.f, 0.0, atol=1e-9)


@pytest.mark.parametrize("whitened", [False, True])
def test_newton_steps_of_the_core_are_those_of_blocks(whitened: bool, monkeypatch) -> None:
    monkeypatch.setattr("sparseklr.refit.basis._BLOCK", 130)
    points = moons_points(300)
    labels, basis = Labels.of(points.weight), Basis.of(points, np.arange(0, 300, 4))
    basis = basis.whiten() if whitened else basis
    assert len(basis.kept) == 3
    f = fit_likelihood(basis, labels, C=1e3).f
    H = basis.curvature(labels.at(f).information)
    ridge = np.append(np.full(basis.size, 1e-3), 0.0)
    gradient = np.random.default_rng(0).normal(size=basis.size + 1)
    factor = np.linalg.cholesky(H + np.diag(ridge) + 0.01 * np.eye(len(H)))
    arguments = labels.at(f), ridge, gradient, factor
    compiled = [_newton_step(basis, *arguments, most_products) for most_products in (1, 2, 60)]
    monkeypatch.setattr(Basis, "kept", None)
    for most_products, (step, change, products, _) in zip((1, 2, 60), compiled, strict=True):
        again = _newton_step(basis, *arguments, most_products)
        assert products == again[2]
        np.testing.assert_allclose(step, again[0], rtol=1e-6, atol=1e-9 * np.abs(step).max())
        np.testing.assert_allclose(change, basis.outputs(step), rtol=1e-6, atol=1e-9 * np.abs(change).max())
    left = np.linalg.solve(factor, (H + np.diag(ridge)) @ step + gradient)
    assert np.linalg.norm(left) < 0.031 * np.linalg.norm(np.linalg.solve(factor, gradient))


def test_elimination_drops_what_is_redundant() -> None:
    points = moons_points(220)
    X = points.X.copy()
    X[200:] = X[:20] + 1e-3
    points = DistinctPoints.of(
        Samples(
            X,
            (points.weight[:, 1] > 0).astype(int),
            np.array([0, 1]),
            np.ones(220),
            np.arange(220),
            220,
            points.kernel,
        )
    )
    labels = Labels.of(points.weight)
    twins = points.point_of_row[np.append(np.arange(20), np.arange(200, 220))]
    basis = Basis.of(points, twins)
    fit = fit_likelihood(basis, labels, C=1.0)
    order = elimination_order(basis, fit)
    assert sorted(order) == list(range(basis.size))
    # nested sets: the better half of the ranking loses little, the worse half much
    half = basis.size // 2
    losses = [
        labels.observations.mean(labels.losses(fit_likelihood(Basis.of(points, chosen), labels, C=1.0).f))[0]
        for chosen in (basis.chosen, basis.chosen[order[half:]], basis.chosen[order[:half]])
    ]
    assert losses[1] - losses[0] < 0.5 * (losses[2] - losses[0]) + 1e-12


def test_elimination_order_is_that_of_one_by_one() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 30))
    sigma, beta = np.linalg.inv(A.T @ A + 0.1 * np.eye(30)), rng.normal(size=30)
    left, expected, s, b = list(range(29)), [], sigma, beta
    while left:  # sigma and beta restricted to what is left, updated after each removal
        k = int(np.argmin(b[:-1] ** 2 / s.diagonal()[:-1]))
        expected.append(left.pop(k))
        b = np.delete(b - s[:, k] * b[k] / s[k, k], k)
        s = np.delete(np.delete(s - np.outer(s[:, k], s[k]) / s[k, k], k, 0), k, 1)
    for block in (1, 7, 64):
        assert _eliminate(sigma, beta[None], block).tolist() == expected


@pytest.mark.parametrize("whitened", [False, True])
def test_parts_have_the_features_of_their_points(whitened: bool) -> None:
    points = moons_points(200)
    basis = Basis.of(points, np.arange(0, 200, 8))
    basis = basis.whiten() if whitened else basis
    order = np.random.default_rng(0).permutation(basis.size)
    curvature = basis.curvature(np.ones(200))
    for size in (0, 1, 7, basis.size):
        part = basis.part(order[:size])
        K = points.columns(part.chosen)
        np.testing.assert_allclose(part.L @ part.L.T, K[part.chosen], atol=1e-10)
        np.testing.assert_allclose(features(part)[:, :-1] @ part.L.T, K, atol=1e-9)
        projection = basis.projection(order[:size], part)
        np.testing.assert_allclose(
            projection @ curvature @ projection.T, part.curvature(np.ones(200)), atol=1e-7
        )


@pytest.mark.parametrize("form", ["columns", "whitened", "streamed"])
def test_sums_over_rows_are_those_of_the_features(form: str, monkeypatch) -> None:
    monkeypatch.setattr("sparseklr.refit.basis._BLOCK", 64)
    if form == "streamed":
        monkeypatch.setattr("sparseklr.refit.basis._KEEP_BYTES", 0)
    points = moons_points(200)
    basis = Basis.of(points, np.arange(0, 200, 8))
    basis = basis.whiten() if form == "whitened" else basis
    rng, A = np.random.default_rng(0), features(basis)
    v, e, h = rng.normal(size=basis.size + 1), rng.normal(size=200), rng.uniform(size=200)
    h[rng.random(200) < 0.5] = 0
    np.testing.assert_allclose(basis.outputs(v), A @ v, atol=1e-9)
    np.testing.assert_allclose(
        basis.outputs(np.stack([v, 2 * v], axis=1)), A @ np.stack([v, 2 * v], axis=1), atol=1e-9
    )
    np.testing.assert_allclose(basis.project(e), A.T @ e, atol=1e-9)
    E = np.stack([e, h], axis=1)
    np.testing.assert_allclose(basis.project(E), A.T @ E, atol=1e-9)
    H = basis.curvature(h)
    np.testing.assert_allclose(H, A.T @ (h[:, None] * A), atol=1e-7)
    factor = np.linalg.cholesky(H + np.eye(len(H)))
    rows = rng.random(200) < 0.7
    s = np.einsum("ij,ji->i", A, np.linalg.solve(H + np.eye(len(H)), A.T))
    np.testing.assert_allclose(basis.leverages(factor, rows), np.where(rows, s, 0), atol=1e-9)
    np.testing.assert_allclose(basis.coordinates(basis.coefficients(v), v[-1]), v, atol=1e-9)


def test_label_free_bases_are_nested() -> None:
    points = moons_points(1600, gamma=50.0)
    bases = LabelFreeBases(points, np.random.default_rng(0))
    *sizes, last = [basis.size for basis in bases]
    assert sizes == [100, 300, 1000]
    assert 1000 < last <= 1600  # all points that are numerically independent
    for small, large in zip(bases, list(bases)[1:], strict=False):
        np.testing.assert_array_equal(large.chosen[: small.size], small.chosen)
        np.testing.assert_array_equal(features(large)[:, : small.size], features(small)[:, :-1])
    again = LabelFreeBases(points, np.random.default_rng(0))  # asked in another order
    np.testing.assert_array_equal(again[-1].chosen, bases[-1].chosen)
    labels = Labels.of(points.weight)
    fit = fit_likelihood(bases[0], labels, C=1.0)
    for basis in bases:
        np.testing.assert_allclose(basis.outputs(embedded(fit.v, basis)), fit.f, atol=1e-12)
    for n, sizes in ((60, [60]), (300, [300]), (301, [100, 300, 301]), (400, [100, 300, 400])):
        assert LabelFreeBases(moons_points(n), np.random.default_rng(0)).sizes == sizes
    four = replace(points, weight=np.ones((1600, 4)))  # at most 3000 coefficients
    assert LabelFreeBases(four, np.random.default_rng(0)).sizes == [100, 300]


def test_pruning_stays_within_what_is_allowed(monkeypatch) -> None:
    points = moons_points(300)
    labels, basis = Labels.of(points.weight), Basis.of(points, np.arange(0, 300, 4))
    fit = fit_likelihood(basis, labels, C=10.0)
    p = 1 / (1 + np.exp(-fit.f))
    sizes = []
    for allowed in (1e-2, 1e-3, 1e-4, 0.0):
        part, pruned = prune(basis, labels, fit, allowed)
        q = 1 / (1 + np.exp(-pruned.f))
        distance = np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))
        assert distance <= allowed + 1e-12
        sizes.append(part.size)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    monkeypatch.setattr("sparseklr.refit.basis._KEEP_BYTES", 0)
    streamed, _ = prune(Basis.of(points, np.arange(0, 300, 4)), labels, fit, 1e-3)
    np.testing.assert_array_equal(streamed.chosen, prune(basis, labels, fit, 1e-3)[0].chosen)
