"""The classifiers behind scikit-learn's interface: they check what they are given (:mod:`parameters`,
:mod:`training`), delegate to the layers below and set attributes. :mod:`base` holds what they share, with
the prediction methods; :mod:`explanation` takes predictions apart; :mod:`cv`, :mod:`folds` and
:mod:`selection` choose parameters by cross-validation.
"""

from .base import KernelClassifier
from .compact_klr import CompactKLR
from .cv import SparseKLRCV
from .klr_path import klr_path
from .sparse_klr import SparseKLR

__all__ = ["CompactKLR", "KernelClassifier", "SparseKLR", "SparseKLRCV", "klr_path"]
