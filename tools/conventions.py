"""Conventions of the codebase that no linter checks; prints what breaks them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "sparseklr"
PAGES = ("CONTRIBUTING.md", "docs/architecture.md")


def private_names() -> list[str]:
    """Modules other than ``_sklearn.py`` that import private names of scikit-learn."""
    private = re.compile(
        r"from sklearn[\w.]*\._\w+[\w.]* import"
        r"|from sklearn[\w.]* import [^\n#(]*\b_\w+"
        r"|from sklearn[\w.]* import \([^)]*\b_\w+[^)]*\)"
    )
    found = [path for path in PACKAGE.rglob("*.py") if private.search(path.read_text("utf-8"))]
    return [
        f"{path.relative_to(ROOT)}: imports a private name of scikit-learn; only _sklearn.py may"
        for path in found
        if path.name != "_sklearn.py"
    ]


def stack_levels() -> list[str]:
    """Modules that give a warning a fixed stack level, where ``_warn.warn`` would find the user's line."""
    found = [path for path in PACKAGE.rglob("*.py") if "stacklevel=" in path.read_text("utf-8")]
    return [
        f"{path.relative_to(ROOT)}: gives a warning a stack level; call sparseklr._warn.warn"
        for path in found
        if path.name != "_warn.py" and path.parent.name != "cli"
    ]


def missing_paths() -> list[str]:
    """Paths named in the pages for contributors, from the root or from the package, that do not exist."""
    return [
        f"{page}: there is no file {name}"
        for page in PAGES
        for name in re.findall(r"`([\w./]+\.(?:py|cpp|hpp|pyi|toml))`", (ROOT / page).read_text("utf-8"))
        if not any((place / name).exists() for place in (ROOT, PACKAGE))
    ]


def coverage_limit() -> list[str]:
    """``make test`` requires a coverage, ``make test TESTS=...``, which runs a part, does not."""

    def commands(*arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        command = ["make", "--no-print-directory", "-n", "test", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout

    whole, part = commands(), commands("TESTS=tests/test_solver.py -k gap")
    good = "--cov-fail-under" in whole and "--cov" not in part and "tests/test_solver.py -k gap" in part
    return [] if good else ["Makefile: the limit of coverage is for the whole suite, and only for it"]


def main() -> int:
    problems = [*private_names(), *stack_levels(), *missing_paths(), *coverage_limit()]
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
