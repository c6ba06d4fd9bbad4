"""Validation of the parameters of an estimator and of the data passed to ``fit``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import cache
from inspect import signature
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np
from scipy import sparse
from sklearn.utils import check_X_y
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ._utils.arrays import check_indices
from ._utils.messages import warn
from ._utils.sklearn_compat import Interval, Options, StrOptions, validate_parameter_constraints
from .dual.smo import WorkingSet
from .kernels import KERNELS_WITH_GAMMA, NAMED_KERNELS, Kernel, NonFiniteKernel, check_gram, naming_row
from .samples import Samples
from .weights import check_weight, observation_counts, weighted_classes

# -- parameters ---------------------------------------------------------------------------------

POSITIVE = Interval(Real, 0.0, None, closed="neither")
NON_NEGATIVE = Interval(Real, 0.0, None, closed="left")
COUNT = Interval(Integral, 1, None, closed="left")

#: Constraints of the parameters that all kernel classifiers share.
KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions({*NAMED_KERNELS, "precomputed"}), callable],
    "gamma": [StrOptions({"scale"}), POSITIVE],
    "degree": [NON_NEGATIVE],
    "coef0": [Real],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "n_jobs": [Integral, None],
}
#: Constraints of the parameters of the dual solver.
SOLVER_CONSTRAINTS: dict[str, list[Any]] = {
    "working_set": [StrOptions(set(get_args(WorkingSet)))],
    "tol": [POSITIVE],
    "max_iter": [COUNT, Options(Integral, {-1})],
    "bound": [POSITIVE, None],
    "cache_size": [StrOptions({"auto"}), POSITIVE],
}
# The kernels that use each parameter. Callable and precomputed kernels use none of these parameters.
_KERNELS_WITH = {
    "gamma": (*KERNELS_WITH_GAMMA, "auto"),
    "coef0": ("poly", "sigmoid"),
    "degree": ("poly",),
}


def check_parameters(constraints: Mapping[str, list[Any]], given: Mapping[str, Any], caller: str) -> None:
    """Raise an error that names ``caller`` unless every given parameter satisfies its constraint."""
    validate_parameter_constraints(constraints, given, caller_name=caller)
    if given.get("n_jobs") == 0:
        raise ValueError("n_jobs must not be 0; use None or 1 for one thread, -1 for all cores.")


def kernel_parameters(estimator: Any) -> dict[str, Any]:
    """Return the kernel of an estimator and its parameters, as arguments of :func:`make_samples`."""
    return {name: getattr(estimator, name) for name in ("kernel", "gamma", "coef0", "degree")}


def has_gamma(kernel: Any) -> bool:
    """Return whether a kernel uses gamma."""
    return isinstance(kernel, str) and kernel in _KERNELS_WITH["gamma"]


def unused_by_kernel(kernel: Any) -> dict[str, str]:
    """Return the parameters that a kernel ignores, each with the reason."""
    name = kernel if isinstance(kernel, str) else "a callable"
    reason = f"with kernel={name!r}" if isinstance(kernel, str) else "with a callable kernel"
    return {parameter: reason for parameter, kernels in _KERNELS_WITH.items() if name not in kernels}


def warn_of_unused(function: Callable[..., Any], given: Mapping[str, Any], unused: Mapping[str, str]) -> None:
    """Warn about unused parameters whose value differs from the default of ``function``."""
    defaults = _defaults(function)
    for name, reason in unused.items():
        if given[name] != defaults[name]:
            warn(f"{name}={given[name]!r} has no effect {reason}.")


@cache
def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the default values of the parameters of a function."""
    return {name: parameter.default for name, parameter in signature(function).parameters.items()}


# -- data ---------------------------------------------------------------------------------------

#: Arguments of the functions of scikit-learn that validate X, in ``fit`` and in prediction.
ROWS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "accept_large_sparse": True,
}


def check_data(
    X: Any, y: Any, sample_weight: Any, *, precomputed: bool = False, estimator: Any = None
) -> tuple[Any, np.ndarray, np.ndarray | None, dict[str, Any]]:
    """Validate X, y and the weights; return them with ``n_features_in_`` and ``feature_names_in_``.

    Error messages contain the name of ``estimator``. The estimator itself is not modified.
    """
    check_indices(X)
    _check_no_label_is_missing(y)
    y, columns = _plain_labels(y), {}
    if estimator is None:
        X, y = check_X_y(X, y, **ROWS)
    else:
        probe = copy(estimator)  # validate_data sets attributes, so it gets a copy
        with pointing_to_tables(X, estimator):
            X, y = validate_data(probe, X, y, **ROWS)
        names = "n_features_in_", "feature_names_in_"
        columns = {name: getattr(probe, name) for name in names if hasattr(probe, name)}
    if y.dtype == object and len({isinstance(label, str) for label in y}) == 2:
        kinds = ", ".join(sorted({type(label).__name__ for label in y}))
        raise ValueError(f"y must contain only strings or only numbers; the types of its labels are {kinds}.")
    if y.dtype.kind not in "biu":  # integers are always class labels
        check_classification_targets(y)
    if precomputed:
        X = X.toarray() if sparse.issparse(X) else X
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"Precomputed matrix must be a square matrix; its shape is {X.shape}.")
        check_gram(X, "X")
    weight = None if sample_weight is None else check_weight(sample_weight, len(y))
    return X, y, weight, columns


