"""The directive ``measured``: a table of stored results, with the machine and the command below it.

``docs/results/NAME.json`` is written by a script of ``benchmarks/`` (``benchmarks.store``).
"""

import json
from pathlib import Path

from benchmarks.numbers import aligned
from sphinx.util.docutils import SphinxDirective


class Measured(SphinxDirective):
    """The directive ``{measured} NAME``, which shows the table of that name."""

    required_arguments = 1

    def run(self):
        path = Path(self.env.srcdir) / "results" / f"{self.arguments[0]}.json"
        self.env.note_dependency(str(path))
        if not path.exists():
            return self.parse_text_to_nodes(
                f"*No results of `{self.arguments[0]}` are stored; `make figures` measures them.*"
            )
        found = json.loads(path.read_text(encoding="utf-8"))
        lines = [
            "| " + " | ".join(found["columns"]) + " |",
            "|---|" + "---:|" * (len(found["columns"]) - 1),
            *("| " + " | ".join(row) + " |" for row in aligned(found["rows"])),
            "",
            f"*{found['note']} Measured by `{found['command']}`: {found['conditions']}.*",
        ]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app):
    app.add_directive("measured", Measured)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
