"""Progress bars: nothing on a terminal without a width, no warning, and a last line."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pytest

from sparseklr._utils.progress import Iteration, ProgressBar, StageProgressBar


@pytest.mark.parametrize("columns", [0, 80])
def test_a_terminal_of_width_zero_shows_nothing(columns: int, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "fileno", lambda: 2)
    monkeypatch.setattr(os, "get_terminal_size", lambda fd=0: os.terminal_size((columns, 24)))
    with ProgressBar("fit", tolerance=1e-3) as progress:
        progress(Iteration(7, 1.0, 3.0))
        progress(Iteration(9, 0.03, 6.0))
    shown = capsys.readouterr().err
    assert (shown == "") == (columns == 0)
    assert ("about 6 s left" in shown) == (columns > 0)


def test_the_time_left_is_shown_once(capsys: Any, monkeypatch: Any) -> None:
    clock = iter([0.0, 30.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    with StageProgressBar("fit") as progress:
        progress.stage("pruning", 0.75)
    assert capsys.readouterr().err.splitlines()[0] == "fit  75%, pruning, about 10 s left"


def test_lines_in_a_file_end_with_the_whole(capsys: Any) -> None:
    with StageProgressBar("fit") as progress:
        progress.stage("trying 2 points", 0.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["fit   0%, trying 2 points", "fit 100%, 0 s"]
