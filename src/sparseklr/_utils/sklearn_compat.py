"""Private functions and classes of scikit-learn that this package uses, each with the reason.

All other imports are from public modules of scikit-learn. ``make test-oldest`` runs the tests with the oldest
supported version of scikit-learn, and ``make test`` with the newest.
"""

from __future__ import annotations

import inspect
from typing import Any

# Selection of rows from an array, a sparse matrix, a list or a data frame of any library.
from sklearn.utils import _safe_indexing as safe_indexing

# Validation of parameters by ``_parameter_constraints``. There is no public equivalent, and errors should
# have the same form as in scikit-learn. These names have not changed since version 1.3.
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)

# Column names of a data frame of any library. The public ``validate_data`` requires an estimator and all
# rows.
from sklearn.utils.validation import _get_feature_names as get_feature_names

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "get_feature_names",
    "response_of",
    "safe_indexing",
    "takes_weights",
    "validate_parameter_constraints",
]


def response_of(scorer: Any) -> str | None:
    """Return the name of the first prediction method that a scorer from ``make_scorer`` tries.

    The result is None for other callables. There is no public equivalent of the private attribute that this
    function reads. Calling the scorer with a model that records the calls would depend on more internals.
    """
    method = getattr(scorer, "_response_method", None)
    return method[0] if isinstance(method, tuple) else method


def takes_weights(scorer: Any) -> bool:
    """Return whether a scorer accepts ``sample_weight``.

    A scorer from ``make_scorer`` passes all keyword arguments on to its metric, so the signature of the
    metric decides.
    """
    metric = getattr(scorer, "_score_func", scorer)
    return "sample_weight" in inspect.signature(metric).parameters
