"""The paper's experiments: its protocol, its methods, its tables and figures, and ours beside them."""

from .protocol import METHODS, MODES, Cell, plan
from .report.page import write_report
from .run import Failure, Progress, run
from .store import Record, Results, ResultsError

__all__ = [
    "METHODS",
    "MODES",
    "Cell",
    "Failure",
    "Progress",
    "Record",
    "Results",
    "ResultsError",
    "plan",
    "run",
    "write_report",
]
