"""The paper's experiments: which cells there are and how their data are split (:mod:`protocol`), the methods
that are compared (:mod:`methods`), running them (:mod:`run`) and storing what they give (:mod:`store`), the
numbers that the paper prints (:mod:`paper`), and the report on all of it (:mod:`report`).
"""

from .protocol import METHODS, MODES, Cell, plan
from .report.page import write_report
from .run import Failure, RunState, run
from .store import Results, ResultsError, StoredCell

__all__ = [
    "METHODS",
    "MODES",
    "Cell",
    "Failure",
    "Results",
    "ResultsError",
    "RunState",
    "StoredCell",
    "plan",
    "run",
    "write_report",
]
