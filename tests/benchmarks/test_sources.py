"""``benchmarks/sources.py``: hashes of the sources, and the check for outdated results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import arena_page, sources, store
from benchmarks.arena_report import read

ROOT = Path(__file__).resolve().parents[2]

CODE = """
def scaled(x, factor=2):
    return factor * x
"""
SAME = '''
"""A docstring."""
from __future__ import annotations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import ndarray


def scaled(x: ndarray, factor: int = 2) -> ndarray:
    """Scale an array."""
    # a comment
    return (factor
            * x)
'''


def python_digest(folder: Path, code: str) -> str:
    path = folder / f"code{len(list(folder.iterdir()))}.py"
    path.write_text(code)
    return sources.file_digest(path)


def test_prose_annotations_and_layout_do_not_change_a_hash(tmp_path: Path) -> None:
    assert python_digest(tmp_path, CODE) == python_digest(tmp_path, SAME)


@pytest.mark.parametrize(
    ("before", "after"), [("=2", "=3"), ("factor * x", "x * factor"), ("factor * x", "factor + x")]
)
def test_code_changes_a_hash(before: str, after: str, tmp_path: Path) -> None:
    assert python_digest(tmp_path, CODE) != python_digest(tmp_path, CODE.replace(before, after))


def test_messages_do_not_change_a_hash_and_names_do(tmp_path: Path) -> None:
    code = "raise ValueError({!r})"
    one, two = (
        python_digest(tmp_path, code.format(text)) for text in ("x is negative", "x must not be negative")
    )
    assert one == two
    one, two = (python_digest(tmp_path, f"kernel = {name!r}") for name in ("rbf", "laplacian"))
    assert one != two


def test_comments_of_cpp_do_not_change_a_hash() -> None:
    assert sources.cpp_meaning("int a; // one\n/* two\n*/ int b;") == sources.cpp_meaning("int a;\nint b;")
    assert sources.cpp_meaning("int a = 1;") != sources.cpp_meaning("int a = 2;")


def test_every_figure_has_sources_and_every_stored_table_is_a_figure() -> None:
    for name, figure in sources.FIGURES.items():
        for pattern in figure.sources:
            assert list(ROOT.glob(pattern)), f"{name}: no file {pattern}"
    stored = {path.stem for path in (ROOT / "docs" / "results").iterdir()} - {"sources"}
    assert {name for name in stored if not name.startswith("reproduction_")} <= set(sources.FIGURES)


def test_a_result_is_outdated_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text("C = 1\n")
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(sources, "RECORD", tmp_path / "sources.json")
    monkeypatch.setattr(sources, "FIGURES", {"loss": sources.Figure("measure it", ("*.py",))})
    monkeypatch.setattr(sources.fingerprint, "__defaults__", (tmp_path,))
    monkeypatch.setattr(sources, "_AT_START", {})

    def outdated() -> list[str]:
        sources.file_digest.cache_clear()
        return sources.outdated()

    assert outdated() == ["loss"]  # never measured
    sources.record("loss")
    assert outdated() == []
    (tmp_path / "model.py").write_text("C = 10\n")
    assert outdated() == ["loss"]
    sources.record("loss")  # the process that stores the result began before the change
    assert outdated() == ["loss"]
    now = sources.fingerprint("loss")
    sources.record("loss", [now, now])
    assert outdated() == []
    sources.record("loss", [now, "another"])  # resumed after a change
    assert json.loads(sources.RECORD.read_text()) == {"loss": sources.MIXED}
    assert outdated() == ["loss"]


def test_pages_made_from_the_arena_are_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``python -m benchmarks.arena page`` on the stored results changes nothing."""
    made = ("README.md", "docs/arena.md", "docs/coming-from-boosting.md", "docs/results/arena.csv")
    (tmp_path / "docs" / "results").mkdir(parents=True)
    for name in made:
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    monkeypatch.setattr(arena_page, "ROOT", tmp_path)
    monkeypatch.setattr(arena_page, "RESULTS", tmp_path / "docs" / "results")
    monkeypatch.setattr(sources, "RECORD", tmp_path / "sources.json")
    arena_page.write(read([store.RESULTS / "arena.csv"]))
    for name in made:
        assert (tmp_path / name).read_text("utf-8") == (ROOT / name).read_text("utf-8"), name
