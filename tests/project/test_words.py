"""Phrases that ``make lint`` rejects: found across lines, with exceptions for single files."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = runpy.run_path(str(ROOT / "tools" / "words.py"))


def found(folder: Path, name: str, text: str) -> list[tuple[int, str]]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return [(line, phrase) for line, phrase, _ in sorted(WORDS["problems"](path))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(WORDS["problems"].__globals__, "ROOT", tmp_path)
    return tmp_path


def test_phrases_are_found_with_their_lines(folder: Path) -> None:
    assert found(folder, "a.md", "Fine.\n\nAt most so\nmany points.") == [(3, "so many")]
    assert found(folder, "a.py", "# at most so\n# many points\n") == [(1, "so # many")]
    assert found(folder, "b.py", '"""How it is done."""\n') == [(1, "How it is done.")]
    assert found(folder, "b.md", "Done. Of a list all is used.") == [(1, "Of a")]
    assert found(folder, "c.md", "The loss in units\nof that of SVC.") == [(1, "in units of that")]
    assert found(folder, "c.py", '"""By set and method: accuracy."""\n') == [
        (1, "By set and method: accuracy.")
    ]


def test_numbers_and_headings_of_pages(folder: Path) -> None:
    assert [line for line, _ in found(folder, "a.md", "# What there is\n\n10 000 rows, .44 and 1\n")] == [
        1,
        3,
        3,
    ]
    assert found(folder, "b.md", "# What is it?\n\n10,000 rows, 0.44\n\n```\n10 000 .44\n```\n`.45`\n") == []


def test_plain_words_pass(folder: Path) -> None:
    assert (
        found(folder, "a.md", "Threads share the work, held-out rows, as many points as rows, all but a few.")
        == []
    )


def test_an_exception_needs_its_file_and_a_reason(folder: Path) -> None:
    line = "| `sparseklr.rivals` | `sparseklr.baselines` |\n"
    assert found(folder, "CHANGELOG.md", line) == []
    assert found(folder, "README.md", line) == [(1, "rivals")]
    assert all(reason for _, _, reason in WORDS["ALLOWED"])
