"""What a fit leaves behind: nothing of an earlier one, a warm start when interrupted, little when compact."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from sparseklr import CompactKLR, SparseKLR, SparseKLRCV
from sparseklr.dual.nu import nu_bar

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(200, noise=0.3, random_state=0)


def interrupt_after(monkeypatch, steps: int) -> None:
    """Ctrl-C after so many pair steps of every solve."""
    from sparseklr.dual import binary, nu
    from sparseklr.dual.solver import SolveInterrupted, solve_above_bound

    def interrupted(row_source, problem, settings, **options):
        from dataclasses import replace

        found = solve_above_bound(row_source, problem, replace(settings, max_iter=steps), **options)
        raise SolveInterrupted(found)

    monkeypatch.setattr(binary, "solve_above_bound", interrupted)
    monkeypatch.setattr(nu, "solve_above_bound", interrupted)


@pytest.mark.parametrize("calibration", ["refit", "sigmoid", "link", None])
def test_an_interrupted_fit_is_a_warm_start_and_nothing_else(moons, monkeypatch, calibration) -> None:
    X, y = moons
    options = {"C": 1e3, "lam": 1.0, "tol": 1e-6, "calibration": calibration}
    cold = SparseKLR(**options).fit(X, y)
    model = SparseKLR(**options, warm_start=True).fit(X[::2], y[::2])
    with monkeypatch.context() as patch:
        interrupt_after(patch, int(0.8 * cold.n_iter_[0]))
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    for method in ("predict", "predict_proba", "decision_function", "dual_decision_function"):
        with pytest.raises(NotFittedError, match=r"interrupted.*Call fit again"):
            getattr(model, method)(X)
    with pytest.raises(NotFittedError, match="interrupted"):
        model.compact()
    assert not [name for name in vars(model) if name.endswith("_")]
    again = pickle.loads(pickle.dumps(model)).fit(X, y)
    assert 0 < again.n_iter_[0] < 0.8 * cold.n_iter_[0]
    assert again.converged_
    np.testing.assert_allclose(again.predict_proba(X), cold.predict_proba(X), atol=1e-3)
    assert not hasattr(again, "_unfinished")


@pytest.mark.parametrize("estimator", [SparseKLR(), CompactKLR(2), SparseKLRCV(gammas=[1.0])])
def test_the_names_of_an_earlier_fit_are_gone(moons, estimator) -> None:
    X, y = moons
    model = clone(estimator).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)


def test_the_width_of_an_earlier_search_is_gone(moons) -> None:
    model = SparseKLRCV([10.0], lams=[0.1], estimator=SparseKLR(calibration=None)).fit(*moons)
    assert model.gamma_ > 0
    model.set_params(estimator=SparseKLR(kernel="linear", calibration=None)).fit(*moons)
    assert not hasattr(model, "gamma_")


@pytest.mark.parametrize(
    ("stage", "calibration"),
    [
        ("refitted.refit_outputs", "refit"),
        *[("base.KernelClassifier._set_reference", which) for which in ("refit", "sigmoid", "link", None)],
    ],
)
def test_an_interrupt_after_the_solver_keeps_its_solution(moons, monkeypatch, stage, calibration) -> None:
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    X, y = moons
    fresh = SparseKLR(calibration=calibration).fit(X, y)
    model = SparseKLR(calibration=calibration, warm_start=True).fit(X[::2], y[::2])
    with monkeypatch.context() as patch:
        patch.setattr(f"sparseklr.estimators.{stage}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    with pytest.raises(NotFittedError, match="interrupted"):
        model.predict(X)
    assert not [name for name in vars(model) if name.endswith("_")]
    np.testing.assert_array_equal(model._unfinished.coef, fresh.dual_model_.coef)
    assert model.fit(X, y).n_iter_[0] <= 2
    np.testing.assert_allclose(model.predict_proba(X), fresh.predict_proba(X), atol=1e-9)
    assert not hasattr(model, "_unfinished")


def test_without_warm_start_an_interrupted_fit_leaves_the_old_model(moons, monkeypatch) -> None:
    X, y = moons
    model = SparseKLR().fit(X, y)
    before = model.predict_proba(X)
    interrupt_after(monkeypatch, 5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[::2], y[::2])
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_nothing_of_an_earlier_fit_survives(moons) -> None:
    X, y = moons
    model = SparseKLR().fit(X, y)
    assert hasattr(model, "loo_log_loss_")
    model.set_params(calibration="sigmoid").fit(X, y)
    assert not hasattr(model, "loo_log_loss_")
    assert not hasattr(model, "C_refit_")
    model.set_params(calibration=None).fit(X, y)
    assert not hasattr(model, "_platt")
    fresh = SparseKLR(calibration=None).fit(X, y)
    assert vars(model).keys() == vars(fresh).keys()


@pytest.mark.parametrize("before", ["refit", "sigmoid", "link", None])
@pytest.mark.parametrize("after", ["refit", "sigmoid", "link", None])
def test_a_model_predicts_by_the_calibration_of_its_fit(moons, before, after) -> None:
    X, y = moons
    model = SparseKLR(calibration=before).fit(X, y)
    expected, slopes = model.predict_proba(X), model.explain(X[:1]).contributions
    model.set_params(calibration=after)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X * np.nan, y)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.explain(X[:1]).contributions, slopes)


def test_compact_keeps_what_prediction_needs() -> None:
    X, y = make_moons(3000, noise=0.3, random_state=0)
    for calibration in ("refit", "sigmoid", "link", None):
        model = SparseKLR(calibration=calibration).fit(X, y)
        p, f = model.predict_proba(X), model.decision_function(X)
        small = model.compact()
        np.testing.assert_array_equal(small.predict_proba(X), p)
        np.testing.assert_array_equal(small.decision_function(X), f)
        kept = sum(
            np.asarray(getattr(small, name)).nbytes for name in ("support_", "support_vectors_", "dual_coef_")
        )
        assert len(pickle.dumps(small)) < kept + 3000
    with pytest.raises(AttributeError, match="compact"):
        small.dual_decision_function(X)


@pytest.mark.parametrize(
    ("given", "meant"), [(True, 0.05), (np.True_, 0.05), (False, 0.0), (np.False_, 0.0), (0, 0.0)]
)
def test_booleans_stand_for_a_strength_of_pruning(moons, given, meant) -> None:
    X, y = moons
    np.testing.assert_array_equal(
        SparseKLR(prune=given).fit(X, y).support_, SparseKLR(prune=meant).fit(X, y).support_
    )
    assert SparseKLR().prune == 0.05


# -- warm starts ------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.floats(-1, 5), st.sampled_from([0.0, 1.0, 10.0, 100.0]), st.floats(-3, -2))
def test_a_converged_fit_continued_is_found_to_have_converged(
    seed: int, log_C: float, lam: float, log_tol
) -> None:
    """On any problem: points at a bound stay there, and F is made of the solver's own rows.

    The last digits of C - alpha are lost when alpha is stored, a part of 2e-7 of the smallest C - alpha there
    is; up to two steps may be made where that matters.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 120))
    X, y = make_classification(n, n_features=5, random_state=seed)
    weight = rng.uniform(0.1, 5, n)
    model = SparseKLR(
        10**log_C, lam=lam, tol=10**log_tol, calibration=None, warm_start=True, max_iter=100_000
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assume(model.fit(X, y, sample_weight=weight).converged_)  # Hypothesis fails if hardly any does
        assert model.fit(X, y, sample_weight=weight).n_iter_[0] <= 2
        assert model.converged_


@pytest.mark.parametrize("form", ["dense", "csr", "precomputed", "float32 rows"])
def test_every_form_of_the_data_is_continued(form: str) -> None:
    X, y = make_moons(2100 if form == "float32 rows" else 300, noise=0.3, random_state=0)
    options = {"C": 1e3, "lam": 1.0, "tol": 1e-5, "calibration": None, "warm_start": True}
    if form == "csr":
        X = sparse.csr_array(X)
    if form == "precomputed":
        X, options["kernel"] = rbf_kernel(X), "precomputed"
    model = SparseKLR(**options).fit(X, y)
    before = model.dual_coef_
    assert model.fit(X, y).n_iter_[0] == 0
    np.testing.assert_allclose(model.dual_coef_, before, rtol=1e-12)


# -- nu ---------------------------------------------------------------------------------------


def test_a_nu_that_is_too_small_is_warned_of_with_the_range(moons) -> None:
    X, y = moons
    least = nu_bar(rbf_kernel(X, gamma=1.0), np.where(y == 1, 1, -1), C=20.0)
    with pytest.warns(
        UserWarning, match=rf"nu=1 is too small.*add up to {least:.4g}\d* .*between that and 4000"
    ):
        model = SparseKLR(C=20, nu=1.0, gamma=1.0, calibration=None, tol=1e-6).fit(X, y)
    assert model.lam_ == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SparseKLR(C=20, nu=1.05 * least, gamma=1.0, calibration=None).fit(X, y).lam_ > 0
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match="in 3 of the 3 binary problems"):
        SparseKLR(C=20, nu=0.1, calibration=None).fit(X, y)


