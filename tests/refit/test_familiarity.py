"""Familiarity, deviations and moderated probabilities: definitions, and behaviour far from the data."""

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

from sparseklr import CompactKLR, SparseKLR, load, save
from sparseklr.refit.posterior import Span

pytestmark = pytest.mark.numerical

X, Y = make_moons(300, noise=0.25, random_state=0)
NEW, _ = make_moons(2000, noise=0.25, random_state=1)
FAR = np.array([[9.0, 9.0], [-7.0, 4.0]])
# one rbf kernel of the features as they are
PLAIN = {"kernel": "rbf", "scale": None, "relevance": "shared"}


@pytest.fixture(scope="module")
def model() -> SparseKLR:
    return SparseKLR().fit(X, Y)


# -- familiarity ------------------------------------------------------------------------------


def test_explained_fractions_are_those_of_the_projection() -> None:
    points, gamma = X[:30], 0.7
    span = Span(rbf_kernel(points, gamma=gamma))
    K, k = rbf_kernel(points, gamma=gamma) + 1e-8 * np.eye(30), rbf_kernel(NEW[:50], points, gamma=gamma)
    expected = (k * np.linalg.solve(K, k.T).T).sum(axis=1)
    np.testing.assert_allclose(span.explained(k, np.ones(50)) / 1e6, expected, atol=1e-6)
    for left_out in (0, 17):
        rest = np.delete(np.arange(30), left_out)
        own = k_of = rbf_kernel(points, gamma=gamma)[left_out, rest]
        expected = own @ np.linalg.solve(K[np.ix_(rest, rest)], k_of)
        assert span.explained_by_others()[left_out] / 1e6 == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        SparseKLR(),
        SparseKLR(prune=0, box=0.1),
        SparseKLR(kernel="laplacian"),
        CompactKLR(8, C=10.0),
    ],
    ids=str,
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
    np.testing.assert_array_equal(weighted._reference_, repeated._reference_)
    np.testing.assert_array_equal(weighted.familiarity(NEW), repeated.familiarity(NEW))


def test_sparse_rows_and_many_points() -> None:
    dense = SparseKLR(**PLAIN, box=0.01, prune=0).fit(X, Y)
    rows = SparseKLR(**PLAIN, box=0.01, prune=0).fit(sparse.csr_array(X), Y)
    np.testing.assert_allclose(rows.familiarity(sparse.csr_array(NEW)), dense.familiarity(NEW), atol=0.003)
    many, labels = make_moons(1200, noise=0.25, random_state=2)
    thirds = labels + (many[:, 0] > 1)
    narrow = SparseKLR(C=10.0, box=0.01, prune=0, gamma=300.0).fit(many, thirds)
    assert len(narrow.support_) == 1000  # the size of the largest label-free basis of three classes
    assert abs((narrow.familiarity(NEW) <= 0.05).mean() - 0.05) < 0.03
    float32 = SparseKLR().fit(X.astype(np.float32), Y)
    assert (float32.familiarity(FAR.astype(np.float32)) < 0.01).all()


def test_familiarity_raises_if_undefined() -> None:
    K = rbf_kernel(X)
    precomputed = SparseKLR(kernel="precomputed").fit(K, Y)
    for call in (precomputed.familiarity, lambda K: precomputed.decision_function(K, return_std=True)):
        with pytest.raises(ValueError, match="does not provide"):
            call(K)
    model = SparseKLR().fit(X, Y)
    model._reference_ = None  # as of an indefinite kernel matrix of the points
    with pytest.raises(ValueError, match="not positive semidefinite"):
        model.familiarity(X)
    with pytest.raises(np.linalg.LinAlgError):
        Span(np.array([[1.0, 2.0], [2.0, 1.0]]))
    linear = SparseKLR(kernel="linear", prune=0).fit(X, Y)
    assert (linear.familiarity(FAR) == 1).all()  # two points explain every row
    constant = CompactKLR().fit(np.zeros_like(X), Y)
    assert (constant.familiarity(X) == 1).all()
    for blank in (SparseKLR(), CompactKLR()):
        with pytest.raises(NotFittedError):
            blank.familiarity(X)


