"""The first step of a tabular pipeline: a data frame of anything becomes one of numbers, dates and text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._warn import warn
from .._words import listing
from .cells import TableError, TableWarning, read_cells
from .columns import Column, learn, read_column, strange
from .numbers import detect_decimal

# Cells that cannot be read and are new: where a column has so many and no others, it is the wrong column.
WRONG_COLUMN = 5


class TableReader(TransformerMixin, BaseEstimator):
    """Read the columns of a table as numbers, dates or text.

    A column of text is one of numbers if nearly all its values are, written with currency signs, units,
    thousands or decimal commas; the others count as missing. It is one of dates if a format fits nearly all
    its values. Codes with leading zeros stay text. Columns that are empty, constant, or that identify the
    rows are left out. The result is a pandas data frame of float64, datetime64 and strings; reading that
    again changes nothing.

    Parameters
    ----------
    categorical, number, date : sequence of str, default=()
        Columns whose kind is given. ``date`` may also map names to formats such as ``"%d/%m/%Y"``.
    drop : sequence of str, default=()
        Columns to leave out.
    na : sequence of str, default=()
        Further tokens that stand for a missing value, beside "", "NA", "?" and the like.
    decimal : {"auto", ".", ","}, default="auto"
        The decimal sign of numbers in text; ``"auto"`` sees it from the values.

    Attributes
    ----------
    columns_ : dict of str to Column
        What each column of the training data holds: its kind, why it is left out, its range.
    decimal_ : str
    report_ : list of str
        A sentence for each column that is left out or has values that cannot be read.
    row_fingerprints_ : array of uint32
        A hash of each distinct row, for :meth:`seen`.
    n_rows_, n_repeated_rows_ : int
        The number of training rows, and of those that equal another one.
    feature_names_in_ : array of str
    n_features_in_ : int

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
        """Learn what the columns hold; a warning for each one with values that are not used.

        Parameters
        ----------
        X : data frame of pandas or polars, or array
        y : ignored

        Returns
        -------
        self : object
        """
        frame = as_frame(X)
        declared = self._declared(list(frame.columns))
        forms = dict(self.date) if isinstance(self.date, Mapping) else {}
        decimal = self._decimal(frame, [name for name in frame.columns if name not in self.drop]) or "."
        columns, report = {}, []
        for name in frame.columns:
            if name in self.drop:
                columns[name] = Column("text", left_out="as asked")
                continue
            columns[name], sentences = learn(
                frame[name], name, decimal, self.na, declared.get(name, ""), forms.get(name) or ""
            )
            report += sentences
        if all(column.left_out for column in columns.values()):
            raise TableError("no column is left to predict from. " + "; ".join(report))
        self.columns_, self.decimal_, self.report_ = columns, decimal, report
        self.feature_names_in_ = np.array(list(frame.columns), dtype=object)
        self.n_features_in_ = len(columns)
        self.row_fingerprints_, counts = np.unique(_fingerprints(self._read(frame)[0]), return_counts=True)
        self.n_rows_, self.n_repeated_rows_ = len(frame), int(counts[counts > 1].sum())
        for sentence in report:
            warn(sentence, TableWarning)
        return self

    def transform(self, X: Any) -> pd.DataFrame:
        """The columns that are features, read.

        There is a warning for each one with values that cannot be read, which count as missing, or with
        categories that are new. A column of numbers or dates of which nothing can be read is an error if 5
        values or more are none that training could not read either.

        Parameters
        ----------
        X : data frame of pandas or polars, or array
            Columns may come in any order, and further ones are ignored.

        Returns
        -------
        pandas.DataFrame
        """
        frame, odds = self._read(X)
        for odd in odds:
            warn(odd, TableWarning)
        return frame

    def fit_transform(self, X: Any, y: Any = None) -> pd.DataFrame:
        """Fit to X and read it.

        Parameters
        ----------
        X : data frame of pandas or polars, or array
        y : ignored

        Returns
        -------
        pandas.DataFrame
        """
        return self.fit(X)._read(X)[0]

    def seen(self, X: Any) -> np.ndarray:
        """Whether each row equals one of the training rows, in the columns that are features.

        Told by a hash of 32 bits: a new row is taken for a known one with a chance of the number of training
        rows over 4e9.

        Parameters
        ----------
        X : data frame of pandas or polars, or array

        Returns
        -------
        array of bool (n_samples,)
        """
        return np.isin(_fingerprints(self._read(X)[0]), self.row_fingerprints_)

    def strange(self, X: Any) -> list[str]:
        """What each row has that the training rows had not: "" for nothing.

        Categories that are new, numbers and dates outside the range of the training rows by more than a
        quarter of its width, and values that are missing in a column that was complete.

        Parameters
        ----------
        X : data frame of pandas or polars, or array

        Returns
        -------
        list of str (n_samples,)
            Such as ``"city is new; income is high"``.

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
            for words, rows in strange(frame[name].to_numpy(), name, self.columns_[name]).items():
                for row in np.flatnonzero(rows):
                    found[row].append(words)
        return ["; ".join(words) for words in found]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns that are features."""
        check_is_fitted(self)
        return np.array([name for name, column in self.columns_.items() if not column.left_out], dtype=object)

    def _read(self, X: Any) -> tuple[pd.DataFrame, list[str]]:
        names = list(self.get_feature_names_out())
        frame = as_frame(X)
        if missing := [name for name in names if name not in frame.columns]:
            raise TableError(f"columns of the model are missing: {listing(missing)}")
        decimal = self._decimal(frame, names) or self.decimal_
        values, odds = {}, []
        for name in names:
            values[name], odd = read_column(frame[name], name, self.columns_[name], decimal, self.na)
            if odd and odd.kind != "text" and odd.count == odd.filled and odd.new >= WRONG_COLUMN:
                token, row = odd.examples[0]
                raise TableError(
                    f"column {name!r}: none of its {odd.filled} values is a {odd.kind}, row {row} holds "
                    f"{token!r}; expected {odd.kind}s, as in training"
                )
            odds += [str(odd)] if odd else []
        return pd.DataFrame(values, index=frame.index), odds

    def _declared(self, names: list[str]) -> dict[str, str]:
        """The kinds that the parameters give, by column."""
        given = {"categorical": self.categorical, "number": self.number, "date": self.date, "drop": self.drop}
        declared: dict[str, str] = {}
        for parameter, chosen in given.items():
            if isinstance(chosen, str):
                raise TypeError(f"{parameter} must be a sequence of column names; got {chosen!r}")
            for name in chosen:
                if name not in names:
                    raise TableError(
                        f"{parameter}: there is no column {name!r}. The columns: {listing(names)}."
                    )
                if name in declared:
                    raise TableError(f"{parameter}: column {name!r} is also given as {declared[name]}")
                declared[name] = {"categorical": "text"}.get(parameter, parameter)
        return declared

    def _decimal(self, frame: pd.DataFrame, names: list[str]) -> str | None:
        if self.decimal not in ("auto", ".", ","):
            raise ValueError(f"decimal must be 'auto', '.' or ','; got {self.decimal!r}")
        return detect_decimal(text_tokens(frame[names], self.na)) if self.decimal == "auto" else self.decimal


def _fingerprints(frame: pd.DataFrame) -> np.ndarray:
    """A hash of each row that depends on nothing but its values."""
    text = {name: object for name, column in frame.items() if column.dtype.kind not in "fM"}
    return (pd.util.hash_pandas_object(frame.astype(text), index=False).to_numpy() >> 32).astype(np.uint32)


def text_tokens(frame: pd.DataFrame, na: Iterable[str] = ()) -> Iterable[np.ndarray]:
    """The distinct tokens of each column of text."""
    for name in frame.columns:
        if frame[name].dtype == object or isinstance(frame[name].dtype, pd.StringDtype):
            yield read_cells(frame[name], name, set(na)).tokens


def as_frame(X: Any) -> pd.DataFrame:
    """A pandas data frame with distinct names, from one of pandas, polars or Arrow or from an array."""
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
        raise TableError(f"more than one column is called {listing(twice)}")
    return X.set_axis(names, axis=1)
