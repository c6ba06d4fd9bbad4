"""README and the pages of docs/: their code runs and prints what they say, and no public name is missing."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import matplotlib
import pytest

import sparseklr

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MADE = ("_build", "gallery", "generated")  # by make docs
PAGES = [ROOT / "README.md", *sorted(p for p in DOCS.rglob("*.md") if not set(MADE) & set(p.parts))]
BLOCK = re.compile(r"^```([^`\n]*)\n(.*?)^```$", re.M | re.S)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of every fenced block."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def code(page: Path) -> list[tuple[str, str, str | None]]:
    """Blocks of Python and of commands, each with the block ``text`` that follows it, or None."""
    found = blocks(page)
    following = [*found, ("", "")][1:]
    return [
        (language, text, printed if kind == "text" else None)
        for (language, text), (kind, printed) in zip(found, following, strict=True)
        if language in ("python", "bash")
    ]


RUN = [page for page in PAGES if code(page)]


def run_python(text: str, names: dict) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "<page>", "exec"), names)
    return out.getvalue()


def run_commands(text: str) -> str:
    """Output of commands on a terminal of 80 columns; those that install or build are looked up instead."""
    lines = [line.split("  #")[0].rstrip() for line in text.splitlines()]
    lines = [line for line in lines if not known_elsewhere(line)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    assert run.returncode in (0, 141), run.stdout  # 141: head has read enough
    return run.stdout


def known_elsewhere(line: str) -> bool:
    """Whether a line installs the package, with extras that exist, or runs a target of the Makefile."""
    if line.startswith(("git clone ADDRESS sparseklr", "cd sparseklr")):
        return True
    if line.startswith("pip install"):
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert all(
            extra in extras for names in re.findall(r"\[([\w,]+)\]", line) for extra in names.split(",")
        )
        return True
    if line.startswith("make "):
        assert re.search(rf"^{line.split()[1]}:", (ROOT / "Makefile").read_text(), re.M), line
        return True
    return False


NUMBER = re.compile(r"\d+\.?\d*(?:e-?\d+)?")


def same_text(printed: str, expected: str) -> bool:
    """Whether two texts agree but for blanks, seconds, and the digits in which machines differ."""
    texts = [re.sub(r"(Seconds\D*)[\d.]+", r"\1", text) for text in (printed, expected)]
    words, numbers = zip(
        *(("".join(NUMBER.sub("#", t).split()), NUMBER.findall(t)) for t in texts), strict=True
    )
    pairs = [(float(a), float(b)) for a, b in zip(*numbers, strict=False)]
    return words[0] == words[1] and all(abs(a - b) <= 0.05 * abs(b) + 0.02 for a, b in pairs)


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names: dict = {}
    for language, text, expected in code(page):
        printed = run_python(text, names) if language == "python" else run_commands(text)
        if expected is not None:
            assert same_text(printed, expected), printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_the_package_exist(page: Path) -> None:
    for name in re.findall(r"[`<](sparseklr(?:\.\w+)+)[`>]", page.read_text(encoding="utf-8")):
        pkgutil.resolve_name(name)


def public_names() -> list[str]:
    """All that ``sparseklr`` and its public modules export."""
    modules = ["sparseklr"]
    modules += [f"sparseklr.{module.name}" for module in pkgutil.iter_modules(sparseklr.__path__)]
    return sorted(
        {
            name
            for module in modules
            if not module.rpartition(".")[2].startswith("_")
            for name in getattr(importlib.import_module(module), "__all__", ())
        }
    )


def test_the_reference_has_every_public_name() -> None:
    page = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")
    missing = [name for name in public_names() if not re.search(rf"^ +{name}$|``{name}``", page, re.M)]
    assert not missing, "add them to docs/api/index.rst"


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = {DOCS / "index.md"}
    for page in PAGES[1:]:
        for contents in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            entries = [line for line in contents.splitlines() if line and not line.startswith(":")]
            entries = [line.partition("<")[2].rstrip(">") or line for line in entries]
            listed |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    assert set(PAGES[1:]) <= listed
