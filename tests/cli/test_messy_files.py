"""Messy files on the command line: empty rows, totals, rows without a class, and spellings of classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparseklr.cli import main


def run(*argv: Any, code: int = 0) -> None:
    assert main([str(arg) for arg in argv]) == code


def table(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=n).round(2)
    return pd.DataFrame({"x": x, "city": rng.choice(["Oslo", "Rome"], n), "y": np.where(x > 0, "yes", "no")})


def fitted(folder: Path, text: str, capsys: Any) -> tuple[dict[str, Any], str]:
    """Fit a logistic regression to a CSV file, and return the summary and the messages."""
    (folder / "data.csv").write_text(text)
    argv = ["--target", "y", "--model", "linear", "-o", folder / "m.sklr", "--json", "--force"]
    capsys.readouterr()
    run("fit", folder / "data.csv", *argv)
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def test_spreadsheet_export(tmp_path: Path, capsys: Any) -> None:
    """A spreadsheet exports empty rows as separators, and a row of totals has no class."""
    header, *lines = table().to_csv(index=False).splitlines()
    lines[50:50] = [",,", "", " , ,"]
    text = "\ufeff" + "\r\n".join([header, *lines, "Total,,", ",,", ""])
    found, messages = fitted(tmp_path, text, capsys)
    assert found["n_rows"] == 120
    assert "3 empty rows are skipped" in messages
    assert "1 of 121 rows has no class and is ignored (row 121)" in messages
    run("evaluate", tmp_path / "m.sklr", tmp_path / "data.csv", "--json")
    captured = capsys.readouterr()
    assert json.loads(captured.out)["n_rows"] == 120
    assert "1 of 121 rows has no class" in captured.err
    run("predict", tmp_path / "m.sklr", tmp_path / "data.csv")
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 122
    assert "3 empty rows are skipped" in captured.err


def test_rows_without_a_class_keep_their_numbers(tmp_path: Path, capsys: Any) -> None:
    frame = table()
    frame.loc[[4, 7], "y"] = ""
    frame = frame.astype({"x": str})
    frame.loc[9, "x"] = "low"
    _, messages = fitted(tmp_path, frame.to_csv(index=False), capsys)
    assert "2 of 120 rows have no class and are ignored, beginning with row 5" in messages
    assert "'low' (row 10)" in messages
    frame.assign(y="").to_csv(tmp_path / "none.csv", index=False)
    run("evaluate", tmp_path / "m.sklr", tmp_path / "none.csv", code=2)
    assert "--target y: no row has a class" in capsys.readouterr().err


def test_classes_that_differ_only_in_case_are_merged(tmp_path: Path, capsys: Any) -> None:
    frame = table()
    frame.loc[::9, "y"] = frame["y"].str.upper()
    frame.loc[::7, "y"] = frame["y"] + " "
    found, messages = fitted(tmp_path, frame.to_csv(index=False), capsys)
    assert found["classes"] == ["no", "yes"]
    assert "column 'y': categories that differ only in case are merged: " in messages
    assert "'no' = 'NO'" in messages
    run("evaluate", tmp_path / "m.sklr", tmp_path / "data.csv", "--json")
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("above", "n"),
    [
        ("Report,,\nExported 2024-01-03,,\n,,\n", 3),
        ("Report\n\n", 2),
        ("# first\n# second\n", 2),
        ("\nReport,,\n", 2),
        ("\r\n\r\n", 2),
    ],
)
def test_lines_above_the_header(above: str, n: int, tmp_path: Path, capsys: Any) -> None:
    frame = table().astype({"x": str})
    frame.loc[9, "x"] = "low"
    found, messages = fitted(tmp_path, above + frame.to_csv(index=False), capsys)
    assert found["n_rows"] == 120
    assert f"{n} lines above the header skipped" in messages
    assert "'low' (row 10)" in messages
    run("evaluate", tmp_path / "m.sklr", tmp_path / "data.csv", "--json")
    assert "lines above the header skipped" in capsys.readouterr().err


def test_lines_above_a_header_of_numbers(tmp_path: Path, capsys: Any) -> None:
    """A row with numbers may be a row of the table, so it is not taken for the header."""
    text = "Report,,\nExported 2024-01-03,,\n" + table().to_csv(index=False, header=["2023", "city", "y"])
    (tmp_path / "data.csv").write_text(text)
    run("fit", tmp_path / "data.csv", "--target", "y", "-o", tmp_path / "m.sklr", code=2)
    error = capsys.readouterr().err
    assert "the first row names only 1 of 3 columns (Report)" in error
    assert "delete the lines above the header" in error


def test_separator_in_the_first_line(tmp_path: Path, capsys: Any) -> None:
    """Excel reads the separator from a first line such as sep=; and removes it."""
    found, _ = fitted(tmp_path, "sep=;\n" + table().to_csv(index=False, sep=";"), capsys)
    assert found["data"]["separator"] == ";"
    assert found["data"]["n_columns"] == 3


@pytest.mark.parametrize("size", [200_000, 3_000_000])
def test_long_cells(size: int, tmp_path: Path, capsys: Any) -> None:
    frame = table()
    frame.loc[0, "city"] = "word " * (size // 5)
    found, _ = fitted(tmp_path, frame.to_csv(index=False), capsys)
    assert found["n_rows"] == 120


def test_columns_of_free_text_are_named(tmp_path: Path, capsys: Any) -> None:
    frame = table(400)
    frame["pressure"] = [f"{120 + k % 7}/{80 + k % 11}" for k in range(400)]
    _, messages = fitted(tmp_path, frame.to_csv(index=False), capsys)
    assert "columns used: 1 number, 2 text (free text: pressure)" in messages
    run("show", tmp_path / "m.sklr")
    assert "free text" in capsys.readouterr().out


def test_rare_classes_are_named(tmp_path: Path, capsys: Any) -> None:
    frame = table()
    frame.loc[3, "y"] = "yess"
    frame.to_csv(tmp_path / "data.csv", index=False)
    run("fit", tmp_path / "data.csv", "--target", "y", "-o", tmp_path / "m.sklr")
    assert "too few rows of class yess to compare models" in capsys.readouterr().err


@pytest.mark.parametrize("leak", [False, True])
def test_perfect_predictions_are_reported(tmp_path: Path, capsys: Any, leak: bool) -> None:
    rng = np.random.default_rng(1)
    frame = table(300).drop(columns="x")
    frame["noise"] = rng.normal(size=300).round(3)
    frame["y"] = np.where(rng.random(300) < 0.3, "yes", "no")
    if leak:
        frame["closed"] = np.where(frame["y"] == "yes", "lost", "open")
    frame.to_csv(tmp_path / "data.csv", index=False)
    run("fit", tmp_path / "data.csv", "--target", "y", "-o", tmp_path / "m.sklr")
    assert ("almost perfectly" in capsys.readouterr().out) == leak
