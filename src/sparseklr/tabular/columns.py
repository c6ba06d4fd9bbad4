"""What a column of a table holds, and how its values are read."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from .cells import Cells, TableError, read_cells
from .dates import ISO, find_format, parse_dates
from .numbers import of_unit, parse_numbers, unit_of

FEW = 40  # text with fewer different values is a category
BEYOND = 0.25  # widths of the training range beyond which a number is outside it
MOST_UNREAD = 40  # tokens that cannot be read and that a column remembers
FEWEST_ROWS = 20  # below, whole numbers that are all different prove nothing
INFINITY = "infinity"  # the token of an infinite number
# Why columns are left out
EMPTY = "empty in every row"
CONSTANT = "the same value in every row"
COUNTED = "a different whole number in each row, as identifiers are"
NAMED = "a different text in nearly every row, as identifiers are"
_IDENTIFIER = re.compile(r"(?:^|[\W_])(?:id|ids|uuid|guid|key|nr|no|index|idx)(?:$|[\W_])", re.IGNORECASE)
_IDENTIFIER_AT_END = re.compile(r"[a-z](?:Id|ID|Nr|No)$")


@dataclass(frozen=True)
class Column:
    """What a column holds, learned from the training rows."""

    kind: str  # "number", "date" or "text"
    left_out: str = ""  # why it is not a feature; "" if it is one
    unit: str = ""  # that the numbers have: "%", "kg"
    form: str = ""  # of dates in text
    low: float | None = None  # the range in training; of dates in seconds since 1970
    high: float | None = None
    categories: tuple[str, ...] | None = None  # the values of text that has few of them
    holes: bool = True  # whether values were missing in training
    unread: tuple[str, ...] = ()  # tokens of training that cannot be read, at most MOST_UNREAD

    @property
    def identifies(self) -> bool:
        """Whether the column was left out because it identifies the rows."""
        return self.left_out in (COUNTED, NAMED)


@dataclass(frozen=True)
class Odd:
    """Values of a column that cannot be read and count as missing; of text, values that training had not."""

    name: str
    kind: str
    count: int
    filled: int
    examples: list[tuple[str, Any]]  # token and the first row that holds it, at most MOST_UNREAD
    new: int  # how many of them training had not

    def __str__(self) -> str:
        if self.kind == "text":
            verb = ("is" if self.count == 1 else "are") + " new to the model"
        elif self.count == 1:
            verb = f"is not a {self.kind} and counts as missing"
        else:
            verb = f"are not {self.kind}s and count as missing"
        shown = ", ".join(f"{token[:40]!r} (row {row})" for token, row in self.examples[:3])
        more = ", ..." if len(self.examples) > 3 else ""
        return f"column {self.name!r}: {self.count} of {self.filled} values {verb}: {shown}{more}"


# -- learning what a column holds -------------------------------------------------------------


def learn(
    column: pd.Series, name: str, decimal: str, na: Collection[str], declared: str = "", form: str = ""
) -> tuple[Column, list[str]]:
    """What a column holds, and sentences on what of it is uncertain or cannot be read.

    ``declared`` is the kind it must have; a declared column is left out only when it is empty.
    """
    doubt = ""
    if declared == "date" and not _is_date(column):
        cells = read_cells(column, name, na)
        found, doubt = (form, "") if form or not len(cells.tokens) else _date_format(cells, name, least=0.5)
        learned = Column("date", form=found)
    elif declared or isinstance(column.dtype, pd.CategoricalDtype):
        cells = read_cells(column, name, na)
        learned = Column(declared or "text", unit=_unit(cells, decimal) if declared == "number" else "")
    elif _is_date(column):
        learned = Column("date")
    elif _is_number(column):
        numbers = _floats(column)
        learned = _learn_numbers(numbers, name)
        if not learned.left_out and _looks_like_days(numbers[~np.isnan(numbers)]):
            learned = Column("date", form="%Y%m%d")
    else:
        learned, doubt = _learn_text(read_cells(column, name, na), name, decimal)
    values, odd = read_column(column, name, learned, decimal, na)
    filled = ~pd.isna(values)
    unread = tuple(token for token, _ in odd.examples) if odd else ()
    learned = replace(learned, holes=not filled.all(), unread=unread)
    if not filled.any() and odd is None:
        learned = replace(learned, left_out=EMPTY)
    elif odd and (not filled.any() or (declared == "date" and odd.count > odd.filled / 2)):
        token, row = odd.examples[0]
        raise TableError(f"column {name!r}: row {row} holds {token!r}; expected a {learned.kind}")
    elif not declared and filled.all() and len(pd.unique(values)) == 1:
        learned = replace(learned, left_out=CONSTANT)
    if learned.left_out:
        return learned, [f"column {name!r} is left out: {learned.left_out}"]
    if learned.kind != "text":
        range_ = values[filled].astype(np.int64) / 1e6 if learned.kind == "date" else values[filled]
        learned = replace(learned, low=float(range_.min()), high=float(range_.max()))
    elif len(categories := sorted(set(values[filled]))) < FEW:
        learned = replace(learned, categories=tuple(categories))
    return learned, [word for word in (doubt, str(odd or "")) if word]


def _learn_text(cells: Cells, name: str, decimal: str) -> tuple[Column, str]:
    if not len(cells.tokens):
        return Column("text"), ""
    counts, filled = cells.counts, int(cells.counts.sum())
    values, units = parse_numbers(cells.tokens, decimal)
    unit = unit_of(units[~np.isnan(values)], counts[~np.isnan(values)])
    values = of_unit(values, units, unit)
    known = ~np.isnan(values)
    share = counts[known].sum() / filled
    if share >= 0.9 or (share >= 0.5 and (~known).sum() <= 2 and known.sum() >= 10):
        if not _is_code(cells.tokens, counts):
            numbers = cells.spread(values, np.nan)
            if known.all() and _looks_like_days(numbers[~np.isnan(numbers)]):
                return Column("date", form="%Y%m%d"), ""
            return replace(_learn_numbers(numbers, name), unit=unit), ""
    elif find_format(cells.tokens, 0.9)[0]:
        form, doubt = _date_format(cells, name, least=0.9)
        return Column("date", form=form), doubt
    words = sum(len(token.split()) for token in cells.tokens) / len(cells.tokens)
    if filled >= FEWEST_ROWS and len(cells.tokens) >= 0.95 * filled and words < 3:
        return Column("text", left_out=NAMED), ""
    return Column("text"), ""


def _learn_numbers(values: np.ndarray, name: str) -> Column:
    """Numbers, or identifiers: whole numbers that are all different and count the rows or are called so."""
    numbers = values[np.isfinite(values)]
    if len(numbers) < FEWEST_ROWS or not np.array_equal(numbers, np.round(numbers)):
        return Column("number")
    n_distinct, steps = len(np.unique(numbers)), np.diff(numbers)
    called_so = bool(_IDENTIFIER.search(name) or _IDENTIFIER_AT_END.search(name))
    counting = np.ptp(numbers) < 2 * len(numbers) or (steps > 0).all() or (steps < 0).all()
    if (n_distinct == len(numbers) and counting) or (called_so and n_distinct >= 0.95 * len(numbers)):
        return Column("number", left_out=COUNTED)
    return Column("number")


def _unit(cells: Cells, decimal: str) -> str:
    values, units = parse_numbers(cells.tokens, decimal)
    return unit_of(units[~np.isnan(values)], cells.counts[~np.isnan(values)])


def _is_code(tokens: np.ndarray, counts: np.ndarray) -> bool:
    """Whether leading zeros say that the digits are a code and not a number: 01234, but not 0.5."""
    padded = np.array([bool(re.fullmatch(r"0\d+", token)) for token in tokens])
    digits = np.array([token.isdigit() for token in tokens])
    if not padded.any():
        return False
    same_width = len({len(token) for token in tokens[digits]}) == 1
    return bool((same_width and digits.mean() >= 0.9) or counts[padded].sum() >= 0.05 * counts.sum())


def _looks_like_days(numbers: np.ndarray) -> bool:
    """Whether all numbers are days written as 20240131."""
    whole = np.isfinite(numbers).all() and np.array_equal(numbers, np.round(numbers))
    if not whole or len(numbers) < 2 or numbers.min() < 19000101 or numbers.max() > 21001231:
        return False
    tokens = np.array([str(int(number)) for number in np.unique(numbers)], dtype=object)
    return not np.isnat(parse_dates(tokens, "%Y%m%d")).any()


def _date_format(cells: Cells, name: str, least: float) -> tuple[str, str]:
    form, swapped = find_format(cells.tokens, least)
    if form is None:
        raise TableError(
            f"column {name!r}: no format of dates fits; row {cells.first_row(0)} holds {cells.tokens[0]!r}"
        )
    if not swapped:
        return form, ""
    return form, (
        f"column {name!r}: {cells.tokens[0]!r} is read as a date of the form {form}; it may also be {swapped}"
    )


# -- reading ----------------------------------------------------------------------------------


def read_column(
    column: pd.Series, name: str, learned: Column, decimal: str, na: Collection[str]
) -> tuple[np.ndarray, Odd | None]:
    """The values of a column: floats, datetime64[us], or strings with None for the missing ones."""
    if learned.kind == "number" and _is_number(column):
        values = _floats(column)
        values[np.isin(values, parse_numbers(np.array(list(na), dtype=object), decimal)[0])] = np.nan
        infinite, filled = np.isinf(values), int((~np.isnan(values)).sum())
        values[infinite] = np.nan
        if not infinite.any():
            return values, None
        count, examples = int(infinite.sum()), [(INFINITY, column.index[int(infinite.argmax())])]
        return values, Odd(name, "number", count, filled, examples, count * (INFINITY not in learned.unread))
    if learned.kind == "date" and types.is_datetime64_any_dtype(column.dtype):
        clock = column.dt.tz_localize(None)  # what a clock of its zone shows
        return clock.to_numpy().astype("datetime64[us]"), None
    cells = read_cells(column, name, na)
    if learned.kind == "text":
        values, known = cells.spread(cells.tokens, None), learned.categories
        unknown = np.array([known is not None and token not in known for token in cells.tokens], dtype=bool)
    elif learned.kind == "number":
        numbers = of_unit(*parse_numbers(cells.tokens, decimal), learned.unit)
        values, unknown = cells.spread(numbers, np.nan), np.isnan(numbers)
    else:
        form = learned.form or find_format(cells.tokens, 0.5)[0] or ISO
        moments = parse_dates(cells.tokens, form)
        values, unknown = cells.spread(moments, np.datetime64("NaT")), np.isnat(moments)
    if not unknown.any():
        return values, None
    counts = cells.counts
    new = unknown & [token not in learned.unread for token in cells.tokens]
    examples = [(cells.tokens[k], cells.first_row(k)) for k in np.flatnonzero(unknown)[:MOST_UNREAD]]
    count, filled, n_new = int(counts[unknown].sum()), int(counts.sum()), int(counts[new].sum())
    return values, Odd(name, learned.kind, count, filled, examples, n_new)


def _is_number(column: pd.Series) -> bool:
    return types.is_numeric_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype)


def _is_date(column: pd.Series) -> bool:
    return types.is_datetime64_any_dtype(column.dtype)


def _floats(column: pd.Series) -> np.ndarray:
    if types.is_timedelta64_dtype(column.dtype):
        column = column.dt.total_seconds()
    return column.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


# -- what training has not seen ---------------------------------------------------------------


def strange(values: np.ndarray, name: str, learned: Column) -> dict[str, np.ndarray]:
    """Which values of a column that was read are unlike those of training, and in what way."""
    missing = pd.isna(values)
    found = {f"{name} is missing": missing & (not learned.holes)}
    if learned.kind == "text":
        if learned.categories is not None:
            found[f"{name} is new"] = ~missing & ~np.isin(values.astype(object), learned.categories)
    elif learned.low is not None and learned.high is not None:
        numbers = values.astype(np.int64) / 1e6 if learned.kind == "date" else values
        margin = BEYOND * (learned.high - learned.low)
        found[f"{name} is low"] = ~missing & (numbers < learned.low - margin)
        found[f"{name} is high"] = ~missing & (numbers > learned.high + margin)
    return found
