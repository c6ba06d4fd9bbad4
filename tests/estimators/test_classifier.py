"""SKLR and SparseKLR as scikit-learn estimators."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.standins import PUBLISHED

from sparseklr import SKLR, SKLRCV, CompactKLR, SparseKLR
from sparseklr._base import PointClassifier
from sparseklr.dual import Status, solve_dual
from sparseklr.dual.problem import DualProblem
from sparseklr.dual.smo import solve_above_bound

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(300, noise=0.25, random_state=0)


# Weight equivalence compares two optima to 1e-7: it takes a solve to that accuracy.
@parametrize_with_checks(
    [
        SparseKLR(),
        SparseKLR(C=3.0, kernel="linear", prune=0),
        *(SKLR(C=10, lam=1, tol=1e-12, calibration=one) for one in ("sigmoid", "link", None)),
        SKLR(C=10, lam=0, kernel="linear", tol=1e-12),
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks set max_iter
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


@pytest.mark.parametrize("lam", [0.0, 1.0, "auto"])
def test_matches_solve_dual(moons, lam) -> None:
    X, y = moons
    model = SKLR(C=50.0, lam=lam, gamma=1.0, tol=1e-8, calibration=None).fit(X, y)
    K = rbf_kernel(X, gamma=1.0)
    solution = solve_dual(K, np.where(y == 1, 1, -1), C=50.0, lam=5.0 if lam == "auto" else lam, tol=1e-8)
    np.testing.assert_allclose(model.decision_function(X), solution.decision, atol=1e-5)
    assert model.lam_ == (5.0 if lam == "auto" else lam)
    assert model.converged_
    assert 0 <= model.dual_gap_ < 1e-6
    assert model.kkt_violation_ <= 1e-8 * max(1, model.lam_)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["waveform", "spambase"] if PUBLISHED else ["waveform"])
def test_float32_rows_are_certified_by_the_float64_gram(name: str, benchmark) -> None:
    """Kernel.row_source states: float32 rows cost about 1e-7 times the squared spread in units of the width.

    An error e of the kernel moves each decision value by at most e times the sum of alpha, and the
    violation of the optimality conditions, a difference of two, by at most twice that.
    """
    X, y = (a[::2] for a in benchmark(name))
    C, lam, tol = 1e4, 1e3, 1e-5
    model = SKLR(C=C, lam=lam, gamma=0.5, tol=tol, calibration=None).fit(X, y)
    assert model.converged_
    K, box = rbf_kernel(X, gamma=0.5), np.full(len(y), C)
    error = np.abs(model.kernel_.gram(X) - K).max()
    assert 0 < error <= 1e-6 * max(1.0, 0.5 * ((X - X.mean(axis=0)) ** 2).sum(axis=1).max())
    above = np.zeros(len(y))  # alpha less its bound, which the model leaves out
    above[model.support_] = np.abs(model.dual_coef_[0])
    problem = DualProblem(y, box, 1e-9 * box, lam)
    violation = problem.kkt_violation(above + problem.bound, K @ (above * y))
    assert violation <= tol * lam + 2 * error * above.sum()


def test_sparse_as_an_svm(moons) -> None:
    X, y = moons
    model, svc = (
        SKLR(C=1e5, lam=1e4, gamma=1.0, calibration=None).fit(X, y),
        SVC(C=10, gamma=1.0).fit(X, y),
    )
    assert len(model.support_) <= 1.1 * len(svc.support_)
    assert (model.predict(X) == svc.predict(X)).mean() > 0.99


def test_attributes(moons) -> None:
    X, y = moons
    model = SKLR(calibration=None).fit(X, y)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.dual_coef_.shape == (1, len(model.support_))
    np.testing.assert_array_equal(model.n_support_, np.bincount(y[model.support_]))
    assert (np.sign(model.dual_coef_[0]) == np.where(y[model.support_] == 1, 1, -1)).all()
    assert abs(model.dual_coef_.sum()) < 1e-6 * np.abs(model.dual_coef_).sum()


@pytest.mark.parametrize("estimator", [SparseKLR(), SKLR()])
@pytest.mark.parametrize("labels", [["a", "b", "c"], [3, 7, 11], [True, False]])
def test_any_labels(labels, estimator) -> None:
    X, codes = load_iris(return_X_y=True)
    codes = np.minimum(codes, len(labels) - 1)
    y = np.array(labels)[codes]
    model = clone(estimator).fit(X, y)
    assert model.score(X, y) > 0.95
    assert set(model.classes_) == set(labels)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[model.predict_proba(X).argmax(axis=1)])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


@pytest.mark.filterwarnings("ignore:SparseKLR found no signal")
def test_ten_classes_one_member_each() -> None:
    X = np.arange(10.0)[:, None]
    model = SparseKLR(gamma=1.0).fit(X, list("abcdefghij"))
    assert "".join(model.predict(X)) == "abcdefghij"


@pytest.mark.slow
def test_digits_one_vs_rest() -> None:
    X, y = load_digits(return_X_y=True)
    model = SparseKLR().fit(X[:1000] / 16, y[:1000])
    assert model.score(X[1000:] / 16, y[1000:]) > 0.93
    assert model.dual_coef_.shape[0] == 10


@pytest.mark.parametrize(
    "estimator",
    [
        SparseKLR(tol=1e-8, scale=None, relevance="shared"),
        SKLR(C=10.0, lam=1.0, tol=1e-8, max_iter=200_000),
    ],
)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "laplacian", "sigmoid"])
@pytest.mark.filterwarnings("ignore:kernel='sigmoid' is not positive semidefinite")
def test_every_form_of_a_kernel_gives_the_same_model(moons, kernel, estimator) -> None:
    X, y = moons
    X = X[::3].copy()
    y = y[::3]
    X[np.abs(X) < 0.3] = 0
    parameters = {"gamma": 0.1, "coef0": 0.1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # poly may crawl
        dense = clone(estimator).set_params(kernel=kernel, **parameters).fit(X, y)
        csr = clone(estimator).set_params(kernel=kernel, **parameters).fit(sparse.csr_array(X), y)
        K = dense.kernel_.matrix(X, X)
        callable_ = clone(estimator).set_params(kernel=dense.kernel_.matrix, **parameters).fit(X, y)
        precomputed = clone(estimator).set_params(kernel="precomputed", **parameters).fit(K, y)
    f = dense.decision_function(X)
    close = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(csr.decision_function(sparse.csr_array(X)), f, **close)
    np.testing.assert_allclose(callable_.decision_function(X), f, **close)
    np.testing.assert_allclose(precomputed.decision_function(K), f, **close)
    # prediction needs only the kernel against the kept points
    kept = K[:, precomputed.support_]
    np.testing.assert_allclose(precomputed.decision_function(kept), f, **close)
    np.testing.assert_array_equal(
        precomputed.support_vectors_, K[np.ix_(precomputed.support_, precomputed.support_)]
    )
    # a dense model predicts sparse rows and the other way round
    np.testing.assert_allclose(dense.decision_function(sparse.csr_array(X)), f, **close)
    np.testing.assert_allclose(csr.decision_function(X), f, **close)


@pytest.mark.parametrize("estimator", [SparseKLR(), SKLR(C=100, lam=10)])
def test_float32_stays_float32(moons, estimator) -> None:
    X, y = moons
    model = clone(estimator).fit(X.astype(np.float32), y)
    assert model.support_vectors_.dtype == np.float32
    np.testing.assert_allclose(
        model.decision_function(X.astype(np.float32)), model.decision_function(X), rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("estimator", [SparseKLR(gamma=1.0), SKLR(C=20.0, lam=1.0, gamma=1.0, tol=1e-10)])
def test_weights(moons, estimator) -> None:
    X, y = moons
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = clone(estimator).fit(X, y, sample_weight=weight)
    repeated = clone(estimator).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-7)
    assert (weight[weighted.support_] > 0).all()
    balanced = clone(estimator).set_params(class_weight="balanced").fit(X, y)
    factors = {c: len(y) / (2 * (y == c).sum()) for c in (0, 1)}
    by_hand = clone(estimator).set_params(class_weight=factors).fit(X, y)
    np.testing.assert_array_equal(balanced.dual_coef_, by_hand.dual_coef_)


def test_duplicates_and_constant_features(moons) -> None:
    X, y = moons
    X = np.hstack([np.repeat(X, 2, axis=0), np.full((600, 2), 7.0)])
    assert SparseKLR(gamma=1.0).fit(X, np.repeat(y, 2)).score(X, np.repeat(y, 2)) > 0.9


def test_two_samples() -> None:
    with pytest.warns(UserWarning, match="single observation"):
        model = SparseKLR().fit([[0.0], [1.0]], ["no", "yes"])
    assert list(model.predict([[-1.0], [2.0]])) == ["no", "yes"]


BAD_OF_BOTH = [
    ({"C": 0}, "'C'"),
    ({"kernel": "cubic"}, "'kernel'"),
    ({"gamma": 0}, "'gamma'"),
    ({"tol": 0}, "'tol'"),
    ({"cache_size": 0}, "'cache_size'"),
    ({"n_jobs": 0}, "n_jobs"),
    ({"class_weight": {0: -1, 1: 1}}, "class_weight"),
    ({"kernel": "precomputed"}, "square"),
    ({"kernel": lambda A, B: A}, "shape"),
]
BAD_OF_SKLR = [
    ({"lam": -1}, "'lam'"),
    ({"kernel": "auto"}, "'kernel'"),
    ({"gamma": "auto"}, "'gamma'"),
    ({"max_iter": 0}, "'max_iter'"),
    ({"bound": -1}, "'bound'"),
    ({"bound": 1e5}, "bound"),
    ({"calibration": "refit"}, "'calibration'"),
]
BAD_OF_SPARSE_KLR = [
    ({"C": "loo"}, "'C'"),
    ({"box": 0}, "'box'"),
    ({"prune": -1}, "'prune'"),
]


@pytest.mark.parametrize(
    ("estimator", "parameters", "message"),
    [
        *((SKLR(), *bad) for bad in BAD_OF_BOTH + BAD_OF_SKLR),
        *((SparseKLR(), *bad) for bad in BAD_OF_BOTH + BAD_OF_SPARSE_KLR),
    ],
)
def test_invalid_parameters_leave_the_model_unchanged(moons, estimator, parameters, message) -> None:
    X, y = moons
    model = clone(estimator).fit(X, y)
    before = model.decision_function(X)
    state = {k: v for k, v in vars(model).items() if k.endswith("_")}
    old = {k: model.get_params()[k] for k in parameters}
    with pytest.raises(ValueError, match=message):
        model.set_params(**parameters).fit(X[:, :1], y)
    model.set_params(**old)
    assert all(vars(model)[k] is v for k, v in state.items())
    np.testing.assert_array_equal(model.decision_function(X), before)


@pytest.mark.parametrize(
    ("X", "y", "weight", "message"),
    [
        ([[np.nan], [1.0]], [0, 1], None, "NaN"),
        ([[np.inf], [1.0]], [0, 1], None, "infinity"),
        ([[0.0], [1.0]], [1, 1], None, "class"),
        ([[0.0], [1.0]], [0, 1], [0, 0], "zero"),
        ([[0.0], [1.0]], [0, 1], [1, -1], "[Nn]egative"),
        ([[0.0], [1.0]], [0, 1], [1, 0], "class"),
        ([[0.0], [1.0]], [0.1, 0.7], None, "label type"),
        (
            [[0.0], [1.0]],
            np.array(["a", 1], dtype=object),
            None,
            "only strings or only numbers.* are int, str",
        ),
        (
            [[0.0], [1.0]],
            np.array(["a", None], dtype=object),
            None,
            "the types of its labels are NoneType, str",
        ),
        ([[0.0]], [0, 1], None, "inconsistent"),
    ],
)
@pytest.mark.parametrize("cls", [SKLR, SparseKLR])
def test_invalid_data_raise(cls, X, y, weight, message) -> None:
    model = cls()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sample_weight=weight)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_invalid_precomputed_kernels_raise(moons) -> None:
    X, y = moons
    K = rbf_kernel(X)
    model = SparseKLR(kernel="precomputed").fit(K, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(K[:, : len(model.support_) - 1])
    K[0, 1] += 1
    with pytest.raises(ValueError, match="symmetric"):
        model.fit(K, y)


def test_indefinite_kernel_warns() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 40))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SKLR(C=10, lam=1, kernel="precomputed", max_iter=5000).fit(A + A.T, rng.integers(0, 2, 40))
    assert any("positive semidefinite" in str(w.message) for w in caught)
    assert np.isfinite(model.dual_coef_).all()


def test_warm_start_resumes_the_fit(moons) -> None:
    X, y = moons
    cold = SKLR(C=1e3, lam=1.0, tol=1e-6, calibration=None).fit(X, y)
    model = SKLR(C=1e3, lam=1.0, tol=1e-6, max_iter=200, calibration=None, warm_start=True)
    steps = 0
    while steps < 100:
        steps += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            if model.fit(X, y).converged_:
                break
    assert 1 < steps <= 1.5 * cold.n_iter_ / 200 + 3
    np.testing.assert_allclose(model.decision_function(X), cold.decision_function(X), atol=1e-4)
    assert model.fit(X, y).n_iter_ <= 2  # at the optimum already
    model.set_params(max_iter=-1).fit(X[:50], y[:50])  # another number of rows: a cold start
    csr = SKLR(C=1e3, lam=1.0, tol=1e-6, warm_start=True).fit(sparse.csr_array(X), y)
    assert csr.fit(sparse.csr_array(X), y).n_iter_ <= 0.05 * cold.n_iter_
    K = rbf_kernel(X, gamma=1.0)
    precomputed = SKLR(C=1e3, lam=1.0, tol=1e-6, warm_start=True, kernel="precomputed").fit(K, y)
    assert precomputed.fit(K, y).n_iter_ <= 0.05 * cold.n_iter_


def test_convergence_warning_gives_advice(moons) -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = SKLR(max_iter=5).fit(*moons)
    assert not model.converged_


@pytest.mark.parametrize("cls", [SKLR, SparseKLR])
def test_warning_of_a_stalled_solver_does_not_advise_more_steps(moons, monkeypatch, cls) -> None:
    def stalled(*args, **options):
        return replace(solve_above_bound(*args, **options), status=Status.STALLED)

    monkeypatch.setattr("sparseklr.dual.one_vs_rest.solve_above_bound", stalled)
    with pytest.warns(ConvergenceWarning, match=r"Raise tol or scale the features\.$") as caught:
        model = cls().fit(*moons)
    assert not model.converged_
    assert not [w for w in caught if "max_iter" in str(w.message) or "warm_start" in str(w.message)]


@pytest.mark.slow
def test_deterministic_and_independent_of_threads_and_cache(benchmark) -> None:
    X, y = benchmark("ring")
    X, y = X[:3000], y[:3000]
    reference = SKLR(C=100, lam=1, gamma=0.5, calibration=None).fit(X, y)
    for changed in ({}, {"n_jobs": 2}, {"cache_size": 0.01}, {"cache_size": 3000}):
        model = SKLR(C=100, lam=1, gamma=0.5, calibration=None, **changed).fit(X, y)
        np.testing.assert_array_equal(model.dual_coef_, reference.dual_coef_)
        np.testing.assert_allclose(model.decision_function(X), reference.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("cls", [SKLR, SparseKLR])
def test_persistence(moons, tmp_path, cls) -> None:
    X, y = moons
    model = cls().fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    assert len(pickle.dumps(model)) < 20_000 + 3 * model.support_vectors_.nbytes
    assert not hasattr(clone(model), "dual_coef_")


def test_pandas_pipeline_search(moons) -> None:
    X, y = moons
    frame = pd.DataFrame(X, columns=["left", "right"])
    model = SparseKLR().fit(frame, y)
    assert list(model.feature_names_in_) == ["left", "right"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["right", "left"]])
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), SparseKLR())
    search = GridSearchCV(pipeline, {"sparseklr__C": [10, 1000]}, cv=3, scoring="neg_log_loss").fit(frame, y)
    assert -search.best_score_ < 0.6
    K = rbf_kernel(X)
    assert cross_val_score(SparseKLR(kernel="precomputed"), K, y, cv=3).mean() > 0.8


def test_predict_is_the_most_probable_class_up_to_rounding() -> None:
    """Rounding may order two outputs differently from their probabilities."""

    class GivenOutputs(PointClassifier):
        classes_ = np.arange(3)

        def _outputs(self, X: np.ndarray) -> np.ndarray:
            return X

    first = np.random.default_rng(0).normal(size=10_000)
    rows, model = np.column_stack([first, np.nextafter(first, -np.inf), first - 1]), GivenOutputs()
    P = model.predict_proba(rows)
    np.testing.assert_array_equal(P[np.arange(len(P)), model.predict(rows)], P.max(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator", [SparseKLR(), CompactKLR(max_points=1), SKLR(), SKLRCV(Cs=[10.0], cv=2)]
)
def test_nullable_labels_of_pandas_keep_their_kind(estimator) -> None:
    """scikit-learn would convert them to floats. Missing labels and objects raise, as in scikit-learn."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = X[:, 0] > 0
    for dtype, kind in {"Int64": "i", "UInt8": "u", "boolean": "b", "bool[pyarrow]": "b"}.items():
        labels = pd.Series(y, dtype=bool).astype(dtype)
        for given in (labels, labels.array):
            model = clone(estimator).fit(X, given)
            assert model.classes_.dtype.kind == kind
            assert model.classes_.tolist() == [0, 1]
            assert model.predict(X).dtype.kind == kind
            assert (model.predict(X) == y).mean() > 0.9
    with pytest.raises(ValueError, match="NaN"):
        clone(estimator).fit(X, pd.Series([None, *y[1:]], dtype="boolean"))
    with pytest.raises(ValueError, match="Unknown label type"):
        clone(estimator).fit(X, y.astype(object))
