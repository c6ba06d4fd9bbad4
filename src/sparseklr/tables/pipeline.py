"""The pipeline from a data frame to class probabilities, as fitted by the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sklearn.pipeline import Pipeline

from ..sparse_klr import SparseKLR
from .features import TableFeatures
from .reader import TableReader


class TabularPipeline(Pipeline):
    """The result of :func:`tabular_pipeline`: a scikit-learn pipeline that explains predictions by columns.

    Its methods besides those of :class:`~sklearn.pipeline.Pipeline` take data frames like those it was fitted
    to.
    """

    def explain(self, X: Any, by: str = "features", *, background: Any = None, **options: Any) -> Any:
        """Shapley values of the columns of the table, or contributions of the points of the model.

        Parameters
        ----------
        X : data frame
        by : {"features", "points"}, default="features"
            ``"features"`` gives the columns of X: all features that are computed from a column, such as the
            indicators of its categories, count as one.
        background : data frame or None, default=None
            Rows that the rows of X are compared with; None means up to 100 weighted rows that represent the
            training rows.
        **options
            Further arguments of :meth:`sparseklr.SparseKLR.explain`: ``interactions``.

        Returns
        -------
        ShapleyValues or Explanation
            The attribute ``data`` of ShapleyValues has the cells of the table.
        """
        if by == "points":
            return self._model.explain(self._features(X), **options)
        groups = self["features"].column_groups()
        others = None if background is None else self._features(background)
        found = self._model.explain(self._features(X), by=by, groups=groups, background=others, **options)
        cells = self["read"].transform(X)[found.feature_names].to_numpy(dtype=object)
        return replace(found, data=cells)

    def predict_set(self, X: Any, coverage: float = 0.9, *, by_class: bool = False) -> Any:
        """Sets of classes: see :meth:`sparseklr.SparseKLR.predict_set`."""
        return self._model.predict_set(self._features(X), coverage, by_class=by_class)

    def predict_p_values(self, X: Any, *, by_class: bool = False) -> Any:
        """p-values of the classes: see :meth:`sparseklr.SparseKLR.predict_p_values`."""
        return self._model.predict_p_values(self._features(X), by_class=by_class)

    def predict_interval(self, X: Any, confidence: float | None = None) -> Any:
        """Intervals of the probabilities: see :meth:`sparseklr.SparseKLR.predict_interval`."""
        return self._model.predict_interval(self._features(X), confidence)

    @property
    def _model(self) -> Any:
        """The last step, or the best model of a search there."""
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
    """A classifier for data frames with columns of any kind; ``sparseklr fit`` stores the same pipeline.

    The function returns a scikit-learn pipeline with three steps. ``read``
    (:class:`~sparseklr.tables.reader.TableReader`) detects numbers, dates and text, however the columns are
    stored, and drops columns that identify the rows. ``features``
    (:class:`~sparseklr.tables.features.TableFeatures`) imputes missing values, standardises numbers and
    encodes dates and text. ``model`` is the estimator; the classifiers of this package also clip
    long tails or map them by rank. The pipeline accepts pandas and polars data frames. It needs the extra
    ``sparseklr[tables]``.

    Parameters
    ----------
    estimator : classifier or None, default=None
        The last step; None means :class:`~sparseklr.SparseKLR` with default parameters.
    categorical, number, date : sequence of str, default=()
        Columns whose kind is given instead of detected. ``date`` may also map names to formats.
    drop : sequence of str, default=()
        Columns to drop.
    na : sequence of str, default=()
        Further tokens for missing values.

    decimal : {"auto", ".", ","}, default="auto"
        The decimal sign of numbers in text.

    Returns
    -------
    TabularPipeline
        The unfitted pipeline, a scikit-learn pipeline that explains its predictions by the columns of the
        table. After ``fit``, ``pipeline["read"].report_`` lists dropped columns and unreadable values.

    See Also
    --------
    save, load : Model files, as used by the command line.

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
    ["column 'income': 1 of 200 values is not a number and counts as missing: 'n/k' (row 3)"]
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
