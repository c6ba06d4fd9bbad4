"""Kernel values of the core against scikit-learn, in every storage."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from sparseklr.kernels import NAMED_KERNELS, Kernel, cache_bytes, check_gram

pytestmark = pytest.mark.numerical

PARAMETERS = {
    "linear": {},
    "poly": {"gamma": 0.3, "coef0": 0.5, "degree": 2.5},
    "rbf": {"gamma": 0.3},
    "laplacian": {"gamma": 0.3},
    "sigmoid": {"gamma": 0.3, "coef0": 0.5},
}


def points(n: int, seed: int, share: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.abs(rng.normal(size=(n, 7))) * (rng.random((n, 7)) < share)


@pytest.mark.parametrize("name", NAMED_KERNELS)
@pytest.mark.parametrize("form", ["dense", "csr32", "csr64"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (37, 23), (16, 130)])
def test_values(name: str, form: str, dtype: type, n: int, m: int) -> None:
    X, Y = points(n, 0, 0.6).astype(dtype), points(m, 1, 0.6).astype(dtype)
    expected = pairwise_kernels(X.astype(float), Y.astype(float), metric=name, **PARAMETERS[name])
    if form != "dense":
        index = np.int64 if form == "csr64" else np.int32
        X, Y = sparse.csr_array(X), sparse.csr_array(Y)
        for A in (X, Y):
            A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
    kernel = Kernel(name, **PARAMETERS[name])
    tolerance = 1e-13 if dtype == np.float64 else 2e-5
    values = kernel.matrix(X, Y)
    assert values.dtype == dtype
    np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
    coef = np.random.default_rng(2).normal(size=(3, m))
    np.testing.assert_allclose(
        kernel.sum(X, Y, coef), expected @ coef.T, rtol=50 * tolerance, atol=50 * tolerance
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_distance_of_equal_rows_is_zero(name, make, dtype) -> None:
    """At this gamma any rounding error would be visible, for instance from fused operations."""
    X = make((1000 + np.random.default_rng(0).normal(size=(50, 30))).astype(dtype))
    assert (np.diag(Kernel(name, 1e12).matrix(X, X)) == 1).all()


def test_float32_error_bound() -> None:
    """The error is the one that Kernel.row_source states: about 1e-7 times gamma times the squared spread."""
    X = np.random.default_rng(0).random((3000, 20))
    gamma = 0.5
    spread = gamma * ((X - 0.5) ** 2).sum(axis=1).max()
    values = Kernel("rbf", gamma).matrix(X[:50].astype(np.float32), X.astype(np.float32))
    exact = pairwise_kernels(
        X[:50].astype(np.float32).astype(float), X.astype(np.float32).astype(float), metric="rbf", gamma=gamma
    )
    assert np.abs(values - exact).max() <= 1e-6 * max(1.0, spread)


@pytest.mark.parametrize("gamma", ["scale", 0.7])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_gamma_as_in_svc(gamma, make) -> None:
    X = make(points(40, 0, 0.5))
    y = np.arange(40) % 2
    svc = SVC(gamma=gamma).fit(X, y)
    assert Kernel.resolve("rbf", X, gamma=gamma).gamma == pytest.approx(svc._gamma)
    assert Kernel.resolve("rbf", np.ones((3, 2)), gamma="scale").gamma == 1.0


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_threads_change_nothing(make) -> None:
    X = make(points(700, 0, 0.5))
    kernel = Kernel("rbf", 0.5)
    coef = np.random.default_rng(0).normal(size=(1, 700))
    np.testing.assert_array_equal(kernel.sum(X, X, coef, n_jobs=1), kernel.sum(X, X, coef, n_jobs=2))
    np.testing.assert_array_equal(kernel.matrix(X, X, n_jobs=1), kernel.matrix(X, X, n_jobs=2))


def test_mixed_storage() -> None:
    X, Y = points(20, 0, 0.5), points(30, 1, 0.5)
    kernel = Kernel("rbf", 0.5)
    np.testing.assert_allclose(kernel.matrix(sparse.csr_array(X), Y), kernel.matrix(X, Y), atol=1e-14)


def test_callable_and_precomputed() -> None:
    X, Y = points(20, 0), points(30, 1)
    kernel = Kernel(lambda A, B: A @ B.T)
    np.testing.assert_allclose(kernel.matrix(X, Y), X @ Y.T)
    np.testing.assert_allclose(kernel.sum(X, Y, np.ones((1, 30)))[:, 0], (X @ Y.T).sum(axis=1))
    with pytest.raises(ValueError, match="shape"):
        Kernel(lambda A, B: A).matrix(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        Kernel(lambda A, B: np.full((20, 30), np.nan)).matrix(X, Y)
    for returned in (sparse.csr_array(X @ Y.T), [[1.0, 2.0], [3.0]], 1j * (X @ Y.T), "rbf", None):
        with pytest.raises(ValueError, match=r"kernel\(X, Y\) must return a dense array of real numbers"):
            Kernel(lambda A, B, returned=returned: returned).matrix(X, Y)
    assert Kernel("precomputed").sum(X @ Y.T, None, np.ones((1, 30))).shape == (20, 1)


def test_cache_of_any_size() -> None:
    assert cache_bytes(0.5) == 2**19
    assert cache_bytes(5000) == 5000 * 2**20
    assert 0 < cache_bytes("auto") <= 256 << 20
    assert cache_bytes("auto", sparse.csr_array((9, 5))) >= cache_bytes("auto", np.ones((9, 5)))


def test_check_gram_tolerates_rounding_only() -> None:
    K = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)
    K = K @ K.T
    check_gram(K)
    K[1, 290] += 1
    with pytest.raises(ValueError, match="symmetric"):
        check_gram(K)


@pytest.mark.slow
def test_baseline_loops_agree_with_the_wide_ones() -> None:
    """The fit gives the same result in processes that are restricted to fewer instructions."""
    script = (
        "import numpy as np; from sparseklr import SparseKLR, _core; rng = np.random.default_rng(0);"
        "X = rng.normal(size=(300, 5)); y = X[:, 0] + rng.normal(size=300) > 0;"
        "m = SparseKLR(tol=1e-8).fit(X, y); print(_core.instruction_set); "
        "print(*m.decision_function(X[:5]))"
    )
    values = []
    for choice in ("baseline", "x86-64-v3", ""):
        run = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"SPARSEKLR_SIMD": choice},
        )
        name, numbers = run.stdout.strip().splitlines()
        values.append((name, np.array(numbers.split(), dtype=float)))
    assert values[0][0] == "baseline"
    assert values[1][0] in ("baseline", "x86-64-v3")  # what this processor has
    assert values[2][0] in ("baseline", "x86-64-v3", "x86-64-v4")
    for _, numbers in values[1:]:
        np.testing.assert_allclose(values[0][1], numbers, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_gram_is_in_the_precision_of_the_rows() -> None:
    X = np.random.default_rng(0).normal(5, 1, size=(2100, 3))
    kernel = Kernel("rbf", 0.5)
    K = kernel.gram(X)
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, pairwise_kernels(X, metric="rbf", gamma=0.5), atol=2e-6)
    assert kernel.gram(X[:50]).dtype == np.float64
    assert kernel.gram(X, cache_size=16) is None
    assert Kernel("precomputed").gram(K) is K
    assert Kernel(lambda A, B: A @ B.T).gram(X[:9]).shape == (9, 9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [30.0, 2000.0, 1e5])
def test_distances_far_from_the_origin(name: str, dtype: type, offset: float) -> None:
    """Sparse rows with a column of large numbers, as years are, and two groups of rows far apart."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 4)) * (rng.random((2100, 4)) < [1, 1, 0.5, 0.1])
    X[:, 0] += offset
    X[1500:, 1] += 30
    X = X.astype(dtype)
    kernel, exact = Kernel(name, gamma=0.5), X.astype(np.float64)
    distance = sum(np.abs(a[:, None] - a) ** (2 if name == "rbf" else 1) for a in exact.T)
    expected = np.exp(-0.5 * distance)
    for rows in (X, sparse.csr_array(X)):
        np.testing.assert_allclose(kernel.gram(rows), expected, rtol=0, atol=4e-5)
        np.testing.assert_allclose(kernel.matrix(rows, sparse.csr_array(X)), expected, rtol=0, atol=4e-5)


@pytest.mark.parametrize("scale", [1e20, 1e-24])
def test_the_width_of_float32_rows_is_computed_in_double(scale: float) -> None:
    X = (np.random.default_rng(0).normal(size=(50, 3)) * scale).astype(np.float32)
    dense, csr = (Kernel.resolve("rbf", rows).gamma for rows in (X, sparse.csr_array(X)))
    assert dense == pytest.approx(1 / (3 * X.astype(np.float64).var()), rel=1e-6)
    assert csr == pytest.approx(dense, rel=1e-6)
