"""Numbers as people write them: with currency signs, percent signs, units, thousands and decimal commas."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

_CURRENCY = "$€£¥₹₽₩¢"
_SPACES = " '\u2019\u00a0\u2009\u202f"  # between groups of three digits
_EXPONENT = r"(?:[eE][+-]?\d+)?"
# sign and currency in any order, the digits, a unit of a few letters
_PARTS = re.compile(
    rf"(?P<sign>[+-]?)[{_CURRENCY}]?\s*(?P<sign2>[+-]?)"
    rf"(?P<body>\d(?:[\d.,{_SPACES}]*[\d.,])?{_EXPONENT}|[.,]\d+{_EXPONENT})"
    rf"\s*[{_CURRENCY}]?(?P<unit>[%‰]|[^\W\d_]{{1,5}}[²³]?)?"
)
_LOOKED_AT = 1000  # tokens of a column, for its decimal sign
_TRUTH = {"true": 1.0, "false": 0.0}


def parse_numbers(tokens: np.ndarray, decimal: str = ".") -> tuple[np.ndarray, np.ndarray]:
    """The number that each token stands for, and the unit behind it.

    Parameters
    ----------
    tokens : array of str
    decimal : {".", ","}
        The decimal sign. The other one separates thousands, but where that cannot be: "1,5" is 1.5 in either
        case.

    Returns
    -------
    values : array of float
        NaN for a token that is not a finite number.
    units : array of str
        "%", "kg" and so on; mostly "". Currency signs do not count.

    Examples
    --------
    >>> tokens = np.array(["12", "$1,234.50", "5%", "(3)", "n/k", "1,5"], dtype=object)
    >>> values, units = parse_numbers(tokens)
    >>> values.tolist()
    [12.0, 1234.5, 5.0, -3.0, nan, 1.5]
    >>> units.tolist()
    ['', '', '%', '', '', '']
    """
    plain = tokens  # those that are plain numbers are read at once, the others one by one
    if decimal == ",":
        plain = np.array(["" if "." in token else token.replace(",", ".") for token in tokens], dtype=object)
    values = np.array(pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce"), dtype=np.float64)
    values[np.isinf(values)] = np.nan
    units = np.full(len(tokens), "", dtype=object)
    for k in np.flatnonzero(np.isnan(values)):
        values[k], units[k] = _parse(tokens[k], decimal)
    return values, units


def _parse(token: str, decimal: str) -> tuple[float, str]:
    token = token.replace("\u2212", "-")
    if (truth := _TRUTH.get(token.lower())) is not None:
        return truth, ""
    if negative := (token.startswith("(") and token.endswith(")")):  # as accountants write it
        token = token[1:-1].strip()
    match = _PARTS.fullmatch(token)
    if not match or (match["sign"] and match["sign2"]):
        return np.nan, ""
    value = _digits(match["body"], decimal)
    if negative or "-" in (match["sign"], match["sign2"]):
        value = -value
    return (value, match["unit"] or "") if np.isfinite(value) else (np.nan, "")


def _digits(body: str, decimal: str) -> float:
    other = "," if decimal == "." else "."
    grouped = rf"\d{{1,3}}([{re.escape(other)}{_SPACES}])\d{{3}}(?:\1\d{{3}})*(?:{re.escape(decimal)}\d*)?"
    plain = rf"\d*{re.escape(decimal)}?\d*"
    foreign = rf"\d*{re.escape(other)}\d*"
    for pattern in (plain, grouped, foreign):
        if re.fullmatch(pattern + _EXPONENT, body):
            if pattern is grouped:
                body = re.sub(f"[{re.escape(other)}{_SPACES}]", "", body)
            return float(body.replace(",", "."))
    return np.nan


def detect_decimal(columns: Iterable[np.ndarray]) -> str | None:
    """The decimal sign that the tokens of some columns have; None if none of them tells.

    "3,14" speaks for a comma and "3.14" for a point; "1,234" may be either and does not count.

    Examples
    --------
    >>> detect_decimal([np.array(["3,14", "1,234"])])
    ','
    """
    point = comma = 0
    for tokens in columns:
        for token in tokens[:_LOOKED_AT]:
            match = _PARTS.fullmatch(token)
            body = match["body"] if match else ""
            # three digits behind the only sign may be thousands, but not behind a zero
            if re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", body):
                continue
            point += bool(re.fullmatch(rf"(?:\d*|\d{{1,3}}(?:[,{_SPACES}]\d{{3}})+)\.\d+{_EXPONENT}", body))
            comma += bool(re.fullmatch(rf"(?:\d*|\d{{1,3}}(?:[.{_SPACES}]\d{{3}})+),\d+{_EXPONENT}", body))
    if point == comma:
        return None
    return "," if comma > point else "."


def unit_of(units: np.ndarray, counts: np.ndarray) -> str:
    """The unit that most of the values have, "" if most have none."""
    weights: dict[str, int] = {}
    for unit, count in zip(units.tolist(), counts.tolist(), strict=True):
        weights[unit] = weights.get(unit, 0) + count
    return max(weights, key=lambda unit: weights[unit]) if weights else ""


def of_unit(values: np.ndarray, units: np.ndarray, unit: str) -> np.ndarray:
    """The values, NaN where their unit is another.

    A plain number has the unit of its column, but for percent signs: 5 may be 5% or 500% there, and 5% among
    plain numbers may be 5 or 0.05.
    """
    fits = units == unit
    if unit not in ("%", "‰"):
        fits |= units == ""
    return np.where(fits, values, np.nan)
