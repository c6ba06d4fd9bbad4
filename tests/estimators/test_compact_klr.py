"""CompactKLR as a scikit-learn estimator."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.alike import assert_interrupted_fit_changes_nothing

from sparseklr import CompactKLR
from sparseklr.compact import size_search
from sparseklr.datasets import make_ringnorm
from sparseklr.scaling import Scaling

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(300, noise=0.25, random_state=0)


@pytest.fixture(scope="module")
def fitted(moons) -> CompactKLR:
    return CompactKLR().fit(*moons)


@pytest.mark.slow
@parametrize_with_checks([CompactKLR()])
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


def test_two_points_suffice_for_ringnorm() -> None:
    """A Gaussian inside a wider one: the log-ratio of the densities is nearly two kernel functions."""
    model = CompactKLR().fit(*make_ringnorm(1000, random_state=0))
    X, y = make_ringnorm(4000, random_state=1)
    assert model.n_points_ <= 4
    assert log_loss(y, model.predict_proba(X)) < 0.08


def test_attributes(moons, fitted) -> None:
    X, _ = moons
    assert fitted.points_.shape == (fitted.n_points_, 2)
    assert fitted.dual_coef_.shape == (1, fitted.n_points_)
    assert (fitted.points_ > X.min(axis=0) - 10).all()
    assert (fitted.relevance_ > 0).all()
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    assert fitted.validation_log_loss_ in fitted.search_results_["log_loss"]
    assert fitted.n_points_ in fitted.search_results_["n_points"]
    assert np.isfinite(fitted.gradient_norm_)
    assert fitted.get_support().all()
    np.testing.assert_array_equal(fitted.get_support(indices=True), [0, 1])


def test_formula(moons, fitted) -> None:
    """The published attributes are the model: points in the units of X, widths for standardised features."""
    X, _ = moons
    spread = X.std(axis=0)
    assert (np.abs((X - X.mean(axis=0)) / spread) < 4).all()  # nothing is clipped, no feature is skewed
    difference = (X[:, None] - fitted.points_) / spread
    K = np.exp(-(difference**2) @ fitted.relevance_)
    np.testing.assert_allclose(
        fitted.decision_function(X), K @ fitted.dual_coef_[0] + fitted.intercept_, atol=1e-9
    )


def test_probabilities_agree_with_decisions(moons, fitted) -> None:
    X, _ = moons
    f, p = fitted.decision_function(X), fitted.predict_proba(X)
    np.testing.assert_allclose(np.log(p[:, 1] / p[:, 0]), f, atol=1e-9)
    np.testing.assert_array_equal(fitted.predict(X), p.argmax(axis=1))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), p)


@pytest.mark.slow
def test_threads_order_and_repetition_change_nothing(moons, fitted) -> None:
    X, y = moons
    np.testing.assert_array_equal(CompactKLR(n_jobs=3).fit(X, y).points_, fitted.points_)
    order = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_array_equal(CompactKLR().fit(X[order], y[order]).points_, fitted.points_)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = CompactKLR().fit(X, y, sample_weight=weight)
    repeated = CompactKLR().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(weighted.decision_function(X), repeated.decision_function(X))


def test_sparse_rows_give_the_same_model(moons, fitted) -> None:
    X, y = moons
    model = CompactKLR().fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(model.points_, fitted.points_, rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(sparse.csr_array(X)), fitted.predict_proba(X), rtol=1e-6)


def test_float32(moons, fitted) -> None:
    X, y = moons
    single = CompactKLR(n_points=4, C=10).fit(X.astype(np.float32), y)
    double = CompactKLR(n_points=4, C=10).fit(X.astype(np.float32).astype(np.float64), y)
    np.testing.assert_allclose(single.points_, double.points_, rtol=1e-6)
    np.testing.assert_allclose(
        single.decision_function(X.astype(np.float32)), double.decision_function(X), rtol=1e-3, atol=1e-3
    )


@pytest.mark.slow
def test_many_classes() -> None:
    X, y = load_iris(return_X_y=True)
    model = CompactKLR().fit(X, np.array(["a", "b", "c"])[y])
    assert model.dual_coef_.shape == (3, model.n_points_)
    assert model.score(X, np.array(["a", "b", "c"])[y]) > 0.95
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_given_number_of_points_and_C(moons) -> None:
    X, y = moons
    model = CompactKLR(n_points=5, C=3.0).fit(X, y)
    assert (model.n_points_, model.C_) == (5, 3.0)
    assert model.validation_log_loss_ is None
    assert len(model.search_results_["n_points"]) == 0
    model = CompactKLR(n_points=5).fit(X, y)
    assert model.n_points_ == 5
    assert model.validation_log_loss_ == model.search_results_["log_loss"][-1]


def test_persistence_and_clone(moons, fitted) -> None:
    X, _ = moons
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(X), fitted.predict_proba(X))
    assert len(pickle.dumps(fitted)) < 20_000
    assert not hasattr(clone(fitted), "points_")


# -- features ---------------------------------------------------------------------------------


def test_noise_features_are_dropped() -> None:
    X, y = make_ringnorm(800, n_features=5, random_state=0, shift=2.0)
    noise = np.random.default_rng(0).normal(size=(len(y), 10))
    frame = pd.DataFrame(np.hstack([X, noise]), columns=[f"x{j}" for j in range(15)])
    model = CompactKLR(relevance="sparse").fit(frame, y)
    kept = model.get_support()
    assert kept[:5].all()
    assert kept[5:].sum() <= 1
    np.testing.assert_array_equal(model.relevance_ > 0, kept)
    np.testing.assert_array_equal(model.feature_importances_ > 0, kept)
    assert set(model.search_results_["n_features"]) > {15, kept.sum()}
    assert list(model.feature_names_in_[kept][:5]) == ["x0", "x1", "x2", "x3", "x4"]
    # predictions do not depend on dropped features
    changed = frame.copy()
    changed.loc[:, ~kept] = 7.0
    np.testing.assert_array_equal(model.predict_proba(changed), model.predict_proba(frame))


def test_select_from_model_and_rfe() -> None:
    X, y = make_ringnorm(300, n_features=3, random_state=0, shift=3.0)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(300, 3))])
    selector = SelectFromModel(CompactKLR(n_points=2, C=10.0), threshold="mean").fit(X, y)
    assert not selector.get_support()[3:].any()
    ranking = RFE(CompactKLR(n_points=2, C=10.0), n_features_to_select=3).fit(X, y).ranking_
    np.testing.assert_array_equal(ranking[:3], 1)


def test_one_width_for_all_features(moons) -> None:
    model = CompactKLR(n_points=4, C=10, relevance="shared").fit(*moons)
    assert model.relevance_[0] == model.relevance_[1]


# -- scaling ----------------------------------------------------------------------------------


def test_units_of_features_do_not_matter(moons) -> None:
    X, _ = moons
    weight = np.random.default_rng(0).uniform(1, 2, len(X))
    scaled = Scaling.of(X, weight).transform(X)
    np.testing.assert_allclose(weight @ scaled, 0, atol=1e-9)
    np.testing.assert_allclose(weight @ scaled**2 / weight.sum(), 1)
    other = 3 * X - 100
    np.testing.assert_allclose(Scaling.of(other, weight).transform(other), scaled, atol=1e-9)
    np.testing.assert_allclose(Scaling.of(other, weight).inverse(scaled), other)
    median = Scaling.of(X, weight, auto=False).centre
    np.testing.assert_array_equal(Scaling.of(X, weight, auto=False).transform(X), X - median)
    assert (weight @ (median > X) <= weight.sum() / 2).all()
    assert (weight @ (median < X) <= weight.sum() / 2).all()


def test_skewed_features_are_mapped_by_rank() -> None:
    rng = np.random.default_rng(0)
    X, weight = np.exp(2 * rng.normal(size=(1000, 1))), np.ones(1000)
    scaling = Scaling.of(X, weight)
    scaled = scaling.transform(X)
    assert abs(scaled.mean()) < 0.01
    assert abs(scaled.std() - 1) < 0.05
    assert np.abs(scaled).max() <= 3
    np.testing.assert_allclose(scaling.inverse(scaled), X, rtol=1e-6, atol=1e-9)
    # beyond the training data the map is flat, and any monotone map of the feature is the same
    assert scaling.transform(np.array([[1e9]])) == scaled.max()
    np.testing.assert_allclose(
        Scaling.of(np.log(X) ** 3 + 5, weight).transform(np.log(X) ** 3 + 5), scaled, atol=0.2
    )
    # repetition is weight
    repeated = np.repeat(X, 3, axis=0)
    again = Scaling.of(repeated, np.ones(3000)).transform(X)
    np.testing.assert_allclose(again, Scaling.of(X, 3 * weight).transform(X))


def test_bounded_features_keep_their_shape() -> None:
    """Skewed features are mapped by rank if they have a heavy tail, not if they are merely asymmetric."""
    X = np.append(np.ones(180), np.linspace(-1, 1, 20))[:, None]
    z = (X - X.mean()) / X.std()
    assert (z**3).mean() < -1.5
    assert np.abs(z).max() > 4  # mapped by rank
    assert Scaling.of(X, np.ones(200)).knots
    X = np.append(np.ones(160), np.linspace(-1, 1, 40))[:, None]
    z = (X - X.mean()) / X.std()
    assert (z**3).mean() < -1.5
    scaling = Scaling.of(X, np.ones(200))
    assert not scaling.knots
    np.testing.assert_allclose(scaling.transform(X), z)


def test_few_values_become_ramps() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([0.0, 1, 5], 100), rng.normal(size=100), rng.integers(2, size=100)])
    noisy = X * (1 + 1e-9 * rng.normal(size=X.shape))
    scaling = Scaling.of(X, np.ones(100), ramps=True)
    np.testing.assert_array_equal(scaling.kept, [0, 0, 1, 2])
    scaled = scaling.transform(X)
    np.testing.assert_array_equal(scaled[:, :2], np.where(X[:, :1] >= [1, 5], 1, -1))
    np.testing.assert_allclose(scaling.transform(np.array([[3.0, 0, 0]]))[0, :2], [1, 0])
    np.testing.assert_allclose(scaling.inverse(scaled), X[:, scaling.kept], atol=1e-12)
    again = Scaling.of(noisy, np.ones(100), ramps=True)
    np.testing.assert_allclose(again.transform(noisy), scaled, atol=1e-6)
    assert len(Scaling.of(rng.integers(11, size=(500, 1)), np.ones(500), ramps=True).kept) == 1


def test_a_feature_with_few_values_counts_once() -> None:
    """The logit has a kink at 2; attributes of the model have one entry for each feature."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(5, size=400), rng.normal(size=400), rng.normal(size=400)])
    y = 2 * np.abs(X[:, 0] - 2) + X[:, 1] + rng.normal(size=400) > 2.5
    model = CompactKLR().fit(X, y)
    assert len(model.scaling_.kept) == 6
    assert model.relevance_.shape == model.feature_importances_.shape == (3,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_[0] > model.feature_importances_[2]
    assert ((model.points_[:, 0] >= 0) & (model.points_[:, 0] <= 4)).all()
    again = clone(model).set_params(warm_start=True).fit(X, y).fit(X, y)
    assert log_loss(y, again.predict_proba(X)) < 1.05 * log_loss(y, model.predict_proba(X))


def test_outliers_are_clipped() -> None:
    X = np.append(np.linspace(-1, 1, 999), -60.0)[:, None]
    X = np.vstack([X, -X])  # not skewed
    assert np.abs(Scaling.of(X, np.ones(2000)).transform(X)).max() == 4.0


# -- input at its limits ----------------------------------------------------------------------


def fit_quietly(model: CompactKLR, X: np.ndarray, y: np.ndarray) -> CompactKLR:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "No signal found")
        model.fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.points_).all()
    assert np.isfinite(model.dual_coef_).all()
    return model


