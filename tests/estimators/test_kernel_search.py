"""SparseKLR(kernel="auto", gamma="auto"): kernels and widths by leave-one-out, confirmed on folds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

from sparseklr import SparseKLR
from sparseklr.baselines.loss import cross_entropies
from sparseklr.compact.rows import Observations, validation_folds
from sparseklr.refit import kernel_search

pytestmark = [pytest.mark.numerical, pytest.mark.slow]

PLAIN = {"scale": None, "relevance": "shared"}  # the search alone, on the features as they are
COLUMNS = ["kernel", "gamma", "C", "log_loss", "standard_error", "seconds"]


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(200, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def fitted(moons) -> SparseKLR:
    return SparseKLR(kernel="auto", gamma="auto", **PLAIN).fit(*moons)


def stripes() -> tuple[np.ndarray, np.ndarray]:
    """Stripes far narrower than the range of the data."""
    X = np.random.default_rng(0).uniform(0, 12, (500, 1))
    return X, np.floor(X[:, 0]) % 2


def plane() -> tuple[np.ndarray, np.ndarray]:
    """A plane that is not parallel to any feature."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    return X, X.sum(axis=1) + 0.5 * rng.normal(size=200) > 0


# -- what is tried ------------------------------------------------------------------------------


def test_kernels_are_compared_by_leave_one_out(moons, fitted) -> None:
    X, y = moons
    table = pd.DataFrame(fitted.search_results_)
    assert list(table) == COLUMNS
    assert set(table["kernel"]) == {"rbf", "laplacian"}
    assert table["kernel"].value_counts()["rbf"] >= 3
    assert table["gamma"][0] == SparseKLR(kernel="rbf", **PLAIN).fit(X, y).gamma_
    assert (table["seconds"] > 0).all()
    own = []
    for row in table.itertuples():
        alone = SparseKLR(kernel=row.kernel, gamma=row.gamma, **PLAIN).fit(X, y)
        own.append(alone.C_[0] == row.C)
        if not own[-1]:  # clearly worse than the width before with the C of that
            assert row.log_loss > min(table["log_loss"][: row.Index])
            continue
        # the last step of an optimisation changes the objective by at most 1%, and its start may differ
        assert row.log_loss == pytest.approx(alone.loo_log_loss_, rel=1e-2)
        losses = cross_entropies(y, alone.loo_decision_function_)
        assert row.standard_error == pytest.approx(losses.std() / np.sqrt(len(y)), rel=1e-2)
    assert sum(own) >= 3


def test_the_model_is_that_of_the_chosen_kernel(moons, fitted) -> None:
    X, y = moons
    table = pd.DataFrame(fitted.search_results_)
    chosen = table[(table["kernel"] == fitted.kernel_.name) & (table["gamma"] == fitted.gamma_)]
    assert len(chosen) == 1
    assert chosen.index[0] in (0, table["log_loss"].argmin())
    assert fitted.loo_log_loss_ == pytest.approx(chosen["log_loss"].item(), rel=1e-9)
    alone = SparseKLR(kernel=fitted.kernel_.name, gamma=fitted.gamma_, **PLAIN).fit(X, y)
    np.testing.assert_array_equal(alone.support_, fitted.support_)
    np.testing.assert_allclose(alone.predict_proba(X), fitted.predict_proba(X), rtol=1e-9)
    assert fitted.get_params() == SparseKLR(kernel="auto", gamma="auto", **PLAIN).get_params()


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "sigmoid"])
@pytest.mark.filterwarnings("ignore:kernel='sigmoid' is not positive semidefinite")
def test_search_results_without_a_search(moons, kernel) -> None:
    X, y = moons
    model = SparseKLR(kernel=kernel, gamma=0.5, relevance="shared").fit(X, y)
    table = pd.DataFrame(model.search_results_)
    assert list(table) == COLUMNS
    assert len(table) == 1
    assert table["kernel"].item() == kernel
    assert table["gamma"].item() == model.gamma_ == 0.5
    assert table["log_loss"].item() == model.loo_log_loss_
    assert table["C"].item() == model.C_[0]
    assert model.validation_log_loss_ is None


