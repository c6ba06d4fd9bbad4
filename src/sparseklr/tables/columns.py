"""Detection of the kind of a column (number, date or text), and conversion of a column of known kind."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from .._utils.messages import listing
from .cells import (
    ISO,
    Cells,
    TableError,
    count_units,
    currency_of,
    find_format,
    is_bound,
    most_frequent_unit,
    numbers_in_unit,
    parse_dates,
    parse_numbers,
    read_cells,
)

# Reasons for dropping a column
EMPTY = "empty in every row"
CONSTANT = "the same value in every row"
COUNTED = "a different whole number in each row, like an identifier"
NAMED = "a different text in nearly every row, like an identifier"
INFINITY = "infinity"  # token of an infinite number in a column of floats
_IDENTIFIER = re.compile(r"(?:^|[\W_])(?:id|ids|uuid|guid|key|nr|no|index|idx)(?:$|[\W_])", re.IGNORECASE)
_IDENTIFIER_AT_END = re.compile(r"[a-z](?:Id|ID|Nr|No|Number)$|(?:^|[\W_])number$|nummer$|NUMBER$")


@dataclass(frozen=True)
class ColumnSettings:
    """Thresholds of the rules that determine the kind of a column."""

    max_categories: int = 40  # a text column with fewer distinct values is categorical
    numbers: float = 0.9  # a column is numeric if this fraction of its cells are numbers; also for dates
    numbers_but_tokens: float = 0.5  # the same fraction if at most two distinct tokens are not numbers
    date_declared: float = 0.5  # fraction of cells that must match the date format if the user declares dates
    min_rows: int = 20  # with fewer rows, a column of distinct values is not taken for an identifier
    distinct: float = 0.95  # minimum fraction of distinct values in an identifier
    max_words: int = 3  # a text column with at least this mean number of words is free text
    padded: float = 0.05  # fraction of cells with leading zeros above which digits are codes, not numbers
    max_unread: int = 40  # maximum number of unreadable tokens that are stored
    other_column: int = 5  # this number of new unreadable values indicates a wrong column
    max_units: int = 3  # two or three different units are reported; more are taken for codes such as 12A
    sentinel: float = 0.75  # minimum distance of -99 or 999 from the other values, relative to their range
    spellings: float = 0.001  # significance level of the test whether labels differ between "Yes" and "yes"
    # Values farther outside the training range than this fraction of its width are strange.
    outside: float = 0.25


SETTINGS = ColumnSettings()


@dataclass(frozen=True)
class Column:
    """Properties of a column of the training data."""

    kind: str  # "number", "date" or "text"
    left_out: str = ""  # the reason why the column is dropped; "" if it is used
    unit: str = ""  # unit of the numbers, such as "%" or "kg"
    form: str = ""  # format of dates that are stored as text
    low: float | None = None  # smallest number, or earliest date in seconds since 1970
    high: float | None = None  # largest number, or latest date in seconds since 1970
    categories: tuple[str, ...] | None = None  # distinct values of a categorical column; None for others
    has_missing: bool = True  # whether the training data have missing values
    unread: tuple[str, ...] = ()  # unreadable tokens in the training data, at most max_unread

    def __str__(self) -> str:
        """Return a description of the values in training, or the reason why the column is dropped."""
        if self.left_out:
            return self.left_out
        if self.categories is not None:
            return listing(self.categories, most=8)
        if self.low is None:
            return "free text"
        if self.kind == "date":
            low, high = (pd.Timestamp(seconds, unit="s") for seconds in (self.low, self.high))
            dated = low == low.normalize() and high == high.normalize()
            form = "%Y-%m-%d" if dated else "%Y-%m-%d %H:%M:%S"
            return f"{low:{form}} to {high:{form}}"
        return f"{self.low:.6g} to {self.high:.6g} {self.unit}".rstrip()

    @property
    def identifies(self) -> bool:
        """Whether the column is dropped because it identifies the rows."""
        return self.left_out in (COUNTED, NAMED)


@dataclass(frozen=True)
class UnreadableValues:
    """Values of a column that cannot be read, or categories that do not occur in the training data."""

    name: str  # name of the column
    kind: str  # kind of the column
    count: int  # number of cells with an unreadable value
    filled: int  # number of cells that are not missing
    examples: list[tuple[str, Any]]  # unreadable tokens, each with the label of its first row
    new: int  # number of cells with an unreadable value that did not occur in training
    unit: str = ""  # unit of the numbers in the column

    def __str__(self) -> str:
        unit = f" in {self.unit}" if self.unit else ""
        if self.kind == "text":
            verb = ("does" if self.count == 1 else "do") + " not occur in the training data"
        elif self.count == 1:
            verb = f"is not a {self.kind}{unit} and is treated as missing"
        else:
            verb = f"are not {self.kind}s{unit} and are treated as missing"
        examples = ", ".join(f"{token[:40]!r} (row {row})" for token, row in self.examples[:3])
        more = ", ..." if len(self.examples) > 3 else ""
        return f"column {self.name!r}: {self.count} of {self.filled} values {verb}: {examples}{more}"


# -- learning the kind of a column ------------------------------------------------------------


def learn(
    column: pd.Series,
    name: str,
    decimal: str,
    na: Collection[str],
    declared: str = "",
    form: str = "",
    y: np.ndarray | None = None,
) -> tuple[Column, np.ndarray, list[str]]:
    """Return the properties of a column of the training data, its values, and messages for the user.

    The messages concern dropped columns and ambiguous or unreadable values.

    Parameters
    ----------
    column, name : Series, str
        The column and its name.
    decimal, na : str, collection of str
        The decimal sign, and additional tokens for missing values.
    declared : str
        The kind of the column if the user gave it, otherwise "". A column of given kind is dropped only if it
        is empty.
    form : str
        The date format if the user gave it, otherwise "".
    y : array or None
        The labels. They decide whether two spellings, such as "Yes" and "yes", are the same category.
    """
    learned, cells, doubt = _learn_kind(column, name, decimal, na, declared, form)
    values, unreadable = read_column(column, name, learned, decimal, na, cells)
    filled = ~pd.isna(values)
    unread = tuple(token for token, _ in unreadable.examples) if unreadable else ()
    learned = replace(learned, has_missing=not filled.all(), unread=unread)
    if not filled.any() and unreadable is None:
        learned = replace(learned, left_out=EMPTY)
    elif unreadable and (
        not filled.any() or (declared == "date" and unreadable.count > unreadable.filled / 2)
    ):
        token, row = unreadable.examples[0]
        raise TableError(f"column {name!r}: row {row} contains {token!r}; expected a {learned.kind}")
    elif not declared and filled.all() and len(pd.unique(values)) == 1:
        learned = replace(learned, left_out=CONSTANT)
    if learned.left_out:
        return learned, values, [f"column {name!r} is dropped: {learned.left_out}"]
    if learned.kind != "text":
        numbers = _as_floats(values[filled])
        learned = replace(learned, low=float(numbers.min()), high=float(numbers.max()))
    elif len(set(values[filled])) < SETTINGS.max_categories:
        values, merged = one_spelling(values, name, y)
        learned = replace(learned, categories=tuple(sorted(set(values[filled]))))
        return learned, values, [sentence for sentence in (doubt, *merged) if sentence]
    sentences = [doubt, str(unreadable or "")]
    if learned.kind == "number":
        sentences += [
            _bounds(cells, name, decimal),
            _currencies(cells, name),
            *_sentinels(values[filled], name),
        ]
    return learned, values, [sentence for sentence in sentences if sentence]


def _bounds(cells: Cells | None, name: str, decimal: str) -> str:
    """Return a message about bounds such as <0.3 and 65+ in a column of numbers, or ""."""
    if cells is None:
        return ""
    bound = [k for k, token in enumerate(cells.tokens) if is_bound(token)]
    if not bound:
        return ""
    count, filled = int(cells.counts[bound].sum()), int(cells.counts.sum())
    examples = ", ".join(f"{cells.tokens[k]!r} (row {cells.first_row(k)})" for k in bound[:3])
    verb = "is a bound and is" if count == 1 else "are bounds and are"
    verb += " read as a number" if count == 1 else " read as numbers"
    return f"column {name!r}: {count} of {filled} values {verb}: {examples}" + (
        ", ..." if len(bound) > 3 else ""
    )


def _currencies(cells: Cells | None, name: str) -> str:
    """Return a message if the numbers in a column have different currencies, otherwise ""."""
    totals: dict[str, int] = {}
    if cells is not None:
        for token, count in zip(cells.tokens, cells.counts.tolist(), strict=True):
            if currency := currency_of(token):
                totals[currency] = totals.get(currency, 0) + count
    if len(totals) < 2:
        return ""
    listed = ", ".join(f"{currency} ({count} values)" for currency, count in totals.items())
    return f"column {name!r}: numbers in several currencies, {listed}, are not converted to one currency"


def _sentinels(values: np.ndarray, name: str) -> list[str]:
    """Return messages about values such as -99 that are far from all others and may mean "missing"."""
    distinct, counts = np.unique(values, return_counts=True)
    nines = np.array([bool(re.fullmatch(r"-?9*9(?:\.9*0?)?", f"{value:.10g}")) for value in distinct])
    rest = distinct[~nines]
    if not nines.any() or len(rest) < 3:
        return []
    low, high = float(rest.min()), float(rest.max())
    found = []
    for value, count in zip(distinct[nines], counts[nines], strict=True):
        if max(low - value, value - high) > SETTINGS.sentinel * (high - low):
            rows = f"{count} row{'s' if count > 1 else ''}"
            found.append(
                f"column {name!r}: {value:g} in {rows} is far from the other values, which range from "
                f"{low:g} to {high:g}; if it means a missing value, add it to the missing tokens "
                f"(--na={value:g})"
            )
    return found


def one_spelling(values: np.ndarray, name: str, y: np.ndarray | None = None) -> tuple[np.ndarray, list[str]]:
    """Return the values with one spelling of categories that differ only in case, and messages for the user.

    Categories such as "Yes" and "yes" are merged into the more frequent one, unless their labels y, if given,
    differ significantly in a chi-squared test.
    """
    counts = pd.Series(values).value_counts()
    groups: dict[str, list[str]] = {}
    for token in counts.index:  # the most frequent first
        groups.setdefault(token.casefold(), []).append(token)
    values, sentences, merged = values.copy(), [], []
    for spellings in groups.values():
        if len(spellings) == 1:
            continue
        if y is not None and _labels_differ(values, spellings, y):
            listed = ", ".join(map(repr, spellings))
            sentences.append(
                f"column {name!r}: {listed} remain different categories, as their class frequencies differ"
            )
            continue
        values[np.isin(values, spellings)] = spellings[0]
        merged.append(" = ".join(map(repr, spellings)))
    if merged:
        listed = listing(merged)
        sentences.append(f"column {name!r}: categories that differ only in case are merged: {listed}")
    return values, sentences


def _labels_differ(values: np.ndarray, spellings: list[str], y: np.ndarray) -> bool:
    from scipy.stats import chi2_contingency

    rows = np.isin(values, spellings)
    table = pd.crosstab(pd.Series(values[rows]), pd.Series(np.asarray(y)[rows])).to_numpy()
    return table.shape[1] > 1 and bool(chi2_contingency(table).pvalue < SETTINGS.spellings)


def _learn_kind(
    column: pd.Series, name: str, decimal: str, na: Collection[str], declared: str, form: str
) -> tuple[Column, Cells | None, str]:
    """Return the kind of a column, its cells if they were read as text, and a message if it is ambiguous.

    The message is "" if the column is not ambiguous. The parameters are those of :func:`learn`.
    """
    native_date = types.is_datetime64_any_dtype(column.dtype)
    if native_date and declared in ("", "date"):
        return Column("date"), None, ""
    if not declared and _is_number(column):
        numbers = _floats(column)
        learned = _learn_numbers(numbers, name)
        if not learned.left_out and _looks_like_days(numbers[~np.isnan(numbers)]):
            learned = Column("date", form="%Y%m%d")
        return learned, None, ""
    cells = read_cells(column, name, na)
    if declared == "date":
        found, doubt = form, ""
        if not form and len(cells.tokens):
            found, doubt = _date_format(cells, name, SETTINGS.date_declared)
        return Column("date", form=found), cells, doubt
    if declared == "number":
        values, units = parse_numbers(cells.tokens, decimal)
        known = ~np.isnan(values)
        return Column("number", unit=most_frequent_unit(units[known], cells.counts[known])), cells, ""
    if declared or isinstance(column.dtype, pd.CategoricalDtype):
        return Column("text"), cells, ""
    learned, doubt = _learn_text(cells, name, decimal)
    return learned, cells, doubt


def _learn_text(cells: Cells, name: str, decimal: str) -> tuple[Column, str]:
    if not len(cells.tokens):
        return Column("text"), ""
    counts, filled = cells.counts, int(cells.counts.sum())
    values, units = parse_numbers(cells.tokens, decimal)
    is_number = ~np.isnan(values)
    unit = most_frequent_unit(units[is_number], counts[is_number])
    values = numbers_in_unit(values, units, unit)
    known = ~np.isnan(values)
    fraction = counts[known].sum() / filled
    few_tokens = (~known).sum() <= 2 and known.sum() >= 10
    if fraction >= SETTINGS.numbers or (fraction >= SETTINGS.numbers_but_tokens and few_tokens):
        if not _is_code(cells.tokens, counts):
            numbers = cells.spread(values, np.nan)
            if known.all() and _looks_like_days(numbers[~np.isnan(numbers)]):
                return Column("date", form="%Y%m%d"), ""
            return replace(_learn_numbers(numbers, name), unit=unit), ""
    elif doubt := _several_units(units[is_number], counts[is_number], filled, name):
        return Column("text"), doubt
    elif find_format(cells.tokens, SETTINGS.numbers)[0]:
        form, doubt = _date_format(cells, name, SETTINGS.numbers)
        return Column("date", form=form), doubt
    words = sum(len(token.split()) for token in cells.tokens) / len(cells.tokens)
    distinct = len(cells.tokens) >= SETTINGS.distinct * filled
    if filled >= SETTINGS.min_rows and distinct and words < SETTINGS.max_words:
        return Column("text", left_out=NAMED), ""
    return Column("text"), ""


def _several_units(units: np.ndarray, counts: np.ndarray, filled: int, name: str) -> str:
    """Return a message if a column contains numbers in two or three different units, otherwise ""."""
    totals = count_units(units, counts)
    n_numbers, _ = sum(totals.values()), totals.pop("", 0)
    if not 1 < len(totals) <= SETTINGS.max_units or n_numbers < SETTINGS.numbers * filled:
        return ""
    listed = ", ".join(f"{unit} ({count} values)" for unit, count in totals.items())
    return (
        f"column {name!r} contains numbers in several units, {listed}, and is read as text; convert the "
        "numbers to one unit, or declare the column as numeric (--number) to use only the numbers in "
        f"{max(totals, key=lambda u: totals[u])}"
    )


def _learn_numbers(values: np.ndarray, name: str) -> Column:
    """Return a column of numbers, marked as dropped if the numbers are identifiers.

    Identifiers are distinct integers that number the rows, or nearly distinct integers in a column with a
    name such as "customer_id".
    """
    numbers = values[np.isfinite(values)]
    if len(numbers) < SETTINGS.min_rows or not np.array_equal(numbers, np.round(numbers)):
        return Column("number")
    n_distinct, steps = len(np.unique(numbers)), np.diff(numbers)
    named_so = bool(_IDENTIFIER.search(name) or _IDENTIFIER_AT_END.search(name))
    counting = np.ptp(numbers) < 2 * len(numbers) or (steps > 0).all() or (steps < 0).all()
    nearly_distinct = n_distinct >= SETTINGS.distinct * len(numbers)
    if (n_distinct == len(numbers) and counting) or (named_so and nearly_distinct):
        return Column("number", left_out=COUNTED)
    return Column("number")


def _is_code(tokens: np.ndarray, counts: np.ndarray) -> bool:
    """Return whether leading zeros, as in 01234 but not in 0.5, show that digits are codes, not numbers."""
    padded = np.array([bool(re.fullmatch(r"0\d+", token)) for token in tokens])
    digits = np.array([token.isdigit() for token in tokens])
    if not padded.any():
        return False
    same_width = len({len(token) for token in tokens[digits]}) == 1
    often = counts[padded].sum() >= SETTINGS.padded * counts.sum()
    return bool((same_width and digits.mean() >= SETTINGS.numbers) or often)


def _looks_like_days(numbers: np.ndarray) -> bool:
    """Return whether all numbers are dates, written like 20240131."""
    whole = np.isfinite(numbers).all() and np.array_equal(numbers, np.round(numbers))
    if not whole or len(numbers) < 2 or numbers.min() < 19000101 or numbers.max() > 21001231:
        return False
    tokens = np.array([str(int(number)) for number in np.unique(numbers)], dtype=object)
    return not np.isnat(parse_dates(tokens, "%Y%m%d")).any()


def _date_format(cells: Cells, name: str, least: float) -> tuple[str, str]:
    form, swapped = find_format(cells.tokens, least)
    if form is None:
        raise TableError(
            f"column {name!r}: the dates do not match any known format; row {cells.first_row(0)} contains "
            f"{cells.tokens[0]!r}. Give the format of the dates, or do not declare the column as dates"
        )
    if "|" in form:
        listed = form.replace("|", ", ")
        return form, f"column {name!r}: dates in several formats: {listed}"
    if not swapped:
        return form, ""
    return form, (
        f"column {name!r}: dates such as {cells.tokens[0]!r} are read with the format {form}, but {swapped} "
        "is also possible"
    )


# -- reading ----------------------------------------------------------------------------------


def read_column(
    column: pd.Series,
    name: str,
    learned: Column,
    decimal: str,
    na: Collection[str],
    cells: Cells | None = None,
) -> tuple[np.ndarray, UnreadableValues | None]:
    """Return the values of a column of known kind, and a record of unreadable values (None without any).

    Numbers are returned as float64, dates as datetime64[us] and text as strings; a missing text value is
    None. ``cells`` may contain the cells of the column if they have already been parsed; this avoids parsing
    them again.
    """
    if learned.kind == "number" and _is_number(column):
        values = _floats(column)
        values[np.isin(values, _missing_numbers(na, decimal))] = np.nan
        infinite, filled = np.isinf(values), int((~np.isnan(values)).sum())
        values[infinite] = np.nan
        if not infinite.any():
            return values, None
        count, examples = int(infinite.sum()), [(INFINITY, column.index[int(infinite.argmax())])]
        n_new = count * (INFINITY not in learned.unread)
        return values, UnreadableValues(name, "number", count, filled, examples, n_new)
    if learned.kind == "date" and types.is_datetime64_any_dtype(column.dtype):
        local = column.dt.tz_localize(None)
        return local.to_numpy().astype("datetime64[us]"), None
    cells = read_cells(column, name, na) if cells is None else cells
    if learned.kind == "text":
        known = learned.categories
        tokens = cells.tokens if known is None else known_spelling(cells.tokens, known)
        values = cells.spread(tokens, None)
        unknown = np.array([known is not None and token not in known for token in tokens], dtype=bool)
    elif learned.kind == "number":
        numbers = numbers_in_unit(*parse_numbers(cells.tokens, decimal), learned.unit)
        unknown = np.isnan(numbers)
        numbers[np.isin(numbers, _missing_numbers(na, decimal))] = np.nan  # the token -9 also matches -9.0
        values = cells.spread(numbers, np.nan)
    else:
        form = learned.form or find_format(cells.tokens, SETTINGS.date_declared)[0] or ISO
        moments = parse_dates(cells.tokens, form)
        values, unknown = cells.spread(moments, np.datetime64("NaT")), np.isnat(moments)
    if not unknown.any():
        return values, None
    counts = cells.counts
    new = unknown & [token not in learned.unread for token in cells.tokens]
    first = np.flatnonzero(unknown)[: SETTINGS.max_unread]
    examples = [(cells.tokens[k], cells.first_row(k)) for k in first]
    count, filled, n_new = int(counts[unknown].sum()), int(counts.sum()), int(counts[new].sum())
    return values, UnreadableValues(name, learned.kind, count, filled, examples, n_new, learned.unit)


def _missing_numbers(na: Collection[str], decimal: str) -> np.ndarray:
    """Return the tokens for missing values as numbers; NaN for tokens that are not numbers."""
    return parse_numbers(np.array(list(na), dtype=object), decimal)[0]


def known_spelling(tokens: np.ndarray, categories: Sequence[str]) -> np.ndarray:
    """Return the tokens, with each token replaced by the category that differs from it only in case.

    A token stays unchanged if there is no such category, or more than one.
    """
    exact, folded = {*categories}, [category.casefold() for category in categories]
    by_case = {
        fold: category for fold, category in zip(folded, categories, strict=True) if folded.count(fold) == 1
    }
    known = [token if token in exact else by_case.get(token.casefold(), token) for token in tokens]
    return np.array(known, dtype=object)


def _is_number(column: pd.Series) -> bool:
    return types.is_numeric_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype)


def _floats(column: pd.Series) -> np.ndarray:
    if types.is_timedelta64_dtype(column.dtype):
        column = column.dt.total_seconds()
    return column.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


def _as_floats(values: np.ndarray) -> np.ndarray:
    """Return numbers unchanged, and dates as seconds since 1970."""
    return values.astype(np.int64) / 1e6 if values.dtype.kind == "M" else values


def strange(values: np.ndarray, name: str, learned: Column) -> dict[str, np.ndarray]:
    """Return masks of the rows whose value is unlike the training data, one mask for each reason.

    The reasons are new categories, numbers and dates outside the training range, and missing values in a
    column without missing values in training.
    """
    missing = pd.isna(values)
    found = {f"{name} is missing": missing & (not learned.has_missing)}
    if learned.kind == "text":
        if learned.categories is not None:
            found[f"{name} is new"] = ~missing & ~np.isin(values.astype(object), learned.categories)
    elif learned.low is not None and learned.high is not None:
        numbers = _as_floats(values)
        margin = SETTINGS.outside * (learned.high - learned.low)
        found[f"{name} is low"] = ~missing & (numbers < learned.low - margin)
        found[f"{name} is high"] = ~missing & (numbers > learned.high + margin)
    return found