@pytest.mark.parametrize("factor", [1e300, 1e-300])
def test_units_of_any_size(moons, factor) -> None:
    """Squares of such values are beyond the range of doubles."""
    X, y = moons
    model = fit_quietly(CompactKLR(4, C=10.0), factor * X, y)
    assert model.score(factor * X, y) > 0.9
    assert (np.abs(model.points_) < 10 * factor).all()


def test_values_at_the_end_of_the_range(moons) -> None:
    X, y = moons
    X = X.copy()
    X[:2, 0] = 1.7e308, -1.7e308
    fit_quietly(CompactKLR(4, C=10.0), X, y)


def test_unscaled_values_beyond_single_precision(moons) -> None:
    X, y = moons
    with pytest.raises(ValueError, match=r"scale=None supports values .* the distance .*e\+200"):
        CompactKLR(scale=None).fit(1e200 * X, y)
    many = np.tile(X, (20_001 // len(X) + 1, 1))
    with pytest.raises(ValueError, match=r"scale=None supports values .* the distance .*e\+40"):
        CompactKLR(2, C=1.0, scale=None).fit(1e40 * many, np.resize(y, len(many)))
    fit_quietly(CompactKLR(scale=None, n_points=2, C=1.0), 1e30 * X, y)


def test_labels_that_are_noise() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.random(300) < 0.3
    model = fit_quietly(CompactKLR(), X, y)
    assert model.n_points_ == 0
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], y.mean(), atol=0.05)


