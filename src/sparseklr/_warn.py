"""Warnings that point to the line of the user's own program."""

from __future__ import annotations

import sys
import warnings

# What may stand between a user's call and the place that warns: this package, scikit-learn's decorators and
# searches, and joblib, which runs the latter.
_PASSED_OVER = {"sparseklr", "sklearn", "joblib"}


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost call from outside the packages named above.

    A fixed ``stacklevel`` holds for one way of being called; this one holds for ``fit``, for a path and for
    a grid search alike. (``skip_file_prefixes`` of Python 3.12 does the same.)
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
