"""Report on stored results: the paper's tables with ours beside them (:mod:`tables`), tests of the
differences (:mod:`comparison`), the paper's figures drawn again (:mod:`figures`), and the page, Markdown and
LaTeX made of them (:mod:`page`). Figures need matplotlib; the tables do not.
"""

from .page import write_report
from .summary import Summary
from .tables import Table, Value, all_tables, findings

__all__ = ["Summary", "Table", "Value", "all_tables", "findings", "write_report"]
