"""The pipeline that the command line fits: from a data frame to class probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..estimators.compact_klr import CompactKLR
from ..estimators.sparse_klr import SparseKLR
from .features import TableFeatures
from .reader import TableReader


def tabular_pipeline(
    estimator: Any = None,
    *,
    scale: str = "auto",
    categorical: Sequence[str] = (),
    number: Sequence[str] = (),
    date: Sequence[str] | Mapping[str, str] = (),
    drop: Sequence[str] = (),
    na: Sequence[str] = (),
    decimal: str = "auto",
) -> Pipeline:
    """A classifier for data frames of any columns: the one that ``sparseklr fit`` stores.

    A scikit-learn pipeline of three steps. ``read`` (:class:`~sparseklr.tabular.reader.TableReader`) finds
    numbers, dates and text, whatever the columns are stored as, and leaves out what identifies the rows;
    ``features`` (:class:`~sparseklr.tabular.features.TableFeatures`) fills holes, scales numbers and encodes
    dates and text; ``model`` is the estimator. Data frames of pandas and polars are taken. Needs the extra
    ``sparseklr[tables]``.

    Parameters
    ----------
    estimator : classifier or None, default=None
        The last step; None is :class:`~sparseklr.SparseKLR` with its defaults.
    scale : {"auto", "standard", "quantile", "squash"}, default="auto"
        How numbers are scaled; ``"auto"`` compares by the leave-one-out log-loss of ``SparseKLR``, of
        ``estimator`` itself if it is one. For a :class:`~sparseklr.CompactKLR`, which maps skewed features by
        rank itself, ``"auto"`` is ``"standard"``. ``pipeline["features"].scale_`` is the one in use.
    categorical, number, date : sequence of str, default=()
        Columns whose kind is given instead of found. ``date`` may map names to formats.
    drop : sequence of str, default=()
        Columns to leave out.
    na : sequence of str, default=()
        Further tokens that stand for a missing value.
    decimal : {"auto", ".", ","}, default="auto"
        The decimal sign of numbers in text.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Not fitted. ``pipeline["read"].report_`` tells, after ``fit``, what was left out or could not be read.

    See Also
    --------
    save, load : Model files, which the command line shares.

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
    estimator = SparseKLR() if estimator is None else estimator
    if isinstance(estimator, CompactKLR) and estimator.scale == "auto" and scale == "auto":
        scale = "standard"
    return Pipeline(
        [
            ("read", TableReader(categorical, number, date, drop, na, decimal)),
            ("features", TableFeatures(scale, comparable(estimator))),
            ("model", estimator),
        ]
    )


def comparable(estimator: Any) -> SparseKLR:
    """The SparseKLR whose leave-one-out log-loss stands for an estimator's: itself, or its own estimator."""
    inner = estimator if isinstance(estimator, SparseKLR) else getattr(estimator, "estimator", None)
    return clone(inner) if isinstance(inner, SparseKLR) else SparseKLR()
