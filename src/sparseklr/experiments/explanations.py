"""Why our numbers differ from the paper's on a data set; the report prints it beside the evidence."""

from __future__ import annotations

#: Plain text by name of the data set.
EXPLANATIONS: dict[str, str] = {}
