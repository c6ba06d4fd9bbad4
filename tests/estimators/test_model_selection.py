"""SKLRCV: unbiased selection, results like GridSearchCV's, and scikit-learn conventions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, log_loss, make_scorer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparseklr import SKLR, SKLRCV, SparseKLR
from sparseklr.sklr_cv import select_best, select_one_se, select_sparsest_of_3

pytestmark = [pytest.mark.numerical, pytest.mark.slow]


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(200, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def fitted(moons) -> SKLRCV:
    return SKLRCV(scoring="neg_log_loss").fit(*moons)


@pytest.fixture(scope="module")
def grid_fitted(moons) -> SKLRCV:
    return SKLRCV(lams=[0.01, 0.1, 1.0], scoring="accuracy").fit(*moons)


RAW = SKLR(tol=1e-12, calibration=None)


# Weight equivalence compares two optima to 1e-7: it takes solves to that accuracy.
@parametrize_with_checks(
    [
        SKLRCV([1, 10], lams=[0.1, 1], estimator=RAW, cv=3),
        SKLRCV([1], lams=[1], estimator=RAW, cv=3, selection="one-se", scoring="neg_log_loss"),
        SKLRCV([1, 10], lams=[0.1], estimator=SKLR(tol=1e-12), cv=3),
        SKLRCV([1, 10], lams=[0.1], estimator=SKLR(tol=1e-12, calibration="link"), cv=3),
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks set max_iter
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


# -- the same as a grid search, faster --------------------------------------------------------


@pytest.mark.parametrize("gamma", ["scale", 2.0])
@pytest.mark.parametrize("calibration", ["sigmoid", "link", None])
@pytest.mark.parametrize("scoring", [None, "roc_auc", "balanced_accuracy", "neg_log_loss"])
def test_scores_are_those_of_a_grid_search(moons, scoring, calibration, gamma) -> None:
    X, y = moons
    Cs, ratios = [1.0, 100.0], [0.0, 0.1, 1.0]
    grid = [{"C": [C], "lam": [r * C for r in ratios]} for C in Cs]
    estimator = SKLR(tol=1e-8, calibration=calibration, gamma=gamma)
    searched = GridSearchCV(estimator, grid, scoring=scoring, cv=4).fit(X, y)
    model = SKLRCV(Cs, lams=ratios, estimator=estimator, scoring=scoring, cv=4).fit(X, y)

    def by_params(results: dict) -> dict:
        keys = [tuple(sorted(params.items())) for params in results["params"]]
        return dict(zip(keys, results["mean_test_score"], strict=True))

    expected, found = by_params(searched.cv_results_), by_params(model.cv_results_)
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=1e-6)
    assert model.best_score_ == pytest.approx(searched.best_score_, abs=1e-6)
    assert set(searched.cv_results_) <= set(model.cv_results_)
    assert model.n_splits_ == searched.n_splits_ == 4


def test_cv_results_have_grid_searchs_form_and_the_sparsity(grid_fitted) -> None:
    table = pd.DataFrame(grid_fitted.cv_results_)
    assert len(table) == 9
    splits = table[[f"split{k}_test_score" for k in range(5)]]
    np.testing.assert_allclose(table["mean_test_score"], splits.mean(axis=1))
    np.testing.assert_allclose(table["std_test_score"], splits.std(axis=1, ddof=0))
    np.testing.assert_allclose(table["standard_error"], splits.sem(axis=1))
    assert table["rank_test_score"].min() == 1
    assert table.loc[table["rank_test_score"] == 1, "mean_test_score"].nunique() == 1
    np.testing.assert_allclose(table["mean_support_fraction"], table["mean_n_support"] / 160)
    assert table["mean_n_support"].between(1, 160).all()
    assert [dict(C=row.param_C, lam=row.param_lam) for row in table.itertuples()] == list(table["params"])
    ratios = sorted({round(params["lam"] / params["C"], 9) for params in table["params"]})
    assert ratios == [0.01, 0.1, 1.0]


def same_models(found: SKLRCV, same: SKLR, X: np.ndarray, y: np.ndarray) -> None:
    np.testing.assert_array_equal(found.predict_proba(X), same.predict_proba(X))
    np.testing.assert_array_equal(found.predict_log_proba(X), same.predict_log_proba(X))
    np.testing.assert_array_equal(found.decision_function(X), same.decision_function(X))
    np.testing.assert_array_equal(found.predict(X), same.predict(X))
    np.testing.assert_array_equal(found.classes_, same.classes_)
    for name in ("support_", "support_vectors_", "dual_coef_", "intercept_", "n_support_", "lam_"):
        np.testing.assert_array_equal(getattr(found.best_estimator_, name), getattr(same, name))


def test_chosen_model_is_the_estimator_fitted_on_all_rows(moons, fitted, grid_fitted) -> None:
    X, y = moons
    same = SKLR(**grid_fitted.best_params_).fit(X, y)
    same_models(grid_fitted, same, X, y)
    assert grid_fitted.best_estimator_.get_params() == same.get_params()
    assert grid_fitted.score(X, y) == same.score(X, y)
    assert grid_fitted.refit_time_ > 0

    same = SKLR(**fitted.best_params_).fit(X, y)
    same_models(fitted, same, X, y)
    assert fitted.best_params_ == fitted.cv_results_["params"][fitted.best_index_]
    assert fitted.best_score_ == fitted.cv_results_["mean_test_score"][fitted.best_index_]
    assert fitted.score(X, y) == pytest.approx(-log_loss(y, same.predict_proba(X)))


def test_every_parameter_of_the_estimator_is_passed_on(moons) -> None:
    template = SKLR(
        kernel="poly", degree=2, coef0=1.0, gamma=0.5, calibration="link", class_weight="balanced", tol=1e-4
    )
    model = SKLRCV([10], lams=[0.1], estimator=template).fit(*moons)
    params = model.best_estimator_.get_params()
    assert {**template.get_params(), "C": 10.0, "lam": 1.0} == params
    assert template.C == SKLR().C
    assert not hasattr(template, "classes_")
    nested = clone(model).set_params(estimator__degree=3, n_jobs=2)
    assert nested.fit(*moons).best_estimator_.degree == 3
    assert nested.best_estimator_.n_jobs == 2


# -- rules ------------------------------------------------------------------------------------


def table(scores: list[list[float]], share: list[float]) -> dict[str, np.ndarray]:
    splits = np.array(scores, dtype=float)
    results = {f"split{k}_test_score": column for k, column in enumerate(splits.T)}
    errors = (
        splits.std(axis=1, ddof=1) / np.sqrt(splits.shape[1]) if splits.shape[1] > 1 else 0 * splits[:, 0]
    )
    means = {"mean_test_score": splits.mean(axis=1), "standard_error": errors}
    return {**results, **means, "mean_support_fraction": np.array(share)}


def test_selection_rules() -> None:
    results = table(
        [[0.90, 0.92], [0.92, 0.94], [0.93, 0.93], [0.94, 0.96], [0.80, 0.80]], [0.1, 0.2, 0.3, 0.9, 0.01]
    )
    assert select_best(results) == 3
    assert select_sparsest_of_3(results) == 1
    assert select_one_se(results) == 3  # one standard error is 0.01, the next is 0.02 away
    results = table([[0.90, 1.0], [0.91, 0.99], [0.85, 0.95]], [0.5, 0.2, 0.1])
    assert select_best(results) == 1  # of equal ones the sparsest
    assert select_one_se(results) == 2
    assert select_one_se(table([[0.9], [0.9], [0.8]], [0.5, 0.2, 0.1])) == 1


def test_sparser_rules_give_sparser_models(moons) -> None:
    chosen = {rule: SKLRCV(selection=rule).fit(*moons) for rule in ("best", "sparsest-of-3", "one-se")}
    share = {rule: m.cv_results_["mean_support_fraction"][m.best_index_] for rule, m in chosen.items()}
    highest = chosen["best"].cv_results_["mean_test_score"].argmax()
    for rule in ("one-se", "sparsest-of-3"):
        assert share[rule] <= chosen["best"].cv_results_["mean_support_fraction"][highest]
    ranks = {rule: m.cv_results_["rank_test_score"][m.best_index_] for rule, m in chosen.items()}
    assert ranks["best"] == 1
    assert ranks["sparsest-of-3"] <= 3


def test_a_callable_chooses(moons) -> None:
    model = SKLRCV([1, 10], selection=lambda results: int(results["mean_n_support"].argmax())).fit(*moons)
    assert model.best_index_ == model.cv_results_["mean_n_support"].argmax()


# -- honesty ----------------------------------------------------------------------------------


def test_models_do_not_use_their_test_rows(moons) -> None:
    """Changing the labels of a test fold does not change the fold's models."""
    X, y = moons
    splits = list(StratifiedKFold(4).split(X, y))
    first_test = splits[0][1]
    flipped = y.copy()
    flipped[first_test] = 1 - flipped[first_test]
    scores = [
        SKLRCV([1, 100], cv=splits[:1], scoring="accuracy").fit(X, labels).cv_results_["split0_test_score"]
        for labels in (y, flipped)
    ]
    np.testing.assert_allclose(scores[0] + scores[1], 1.0)
    poisoned = X.copy()
    poisoned[first_test] = 1e3  # gamma="scale" must not look at them either
    model = SKLRCV([1, 100], cv=splits[:1])
    support = [model.fit(Z, y).cv_results_["mean_n_support"].copy() for Z in (X, poisoned)]
    np.testing.assert_array_equal(*support)


