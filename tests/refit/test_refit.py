"""Calibrated probabilities: likelihood, leave-one-out, refit, pruning, and consistency in all modes."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.datasets import load_digits, load_iris, make_blobs, make_moons
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.alike import clearly_less
from support.problems import moons_points

from sparseklr import SKLR, SparseKLR
from sparseklr.baselines.loss import cross_entropies
from sparseklr.datasets import expected_log_loss, make_twonorm, true_log_proba
from sparseklr.kernels import Kernel
from sparseklr.refit import regularisation
from sparseklr.refit.basis import LabelFreeBases
from sparseklr.refit.calibration import ONE_VS_REST, folds_along, link, log_probabilities, platt
from sparseklr.refit.labels import Labels
from sparseklr.refit.recalibration import Recalibration
from sparseklr.refit.refit import refit
from sparseklr.refit.regularisation import EvaluatedFit, choose_C
from sparseklr.samples import DistinctPoints, Samples

pytestmark = pytest.mark.numerical

MODES = ["refit", "sigmoid", "link", None]
# one rbf kernel of the features as they are
PLAIN = {"kernel": "rbf", "scale": None, "relevance": "shared"}


def in_mode(mode: str | None, **parameters) -> SparseKLR | SKLR:
    """SparseKLR, whose likelihood is refitted, or S-KLR with a calibration."""
    return SparseKLR(**parameters) if mode == "refit" else SKLR(calibration=mode, **parameters)


@pytest.mark.slow
@parametrize_with_checks([SKLR(calibration=mode, C=10, lam=1, tol=1e-12) for mode in ("sigmoid", "link")])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks set max_iter
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


def test_refit_only_removes_points(benchmark) -> None:
    X, y = benchmark("diabetes")
    unpruned = SparseKLR(**PLAIN, gamma=0.5, prune=0).fit(X, y)
    pruned = SparseKLR(**PLAIN, gamma=0.5).fit(X, y)
    assert len(pruned.support_) < len(unpruned.support_)
    assert len(unpruned.support_) <= unpruned.n_selected_ == pruned.n_selected_
    assert set(pruned.support_) <= set(SKLR(1e4, gamma=0.5, calibration=None).fit(X, y).support_)
    p, q = unpruned.predict_proba(X)[:, 1], pruned.predict_proba(X)[:, 1]
    error = cross_entropies(y > 0, pruned.loo_decision_function_).std() / np.sqrt(len(y))
    divergence = np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))
    assert divergence <= 0.05 * error * 1.001
    assert pruned.loo_log_loss_ == pytest.approx(cross_entropies(y > 0, pruned.loo_decision_function_).mean())


@pytest.mark.parametrize(
    ("on_more_points", "noise", "C", "size"),
    [(0.4, 0.7, 1000.0, 100), (0.18, 0.7, 100.0, 300), (0.1, 0.7, 1000.0, 300), (0.18, 0.0, 1000.0, 300)],
)
def test_more_points_are_used_if_they_have_a_smaller_loss_with_the_same_C(
    monkeypatch, on_more_points: float, noise: float, C: float, size: int
) -> None:
    """The neighbours of this C are then evaluated too, unless they were a standard error worse on 100 points.

    With ``noise``, C = 100 is worse than C = 1000 on 100 points by less than a standard error.
    """
    levels = {
        (100, 10.0): 0.3,
        (100, 100.0): 0.25,
        (100, 1000.0): 0.2,
        (300, 10.0): 0.3,
        (300, 100.0): 0.15,
        (300, 1000.0): on_more_points,
    }
    labels = Labels(np.resize([0.0, 1.0], 100), np.ones(100))

    def evaluate(basis, labels, C, *_, **__):
        fit = SimpleNamespace(C=C, f=None, v=np.zeros(1), curvature=None)
        losses = levels.get((basis.size, C), 0.5) + 0.01 * labels.target
        if (basis.size, C) == (100, 100.0):
            losses += noise * (2 * labels.target - 1)
        return EvaluatedFit(None, None, fit, Recalibration(), np.full(100, float(basis.size)), losses)

    monkeypatch.setattr(regularisation, "_evaluate", evaluate)
    bases = [SimpleNamespace(size=100), SimpleNamespace(size=300)]
    chosen = choose_C(bases, labels)
    assert (chosen.C, chosen.loo[0]) == (C, size)


@pytest.mark.slow
def test_leave_one_out_of_many_classes_is_that_of_the_class_probabilities() -> None:
    X, y = (np.delete(A, 142, axis=0) for A in load_iris(return_X_y=True))  # equal to row 101
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    weight[3] = 0
    model = SparseKLR().fit(X, y, sample_weight=weight)
    assert np.isnan(model.loo_decision_function_[3]).all()
    p = softmax(np.delete(model.loo_decision_function_, 3, axis=0), axis=1)
    expected = log_loss(np.delete(y, 3), p, sample_weight=np.delete(weight, 3))
    assert model.loo_log_loss_ == pytest.approx(expected, rel=1e-6)

    X, y = load_digits(return_X_y=True)
    ratios = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:400], order[400:]
        model = SparseKLR(gamma=0.02).fit(X[train] / 16, y[train])
        ratios.append(model.loo_log_loss_ / log_loss(y[test], model.predict_proba(X[test] / 16)))
    assert 0.6 < np.mean(ratios) < 1.4


def test_refit_improves_the_probabilities() -> None:
    """The comparison uses expected log-losses under the true probabilities, which have no label noise.

    sigmoid(f) is worse than the constant 1/2, the link of the loss better than that, and the refit not worse
    than a sigmoid fitted across folds: in the mean, by two standard errors of the paired differences.
    """
    losses = {mode: [] for mode in MODES}
    for seed in range(10):
        X, y = make_twonorm(200, 2, random_state=seed)
        Q, _ = make_twonorm(500, 2, random_state=1000 + seed)
        truth = true_log_proba("twonorm", Q)
        for mode, values in losses.items():
            model = in_mode(mode).fit(X, y)
            values.append(expected_log_loss(truth, model.predict_log_proba(Q)).mean())

    assert clearly_less(np.full(10, np.log(2)), losses[None])
    assert clearly_less(losses["link"], losses[None])
    assert clearly_less(losses["refit"], np.full(10, np.log(2)))
    assert not clearly_less(losses["sigmoid"], losses["refit"])


@pytest.mark.slow
@pytest.mark.parametrize("balanced", [False, True])
def test_noise_with_a_rare_class_is_not_learnt(balanced: bool) -> None:
    """The rare class has 5 of 600 rows; one or two leave-one-out steps would underestimate their loss."""
    share = 0.5 if balanced else 5 / 600
    of_shares = -share * np.log(share) - (1 - share) * np.log1p(-share)
    estimates, losses = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y, new = rng.normal(size=(600, 4)), np.arange(600) < 5, rng.normal(size=(1000, 4))
        model = SparseKLR(class_weight="balanced" if balanced else None).fit(X, y)
        estimates.append(model.loo_log_loss_)
        losses.append(-(model.predict_log_proba(new) @ [1 - share, share]).mean())
    assert np.mean(losses) < 1.15 * of_shares
    assert np.mean(estimates) > 0.95 * of_shares


def test_weights_equal_repetition_in_a_rare_class() -> None:
    rng = np.random.default_rng(0)
    X, y, times = rng.normal(size=(300, 3)), np.arange(300) < 6, rng.integers(1, 4, 300)
    X[:6] += 1
    repeated = SparseKLR().fit(X.repeat(times, axis=0), y.repeat(times))
    for factor in (1.0, 7.0):
        weighted = SparseKLR().fit(X, y, sample_weight=factor * times)
        assert weighted.loo_log_loss_ == pytest.approx(repeated.loo_log_loss_, rel=1e-6)
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_predictions_are_consistent_with_each_other(mode) -> None:
    """predict is the argmax of predict_proba, decision_function its logit; also on 10^5 far points."""
    X, y = make_moons(300, noise=0.3, random_state=0)
    model = in_mode(mode).fit(X, y)
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
        # standardised features are clipped
        np.testing.assert_array_equal(model.decision_function(Q[:10]), model.decision_function(9 * Q[:10]))
        plain = SparseKLR(**PLAIN).fit(X, y)
        np.testing.assert_allclose(plain.decision_function(Q[:10]), plain.intercept_[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iris", "moons"])
@pytest.mark.parametrize("mode", MODES)
def test_all_modes_accept_every_form_of_a_kernel(mode, name: str) -> None:
    """Every form of the same kernel, including a kernel matrix with other rounding errors."""
    X, y = load_iris(return_X_y=True) if name == "iris" else make_moons(200, noise=0.3, random_state=0)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    K = rbf_kernel(X, gamma=0.5)
    noise = np.random.default_rng(1).normal(scale=1e-15, size=K.shape)
    # without calibration decision values are promised in units of the margin only, 1000 here
    options = {"mode": mode, "tol": 1e-3 if mode else 1e-6}
    plain = PLAIN if mode == "refit" else {}
    models = {
        "dense": (in_mode(**options, **plain, gamma=0.5), X),
        "csr": (in_mode(**options, **plain, gamma=0.5), sparse.csr_array(X)),
        "callable": (in_mode(**options, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.5)), X),
        "precomputed": (in_mode(**options, kernel="precomputed"), K),
        "rounded": (in_mode(**options, kernel="precomputed"), K + noise + noise.T),
    }
    p = {}
    for form, (model, data) in models.items():
        p[form] = model.fit(data, y, sample_weight=weight).predict_proba(data)
        assert model.decision_function(data).shape == ((150, 3) if name == "iris" else (200,))
    for form in p:
        np.testing.assert_allclose(p[form], p["dense"], atol=1e-3, err_msg=form)


def test_folds_of_the_sigmoid_do_not_depend_on_the_order_of_rows() -> None:
    X, y = make_moons(200, noise=0.3, random_state=0)
    order = np.random.default_rng(0).permutation(200)
    model, other = SKLR(calibration="sigmoid").fit(X, y), SKLR(calibration="sigmoid")
    np.testing.assert_allclose(
        other.fit(X[order], y[order]).predict_proba(X), model.predict_proba(X), atol=1e-3
    )


def test_distinct_points_are_assigned_to_folds() -> None:
    X = np.array([[0.0], [1.0], [1.0], [2.0], [3.0], [4.0], [4.0], [5.0]])
    codes = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    data = Samples(X, codes, np.array([0, 1]), np.ones(8), np.arange(8), 8, Kernel("linear"))
    points, y = DistinctPoints.of(data), data.signs()[0]
    folds = folds_along(points, -X[:, 0], y, data.weight, 5)
    np.testing.assert_array_equal(folds, [2, 1, 1, 0, 2, 1, 1, 0])  # three distinct points of a class
    np.testing.assert_array_equal(folds_along(points, X[:, 0], y, data.weight, 2), [0, 1, 1, 0, 0, 1, 1, 0])
    assert folds_along(points, X[:, 0], np.where(X[:, 0] == 1, -1.0, 1.0), data.weight, 5) is None
    mixed = np.array([-1, -1, 1, -1, 1, 1, -1, 1])  # the points 1 and 4 have both labels
    folds = folds_along(points, X[:, 0], mixed, data.weight, 5)
    assert folds is not None
    np.testing.assert_array_equal(folds[[1, 5]], folds[[2, 6]])


@pytest.mark.parametrize("multi_class", ["ovr", "softmax"])
def test_the_sigmoid_keeps_the_order_of_the_classes_if_rows_repeat(multi_class) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (600, 3)).astype(float)  # eight distinct rows, each with both labels
    y = rng.random(600) < np.array([0.1, 0.3, 0.7, 0.9])[X.sum(axis=1).astype(int)]
    model = SKLR(calibration="sigmoid", multi_class=multi_class).fit(X, y)
    assert model.score(X, y) > 0.7
    p = model.predict_proba([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])[:, 1]
    assert p[0] < 0.3
    assert p[1] > 0.7


@pytest.mark.parametrize("mode", MODES)
def test_weights_equal_repetition(mode) -> None:
    X, y = make_moons(120, noise=0.3, random_state=0)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    given = {"box": 20.0} if mode == "refit" else {"C": 20.0, "lam": 1.0}
    parameters = {"mode": mode, "gamma": 1.0, "tol": 1e-11, **given}
    weighted = in_mode(**parameters).fit(X, y, sample_weight=weight)
    repeated = in_mode(**parameters).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


def test_model_without_points_is_constant() -> None:
    points = moons_points()
    labels, random = Labels.of(points.weight), np.random.default_rng(0)
    evaluated = choose_C(LabelFreeBases(points, random), labels)
    result = refit(points, labels, np.empty(0, dtype=int), evaluated, prune_within=0.0, rng=random)
    assert len(result.points) == 0
    assert result.intercept == pytest.approx(0.0, abs=1e-9)
    X, y = make_moons(40, noise=0.3, random_state=0)
    with pytest.warns(UserWarning, match="so the model predicts the class fractions"):
        model = SparseKLR().fit(X[:, :1] * 0 + 1, y)
    assert len(model.support_) == 0
    np.testing.assert_allclose(model.predict_proba(X[:, :1]), 0.5)


def test_keep_prediction_only() -> None:
    X, y = make_moons(200, noise=0.3, random_state=0)
    model = SparseKLR().fit(X, y)
    before, familiarity = model.predict_proba(X), SparseKLR().fit(X, y).familiarity(X)
    assert model.keep_prediction_only() is model
    np.testing.assert_array_equal(model.predict_proba(X), before)
    np.testing.assert_array_equal(model.familiarity(X), familiarity)
    assert not hasattr(model, "loo_decision_function_")
    assert not hasattr(model, "_training_rows_")
    for call in (model.decision_function, model.predict_proba):
        uncertain = {"return_std": True} if call == model.decision_function else {"moderated": True}
        with pytest.raises(AttributeError, match="keep_prediction_only"):
            call(X, **uncertain)


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


def test_class_probabilities_add_up_far_from_the_boundary() -> None:
    outputs = np.array([[-2e5, -2e5, -2.1e5, -3e5, -2e5], [-1e300] * 5])
    P = np.exp(log_probabilities(outputs, ONE_VS_REST))
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-15)
    np.testing.assert_allclose(P, [[1 / 3, 1 / 3, 0, 0, 1 / 3], [0.2] * 5], rtol=1e-15)


@pytest.mark.parametrize("noise", [0.0, 1e-15])
def test_a_sigmoid_of_values_without_spread_is_a_constant(noise: float) -> None:
    y, f = np.array([1.0, -1, -1, -1]), 0.3 + noise * np.array([1, 0, 0, -1])
    slope, intercept = platt(y, f, np.ones(4))
    assert slope == 0
    targets = np.array([2 / 3, 1 / 5, 1 / 5, 1 / 5])  # Platt's: (n + 1) / (n + 2) and 1 / (n + 2)
    np.testing.assert_allclose(expit(intercept), targets.mean(), rtol=1e-14)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("heavy", [1e20, 1e100, 1e300])
@pytest.mark.parametrize("unit", [1e-300, 1e-100, 1.0])
def test_a_sigmoid_where_one_row_has_nearly_all_weight(heavy: float, unit: float) -> None:
    f, y = unit * np.array([1.0, 2.0, 3.0, 4.0]), np.array([-1.0, 1.0, -1.0, 1.0])
    slope, intercept = platt(y, f, np.array([1.0, heavy, 1.0, 1.0]))
    assert np.isfinite([slope, intercept]).all()
    assert expit(slope * f[1] + intercept) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("weight", [1e-30, 1.0, 1e12, 1e30])
def test_a_sigmoid_of_two_values_meets_their_targets(weight: float) -> None:
    """Two unknowns fit two values exactly: the probabilities are Platt's targets."""
    slope, intercept = platt(np.array([1.0, -1]), np.array([5.0, 3.0]), np.array([weight, weight]))
    found = expit([5 * slope + intercept, 3 * slope + intercept])
    np.testing.assert_allclose(found, [(weight + 1) / (weight + 2), 1 / (weight + 2)], rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "'C'"),
        ({"box": 0}, "'box'"),
        ({"prune": -1}, "'prune'"),
    ],
)
def test_invalid_parameters_raise(parameters, message) -> None:
    with pytest.raises(ValueError, match=message):
        SparseKLR(**parameters).fit([[0.0], [1.0]], [0, 1])


