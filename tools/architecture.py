"""Draw the layer diagram in docs/architecture.md from the imports of the package.

``python tools/architecture.py`` writes it; with ``--check`` it fails if the page is outdated.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "sparseklr"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- made by make architecture -->\n", "<!-- end -->\n"


def layers() -> list[list[str]]:
    """Return the folders and modules of the package by layer, the highest layer first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (found for found in contracts if found["type"] == "layers")
    return [re.split(r"\s*[|:]\s*", layer) for layer in contract["layers"]]


def imports(parts: set[str]) -> dict[str, set[str]]:
    """Return, for each folder or module, the folders and modules that it imports."""
    graph = grimp.build_graph("sparseklr", exclude_type_checking_imports=True)
    found: dict[str, set[str]] = {part: set() for part in parts}
    for module in graph.modules:
        part = module.removeprefix("sparseklr.").split(".")[0]
        for imported in graph.find_modules_directly_imported_by(module):
            other = imported.removeprefix("sparseklr.").split(".")[0]
            if part in parts and other in parts and part != other:
                found[part].add(other)
    return found


def reachable(edges: dict[str, set[str]], start: str) -> set[str]:
    """Return the folders and modules that ``start`` imports directly or indirectly."""
    seen: set[str] = set()
    queue = [start]
    while queue:
        for other in edges[queue.pop()] - seen:
            seen.add(other)
            queue.append(other)
    return seen


def reduced(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports without those that a longer path of imports implies."""
    return {
        part: {b for b in direct if not any(b in reachable(edges, a) for a in direct - {b})}
        for part, direct in edges.items()
    }


def contents(part: str) -> str:
    """Return the modules of a folder."""
    modules = sorted(path.stem for path in (PACKAGE / part).glob("*.py") if not path.stem.startswith("_"))
    folders = sorted(path.parent.name for path in (PACKAGE / part).glob("*/__init__.py"))
    return ", ".join(modules + [f"{name}/" for name in folders])


def summary(part: str) -> str:
    """Return the first sentence of the docstring of a folder or module."""
    path = PACKAGE / part / "__init__.py"
    text = ast.get_docstring(ast.parse((path if path.exists() else PACKAGE / f"{part}.py").read_text())) or ""
    first = re.split(r"(?<=[.])\s", " ".join(text.split()))[0]
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", first)


def picture() -> str:
    rows = layers()
    parts = {part for row in rows for part in row}
    lines = ["```mermaid", "flowchart TB"]
    for k, row in enumerate(rows):
        lines.append(f"  subgraph layer{k}[ ]")
        for part in row:
            inside = contents(part)
            lines.append(f'    {part}["<b>{part}</b>{f"<br/>{inside}" if inside else ""}"]')
        lines.append("  end")
    edges = reduced(imports(parts))
    lines += [f"  {part} --> {other}" for row in rows for part in row for other in sorted(edges[part])]
    table = ["| part | contents |", "|---|---|"]
    table += [f"| `{part}` | {summary(part)} |" for row in rows for part in row]
    return "\n".join([*lines, "```", "", *table]) + "\n"


def main() -> int:
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = before + BEGIN + picture() + END + after
    if "--check" in sys.argv[1:]:
        if made != page:
            print("docs/architecture.md is outdated; run make architecture", file=sys.stderr)
        return int(made != page)
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
