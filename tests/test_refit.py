"""Calibrated probabilities: likelihood, leave-one-out, refit, pruning, and consistency in all modes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks
from standins import available

from sparseklr import SparseKLR
from sparseklr.data import TrainingSet
from sparseklr.kernels import Kernel
from sparseklr.probability.calibration import link, platt
from sparseklr.probability.likelihood import Span, cross_entropies, fit_likelihood, independent, leave_one_out
from sparseklr.probability.refit import _eliminate, elimination_order, label_free_span, random_pivots, refit

MODES = ["refit", "sigmoid", "link", None]


def training_set(n: int = 80, seed: int = 0, gamma: float = 1.0) -> tuple[TrainingSet, np.ndarray]:
    X, codes = make_moons(n, noise=0.3, random_state=seed)
    data = TrainingSet(X, codes, np.array([0, 1]), np.ones(n), np.arange(n), n, Kernel("rbf", gamma))
    return data, data.signs()[0]


@parametrize_with_checks(
    [SparseKLR(calibration=mode, C=10, lam=1, tol=1e-12) for mode in ("sigmoid", "link")]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks set max_iter
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


def test_likelihood_against_a_general_optimiser() -> None:
    data, y = training_set()
    points = np.arange(0, 80, 8)
    span = Span(data, points)
    fit = fit_likelihood(span, y > 0, data.weight, C=5.0)
    K = rbf_kernel(data.X, data.X[span.points], gamma=1.0)
    K_BB = rbf_kernel(data.X[span.points], gamma=1.0)

    def value(v: np.ndarray) -> float:
        f = K @ v[:-1] + v[-1]
        return 0.5 * v[:-1] @ K_BB @ v[:-1] + 5.0 * np.logaddexp(0, -y * f).sum()

    best = minimize(value, np.zeros(len(span.points) + 1), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(fit.f, K @ best.x[:-1] + best.x[-1], atol=1e-4)
    np.testing.assert_allclose(fit.f, K @ span.coefficients(fit.v) + fit.v[-1], atol=1e-9)
    for near in (fit.f, np.zeros_like(fit.f), 5 * y):
        np.testing.assert_allclose(
            fit_likelihood(span, y > 0, data.weight, C=5.0, near=near).f, fit.f, atol=1e-6
        )


def test_singular_kernel_is_no_problem() -> None:
    data, y = training_set()
    points = np.repeat(np.arange(0, 80, 8), 3)  # duplicates
    span = Span(data, points)
    assert span.size == 10
    reference = fit_likelihood(Span(data, points[::3]), y > 0, data.weight, C=5.0)
    np.testing.assert_allclose(fit_likelihood(span, y > 0, data.weight, C=5.0).f, reference.f, atol=1e-8)
    kept, L = independent(np.ones((4, 4)))
    assert len(kept) == 1
    assert L.shape == (1, 1)


def test_streaming_equals_keeping(monkeypatch) -> None:
    data, y = training_set(300)
    points = np.arange(0, 300, 10)
    kept = fit_likelihood(Span(data, points), y > 0, data.weight, C=5.0)
    monkeypatch.setattr("sparseklr.probability.likelihood._KEEP_BYTES", 0)
    monkeypatch.setattr("sparseklr.probability.likelihood._BLOCK", 64)
    streamed = fit_likelihood(Span(data, points), y > 0, data.weight, C=5.0)
    np.testing.assert_allclose(streamed.f, kept.f, atol=1e-9)


@pytest.mark.parametrize("name", available("sonar", "ionosphere", "diabetes"))
def test_approximate_leave_one_out(name: str, benchmark) -> None:
    """Within 2% of the exact leave-one-out log-loss (the model refitted without each row)."""
    X, y = benchmark(name)
    X, y = (a[:: 1 + len(y) // 150] for a in (X, y))  # a hundred refits are enough
    n = len(y)
    data = TrainingSet(
        X, (y > 0).astype(int), np.array([0, 1]), np.ones(n), np.arange(n), n, Kernel("rbf", 0.5)
    )
    span = label_free_span(data, np.random.default_rng(0))
    fit = fit_likelihood(span, y > 0, data.weight, C=10.0)
    approximate = cross_entropies(y > 0, leave_one_out(span, y > 0, fit)).mean()
    exact = np.empty(n)
    for i in range(n):
        weight = np.ones(n)
        weight[i] = 0
        exact[i] = cross_entropies(
            y > 0, fit_likelihood(span, y > 0, weight, C=10.0, start=fit.v, tol=1e-8).f
        )[i]
    assert abs(approximate - exact.mean()) <= 0.02 * exact.mean()


def test_elimination_drops_what_is_redundant() -> None:
    data, _ = training_set(200)
    twin = TrainingSet(
        np.vstack([data.X, data.X[:20] + 1e-3]),
        np.append(data.codes, data.codes[:20]),
        data.classes,
        np.ones(220),
        np.arange(220),
        220,
        data.kernel,
    )
    span = Span(twin, np.append(np.arange(20), np.arange(200, 220)))
    fit = fit_likelihood(span, twin.codes, twin.weight, C=1.0)
    order = elimination_order(span, fit)
    assert sorted(order) == list(range(span.size))
    # nested sets: the better half of the ranking loses little, the worse half much
    better, worse = (
        Span(twin, span.points[part]) for part in (order[span.size // 2 :], order[: span.size // 2])
    )
    losses = [
        cross_entropies(twin.codes, fit_likelihood(s, twin.codes, twin.weight, C=1.0).f).mean()
        for s in (span, better, worse)
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
        assert _eliminate(sigma, beta, block).tolist() == expected


def test_random_pivots_spread() -> None:
    data, _ = training_set(1000, gamma=5.0)
    chosen = random_pivots(data, np.arange(1000), 50, np.random.default_rng(0))
    assert len(np.unique(chosen)) == 50
    K = rbf_kernel(data.X, gamma=5.0)

    def residual(points: np.ndarray) -> float:
        return float(np.trace(K - K[:, points] @ np.linalg.pinv(K[np.ix_(points, points)]) @ K[points]))

    uniform = [residual(np.random.default_rng(s).choice(1000, 50, replace=False)) for s in range(10)]
    assert residual(chosen) < np.median(uniform)
    assert len(random_pivots(data, np.arange(10), 50, np.random.default_rng(0))) == 10


def test_refit_only_shrinks_and_reports(benchmark) -> None:
    X, y = benchmark("diabetes")
    unpruned = SparseKLR(gamma=0.5, prune=False).fit(X, y)
    pruned = SparseKLR(gamma=0.5).fit(X, y)
    assert len(pruned.support_) < 0.2 * len(unpruned.support_)
    assert len(unpruned.support_) <= unpruned.n_selected_ == pruned.n_selected_
    assert set(pruned.support_) <= set(unpruned.dual_model_.support)
    p, q = unpruned.predict_proba(X)[:, 1], pruned.predict_proba(X)[:, 1]
    error = cross_entropies(y > 0, pruned.loo_decision_function_).std() / np.sqrt(len(y))
    divergence = np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))
    assert divergence <= 0.05 * error * 1.001
    assert pruned.loo_log_loss_ == pytest.approx(cross_entropies(y > 0, pruned.loo_decision_function_).mean())


@pytest.mark.parametrize("name", ["diabetes", "ionosphere", "spambase"])
def test_refit_mends_the_probabilities(name: str, benchmark) -> None:
    X, y = benchmark(name)
    order = np.random.default_rng(0).permutation(len(y))[:1500]
    train, test = order[: 2 * len(order) // 3], order[2 * len(order) // 3 :]
    loss = {
        mode: log_loss(
            y[test], SparseKLR(gamma=0.5, calibration=mode).fit(X[train], y[train]).predict_proba(X[test])
        )
        for mode in MODES
    }
    assert loss["refit"] < 0.1 * loss[None]
    assert loss["link"] < loss[None]
    assert loss["refit"] < 1.1 * loss["sigmoid"]


@pytest.mark.parametrize("mode", MODES)
def test_one_truth(mode) -> None:
    """predict is the argmax of predict_proba, decision_function its logit; also on 10^5 far points."""
    X, y = make_moons(300, noise=0.3, random_state=0)
    model = SparseKLR(calibration=mode).fit(X, y)
    Q = np.random.default_rng(0).normal(scale=3, size=(100_000, 2))
    Q[:10] *= 1e6
    p = model.predict_proba(Q)
    assert np.isfinite(p).all()
    np.testing.assert_array_equal(model.predict(Q), model.classes_[p.argmax(axis=1)])
    np.testing.assert_allclose(p[:, 1], expit(model.decision_function(Q)), atol=1e-300)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    log_p = model.predict_log_proba(Q)
    assert np.isfinite(log_p).all()
    assert (log_p <= 0).all()
    if mode == "refit":
        assert ((p > 0) & (p < 1)).all()
        np.testing.assert_allclose(model.decision_function(Q[:10]), model.intercept_[0])


@pytest.mark.parametrize("mode", MODES)
def test_all_modes_take_everything(mode) -> None:
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    models = {
        "dense": (SparseKLR(calibration=mode, gamma=0.5), X),
        "csr": (SparseKLR(calibration=mode, gamma=0.5), sparse.csr_array(X)),
        "callable": (SparseKLR(calibration=mode, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.5)), X),
        "precomputed": (SparseKLR(calibration=mode, kernel="precomputed"), rbf_kernel(X, gamma=0.5)),
    }
    p = {}
    for name, (model, data) in models.items():
        p[name] = model.fit(data, y, sample_weight=weight).predict_proba(data)
        assert model.dual_decision_function(data).shape == (150, 3)
    for name in p:
        np.testing.assert_allclose(p[name], p["dense"], atol=0.02)


@pytest.mark.parametrize("mode", MODES)
def test_weights_equal_repetition(mode) -> None:
    X, y = make_moons(120, noise=0.3, random_state=0)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    parameters = {"C": 20.0, "lam": 1.0, "gamma": 1.0, "tol": 1e-11, "calibration": mode}
    weighted = SparseKLR(**parameters).fit(X, y, sample_weight=weight)
    repeated = SparseKLR(**parameters).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


def test_fewer_than_two_points_falls_back() -> None:
    data, y = training_set()
    span = label_free_span(data, np.random.default_rng(0))
    result = refit(data, y, np.empty(0, dtype=int), span, rng=np.random.default_rng(0))
    assert len(result.points) == 0
    assert result.intercept == pytest.approx(0.0, abs=1e-9)
    X, y = make_moons(40, noise=0.3, random_state=0)
    with pytest.warns(UserWarning, match="Fewer than two points"):
        model = SparseKLR(C=1.0, lam=0.0, bound=0.4999999999).fit(X[:, :1] * 0 + 1, y)
    assert np.ptp(model.predict_proba(X[:, :1])) < 1e-3


def test_compact_and_dual_decision_function() -> None:
    X, y = make_moons(200, noise=0.3, random_state=0)
    model, raw = SparseKLR().fit(X, y), SparseKLR(calibration=None).fit(X, y)
    np.testing.assert_array_equal(model.dual_decision_function(X), raw.decision_function(X))
    before = model.predict_proba(X)
    np.testing.assert_array_equal(model.compact().predict_proba(X), before)
    with pytest.raises(AttributeError, match="compact"):
        model.dual_decision_function(X)


def test_link_and_platt() -> None:
    f = np.linspace(-30, 30, 61)
    eta = expit(2 + f) / (expit(2 + f) + expit(2 - f))
    np.testing.assert_allclose(expit(link(f, 2.0)), eta, atol=1e-9)
    np.testing.assert_allclose(link(f, 0.0), f, atol=1e-9)
    rng = np.random.default_rng(0)
    f = rng.normal(size=20_000)
    y = np.where(rng.random(20_000) < expit(2.5 * f - 1), 1.0, -1.0)
    slope, intercept = platt(y, f, np.ones(20_000))
    assert slope == pytest.approx(2.5, abs=0.1)
    assert intercept == pytest.approx(-1, abs=0.1)
    slope, _ = platt(np.sign(f), f, np.ones(20_000))  # separable: finite all the same
    assert np.isfinite(slope)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C_refit": 0}, "'C_refit'"),
        ({"calibration": "isotonic"}, "'calibration'"),
        ({"prune": -1}, "'prune'"),
    ],
)
def test_bad_parameters(parameters, message) -> None:
    with pytest.raises(ValueError, match=message):
        SparseKLR(**parameters).fit([[0.0], [1.0]], [0, 1])


def test_sigmoid_needs_two_of_each_class() -> None:
    with pytest.warns(UserWarning, match="fewer than two distinct samples"):
        SparseKLR(calibration="sigmoid").fit([[0.0], [1.0], [2.0]], [0, 1, 1])


def test_fixed_strength_is_used() -> None:
    X, y = make_moons(100, noise=0.3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SparseKLR(C_refit=3.0).fit(X, y)
    assert model.C_refit_ == [3.0]
