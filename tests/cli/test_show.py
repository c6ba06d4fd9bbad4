"""The command line on model files: their content, and what other formats cannot contain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.shop import run, shop

from sparseklr import SparseKLR, save


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("models")
    shop().to_csv(home / "train.csv", index=False)
    run("fit", home / "train.csv", "--target", "y", "--model", "sparse", "-o", home / "model.sklr")
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
    assert found["columns"][0]["kind"] == "dropped"
    assert set(found["versions"]) >= {"sparseklr", "scikit-learn"}


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [False, True])
def test_show_of_other_models(home: Path, tmp_path: Path, capsys: Any, held_out: bool) -> None:
    """A model fitted in Python has no table and less metadata; test measures are stored with a model."""
    path = tmp_path / "model.sklr"
    if held_out:
        argv = ("--model", "compact", "--n-points", "2", "--C", "10", "--test-size", "0.5")
        run("fit", home / "train.csv", "--target", "y", "--model", "sparse", "-o", path, *argv)
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


def test_export_names_all_columns_that_a_format_cannot_contain(
    home: Path, tmp_path: Path, capsys: Any
) -> None:
    """The error suggests options with which the export succeeds."""
    rng = np.random.default_rng(0)
    words = ["late", "paid", "twice", "refund", "called", "again", "answer"]
    notes = [" ".join(rng.choice(words, 6)) for _ in range(160)]
    shop().assign(note=notes).to_csv(tmp_path / "notes.csv", index=False)
    path, fit = tmp_path / "model.sklr", ("fit", tmp_path / "notes.csv", "--target", "y", "--model", "linear")
    run(*fit, "-o", path)
    run("export", path, "-o", tmp_path / "model.h", code=2)
    said = capsys.readouterr().err
    assert (
        "These columns of the model cannot be exported to C and JSON: 'day' (date), 'note' (free text)"
        in said
    )
    assert "--drop day note" in said
    run("export", path, "-o", tmp_path / "model.onnx", code=2)
    said = capsys.readouterr().err
    assert "These columns of the model cannot be exported to ONNX: 'note' (free text)" in said
    assert "--drop note" in said
    run(*fit, "-o", path, "--force", "--drop", "note")
    run("export", path, "-o", tmp_path / "model.onnx")
    run(*fit, "-o", path, "--force", "--drop", "day", "note")
    for name in ("model.h", "model.json"):
        run("export", path, "-o", tmp_path / name)
