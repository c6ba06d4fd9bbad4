"""Parsing of table cells: missing values, numbers and dates in common notations.

A token is the text of a cell without surrounding blanks. :func:`read_cells` converts a column to its distinct
tokens, so that :func:`parse_numbers` and :func:`parse_dates` parse each token only once.
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

# Tokens that mean a missing value in every column. The list does not contain "none", which may be a category.
_TOKENS = """
    NA N/A n/a NULL null NaN nan -NaN -nan NaT <NA> ? #N/A #NA #NULL! #DIV/0! #VALUE! #REF!
    -1.#IND -1.#QNAN 1.#IND 1.#QNAN
"""
MISSING = frozenset({"", "#N/A N/A", *_TOKENS.split()})


class TableError(ValueError):
    """Error for a table that cannot be read; the message names the column and, if possible, the row."""


class TableWarning(UserWarning):
    """Warning about columns that are dropped, and about values that are ambiguous or treated as missing."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A column as distinct tokens, with the index of the token in each row."""

    codes: np.ndarray  # (n_rows,): for each row, the index of its token, or -1 for a missing value
    tokens: np.ndarray  # distinct strings
    rows: Any  # (n_rows,): row labels, from the index of the data frame

    @property
    def counts(self) -> np.ndarray:
        """The number of rows that contain each token."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.tokens))

    def spread(self, values: np.ndarray, missing: Any) -> np.ndarray:
        """Return one value per row, given one value per token and a value for missing cells."""
        return np.append(values, np.array([missing], dtype=values.dtype))[self.codes]

    def first_row(self, token: int) -> Any:
        """Return the label of the first row that contains the token with this index."""
        return self.rows[int((self.codes == token).argmax())]


def read_cells(column: pd.Series, name: str, na: Collection[str] = ()) -> Cells:
    """Return the cells of a column of any type as text; the numbers 12 and 12.0 become the same token.

    ``name`` is the column name used in error messages; ``na`` contains additional tokens for missing values.
    """
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # some values are not hashable, such as lists; _token raises an error for the first
        for value in column.dropna():
            _token(value, name)
        raise
    missing = MISSING.union(na)
    written = [_token(value, name) for value in np.asarray(values, dtype=object)]
    kept = np.array([None if token in missing else token for token in written], dtype=object)
    again, tokens = pd.factorize(kept)  # different values can have the same token, such as "a" and "a "
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
        f"column {name!r} contains values of type {type(value).__name__}; expected numbers, dates or text. "
        "Use the parameter drop to exclude the column"
    )


# -- numbers ----------------------------------------------------------------------------------

_CURRENCY = "$€£¥₹₽₩¢"
_SPACES = " '\u2019\u00a0\u2009\u202f"  # separators between groups of three digits
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_CODES = "USD EUR GBP JPY CHF CAD AUD NZD CNY INR SEK NOK DKK PLN CZK HUF BRL MXN RUB KRW SGD HKD TRY ILS AED"
_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}
_WORD = r"[^\W\d_]{1,8}[²³23]?"  # kg, mmol, m2
_UNIT = (
    rf"[%‰]|°?{_WORD}(?:\s?/\s?(?:\d{{1,4}}\s?)?{_WORD}){{0,2}}"  # °C, kg/m2, mg/100 ml
    rf"|[x\u00d7*]\s?10\^?\d{{1,2}}\s?/\s?{_WORD}"  # x10^9/L
    rf"|(?:sq|cu|square|cubic|fl)\.? {_WORD}"  # sq ft
)
# A number consists of an optional bound such as "<", sign and currency in any order, digits, an optional
# minus sign after two decimals ("12.50-" in accounting), an optional unit, and an optional "+" before or
# after the unit, as in "65+" and "10+ years".
_PARTS = re.compile(
    rf"(?P<bound>[<>]=?|[≤≥])?\s*(?P<sign>[+-]?)"
    rf"(?:(?P<currency>[{_CURRENCY}])|(?P<code>{'|'.join(_CODES.split())}))?\s*"
    rf"(?P<sign2>[+-]?)(?P<body>\d(?:[\d.,{_SPACES}]*[\d.,])?{_EXPONENT}|[.,]\d+{_EXPONENT})"
    rf"(?P<minus>(?<=[.,]\d\d)-)?(?P<more>\+)?(?P<gap>\s*)[{_CURRENCY}]?(?P<unit>{_UNIT})?(?P<plus>\+)?"
)
# Factors, as in "$1.2m". Without a currency, only k, K and M directly after the digits are factors, because
# "3 K" may be a temperature and "3m" a length.
_FACTORS = {"k": 1e3, "m": 1e6, "mn": 1e6, "b": 1e9, "bn": 1e9}


def parse_numbers(tokens: np.ndarray, decimal: str = ".") -> tuple[np.ndarray, np.ndarray]:
    """Return the number and the unit of each token; the number is NaN if a token is not a finite number.

    With ``decimal="."``, commas separate groups of three digits; with ``decimal=","``, points do. A token
    that does not fit this convention is read with the other one: "1,5" is 1.5 with either. The unit is "" for
    tokens without a unit. Currency codes such as USD are units, whereas currency signs are ignored. The
    letters in "450k" and "$1.2M" are read as multipliers (thousand, million). Bounds such as "<0.3" and "65+"
    are read as 0.3 and 65; :func:`is_bound` detects them.

    Examples
    --------
    >>> tokens = np.array(["12", "$1,234.50", "5%", "(3)", "n/k", "1,5", "<0.3 kg/m²"], dtype=object)
    >>> values, units = parse_numbers(tokens)
    >>> values.tolist()
    [12.0, 1234.5, 5.0, -3.0, nan, 1.5, 0.3]
    >>> units.tolist()
    ['', '', '%', '', '', '', 'kg/m2']
    """
    plain = tokens  # tokens such as "-1.5e3" are parsed together by pandas, all others one by one
    if decimal == ",":
        plain = np.array(["" if "." in token else token.replace(",", ".") for token in tokens], dtype=object)
    values = np.array(pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce"), dtype=np.float64)
    values[np.isinf(values)] = np.nan
    found = ~np.isnan(values)
    values[found] = plain[found].astype(np.float64)  # pandas before 3.0 rounds numbers with 16 digits
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
    signs = [match[name] for name in ("sign", "sign2", "minus") if match[name]] if match else []
    if not match or len(signs) > 1:
        return np.nan, ""
    value = _parse_digits(match["body"], decimal)
    if negative or "-" in signs:
        value = -value
    unit, money = match["unit"] or "", match["currency"] or match["code"]
    if money or (unit in ("k", "K", "M") and not match["gap"]):
        factor = _FACTORS.get(unit.lower())
        value, unit = (value * factor, "") if factor else (value, unit)
    unit = match["code"] or unit
    return (value, _plain_unit(unit)) if np.isfinite(value) else (np.nan, "")


def _plain_unit(unit: str) -> str:
    """Return a unit in a standard spelling, such as kg/m2 for kg / m²."""
    unit = re.sub(r"\s*/\s*", "/", unit)
    return unit.translate(str.maketrans("²³μ\u00d7", "23µx"))


def currency_of(token: str) -> str:
    """Return the sign or the code of the currency in a token, or "" if there is none.

    Examples
    --------
    >>> currency_of("$1.2M"), currency_of("3 EUR"), currency_of("3 kg")
    ('$', '€', '')
    """
    match = re.search(f"[{_CURRENCY}]|{'|'.join(_CODES.split())}", token)
    return _SIGNS.get(match[0], match[0]) if match else ""


def is_bound(token: str) -> bool:
    """Return whether a token is a bound, such as "<0.3" or "65+"."""
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
    """Yield, for each column of text, the tokens among its first 1,000 distinct values."""
    for name, column in frame.items():
        if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
            try:
                distinct = column.drop_duplicates().head(1000)
            except TypeError:  # some values are not hashable; read_cells raises an error for them
                distinct = column
            yield read_cells(distinct, str(name), na).tokens


def detect_decimal(columns: Iterable[np.ndarray]) -> str | None:
    """Return the decimal sign of the numbers in some columns; None if the numbers do not determine it.

    A token such as "3,14" is evidence for a comma, and "3.14" for a point. A token such as "1,234" can have
    either meaning and is ignored. The sign with more evidence is returned.

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
            # "1,234" and "1.234" can contain a decimal sign or a thousands separator; "0,234" cannot
            if re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", body):
                continue
            point += bool(re.fullmatch(rf"(?:\d*|\d{{1,3}}(?:[,{_SPACES}]\d{{3}})+)\.\d+{_EXPONENT}", body))
            comma += bool(re.fullmatch(rf"(?:\d*|\d{{1,3}}(?:[.{_SPACES}]\d{{3}})+),\d+{_EXPONENT}", body))
    if point == comma:
        return None
    return "," if comma > point else "."


