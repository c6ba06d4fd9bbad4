"""The paper's experiments, run by ``make reproduce`` or ``python -m paper``.

A cell is one method on one fold of one data set. `protocol` defines the cells and splits, and `methods` the
compared methods. `run` computes cells, and `store` keeps their results in a file. `published` contains the
numbers printed in the paper, `synth` generates the data of its illustrations, and `report` compares our
results with the paper.
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
