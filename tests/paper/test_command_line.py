"""The command that runs the paper's experiments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.standins import DATA

from paper import Results
from paper.command_line import main

ROOT = Path(__file__).resolve().parents[2]

ONE = ["--sets", "sonar", "--methods", "SVM", "SparseKLR", "--data", str(DATA), "--jobs", "1"]


@pytest.mark.slow
def test_run_and_continue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "r.sqlite")
    assert main([*ONE, "--folds", "1", "2", "-o", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sets"] == ["sonar"]
    assert found["means"]["SVM, best"]["accuracy"]["paper"] == 0.851
    assert found["means"]["SVM, best"]["log_loss"]["ours"] is None
    assert found["means"]["SVM, best"]["points_fraction"]["ours"] > 0
    assert main([*ONE, "-o", path]) == 0
    out = capsys.readouterr().out
    assert "SparseKLR" in out
    assert "10 cells" in out
    assert main([*ONE, "-o", path, "--all-tables"]) == 0
    assert "Table 2: test accuracy" in capsys.readouterr().out
    with Results(path, readonly=True) as results:
        assert len(results.cells()) == 10
        assert [facts["cells"] for facts in results.runs().values()] == [4, 6, 0]


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    out = capsys.readouterr().out
    assert "wisconsin" in out
    assert "S-KLR-1ord" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--sets", "snar"], "did you mean 'sonar'"),
        (["--methods", "svm"], "did you mean 'SVM'"),
        (["--jobs", "many"], "--jobs"),
        (["--folds", "6"], "expected numbers from 1 to 5; got 6"),
        (["--quick", "--sets", "sonar"], "not both"),
        (["--backend", "dask"], "--scheduler"),
        (["--scheduler", "tcp://127.0.0.1:1"], "--backend dask"),
        (["--sets", "banknote", "--data", "nowhere"], "data set 'banknote' not found: --data DIR names"),
    ],
)
def test_errors(argv: list[str], message: str, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    if "nowhere" in argv:  # neither in a directory nor anywhere else

        def offline(*args: object, **kwargs: object) -> None:
            raise OSError("no network")

        monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    assert main(["-o", "r.sqlite", *argv]) == 2
    err = capsys.readouterr().err
    assert err.startswith("paper: error: ")
    assert message in err
    assert err.count("\n") == 1


def test_another_file_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\n" * 200)
    assert main([*ONE, "-o", str(path)]) == 2
    assert "notes.txt" in capsys.readouterr().err
    assert path.read_text() == "dear diary\n" * 200


def test_report_refuses_a_wrong_name_and_a_file_without_results(tmp_path: Path, capsys: Any) -> None:
    with Results(tmp_path / "r.sqlite"):
        pass
    argv = ["-o", str(tmp_path / "r.sqlite"), "--report"]
    assert main([*argv, str(tmp_path / "x.pdf")]) == 2
    err = capsys.readouterr().err
    assert f"--report {tmp_path / 'x.pdf'}: expected a name that ends in .html or .md or .tex" in err
    assert err.count("\n") == 1
    assert main([*argv, str(tmp_path / "x.html")]) == 2
    assert "the file contains no results yet" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["r.sqlite"]


def test_failed_cells_are_an_error(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    def fail(cell: Any, data: Any) -> None:
        raise MemoryError("too large")

    monkeypatch.setattr(sys.modules["paper.run"], "compute", fail)
    assert main([*ONE, "-o", str(tmp_path / "r.sqlite")]) == 2
    err = capsys.readouterr().err
    assert "10 of 10 cells failed" in err
    assert "MemoryError: too large" in err


@pytest.mark.slow
def test_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    argv = ["--quick", "--methods", "IVM", "--data", str(DATA), "--jobs", "2", "-o", str(path)]
    script = """
import os, signal, sys
from paper import Results
from paper.command_line import main

def interrupted(self, *args, add=Results.add):
    add(self, *args)
    os.killpg(0, signal.SIGINT)  # as a terminal does: to the workers as well

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts with it ignored
Results.add = interrupted
sys.exit(main(sys.argv[1:]))
"""
    process = subprocess.run(
        [sys.executable, "-c", script, *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert process.returncode == 130
    assert "the same command resumes" in process.stderr
    assert "Traceback" not in process.stderr
    with Results(path, readonly=True) as results:
        assert len(results.cells()) == 1
