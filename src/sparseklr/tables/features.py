"""The second step of a tabular pipeline, which turns numbers, dates and text into scaled features.

Kernel models depend more on the scale of numeric features than on any other choice.
``docs/design/tables.md`` gives the measurements behind the rules of this module.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted
from skrub import ApplyToCols, DatetimeEncoder, SquashingScaler, StringEncoder

from ..refit.calibration import log_probabilities
from ..sparse_klr import SparseKLR
from .columns import SETTINGS

SCALES = ("standard", "quantile", "squash")


class TableFeatures(TransformerMixin, BaseEstimator):
    """Transform the output of :class:`TableReader` into features for a kernel model.

    Numbers and the parts of dates (year, month, day, weekday, hour, seconds since 1970) are scaled. Missing
    values are imputed by the median; if a column had some in training, an indicator feature marks them.
    Text columns with fewer than 40 distinct values are one-hot encoded, with one feature for all values
    that occur only once; skrub's :class:`~skrub.StringEncoder` turns every other text column into 12
    features.

    Parameters
    ----------
    scale : {"auto", "standard", "quantile", "squash"}, default="auto"
        ``"standard"``: mean 0 and variance 1. ``"quantile"``: ranks, as quantiles of the normal distribution.
        ``"squash"``: skrub's :class:`~skrub.SquashingScaler`, robust and bounded. ``"auto"`` fits
        ``estimator`` with each scale and chooses the one with the lowest leave-one-out log-loss, provided
        that it is lower than that of ``"standard"`` by 1.5 standard errors of the difference.
    estimator : SparseKLR or None, default=None
        The model that ``"auto"`` fits; None means ``SparseKLR()``.
    max_rows : int, default=2000
        Size of the sample that ``"auto"`` uses if there are more rows.
    random_state : int, default=0
        Seed for drawing that sample.

    Attributes
    ----------
    scale_ : str or None
        The scale in use; None if there are neither numbers nor dates.
    scale_losses_ : dict of str to float
        The leave-one-out log-loss of each scale that was compared.
    encoder_ : ColumnTransformer or None
        Encodes dates and text; None if there are only numbers.
    imputer_, scaler_ : transformers or None
        Impute and scale numbers and the parts of dates; None if there are none.
    """

    def __init__(
        self, scale: str = "auto", estimator: Any = None, max_rows: int = 2000, random_state: int = 0
    ) -> None:
        self.scale = scale
        self.estimator = estimator
        self.max_rows = max_rows
        self.random_state = random_state

    def fit(self, X: pd.DataFrame, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn medians, scales and categories; with ``scale="auto"``, choose the scale.

        X is the output of ``TableReader.transform``; ``scale="auto"`` needs the classes y. Means and
        log-losses use ``sample_weight``, whereas quantiles and medians ignore it.
        """
        if self.scale not in ("auto", *SCALES):
            raise ValueError(
                f"scale must be one of 'auto', {', '.join(map(repr, SCALES))}; got {self.scale!r}"
            )
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
        quantities, codes = self._parts(X)
        self.imputer_ = self.scaler_ = None
        self.scale_: str | None = None
        self.scale_losses_: dict[str, float] = {}
        if not quantities.shape[1]:
            return self
        self.scale_ = self.scale
        self.imputer_ = SimpleImputer(strategy="median").fit(quantities)
        filled = self.imputer_.transform(quantities)
        if self.scale == "auto":
            rows = _sampled(np.asarray(y), self.max_rows, self.random_state)
            weight = None if sample_weight is None else np.asarray(sample_weight)[rows]
            self.scale_, self.scale_losses_ = choose_scale(
                filled[rows], codes[rows], np.asarray(y)[rows], weight, self.estimator
            )
        self.scaler_ = make_scaler(self.scale_, filled, sample_weight)
        return self

    def transform(self, X: pd.DataFrame) -> np.ndarray:
        """Transform the output of ``TableReader.transform`` to features of shape (n_samples, n_features)."""
        check_is_fitted(self)
        quantities, codes = self._parts(X)
        if self.imputer_ is None or self.scaler_ is None:
            return codes
        return np.hstack([self.scaler_.transform(self.imputer_.transform(quantities)), codes])

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
        """Return quantities, to be scaled, and codes: missing-value indicators and encoded text."""
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


# -- scales -----------------------------------------------------------------------------------


def make_scaler(scale: str, X: np.ndarray, sample_weight: Any = None) -> Any:
    """Create the named scaler and fit it to X, which has no missing values."""
    if scale == "standard":
        return StandardScaler().fit(X, sample_weight=sample_weight)
    if scale == "squash":
        return SquashingScaler().fit(X)
    n_quantiles = min(len(X), 200)  # the model file stores all quantiles
    return QuantileTransformer(n_quantiles=n_quantiles, output_distribution="normal", random_state=0).fit(X)


def _sampled(y: np.ndarray, max_rows: int, random_state: int) -> np.ndarray:
    rows = np.arange(len(y))
    if len(y) <= max_rows:
        return rows
    # stratified sampling needs two rows per class
    stratify = y if np.unique(y, return_counts=True)[1].min() > 1 else None
    return train_test_split(rows, train_size=max_rows, stratify=stratify, random_state=random_state)[0]


def choose_scale(
    X: np.ndarray, codes: np.ndarray, y: np.ndarray, sample_weight: Any = None, estimator: Any = None
) -> tuple[str, dict[str, float]]:
    """Choose the scale with the lowest leave-one-out log-loss; return it with the log-loss of each scale.

        ``codes`` are features that are not scaled. A scale other than "standard" must be better by 1.5
    standard errors of the paired difference.
    """
    model = SparseKLR() if estimator is None else clone(estimator)
    model.set_params(verbose=0)
    if "auto" in (model.kernel, model.gamma):  # choose the scale first, with the default kernel
        model.set_params(kernel="rbf" if model.kernel == "auto" else model.kernel, gamma="scale")
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    balanced = model.class_weight == "balanced"
    if not balanced:
        weight = weight * compute_sample_weight(model.class_weight, y)
    kept = np.flatnonzero(weight > 0)
    weight, labels = weight[kept], np.unique(y[kept], return_inverse=True)[1]
    if balanced:
        weight = weight / np.bincount(labels, weight)[labels]
    _, point = np.unique(np.hstack([X, codes])[kept], axis=0, return_inverse=True)
    point = point.ravel()
    losses, point_losses = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the final fit issues the same warnings
        for scale in SCALES:
            scaled = make_scaler(scale, X, sample_weight).transform(X)
            model.fit(np.hstack([scaled, codes]), y, sample_weight=sample_weight)
            losses[scale] = float(model.loo_log_loss_)
            outputs = model.loo_decision_function_.reshape(len(y), -1)[kept]
            row_losses = -log_probabilities(outputs, model.link_)[np.arange(len(kept)), labels]
            point_losses[scale] = np.bincount(point, weight * row_losses)
    point_weight = np.bincount(point, weight)
    least_error = 1e-4 * losses["standard"]  # the fits are not more accurate than this
    gains = {scale: point_losses["standard"] - point_losses[scale] for scale in SCALES}
    clear = [scale for scale in SCALES if _standardised(gains[scale], point_weight, least_error) > 1.5]
    return min(clear, key=lambda scale: losses[scale], default="standard"), losses


def _standardised(sums: np.ndarray, weight: np.ndarray, least_error: float) -> float:
    """The weighted mean of sums over distinct rows, which are independent, divided by its standard error."""
    mean = sums.sum() / weight.sum()
    error = np.linalg.norm(sums - weight * mean) / weight.sum()
    return float(mean / max(error, least_error, 1e-12))
