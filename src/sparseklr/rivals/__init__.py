"""The heuristics and rivals that the paper compares with: thresholded kernel logistic regression, the Import
Vector Machine, and kernel logistic regression with the l1/2 penalty. Modules that begin with an underscore
are the parts of one of them.
"""

from .half import HalfKLR, half_klr_path, half_threshold
from .import_vector import ImportVectorMachine
from .thresholded import ThresholdedKLR

__all__ = ["HalfKLR", "ImportVectorMachine", "ThresholdedKLR", "half_klr_path", "half_threshold"]
