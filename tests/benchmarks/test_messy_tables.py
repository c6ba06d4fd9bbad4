"""The files of ``benchmarks/messy_tables.py``: expected kinds, messages and accuracy."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.messy_tables import MESSY, Messy, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clean_accuracy(tmp_path_factory: pytest.TempPathFactory) -> float:
    return run(MESSY[0], tmp_path_factory.mktemp("clean"), "--model", "sparse").accuracy


@pytest.mark.parametrize("messy", [messy for messy in MESSY if not messy.error], ids=lambda messy: messy.name)
def test_messy_file(messy: Messy, clean_accuracy: float, tmp_path: Path) -> None:
    found = run(messy, tmp_path, "--model", "sparse")
    assert found.code == 0, found.stderr
    assert found.kinds == messy.kinds
    assert all(words in found.stderr for words in messy.messages), found.stderr
    # one line on how the file was read, and nothing that is not expected
    reading, *notes = found.stderr.splitlines()
    assert "read 400 rows" in reading
    notes = [note for note in notes if "columns used" not in note]
    assert len(notes) == sum("column" in words for words in messy.messages)
    assert found.accuracy > clean_accuracy - messy.worse


@pytest.mark.parametrize("messy", [messy for messy in MESSY if messy.error], ids=lambda messy: messy.name)
def test_unusable_file(messy: Messy, tmp_path: Path) -> None:
    found = run(messy, tmp_path)
    assert found.code == 2
    assert found.stderr.startswith("sparseklr: error: ")
    assert len(found.stderr.splitlines()) == 1
    assert all(words in found.stderr for words in messy.error), found.stderr
    assert not list(tmp_path.glob("*.sklr"))
