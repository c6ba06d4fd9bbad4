"""Second step of the pipeline for data frames: conversion of numbers, dates and text to features.

``docs/design/tables.md`` contains the measurements on which the rules of this module are based.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from .columns import SETTINGS

#: The components of a date that become features; the hour is used only if some date in the column has a time.
DATE_PARTS = ("year", "month", "day", "weekday", "hour", "total_seconds")


@dataclass(frozen=True)
class TextSettings:
    """Settings of the logistic regression that turns a column of free text into log-odds."""

    terms: int = 5000  # maximum number of words and pairs of words; likewise of sequences of letters
    letters: tuple[int, int] = (2, 4)  # minimum and maximum length of the sequences of letters
    n_folds: int = 5  # number of folds for the cross-fitted log-odds of the training rows


TEXT = TextSettings()


class TableFeatures(TransformerMixin, BaseEstimator):
    """Transformer from columns of numbers, dates and text to features for a kernel model.

    The input is the output of :class:`TableReader`. Numbers become one feature each. Dates become features
    for year, month, day, weekday, hour and seconds since 1970. Missing numbers and dates are imputed by the
    median, and an additional indicator feature marks them. All these features except the indicators are
    standardised.

    Text columns with fewer than 40 distinct values are one-hot encoded; all values that occur only once share
    one feature. Every other text column is free text. It becomes the log-odds of a logistic regression on the
    TF-IDF weights of its words and sequences of letters; with more than two classes, there is one feature for
    each class. In ``fit_transform``, these log-odds are cross-fitted: the log-odds of a training row come
    from a regression that was not fitted to this row. The classifier that follows therefore receives log-odds
    of the same quality as for new rows.

    Attributes
    ----------
    numbers_, categorical_, text_ : list of str
        Names of the columns of numbers, of categories and of free text.
    dates_ : dict of str to list of str
        Names of the columns of dates, with the components that become features.
    missing_ : list of str
        Names of the columns of numbers and dates that had missing values in training.
    one_hot_ : OneHotEncoder or None
        Encoder of the categorical columns; None if there are none.
    scores_ : list of Pipeline
        Logistic regressions for the columns of free text.
    imputer_, scaler_ : SimpleImputer, StandardScaler or None
        Transformers of numbers and components of dates; None if there are no such columns.
    """

    def fit(self, X: pd.DataFrame, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the imputer, the scaler, the encoder and the regressions to the output of ``TableReader``.

        The scaler and the regressions use ``sample_weight``; the medians of the imputer ignore it. Only the
        regressions on free text use the labels y.
        """
        self.fit_transform(X, y, sample_weight)
        return self

    def fit_transform(self, X: pd.DataFrame, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit to X and return its features, in which the log-odds of free text are cross-fitted."""
        kinds = {name: column.dtype.kind for name, column in X.items()}
        self.numbers_ = [name for name, kind in kinds.items() if kind == "f"]
        for name in self.numbers_:
            if X[name].abs().max() > 1e150:  # the sum of the squares of larger numbers can overflow
                raise ValueError(
                    f"column {name!r} contains values beyond 1e+150, whose variance overflows; divide the "
                    "column by a power of ten."
                )
        self.missing_ = [name for name, kind in kinds.items() if kind in "fM" and X[name].isna().any()]
        self.dates_ = {name: _parts_of(X[name]) for name, kind in kinds.items() if kind == "M"}
        text = [name for name, kind in kinds.items() if kind not in "fM"]
        self.categorical_ = [name for name in text if X[name].nunique() < SETTINGS.max_categories]
        self.one_hot_ = None
        if self.categorical_:
            self.one_hot_ = OneHotEncoder(
                drop="if_binary", handle_unknown="infrequent_if_exist", min_frequency=2, sparse_output=False
            ).fit(self._categories(X))
        free_text = [name for name in text if name not in self.categorical_]
        found = {name: _fit_scores(X[name], y, sample_weight) for name in free_text}
        scored = {name: both for name, both in found.items() if both is not None}
        self.text_ = list(scored)
        self.scores_ = [model for model, _ in scored.values()]
        quantities = self._quantities(X)
        self.imputer_ = self.scaler_ = None
        if quantities.shape[1]:
            self.imputer_ = SimpleImputer(strategy="median").fit(quantities)
            filled = self.imputer_.transform(quantities)
            self.scaler_ = StandardScaler().fit(filled, sample_weight=sample_weight)
        return self._features(X, [scores for _, scores in scored.values()])

    def transform(self, X: pd.DataFrame) -> np.ndarray:
        """Return the features (n_samples, n_features) of a table that ``TableReader.transform`` returned."""
        check_is_fitted(self)
        scores = [
            _log_odds(model, _texts(X[name]), model.classes_)
            for name, model in zip(self.text_, self.scores_, strict=True)
        ]
        return self._features(X, scores)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features, in the order of the columns of ``transform``.

        Numbers come first, followed by components of dates, indicators of missing values, categories and
        log-odds of free text.
        """
        return np.array([feature for feature, _ in self._names()], dtype=object)

    def column_groups(self) -> dict[str, list[int]]:
        """Return, for each column of the table, the positions of the features that are computed from it."""
        groups: dict[str, list[int]] = {}
        for j, (_, column) in enumerate(self._names()):
            groups.setdefault(column, []).append(j)
        return groups

    def _names(self) -> list[tuple[str, str]]:
        """Return the name of each feature, and the name of the column from which it is computed."""
        check_is_fitted(self)
        names = [(name, name) for name in self.numbers_]
        names += [(f"{name}_{part}", name) for name, parts in self.dates_.items() for part in parts]
        names += [(f"{name}_missing", name) for name in self.missing_]
        if self.one_hot_ is not None:
            codes = iter(self.one_hot_.get_feature_names_out(self.categorical_))
            for k, name in enumerate(self.categorical_):
                names += [(next(codes), name) for _ in range(n_codes(self.one_hot_, k))]
        for name, model in zip(self.text_, self.scores_, strict=True):
            classes = model.classes_ if len(model.classes_) > 2 else [""]
            names += [(f"{name}_score_{label}".rstrip("_"), name) for label in classes]
        return names

    def _features(self, X: pd.DataFrame, scores: list[np.ndarray]) -> np.ndarray:
        parts = [X[self.missing_].isna().to_numpy(dtype=np.float64)]
        if self.imputer_ is not None and self.scaler_ is not None:
            with np.errstate(over="ignore"):  # the estimator raises an error if a value becomes infinite
                scaled = self.scaler_.transform(self.imputer_.transform(self._quantities(X)))
            parts.insert(0, scaled)
        if self.one_hot_ is not None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Found unknown categories")  # TableReader reports them
                parts.append(self.one_hot_.transform(self._categories(X)))
        return np.hstack([*parts, *scores])

    def _quantities(self, X: pd.DataFrame) -> np.ndarray:
        """Return the numeric columns and the components of dates, before imputation and standardisation."""
        parts = [X[self.numbers_].to_numpy(dtype=np.float64)]
        parts += [date_parts(X[name].to_numpy(), chosen) for name, chosen in self.dates_.items()]
        # C order, because the order of summation, and so the rounding of sums, depends on the memory layout
        return np.ascontiguousarray(np.hstack(parts))

    def _categories(self, X: pd.DataFrame) -> np.ndarray:
        """Return the values of the categorical columns, with None for missing values."""
        known = X[self.categorical_].astype(object)
        return known.where(known.notna(), None).to_numpy()


# -- dates ------------------------------------------------------------------------------------------


def _parts_of(column: pd.Series) -> list[str]:
    """Return the components of a column of dates that become features."""
    has_time = bool((column.dt.normalize() != column)[column.notna()].any())
    return [part for part in DATE_PARTS if part != "hour" or has_time]


def date_parts(moments: np.ndarray, parts: list[str]) -> np.ndarray:
    """Return components of dates as an array (n_rows, n_parts) of numbers, with NaN for missing dates.

    Examples
    --------
    >>> day = np.array(["2024-02-29T06:00", "NaT"], dtype="datetime64[us]")
    >>> date_parts(day, ["year", "month", "day", "weekday", "hour", "total_seconds"])
    array([[2.0240000e+03, 2.0000000e+00, 2.9000000e+01, 4.0000000e+00, 6.0000000e+00, 1.7091864e+09],
           [          nan,           nan,           nan,           nan,           nan,           nan]])
    """
    date = pd.Series(moments).dt
    found = {
        "weekday": lambda: date.day_of_week + 1,
        "total_seconds": lambda: pd.Series(moments.astype("datetime64[us]").astype(np.int64) / 1e6),
    }
    columns = [found.get(part, lambda part=part: getattr(date, part))() for part in parts]
    values = np.column_stack([column.to_numpy(dtype=np.float64, na_value=np.nan) for column in columns])
    values[np.isnat(moments)] = np.nan
    return values


# -- text -------------------------------------------------------------------------------------------


def n_codes(one_hot: OneHotEncoder, k: int) -> int:
    """Return the number of features into which the k-th categorical column is encoded."""
    rare, dropped = one_hot.infrequent_categories_[k], one_hot.drop_idx_
    n = len(one_hot.categories_[k]) - (0 if rare is None else len(rare) - 1)
    return int(n - (dropped is not None and dropped[k] is not None))


def _texts(column: pd.Series) -> list[str]:
    return ["" if pd.isna(text) else str(text) for text in column]


def _fit_scores(column: pd.Series, y: Any, weight: Any) -> tuple[Pipeline, np.ndarray] | None:
    """Return a logistic regression on the terms of a column of free text, and the cross-fitted log-odds.

    The terms are words, pairs of words and sequences of letters. The result is None if the column contains no
    terms, or if every class has only one row.
    """
    if y is None:
        raise ValueError(
            f"column {column.name!r} contains free text, which requires the labels y; pass y to fit."
        )
    y, texts = np.asarray(y), _texts(column)
    classes, counts = np.unique(y, return_counts=True)
    size = {"max_features": TEXT.terms, "dtype": np.float64}
    terms = FeatureUnion(
        [
            ("words", TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", **size)),
            ("letters", TfidfVectorizer(analyzer="char_wb", ngram_range=TEXT.letters, **size)),
        ]
    )
    try:
        X = terms.fit_transform(texts).tocsr()
    except ValueError:  # the column contains no words
        return None
    if counts.max() < 2:
        return None

    def regression(rows: Any) -> LogisticRegression:
        w = None if weight is None else np.asarray(weight)[rows]
        return LogisticRegression(max_iter=1000).fit(X[rows], y[rows], sample_weight=w)

    out = np.zeros((len(y), len(classes) if len(classes) > 2 else 1))
    n_folds = int(min(TEXT.n_folds, counts.max()))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")
        folds = list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, y))
    for fitted, left_out in folds:
        if len(np.unique(y[fitted])) > 1:
            out[left_out] = _log_odds(regression(fitted), X[left_out], classes)
    return Pipeline([("terms", terms), ("regression", regression(slice(None)))]), out


def _log_odds(model: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return log-odds from a logistic regression: one column for two classes, otherwise one for each class.

    ``classes`` contains all classes of the training data. In each row, a class that was absent when the
    regression was fitted is assigned the lowest log-odds of the other classes.
    """
    values = model.decision_function(X)
    if len(classes) == 2:
        return values[:, None]
    if values.ndim == 1:  # the regression has two classes
        values = np.column_stack([-values / 2, values / 2])
    full = np.repeat(values.min(axis=1, keepdims=True), len(classes), axis=1)
    full[:, np.searchsorted(classes, model.classes_)] = values
    return full
