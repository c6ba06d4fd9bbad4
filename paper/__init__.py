"""The paper's experiments, run by ``make reproduce`` or ``python -m paper``.

`protocol` has the cells (a method on a fold of a data set) and the splits, `methods` the compared methods;
`run` computes cells, `store` keeps their results in a file; `published` has the numbers that the paper
prints, `synth` the data of its illustrations, and `report` compares.
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