# -- deviations -------------------------------------------------------------------------------


def test_deviations_are_those_of_the_gaussian_process() -> None:
    """If all points are kept, they equal Laplace's approximation computed in function space."""
    rows, labels, C = X[:60], Y[:60], 3.0
    model = SparseKLR(C, **PLAIN, box=1e-3, prune=0, gamma=0.5).fit(rows, labels)
    assert model.n_selected_ == 60
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
    assert std[-1] ** 2 >= model.C_[0] * model.slope_[0] ** 2 * 0.99  # nothing is left but the prior
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


def test_missing_posterior_raises(model) -> None:
    short = SparseKLR().fit(X, Y).keep_prediction_only()
    with pytest.raises(AttributeError, match="dropped the posterior"):
        short.predict_proba(X, moderated=True)
    with pytest.raises(AttributeError, match="dropped the posterior"):
        short.decision_function(X, return_std=True)
    np.testing.assert_array_equal(short.familiarity(X), model.familiarity(X))
    with pytest.warns(UserWarning, match="no signal"):
        constant = SparseKLR().fit(np.zeros((20, 2)), Y[:20])
    assert np.isfinite(constant.decision_function(X, return_std=True)[1]).all()


# -- on first use -------------------------------------------------------------------------------


def test_the_reference_is_computed_on_first_use(tmp_path) -> None:
    X, y = make_moons(300, noise=0.3, random_state=0)
    fitted = [SparseKLR().fit(X, y) for _ in range(6)]
    assert all("_reference_" not in vars(model) for model in fitted)
    expected = fitted[0].familiarity(NEW)
    assert "_reference_" in vars(fitted[0])
    for model in fitted[:2]:  # after and before the first use
        copies = [pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)]
        save(model, tmp_path / "m.sklr")
        for same in (*copies, load(tmp_path / "m.sklr")):
            np.testing.assert_array_equal(same.familiarity(NEW), expected)
    sizes = []
    for model in fitted[:3:2]:
        save(model, tmp_path / "m.sklr")
        sizes.append((tmp_path / "m.sklr").stat().st_size)
    assert abs(sizes[0] - sizes[1]) < 100
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: fitted[3].familiarity(NEW), range(8)):
            np.testing.assert_array_equal(found, expected)
    kept = X.copy()
    X[:] = 0  # the rows of the user may change
    np.testing.assert_array_equal(fitted[4].familiarity(NEW), expected)
    other = fitted[5].fit(kept[:100], y[:100])  # a second fit does not use rows of the first
    np.testing.assert_array_equal(
        other.familiarity(NEW), SparseKLR().fit(kept[:100], y[:100]).familiarity(NEW)
    )


# -- what moderation promises -------------------------------------------------------------------


def test_predict_and_moderated_probabilities() -> None:
    """Moderation keeps the most probable class, as documented."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(150, 2))
    far = 3 * draw.normal(size=(5000, 2))
    y = np.argmax(X @ draw.normal(size=(2, 4)) + 0.5 * draw.normal(size=(150, 4)), axis=1)
    for labels in (y, y > 1):
        model = SparseKLR().fit(X, labels)
        predicted = model.predict(far)
        np.testing.assert_array_equal(predicted, model.classes_[model.predict_proba(far).argmax(axis=1)])
        moderated = model.predict_proba(far, moderated=True)
        np.testing.assert_allclose(moderated.sum(axis=1), 1)
        largest = moderated[np.arange(len(far)), np.searchsorted(model.classes_, predicted)]
        np.testing.assert_allclose(largest, moderated.max(axis=1), rtol=1e-12)
    assert "does not change the order" in SparseKLR.predict_proba.__doc__
