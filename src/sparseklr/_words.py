"""Words that messages of several layers share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

# Control characters, and those that change the direction of what follows.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def listing(names: Iterable[Any], most: int = 12) -> str:
    """Names in a line, the first ones of many."""
    names = list(map(str, names))
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def printable(text: Any) -> str:
    """Text with its control characters as escapes, as text from files may hold commands to a terminal.

    >>> printable("\\x1b[2Jred")
    '\\\\x1b[2Jred'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))
