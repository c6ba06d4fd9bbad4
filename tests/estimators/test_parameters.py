"""Validation of parameters and data, warnings about unused parameters, and their location."""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import SKLR, SKLRCV, CompactKLR, SparseKLR, _validation, klr_path
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR
from sparseklr.weights import check_weight

CLASSES = [SKLR, SparseKLR, HalfKLR, ImportVectorMachine, ThresholdedKLR]


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(120, noise=0.3, random_state=0)


# -- parameters without effect ----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SKLR(degree=2), "degree=2 has no effect with kernel='rbf'"),
        (SKLR(gamma=1.0, kernel="linear"), "gamma=1.0 has no effect with kernel='linear'"),
        (SparseKLR(gamma="auto", kernel="linear"), "gamma='auto' has no effect with kernel='linear'"),
        (SparseKLR(degree=2), "degree=2 has no effect with kernel='auto'"),
        (SparseKLR(coef0=1.0, kernel="linear"), "coef0=1.0 has no effect with kernel='linear'"),
        (SparseKLR(gamma=1.0, kernel="linear"), "gamma=1.0 has no effect with kernel='linear'"),
        (SparseKLR(gamma=1.0, kernel=rbf_kernel), "gamma=1.0 has no effect with a callable kernel"),
        (ThresholdedKLR(degree=2), "degree=2 has no effect with kernel='rbf'"),
        (ImportVectorMachine(coef0=1), "coef0=1 has no effect with kernel='rbf'"),
        (SKLRCV([1], estimator=SKLR(C=3)), "C=3 has no effect in the estimator of SKLRCV"),
        (SKLRCV([1], estimator=SKLR(lam=3.0)), "lam=3.0 has no effect in the estimator of SKLRCV"),
        (SKLRCV([1], estimator=SKLR(degree=2)), "degree=2 has no effect with kernel='rbf'"),
    ],
)
def test_parameters_without_effect_warn_once(moons, model, message) -> None:
    with pytest.warns(UserWarning, match=message) as caught:
        model.fit(*moons)
    assert len([w for w in caught if "no effect" in str(w.message)]) == 1


@pytest.mark.parametrize(
    "model",
    [
        SparseKLR(),
        SparseKLR(C=3.0, prune=0),
        SparseKLR(kernel="auto", gamma=0.5),
        SparseKLR(kernel="laplacian", gamma="auto"),
        SparseKLR(kernel="poly", degree=2, coef0=1.0, gamma=0.1),
        SKLR(kernel="poly", degree=2, coef0=1.0, gamma=0.1, max_iter=1000),
        SKLR(kernel="sigmoid", coef0=0.1, gamma=0.1, max_iter=1000),
        SKLR(kernel="laplacian", gamma=1.0),
        SKLR(warm_start=True),
        SKLRCV([1], lams=[1], estimator=SKLR(gamma=2.0)),
    ],
)
def test_parameters_with_an_effect_do_not_warn(moons, model) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("error", ".*no effect")
        model.fit(*moons)


def test_lam_and_nu_contradict_each_other(moons) -> None:
    with pytest.raises(ValueError, match="lam and nu cannot both be given"):
        SKLR(lam=1.0, nu=1.0).fit(*moons)


# -- probability=True -------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [*CLASSES, CompactKLR, SKLRCV])
@pytest.mark.parametrize("name", ["shrinking", "break_ties", "decision_function_shape", "probability"])
def test_parameters_of_svc_are_explained(cls, name) -> None:
    with pytest.raises(TypeError, match=f"{cls.__name__} has no parameter '{name}': .* Omit this parameter"):
        cls(**{name: True})
    assert name not in cls._get_param_names()
    assert list(inspect.signature(cls).parameters) == [
        n for n in inspect.signature(cls.__init__).parameters if n != "self"
    ]


