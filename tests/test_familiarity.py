"""Familiarity, deviations and moderated probabilities: against their definitions, and far from the data."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from sparseklr import CompactKLR, SparseKLR, SparseKLRCV, load, save
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR
from sparseklr.probability.familiarity import Span

pytestmark = pytest.mark.numerical

X, Y = make_moons(300, noise=0.25, random_state=0)
NEW, _ = make_moons(2000, noise=0.25, random_state=1)
FAR = np.array([[9.0, 9.0], [-7.0, 4.0]])


@pytest.fixture(scope="module")
def model() -> SparseKLR:
    return SparseKLR().fit(X, Y)


# -- familiarity ------------------------------------------------------------------------------


def test_shares_are_those_of_the_projection() -> None:
    points, gamma = X[:30], 0.7
    span = Span(rbf_kernel(points, gamma=gamma))
    K, k = rbf_kernel(points, gamma=gamma) + 1e-8 * np.eye(30), rbf_kernel(NEW[:50], points, gamma=gamma)
    expected = (k * np.linalg.solve(K, k.T).T).sum(axis=1)
    np.testing.assert_allclose(span.shares(k, np.ones(50)) / 1e6, expected, atol=1e-6)
    for left_out in (0, 17):
        rest = np.delete(np.arange(30), left_out)
        own = k_of = rbf_kernel(points, gamma=gamma)[left_out, rest]
        expected = own @ np.linalg.solve(K[np.ix_(rest, rest)], k_of)
        assert span.shares_left_out()[left_out] / 1e6 == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        SparseKLR(),
        SparseKLR(C=10, lam=1, calibration=None),
        SparseKLR(kernel="laplacian"),
        SparseKLRCV(Cs=[100]),
        CompactKLR(8, C=10.0),
        HalfKLR(),
        ImportVectorMachine(),
        ThresholdedKLR(n_points=30),
    ],
    ids=lambda one: type(one).__name__,
)
def test_new_rows_are_as_familiar_as_training_rows_and_far_ones_are_not(estimator) -> None:
    found = estimator.fit(X, Y).familiarity(NEW)
    # the share below a level is a binomial one of 300 training and 2000 new rows: 4 standard errors
    for level in (0.05, 0.3, 0.7):
        error = np.sqrt(level * (1 - level) * (1 / 300 + 1 / 2000))
        assert (found <= level).mean() - level < 4 * error + 0.01
        if level < 1 - (found == 1).mean():  # rows that are explained to a millionth are all at the top
            assert level - (found <= level).mean() < 4 * error + 0.01
    assert (estimator.familiarity(FAR) <= 0.002).all()


def test_weights_are_repetitions_and_the_order_does_not_matter() -> None:
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    weighted = SparseKLR().fit(X, Y, sample_weight=weight)
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(X)), weight))
    repeated = SparseKLR().fit(X[order], Y[order])
    np.testing.assert_array_equal(weighted._reference, repeated._reference)
    np.testing.assert_array_equal(weighted.familiarity(NEW), repeated.familiarity(NEW))


def test_sparse_rows_and_many_points() -> None:
    dense = SparseKLR(C=1, lam=0, calibration=None).fit(X, Y)  # keeps all
    rows = SparseKLR(C=1, lam=0, calibration=None).fit(sparse.csr_array(X), Y)
    np.testing.assert_allclose(rows.familiarity(sparse.csr_array(NEW)), dense.familiarity(NEW), atol=0.003)
    many, labels = make_moons(900, noise=0.25, random_state=2)
    all_kept = SparseKLR(C=1, lam=0, calibration=None, gamma=30.0).fit(many, labels)
    assert len(all_kept.support_) > 700
    assert abs((all_kept.familiarity(NEW) <= 0.05).mean() - 0.05) < 0.03
    float32 = SparseKLR().fit(X.astype(np.float32), Y)
    assert (float32.familiarity(FAR.astype(np.float32)) < 0.01).all()


def test_where_there_is_no_familiarity(model) -> None:
    K = rbf_kernel(X)
    precomputed = SparseKLR(kernel="precomputed").fit(K, Y)
    for call in (precomputed.familiarity, lambda K: precomputed.decision_function(K, return_std=True)):
        with pytest.raises(ValueError, match="does not tell k"):
            call(K)
    indefinite = SparseKLR(C=1, lam=0, calibration=None, kernel=lambda A, B: -rbf_kernel(A, B), max_iter=5)
    with pytest.warns(UserWarning, match="max_iter"):
        indefinite.fit(X, Y)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        indefinite.familiarity(X)
    linear = SparseKLR(kernel="linear").fit(X, Y)
    assert (linear.familiarity(FAR) == 1).all()  # two points explain every row
    constant = CompactKLR().fit(np.zeros_like(X), Y)
    assert (constant.familiarity(X) == 1).all()
    for blank in (SparseKLR(), CompactKLR(), SparseKLRCV()):
        with pytest.raises(NotFittedError):
            blank.familiarity(X)


# -- deviations -------------------------------------------------------------------------------


def test_deviations_are_those_of_the_gaussian_process() -> None:
    """With all points kept: Laplace's approximation, computed in function space instead of in coordinates."""
    rows, labels, C = X[:60], Y[:60], 3.0
    model = SparseKLR(C=1, lam=0, C_refit=C, prune=0, gamma=0.5).fit(rows, labels)
    f, std = model.decision_function(NEW[:40], return_std=True)
    np.testing.assert_array_equal(f, model.decision_function(NEW[:40]))
    flat = 1e5  # the variance of the intercept, which has no prior

    def prior(A, B):
        return C * rbf_kernel(A, B, gamma=0.5) + flat

    p = expit(model.decision_function(rows))
    k = prior(NEW[:40], rows)
    explained = (k * np.linalg.solve(prior(rows, rows) + np.diag(1 / (p * (1 - p))), k.T).T).sum(axis=1)
    # points that move f by less than .03 deviations of the prior are not in the basis of the refit
    np.testing.assert_allclose(std**2, C + flat - explained, atol=5 * 0.03**2 * C)


