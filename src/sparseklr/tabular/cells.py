"""The cells of one column as text: stripped, each distinct token once, missing ones marked."""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

# What stands for a missing value in a column of any kind. "none" is not here: it may be a category.
_TOKENS = """
    NA N/A n/a NULL null NaN nan -NaN -nan NaT <NA> ? #N/A #NA #NULL! #DIV/0! #VALUE! #REF!
    -1.#IND -1.#QNAN 1.#IND 1.#QNAN
"""
MISSING = frozenset({"", "#N/A N/A", *_TOKENS.split()})


class TableError(ValueError):
    """A table that cannot be used; the message names the column and, where there is one, the row."""


class TableWarning(UserWarning):
    """Part of a table is not used: values that count as missing, or columns that are left out."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A column of text."""

    codes: np.ndarray  # (n_rows,): the place of a cell's token, -1 where the cell is missing
    tokens: np.ndarray  # distinct strings
    rows: Any  # the name of each row: the index of the data frame

    @property
    def counts(self) -> np.ndarray:
        """How often each token occurs."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.tokens))

    def spread(self, values: np.ndarray, missing: Any) -> np.ndarray:
        """One value for each row from one value for each token."""
        return np.append(values, np.array([missing], dtype=values.dtype))[self.codes]

    def first_row(self, token: int) -> Any:
        """The name of the first row that holds a token."""
        return self.rows[int((self.codes == token).argmax())]


def read_cells(column: pd.Series, name: str, na: Collection[str] = ()) -> Cells:
    """The cells of a column of any type as text.

    Whole numbers lose their ".0", so that 12 and 12.0 are one token.
    """
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # of values that cannot be told apart, such as lists: the first one is the reason
        for value in column.dropna():
            _token(value, name)
        raise
    missing = MISSING.union(na)
    written = [_token(value, name) for value in np.asarray(values, dtype=object)]
    kept = np.array([None if token in missing else token for token in written], dtype=object)
    again, tokens = pd.factorize(kept)  # without spaces around them, some are equal
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
        "Leave it out: drop"
    )
