"""Bad input to the command line: a one-line error, exit code 2, and no file overwritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.archives import change

from sparseklr.cli import main


def table(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, n)).round(3)
    return pd.DataFrame({"x": x, "z": z, "y": np.where(x > z, "a", "b")})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("bad")
    table().to_csv(home / "good.csv", index=False)
    argv = ["fit", home / "good.csv", "--target", "y", "--model", "sparse", "-o", home / "good.sklr"]
    assert main([str(arg) for arg in argv]) == 0
    text = (home / "good.csv").read_text()
    (home / "twice.csv").write_text(text.replace("x,z,y", "x,x,y"))
    table().assign(y=np.linspace(0, 1, 60)).to_csv(home / "quantity.csv", index=False)
    many = pd.concat([table()] * 200, ignore_index=True)
    many.assign(y=[f"name{k % 10_000}" for k in range(len(many))]).to_csv(home / "many.csv", index=False)
    model = (home / "good.sklr").read_bytes()
    edits: dict[str, Callable[[bytes], bytes]] = {
        "version.sklr": lambda text: text.replace(b'"format": 2', b'"format": 3'),
        "tampered.sklr": lambda text: text.replace(b"sha256", b"sha512"),
    }
    for name, edit in edits.items():
        (home / name).write_bytes(change(model, "sparseklr.json", edit))
    (home / "cut.sklr").write_bytes(model[: len(model) // 2])
    (home / "empty.csv").write_text("")
    return home


FIT = ["fit", "good.csv", "--target", "y"]
CASES = {
    "unknown option": ([*FIT, "--colour", "red"], "--colour"),
    "unknown command": (["guess", "good.csv"], "guess"),
    "abbreviated option": (["fit", "good.csv", "--targ", "y"], "--targ"),
    "a column named twice in the file": (
        ["fit", "twice.csv", "--target", "y"],
        "several columns have the same name: x",
    ),
    "a column named twice by options": ([*FIT, "--drop", "x", "--id", "x"], "'x' is already named by"),
    "the target among the features": ([*FIT, "--categorical", "y"], "'y' is already named by"),
    "no such column": ([*FIT, "--drop", "w"], "there is no column 'w'"),
    "a continuous target": (["fit", "quantity.csv", "--target", "y"], "looks like a quantity"),
    "ten thousand categories": (["fit", "many.csv", "--target", "y"], "10000 different values"),
    "an empty file": (["fit", "empty.csv", "--target", "y"], "empty.csv"),
    "a model of another version": (["predict", "version.sklr", "good.csv"], "format 2"),
    "a model that is cut": (["predict", "cut.sklr", "good.csv"], "damaged"),
    "a model that was changed": (["predict", "tampered.sklr", "good.csv"], "damaged"),
    "a table for a model": (["predict", "good.csv", "good.csv"], "not a model"),
    "a report on a cut model": (["report", "cut.sklr", "good.csv"], "damaged"),
    "a report without its classes": (["report", "good.sklr", "good.csv", "--target", "w"], "no column 'w'"),
}


@pytest.mark.parametrize("case", CASES)
def test_error_is_one_line_and_overwrites_nothing(case: str, home: Path, tmp_path: Path, capsys: Any) -> None:
    argv, words = CASES[case]
    suffix = {"fit": "sklr", "report": "html"}.get(argv[0], "csv")
    output = tmp_path / f"output.{suffix}"
    output.write_text("precious")
    files = [str(home / arg) if (home / arg).exists() else arg for arg in argv]
    capsys.readouterr()
    assert main([*files, "-o", str(output), "--force"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("sparseklr: error: ")
    assert printed.err.count("\n") == 1
    assert words in printed.err
    assert output.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == [output.name]  # no temporary file either


@pytest.mark.slow
def test_feature_of_many_different_texts_is_accepted(home: Path, tmp_path: Path) -> None:
    frame = pd.concat([table()] * 20, ignore_index=True)
    frame["word"] = [f"w{k % 1000} and v{k % 7} of {k % 10}" for k in range(len(frame))]
    frame.to_csv(tmp_path / "words.csv", index=False)
    argv = ["fit", tmp_path / "words.csv", "--target", "y", "--model", "sparse", "-o", tmp_path / "m.sklr"]
    assert main([str(arg) for arg in argv]) == 0
    assert (tmp_path / "m.sklr").stat().st_size < 2_000_000
