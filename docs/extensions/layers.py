"""The directive ``mermaid``, which draws the layers of docs/architecture.md as rows of boxes.

GitHub draws the same text as a graph. Here every box lists its imports, which needs no script.
"""

import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Layers(SphinxDirective):
    """Rows of boxes from ``subgraph ... end`` and ``a --> b``."""

    has_content = True

    def run(self):
        text = "\n".join(self.content)
        imports = {}
        for room, other in re.findall(r"(\w+) --> (\w+)", text):
            imports.setdefault(room, []).append(other)
        rows = []
        for layer in re.findall(r"subgraph.*?\n(.*?)\n\s*end", text, re.S):
            rooms = re.findall(r'(\w+)\["(.*?)"\]', layer)
            rows.append("".join(self._room(label, imports.get(room)) for room, label in rooms))
        html = "".join(f'<div class="layer">{row}</div>' for row in rows)
        return [nodes.raw("", f'<div class="layers">{html}</div>', format="html")]

    def _room(self, label, imports):
        needs = f"<small>imports {', '.join(imports)}</small>" if imports else ""
        return f'<div class="room">{label}{needs}</div>'


def setup(app):
    app.add_directive("mermaid", Layers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