@pytest.mark.parametrize(
    ("cls", "name", "message"),
    [
        (SparseKLR, "max_iter", "until it meets the tolerance tol"),
        (CompactKLR, "max_iter", "until it meets the tolerance tol"),
        (CompactKLR, "kernel", "the kernel is Gaussian.*use SparseKLR"),
        (CompactKLR, "cache_size", "needs no kernel matrix"),
        (SKLR, "random_state", "uses no random numbers"),
        (SKLRCV, "kernel", r"Use estimator=SKLR\(...\)"),
        (SKLRCV, "max_iter", r"Use estimator=SKLR\(...\)"),
        (SparseKLR, "gama", r"did you mean gamma\?"),
        (SparseKLR, "warm_start", "its parameters are C, kernel, "),
        (SparseKLR, "splines", "its parameters are C, kernel, "),
    ],
)
def test_unknown_parameters_are_explained(cls, name, message) -> None:
    with pytest.raises(TypeError, match=f"{cls.__name__} has no parameter '{name}': .*{message}"):
        cls(**{name: 1})


@pytest.mark.parametrize("model", [SparseKLR(), CompactKLR()])
def test_tables_are_pointed_out(model) -> None:
    y, days = np.arange(6) % 2, pd.date_range("2020-01-01", periods=6)
    numbers = pd.DataFrame({"x": np.arange(6.0), "z": 0.0})
    fitted = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(numbers, y)
    for x in ([np.nan] * 6, ["red"] * 6, days, pd.Categorical(["a"] * 6)):
        frame = numbers.assign(x=x)
        for call in (lambda X: clone(model).fit(X, y), fitted.predict):
            with pytest.raises(
                (ValueError, TypeError), match=r"tabular_pipeline\(\w+\(\)\) accepts data frames"
            ):
                call(frame)
    with pytest.raises(TypeError, match="X contains dates"):
        clone(model).fit(np.array(days)[:, None], y)


@pytest.mark.parametrize("model", [SparseKLR(), CompactKLR()])
@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_missing_labels_are_named(model, dtype) -> None:
    y = pd.Series(["a", "b", None, "a", np.nan, "b"], dtype=dtype)
    with pytest.raises(
        ValueError, match=r"y contains NaN or missing labels in 2 of 6 rows, the first in row 2 "
    ):
        clone(model).fit(np.arange(6.0)[:, None], y)


@pytest.mark.parametrize("model", [SparseKLR(), CompactKLR()])
def test_dates_and_lazy_frames_of_polars(model) -> None:
    polars = pytest.importorskip("polars")
    y, frame = np.arange(6) % 2, polars.DataFrame({"x": np.arange(6.0)})
    for days in (polars.lit("2020-01-01").str.to_date(), polars.lit("2020-01-01").str.to_datetime()):
        with pytest.raises(TypeError, match=r"X contains dates.*tabular_pipeline"):
            clone(model).fit(frame.with_columns(day=days), y)
    with pytest.raises(TypeError, match=r"X is a LazyFrame, which has not been computed; pass X.collect\(\)"):
        clone(model).fit(frame.lazy(), y)


@pytest.mark.parametrize("cls", CLASSES)
def test_probability_is_explained(cls, moons) -> None:
    with pytest.raises(TypeError, match="no parameter 'probability': predict_proba is always available"):
        cls(probability=True)
    with pytest.raises(TypeError, match="has no parameter 'propability': its parameters are"):
        cls(propability=True)
    with pytest.raises(ValueError, match="Invalid parameter 'probability'"):
        cls().set_params(probability=True)


@pytest.mark.parametrize("cls", CLASSES)
def test_scikit_learn_conventions_hold(cls, moons) -> None:
    names = list(inspect.signature(cls).parameters)
    assert sorted(names) == sorted(cls().get_params())
    model = cls(C=3.0)
    assert clone(model).get_params() == model.get_params()
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    assert repr(model) == f"{cls.__name__}(C=3.0)"


# -- warnings ---------------------------------------------------------------------------------


def search(X, y):
    return GridSearchCV(SKLR(max_iter=2), {"C": [1e4]}, cv=2).fit(X, y)


