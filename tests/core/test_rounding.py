"""Features that differ only by rounding, as if scaled on another machine, give the same model."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import make_moons

from sparseklr import CompactKLR, SparseKLR
from sparseklr.datasets import make_ringnorm
from sparseklr.kernels import Kernel
from sparseklr.samples import DistinctPoints, Samples, shuffled_keys

pytestmark = pytest.mark.numerical


def codes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Small integers with many equal rows, and labels given by a rule of several features."""
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 5, size=(n, 6)).astype(float)
    return X, ((X == 1).sum(axis=1) == 2).astype(int)


def standardised(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same numbers, standardised with sums in two orders, so that they differ by rounding."""
    by_rows = (X - X.mean(axis=0)) / X.std(axis=0)
    columns = [(x - np.add.reduce(x[::-1]) / len(x)) / np.sqrt(np.mean((x - x.mean()) ** 2)) for x in X.T]
    return by_rows, np.column_stack(columns)


def test_keys_ignore_rounding() -> None:
    X = codes(500, 0)[0]
    one, other = standardised(X)
    other = np.where(abs(other) < 1e-9, 1e-17, other) * (1 + 3e-16)
    assert (one != other).any()
    assert_array_equal(np.argsort(shuffled_keys(one, 0)), np.argsort(shuffled_keys(other, 0)))


def test_keys_of_distinct_rows_differ() -> None:
    X = np.array([[1.0, 2.0], [1.0 + 1e-12, 2.0], [1.0, 2.0], [3.0, 0.0]])
    keys = shuffled_keys(X, 5)
    assert keys[0] == keys[2]
    assert len(np.unique(keys)) == 3
    assert_array_equal(shuffled_keys(sparse.csr_array(X), 5), keys)
    twice = sparse.csr_matrix(([1.0, 1.0, 1.0], [0, 1, 1], [0, 3, 3]), shape=(2, 2))  # 2 given as 1 + 1
    assert_array_equal(shuffled_keys(twice, 5), shuffled_keys(twice.toarray(), 5))
    assert twice.nnz == 3


def test_keys_of_many_rows_that_are_equal_when_rounded() -> None:
    """One value that is far larger than all others rounds these to zero."""
    x = np.append(np.random.default_rng(0).normal(size=60_000), 1e12)
    keys = shuffled_keys(np.append(x, x[:100])[:, None], 0)
    assert len(np.unique(keys)) == len(x)
    assert_array_equal(keys[len(x) :], keys[:100])


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1.0, 1e200, 1e308])
def test_keys_of_any_size(scale: float) -> None:
    X = np.array([[0.5], [1.0], [-1.0], [0.5]]) * scale
    keys = shuffled_keys(X, 0)
    assert keys[0] == keys[3]
    assert len(np.unique(keys)) == 3


@pytest.mark.parametrize("n", [400, 1800])
@pytest.mark.parametrize("data", ["moons", "ring"])
def test_sparse_klr_is_the_same_model(data: str, n: int) -> None:
    X, y = make_moons(n, noise=0.3, random_state=1) if data == "moons" else make_ringnorm(n, random_state=1)
    one, other = standardised(X)
    first, second = SparseKLR().fit(one, y), SparseKLR().fit(other, y)
    assert first.C_ == second.C_
    assert_allclose(second.predict_proba(other), first.predict_proba(one), atol=1e-3)
    assert_allclose(second.loo_log_loss_, first.loo_log_loss_, rtol=1e-3)


def test_compact_klr_is_the_same_model() -> None:
    X, y = make_moons(400, noise=0.3, random_state=1)
    one, other = standardised(X)
    models = [CompactKLR(n_points=4, C=1.0).fit(rows, y) for rows in (one, other)]
    assert_allclose(models[1].predict_proba(other), models[0].predict_proba(one), atol=1e-3)


def test_repeated_rows_are_merged() -> None:
    X, y = codes(50, 0)
    rows = Samples(X, y, np.unique(y), np.ones(50), np.arange(50), 50, Kernel("rbf", gamma=1.0))
    assert len(DistinctPoints.of(rows.part(np.r_[:50, :5]))) == len(np.unique(X, axis=0))
