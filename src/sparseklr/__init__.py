"""Sparse kernel logistic regression: few points kept, probabilities one can act on."""

from .classifier import SparseKLR
from .half import HalfKLR
from .import_vector import ImportVectorMachine
from .metrics import expected_calibration_error
from .model_selection import SparseKLRCV
from .nu import lam_for_nu, nu_bar
from .paths import Path, klr_path
from .plots import AccuracySparsityDisplay
from .reliability import ReliabilityDisplay
from .report import ProbabilityReport, probability_report
from .solver import Settings, Solution, SolveInterrupted, Status, solve_dual
from .theory import paper_saturation_bound, saturation_bound
from .thresholded import ThresholdedKLR

__all__ = [
    "AccuracySparsityDisplay",
    "HalfKLR",
    "ImportVectorMachine",
    "Path",
    "ProbabilityReport",
    "ReliabilityDisplay",
    "Settings",
    "Solution",
    "SolveInterrupted",
    "SparseKLR",
    "SparseKLRCV",
    "Status",
    "ThresholdedKLR",
    "expected_calibration_error",
    "klr_path",
    "lam_for_nu",
    "nu_bar",
    "paper_saturation_bound",
    "probability_report",
    "saturation_bound",
    "solve_dual",
]
