"""The explorer: a page on which a reader drags points and sees the model change.

The page is one HTML file that loads nothing. Its solver is the compiled core of this package, as WebAssembly:
``assets/solver.js``, made by ``make explorer`` from ``cpp/`` and ``wasm/``.
"""

from importlib import resources
from string import Template

__all__ = ["page"]


def page() -> str:
    """The page as HTML text.

    Examples
    --------
    >>> page()[:15]
    '<!doctype html>'
    """
    assets = resources.files(__package__) / "assets"
    text = {name: (assets / name).read_text("utf-8") for name in _FILES}
    return Template(text["explorer.html"]).substitute(
        css=text["explorer.css"],
        solver=text["solver.js"],
        js=text["model.js"] + text["plane.js"] + text["explorer.js"],
    )


_FILES = ("explorer.html", "explorer.css", "solver.js", "model.js", "plane.js", "explorer.js")