def test_separable_data() -> None:
    X = np.vstack(
        [np.random.default_rng(0).normal(size=(40, 2)), np.random.default_rng(1).normal(size=(40, 2)) + 20]
    )
    y = np.repeat([0, 1], 40)
    model = fit_quietly(CompactKLR(), X, y)
    assert model.C_ <= 1e5
    assert log_loss(y, model.predict_proba(X)) < 0.01


def test_three_positives() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = np.arange(200) < 3
    fit_quietly(CompactKLR(), X, y)
    fit_quietly(CompactKLR(relevance="sparse"), X, y)


def test_a_class_with_one_row() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = fit_quietly(CompactKLR(), X, np.arange(30) < 1)
    assert model.validation_log_loss_ is None


def test_more_features_than_rows() -> None:
    X = np.random.default_rng(0).normal(size=(30, 200))
    fit_quietly(CompactKLR(), X, X[:, 0] > 0)


def test_constant_features(moons) -> None:
    X, y = moons
    model = fit_quietly(CompactKLR(), np.full((60, 3), 7.0), np.arange(60) % 3 == 0)
    assert model.n_points_ == 0
    np.testing.assert_allclose(model.predict_proba(np.full((1, 3), 7.0)), [[2 / 3, 1 / 3]])
    with_constant = fit_quietly(
        CompactKLR(n_points=4, C=10), np.column_stack([X[:, :1], np.full(300, 7.0), X[:, 1:]]), y
    )
    plain = CompactKLR(n_points=4, C=10).fit(X, y)
    np.testing.assert_array_equal(with_constant.get_support(), [True, False, True])
    np.testing.assert_array_equal(with_constant.points_[:, 1], 7.0)
    assert with_constant.points_.shape == (4, 3)
    assert with_constant.n_points_ == plain.n_points_


