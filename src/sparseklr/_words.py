"""Words that messages of several layers share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def listing(names: Iterable[Any], most: int = 12) -> str:
    """Names in a line, the first ones of many."""
    names = list(map(str, names))
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more
