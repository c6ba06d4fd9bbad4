"""Classifiers for data frames with columns of any kind; needs the extra ``sparseklr[tables]``.

:mod:`cells` parses tokens, :mod:`columns` learns and reads a column, :mod:`reader` reads a table,
:mod:`features` turns it into features, and :mod:`pipeline` adds an estimator.
"""

from .pipeline import tabular_pipeline

__all__ = ["tabular_pipeline"]
