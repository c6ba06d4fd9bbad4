"""Sparse matrices with invalid indices, which SciPy does not check."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sparseklr import SKLR, SKLRCV, CompactKLR, SparseKLR, klr_path
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR, half_klr_path
from sparseklr.streaming import ArraySource

Y = np.arange(20) % 2


def broken(form: str, part: str, index: int, value: int) -> sparse.spmatrix:
    """A valid 20 x 6 matrix in which one number is then changed."""
    X = sparse.csr_matrix(np.random.default_rng(0).normal(size=(20, 6))).asformat(form)
    getattr(X, part)[index] = value
    return X


def cut() -> sparse.csr_matrix:
    X = broken("csr", "indptr", 0, 0)
    X.indptr = X.indptr[:-1]
    return X


BROKEN = {
    "column beyond": (
        lambda: broken("csr", "indices", 2, 900),
        "column index 900 is out of range for 6 columns",
    ),
    "column just beyond": (
        lambda: broken("csr", "indices", 2, 6),
        "column index 6 is out of range for 6 columns",
    ),
    "negative column": (
        lambda: broken("csr", "indices", 2, -1),
        "column index -1 is out of range for 6 columns",
    ),
    "row of CSC": (lambda: broken("csc", "indices", 2, 20), "row index 20 is out of range for 20 rows"),
    "block of BSR": (lambda: broken("bsr", "indices", 0, 900), "column index 900"),
    "row of COO": (lambda: broken("coo", "row", 0, 20), "row index 20 is out of range for 20 rows"),
    "column of COO": (lambda: broken("coo", "col", 0, 6), "column index 6 is out of range for 6 columns"),
    "beyond the entries": (lambda: broken("csr", "indptr", -1, 500), "X.indptr must be 21 .* at most 120"),
    "decreasing": (lambda: broken("csr", "indptr", 3, 90), "X.indptr must be 21 ascending"),
    "not from zero": (lambda: broken("csr", "indptr", 0, -3), "X.indptr must be 21 ascending .* from 0"),
    "too short": (cut, "X.indptr must be 21"),
}
ESTIMATORS = [
    SparseKLR(),
    SparseKLR(kernel="auto", gamma="auto"),
    SKLR(),
    SKLR(kernel="linear", calibration=None),
    SKLRCV([10.0], lams=[0.1], cv=2),
    CompactKLR(2),
    ThresholdedKLR(),
    ImportVectorMachine(),
    HalfKLR(),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "message"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_indices_out_of_range_raise(estimator, make, message) -> None:
    fitted = estimator.fit(sparse.csr_array(np.random.default_rng(0).normal(size=(20, 6))), Y)
    for use in (
        lambda X: estimator.fit(X, Y),
        fitted.predict,
        fitted.predict_proba,
        fitted.decision_function,
    ):
        with pytest.raises(ValueError, match=f"X is not a valid sparse matrix: .*{message}"):
            use(make())


@pytest.mark.parametrize(("make", "message"), BROKEN.values(), ids=BROKEN)
def test_paths_and_sources_check_indices(make, message) -> None:
    path = klr_path(np.random.default_rng(0).normal(size=(20, 6)), Y, Cs=[1.0], lams=[0.1])
    for use in (
        lambda X: klr_path(X, Y, Cs=[1.0], lams=[0.1]),
        lambda X: half_klr_path(X, Y, [1.0]),
        lambda X: ArraySource(X, Y),
        path.decision_function,
    ):
        with pytest.raises(ValueError, match=message):
            use(make())


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
def test_every_valid_sparse_format_is_accepted(form: str) -> None:
    X = np.random.default_rng(0).normal(size=(20, 6)) * (np.arange(6) > 1)
    X[3] = 0
    given = sparse.csr_array(X).asformat(form)
    np.testing.assert_allclose(
        SparseKLR().fit(given, Y).predict_proba(given), SparseKLR().fit(X, Y).predict_proba(X), atol=1e-6
    )


def test_unused_capacity_of_csr_is_ignored() -> None:
    X = sparse.csr_array(np.random.default_rng(0).normal(size=(20, 6)))
    roomy = X.copy()
    roomy.indices, roomy.data = np.append(X.indices, 3).astype(X.indices.dtype), np.append(X.data, 1.0)
    assert (SparseKLR().fit(roomy, Y).predict(roomy) == SparseKLR().fit(X, Y).predict(X)).all()
