"""What scikit-learn does not make public and this package needs all the same, each with its reason.

Everything else comes from scikit-learn's public modules. ``make test-oldest`` runs the tests with the oldest
version that is allowed, ``make test`` with the newest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

# Some rows of an array, a sparse matrix, a list or a frame of any library, each of which has its own way.
from sklearn.utils import _safe_indexing as safe_indexing

# The constraints of ``_parameter_constraints``, and the check of them. There is no public way to declare what
# a parameter may be; another way would give errors of another form than those of every estimator of
# scikit-learn. Unchanged since 1.3.
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)

# The names of the columns of a frame of any library, as ``validate_data`` finds them; that one needs an
# estimator and all rows at once.
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

try:  # public, from scikit-learn 1.9 on
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:  # type: ignore[no-redef]
        return method


@contextmanager
def fit_task(
    estimator: Any, X: Any, y: Any, n_parts: int
) -> Iterator[Callable[[str], AbstractContextManager]]:
    """Report a fit to the callbacks of an estimator; yields a function that reports a part of it, by name.

    ``_init_callback_context`` is the documented way for the authors of estimators, in spite of its name. The
    teardown is part of it: ``fit`` replaces the attributes of the estimator afterwards.
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
    """``with_callbacks`` calls the teardown hooks as soon as this returns."""


# -- scorers ----------------------------------------------------------------------------------


def response_of(scorer: Any) -> str | None:
    """The method whose values a scorer of ``make_scorer`` looks at first; None for a callable of one's own.

    A scorer does not say publicly what it asks of a model; calling it with a model that records the question
    would depend on more of scikit-learn than this attribute.
    """
    method = getattr(scorer, "_response_method", None)
    return method[0] if isinstance(method, tuple) else method


def takes_weights(scorer: Any) -> bool:
    """Whether a scorer can be given ``sample_weight``.

    A scorer of ``make_scorer`` takes any keyword and hands it to its metric, so the metric has to be asked.
    """
    metric = getattr(scorer, "_score_func", scorer)
    return "sample_weight" in inspect.signature(metric).parameters