@pytest.mark.parametrize(
    "call",
    [
        lambda X, y: SKLR(max_iter=2, calibration=None).fit(X, y),
        lambda X, y: SKLR(max_iter=2, calibration="sigmoid").fit(X, y),
        lambda X, y: make_pipeline(StandardScaler(), SKLR(max_iter=2)).fit(X, y),
        lambda X, y: cross_val_score(SKLR(max_iter=2), X, y, cv=2),
        lambda X, y: SKLRCV([10], estimator=SKLR(max_iter=2), cv=2).fit(X, y),
        lambda X, y: klr_path(X, y, Cs=[10], lams=[0, 1], max_iter=2),
        lambda X, y: HalfKLR(max_iter=1).fit(X, y),
        lambda X, y: ImportVectorMachine(max_iter=1, tol=1e-300).fit(X, y),
        search,
    ],
)
def test_warnings_point_to_the_users_line(moons, call) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*moons)
    caught = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert caught
    assert {w.filename for w in caught} == {__file__}
    first = inspect.getsourcelines(call)[1]
    assert {w.lineno for w in caught} <= {first, first + 1}


# -- data -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
@pytest.mark.parametrize("estimator", ["SKLRCV", "SKLR", "SparseKLR"])
def test_data_are_validated_once(moons, scoring, kernel, estimator, monkeypatch) -> None:
    X, y = moons
    if kernel == "precomputed":
        X = rbf_kernel(X)
    seen: dict[str, list] = {"validate_data": [], "check_gram": []}
    for name, calls in seen.items():
        original = getattr(_validation, name)

        def counted(*args, original=original, calls=calls, **options):
            calls.append(1)
            return original(*args, **options)

        monkeypatch.setattr(_validation, name, counted)
    model = {
        "SKLRCV": SKLRCV([1, 10], lams=[1], estimator=SKLR(kernel=kernel), scoring=scoring),
        "SKLR": SKLR(kernel=kernel),
        "SparseKLR": SparseKLR(kernel="precomputed" if kernel == "precomputed" else "auto"),
    }[estimator]
    model.fit(X, y)
    assert len(seen["validate_data"]) == 1
    assert len(seen["check_gram"]) == (kernel == "precomputed")


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0], "one number for each of the 2 rows; its shape is \\(1,\\)"),
        ([[1.0], [1.0]], "its shape is \\(2, 1\\)"),
        ([1.0, -2.0], "non-negative; got a weight of -2"),
        ([0.0, 0.0], "all weights are zero"),
        ([1.0, np.nan], "sample_weight contains NaN"),
        (["a", "b"], "could not convert"),
    ],
)
def test_invalid_weights_raise(weight, message) -> None:
    with pytest.raises(ValueError, match=message):
        check_weight(weight, 2)


def test_scalar_sample_weight() -> None:
    np.testing.assert_array_equal(check_weight(3, 2), [3.0, 3.0])


# -- paths ------------------------------------------------------------------------------------


def test_klr_path_has_the_defaults_of_the_estimator() -> None:
    own, estimator = (inspect.signature(function).parameters for function in (klr_path, SKLR))
    shared = set(own) & set(estimator)
    assert {"kernel", "gamma", "degree", "coef0", "tol", "max_iter", "bound", "working_set"} <= shared
    assert {name: own[name].default for name in shared} == {name: estimator[name].default for name in shared}
    with pytest.warns(UserWarning, match="degree=2 has no effect"):
        klr_path(*make_moons(20), Cs=[1], lams=[1], degree=2)


def test_a_path_is_printed_in_a_few_lines(moons) -> None:
    path = klr_path(*moons, Cs=[1, 10, 100], lams=[0, 1])
    text = repr(path)
    assert text == str(path)
    assert len(text.splitlines()) <= 5
    assert "3 values of C (1 to 100) and 2 of lam (0 to 1) on 120 training rows" in text
    assert "relative duality gap: at most" in text
