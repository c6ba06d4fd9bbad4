"""The test of the core without Python, which sanitizers and the ARM build run, keeps up with the core."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_test_of_the_core_compiles() -> None:
    command = ["g++", "-std=c++20", "-fsyntax-only", "-Wno-psabi", "-Icpp", "tests/cpp/core_test.cpp"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
