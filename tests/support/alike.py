"""Checks of properties that several estimators share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

KERNELS = ("rbf", "csr", "callable", "precomputed")


def weighted_and_repeated(
    estimator: Any, X: np.ndarray, y: np.ndarray, kernel: str, gamma: float = 0.7
) -> tuple[Any, Any, np.ndarray, float]:
    """A model of weighted rows and one of the rows repeated in another order; these rows; and the largest
    difference of the probabilities."""
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    parameters: dict[str, Any] = {"gamma": gamma}
    if kernel == "precomputed":
        parameters = {"kernel": kernel}
    elif kernel == "callable":
        parameters = {"kernel": lambda A, B: rbf_kernel(A, B, gamma=gamma)}
    weighted, repeated = (clone(estimator).set_params(**parameters) for _ in range(2))
    if kernel == "precomputed":
        K = rbf_kernel(X, gamma=gamma)
        P = weighted.fit(K, y, weight).predict_proba(K)
        Q = repeated.fit(K[np.ix_(rows, rows)], y[rows]).predict_proba(K[:, rows])
        return weighted, repeated, rows, np.abs(P - Q).max()
    rows = rng.permutation(rows)
    form = sparse.csr_array if kernel == "csr" else np.asarray
    P = weighted.fit(form(X), y, weight).predict_proba(X)
    Q = repeated.fit(form(X[rows]), y[rows]).predict_proba(X)
    return weighted, repeated, rows, np.abs(P - Q).max()


def assert_kernels_and_storage_agree(
    estimator: Any, X: np.ndarray, y: np.ndarray, outputs: str, gamma: float = 0.5, **tolerance: float
) -> None:
    """The same outputs for a named, precomputed and callable kernel, and for sparse rows."""

    def fitted(rows: Any, **parameters: Any) -> Any:
        return clone(estimator).set_params(**parameters).fit(rows, y)

    K = rbf_kernel(X, gamma=gamma)
    expected = getattr(fitted(X, gamma=gamma), outputs)(X)
    precomputed = fitted(K, kernel="precomputed")
    function = fitted(X, kernel=lambda A, B: rbf_kernel(A, B, gamma=gamma))
    csr = fitted(sparse.csr_matrix(X), gamma=gamma)
    for model, queries in (
        (precomputed, K),
        (precomputed, K[:, precomputed.support_]),
        (function, X),
        (csr, sparse.csr_array(X)),
    ):
        np.testing.assert_allclose(getattr(model, outputs)(queries), expected, **tolerance)


def clearly_less(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether the mean over draws is lower by more than two standard errors of the paired differences."""
    difference = np.subtract(other, one)
    return bool(difference.mean() > 2 * difference.std(ddof=1) / np.sqrt(len(difference)))


def assert_refused(model: Any, data: tuple[np.ndarray, np.ndarray], message: str) -> None:
    """Check that the error names the bad parameter and that no fitted attribute is set."""
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert not hasattr(model, "classes_")


def assert_interrupted_fit_changes_nothing(model: Any, X: np.ndarray, y: np.ndarray) -> None:
    """A fitted model whose next fit is interrupted has the attributes of the first one."""
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items())
