"""The explorer, a page on which you drag points and watch the model change.

The page is one self-contained HTML file. Its solver is the core of the package compiled to WebAssembly:
``solver.js``, made by ``make explorer`` from ``cpp/`` and ``wasm/``. ``python docs/explorer/page.py > FILE``
writes the page; ``docs/conf.py`` puts it on the site.
"""

from __future__ import annotations

import sys
from pathlib import Path
from string import Template

FOLDER = Path(__file__).resolve().parent


def page() -> str:
    """Return the page as HTML text."""

    def text(*names: str) -> str:
        return "".join((FOLDER / name).read_text("utf-8") for name in names)

    return Template(text("explorer.html")).substitute(
        css=text("explorer.css"), solver=text("solver.js"), js=text("model.js", "plane.js", "explorer.js")
    )


if __name__ == "__main__":
    sys.stdout.write(page())
