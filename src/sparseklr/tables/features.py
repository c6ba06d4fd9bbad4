"""The second step of a tabular pipeline, which turns numbers, dates and text into features.

``docs/design/tables.md`` gives the measurements behind the rules of this module.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted
from skrub import ApplyToCols, DatetimeEncoder, StringEncoder

from .columns import SETTINGS


class TableFeatures(TransformerMixin, BaseEstimator):
    """Transform the output of :class:`TableReader` into features for a kernel model.

    Numbers and the parts of dates (year, month, day, weekday, hour, seconds since 1970) are standardised.
    Missing values are imputed by the median; if a column had some in training, an indicator feature marks
    them. Text columns with fewer than 40 distinct values are one-hot encoded, with one feature for all
    values that occur only once; skrub's :class:`~skrub.StringEncoder` turns every other text column into 12
    features.

    Attributes
    ----------
    encoder_ : ColumnTransformer or None
        Encodes dates and text; None if there are only numbers.
    imputer_, scaler_ : SimpleImputer, StandardScaler or None
        Impute and standardise numbers and the parts of dates; None if there are none.
    """

    def fit(self, X: pd.DataFrame, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn medians, means, variances and categories from the output of ``TableReader.transform``.

        Means and variances use ``sample_weight``, whereas medians ignore it; y is ignored.
        """
        kinds = {name: column.dtype.kind for name, column in X.items()}
        self.numbers_ = [name for name, kind in kinds.items() if kind == "f"]
        for name in self.numbers_:
            if X[name].abs().max() > 1e150:  # the squares of larger numbers, or their sum, would overflow
                raise ValueError(
                    f"column {name!r} has values beyond 1e+150, whose variance overflows; divide it by a "
                    "power of ten."
                )
        self.missing_ = [name for name, kind in kinds.items() if kind in "fM" and X[name].isna().any()]
        dates = [name for name, kind in kinds.items() if kind == "M"]
        self.text_ = [name for name, kind in kinds.items() if kind not in "fM"]
        self.categorical_ = [name for name in self.text_ if X[name].nunique() < SETTINGS.max_categories]
        self.encoder_ = None
        if dates or self.text_:
            free_text = [name for name in self.text_ if name not in self.categorical_]
            self.encoder_ = _encoder(dates, self.categorical_, free_text).fit(self._prepared(X))
        quantities, _ = self._parts(X)
        self.imputer_ = self.scaler_ = None
        if quantities.shape[1]:
            self.imputer_ = SimpleImputer(strategy="median").fit(quantities)
            filled = self.imputer_.transform(quantities)
            self.scaler_ = StandardScaler().fit(filled, sample_weight=sample_weight)
        return self

    def transform(self, X: pd.DataFrame) -> np.ndarray:
        """Transform the output of ``TableReader.transform`` to features of shape (n_samples, n_features)."""
        check_is_fitted(self)
        quantities, codes = self._parts(X)
        if self.imputer_ is None or self.scaler_ is None:
            return codes
        with np.errstate(over="ignore"):  # the estimator raises if a value becomes infinite
            scaled = self.scaler_.transform(self.imputer_.transform(quantities))
        return np.hstack([scaled, codes])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The feature names: numbers, parts of dates, indicators of missing values, and encoded text."""
        check_is_fitted(self)
        indicators = [f"{name}_missing" for name in self.missing_]
        if self.encoder_ is None:
            return np.array([*self.numbers_, *indicators], dtype=object)
        encoded = np.array([name.partition("__")[2] for name in self.encoder_.get_feature_names_out()])
        dates = self.encoder_.output_indices_["dates"]
        codes = np.delete(encoded, dates)
        return np.array([*self.numbers_, *encoded[dates], *indicators, *codes], dtype=object)

    def column_groups(self) -> dict[str, list[int]]:
        """Positions of the features that are computed from each column of the table."""
        check_is_fitted(self)
        groups: dict[str, list[int]] = {}
        for j, column in enumerate(self._source_columns()):
            groups.setdefault(column, []).append(j)
        return groups

    def _source_columns(self) -> list[str]:
        """The column of each feature, in the order of :meth:`get_feature_names_out`."""
        if self.encoder_ is None:
            return [*self.numbers_, *self.missing_]
        parts: dict[str, list[str]] = {"dates": [], "text": []}
        for name, sources in parts.items():
            applied = self.encoder_.named_transformers_[name]
            for column, outputs in getattr(applied, "input_to_outputs_", {}).items():
                sources += [column] * len(outputs)
        one_hot, codes = self.encoder_.named_transformers_["categories"], []
        for k, column in enumerate(self.categorical_):
            rare, dropped = one_hot.infrequent_categories_[k], one_hot.drop_idx_
            n_codes = len(one_hot.categories_[k]) - (0 if rare is None else len(rare) - 1)
            codes += [column] * (n_codes - (dropped is not None and dropped[k] is not None))
        return [*self.numbers_, *parts["dates"], *self.missing_, *codes, *parts["text"]]

    def _parts(self, X: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return quantities, to be standardised, and codes: missing-value indicators and encoded text."""
        # C order, because the memory layout determines the order, and so the rounding, of sums
        numbers = np.ascontiguousarray(X[self.numbers_].to_numpy(dtype=np.float64))
        missing = X[self.missing_].isna().to_numpy(dtype=np.float64)
        if self.encoder_ is None:
            return numbers, missing
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Found unknown categories")  # the reader reports them
            encoded = self.encoder_.transform(self._prepared(X))
        encoded = np.asarray(encoded, dtype=np.float64)
        dates = self.encoder_.output_indices_["dates"]
        moments, codes = encoded[:, dates], np.delete(encoded, dates, axis=1)
        return np.hstack([numbers, moments]), np.hstack([missing, codes])

    def _prepared(self, X: pd.DataFrame) -> pd.DataFrame:
        """Replace missing categories by None, and convert free text to a type that skrub accepts."""
        known = X[self.categorical_].astype(object)
        free_text = {name: "category" for name in self.text_ if name not in self.categorical_}
        return X.assign(**known.where(known.notna(), None)).astype(free_text)


def _encoder(dates: list[str], categories: list[str], free_text: list[str]) -> ColumnTransformer:
    """Create an encoder for dates and text.

    It works like skrub's TableVectorizer, which would detect the kinds of columns again and make model
    files larger."""
    one_hot = OneHotEncoder(
        drop="if_binary", handle_unknown="infrequent_if_exist", min_frequency=2, sparse_output=False
    )
    letters = StringEncoder(n_components=12, ngram_range=(2, 3), random_state=0)
    return ColumnTransformer(
        [
            ("dates", ApplyToCols(DatetimeEncoder(add_weekday=True)), dates),
            ("categories", one_hot, categories),
            ("text", ApplyToCols(letters), free_text),
        ]
    )