def test_noise_is_not_learned() -> None:
    X = np.random.default_rng(0).normal(size=(120, 5))
    y = np.random.default_rng(1).integers(0, 2, 120)
    assert cross_val_score(SKLRCV(), X, y, cv=3, scoring="accuracy").mean() < 0.6


def test_the_same_seed_gives_the_same_result(moons) -> None:
    folds = StratifiedKFold(3, shuffle=True, random_state=7)
    runs = [SKLRCV([1, 100], cv=folds, n_jobs=n_jobs).fit(*moons) for n_jobs in (None, 1, 2)]
    for run in runs[1:]:
        assert run.best_params_ == runs[0].best_params_
        np.testing.assert_array_equal(
            run.cv_results_["mean_test_score"], runs[0].cv_results_["mean_test_score"]
        )
        np.testing.assert_array_equal(run.decision_function(moons[0]), runs[0].decision_function(moons[0]))


def test_nested_in_cross_val_score_and_a_pipeline(moons) -> None:
    model = make_pipeline(StandardScaler(), SKLRCV([10, 100], lams=[0.1], cv=3))
    assert cross_val_score(model, *moons, cv=3, scoring="accuracy").mean() > 0.85
    search = SKLRCV([10, 100], lams=[0.1], cv=3, scoring="accuracy")
    searched = GridSearchCV(search, {"selection": ["best", "one-se"]}, cv=2)
    assert searched.fit(*moons).best_score_ > 0.85


