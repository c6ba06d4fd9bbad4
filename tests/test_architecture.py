"""Rules of the house that no tool of ``make lint`` knows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src" / "sparseklr").rglob("*.py"))
FILES = [*SOURCES, *(ROOT / "tests").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")]


def test_no_file_is_longer_than_one_reading() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in FILES}
    assert len(lengths) > 100
    assert {path: n for path, n in lengths.items() if n > 400} == {}


def test_scikit_learns_private_names_are_in_one_module() -> None:
    private = re.compile(r"from sklearn[\w.]*(\._\w+)[\w.]* import|from sklearn[\w.]* import [^\n#]*\b_\w+")
    spread = re.compile(r"from sklearn[\w.]* import \([^)]*\b_\w+[^)]*\)")
    using = {path.name for path in SOURCES if private.search(text := path.read_text()) or spread.search(text)}
    assert using == {"_sklearn.py"}


def test_warnings_find_the_users_line_by_themselves() -> None:
    fixed = [path for path in SOURCES if "stacklevel=" in path.read_text() and path.parent.name != "cli"]
    assert [path.name for path in fixed] == ["_warn.py"]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_in_the_documents_exist(page) -> None:
    """Every `path` with a suffix, from the root or from src/sparseklr."""
    named = re.findall(r"`([\w./]+\.(?:py|cpp|hpp|pyi|toml))`", (ROOT / page).read_text())
    assert len(named) > 5
    places = (ROOT, ROOT / "src" / "sparseklr", ROOT / "src" / "sparseklr" / "experiments" / "report")
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_limit_of_coverage_is_for_the_whole_suite() -> None:
    def commands(*arguments: str) -> str:
        return subprocess.run(
            ["make", "-n", "test", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout

    assert "--cov-fail-under" in commands()
    part = commands("TESTS=tests/test_solver.py -k gap")
    assert part.rstrip().endswith("tests/test_solver.py -k gap")
    assert "--cov" not in part