@contextmanager
def pointing_to_tables(X: Any, estimator: Any) -> Iterator[None]:
    """Add a hint about ``tabular_pipeline`` to the errors for missing values, text and dates in X."""
    name = type(estimator).__name__
    hint = f"sparseklr.tabular_pipeline({name}()) accepts data frames with text, dates and missing values."
    if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
        raise TypeError(f"X is a {type(X).__name__}, which has not been computed; pass X.collect().")
    dtypes = getattr(X, "dtypes", None)  # column types of a data frame
    types = [X.dtype] if dtypes is None and hasattr(X, "dtype") else [] if dtypes is None else list(dtypes)
    if any(getattr(dtype, "kind", "") in ("M", "m") or _is_date_of_polars(dtype) for dtype in types):
        raise TypeError(f"X contains dates; {name} expects numbers. {hint}")
    try:
        yield
    except (ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        wrong = ("X contains NaN", "could not convert string", "Timestamp", "datetime", "DateTime")
        if not any(words in reason for words in wrong):
            raise
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{reason.rstrip('.')}. {name} expects numbers. {hint}") from error


def _is_date_of_polars(dtype: Any) -> bool:
    """Return whether a column type of polars contains dates, times or durations."""
    is_temporal = getattr(dtype, "is_temporal", None)
    return is_temporal is not None and bool(is_temporal())


def _check_no_label_is_missing(y: Any) -> None:
    """Raise an error that names the first missing label of a pandas series or data frame."""
    if type(y).__module__.partition(".")[0] != "pandas" or not hasattr(y, "isna"):
        return
    if len(rows := np.flatnonzero(np.asarray(y.isna()))):
        raise ValueError(
            f"y contains NaN or missing labels in {len(rows)} of {len(y)} rows, the first in row {rows[0]} "
            "(counted from 0). Remove the rows without a label."
        )


def _plain_labels(y: Any) -> Any:
    """Convert nullable integers and booleans of pandas to NumPy types.

    scikit-learn would convert them to floats.
    """
    plain = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if plain is not None and plain.kind in "biu" and not y.isna().any():
        return y.to_numpy(dtype=plain)
    return y


def make_samples(
    X: Any, y: np.ndarray, weight: np.ndarray | None, *, class_weight: Any, kernel: Any, **parameters: Any
) -> Samples:
    """Return the rows of positive weight with class codes, and the kernel with numeric parameters.

    ``kernel`` and ``parameters`` are the arguments of :meth:`~sparseklr.kernels.Kernel.resolve`.
    """
    n, given = len(y), weight
    kept, codes, classes, weight = weighted_classes(y, given, class_weight)
    if len(kept) < n:
        X = X[np.ix_(kept, kept)] if kernel == "precomputed" else X[kept]
    resolved = Kernel.resolve(kernel, X, weight=weight, **parameters)
    count = None if given is None else observation_counts(given[kept])
    return Samples(X, codes, classes, weight, kept, n, resolved, count)


@contextmanager
def naming_rows(X: Any, weight: np.ndarray | None, *, kernel: Any, **parameters: Any) -> Iterator[None]:
    """Name the row of X, as passed by the user, in errors about a non-finite kernel value.

    A fit merges, reorders and splits rows. The row is therefore found by computing the kernel values again.
    ``kernel`` and ``parameters`` are the arguments of :meth:`~sparseklr.kernels.Kernel.resolve`.
    """
    try:
        yield
    except NonFiniteKernel as error:
        parameters["gamma"] = 1.0  # a callable ignores gamma
        if error.kernel is not None:  # the fit may have chosen another kernel
            kernel, parameters["gamma"] = error.kernel.kind.name, error.kernel.gamma
        resolved = Kernel.resolve(kernel, X, **parameters)
        error.args = (naming_row(error, _row_not_finite(resolved, X, weight)),)
        raise


def _row_not_finite(kernel: Kernel, X: Any, weight: np.ndarray | None) -> int | None:
    """Return the first row whose kernel value with itself or, failing that, with another row is not finite.

    Rows with positive weight are searched first. All rows are searched next, because a scorer may use rows of
    weight 0.
    """
    everything = np.arange(X.shape[0])
    used = everything if weight is None else np.flatnonzero(weight)
    for rows in (used, everything):
        for indices in (*rows[:, None], rows):
            try:
                kernel.sum(X[indices], X[indices], np.zeros((1, len(indices))))
            except NonFiniteKernel as error:
                return int(indices[error.row])
    return None
