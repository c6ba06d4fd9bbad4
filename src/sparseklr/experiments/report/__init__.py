"""The report on stored results: the paper's tables with ours beside them (:mod:`tables`), tests of the
differences (:mod:`comparison`), the paper's figures drawn again (:mod:`figures`), and the page, Markdown and
LaTeX made of them (:mod:`page`). Figures need matplotlib; the tables do not.
"""

from .page import write_report
from .tables import Summary, Table, Value, tables

__all__ = ["Summary", "Table", "Value", "tables", "write_report"]
