"""First step of the pipeline for data frames: conversion of the columns to numbers, dates and text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._utils.messages import listing, warn
from .cells import TableError, TableWarning, detect_decimal, sample_tokens
from .columns import SETTINGS, Column, learn, read_column, strange


class TableReader(TransformerMixin, BaseEstimator):
    """Transformer that converts the columns of a table to numbers, dates or text.

    - A column of text is numeric if nearly all its values are numbers, with or without currency signs, a
      unit, thousands separators or decimal commas. All other values become missing values, and so do numbers
      in a unit that differs from the most frequent one. Bounds such as "<0.3" are read as numbers.
    - A column of text contains dates if one date format, or several together, match nearly all its values.
    - Codes with leading zeros remain text.
    - Categories that differ only in case are merged, unless their labels y differ.
    - Columns that are empty or constant, or that identify the rows, are dropped.

    The result is a pandas data frame with columns of type float64, datetime64 and str. If the transformer is
    applied to this data frame again, it stays unchanged.

    Parameters
    ----------
    categorical, number, date : sequence of str, default=()
        Names of the columns to treat as categories, numbers or dates; the kind of every other column is
        detected. ``date`` may also be a dictionary of date formats by column name, such as
        ``{"born": "%d/%m/%Y"}``.
    drop : sequence of str, default=()
        Names of columns to drop.
    na : sequence of str, default=()
        Texts that mean a missing value, in addition to "", "NA", "?" and similar ones.
    decimal : {"auto", ".", ","}, default="auto"
        The decimal sign of numbers in columns of text; ``"auto"`` detects it.

    Attributes
    ----------
    columns_ : dict of str to Column
        Kind and range of each column of the training data, and the reason if the column was dropped.
    decimal_ : str
        Decimal sign of the training data.
    report_ : list of str
        Messages about columns that were dropped, and about values that are ambiguous or could not be read.
    row_fingerprints_ : array of uint32
        Hashes of the distinct training rows, for :meth:`seen`.
    n_rows_, n_repeated_rows_ : int
        The number of training rows, and the number of training rows that equal another training row.
    feature_names_in_ : array of str
        Names of all columns of the training data.
    n_features_in_ : int
        Number of all columns of the training data.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"price": ["$1,200", "950", "n/k"] * 9, "zip": ["01234", "10117", "00501"] * 9})
    >>> reader = TableReader(na=["n/k"]).fit(frame)
    >>> {name: column.kind for name, column in reader.columns_.items()}
    {'price': 'number', 'zip': 'text'}
    """

    def __init__(
        self,
        categorical: Sequence[str] = (),
        number: Sequence[str] = (),
        date: Sequence[str] | Mapping[str, str] = (),
        drop: Sequence[str] = (),
        na: Sequence[str] = (),
        decimal: str = "auto",
    ) -> None:
        self.categorical = categorical
        self.number = number
        self.date = date
        self.drop = drop
        self.na = na
        self.decimal = decimal

    def fit(self, X: Any, y: Any = None) -> Self:
        """Detect the kinds of the columns; a warning is issued for each message of ``report_``."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> pd.DataFrame:
        """Fit to X and return the converted columns."""
        frame = as_frame(X)
        declared = self._declared(list(frame.columns))
        formats = dict(self.date) if isinstance(self.date, Mapping) else {}
        decimal = self._decimal(frame, [name for name in frame.columns if name not in self.drop]) or "."
        columns, values, report = {}, {}, []
        for name, column in frame.items():
            if name in self.drop:
                columns[name] = Column("text", left_out="listed in the parameter drop")
                continue
            columns[name], values[name], sentences = learn(
                column, name, decimal, self.na, declared.get(name, ""), formats.get(name) or "", y
            )
            report += sentences
        names = [name for name, column in columns.items() if not column.left_out]
        if not names:
            raise TableError("every column is dropped, so no feature remains. " + "; ".join(report))
        result = pd.DataFrame({name: values[name] for name in names}, index=frame.index)
        self.columns_, self.decimal_, self.report_ = columns, decimal, report
        self.feature_names_in_ = np.array(list(frame.columns), dtype=object)
        self.n_features_in_ = len(columns)
        self.row_fingerprints_, counts = np.unique(_fingerprints(result), return_counts=True)
        self.n_rows_, self.n_repeated_rows_ = len(frame), int(counts[counts > 1].sum())
        for sentence in report:
            warn(sentence, TableWarning)
        return result

    def transform(self, X: Any) -> pd.DataFrame:
        """Return the converted feature columns of X, which may be in any order; other columns are ignored.

        A warning is issued for each column with unreadable values, which become missing values, or with
        categories that do not occur in the training data. An error is raised if no value of a column of
        numbers or dates can be read, unless nearly all its values were unreadable in training too.
        """
        frame, sentences = self._read(X)
        for sentence in sentences:
            warn(sentence, TableWarning)
        return frame

    def seen(self, X: Any) -> np.ndarray:
        """Return for each row whether it equals a training row in all feature columns.

        Rows are compared by 32-bit hashes. The probability that a new row is mistaken for a training row is
        the number of training rows divided by 4e9.
        """
        return np.isin(_fingerprints(self._read(X)[0]), self.row_fingerprints_)

    def strange(self, X: Any) -> list[str]:
        """Return for each row a description of the values that are unlike the training data, or "".

        Such values are categories that do not occur in the training data, numbers and dates that are outside
        the training range by more than a quarter of its width, and missing values in a column without missing
        values in training.

        Examples
        --------
        >>> import pandas as pd
        >>> reader = TableReader().fit(pd.DataFrame({"x": [1.5, 2, 4], "city": ["Oslo", "Rome", "Oslo"]}))
        >>> reader.strange(pd.DataFrame({"x": [3, 9], "city": ["Rome", "Bern"]}))
        ['', 'x is high; city is new']
        """
        frame, _ = self._read(X)
        found: list[list[str]] = [[] for _ in range(len(frame))]
        for name in frame.columns:
            for reason, rows in strange(frame[name].to_numpy(), name, self.columns_[name]).items():
                for row in np.flatnonzero(rows):
                    found[row].append(reason)
        return ["; ".join(reasons) for reasons in found]

    def summary(self) -> list[dict[str, str]]:
        """Return the name, the kind and a description of the values of each column of the training data."""
        return [
            {"name": name, "kind": "dropped" if column.left_out else column.kind, "values": str(column)}
            for name, column in self.columns_.items()
        ]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the feature columns."""
        check_is_fitted(self)
        return np.array([name for name, column in self.columns_.items() if not column.left_out], dtype=object)

    def _read(self, X: Any) -> tuple[pd.DataFrame, list[str]]:
        names = list(self.get_feature_names_out())
        frame = as_frame(X)
        decimal = self._decimal(frame, [name for name in names if name in frame.columns])
        columns = {name: self.columns_[name] for name in names}
        return read_columns(frame, columns, decimal or self.decimal_, self.na)

    def _declared(self, names: list[str]) -> dict[str, str]:
        """Return the kinds of the columns that a parameter names, by column."""
        given = {"categorical": self.categorical, "number": self.number, "date": self.date, "drop": self.drop}
        declared: dict[str, str] = {}
        for parameter, chosen in given.items():
            if isinstance(chosen, str):
                raise TypeError(f"{parameter} must be a sequence of column names; got {chosen!r}")
            for name in chosen:
                if name not in names:
                    raise TableError(
                        f"{parameter}: there is no column {name!r}. The columns are {listing(names)}."
                    )
                if name in declared:
                    raise TableError(f"{parameter}: column {name!r} is already declared as {declared[name]}")
                declared[name] = {"categorical": "text"}.get(parameter, parameter)
        return declared

    def _decimal(self, frame: pd.DataFrame, names: list[str]) -> str | None:
        if self.decimal not in ("auto", ".", ","):
            raise ValueError(f"decimal must be 'auto', '.' or ','; got {self.decimal!r}")
        return (
            detect_decimal(sample_tokens(frame[names], self.na)) if self.decimal == "auto" else self.decimal
        )


def read_columns(
    frame: pd.DataFrame, columns: Mapping[str, Column], decimal: str, na: Collection[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the given columns as numbers, dates and text, and messages about unreadable values."""
    if missing := [name for name in columns if name not in frame.columns]:
        raise TableError(f"columns of the model are missing: {listing(missing)}")
    values, sentences = {}, []
    for name, column in columns.items():
        values[name], unreadable = read_column(frame[name], name, column, decimal, na)
        if unreadable is None:
            continue
        # No value is readable, and the values differ from the unreadable ones in training, so this is
        # probably a different column with the same name.
        if (
            unreadable.kind != "text"
            and unreadable.count == unreadable.filled
            and unreadable.new >= SETTINGS.other_column
        ):
            token, row = unreadable.examples[0]
            raise TableError(
                f"column {name!r}: none of the {unreadable.filled} values is a {unreadable.kind}; row {row} "
                f"contains {token!r}; expected {unreadable.kind}s, as in the training data"
            )
        sentences.append(str(unreadable))
    return pd.DataFrame(values, index=frame.index), sentences


def _fingerprints(frame: pd.DataFrame) -> np.ndarray:
    """Return a 32-bit hash of the values of each row."""
    text = {name: object for name, column in frame.items() if column.dtype.kind not in "fM"}
    return (pd.util.hash_pandas_object(frame.astype(text), index=False).to_numpy() >> 32).astype(np.uint32)


def as_frame(X: Any) -> pd.DataFrame:
    """Return a pandas, polars or Arrow table or an array as a pandas data frame with distinct names."""
    if not isinstance(X, pd.DataFrame):
        if hasattr(X, "to_pandas"):
            X = X.to_pandas()
        else:
            X = np.asarray(X)
            if X.ndim != 2:
                raise TableError(f"expected a data frame or a two-dimensional array; got {X.ndim} dimensions")
            X = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])]).infer_objects()
    names = [str(name) for name in X.columns]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise TableError(f"several columns have the same name: {listing(twice)}")
    return X.set_axis(names, axis=1)
