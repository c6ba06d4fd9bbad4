"""Pipeline from a data frame to class probabilities, which the command ``sparseklr fit`` uses too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sklearn.pipeline import Pipeline

from ..sparse_klr import SparseKLR
from .features import TableFeatures
from .reader import TableReader


class TabularPipeline(Pipeline):
    """Pipeline for data frames, with the explanations and prediction sets of its last step.

    :func:`tabular_pipeline` creates it. Its methods take data frames with the columns of the training data.
    """

    def explain(self, X: Any, by: str = "features", *, background: Any = None, **options: Any) -> Any:
        """Return the contributions of columns, or of points of the model, to the predictions.

        Parameters
        ----------
        X : data frame
            Rows to explain.
        by : {"features", "points"}, default="features"
            ``"features"`` returns the Shapley values of the columns of X. All features that are computed from
            one column, such as the indicators of its categories, count as one feature. ``"points"`` returns
            the contributions of the points of the model.
        background : data frame or None, default=None
            Rows whose mean prediction is the reference of the Shapley values; None means up to 100 weighted
            rows that represent the training rows.
        **options
            The argument ``interactions`` of :meth:`sparseklr.SparseKLR.explain`.

        Returns
        -------
        ShapleyValues or Explanation
            ShapleyValues if ``by="features"``; its attribute ``data`` contains the values of the columns.
        """
        if by == "points":
            return self._model.explain(self._features(X), **options)
        groups = self["features"].column_groups()
        others = None if background is None else self._features(background)
        found = self._model.explain(self._features(X), by=by, groups=groups, background=others, **options)
        cells = self["read"].transform(X)[found.feature_names].to_numpy(dtype=object)
        return replace(found, data=cells)

    def familiarity(self, X: Any) -> Any:
        """Return the familiarity of each row, as :meth:`sparseklr.SparseKLR.familiarity` does."""
        return self._model.familiarity(self._features(X))

    def predict_set(self, X: Any, coverage: float = 0.9, *, by_class: bool = False) -> Any:
        """Return prediction sets, as :meth:`sparseklr.SparseKLR.predict_set` does."""
        return self._model.predict_set(self._features(X), coverage, by_class=by_class)

    def predict_p_values(self, X: Any, *, by_class: bool = False) -> Any:
        """Return conformal p-values of the classes, as :meth:`sparseklr.SparseKLR.predict_p_values` does."""
        return self._model.predict_p_values(self._features(X), by_class=by_class)

    def predict_interval(self, X: Any, confidence: float | None = None) -> Any:
        """Return intervals for the probabilities, as :meth:`sparseklr.SparseKLR.predict_interval` does."""
        return self._model.predict_interval(self._features(X), confidence)

    @property
    def _model(self) -> Any:
        """The last step of the pipeline; if this step is a parameter search, its best estimator."""
        return getattr(self[-1], "best_estimator_", self[-1])

    def _features(self, X: Any) -> Any:
        return self[:-1].transform(X)


def tabular_pipeline(
    estimator: Any = None,
    *,
    categorical: Sequence[str] = (),
    number: Sequence[str] = (),
    date: Sequence[str] | Mapping[str, str] = (),
    drop: Sequence[str] = (),
    na: Sequence[str] = (),
    decimal: str = "auto",
) -> TabularPipeline:
    """Return an unfitted classifier for data frames whose columns contain numbers, dates or text.

    The classifier is a scikit-learn pipeline with three steps:

    - ``read`` (:class:`~sparseklr.tables.reader.TableReader`) detects which columns contain numbers, dates
      and text, whatever their data types are, and drops columns that identify the rows.
    - ``features`` (:class:`~sparseklr.tables.features.TableFeatures`) imputes missing values, standardises
      numbers, and encodes dates and text as numbers.
    - ``model`` is a classifier. The classifiers of this package also clip extreme values, or transform skewed
      features by rank.

    The pipeline accepts pandas and polars data frames. It requires ``pip install 'sparseklr[tables]'``. The
    command ``sparseklr fit`` fits the same pipeline.

    Parameters
    ----------
    estimator : classifier or None, default=None
        The last step; None means :class:`~sparseklr.SparseKLR` with default parameters.
    categorical, number, date : sequence of str, default=()
        Names of the columns to treat as categories, numbers or dates; the kind of every other column is
        detected. ``date`` may also be a dictionary of date formats by column name, such as
        ``{"born": "%d/%m/%Y"}``.
    drop : sequence of str, default=()
        Names of columns to ignore.
    na : sequence of str, default=()
        Texts that mean a missing value, in addition to "NA", "?" and similar ones.
    decimal : {"auto", ".", ","}, default="auto"
        The decimal sign of numbers in columns of text; ``"auto"`` detects it.

    Returns
    -------
    TabularPipeline
        The unfitted pipeline. After ``fit``, ``pipeline["read"].report_`` lists the dropped columns and the
        values that could not be read. Its method ``explain`` returns the contributions of the columns to
        predictions.

    See Also
    --------
    save, load : Functions that write and read model files, which the command line uses too.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sparseklr import tabular_pipeline
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"income": rng.normal(size=200).round(3)})
    >>> frame["city"] = rng.choice(["Oslo", "Rome"], 200)
    >>> y = np.where((frame["income"] > 0) == (frame["city"] == "Oslo"), "yes", "no")
    >>> frame["income"] = frame["income"].astype(str)
    >>> frame.loc[3, "income"] = "n/k"
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     model = tabular_pipeline().fit(frame, y)
    >>> model["read"].report_
    ["column 'income': 1 of 200 values is not a number and is treated as missing: 'n/k' (row 3)"]
    >>> model.score(frame, y) > 0.95
    True
    """
    return TabularPipeline(
        [
            ("read", TableReader(categorical, number, date, drop, na, decimal)),
            ("features", TableFeatures()),
            ("model", SparseKLR() if estimator is None else estimator),
        ]
    )
