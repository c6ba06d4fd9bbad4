"""SKLR(multi_class="softmax"): probabilities, calibration, files, exports and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale

from sparseklr import SKLR, SKLRCV, load, save
from sparseklr.export.portable import PortableModel
from sparseklr.refit.calibration import link
from sparseklr.refit.softmax_calibration import softmax_link, vector_scaling


@pytest.fixture(scope="module")
def wine() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    return scale(X)[:, :5], y


def test_probabilities_are_the_softmax_of_the_decision_values(wine) -> None:
    X, y = wine
    for calibration in ("sigmoid", "link", None):
        model = SKLR(C=10, lam=1, multi_class="softmax", calibration=calibration, tol=1e-5).fit(X, y)
        f = model.decision_function(X)
        np.testing.assert_allclose(model.predict_proba(X), softmax(f, axis=1), atol=1e-12)
        np.testing.assert_array_equal(model.predict(X), model.classes_[f.argmax(axis=1)])
        assert model.score(X, y) > 0.9
        explanation = model.explain(X[:5])
        np.testing.assert_allclose(explanation.contributions.sum(axis=2) + explanation.intercept, f[:5])
        assert model.converged_
        assert model.link_ == "softmax"
        assert abs(model.dual_coef_.sum(axis=0)).max() <= 1e-10


def test_it_keeps_fewer_points_than_one_vs_rest(wine) -> None:
    X, y = wine
    kept = {kind: len(SKLR(multi_class=kind).fit(X, y).support_) for kind in ("softmax", "ovr")}
    assert kept["softmax"] < kept["ovr"]


def test_two_classes_are_binary(wine) -> None:
    X, y = wine
    models = [SKLR(multi_class=kind).fit(X[y < 2], y[y < 2]) for kind in ("softmax", "ovr")]
    np.testing.assert_array_equal(models[0].dual_coef_, models[1].dual_coef_)
    assert models[0].link_ == "one-vs-rest"


@pytest.mark.parametrize("lam", [0.0, 1.0, 5.0])
def test_the_link_inverts_the_expected_loss(lam: float) -> None:
    """At the minimum of the expected margin loss, the link returns the true probabilities."""
    eta = np.array([0.5, 0.3, 0.15, 0.05])

    def expected_loss(g: np.ndarray) -> float:
        z = g + lam * ~np.eye(4, dtype=bool)
        return float(eta @ (logsumexp(z, axis=1) - g))

    g = minimize(expected_loss, np.log(eta), method="BFGS", options={"gtol": 1e-10}).x
    np.testing.assert_allclose(softmax(softmax_link(g[None], lam)[0]), eta, atol=1e-5)


def test_the_link_of_two_classes_is_the_binary_one() -> None:
    f = np.linspace(-30, 30, 61)
    scores = softmax_link(np.column_stack([np.zeros_like(f), f]), 10.0)
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], link(f, 10.0), atol=1e-9)


def test_vector_scaling_is_stationary() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 200)
    g = 100 * (np.eye(3)[codes] + rng.normal(size=(200, 3)))
    weight = rng.uniform(0.5, 2, 200)
    slope, offset = vector_scaling(codes, g, weight).T
    total = np.bincount(codes, weight)[codes]
    target = np.where(np.eye(3, dtype=bool)[codes], total[:, None] + 1, 0.5) / (total + 2)[:, None]
    residual = weight[:, None] * (np.exp(log_softmax(slope * g + offset, axis=1)) - target)
    assert abs(residual.sum(axis=0)).max() <= 1e-4 * weight.sum()
    assert abs((residual * g).sum(axis=0)).max() <= 1e-4 * weight.sum() * np.ptp(g)
    assert (slope > 0).all()


def test_files_and_exports(wine, tmp_path) -> None:
    X, y = wine
    model = SKLR(multi_class="softmax").fit(X, y)
    save(model, tmp_path / "model.sklr")
    np.testing.assert_array_equal(load(tmp_path / "model.sklr").predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(PortableModel.of(model).predict_proba(X), model.predict_proba(X), atol=1e-9)
    with pytest.raises(ValueError, match="calibration='link' and multi_class='softmax'"):
        PortableModel.of(SKLR(multi_class="softmax", calibration="link").fit(X, y))


def test_warm_start_and_weights(wine) -> None:
    X, y = wine
    model = SKLR(multi_class="softmax", calibration=None, warm_start=True).fit(X, y)
    steps = model.n_iter_
    assert model.fit(X, y).n_iter_ < steps / 10
    count = 1 + np.arange(len(y)) % 2
    rows = np.repeat(np.arange(len(y)), count)
    settings = {"multi_class": "softmax", "calibration": None, "tol": 1e-7, "gamma": 0.2, "C": 100, "lam": 1}
    weighted = SKLR(**settings).fit(X, y, sample_weight=count)
    repeated = SKLR(**settings).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=2e-3)


def test_cross_validation_of_parameters() -> None:
    X, y = load_iris(return_X_y=True)
    template = SKLR(multi_class="softmax", calibration=None)
    search = SKLRCV(Cs=[1, 100], lams=[0.1], lam_scale="ratio", cv=3, estimator=template).fit(X, y)
    assert search.best_estimator_.link_ == "softmax"
    assert search.score(X, y) > 0.9


def test_unusual_data(wine) -> None:
    X, y = wine
    lonely = np.where(np.arange(len(y)) == 3, 7, y)
    with pytest.warns(UserWarning, match="fewer than two distinct samples"):
        model = SKLR(multi_class="softmax").fit(X, lonely)
    assert np.isfinite(model.predict_proba(X)).all()
    same = SKLR(multi_class="softmax", calibration=None, C=10, lam=0).fit(np.ones((30, 2)), np.arange(30) % 3)
    np.testing.assert_allclose(same.predict_proba([[1, 1]]), 1 / 3, atol=1e-3)
    with pytest.raises(ValueError, match="needs multi_class='ovr'"):
        SKLR(multi_class="softmax", nu=1.0).fit(X, y)
    with pytest.raises(ValueError, match="multi_class"):
        SKLR(multi_class="multinomial").fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        SKLR(multi_class="softmax", kernel=lambda A, B: np.full((len(A), len(B)), np.nan)).fit(X, y)
    broken = np.where(np.arange(len(X) * 5).reshape(-1, 5) == 12, 1e200, X)
    with pytest.raises(ValueError, match="in row 2 of X"):
        SKLR(multi_class="softmax", gamma=1.0).fit(broken, y)
