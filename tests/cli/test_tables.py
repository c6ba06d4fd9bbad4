"""The command line and tables: pipes, identifiers, reading options, output and messages."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.shop import run, shop

from sparseklr.cli.reading import decode, detect_separator


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("tables")
    shop().to_csv(home / "train.csv", index=False)
    shop(60, 1).to_csv(home / "new.csv", index=False)
    shop(60, 1).to_parquet(home / "new.parquet")
    argv = [
        "fit",
        home / "train.csv",
        "--target",
        "y",
        "--model",
        "sparse",
        "--id",
        "number",
        "-o",
        home / "model.sklr",
    ]
    run(*argv)
    return home


class Stdin:
    """Standard input with given bytes."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


# -- pipes ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_standard_input(home: Path, form: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run("predict", home / "model.sklr", home / "new.csv")
    expected = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", Stdin((home / f"new.{form}").read_bytes()))
    run("predict", home / "model.sklr", "-")
    assert capsys.readouterr().out == expected
    monkeypatch.setattr(sys, "stdin", Stdin((home / "model.sklr").read_bytes()))
    run("predict", "-", home / "new.csv")
    assert capsys.readouterr().out == expected
    monkeypatch.setattr(sys, "stdin", Stdin(b"x,z\n1,2\n"))
    run("predict", home / "model.sklr", "-", code=2)
    assert "standard input: columns of the model are missing: city, day" in capsys.readouterr().err