def test_invalid_calibration_raises() -> None:
    with pytest.raises(ValueError, match="'calibration'"):
        SKLR(calibration="isotonic").fit([[0.0], [1.0]], [0, 1])


def test_sigmoid_needs_two_of_each_class() -> None:
    with pytest.warns(UserWarning, match="fewer than two distinct samples"):
        SKLR(calibration="sigmoid").fit([[0.0], [1.0], [2.0]], [0, 1, 1])


def test_a_given_C_is_used() -> None:
    X, y = make_moons(100, noise=0.3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SparseKLR(C=3.0).fit(X, y)
    assert model.C_ == [3.0]


@pytest.mark.parametrize("prune", [0.05, 0.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_max_points_bounds_the_points(prune: float, n_classes: int) -> None:
    """A bound above the number of points changes nothing; fewer points fit the training rows less well."""
    X, y = make_blobs(150, centers=np.eye(3)[:n_classes], cluster_std=0.6, random_state=0)
    free = SparseKLR(prune=prune).fit(X, y)
    same = SparseKLR(prune=prune, max_points=1000).fit(X, y)
    np.testing.assert_array_equal(free.dual_coef_, same.dual_coef_)
    models = [SparseKLR(prune=prune, max_points=k).fit(X, y) for k in (1, 4, 8)]
    sizes = [len(model.support_) for model in models]
    assert sizes == [1, 4, 8] if prune == 0 else all(np.less_equal(sizes, [1, 4, 8]))
    losses = [log_loss(y, model.predict_proba(X)) for model in models]
    assert losses[0] > losses[2]


@pytest.mark.parametrize("value", [0, -1, 2.5, "many"])
def test_max_points_must_be_a_count(value: object) -> None:
    with pytest.raises(ValueError, match="'max_points' parameter"):
        SparseKLR(max_points=value).fit([[0.0], [1.0]], [0, 1])
