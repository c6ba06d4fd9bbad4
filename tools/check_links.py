"""Check the internal links of a built site: every linked page, picture, script and anchor must exist.

``python tools/check_links.py docs/_build/html`` prints the broken links and fails if there are any.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """Parser that collects the links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def missing(root: Path) -> list[str]:
    """Return ``page: link`` for every broken link; links to other sites are not checked."""
    pages = {path: Page(path) for path in sorted(root.rglob("*.html")) if "_static" not in path.parts}
    found = []
    for path, page in pages.items():
        for link in page.links:
            address, anchor = urldefrag(link)
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            known = not anchor or target not in pages or unquote(anchor) in pages[target].anchors
            if not target.exists() or not known:
                found.append(f"{path.relative_to(root)}: {link}")
    return found


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    found = missing(root)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(list(root.rglob('*.html')))} pages, {len(found)} broken links")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