def test_only_auto_parameters_are_searched(moons) -> None:
    kinds = pd.DataFrame(SparseKLR(kernel="auto", gamma=0.7).fit(*moons).search_results_)
    assert kinds["kernel"].tolist() == ["rbf", "laplacian"]
    assert (kinds["gamma"] == 0.7).all()
    widths = pd.DataFrame(SparseKLR(kernel="laplacian", gamma="auto").fit(*moons).search_results_)
    assert set(widths["kernel"]) == {"laplacian"}
    assert widths["gamma"].nunique() == len(widths) >= 3
    assert widths["gamma"][0] == pytest.approx(np.sqrt(SparseKLR().fit(*moons).gamma_ / 2))


def test_width_search_continues_while_the_loss_falls() -> None:
    model = SparseKLR(kernel="rbf", gamma="auto").fit(*stripes())
    gammas = np.sort(model.search_results_["gamma"])
    np.testing.assert_allclose(np.diff(np.log(gammas)), np.log(3))
    assert len(gammas) > 3
    assert gammas[0] < model.gamma_ < gammas[-1]


def test_a_worse_kind_is_evaluated_at_one_width() -> None:
    table = pd.DataFrame(SparseKLR(kernel="auto", gamma="auto").fit(*plane()).search_results_)
    assert table["kernel"].value_counts()["laplacian"] == 1
    best = table.groupby("kernel")["log_loss"].min()
    assert best["laplacian"] > best["rbf"]


def test_a_suitable_width_improves_the_loss() -> None:
    X, y = stripes()
    found, plain = (SparseKLR(kernel="rbf", gamma=gamma).fit(X, y) for gamma in ("auto", "scale"))
    assert found.loo_log_loss_ < 0.7 * plain.loo_log_loss_
    new = np.random.default_rng(1).uniform(0, 12, (2000, 1))
    losses = [log_loss(np.floor(new[:, 0]) % 2, model.predict_proba(new)) for model in (found, plain)]
    assert losses[0] < 0.7 * losses[1]


# -- confirmation -------------------------------------------------------------------------------


def test_validation_loss_is_that_on_folds(moons, fitted) -> None:
    least = fitted.search_results_["log_loss"].min()
    assert fitted.validation_log_loss_ > least  # which has chosen and is flattered
    X, y = make_moons(5000, noise=0.3, random_state=1)
    assert fitted.validation_log_loss_ == pytest.approx(log_loss(y, fitted.predict_proba(X)), rel=0.2)


def test_folds_compare_whole_fits(monkeypatch) -> None:
    """The rows of a fold are excluded from selection, refit and pruning."""
    called = []

    def recorded(points, kernels, fit):
        called.append((points, kernels, original(points, kernels, fit)))
        return called[-1][-1]

    original = kernel_search.validation_losses
    monkeypatch.setattr(kernel_search, "validation_losses", recorded)
    model = SparseKLR(kernel="rbf", gamma="auto", **PLAIN).fit(*stripes())
    ((points, kernels, losses),) = called
    assert [kernel.gamma for kernel in kernels] == [model.search_results_["gamma"][0], model.gamma_]
    codes = points.weight.argmax(axis=1)
    observations = Observations(np.ones(len(codes), dtype=np.int64), np.arange(len(codes)), points.copies)
    for kernel, loss in zip(kernels, losses, strict=True):
        P, y = [], []
        for held_out in validation_folds(codes, 2, observations):
            test = held_out > 0
            alone = SparseKLR(kernel="rbf", gamma=kernel.gamma, **PLAIN).fit(points.X[~test], codes[~test])
            P.append(alone.predict_proba(points.X[test]))
            y.append(codes[test])
        assert loss == pytest.approx(log_loss(np.concatenate(y), np.concatenate(P)), rel=1e-3)
    assert model.validation_log_loss_ == losses[1] < losses[0]


@pytest.mark.parametrize(("losses", "chosen"), [((0.3, 0.2), 1), ((0.2, 0.3), 0), (None, 0)])
def test_unconfirmed_kernels_are_not_chosen(monkeypatch, losses, chosen) -> None:
    answer = None if losses is None else np.array(losses)
    monkeypatch.setattr(kernel_search, "validation_losses", lambda *args: answer)
    model = SparseKLR(gamma="auto").fit(*stripes())
    table = model.search_results_
    assert table["log_loss"].argmin() > 0
    assert model.gamma_ == table["gamma"][table["log_loss"].argmin() if chosen else 0]
    assert model.validation_log_loss_ == (None if losses is None else min(losses))


