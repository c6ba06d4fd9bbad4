"""Choice of kernel and width by leave-one-out, and its invariances."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparseklr import SparseKLR
from sparseklr.baselines import HalfKLR
from sparseklr.kernels import Kernel
from sparseklr.refit import kernel_search
from sparseklr.refit.kernel_search import SETTINGS, KernelSearch
from sparseklr.refit.regularisation import choose_C
from sparseklr.samples import DistinctPoints, Samples

pytestmark = [pytest.mark.numerical, pytest.mark.slow]

# one kernel of the features as they are
PLAIN = {"scale": None, "relevance": "shared"}


@parametrize_with_checks([SparseKLR(gamma="auto")])
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


def checkerboard(n: int, fields: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).uniform(0, fields, (n, 2))
    return X, np.floor(X).sum(axis=1) % 2


def distinct_points(X: np.ndarray, y: np.ndarray) -> DistinctPoints:
    """Rows of equal weight, with the rbf kernel of ``gamma="scale"``."""
    classes, codes = np.unique(y, return_inverse=True)
    kernel = Kernel("rbf", 1 / (X.shape[1] * X.var()))
    return DistinctPoints.of(Samples(X, codes, classes, np.ones(len(y)), np.arange(len(y)), len(y), kernel))


# -- what is chosen ---------------------------------------------------------------------------


def test_width_follows_the_structure_of_the_data() -> None:
    X, y = checkerboard(800, 6, seed=0)
    fine, rule = (SparseKLR(gamma=gamma).fit(X[:400], y[:400]) for gamma in ("auto", "scale"))
    assert fine.gamma_ >= 3 * rule.gamma_
    losses = [log_loss(y[400:], model.predict_proba(X[400:])) for model in (fine, rule)]
    assert losses[0] < 0.95 * losses[1]

    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 10))
    y = X.sum(axis=1) + rng.normal(size=400) > 0
    assert SparseKLR(gamma="auto").fit(X, y).gamma_ < SparseKLR().fit(X, y).gamma_


def test_kernel_is_chosen_only_where_it_is_clearly_better() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (300, 5)).astype(float)
    y = (X[:, 0] > 1) ^ (X[:, 1] > 1) ^ (rng.uniform(size=300) < 0.05)  # corners, parallel to the axes
    chosen = SparseKLR(kernel="auto", gamma="auto").fit(X, y)
    assert chosen.kernel_.name == "laplacian"
    by_kernel = pd.DataFrame(chosen.search_results_).groupby("kernel")["log_loss"].min()
    assert by_kernel["laplacian"] < by_kernel["rbf"]

    X = rng.normal(size=(300, 10))
    y = X.sum(axis=1) + rng.normal(size=300) > 0  # a plane that no feature is parallel to
    assert SparseKLR(kernel="auto", gamma="auto").fit(X, y).kernel_.name == "rbf"


@pytest.mark.parametrize("options", [{"kernel": "rbf"}, {"kernel": "poly", "coef0": 1.0}, {"kernel": "auto"}])
def test_the_table_holds_the_loss_of_every_candidate(options) -> None:
    X, y = make_moons(200, noise=0.3, random_state=0)  # few enough for the basis to be all of them
    options = {**options, "relevance": "shared"}  # the table is that of equal widths
    model = SparseKLR(gamma="auto", **options).fit(X, y)
    table = pd.DataFrame(model.search_results_)
    assert list(table) == ["kernel", "gamma", "C", "log_loss", "standard_error", "seconds"]
    assert table.notna().all(axis=None)
    assert not table.duplicated(["kernel", "gamma"]).any()
    options = {**options, "prune": 0}
    for row in table.itertuples():
        single = SparseKLR(**{**options, "kernel": row.kernel, "gamma": row.gamma}).fit(X, y)
        assert (single.kernel_.name, single.gamma_) == (row.kernel, row.gamma)
        if (
            single.C_ != row.C
        ):  # the search starts at the C of the first kernel, or tries only that of a width
            single.set_params(C=row.C).fit(X, y)
        assert single.loo_log_loss_ == pytest.approx(row.log_loss, rel=1e-2)  # fits are accurate to 1e-2
    chosen = table[(table["kernel"] == model.kernel_.name) & (table["gamma"] == model.gamma_)].iloc[0]
    assert model.loo_log_loss_ == pytest.approx(chosen["log_loss"], rel=1e-2)
    assert chosen["log_loss"] <= table["log_loss"].iloc[0]


def test_C_is_not_searched_for_hopeless_kernels(monkeypatch) -> None:
    chosen = []

    def counted(bases, labels, *start, **options):
        chosen.append(bases[0].points.kernel.gamma)
        return choose_C(bases, labels, *start, **options)

    monkeypatch.setattr(kernel_search, "choose_C", counted)
    monkeypatch.setattr("sparseklr.refit.refit.choose_C", counted)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = X.sum(axis=1) + rng.normal(size=300) > 0
    points = distinct_points(X, y)
    search = KernelSearch(points, seed=0)
    middle = search.evaluate(points.kernel)
    smoother = search.evaluate(replace(points.kernel, gamma=points.kernel.gamma / 3), middle)
    narrower = search.evaluate(replace(points.kernel, gamma=points.kernel.gamma * 3), middle)
    assert [one.C_searched for one in (middle, smoother, narrower)] == [True, True, False]
    difference = middle.losses - narrower.losses
    assert difference.mean() < -SETTINGS.clearly_worse * difference.std() / np.sqrt(300)
    assert narrower.evaluated.C == middle.evaluated.C
    assert search.best() is not narrower
    assert chosen == [middle.kernel.gamma, smoother.kernel.gamma]

    chosen.clear()
    confirmed = lambda *_: np.array([1.0, 0.0])  # noqa: E731
    monkeypatch.setattr(kernel_search, "validation_losses", confirmed)
    options = {"kernel": "rbf", "gamma": "auto", "relevance": "shared"}
    model = SparseKLR(**options).fit(X, y)  # the refit takes the fits of the search
    assert len(chosen) == len(set(chosen)) <= len(model.search_results_["gamma"])


def test_search_ends_at_a_tiny_loss() -> None:
    X = np.concatenate([np.random.default_rng(k).normal(20.0 * k, 1.0, (150, 2)) for k in (0, 1)])
    model = SparseKLR(gamma="auto", kernel="auto").fit(X, np.repeat([0, 1], 150))
    assert model.loo_log_loss_ < SETTINGS.small_loss
    assert len(model.search_results_["gamma"]) == 1


@pytest.mark.parametrize("seed", range(3))
def test_noise_does_not_select_a_narrow_kernel(seed) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(150, 5)), np.arange(150) % 2
    model = SparseKLR(kernel="auto", gamma="auto").fit(X, y)
    assert model.kernel_.name == "rbf"
    assert model.gamma_ <= SparseKLR(kernel="rbf").fit(X, y).gamma_


def test_the_best_candidate_has_the_least_loss() -> None:
    X, y = checkerboard(300, 4, seed=0)
    points = distinct_points(X, y)
    search = KernelSearch(points, seed=0)
    first = search.evaluate(points.kernel)
    search.climb(first)
    assert search.tried[0] is first
    chosen = search.best()
    assert chosen.kernel.gamma > first.kernel.gamma
    assert chosen.loss == min(one.loss for one in search.tried)
    search.tried.append(replace(first, loss=0.0, C_searched=False))
    assert search.best() is chosen


def test_the_chosen_width_is_that_of_the_model() -> None:
    X, y = make_moons(200, noise=0.3, random_state=0)
    options = {"kernel": "rbf", "relevance": "shared"}
    chosen = SparseKLR(gamma="auto", **options).fit(X, y)
    same = SparseKLR(gamma=chosen.gamma_, **options).fit(X, y)
    np.testing.assert_array_equal(chosen.predict_proba(X), same.predict_proba(X))
    assert len(same.search_results_["gamma"]) == 1  # nothing was searched
    assert same.gamma_ == chosen.gamma_
    assert not hasattr(SparseKLR(kernel="linear").fit(X, y), "gamma_")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_default_widens_the_kernel_of_a_linear_function(n_classes: int) -> None:
    """Only ``kernel="auto"`` with ``gamma="scale"`` widens it; each step gains more than a standard error."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    total = X.sum(axis=1) + 0.3 * rng.normal(size=300)
    y = np.searchsorted(np.quantile(total, np.arange(1, n_classes) / n_classes), total)
    model = SparseKLR(relevance="shared").fit(X, y)
    table = pd.DataFrame(model.search_results_)
    steps = np.log(table.gamma[table.kernel == model.kernel_.name].iloc[0] / model.gamma_) / np.log(3)
    assert round(steps) >= 1
    assert steps == pytest.approx(round(steps))
    wider = table[2:]
    assert (np.diff(wider.log_loss[wider.gamma >= 0.999 * model.gamma_]) < 0).all()
    for kernel in ("rbf", "laplacian"):
        assert len(SparseKLR(kernel=kernel, relevance="shared").fit(X, y).search_results_["gamma"]) == 1
    given = SparseKLR(gamma=0.2, relevance="shared").fit(X, y)
    np.testing.assert_array_equal(given.search_results_["gamma"], 0.2)