def count_units(units: np.ndarray, counts: np.ndarray) -> dict[str, int]:
    """Return the number of rows with each unit; spellings such as year and years count as the same unit.

    The keys of the result are the most frequent spelling of each unit. ``counts`` contains the number of rows
    for each entry of ``units``.
    """
    weights: dict[str, int] = {}
    for unit, count in zip(units.tolist(), counts.tolist(), strict=True):
        weights[unit] = weights.get(unit, 0) + count
    totals: dict[str, int] = {}
    for unit in sorted(weights, key=lambda unit: -weights[unit]):
        same = next((known for known in totals if _folded(known) == _folded(unit)), unit)
        totals[same] = totals.get(same, 0) + weights[unit]
    return totals


def _folded(unit: str) -> str:
    """Return the singular of a unit in lower case without blanks; M (mega) remains, because m means milli."""
    unit = unit.replace(" ", "").replace(".", "")
    unit = unit[:1] + unit[1:].lower() if unit.startswith("M") else unit.lower()
    return unit[:-1] if len(unit) > 2 and unit.endswith("s") else unit


def most_frequent_unit(units: np.ndarray, counts: np.ndarray) -> str:
    """Return the most frequent unit, which is "" if most values do not have a unit.

    If only one currency code occurs, and no other unit, then all values have this currency.
    """
    weights = count_units(units, counts)
    if len(weights) == 2 and "" in weights and (code := max(weights)) in _CODES.split():
        return code
    return max(weights, key=lambda unit: weights[unit]) if weights else ""


