"""Report on stored results, as an HTML page, Markdown or LaTeX.

- :mod:`tables`: the tables of the paper, with our numbers
- :mod:`comparison`: statistical tests of differences between methods
- :mod:`figures`: the figures of the paper, which need matplotlib
- :mod:`page`: the report in its three formats
"""

from .page import write_report
from .summary import Summary
from .tables import Table, Value, all_tables, findings

__all__ = ["Summary", "Table", "Value", "all_tables", "findings", "write_report"]
