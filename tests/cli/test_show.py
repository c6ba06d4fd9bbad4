"""The command line on model files: their content, and what other formats cannot contain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.shop import run, shop

from sparseklr import SparseKLR, save


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("models")
    shop().to_csv(home / "train.csv", index=False)
    run("fit", home / "train.csv", "--target", "y", "-o", home / "model.sklr")
    return home


def test_show_describes_a_model_file(home: Path, tmp_path: Path, capsys: Any) -> None:
    run("show", home / "model.sklr")
    shown = capsys.readouterr().out
    assert "SparseKLR()" in shown
    lines = {line.split("│")[1].strip(): line for line in shown.splitlines() if line.startswith("│")}
    assert "160" in lines["Rows"]
    assert "no, yes" in lines["Classes"]
    assert "Köln, Oslo, Rome" in lines["city"]
    frame = shop()
    assert f"{frame['x'].min():.6g} to {frame['x'].max():.6g}" in lines["x"]
    days = pd.to_datetime(frame["day"], format="%d/%m/%Y")
    assert f"{days.min():%Y-%m-%d} to {days.max():%Y-%m-%d}" in lines["day"]
    run("show", home / "model.sklr", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["target"] == "y"
    assert [one["name"] for one in found["columns"]] == ["number", "x", "z", "city", "day"]
    assert found["columns"][0]["kind"] == "left out"
    assert set(found["versions"]) >= {"sparseklr", "scikit-learn"}


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [False, True])
def test_show_of_other_models(home: Path, tmp_path: Path, capsys: Any, held_out: bool) -> None:
    """A model fitted in Python has no table and less metadata; test measures are stored with a model."""
    path = tmp_path / "model.sklr"
    if held_out:
        argv = ("--model", "compact", "--n-points", "2", "--C", "10", "--test-size", "0.5")
        run("fit", home / "train.csv", "--target", "y", "-o", path, *argv)
    else:
        frame = shop()
        save(SparseKLR(gamma=0.123456).fit(frame[["x", "z"]].to_numpy(), frame["y"]), path)
    capsys.readouterr()
    run("show", path)
    shown = capsys.readouterr().out
    assert ("CompactKLR(C=10, n_points=2)" if held_out else "SparseKLR(gamma=0.1235)") in shown
    assert ("On the test rows" in shown) == held_out
    run("show", home / "train.csv", code=2)
    assert "not a model written by sparseklr" in capsys.readouterr().err


@pytest.mark.slow
def test_export_names_the_column_that_requires_onnx(home: Path, tmp_path: Path, capsys: Any) -> None:
    cases = {
        ("--drop", "day"): "column 'city' is text",
        ("--drop", "city"): "column 'day' is a date",
    }
    for argv, reason in cases.items():
        path = tmp_path / "model.sklr"
        run("fit", home / "train.csv", "--target", "y", "--force", "-o", path, *argv)
        run("export", path, "-o", tmp_path / "model.h", code=2)
        assert f"model.sklr: {reason}, which requires an ONNX graph" in capsys.readouterr().err
    incomplete = shop().drop(columns=["city", "day"])
    incomplete.loc[3, "z"] = None
    incomplete.to_csv(tmp_path / "incomplete.csv", index=False)
    run("fit", tmp_path / "incomplete.csv", "--target", "y", "--force", "-o", path)
    run("export", path, "-o", tmp_path / "model.json", code=2)
    assert "missing values of column 'z' are imputed, which requires" in capsys.readouterr().err
