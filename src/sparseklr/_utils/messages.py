"""Warnings attributed to the user's code, and formatting of messages."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable
from typing import Any

# Packages between the user's call and the place that warns.
_PASSED_OVER = {"sparseklr", "sklearn", "joblib"}


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning attributed to the innermost call from outside the packages above.

    A fixed ``stacklevel`` would suit only one call path; this suits ``fit``, paths and grid searches alike.
    (``skip_file_prefixes`` of Python 3.12 does the same.)
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


# Control characters, and characters that change the text direction.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def listing(names: Iterable[Any], most: int = 12) -> str:
    """Join at most ``most`` names with commas."""
    names = list(map(str, names))
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def printable(text: Any) -> str:
    """Escape control characters, because text from files may contain terminal commands.

    >>> printable("\\x1b[2Jred")
    '\\\\x1b[2Jred'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))