def test_warm_start_with_nu(moons, monkeypatch) -> None:
    X, y = moons
    options = {"C": 20.0, "nu": 1500.0, "gamma": 1.0, "tol": 1e-7, "calibration": None}
    cold = SparseKLR(**options).fit(X, y)
    model = SparseKLR(**options, warm_start=True).fit(X, y)
    lam = model.lam_
    assert model.fit(X, y).n_iter_[0] <= 2
    assert model.lam_ == lam == cold.lam_
    for nu in (1000.0, 1600.0):  # the margin is searched for below and above the old one
        fresh = SparseKLR(**{**options, "nu": nu}).fit(X, y)
        model.set_params(nu=nu).fit(X, y)
        assert np.abs(model.dual_coef_).sum() == pytest.approx(nu, rel=1e-6)
        assert model.lam_ == pytest.approx(fresh.lam_, rel=1e-4)
    model.set_params(nu=1500.0)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 20)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    np.testing.assert_allclose(model.fit(X, y).lam_, cold.lam_, rtol=1e-4)


@pytest.mark.parametrize("n_rows", [150, 20_500])
def test_warm_start_begins_anew_where_it_cannot_go_on(n_rows: int) -> None:
    """With other features, another scaling or another kind of widths."""
    X, y = make_moons(n_rows, noise=0.2, random_state=0)
    X = X * [1, 30]
    settings = {"n_points": 3, "C": 1.0, "warm_start": True}
    once = CompactKLR(**settings).fit(X, y)
    for parameters, rows in (
        ({}, X[:, :1]),
        ({}, np.column_stack([X, X[:, 0]])),
        ({"scale": None}, X),
        ({"relevance": "sparse"}, X),
    ):
        warm = clone(once).fit(X, y).set_params(**parameters).fit(rows, y)
        fresh = CompactKLR(**settings, **parameters).fit(rows, y)
        np.testing.assert_array_equal(warm.predict_proba(rows), fresh.predict_proba(rows))