@pytest.mark.slow
def test_models_and_parquet_through_pipes(home: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sparseklr"]
    argv = [*command, "fit", "-", "--target", "y", "--model", "sparse", "--id", "number", "-o", "-"]
    fitted = subprocess.run(argv, input=(home / "train.csv").read_bytes(), capture_output=True, check=True)
    (tmp_path / "model.sklr").write_bytes(fitted.stdout)
    assert b"Points" in fitted.stderr
    argv = [*command, "predict", tmp_path / "model.sklr", "-", "-o", "-", "--output-format", "parquet"]
    made = subprocess.run(argv, input=(home / "new.parquet").read_bytes(), capture_output=True, check=True)
    assert pd.read_parquet(io.BytesIO(made.stdout)).shape == (60, 3)
    assert made.stderr == b""


def test_named_pipes(home: Path, tmp_path: Path) -> None:
    """Commands accept named pipes, as created by <(...) and >(...) in a shell."""
    os.mkfifo(tmp_path / "in")
    os.mkfifo(tmp_path / "out")
    feed = threading.Thread(target=(tmp_path / "in").write_bytes, args=[(home / "new.csv").read_bytes()])
    found = []
    drain = threading.Thread(target=lambda: found.append((tmp_path / "out").read_text()))
    feed.start()
    drain.start()
    run("predict", home / "model.sklr", tmp_path / "in", "-o", tmp_path / "out")
    feed.join(timeout=60)
    drain.join(timeout=60)
    assert len(found[0].splitlines()) == 61


# -- what predict writes --------------------------------------------------------------------------


@pytest.mark.slow
def test_identifiers(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    run("predict", home / "model.sklr", home / "new.csv", "--id")
    found = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert found.columns.tolist() == ["number", "predicted", "p_no", "p_yes"]
    assert found["number"].tolist() == list(range(501, 561))
    run("predict", home / "model.sklr", home / "new.csv", "--id", "city", "number")
    assert capsys.readouterr().out.startswith("city,number,predicted,")
    # those that were noticed count as well
    run("fit", home / "train.csv", "--target", "y", "--model", "sparse", "-o", tmp_path / "m.sklr")
    assert "column 'number' is dropped: a different whole number" in capsys.readouterr().err
    run("predict", tmp_path / "m.sklr", home / "new.csv", "--id")
    assert capsys.readouterr().out.startswith("number,predicted,")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_keep(home: Path, tmp_path: Path, form: str) -> None:
    output = tmp_path / f"out.{form}"
    run("predict", home / "model.sklr", home / f"new.{form}", "--keep", "-o", output)
    found = pd.read_csv(output) if form == "csv" else pd.read_parquet(output)
    pd.testing.assert_frame_equal(found[shop().columns], shop(60, 1), check_dtype=False)
    assert (found["predicted"] == found["y"]).mean() > 0.8
    if form == "parquet":
        assert pq.read_schema(output).field("x").type == "double"
    run("predict", home / "model.sklr", output, "--keep", code=2)


def test_new_categories_are_reported(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop(60, 1).replace({"Oslo": "Quito"}).to_csv(tmp_path / "new.csv", index=False)
    run("predict", home / "model.sklr", tmp_path / "new.csv")
    err = capsys.readouterr().err
    assert "column 'city'" in err
    assert "values do not occur in the training data: 'Quito' (row " in err
    assert "20 of 60 rows (33%) are unfamiliar: city is new (20)" in err
    assert err.count("\n") == 2


@pytest.mark.slow
def test_single_row_is_predicted_as_in_a_table(home: Path, tmp_path: Path, capsys: Any) -> None:
    rows = shop(60, 1).astype({"x": object})
    rows.loc[7, ["x", "day"]] = ["k.A.", "31/02/2020"]
    rows.to_csv(tmp_path / "all.csv", index=False)
    rows[7:8].to_csv(tmp_path / "one.csv", index=False)
    found = {}
    for name in ("all", "one"):
        run("predict", home / "model.sklr", tmp_path / f"{name}.csv", "-o", tmp_path / f"{name}-p.csv")
        found[name] = pd.read_csv(tmp_path / f"{name}-p.csv")
    pd.testing.assert_frame_equal(found["one"], found["all"][7:8].reset_index(drop=True))
    assert (
        "column 'x': 1 of 1 values is not a number and is treated as missing: 'k.A.'"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_training_rows_are_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("evaluate", home / "model.sklr", home / "new.csv")
    assert capsys.readouterr().err == ""
    run("evaluate", home / "model.sklr", home / "train.csv")
    assert "160 of 160 rows are identical to training rows" in capsys.readouterr().err


def test_new_rows_of_few_categories_are_not_reported(tmp_path: Path, capsys: Any) -> None:
    """Every new row equals a training row, as it must in a table with twelve distinct rows."""
    rng = np.random.default_rng(0)
    for name, n in (("train", 300), ("new", 400)):
        frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "class": rng.choice(["first", "second"], n)})
        frame["y"] = np.where(rng.random(n) < np.where(frame["sex"] == "f", 0.8, 0.3), "yes", "no")
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    run("fit", tmp_path / "train.csv", "--target", "y", "--model", "linear", "-o", tmp_path / "m.sklr")
    capsys.readouterr()
    run("evaluate", tmp_path / "m.sklr", tmp_path / "new.csv")
    assert capsys.readouterr().err == ""


# -- options of reading ---------------------------------------------------------------------------


@pytest.mark.slow
def test_reading_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = shop().assign(z=lambda frame: frame["z"].where(frame.index % 40 != 7, -9))
    data = tmp_path / "data.txt"
    data.write_bytes(frame.to_csv(index=False, sep="#", decimal=",").encode("latin-1"))
    reading = ["--format", "csv", "--sep", "#", "--decimal", ",", "--encoding", "latin-1", "--na", "-9"]
    columns = ["--drop", "number", "--date", "day=%d/%m/%Y", "--categorical", "city", "--number", "x"]
    run(
        "fit",
        data,
        "--target",
        "y",
        "--model",
        "sparse",
        *reading,
        *columns,
        "-o",
        tmp_path / "m.sklr",
        "--json",
    )
    found = json.loads(capsys.readouterr().out)
    assert found["columns"] == {"x": "number", "z": "number", "city": "text", "day": "date"}
    facts = {"separator": "#", "decimal": ",", "encoding": "latin-1", "n_rows": 160, "n_columns": 6}
    assert found["data"] == {"format": "csv", **facts}
    first = "read 160 rows, 6 columns, '#' separated, decimal comma, latin-1"
    assert found["notes"] == [first, "columns used: 2 numbers, 1 date, 1 text"]
    run("evaluate", tmp_path / "m.sklr", data, *reading, "--json")
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.85


def test_ambiguous_decimal_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Values such as "1,234" have a decimal comma if the separator is a semicolon, also in new rows."""
    rng = np.random.default_rng(0)
    x = rng.integers(1000, 9999, 80)
    rows = [f"{k // 1000},{k % 1000:03d};{'ab'[int(k > 5000)]}\n" for k in x]
    (tmp_path / "data.csv").write_text("x;y\n" + "".join(rows))
    run("fit", tmp_path / "data.csv", "--target", "y", "--model", "sparse", "-o", tmp_path / "m.sklr")
    assert "decimal comma" in capsys.readouterr().err
    (tmp_path / "new.csv").write_text("x\n" + '"1,500"\n')
    run("predict", tmp_path / "m.sklr", tmp_path / "new.csv")
    assert capsys.readouterr().out.splitlines()[1].startswith("a,")


@pytest.mark.parametrize(
    ("text", "sep"),
    [
        ("a;b\n1,5;2\n", ";"),
        ("a,b\n1;5,2\n", ","),
        ("a\tb\nx, y\tz; w\n", "\t"),
        ("a|b|c\n1|2|3\n", "|"),
        ("a\n1\n", ","),
        ('"a;b",c\n1,2\n', ","),
        ("a,b;c\n1,2;3\n4,5;6\n", ","),
    ],
)
def test_separator(text: str, sep: str) -> None:
    assert detect_separator(text) == sep


def test_encodings() -> None:
    for encoding, told in (("utf-8", "utf-8"), ("cp1252", "windows-1252"), ("utf-16", "utf-16")):
        assert decode("f", "größer € ä".encode(encoding), None) == ("größer € ä", told)
    assert decode("f", b"\x81\xe4", None)[1] == "latin-1"


# -- JSON, progress, reports ----------------------------------------------------------------------


@pytest.mark.slow
def test_commands_share_json_keys(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same quantity has the same key in every command."""
    base = ["train.csv", "--target", "y", "--id", "number", "--test-size", "0.3", "--json"]
    found = {}
    for model in ("sparse", "compact"):
        capsys.readouterr()
        run("fit", home / base[0], *base[1:], "--model", model, "-o", tmp_path / f"{model}.sklr")
        found[model] = json.loads(capsys.readouterr().out)
    run("evaluate", home / "model.sklr", home / "new.csv", "--json")
    measured = json.loads(capsys.readouterr().out)
    for one in found.values():
        assert set(one["test"]) == set(measured) - {"model", "data"}
        assert {"n_rows", "n_points", "points_fraction"} <= set(one) & set(measured)
        assert {"C", "log_loss", "standard_error", "seconds"} <= set(one["search"])
    assert {"accuracy", "log_loss", "brier", "ece", "roc_auc"} <= set(measured)


@pytest.mark.slow
def test_progress_in_a_file_is_lines(home: Path, tmp_path: Path) -> None:
    argv = ["fit", home / "train.csv", "--target", "y", "--model", "compact", "--verbose"]
    argv += ["-o", tmp_path / "m.sklr"]
    done = subprocess.run([sys.executable, "-m", "sparseklr", *argv], capture_output=True, check=True)
    assert b"CompactKLR   0%" in done.stderr
    assert b"\r" not in done.stderr


# -- explain --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_explain_shows_kept_rows_with_original_cells(home: Path, tmp_path: Path, capsys: Any) -> None:
    capsys.readouterr()
    run("explain", home / "model.sklr", home / "new.csv", "--row", 5, 7, "--points", 4, "--json")
    found = json.loads(capsys.readouterr().out)["rows"]
    train, new = pd.read_csv(home / "train.csv", dtype=str), pd.read_csv(home / "new.csv", dtype=str)
    run("predict", home / "model.sklr", home / "new.csv")
    predicted = pd.read_csv(io.StringIO(capsys.readouterr().out))
    for one, row in zip(found, (5, 7), strict=True):
        assert one["row"] == row
        assert one["class"] == predicted["predicted"][row - 1]
        assert one["probability"] == pytest.approx(predicted[f"p_{one['class']}"][row - 1])
        assert one["probability"] == pytest.approx(1 / (1 + np.exp(-one["log_odds"])))
        others = one["others"]
        total = sum(point["contribution"] for point in one["points"]) + others["for"] + others["against"]
        assert total + one["intercept"] == pytest.approx(one["log_odds"])
        columns = one["columns"]["contributions"]
        by_column = one["columns"]["base"] + sum(column["contribution"] for column in columns)
        assert by_column == pytest.approx(one["log_odds"])
        assert {c["column"]: c["cell"] for c in columns} == new.loc[
            row - 1, ["x", "z", "city", "day"]
        ].to_dict()
        names = ["x", "z", "city", "day"]
        assert one["cells"] == new.loc[row - 1, names].to_dict()
        assert len(one["points"]) == 4
        for point in one["points"]:
            kept = train.loc[point["row"] - 1]
            assert point["cells"] == kept[names].to_dict()
            assert point["class"] == kept["y"]
        distances = [point["distance"] for point in one["points"]]
        assert distances == sorted(distances)
    run("explain", home / "model.sklr", home / "new.csv", "--row", 5, "--class", "no", "--by", "contribution")
    text = capsys.readouterr().out
    assert "log-odds of no" in text
    assert text.index("mean of the training rows") < text.index("kept row")
    assert new["day"][4] in text
    assert "kept row" in text
    assert "Unfamiliar" not in text
    new.assign(city="Quito").to_csv(tmp_path / "strange.csv", index=False)
    run("explain", home / "model.sklr", tmp_path / "strange.csv", "--row", 5)
    assert "Unfamiliar: city is new" in capsys.readouterr().out


def test_explain_with_bad_input_and_models_from_python(home: Path, tmp_path: Path, capsys: Any) -> None:
    from sparseklr import SparseKLR, save

    run("explain", home / "model.sklr", home / "new.csv", "--row", 61, code=2)
    assert "--row 61: " in capsys.readouterr().err
    run("explain", home / "model.sklr", home / "new.csv", "--row", 0, code=2)
    assert "expected a whole number of at least 1; got '0'" in capsys.readouterr().err
    run("explain", home / "model.sklr", home / "new.csv", "--class", "maybe", code=2)
    assert "--class: there is no class 'maybe'" in capsys.readouterr().err
    frame = shop()
    save(SparseKLR().fit(frame[["x", "z"]], frame["y"]), tmp_path / "own.sklr")
    run("explain", tmp_path / "own.sklr", home / "new.csv", "--row", 2, "--points", 2)
    assert "point 2" in capsys.readouterr().out
    (tmp_path / "rows.svm").write_text("\n".join(f"{k % 2} 1:{k % 7} 2:{k % 3 - k % 2}" for k in range(60)))
    run("fit", tmp_path / "rows.svm", "-o", tmp_path / "svm.sklr")
    run("explain", tmp_path / "svm.sklr", tmp_path / "rows.svm", "--row", 3)
    assert "log-odds of" in capsys.readouterr().out


# -- prediction sets ------------------------------------------------------------------------------


def test_sets_are_a_column(home: Path, capsys: Any) -> None:
    capsys.readouterr()
    run("predict", home / "model.sklr", home / "new.csv", "--set", "0.9")
    found = pd.read_csv(io.StringIO(capsys.readouterr().out), keep_default_na=False)
    assert list(found.columns) == ["predicted", "p_no", "p_yes", "set"]
    assert set(found["set"]) <= {"", "no", "yes", "no|yes"}
    certain = (found["p_yes"] - 0.5).abs().idxmax()
    assert found["set"][certain] == found["predicted"][certain]
    run("predict", home / "model.sklr", home / "new.csv", "--set", "90", code=2)
    assert "expected a number between 0 and 1; got '90'" in capsys.readouterr().err


# -- unfamiliar rows ------------------------------------------------------------------------------


@pytest.mark.slow
def test_unfamiliar_rows_are_marked(home: Path, tmp_path: Path, capsys: Any) -> None:
    frame = shop(60, 1).astype(object)
    frame.loc[3, "city"] = "Bergen"
    frame.loc[7, "x"] = 1e4
    frame.loc[8, "day"] = "01/01/1970"
    frame.loc[9, "z"] = ""
    frame.loc[[11, 12], ["x", "z"]] = [[3.4, -3.4], [-3.4, 3.4]]  # each inside its margin, together far out
    frame.to_csv(tmp_path / "odd.csv", index=False)
    run("predict", home / "model.sklr", tmp_path / "odd.csv", "--flag", "-o", tmp_path / "flagged.csv")
    flags = pd.read_csv(tmp_path / "flagged.csv", keep_default_na=False)["unfamiliar"]
    assert "city is new" in flags[3]
    assert "x is high" in flags[7]
    assert "day is low" in flags[8]
    assert "z is missing" in flags[9]
    assert "unlike the training rows" in flags[7]
    others = flags.drop([3, 7, 8, 9, 11, 12])
    assert (others == "").mean() > 0.9
    err = capsys.readouterr().err
    assert f"{(flags != '').sum()} of 60 rows" in err
    assert "--flag" not in err
    run("predict", home / "model.sklr", tmp_path / "odd.csv", "-o", tmp_path / "plain.csv")
    assert "unfamiliar" not in pd.read_csv(tmp_path / "plain.csv").columns
    assert "are unfamiliar: " in (err := capsys.readouterr().err)
    assert "--flag marks them" in err
    run("predict", home / "model.sklr", home / "new.csv", "-o", tmp_path / "same.csv")
    assert "unfamiliar" not in capsys.readouterr().err  # rows like those of the training are not worth a word


def test_missing_columns_are_an_error_unless_rows_are_flagged(
    home: Path, tmp_path: Path, capsys: Any
) -> None:
    shop(20, 1).drop(columns=["city", "z"]).to_csv(tmp_path / "part.csv", index=False)
    run("predict", home / "model.sklr", tmp_path / "part.csv", code=2)
    error = capsys.readouterr().err
    assert "columns of the model are missing: z, city; predict --flag fills them" in error
    run("predict", home / "model.sklr", tmp_path / "part.csv", "--flag", "-o", tmp_path / "out.csv")
    assert "are filled with missing values: z, city" in capsys.readouterr().err
    assert pd.read_csv(tmp_path / "out.csv")["unfamiliar"].str.contains("z is missing; city is missing").all()
    (tmp_path / "none.csv").write_text("a,b\n1,2\n")
    run("predict", home / "model.sklr", tmp_path / "none.csv", "--flag", code=2)
    assert "none of the columns of the model" in capsys.readouterr().err