def test_a_wider_kernel_must_be_better_on_a_larger_basis_as_well() -> None:
    """A narrow kernel needs more basis points, so a small basis prefers kernels that are too wide."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1200, 30))
    y = (X[:, :5] > 0).sum(axis=1) + 0.7 * (X[:, 5] + X[:, 6] > 0) + 0.3 * rng.normal(size=1200) > 2.7
    search = KernelSearch(distinct_points(np.exp(X), y), seed=0)
    found = search.widened(search.evaluate(Kernel("laplacian", 1 / 30)))
    wider = search.evaluate(replace(found.kernel, gamma=found.kernel.gamma / SETTINGS.factor), found)
    gain, error = search.labels.observations.mean(found.losses - wider.losses)
    assert gain > error  # on the basis of the search
    narrow, wide = (search._losses_on_larger_basis(one) for one in (found, wider))
    gain, error = search.labels.observations.mean(narrow - wide)
    assert gain <= error


def test_a_given_width_is_kept_and_only_the_kernel_chosen() -> None:
    X, y = make_moons(200, noise=0.3, random_state=0)
    table = pd.DataFrame(SparseKLR(kernel="auto", gamma=2.0).fit(X, y).search_results_)
    assert list(zip(table["kernel"], table["gamma"], strict=True)) == [("rbf", 2.0), ("laplacian", 2.0)]


# -- what it must not depend on ---------------------------------------------------------------


def fitted_alike(a: SparseKLR, b: SparseKLR, X: np.ndarray) -> None:
    assert a.kernel_.name == b.kernel_.name
    assert a.gamma_ == b.gamma_
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=1e-9)  # sums in another order
    np.testing.assert_array_equal(a.search_results_["log_loss"], b.search_results_["log_loss"])


@pytest.mark.parametrize("how", [{}, PLAIN], ids=["scaled", "plain"])
@pytest.mark.parametrize("n", [150, 500])  # a basis of all points, and one that is drawn
def test_order_repetition_and_threads_change_nothing(n, how) -> None:
    X, y = make_moons(n, noise=0.3, random_state=0)
    rng = np.random.default_rng(0)
    weight = rng.integers(n > 400, 3, n)
    options = {"gamma": "auto", "kernel": "auto", **how}
    model = SparseKLR(**options).fit(X, y, sample_weight=weight)
    rows = rng.permutation(np.repeat(np.arange(n), weight))
    fitted_alike(model, SparseKLR(**options).fit(X[rows], y[rows]), X)
    fitted_alike(model, SparseKLR(**options).fit(X, y, sample_weight=7.0 * weight), X)
    fitted_alike(model, SparseKLR(**options, n_jobs=2).fit(X, y, sample_weight=weight), X)


def test_large_data_are_searched_on_a_sample(monkeypatch) -> None:
    X, y = make_moons(400, noise=0.3, random_state=0)
    rare = np.where(np.arange(400) < 12, 2, y)
    monkeypatch.setattr(kernel_search, "SETTINGS", replace(SETTINGS, most_points=100))
    sample = kernel_search.sample_points(distinct_points(X, rare), seed=0)
    assert 100 <= len(sample) <= 110
    assert ((sample.weight > 0).sum(axis=0) >= 10).all()
    assert sample.weight.sum() == pytest.approx(len(sample))
    order = np.random.default_rng(0).permutation(400)
    models = [SparseKLR(gamma="auto").fit(X[rows], rare[rows]) for rows in (np.arange(400), order)]
    fitted_alike(*models, X)


def test_sparse_and_dense_rows_give_the_same_width() -> None:
    X, y = make_moons(200, noise=0.3, random_state=0)
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    dense, csr = (SparseKLR(gamma="auto", **PLAIN).fit(A, y) for A in (X, sparse.csr_array(X)))
    assert csr.gamma_ == dense.gamma_
    np.testing.assert_allclose(csr.search_results_["log_loss"], dense.search_results_["log_loss"], rtol=1e-6)


def test_one_width_for_all_classes() -> None:
    X, y = load_iris(return_X_y=True)
    model = SparseKLR(kernel="rbf", gamma="auto", relevance="shared").fit(X, y)
    assert isinstance(model.gamma_, float)
    chosen = model.search_results_["gamma"] == model.gamma_
    assert model.loo_log_loss_ == pytest.approx(model.search_results_["log_loss"][chosen].item(), rel=1e-2)
    scale = SparseKLR(kernel="rbf", relevance="shared").fit(X, y)
    assert model.loo_log_loss_ <= scale.loo_log_loss_ * 1.01


# -- input at its limits ----------------------------------------------------------------------

TWO = np.array([0, 1])
LIMITS = {
    "constant": (np.ones((20, 3)), np.arange(20) % 2),
    "one feature": (np.linspace(0, 1, 30)[:, None], np.arange(30) // 15),
    "two rows": (np.array([[0.0, 1.0], [1.0, 0.0]]), TWO),
    "equal rows in a class": (np.repeat([[0.0, 1.0], [1.0, 0.0]], 10, axis=0), np.repeat(TWO, 10)),
    "equal rows in both": (np.tile([[0.0, 1.0], [1.0, 0.0]], (10, 1)), np.repeat(TWO, 10)),
    "zero column": (sparse.csr_array(np.eye(12)[:, [0, 3, 5]] * 2.0), np.arange(12) % 2),
    "tiny numbers": (np.arange(20)[:, None] * 1e-200, np.arange(20) % 2),
    "large numbers": (np.arange(20)[:, None] * 1e100, np.arange(20) % 2),
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("kernel", ["auto", "poly"])
def test_search_ends_with_a_finite_model_or_a_clear_error(name, kernel) -> None:
    X, y = LIMITS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = SparseKLR(gamma="auto", kernel=kernel).fit(X, y)
        except ValueError as error:
            assert "overflow" in str(error) or "not finite" in str(error)  # noqa: PT017
            return
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.search_results_["log_loss"]).all()
    assert len(model.search_results_["log_loss"]) <= 2 * 13


def test_failing_candidates_are_skipped_with_a_warning(monkeypatch) -> None:
    X, y = checkerboard(400, 6, seed=0)

    def fails_if_narrow(bases, labels, *start, **options):
        if bases[0].points.kernel.gamma > 1.5 * middle:
            raise np.linalg.LinAlgError("not positive definite")
        return choose_C(bases, labels, *start, **options)

    middle = SparseKLR().fit(X, y).gamma_
    assert SparseKLR(gamma="auto").fit(X, y).gamma_ > middle
    monkeypatch.setattr(kernel_search, "choose_C", fails_if_narrow)
    with pytest.warns(
        UserWarning, match=r"kernel='rbf' with gamma=.* was skipped by the search.*: not positive definite"
    ):
        model = SparseKLR(gamma="auto").fit(X, y)
    assert model.gamma_ <= middle
    assert max(model.search_results_["gamma"]) == middle

    def fails(bases, labels, *start, **options):
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(kernel_search, "choose_C", fails)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        SparseKLR(gamma="auto").fit(X, y)


def test_warning_about_an_overflowing_kernel_names_no_row() -> None:
    """The search reorders distinct points, so their indices would mislead the user."""
    X, y = checkerboard(100, 2, seed=0)
    X *= 1e153
    X[5] *= 20
    with pytest.warns(
        UserWarning, match="'rbf' .* was skipped by the search.* gives NaN or infinity: the features are too"
    ):
        model = SparseKLR(kernel="auto", gamma=1e-300, **PLAIN).fit(X, y)
    assert model.kernel_.name == "laplacian"


def test_unknown_strings_raise() -> None:
    X, y = make_moons(30, random_state=0)
    with pytest.raises(ValueError, match="gamma"):
        SparseKLR(gamma="aut").fit(X, y)
    with pytest.raises(ValueError, match="gamma"):
        HalfKLR(gamma="auto").fit(X, y)
    with pytest.warns(UserWarning, match="gamma='auto' has no effect with kernel='precomputed'"):
        SparseKLR(kernel="precomputed", gamma="auto").fit(rbf_kernel(X), y)
