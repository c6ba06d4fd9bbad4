"""Check conventions of the codebase that no linter checks, and print violations.

python tools/conventions.py             part of ``make lint``
python tools/conventions.py --private   also private names of the package that cross its folders
python tools/conventions.py --list      only the list of these private names, and their number
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "sparseklr"
TESTS = ROOT / "tests"
PAGES = ("CONTRIBUTING.md", "docs/architecture.md")


def private_names() -> list[str]:
    """Return a message for each module that must not import private names of scikit-learn but does."""
    private = re.compile(
        r"from sklearn[\w.]*\._\w+[\w.]* import"
        r"|from sklearn[\w.]* import [^\n#(]*\b_\w+"
        r"|from sklearn[\w.]* import \([^)]*\b_\w+[^)]*\)"
    )
    found = [path for path in PACKAGE.rglob("*.py") if private.search(path.read_text("utf-8"))]
    return [
        f"{path.relative_to(ROOT)}: imports a private name of scikit-learn; only sklearn_compat.py may"
        for path in found
        if path.name != "sklearn_compat.py"
    ]


def stack_levels() -> list[str]:
    """Return a message for each module that sets a fixed stack level in a warning."""
    found = [path for path in PACKAGE.rglob("*.py") if "stacklevel=" in path.read_text("utf-8")]
    return [
        f"{path.relative_to(ROOT)}: sets a stack level in a warning; call sparseklr._utils.messages.warn"
        for path in found
        if path.name != "messages.py" and path.parent.name != "cli"
    ]


def missing_paths() -> list[str]:
    """Return a message for each path in the pages for contributors that does not exist."""
    return [
        f"{page}: there is no file {name}"
        for page in PAGES
        for name in re.findall(r"`([\w./]+\.(?:py|cpp|hpp|pyi|toml))`", (ROOT / page).read_text("utf-8"))
        if not any((place / name).exists() for place in (ROOT, PACKAGE))
    ]


def coverage_limit() -> list[str]:
    """Return a message unless only the whole test suite, not a part of it, has a coverage limit."""

    def commands(*arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        command = ["make", "--no-print-directory", "-n", "test", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout

    whole, part = commands(), commands("TESTS=tests/dual/test_solver.py -k gap")
    good = "--cov-fail-under" in whole and "--cov" not in part and "tests/dual/test_solver.py -k gap" in part
    return [] if good else ["Makefile: only the whole test suite must have a coverage limit"]


def tests_import_tests() -> list[str]:
    """Return a message for each test module that imports another test module."""
    return [
        f"{path.relative_to(ROOT)}:{line}: imports {name}; shared code belongs in tests/support"
        for path in sorted(TESTS.rglob("*.py"))
        for line, name in imported(ast.parse(path.read_text("utf-8")))
        if any(part.startswith("test_") for part in name.split("."))
    ]


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the lines and full names of imports; a relative import has a dot for each level."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (f"{node.module}." if node.module else "")
            yield from ((node.lineno, start + alias.name) for alias in node.names)


def crossing_names() -> list[str]:
    """Return a message for each private name of a folder of the package that another folder uses.

    The modules at the top of the package count as one folder, and may have private names: ``_core``,
    ``_base``. An attribute belongs to another folder if a class or module there has it and no class of this
    folder does.
    """
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    owners: dict[str, set[str]] = defaultdict(set)
    members: dict[str, set[str]] = defaultdict(set)  # of the classes of a folder
    for path, tree in trees.items():
        home = folder(path.relative_to(PACKAGE).parts)
        for name, member in defined(tree):
            owners[name].add(home)
            if member:
                members[home].add(name)
    found = set()
    for path, tree in trees.items():
        home, place = folder(path.relative_to(PACKAGE).parts), path.relative_to(ROOT)
        for line, name in imported(tree):
            parts = absolute(name, path)
            if parts and folder(parts) != home and any(map(private, parts[1:])):
                found.add((place, line, f"imports {'.'.join(parts)}"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or not private(node.attr) or node.attr in members[home]:
                continue
            if others := owners[node.attr] - {home}:
                found.add((place, node.lineno, f"uses {node.attr} of {', '.join(sorted(others))}"))
    return [f"{place}:{line}: {text}" for place, line, text in sorted(found)]


def private(name: str) -> bool:
    """Return whether a name is private, unlike ``__name__`` and a name that scikit-learn requires."""
    if name == "_parameter_constraints":
        return False
    return name.startswith("_") and not name.endswith("__") and name != "_"


def folder(parts: tuple[str, ...]) -> str:
    """Return the folder of a module or name of the package; "sparseklr" for modules at its top."""
    return parts[0] if (PACKAGE / parts[0]).is_dir() else PACKAGE.name


def absolute(name: str, path: Path) -> tuple[str, ...]:
    """Return the parts of an imported name below the package; empty for names of other packages."""
    level = len(name) - len(name.lstrip("."))
    parts = name.lstrip(".").split(".")
    if level:
        start = path.relative_to(PACKAGE).parts
        return (*start[: len(start) - level], *parts)
    return tuple(parts[1:]) if parts[0] == PACKAGE.name else ()


def defined(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yield the names that a module defines, and whether they are members of a class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            member = isinstance(node, ast.ClassDef)
            for statement in node.body:
                if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    yield statement.name, member
                targets = getattr(statement, "targets", [getattr(statement, "target", None)])
                yield from ((target.id, member) for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from [(node.attr, True)] if ast.unparse(node.value) == "self" else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--private", action="store_true", help="also private names that cross folders")
    parser.add_argument("--list", action="store_true", help="list and count the names that cross folders")
    arguments = parser.parse_args()
    if arguments.list:
        crossing = crossing_names()
        print(*crossing, f"{len(crossing)} private names cross folders of the package", sep="\n")
        return 0
    problems = [*private_names(), *stack_levels(), *missing_paths(), *coverage_limit(), *tests_import_tests()]
    problems += crossing_names() if arguments.private else []
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
