"""Private functions and classes of scikit-learn that this package uses, each with the reason.

All other imports are from public modules of scikit-learn. ``make test-oldest`` runs the tests with the oldest
supported version of scikit-learn, and ``make test`` with the newest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
    "CallbackSupportMixin",
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "fit_task",
    "get_feature_names",
    "response_of",
    "safe_indexing",
    "takes_weights",
    "validate_parameter_constraints",
]

# -- callbacks --------------------------------------------------------------------------------

try:  # public since scikit-learn 1.9
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Replacement for versions of scikit-learn without callbacks."""

    def with_callbacks(method: Any) -> Any:  # type: ignore[no-redef]
        return method


@contextmanager
def fit_task(
    estimator: Any, X: Any, y: Any, n_parts: int
) -> Iterator[Callable[[str], AbstractContextManager]]:
    """Report a fit to the callbacks of an estimator, and provide a function that reports a part of the fit.

    Despite its name, ``_init_callback_context`` is documented for authors of estimators. This context manager
    also calls the teardown hooks, because ``fit`` replaces the attributes of the estimator afterwards.
    """
    if not hasattr(estimator, "_init_callback_context"):
        yield lambda name: nullcontext()
        return
    facts = {"estimator": estimator, "X": X, "y": y}
    try:
        whole = estimator._init_callback_context(max_subtasks=n_parts)

        @contextmanager
        def part(name: str) -> Iterator[None]:
            task = whole.subcontext(task_name=name)
            task.call_on_fit_task_begin(**facts)
            yield
            task.call_on_fit_task_end(**facts)

        whole.call_on_fit_task_begin(**facts)
        yield part
        whole.call_on_fit_task_end(**facts)
    finally:
        _tear_down(estimator)


@with_callbacks
def _tear_down(estimator: Any) -> None:
    """Call the teardown hooks of the callbacks, which ``with_callbacks`` does when this function returns."""


# -- scorers ----------------------------------------------------------------------------------


def response_of(scorer: Any) -> str | None:
    """Return the name of the first prediction method that a scorer of ``make_scorer`` tries.

    The result is None for other callables. There is no public equivalent; to call the scorer with a model
    that records its calls would depend on more internals than this attribute.
    """
    method = getattr(scorer, "_response_method", None)
    return method[0] if isinstance(method, tuple) else method


def takes_weights(scorer: Any) -> bool:
    """Return whether a scorer accepts ``sample_weight``.

    A scorer of ``make_scorer`` passes all keyword arguments on to its metric, so the signature of the metric
    decides.
    """
    metric = getattr(scorer, "_score_func", scorer)
    return "sample_weight" in inspect.signature(metric).parameters