def numbers_in_unit(values: np.ndarray, units: np.ndarray, unit: str) -> np.ndarray:
    """Return the values in a given unit; values in other units become NaN.

    A number without a unit is assumed to have the given unit, unless this is a percentage: in a column of
    percentages, 5 can mean 5% or 500%. Conversely, 5% in a column of numbers without a unit can mean 5 or
    0.05 and becomes NaN.
    """
    fits = np.array([_folded(one) == _folded(unit) for one in units], dtype=bool)
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
_WEB_SERVER = "%d/%b/%Y:%H:%M:%S"
FORMATS = [*(day + time for time in _TIMES for day in _DAYS), *_MONTHS, _WEB_SERVER]
# German names of months that differ from the English ones
_MONTH_NAMES = {"Januar": "January", "Februar": "February", "März": "March", "Mai": "May", "Juni": "June"}
_MONTH_NAMES |= {"Juli": "July", "Oktober": "October", "Dezember": "December"}
_MONTH_NAMES |= {"Mär": "Mar", "Mrz": "Mar", "Okt": "Oct", "Dez": "Dec"}
_MONTH_NAME = re.compile(rf"\b(?:{'|'.join(_MONTH_NAMES)})\b")
# a time followed by a time zone, such as 10:30Z, 10:30:00.5 +02:00 and 10:30 UTC
_ZONE = r"(:\d{2}(?:\.\d+)?(?: ?[AaPp][Mm])?)\s*(?:Z|[A-Z]{3,4}|[+-]\d{2}(?::?\d{2})?)$"


def parse_dates(tokens: np.ndarray, form: str) -> np.ndarray:
    """Return the date and time of each token in the format ``form``, or NaT if the token does not match it.

    Time zones are ignored: the result is the local time. The names of months are English or German.
    ``form`` may be several formats separated by ``|``; the first format that matches a token is used.
    """
    if "|" in form:
        first, rest = form.split("|", 1)
        moments = parse_dates(tokens, first)
        unread = np.isnat(moments)
        moments[unread] = parse_dates(tokens[unread], rest)
        return moments
    text = pd.Series(tokens, dtype=object)
    if form == ISO:  # require a full date, because pandas would also accept a year alone
        text = text.where([bool(re.match(r"\d{4}-\d{2}-\d{2}", token)) for token in tokens])
    text = text.str.replace(_ZONE, r"\1", regex=True)
    if "%b" in form or "%B" in form:
        text = text.str.replace(_MONTH_NAME, lambda match: _MONTH_NAMES[match[0]], regex=True)
    moments = pd.to_datetime(text, format=form.removesuffix("%z").rstrip(), errors="coerce", utc=True)
    return moments.dt.tz_localize(None).to_numpy().astype("datetime64[us]")


def find_format(tokens: np.ndarray, least: float) -> tuple[str | None, str | None]:
    """Return the date format that matches most tokens, and an equally good format with day and month swapped.

    The first format is None if it matches less than the fraction ``least`` of the tokens. The second format
    is None unless it matches as many tokens as the first.

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
    """Return the formats of a column that mixes several, separated by ``|``, the most frequent first.

    A format and its version with day and month swapped exclude each other.
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
    """Return the format with day and month swapped."""
    return form.translate(str.maketrans("dm", "md"))


def _has_signs_of(form: str, sample: np.ndarray) -> bool:
    """Return whether some tokens contain the punctuation of a date format.

    This test is faster than parsing, and excludes most formats.
    """
    signs = set(re.sub("%.", "", form))
    return any(signs.issubset(token) and (":" in token) == (":" in signs) for token in sample)


def _fraction_parsed(tokens: np.ndarray, form: str) -> float:
    return float((~np.isnat(parse_dates(tokens, form))).mean())
