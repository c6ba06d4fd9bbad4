"""Baselines that the paper compares with: thresholded kernel logistic regression (`thresholded`), the Import
Vector Machine (`import_vector`), and kernel logistic regression with the l1/2 penalty (`half`, solved by
`_half_solver`).
"""

from .half import HalfKLR, half_klr_path
from .import_vector import ImportVectorMachine
from .thresholded import ThresholdedKLR

__all__ = ["HalfKLR", "ImportVectorMachine", "ThresholdedKLR", "half_klr_path"]
