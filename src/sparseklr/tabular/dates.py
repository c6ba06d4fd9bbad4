"""Dates as people write them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

ISO = "ISO8601"
_DAYS = """%d.%m.%Y|%m/%d/%Y|%d/%m/%Y|%Y/%m/%d|%m-%d-%Y|%d-%m-%Y|%Y.%m.%d|%Y%m%d
|%d %b %Y|%d %B %Y|%d-%b-%Y|%d. %B %Y|%b %d, %Y|%B %d, %Y|%b %d %Y
|%d.%m.%y|%m/%d/%y|%d/%m/%y|%d-%b-%y""".replace("\n", "").split("|")
_TIMES = ["", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S"]
FORMATS = [day + time for time in _TIMES for day in _DAYS]
_SAMPLE = 50
_ZONE = r"([T ].*?)\s*(?:Z|[+-]\d{2}(?::?\d{2})?)$"  # behind a time


def parse_dates(tokens: np.ndarray, form: str) -> np.ndarray:
    """The date and time that each token shows, whatever its zone; NaT where it is no date of this form."""
    text = pd.Series(tokens, dtype=object)
    if form == ISO:  # pandas takes a year alone for a date as well
        text = text.where([bool(re.match(r"\d{4}-\d{2}-\d{2}", token)) for token in tokens])
    if form == ISO or form.endswith("%z"):
        text = text.str.replace(_ZONE, r"\1", regex=True)
        form = form.removesuffix("%z").rstrip()
    moments = pd.to_datetime(text, format=form, errors="coerce", utc=True)
    return moments.dt.tz_localize(None).to_numpy().astype("datetime64[us]")


def find_format(tokens: np.ndarray, least: float) -> tuple[str | None, str | None]:
    """The format that fits most tokens, and the one that fits as well but swaps day and month.

    None where the best fits fewer than a share ``least`` of them.

    Examples
    --------
    >>> find_format(np.array(["31.12.1999", "01.02.2003", "unknown"], dtype=object), 0.6)
    ('%d.%m.%Y', None)
    >>> find_format(np.array(["03/02/2001"], dtype=object), 1.0)
    ('%m/%d/%Y', '%d/%m/%Y')
    """
    likely = [token for token in tokens if re.match(r"[^\d]{0,10}\d.*\d", token) and len(token) >= 6]
    if not likely or len(likely) < least * len(tokens):
        return None, None
    sample = np.array(likely, dtype=object)[:: max(1, len(likely) // _SAMPLE)]
    possible = [ISO, *(form for form in FORMATS if _possible(form, sample))]
    shares = {form: _share(sample, form) for form in possible}
    shares = {form: _share(tokens, form) for form, share in shares.items() if share >= 0.9 * least}
    if not shares or max(shares.values()) < least:
        return None, None
    best = max(shares, key=lambda form: shares[form])  # the first of equals
    swapped = best.translate(str.maketrans("dm", "md"))
    return best, swapped if swapped != best and shares.get(swapped) == shares[best] else None


def _possible(form: str, sample: np.ndarray) -> bool:
    """Whether some of the tokens have the signs of a format. This is quicker than trying it."""
    signs = set(re.sub("%.", "", form))
    return any(signs.issubset(token) and (":" in token) == (":" in signs) for token in sample[:5])


def _share(tokens: np.ndarray, form: str) -> float:
    return float((~np.isnat(parse_dates(tokens, form))).mean())
