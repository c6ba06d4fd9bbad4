"""From the data of a user to a training set: X, y and the weights are checked once, then coded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_X_y
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ..data import TrainingSet, check_indices, check_largest, check_weight, class_factors, observation_counts
from ..kernels import Kernel, NonFiniteKernel, check_gram, naming_row

# How rows are read, in fitting and in prediction.
ROWS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "accept_large_sparse": True,
}


@dataclass(frozen=True, eq=False)
class GivenData:
    """Checked rows (or kernel matrix), labels and weights; None stands for what was not given."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    precomputed: bool
    feature_names: np.ndarray | None = None  # of a frame

    def part(self, indices: np.ndarray, columns: np.ndarray | None = None) -> GivenData:
        """Some of the rows, as arrays; of a kernel matrix the given columns (the same indices by default)."""
        if self.precomputed:
            X = self.X[np.ix_(indices, indices if columns is None else columns)]
        else:
            X = self.X[indices]
        weight = None if self.weight is None else self.weight[indices]
        return GivenData(X, self.y[indices], weight, self.precomputed)


def check_data(X: Any, y: Any, sample_weight: Any, *, precomputed: bool, estimator: Any = None) -> GivenData:
    """Check what was given to ``fit``; sets ``n_features_in_`` and ``feature_names_in_`` of an estimator."""
    check_indices(X)
    y = _plain_labels(y)
    if estimator is None:
        X, y = check_X_y(X, y, **ROWS)
    else:
        X, y = validate_data(estimator, X, y, **ROWS)
    if y.dtype == object and len({isinstance(label, str) for label in y}) == 2:
        kinds = ", ".join(sorted({type(label).__name__ for label in y}))
        raise ValueError(f"the labels of y must be all strings or all numbers; their types are {kinds}.")
    if y.dtype.kind not in "biu":  # whole numbers are classes whatever they are
        check_classification_targets(y)
    if precomputed:
        X = X.toarray() if sparse.issparse(X) else X
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"Precomputed matrix must be a square matrix; its shape is {X.shape}.")
        check_gram(X, "X (the precomputed kernel)")
    weight = None if sample_weight is None else check_weight(sample_weight, len(y))
    return GivenData(X, y, weight, precomputed, getattr(estimator, "feature_names_in_", None))


def _plain_labels(y: Any) -> Any:
    """Nullable whole numbers and booleans of pandas as those of NumPy; scikit-learn makes floats of them."""
    plain = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if plain is not None and plain.kind in "biu" and not y.isna().any():
        return y.to_numpy(dtype=plain)
    return y


def weighted_classes(
    given: GivenData, class_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Positions of the rows of positive weight, their classes as codes, the classes, and their weights."""
    y = given.y
    weight = np.ones(len(y)) if given.weight is None else given.weight
    if class_weight is not None:
        rows = weight > 0  # a row without weight is as if it were not there
        present, codes = np.unique(y[rows], return_inverse=True)
        by_class = class_factors(class_weight, present, y[rows], weight[rows])
        weight = weight.copy()
        with np.errstate(over="ignore"):
            weight[rows] *= by_class[codes]
        check_largest("class_weight times sample_weight", weight)
    kept = np.flatnonzero(weight > 0)
    classes, codes = np.unique(y[kept], return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes (with positive weight); got only one class: {classes!r}."
        )
    return kept, codes, classes, weight[kept]


def training_set(
    given: GivenData, *, kernel: Any, gamma: Any, coef0: float, degree: float, class_weight: Any
) -> TrainingSet:
    """The rows of positive weight with their classes as codes, and the kernel that belongs to them."""
    kept, codes, classes, weight = weighted_classes(given, class_weight)
    X, n = given.X, len(given.y)
    if len(kept) < n:
        X = X[np.ix_(kept, kept)] if given.precomputed else X[kept]
    resolved = Kernel.resolve(kernel, X, gamma=gamma, coef0=coef0, degree=degree, weight=weight)
    count = None if given.weight is None else observation_counts(given.weight[kept])
    return TrainingSet(X, codes, classes, weight, kept, n, resolved, count)


@contextmanager
def naming_rows(given: GivenData, **parameters: Any) -> Iterator[None]:
    """Let the error of a kernel value that is not finite name a row of X as the user gave it.

    A fit computes with rows that are merged, put in another order, or in folds. Which of the given ones has
    such a value is therefore found by computing again; ``parameters`` are those of :func:`training_set`.
    """
    try:
        yield
    except NonFiniteKernel as error:
        parameters["gamma"] = 1.0  # of a callable
        if error.kernel is not None:  # a fit may have chosen it
            parameters |= {"kernel": error.kernel.kind.name, "gamma": error.kernel.gamma}
        error.args = (naming_row(error, _row_not_finite(given, parameters)),)
        raise


def _row_not_finite(given: GivenData, parameters: dict[str, Any]) -> int | None:
    """The first row that has a kernel value that is not finite with itself, or else with another one."""
    for rows in (given, replace(given, weight=None)):  # a scorer looks at rows of weight 0 as well
        data = training_set(rows, **parameters)
        for some in (*(np.array([i]) for i in range(len(data.codes))), np.arange(len(data.codes))):
            try:
                data.kernel.sum(data.X[some], data.X[some], np.zeros((1, len(some))))
            except NonFiniteKernel as error:
                return int(data.positions[some[error.row]])
    return None