# -- inputs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csr", "precomputed", "frame", "float32"])
def test_other_inputs(moons, kind) -> None:
    X, y = moons
    options = {"Cs": [1, 100], "lams": [0.1, 1], "cv": 3}
    estimator = SKLR(gamma=1.0, tol=1e-8, calibration=None)
    expected = SKLRCV(estimator=estimator, **options).fit(X, y)
    given = {
        "csr": sparse.csr_array(X),
        "precomputed": rbf_kernel(X, gamma=1.0),
        "frame": pd.DataFrame(X, columns=["a", "b"]),
        "float32": X.astype(np.float32),
    }[kind]
    if kind == "precomputed":
        estimator = clone(estimator).set_params(kernel="precomputed")
    model = SKLRCV(estimator=estimator, **options).fit(given, y)
    np.testing.assert_allclose(
        model.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=0.006
    )
    np.testing.assert_allclose(
        model.decision_function(given),
        expected.decision_function(X),
        atol=1e-3 if kind == "float32" else 1e-4,
    )
    if kind == "frame":
        assert list(model.feature_names_in_) == ["a", "b"]


def test_more_than_two_classes_of_any_type() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = SKLRCV([10, 1000], lams=[0.1], cv=3, scoring="accuracy").fit(X, names)
    assert model.score(X, names) > 0.95
    assert model.cv_results_["mean_n_support"].max() <= 100
    assert set(model.predict(X)) <= set(names)


