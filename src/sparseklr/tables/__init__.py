"""Classifiers for data frames whose columns contain numbers, dates or text.

This package needs pandas (``pip install 'sparseklr[tables]'``). Its modules build on one another:

- :mod:`cells`: numbers, dates and missing values in the cells of a table
- :mod:`columns`: the kind of a column (number, date or text), and the values of a column of known kind
- :mod:`reader`: a transformer that reads a table as columns of numbers, dates and text
- :mod:`features`: a transformer that turns these columns into features
- :mod:`pipeline`: a pipeline of the two transformers and a classifier
"""

from .pipeline import tabular_pipeline

__all__ = ["tabular_pipeline"]
