"""The C++ test of the core, which sanitizers and the ARM build run as well."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILERS = (os.environ.get("CXX", "g++"), "g++", "clang++")
COMPILER = next(filter(shutil.which, COMPILERS), None)


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler: g++ or clang++")
@pytest.mark.skipif(os.name == "nt", reason="tools/core_test.sh needs a POSIX shell")
def test_the_core_passes_its_own_test(tmp_path: Path) -> None:
    program = tmp_path / "core_test"
    build = ["bash", "tools/core_test.sh", str(program), str(COMPILER), "-O2", "-pthread"]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all checks hold\n")