def test_weights_count_in_fitting_and_in_scoring(moons) -> None:
    X, y = moons
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    part = np.arange(len(y)) % 2
    rows = np.repeat(np.arange(len(y)), weight)

    def halves(part: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(np.flatnonzero(part == 0), np.flatnonzero(part == 1))]

    options = {
        "Cs": [1, 100],
        "lams": [0.1, 1],
        "estimator": SKLR(gamma=1.0, tol=1e-10, calibration=None),
    }
    weighted = SKLRCV(cv=halves(part), **options).fit(X, y, sample_weight=weight)
    repeated = SKLRCV(cv=halves(part[rows]), **options).fit(X[rows], y[rows])
    for name in ("mean_test_score", "mean_support_fraction"):
        np.testing.assert_allclose(weighted.cv_results_[name], repeated.cv_results_[name], atol=1e-9)


def test_scorers_without_weights_get_none(moons) -> None:
    X, y = moons
    plain = make_scorer(lambda true, predicted: accuracy_score(true, predicted))
    model = SKLRCV([10], lams=[0.1], scoring=plain).fit(X, y, sample_weight=np.ones(len(y)))
    assert model.best_score_ > 0.8
    assert model.score(X, y, sample_weight=np.ones(len(y))) > 0.8


# -- mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"Cs": []}, ValueError, r"Cs must be a non-empty list of positive numbers; got \[\]"),
        ({"Cs": [1, -1]}, ValueError, "Cs must be"),
        ({"lams": []}, ValueError, "lams must be a non-empty list of non-negative numbers"),
        ({"lams": [-0.1]}, ValueError, "lams must be"),
        ({"lam_scale": "log"}, ValueError, "lam_scale must be one of"),
        ({"selection": "worst"}, ValueError, "'selection' parameter"),
        (
            {"selection": lambda results: 99, "Cs": [1, 2], "lams": [1]},
            ValueError,
            "index of a candidate, 0 to 1; it returned 99",
        ),
        ({"scoring": "acuracy"}, ValueError, "'scoring' parameter"),
        ({"scoring": lambda model, X, y: np.nan, "Cs": [1]}, ValueError, "returned NaN or infinite scores"),
        (
            {"estimator": StandardScaler()},
            TypeError,
            "estimator must be an SKLR or None; got StandardScaler",
        ),
        ({"estimator": SparseKLR()}, TypeError, r"estimator must be an SKLR or None; got SparseKLR\(\)"),
        ({"estimator": SKLR(nu=3), "Cs": [1]}, ValueError, "estimator.nu must be None"),
        ({"cv": 1}, ValueError, "'cv' parameter"),
    ],
)
def test_invalid_input_raises_and_nothing_is_fitted(moons, params, error, message) -> None:
    model = SKLRCV(**params)
    before = dict(vars(model))
    with pytest.raises(error, match=message):
        model.fit(*moons)
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        model.predict(moons[0])


def test_a_class_missing_in_a_fold_is_named() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.repeat(["a", "b"], 15)
    model = SKLRCV(cv=KFold(2))
    with pytest.raises(
        ValueError, match=r"cv=KFold.*training set of split 0 has no row of class a; every class"
    ):
        model.fit(X, y)
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(ValueError, match=r"cv=\[\] yields no splits"):
        SKLRCV(cv=[]).fit(X, y)
    weight = np.ones(30)
    weight[:20] = 0
    splits = [(np.r_[0:10, 20:30], np.r_[10:20])]
    with pytest.raises(ValueError, match="only one class"):
        SKLRCV(cv=splits).fit(X, y, sample_weight=weight)
    weight[:20] = np.tile([0, 1], 10)
    with pytest.raises(ValueError, match="split 0 has no test row of positive weight"):
        SKLRCV(cv=[(np.r_[1:30:2], np.r_[0:10:2])]).fit(X, y, sample_weight=weight)


def test_a_margin_beyond_saturation_warns(moons) -> None:
    with pytest.warns(UserWarning, match=r"lam=1e\+06 at C=1000 exceeds the saturation bound") as caught:
        SKLRCV([1000], lams=[0.1, 1000], estimator=SKLR(calibration=None)).fit(*moons)
    assert sum("saturation" in str(warning.message) for warning in caught) == 1


def test_progress_is_shown(moons, capsys) -> None:
    SKLRCV([1], lams=[1], verbose=1).fit(*moons)
    assert "SKLRCV" in capsys.readouterr().err
