"""SparseKLRCV without a grid: kernels and widths, judged by leave-one-out or on folds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from sparseklr import SparseKLR, SparseKLRCV
from sparseklr.probability.loss import cross_entropies

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(200, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def fitted(moons) -> SparseKLRCV:
    return SparseKLRCV().fit(*moons)


def test_by_default_kernels_are_judged_by_leave_one_out(moons, fitted) -> None:
    X, y = moons
    table = pd.DataFrame(fitted.cv_results_)
    assert set(table["param_kernel"]) == {"rbf", "laplacian"}
    assert table["param_kernel"].value_counts()["rbf"] >= 3
    for row in table.itertuples():
        alone = SparseKLR(**row.params).fit(X, y)
        assert row.mean_test_score == pytest.approx(-alone.loo_log_loss_, rel=1e-9)
        assert row.mean_n_support == len(alone.support_)
        losses = cross_entropies(y, alone.loo_decision_function_)
        assert row.standard_error == pytest.approx(losses.std() / np.sqrt(len(y)), rel=1e-6)
    assert (table["mean_fit_time"] > 0).all()
    assert fitted.best_index_ in (0, table["mean_test_score"].argmax())
    assert fitted.best_score_ == pytest.approx(-fitted.best_estimator_.validation_log_loss_)
    assert fitted.best_score_ < table["mean_test_score"].max()  # which has chosen and is flattered


def test_widths_go_on_while_the_last_is_the_best() -> None:
    X = np.random.default_rng(0).uniform(0, 12, (500, 1))
    y = np.floor(X[:, 0]) % 2  # stripes, far narrower than the data is wide
    model = SparseKLRCV(estimator=SparseKLR(gamma="loo")).fit(X, y)
    gammas = np.sort(model.cv_results_["param_gamma"].astype(float))
    np.testing.assert_allclose(np.diff(np.log(gammas)), np.log(3))
    assert len(gammas) > 3
    assert gammas[0] < model.gamma_ < gammas[-1]


def test_of_a_worse_kind_one_width_is_enough() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = X.sum(axis=1) + 0.5 * rng.normal(size=200) > 0  # a plane that no feature is parallel to
    table = pd.DataFrame(SparseKLRCV().fit(X, y).cv_results_)
    assert table["param_kernel"].value_counts()["laplacian"] == 1
    best = table.groupby("param_kernel")["mean_test_score"].max()
    assert best["laplacian"] < best["rbf"]


def test_kernels_are_judged_by_folds_if_they_are_given(moons) -> None:
    X, y = moons
    model = SparseKLRCV(cv=3).fit(X, y)
    assert model.n_splits_ == 3
    assert {"split0_test_score", "split2_test_score"} <= set(model.cv_results_)
    train, test = next(StratifiedKFold(3).split(X, y))
    row = model.cv_results_["params"].index(model.best_params_)
    middle = SparseKLR().fit(X, y).gamma_ / SparseKLR().fit(X[train], y[train]).gamma_
    in_fold = model.gamma_ / (middle if model.best_estimator_.kernel == "rbf" else np.sqrt(middle))
    alone = SparseKLR(kernel=model.best_params_["kernel"], gamma=in_fold).fit(X[train], y[train])
    expected = -log_loss(y[test], alone.predict_proba(X[test]))
    assert model.cv_results_["split0_test_score"][row] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "neg_brier_score"])
def test_any_score_of_the_leave_one_out_values(moons, scoring) -> None:
    X, y = moons
    model = SparseKLRCV(gammas=[0.3, 3.0], scoring=scoring).fit(X, y)
    one = SparseKLR(gamma=0.3).fit(X, y).loo_decision_function_
    expected = {
        "accuracy": np.mean((one > 0) == y),
        "roc_auc": roc_auc_score(y, one),
        "neg_brier_score": -np.mean((expit(one) - y) ** 2),
    }[scoring]
    assert model.cv_results_["mean_test_score"][0] == pytest.approx(expected, rel=1e-9)
    assert (model.cv_results_["standard_error"] > 0).all()


def test_the_standard_error_of_the_log_loss_is_near_that_of_the_jackknife(moons) -> None:
    def as_the_default(model, X, y, **weight) -> float:
        return -log_loss(y, model.predict_proba(X), **weight)

    errors = [
        SparseKLRCV(gammas=[0.3, 3.0], scoring=scoring).fit(*moons).cv_results_["standard_error"]
        for scoring in ("neg_log_loss", as_the_default)
    ]
    np.testing.assert_allclose(*errors, rtol=0.5)  # ten parts know a standard deviation to a quarter


def test_leave_one_out_counts_weights_and_nothing_else(moons) -> None:
    X, y = moons
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    weighted = SparseKLRCV().fit(X, y, sample_weight=weight)
    repeated = SparseKLRCV(n_jobs=2).fit(X[rows], y[rows])
    assert weighted.best_params_ == repeated.best_params_
    for name in ("mean_test_score", "standard_error", "mean_n_support"):
        np.testing.assert_allclose(weighted.cv_results_[name], repeated.cv_results_[name], rtol=1e-9)
    with pytest.raises(ValueError, match="groups were given, but leave-one-out"):
        SparseKLRCV().fit(X, y, groups=np.arange(len(y)))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_of_a_single_row(moons, n_classes) -> None:
    """Without its part of the rows there is nothing of the class to score, so that part stays in."""
    X, y = moons
    y = y * (n_classes - 2)
    y[7] = n_classes - 1
    model = SparseKLRCV().fit(X, y)
    alone = SparseKLR(**model.best_params_).fit(X, y)
    score = model.cv_results_["mean_test_score"][model.best_index_]
    assert score == pytest.approx(-alone.loo_log_loss_, rel=1e-9)
    assert (model.cv_results_["standard_error"] > 0).all()


def test_a_class_of_a_single_row_each() -> None:
    model = SparseKLRCV().fit([[0.0], [1.0]], ["a", "b"])
    np.testing.assert_allclose(model.cv_results_["standard_error"], 0, atol=1e-12)  # both have the same loss


def test_a_width_chosen_inside_the_folds_of_a_grid(moons) -> None:
    X, y = moons
    estimator = SparseKLR(calibration=None, gamma="loo")
    model = SparseKLRCV([10], lams=[0.1], estimator=estimator, cv=3).fit(X, y)
    assert sorted(model.best_params_) == ["C", "lam"]
    assert model.gamma_ == estimator.set_params(C=10, lam=1.0).fit(X, y).gamma_
    train, test = next(StratifiedKFold(3).split(X, y))
    alone = SparseKLR(10, lam=1.0, calibration=None, gamma="loo").fit(X[train], y[train])
    assert model.cv_results_["split0_test_score"][0] == alone.score(X[test], y[test])