def test_the_first_kernel_needs_no_folds(monkeypatch) -> None:
    def refuse(*args) -> None:
        raise AssertionError("no other kernel was preferred")

    monkeypatch.setattr(kernel_search, "validation_losses", refuse)
    model = SparseKLR(kernel="auto").fit(*plane())
    assert model.kernel_.name == "rbf"
    assert model.validation_log_loss_ is None


# -- weights, classes and searches around it ----------------------------------------------------


@pytest.mark.parametrize(("options", "rtol"), [(PLAIN, 1e-9), ({}, 1e-6)])  # scaling rounds its sums
def test_weights_are_equivalent_to_repetitions_for_any_n_jobs(options, rtol) -> None:
    X, y = stripes()
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    weighted = SparseKLR(kernel="auto", gamma="auto", **options).fit(X, y, sample_weight=weight)
    repeated = SparseKLR(kernel="auto", gamma="auto", n_jobs=2, **options).fit(X[rows], y[rows])
    assert weighted.kernel_.name == repeated.kernel_.name
    assert weighted.gamma_ == pytest.approx(repeated.gamma_, rel=1e-12)
    assert weighted.validation_log_loss_ == pytest.approx(repeated.validation_log_loss_, rel=1e-6)
    np.testing.assert_array_equal(weighted.search_results_["kernel"], repeated.search_results_["kernel"])
    for name in ("gamma", "C", "log_loss", "standard_error"):
        np.testing.assert_allclose(weighted.search_results_[name], repeated.search_results_[name], rtol=rtol)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_of_a_single_row(moons, n_classes) -> None:
    X, y = moons
    y = y * (n_classes - 2)
    y[7] = n_classes - 1
    model = SparseKLR(kernel="auto", gamma="auto").fit(X, y)
    table = pd.DataFrame(model.search_results_)
    assert np.isfinite(table[["log_loss", "standard_error"]]).all(axis=None)
    assert (table["standard_error"] > 0).all()
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_class_of_a_single_row_each() -> None:
    with pytest.warns(UserWarning, match="single observation"):
        model = SparseKLR(kernel="auto", gamma="auto").fit([[0.0], [1.0]], ["a", "b"])
    np.testing.assert_allclose(model.search_results_["standard_error"], 0, atol=1e-9)  # equal losses
    assert list(model.predict([[0.0], [1.0]])) == ["a", "b"]


def test_more_than_two_classes() -> None:
    X, y = load_iris(return_X_y=True)
    model = SparseKLR(kernel="auto", gamma="auto").fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.C_.shape == (1,)
    first = SparseKLR(kernel="rbf", relevance="shared").fit(X, y)
    assert model.search_results_["log_loss"].min() <= first.loo_log_loss_


def test_sparse_rows_have_the_same_search(moons, fitted) -> None:
    X, y = moons
    model = SparseKLR(kernel="auto", gamma="auto", **PLAIN).fit(sparse.csr_array(X), y)
    assert model.kernel_.name == fitted.kernel_.name
    np.testing.assert_allclose(
        model.search_results_["log_loss"], fitted.search_results_["log_loss"], rtol=1e-6
    )
    np.testing.assert_allclose(model.predict_proba(X), fitted.predict_proba(X), atol=1e-6)


def test_inside_the_folds_of_scikit_learn(moons) -> None:
    X, y = moons
    search = SparseKLR(kernel="auto", gamma="auto")
    scores = cross_val_score(search, X, y, cv=3, scoring="neg_log_loss")
    train, test = next(StratifiedKFold(3).split(X, y))
    alone = SparseKLR(kernel="auto", gamma="auto").fit(X[train], y[train])
    assert scores[0] == pytest.approx(-log_loss(y[test], alone.predict_proba(X[test])), rel=1e-9)
    found = GridSearchCV(search, {"box": [1.0, 10.0]}, cv=3, scoring="neg_log_loss").fit(X, y)
    assert found.best_estimator_.gamma_ > 0


def test_noise_is_not_learned() -> None:
    X = np.random.default_rng(0).normal(size=(120, 5))
    y = np.random.default_rng(1).integers(0, 2, 120)
    losses = -cross_val_score(
        SparseKLR(kernel="auto", gamma="auto"), X, y, cv=3, scoring="neg_log_loss", error_score="raise"
    )
    assert losses.mean() < 0.8