def test_more_points_than_rows() -> None:
    X = np.array([[0.0], [0.0], [1.0], [1.0], [2.0]])
    with pytest.warns(UserWarning, match="n_points=50 exceeds the number of distinct rows of .*, 3"):
        model = CompactKLR(n_points=50, C=1.0).fit(X, [0, 0, 1, 1, 0])
    assert model.n_points_ == 3


def test_two_rows() -> None:
    model = fit_quietly(CompactKLR(), np.array([[0.0], [1.0]]), np.array(["no", "yes"]))
    assert list(model.predict([[0.0], [1.0]])) == ["no", "yes"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_points": 0}, "'n_points'"),
        ({"max_points": 0}, "'max_points'"),
        ({"relevance": "all"}, "'relevance'"),
        ({"C": 0}, "'C'"),
        ({"scale": "minmax"}, "'scale'"),
        ({"tol": -1}, "'tol'"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"class_weight": {0: -1, 1: 1}}, "class_weight"),
    ],
)
def test_invalid_parameters_leave_the_model_unchanged(moons, fitted, parameters, message) -> None:
    X, y = moons
    model = copy.deepcopy(fitted)
    state = {k: v for k, v in vars(model).items() if k.endswith("_")}
    with pytest.raises(ValueError, match=message):
        model.set_params(**parameters).fit(X[:, :1], y)
    assert all(vars(model)[k] is v for k, v in state.items())


# -- long fits --------------------------------------------------------------------------------


def test_warm_start_resumes(moons) -> None:
    X, y = moons

    def penalised_loss(model: CompactKLR) -> float:
        beta = model.dual_coef_[0]
        penalty = beta @ model._kernel_of_points() @ beta / (2 * model.C_)
        return log_loss(y, model.predict_proba(X), normalize=False) + penalty

    model = CompactKLR(n_points=8, C=10.0, warm_start=True).fit(X, y)
    first = penalised_loss(model)
    for _ in range(5):
        model.fit(X, y)
    assert penalised_loss(model) < (1 + 1e-5) * first  # the steps are those of float32 rows
    assert model.n_points_ == 8
    model.set_params(n_points=4).fit(X, y)  # another size starts anew
    assert model.n_points_ == 4


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interruption_leaves_the_estimator_as_it_was(monkeypatch, n_jobs) -> None:
    """Ctrl-C when the points of the third fold are about to move; a second thread moves those of another."""
    X, y = make_ringnorm(1000, random_state=0)
    model = CompactKLR(2, C=1.0, n_jobs=n_jobs).fit(X[:100, :5], y[:100])
    model.set_params(n_points="auto", C="auto")
    move, moved = size_search.Fold.move, itertools.count(1)

    def interrupted(*args: Any, **more: Any) -> Any:
        if next(moved) == 3:
            raise KeyboardInterrupt
        return move(*args, **more)

    monkeypatch.setattr(size_search.Fold, "move", interrupted)
    assert_interrupted_fit_changes_nothing(model, X, y)


def test_progress_names_the_stage(moons, capsys) -> None:
    CompactKLR(verbose=1).fit(*moons)
    shown = capsys.readouterr().err
    assert "CompactKLR" in shown
    assert "points" in shown


@pytest.mark.parametrize("size", [1e5, 1e8, 1e10, -1e10])
def test_an_outlier_does_not_hide_the_other_rows(size: float) -> None:
    """Without scaling, rows are stored in float32 relative to a centre that an outlier must not shift."""
    X = np.random.default_rng(0).normal(size=(39, 1))
    y = (X[:, 0] > 0).astype(int)
    X[3] = size
    model = CompactKLR(scale=None, n_points=7).fit(X, y)
    others = np.arange(39) != 3
    assert log_loss(y[others], model.predict_proba(X[others])) < 0.05
