"""The error of the command line, and the messages that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class CliError(Exception):
    """Something the user can mend: shown as one line."""


def listing(names: Iterable[Any], most: int = 12) -> str:
    """Names in a line, the first ones of many."""
    names = list(map(str, names))
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def unknown(what: str, name: str, known: Iterable[str], plural: str) -> CliError:
    """``name`` is not one of the known ones; with the closest of them."""
    known = list(known)
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    hint = f"; did you mean {by_lower[close[0]]!r}?" if close else "."
    return CliError(f"{what} {name!r}{hint} The {plural}: {listing(known)}.")
