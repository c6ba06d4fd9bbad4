"""State after a fit: nothing of an earlier fit; after an error or an interruption, the old model."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import textwrap
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from sparseklr import SKLR, SKLRCV, CompactKLR, SparseKLR
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR
from sparseklr.dual import margins, nu_bar, one_vs_rest

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(200, noise=0.3, random_state=0)


def interrupt(*args, **options) -> None:
    raise KeyboardInterrupt


def state(model, X: np.ndarray) -> dict[str, bytes]:
    """All fitted attributes and predictions, for exact comparison."""
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_")}
    methods = ("predict", "predict_proba", "decision_function")
    predicted = {name: getattr(model, name)(X) for name in methods}
    return {name: pickle.dumps(value) for name, value in (fitted | predicted).items()}


ESTIMATORS = [
    *(SKLR(calibration=one) for one in ("sigmoid", "link", None)),
    SKLRCV([10.0], lams=[0.1], cv=2),
    SparseKLR(),
    SparseKLR(kernel="auto", gamma="auto"),
    CompactKLR(2),
    ThresholdedKLR(),
    ImportVectorMachine(),
    HalfKLR(),
]


# -- fits that fail or are interrupted --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(moons, estimator) -> None:
    X, y = moons
    model = clone(estimator).fit(X, y)
    before = state(model, X)
    for rows, labels in ((X * np.nan, y), (X[:, :1], y[:-1]), (X, np.zeros(len(y)))):
        with pytest.raises(ValueError, match=r"NaN|inconsistent|class"):
            model.fit(rows, labels)
        assert state(model, X) == before


@pytest.mark.parametrize(
    ("estimator", "stage"),
    [
        (SKLR(), "sklr.fit_sigmoids"),
        (SKLR(calibration=None), "sklr.expansion"),
        (SKLRCV([10.0], lams=[0.1], cv=2), "sklr.expansion"),
        (SparseKLR(), "sparse_klr.checked_refit"),
        (SparseKLR(), "sparse_klr.expansion"),
        (SparseKLR(gamma="auto"), "sparse_klr.choose_kernel"),
    ],
)
def test_an_interrupt_after_the_solver_leaves_the_old_model(moons, monkeypatch, estimator, stage) -> None:
    X, y = moons
    model = clone(estimator).fit(X, y)
    before = state(model, X)
    monkeypatch.setattr(f"sparseklr.{stage}", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[::2], y[::2])
    assert state(model, X) == before


@pytest.mark.parametrize(
    "estimator", [SKLR(), SKLR(warm_start=True), SKLR(C=20.0, nu=1500.0, warm_start=True), SparseKLR()]
)
def test_an_interrupted_solver_leaves_the_old_model(moons, monkeypatch, estimator) -> None:
    X, y = moons
    model = clone(estimator).fit(X, y)
    before = state(model, X)
    monkeypatch.setattr(one_vs_rest, "solve_above_bound", interrupt)
    monkeypatch.setattr(margins, "solve_above_bound", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[::2], y[::2])
    assert state(model, X) == before


# -- what an earlier fit has left ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_feature_names_of_an_earlier_fit_are_removed(moons, estimator) -> None:
    X, y = moons
    model = clone(estimator).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)


@pytest.mark.parametrize("cls", [SKLR, SparseKLR])
def test_gamma_of_an_earlier_fit_is_removed(moons, cls) -> None:
    model = cls().fit(*moons)
    assert model.gamma_ == model.kernel_.gamma > 0
    model.set_params(kernel="linear").fit(*moons)
    assert not hasattr(model, "gamma_")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SKLR(calibration="sigmoid"), SKLR(calibration=None)),
        (SKLR(), SKLR(kernel="linear")),
        (SparseKLR(), SparseKLR(kernel="linear")),
        (SparseKLR(kernel="auto", gamma="auto"), SparseKLR()),
    ],
)
def test_nothing_of_an_earlier_fit_survives(moons, before, after) -> None:
    """Attributes that are computed on first use are removed too."""
    X, y = moons
    model = clone(before).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    if isinstance(model, SparseKLR):
        model.familiarity(X), model.predict_proba(X, moderated=True)
    model.set_params(**after.get_params()).fit(X, y)
    fresh = clone(after).fit(X, y)
    assert vars(model).keys() == vars(fresh).keys()
    np.testing.assert_array_equal(model.predict_proba(X), fresh.predict_proba(X))
    if isinstance(model, SparseKLR):
        np.testing.assert_array_equal(model.familiarity(X), fresh.familiarity(X))
        np.testing.assert_array_equal(
            model.predict_proba(3 * X, moderated=True), fresh.predict_proba(3 * X, moderated=True)
        )


@pytest.mark.parametrize("before", ["sigmoid", "link", None])
@pytest.mark.parametrize("after", ["sigmoid", "link", None])
def test_a_model_predicts_by_the_calibration_of_its_fit(moons, before, after) -> None:
    X, y = moons
    model = SKLR(calibration=before).fit(X, y)
    expected, slopes = model.predict_proba(X), model.explain(X[:1]).contributions
    model.set_params(calibration=after)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X * np.nan, y)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.explain(X[:1]).contributions, slopes)


@pytest.mark.parametrize("cls", [type(one) for one in ESTIMATORS])
def test_no_method_writes_a_fitted_attribute(cls) -> None:
    """Only ``set_fitted``, which a fit calls last, writes fitted attributes."""
    methods = [f for one in cls.__mro__ if one.__module__.startswith("sparseklr") for f in vars(one).values()]
    for method in filter(inspect.isfunction, methods):
        tree = ast.parse(textwrap.dedent(inspect.getsource(method)))
        written = [
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr.endswith("_")
        ]
        assert written == [], f"{method.__qualname__} writes {written}"


# -- copies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [SparseKLR(), CompactKLR(2)])
@pytest.mark.parametrize("duplicate", [lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy])
def test_copies_work_before_and_after_first_use(moons, estimator, duplicate) -> None:
    X, y = moons
    model = clone(estimator).fit(X, y)
    early = duplicate(model)
    expected = model.familiarity(X)
    late = duplicate(model)
    for other in (early, late):
        np.testing.assert_array_equal(other.familiarity(X), expected)
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    late.fit(X[::2], y[::2])  # a copy is on its own
    np.testing.assert_array_equal(model.familiarity(X), expected)


@pytest.mark.slow
def test_keep_prediction_only_drops_the_rest() -> None:
    X, y = make_moons(3000, noise=0.3, random_state=0)
    model = SparseKLR().fit(X, y)
    p, f, known = model.predict_proba(X), model.decision_function(X), clone(model).fit(X, y).familiarity(X)
    small = model.keep_prediction_only()
    assert small is model
    np.testing.assert_array_equal(small.predict_proba(X), p)
    np.testing.assert_array_equal(small.decision_function(X), f)
    np.testing.assert_array_equal(small.familiarity(X), known)
    kept = sum(getattr(small, one).nbytes for one in ("support_", "support_vectors_", "dual_coef_"))
    kept += sum(array.nbytes for array in vars(small._held_out_).values())  # predict_set needs them
    assert len(pickle.dumps(small)) < kept + 8000
    for use in ({"return_std": True}, {"moderated": True}):
        method = small.decision_function if "return_std" in use else small.predict_proba
        with pytest.raises(AttributeError, match="keep_prediction_only"):
            method(X, **use)
    assert hasattr(small.fit(X[:100], y[:100]), "loo_decision_function_")


def test_pruning_may_be_turned_off(moons) -> None:
    X, y = moons
    full, pruned = SparseKLR(prune=0).fit(X, y), SparseKLR().fit(X, y)
    assert set(pruned.support_) < set(full.support_)
    assert len(full.support_) <= full.n_selected_
    assert SparseKLR().prune == 0.05


# -- warm starts ------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.integers(0, 10**6), st.floats(-1, 5), st.sampled_from([0.0, 1.0, 10.0, 100.0]), st.floats(-3, -2))
def test_resuming_a_converged_fit_takes_no_steps(seed: int, log_C: float, lam: float, log_tol) -> None:
    """On any problem: points at a bound stay there, and F is computed from the solver's own rows.

    Storing alpha loses digits of C - alpha, up to 2e-7 of its smallest value; if that matters, the solver can
    take up to two steps.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 120))
    X, y = make_classification(n, n_features=5, random_state=seed)
    weight = rng.uniform(0.1, 5, n)
    model = SKLR(10**log_C, lam=lam, tol=10**log_tol, calibration=None, warm_start=True, max_iter=100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assume(model.fit(X, y, sample_weight=weight).converged_)  # Hypothesis fails if hardly any does
        assert model.fit(X, y, sample_weight=weight).n_iter_ <= 2
        assert model.converged_


@pytest.mark.parametrize("form", ["dense", "csr", "precomputed", "float32 rows"])
def test_every_form_of_the_data_resumes(form: str) -> None:
    X, y = make_moons(2100 if form == "float32 rows" else 300, noise=0.3, random_state=0)
    options = {"C": 1e3, "lam": 1.0, "tol": 1e-5, "calibration": None, "warm_start": True}
    if form == "csr":
        X = sparse.csr_array(X)
    if form == "precomputed":
        X, options["kernel"] = rbf_kernel(X), "precomputed"
    model = SKLR(**options).fit(X, y)
    before = model.dual_coef_
    assert model.fit(X, y).n_iter_ == 0
    np.testing.assert_allclose(model.dual_coef_, before, rtol=1e-12)


# -- nu ---------------------------------------------------------------------------------------


def test_too_small_nu_warns_with_the_valid_range(moons) -> None:
    X, y = moons
    least = nu_bar(rbf_kernel(X, gamma=1.0), np.where(y == 1, 1, -1), C=20.0)
    with pytest.warns(
        UserWarning, match=rf"nu=1 is too small.*sum to {least:.4g}\d*. .*between 544.9\d* and 4000"
    ):
        model = SKLR(C=20, nu=1.0, gamma=1.0, calibration=None, tol=1e-6).fit(X, y)
    assert model.lam_ == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SKLR(C=20, nu=1.05 * least, gamma=1.0, calibration=None).fit(X, y).lam_ > 0
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match="in 3 of the 3 binary problems"):
        SKLR(C=20, nu=0.1, calibration=None).fit(X, y)


def test_warm_start_with_nu(moons) -> None:
    X, y = moons
    options = {"C": 20.0, "nu": 1500.0, "gamma": 1.0, "tol": 1e-7, "calibration": None}
    cold = SKLR(**options).fit(X, y)
    model = SKLR(**options, warm_start=True).fit(X, y)
    lam = model.lam_
    assert model.fit(X, y).n_iter_ <= 2
    assert model.lam_ == lam == cold.lam_
    for nu in (1000.0, 1600.0):  # the margin is searched for below and above the old one
        fresh = SKLR(**{**options, "nu": nu}).fit(X, y)
        model.set_params(nu=nu).fit(X, y)
        assert np.abs(model.dual_coef_).sum() == pytest.approx(nu, rel=1e-6)
        assert model.lam_ == pytest.approx(fresh.lam_, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [150, 20_500])
def test_warm_start_restarts_if_it_cannot_resume(n_rows: int) -> None:
    """The fit restarts if the features, the scaling or the kind of widths have changed."""
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
