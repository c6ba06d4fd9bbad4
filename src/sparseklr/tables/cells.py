"""Parse cells: missing values, numbers and dates in common notations.

:func:`read_cells` tokenises a column: it strips cells, keeps each distinct token once, and marks missing
values. :func:`parse_numbers` and :func:`parse_dates` parse the distinct tokens.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

# Tokens that mean a missing value in a column of any kind. "none" is not one of them, as it may be a
# category.
_TOKENS = """
    NA N/A n/a NULL null NaN nan -NaN -nan NaT <NA> ? #N/A #NA #NULL! #DIV/0! #VALUE! #REF!
    -1.#IND -1.#QNAN 1.#IND 1.#QNAN
"""
MISSING = frozenset({"", "#N/A N/A", *_TOKENS.split()})


class TableError(ValueError):
    """A table that cannot be used; the message names the column and, if there is one, the row."""


class TableWarning(UserWarning):
    """Warning that part of a table is not used: values treated as missing, or dropped columns."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A column of text as distinct tokens and their positions."""

    codes: np.ndarray  # (n_rows,): index of the cell's token, -1 if the cell is missing
    tokens: np.ndarray  # distinct strings
    rows: Any  # name of each row, from the index of the data frame

    @property
    def counts(self) -> np.ndarray:
        """The number of occurrences of each token."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.tokens))

    def spread(self, values: np.ndarray, missing: Any) -> np.ndarray:
        """Turn one value per token into one value per row."""
        return np.append(values, np.array([missing], dtype=values.dtype))[self.codes]

    def first_row(self, token: int) -> Any:
        """The name of the first row that contains a token."""
        return self.rows[int((self.codes == token).argmax())]


def read_cells(column: pd.Series, name: str, na: Collection[str] = ()) -> Cells:
    """Read the cells of a column of any type as text; 12 and 12.0 become the same token."""
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # unhashable values, such as lists: _token raises for the first of them
        for value in column.dropna():
            _token(value, name)
        raise
    missing = MISSING.union(na)
    written = [_token(value, name) for value in np.asarray(values, dtype=object)]
    kept = np.array([None if token in missing else token for token in written], dtype=object)
    again, tokens = pd.factorize(kept)  # stripping may make tokens equal
    return Cells(np.append(again, -1)[codes], np.asarray(tokens, dtype=object), column.index)


def _token(value: Any, name: str) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, numbers.Integral | np.bool_ | decimal.Decimal | datetime.date | datetime.time):
        return str(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    raise TableError(
        f"column {name!r} holds values of type {type(value).__name__}; expected numbers, dates or text. "
        "Exclude it with drop"
    )


# -- numbers ----------------------------------------------------------------------------------

_CURRENCY = "$€£¥₹₽₩¢"
_SPACES = " '\u2019\u00a0\u2009\u202f"  # separators between groups of three digits
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_CODES = "USD EUR GBP JPY CHF CAD AUD NZD CNY INR SEK NOK DKK PLN CZK HUF BRL MXN RUB KRW SGD HKD TRY ILS AED"
_WORD = r"[^\W\d_]{1,8}[²³23]?"  # kg, mmol, m2
_UNIT = (
    rf"[%‰]|°?{_WORD}(?:\s?/\s?(?:\d{{1,4}}\s?)?{_WORD}){{0,2}}"  # °C, kg/m2, mg/100 ml
    rf"|[x\u00d7*]\s?10\^?\d{{1,2}}\s?/\s?{_WORD}"  # x10^9/L
    rf"|(?:sq|cu|square|cubic|fl)\.? {_WORD}"  # sq ft
)
# a bound, then sign and currency in any order, then the digits, then a unit; "+" as in 65+ or 10+ years
_PARTS = re.compile(
    rf"(?P<bound>[<>]=?|[≤≥])?\s*(?P<sign>[+-]?)(?:[{_CURRENCY}]?|(?P<code>{'|'.join(_CODES.split())}))\s*"
    rf"(?P<sign2>[+-]?)(?P<body>\d(?:[\d.,{_SPACES}]*[\d.,])?{_EXPONENT}|[.,]\d+{_EXPONENT})"
    rf"(?P<more>\+)?\s*[{_CURRENCY}]?(?P<unit>{_UNIT})?(?P<plus>\+)?"
)


def parse_numbers(tokens: np.ndarray, decimal: str = ".") -> tuple[np.ndarray, np.ndarray]:
    """Return the value of each token, NaN if it is not a finite number, and its unit.

    If ``decimal`` is a point, commas separate thousands, and vice versa, unless that is impossible:
    "1,5" is 1.5 in either case. Currency signs are not units, but codes such as USD are. A bound such as
    "<0.3" or "65+" has the value of its number; see :func:`is_bound`.

    Examples
    --------
    >>> tokens = np.array(["12", "$1,234.50", "5%", "(3)", "n/k", "1,5", "<0.3 kg/m²"], dtype=object)
    >>> values, units = parse_numbers(tokens)
    >>> values.tolist()
    [12.0, 1234.5, 5.0, -3.0, nan, 1.5, 0.3]
    >>> units.tolist()
    ['', '', '%', '', '', '', 'kg/m2']
    """
    plain = tokens  # plain numbers are parsed together, the other tokens one by one
    if decimal == ",":
        plain = np.array(["" if "." in token else token.replace(",", ".") for token in tokens], dtype=object)
    values = np.array(pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce"), dtype=np.float64)
    values[np.isinf(values)] = np.nan
    found = ~np.isnan(values)
    values[found] = plain[found].astype(np.float64)  # pandas before 3 rounds numbers of 16 digits
    units = np.full(len(tokens), "", dtype=object)
    for k in np.flatnonzero(np.isnan(values)):
        values[k], units[k] = _parse_number(tokens[k], decimal)
    return values, units


def _parse_number(token: str, decimal: str) -> tuple[float, str]:
    token = token.replace("\u2212", "-")
    if token.lower() in ("true", "false"):
        return float(token.lower() == "true"), ""
    if negative := (token.startswith("(") and token.endswith(")")):  # accounting notation
        token = token[1:-1].strip()
    match = _PARTS.fullmatch(token)
    if not match or (match["sign"] and match["sign2"]):
        return np.nan, ""
    value = _parse_digits(match["body"], decimal)
    if negative or "-" in (match["sign"], match["sign2"]):
        value = -value
    unit = match["code"] or match["unit"] or ""
    return (value, _plain_unit(unit)) if np.isfinite(value) else (np.nan, "")


def _plain_unit(unit: str) -> str:
    """Write a unit in one way: kg/m2 for kg / m²."""
    unit = re.sub(r"\s*/\s*", "/", unit)
    return unit.translate(str.maketrans("²³μ\u00d7", "23µx"))


def is_bound(token: str) -> bool:
    """Whether a number is a bound, as in "<0.3" and "65+"."""
    match = _PARTS.fullmatch(token)
    return bool(match and (match["bound"] or match["more"] or match["plus"]))


def _parse_digits(body: str, decimal: str) -> float:
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


def sample_tokens(frame: pd.DataFrame, na: Collection[str] = ()) -> Iterator[np.ndarray]:
    """Yield the first thousand distinct tokens of each text column."""
    for name, column in frame.items():
        if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
            try:
                distinct = column.drop_duplicates().head(1000)
            except TypeError:  # unhashable values: read_cells raises for them
                distinct = column
            yield read_cells(distinct, str(name), na).tokens


def detect_decimal(columns: Iterable[np.ndarray]) -> str | None:
    """The decimal sign in the tokens of some columns; None if they do not determine it.

    "3,14" supports a comma and "3.14" a point; "1,234" may be either and does not count.

    Examples
    --------
    >>> detect_decimal([np.array(["3,14", "1,234"])])
    ','
    """
    point = comma = 0
    for tokens in columns:
        for token in tokens:
            match = _PARTS.fullmatch(token)
            body = match["body"] if match else ""
            # three digits after the only sign may be a group of thousands, unless the number begins with zero
            if re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", body):
                continue
            point += bool(re.fullmatch(rf"(?:\d*|\d{{1,3}}(?:[,{_SPACES}]\d{{3}})+)\.\d+{_EXPONENT}", body))
            comma += bool(re.fullmatch(rf"(?:\d*|\d{{1,3}}(?:[.{_SPACES}]\d{{3}})+),\d+{_EXPONENT}", body))
    if point == comma:
        return None
    return "," if comma > point else "."


def count_units(units: np.ndarray, counts: np.ndarray) -> dict[str, int]:
    """The number of values in each unit; year and years are one unit, in its more frequent spelling."""
    weights: dict[str, int] = {}
    for unit, count in zip(units.tolist(), counts.tolist(), strict=True):
        weights[unit] = weights.get(unit, 0) + count
    totals: dict[str, int] = {}
    for unit in sorted(weights, key=lambda unit: -weights[unit]):
        same = next((known for known in totals if _singular(known) == _singular(unit)), unit)
        totals[same] = totals.get(same, 0) + weights[unit]
    return totals


def _singular(unit: str) -> str:
    return unit[:-1] if len(unit) > 2 and unit.endswith("s") else unit


def most_frequent_unit(units: np.ndarray, counts: np.ndarray) -> str:
    """The unit of most values, or "" if most have no unit."""
    weights = count_units(units, counts)
    return max(weights, key=lambda unit: weights[unit]) if weights else ""


def numbers_in_unit(values: np.ndarray, units: np.ndarray, unit: str) -> np.ndarray:
    """Return the values, with NaN for those that have another unit.

    A number without a unit has the unit of its column, except in a column of percentages, where 5 may mean 5%
    or 500%. Likewise, 5% in a column of plain numbers may mean 5 or 0.05.
    """
    fits = np.array([_singular(one) == _singular(unit) for one in units], dtype=bool)
    if unit not in ("%", "‰"):
        fits |= units == ""
    return np.where(fits, values, np.nan)


# -- dates ------------------------------------------------------------------------------------

ISO = "ISO8601"
_DAYS = """%d.%m.%Y|%m/%d/%Y|%d/%m/%Y|%Y/%m/%d|%m-%d-%Y|%d-%m-%Y|%Y.%m.%d|%Y%m%d
|%d %b %Y|%d %B %Y|%d-%b-%Y|%d. %B %Y|%b %d, %Y|%B %d, %Y|%b %d %Y
|%d.%m.%y|%m/%d/%y|%d/%m/%y|%d-%b-%y""".replace("\n", "").split("|")
_MONTHS = ["%b-%Y", "%b %Y", "%B %Y", "%B-%Y", "%m/%Y", "%Y-%m", "%Y/%m", "%b-%y"]  # the first day of a month
_TIMES = ["", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S"]
FORMATS = [*(day + time for time in _TIMES for day in _DAYS), *_MONTHS]
_ZONE = r"([T ].*?)\s*(?:Z|[+-]\d{2}(?::?\d{2})?)$"  # a time zone after the time


def parse_dates(tokens: np.ndarray, form: str) -> np.ndarray:
    """Return the local date and time of each token without time zone; NaT if the format does not fit.

    Several formats are separated by ``|``; the first that fits a token reads it.
    """
    if "|" in form:
        first, rest = form.split("|", 1)
        moments = parse_dates(tokens, first)
        unread = np.isnat(moments)
        moments[unread] = parse_dates(tokens[unread], rest)
        return moments
    text = pd.Series(tokens, dtype=object)
    if form == ISO:  # pandas would also accept a year alone
        text = text.where([bool(re.match(r"\d{4}-\d{2}-\d{2}", token)) for token in tokens])
    if form == ISO or form.endswith("%z"):
        text = text.str.replace(_ZONE, r"\1", regex=True)
        form = form.removesuffix("%z").rstrip()
    moments = pd.to_datetime(text, format=form, errors="coerce", utc=True)
    return moments.dt.tz_localize(None).to_numpy().astype("datetime64[us]")


def find_format(tokens: np.ndarray, least: float) -> tuple[str | None, str | None]:
    """Find the format that fits most tokens, and one with day and month swapped if it fits equally well.

    The format is None if it fits less than the fraction ``least`` of the tokens.

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
    sample = np.array(likely, dtype=object)[:: max(1, len(likely) // 50)]
    candidates = [ISO, *(form for form in FORMATS if _has_signs_of(form, sample[:5]))]
    candidates = [form for form in candidates if _fraction_parsed(sample, form) >= 0.9 * least]
    fractions = {form: _fraction_parsed(tokens, form) for form in candidates}
    if not fractions or max(fractions.values()) < least:
        mixed = _several_formats(sample)
        return mixed if _fraction_parsed(tokens, mixed) >= least else None, None
    best = max(fractions, key=lambda form: fractions[form])  # ties go to the first format
    swapped = _swapped(best)
    return best, swapped if swapped != best and fractions.get(swapped) == fractions[best] else None


def _several_formats(sample: np.ndarray) -> str:
    """The formats of a column that mixes them, separated by ``|``, the most frequent first.

    A format and the one with day and month swapped exclude each other.
    """
    found: list[str] = []
    left, candidates = sample, [ISO, *(form for form in FORMATS if _has_signs_of(form, sample))]
    while len(left) and candidates:
        parsed = {form: ~np.isnat(parse_dates(left, form)) for form in candidates}
        best = max(candidates, key=lambda form: parsed[form].sum())
        if not parsed[best].any():
            break
        found.append(best)
        left = left[~parsed[best]]
        candidates = [form for form in candidates if parsed[form].any() and form != _swapped(best)]
    return "|".join(found) or ISO


def _swapped(form: str) -> str:
    """The format with day and month swapped."""
    return form.translate(str.maketrans("dm", "md"))


def _has_signs_of(form: str, sample: np.ndarray) -> bool:
    """Whether some tokens have the punctuation of a format; this is faster than parsing them."""
    signs = set(re.sub("%.", "", form))
    return any(signs.issubset(token) and (":" in token) == (":" in signs) for token in sample)


def _fraction_parsed(tokens: np.ndarray, form: str) -> float:
    return float((~np.isnat(parse_dates(tokens, form))).mean())
