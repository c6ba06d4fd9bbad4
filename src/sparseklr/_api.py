"""The public names of the package, loaded when one of them is first asked for."""

# ruff: noqa: F401
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
