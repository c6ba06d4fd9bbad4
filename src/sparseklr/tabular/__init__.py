"""Tables as people have them, above the estimators and below the command line, which is made of these parts.

:mod:`cells`, :mod:`numbers`, :mod:`dates` and :mod:`columns` read one column; :mod:`reader`, :mod:`features`
(with
:mod:`scaling`) and :mod:`pipeline` make features and a classifier of a data frame. Needs the extra
``sparseklr[tables]``.
"""

from ..model_files import ModelFileError, load, save
from .cells import TableError, TableWarning
from .features import TableFeatures
from .pipeline import tabular_pipeline
from .reader import TableReader

__all__ = [
    "ModelFileError",
    "TableError",
    "TableFeatures",
    "TableReader",
    "TableWarning",
    "load",
    "save",
    "tabular_pipeline",
]
