"""The script that runs the numerical tests as other machines would."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from machines import Machine, run_tests, unfinished

HANGING = """
import subprocess, sys, time
import pytest

@pytest.mark.numerical
def test_that_ends():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])

@pytest.mark.numerical
def test_that_hangs():
    time.sleep(100)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="a system without process groups")
@pytest.mark.parametrize("hangs", [True, False])
def test_time_limit_of_a_machine(hangs: bool, tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    """A test that hangs is named with its stacks; a process left behind by a test does not delay the end."""
    file = tmp_path / "test_hanging.py"
    file.write_text(HANGING)
    begin = time.perf_counter()
    selected = [str(file), "-k", "test_that" if hangs else "test_that_ends"]
    outcome = run_tests(Machine("this one", {}), False, 1, 20 if hangs else 80, selected)
    assert time.perf_counter() - begin < 80
    if not hangs:
        assert (outcome.passed, outcome.failures) == (1, [])
        return
    (failure,) = outcome.failures
    assert failure.startswith("the time limit of 20 s")
    assert "test_hanging.py::test_that_hangs" in failure
    assert "test_that_ends" not in failure
    assert "in test_that_hangs" in capfd.readouterr().err


def test_unfinished_tests() -> None:
    output = """
tests/a.py::test_x[1 - 2]
tests/a.py::test_y
[gw0] [ 50%] PASSED tests/a.py::test_x[1 - 2]
tests/a.py::test_z Fatal Python error: Aborted
"""
    assert unfinished(output) == ["tests/a.py::test_y", "tests/a.py::test_z"]


def test_threads_of_a_machine_do_not_exceed_the_jobs() -> None:
    assert Machine("one thread", {}).processes(2) == 2
    two = Machine("two threads", {"OPENBLAS_NUM_THREADS": "2"})
    assert [two.processes(jobs) for jobs in (1, 2, 4)] == [1, 1, 2]
