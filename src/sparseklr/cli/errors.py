"""The error of the command line, and the messages that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from .._words import listing

__all__ = ["CliError", "listing", "unknown"]


class CliError(Exception):
    """Something the user can mend: shown as one line."""


def unknown(what: str, name: str, known: Iterable[str], plural: str) -> CliError:
    """``name`` is not one of the known ones; with the closest of them."""
    known = list(known)
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    hint = f"; did you mean {by_lower[close[0]]!r}?" if close else "."
    return CliError(f"{what} {name!r}{hint} The {plural}: {listing(known)}.")