def test_deviations_grow_away_from_the_data(model) -> None:
    line = np.array([0.5, 0.25]) + np.outer(np.linspace(0, 12, 9), [1.0, 1.0])
    _, std = model.decision_function(line, return_std=True)
    assert (np.diff(std[1:]) > -1e-9).all()
    assert (
        std[-1] ** 2 >= model.C_refit_[0] * model.slope_refit_[0] ** 2 * 0.99
    )  # nothing is left but the prior
    iris = SparseKLR().fit(*load_iris(return_X_y=True))
    f, std = iris.decision_function(load_iris().data[:7], return_std=True)
    assert f.shape == std.shape == (7, 3)
    assert (std > 0).all()


def test_moderated_probabilities(model) -> None:
    plain, moderated = model.predict_proba(NEW), model.predict_proba(NEW, moderated=True)
    np.testing.assert_allclose(moderated.sum(axis=1), 1)
    np.testing.assert_array_equal(moderated.argmax(axis=1), plain.argmax(axis=1))
    assert (np.abs(moderated - 0.5) <= np.abs(plain - 0.5) + 1e-12).all()
    same = np.isclose(moderated[:, 1], plain[:, 1], atol=1e-12).mean()
    assert 0.8 < same < 0.97  # as nine tenths of the training rows
    near = np.array([[2.6, 2.0]])  # outside, where f has not yet come down to the intercept
    assert model.predict_proba(near, moderated=True).max() < model.predict_proba(near).max() - 0.01
    iris = SparseKLR().fit(*load_iris(return_X_y=True))
    assert iris.predict_proba(load_iris().data, moderated=True).sum() == pytest.approx(150)


def test_what_needs_the_posterior_says_so(model) -> None:
    dual = SparseKLR(calibration=None).fit(X, Y)
    compacted = SparseKLR().fit(X, Y).compact()
    for one in (dual, compacted):
        with pytest.raises(AttributeError, match="no posterior"):
            one.predict_proba(X, moderated=True)
        assert one.familiarity(X).shape == (300,)
    search = SparseKLRCV(Cs=[100]).fit(X, Y)
    _, std = search.decision_function(X[:3], return_std=True)
    np.testing.assert_array_equal(std, search.best_estimator_.decision_function(X[:3], return_std=True)[1])
    assert search.predict_proba(X[:3], moderated=True).shape == (3, 2)
    constant = SparseKLR().fit(np.zeros((20, 2)), Y[:20])
    assert np.isfinite(constant.decision_function(X, return_std=True)[1]).all()


# -- on first use -------------------------------------------------------------------------------


def test_the_reference_is_computed_on_first_use(tmp_path) -> None:
    X, y = make_moons(300, noise=0.3, random_state=0)
    fitted = [SparseKLR(calibration=None).fit(X, y) for _ in range(6)]
    assert all("_reference" not in vars(model) for model in fitted)
    expected = fitted[0].familiarity(NEW)
    assert "_reference" in vars(fitted[0])
    assert not vars(fitted[0])["_waiting"]  # the training rows are let go
    for model in fitted[:2]:  # after and before the first use
        copies = [pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)]
        save(model, tmp_path / "m.skops")
        for same in (*copies, load(tmp_path / "m.skops")):
            assert "_waiting" not in vars(same)
            np.testing.assert_array_equal(same.familiarity(NEW), expected)
    sizes = []
    for model in fitted[:3:2]:
        save(model, tmp_path / "m.skops")
        sizes.append((tmp_path / "m.skops").stat().st_size)
    assert abs(sizes[0] - sizes[1]) < 100
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: fitted[3].familiarity(NEW), range(8)):
            np.testing.assert_array_equal(found, expected)
    kept = X.copy()
    X[:] = 0  # the rows of the user may change
    np.testing.assert_array_equal(fitted[4].familiarity(NEW), expected)
    other = fitted[5].fit(kept[:100], y[:100])  # a second fit does not use rows of the first
    np.testing.assert_array_equal(
        other.familiarity(NEW), SparseKLR(calibration=None).fit(kept[:100], y[:100]).familiarity(NEW)
    )


# -- what moderation promises -------------------------------------------------------------------


def test_predict_and_moderated_probabilities() -> None:
    """Two classes: the same most probable class. More: that of the plain probabilities, as documented."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(150, 2))
    far = 3 * draw.normal(size=(5000, 2))
    y = np.argmax(X @ draw.normal(size=(2, 4)) + 0.5 * draw.normal(size=(150, 4)), axis=1)
    differ = {}
    for labels in (y, y > 1):
        model = SparseKLR().fit(X, labels)
        predicted = model.predict(far)
        np.testing.assert_array_equal(predicted, model.classes_[model.predict_proba(far).argmax(axis=1)])
        moderated = model.predict_proba(far, moderated=True)
        np.testing.assert_allclose(moderated.sum(axis=1), 1)
        largest = moderated[np.arange(len(far)), np.searchsorted(model.classes_, predicted)]
        differ[len(model.classes_)] = (largest < moderated.max(axis=1)).mean()
    assert differ[2] == 0
    assert 0 < differ[4] < 0.1
    assert "it need not" in SparseKLR.predict_proba.__doc__
