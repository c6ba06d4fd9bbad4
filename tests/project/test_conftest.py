"""The settings that all tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from joblib import Parallel, delayed

SCRIPT = """
import conftest
from hypothesis import settings
print(settings.default.derandomize, settings.default.database.path)
"""


@pytest.mark.slow
def test_hypothesis_draws_new_inputs_and_keeps_failing_ones_on_ci() -> None:
    tests = Path(__file__).parents[1]
    variables = {**os.environ, "CI": "true", "GITHUB_ACTIONS": "true"}
    variables["PYTHONPATH"] = str(tests.parent)
    command = [sys.executable, "-c", SCRIPT]
    shown = subprocess.check_output(command, cwd=tests, env=variables, text=True)
    assert shown.strip() == f"False {tests.parent / '.hypothesis' / 'examples'}"


def test_parallel_work_of_tests_runs_in_threads() -> None:
    assert Parallel(n_jobs=2)(delayed(os.getpid)() for _ in range(2)) == [os.getpid()] * 2
