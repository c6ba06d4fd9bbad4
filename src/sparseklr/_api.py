"""The public names of the package, loaded when one of them is first asked for."""

# ruff: noqa: F401
from .dual.nu import lam_for_nu, nu_bar
from .dual.path import KLRPath, PathInterrupted
from .dual.solver import Settings, Solution, SolveInterrupted, Status, solve_dual
from .dual.theory import saturation_bound
from .estimators.compact_klr import CompactKLR
from .estimators.cv import SparseKLRCV
from .estimators.klr_path import klr_path
from .estimators.sparse_klr import SparseKLR
from .inspection.accuracy_sparsity import AccuracySparsityDisplay
from .inspection.explanation import ExplanationDisplay
from .inspection.metrics import expected_calibration_error
from .inspection.probability_report import ProbabilityReport, probability_report
from .inspection.prototypes import PrototypesDisplay
from .inspection.relevance import RelevanceDisplay
from .inspection.reliability import ReliabilityDisplay
