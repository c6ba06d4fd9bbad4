"""Other sparse kernel classifiers, with which Consolo, Manno and Amaldi (2025) compare their method.

- :mod:`thresholded`: kernel logistic regression that keeps the rows with the largest dual variables
- :mod:`import_vector`: the Import Vector Machine of Zhu and Hastie
- :mod:`half`: kernel logistic regression with the l1/2 penalty of Xu et al.
"""

from .half import HalfKLR, half_klr_path
from .import_vector import ImportVectorMachine
from .thresholded import ThresholdedKLR

__all__ = ["HalfKLR", "ImportVectorMachine", "ThresholdedKLR", "half_klr_path"]
