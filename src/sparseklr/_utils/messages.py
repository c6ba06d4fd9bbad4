"""Warnings that point to the line of user code that caused them, and functions that format messages."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable
from typing import Any

# Packages whose frames a warning skips when it looks for the user's code.
_PASSED_OVER = {"sparseklr", "sklearn", "joblib"}


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the line of the user's code that called this package.

    A fixed ``stacklevel`` would be right for only one chain of calls, but ``fit`` may be called directly or
    by a grid search. The argument ``skip_file_prefixes`` of Python 3.12 has the same effect.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


# Control characters, and characters that change the text direction.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def listing(names: Iterable[Any], most: int = 12) -> str:
    """Return at most ``most`` names, joined by commas, and the number of all names if there are more."""
    names = list(map(str, names))
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def printable(text: Any) -> str:
    """Return text with escaped control characters, because text from files may contain terminal commands.

    >>> printable("\\x1b[2Jred")
    '\\\\x1b[2Jred'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))
