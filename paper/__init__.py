"""Reproduction of the experiments of Consolo, Manno and Amaldi (2025), called "the paper" in this package.

``make reproduce`` or ``python -m paper`` runs the experiments. A cell is the result of one method on one fold
of one data set.

- `protocol`: the cells, the splits of the data, and the rules that choose a model
- `methods`: the compared methods
- `run`, `store`: computation of cells, and a file of their results
- `published`: the numbers printed in the paper
- `synth`: a data set like the one in the illustrations of the paper
- `report`: tables, tests and figures that compare our results with the paper
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
