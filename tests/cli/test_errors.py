"""Every error of the command line is one line with a remedy, exit code 2, and changes no file."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.datasets import dump_svmlight_file, make_moons
from sklearn.preprocessing import MaxAbsScaler
from support.archives import change

from sparseklr.cli import fit, main
from sparseklr.persistence import encode, pack

CSV = "x,colour,kind\n" + "".join(f"{k % 7},{'red' if k % 2 else 'blue'},{'ab'[k % 2]}\n" for k in range(60))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("errors")
    (home / "data.csv").write_text(CSV)
    assert (
        main(
            [
                "fit",
                str(home / "data.csv"),
                "--target",
                "kind",
                "--model",
                "sparse",
                "-o",
                str(home / "model.sklr"),
            ]
        )
        == 0
    )
    X, y = make_moons(60, random_state=0)
    dump_svmlight_file(X, y, str(home / "data.svm"))
    assert main(["fit", str(home / "data.svm"), "-o", str(home / "sparse.sklr")]) == 0
    return home


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command that must fail with one line that contains the given words."""

    def run(argv: list[Any], *words: str, code: int = 2) -> None:
        capsys.readouterr()
        assert main([str(arg) for arg in argv]) == code
        captured = capsys.readouterr()
        assert captured.out == ""
        lines = captured.err.splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("sparseklr: error: " if code == 2 else "sparseklr: ")
        assert all(word in lines[0] for word in words), lines[0]

    return run


def fit_text(
    fails: Any, folder: Path, text: str, *words: str, name: str = "data.csv", target: str = "y"
) -> None:
    """Fitting to a file with this text fails and writes no model."""
    (folder / name).write_text(text)
    fails(["fit", folder / name, "--target", target, "-o", folder / "m.sklr"], *words)
    assert [path.name for path in folder.iterdir()] == [name]


# -- files of data ----------------------------------------------------------------------------


def test_missing_file(fails: Any, tmp_path: Path, home: Path) -> None:
    fails(["fit", "nowhere.csv", "--target", "y", "-o", tmp_path / "m.sklr"], "nowhere.csv", "no such file")
    fails(["predict", "nowhere.sklr", home / "data.csv"], "nowhere.sklr", "no such file")
    fails(
        ["report", "nowhere.sklr", home / "data.csv", "-o", tmp_path / "r.html"],
        "nowhere.sklr",
        "no such file",
    )
    fails(["fit", tmp_path, "--target", "y", "-o", tmp_path / "m.sklr"], "a folder", "--model compact")


def test_unknown_suffix(fails: Any, tmp_path: Path) -> None:
    fit_text(fails, tmp_path, CSV, "'.txt'", ".parquet", "--format", name="data.txt")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["data.csv", "empty"]),
        ("a,y\n", ["data.csv", "no rows"]),
        ("a,y\n1,2\n3\n", ["data.csv", "row 2 has 1 cells", "expected 2"]),
        ("a,y\n1,2\n3,4,5\n", ["data.csv", "row 2 has 3 cells", "expected 2"]),
        ("a,a,y\n1,2,0\n3,4,1\n", ["data.csv", "several columns have the same name: a"]),
        ("y\n0\n1\n", ["there is no feature column"]),
        ("a,y\n,0\n,1\n", ["data.csv", "no feature remains", "column 'a'", "empty in every row"]),
        ("a,b,y\n1,,0\n1,,1\n", ["data.csv", "no feature remains", "column 'a'", "the same value"]),
        ("1,2,0\n3,4,1\n", ["data.csv", "the first row contains numbers", "column names"]),
    ],
)
def test_unusable_table(fails: Any, tmp_path: Path, text: str, words: list[str]) -> None:
    fit_text(fails, tmp_path, text, *words)


@pytest.mark.parametrize(
    ("values", "kind"),
    [([{"a": 1}, {"a": 2}], "dict"), ([[1], [2]], "ndarray"), ([b"a", b"b"], "bytes")],
)
def test_unusable_type(fails: Any, tmp_path: Path, values: list[Any], kind: str) -> None:
    data = tmp_path / "data.parquet"
    pa.parquet.write_table(pa.table({"x": [1, 2], "odd": values, "y": [0, 1]}), data)
    fails(
        ["fit", data, "--target", "y", "--model", "sparse", "-o", tmp_path / "m.sklr"],
        "column 'odd'",
        kind,
        "Use the parameter drop to exclude the column",
    )


def test_not_parquet(fails: Any, tmp_path: Path) -> None:
    fit_text(fails, tmp_path, CSV, "data.parquet", "cannot be read as Parquet", name="data.parquet")


def test_bad_svmlight(fails: Any, tmp_path: Path, home: Path) -> None:
    data, output = tmp_path / "data.svm", tmp_path / "m.sklr"
    for text, words in (
        ("1 a:b\n", ["data.svm", "cannot be read"]),
        ("", ["no row has a non-zero feature"]),
        ("1 1:2\n1 1:3\n", ["all 2 rows have the class 1"]),
    ):
        data.write_text(text)
        fails(["fit", data, "-o", output], *words)
    fails(["fit", home / "data.svm", "--target", "y", "-o", output], "--target", "svmlight")
    data.write_text("1 0:1 7:1\n")
    fails(["predict", home / "sparse.sklr", data], "feature 7", "0 to 1")
    data.write_text("5 0:1\n")
    fails(["evaluate", home / "sparse.sklr", data], "label", "the model has no class 5", "0, 1")
    fails(["predict", home / "sparse.sklr", home / "data.csv"], "fitted to an svmlight file", "csv")
    fails(["predict", home / "model.sklr", home / "data.svm"], "fitted to a table", "svmlight")


# -- columns and classes ----------------------------------------------------------------------


def test_unknown_columns(fails: Any, tmp_path: Path, home: Path) -> None:
    fit_text(
        fails, tmp_path, CSV, "--target", "'kimd'", "did you mean 'kind'?", "x, colour, kind", target="kimd"
    )
    data, output = home / "data.csv", tmp_path / "m.sklr"
    fails(["fit", data, "-o", output], "--target", "x, colour, kind")
    fails(["fit", data, "--target", "kind", "--drop", "Colours", "-o", output], "--drop", "'colour'")
    argv = ["fit", data, "--target", "kind", "--model", "sparse", "-o", output, "--sample-weight-column"]
    fails([*argv, "w"], "--sample-weight-column", "'w'")
    fails([*argv, "colour"], "data.csv: column 'colour'", "row 1", "'blue'", "a number")
    fails(
        ["fit", data, "--target", "kind", "--model", "sparse", "--drop", "kind", "-o", output],
        "--drop",
        "'kind'",
        "already used by --target",
    )
    fails(["fit", data, "--target", "kind", "--id", "x", "--drop", "x", "-o", output], "--id", "by --drop")
    fails(
        ["fit", data, "--target", "kind", "--model", "sparse", "--drop", "x", "colour", "-o", output],
        "there is no feature column",
    )
    fails(["predict", home / "model.sklr", data, "--id", "number"], "--id", "'number'", "x, colour, kind")
    fails(["predict", home / "model.sklr", data, "--id"], "--id", "no column identified the training rows")
    fails(["evaluate", home / "model.sklr", data, "--target", "y"], "--target", "'y'", "x, colour, kind")


def test_bad_weights(fails: Any, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,w,y\n1,1,0\n2,-3,1\n")
    argv = ["fit", tmp_path / "data.csv", "--target", "y", "--model", "sparse", "--sample-weight-column", "w"]
    fails([*argv, "-o", tmp_path / "m.sklr"], "data.csv: column 'w'", "row 2", "-3")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a"] * 60, ["all 60 rows have the class a", "two classes"]),
        ([""] * 60, ["--target y: no row has a class"]),
        (np.linspace(0, 1, 60), ["--target y", "60 different values", "quantity"]),
        (range(100, 160), ["--target y", "60 different values", "quantity", "100 to 159"]),
        ([f"name {k}" for k in range(60)], ["60 different values"]),
        ([f"{k / 7:.3f}".replace(".", ",") for k in range(60)], ["60 different values", "quantity"]),
        ([f"c{k}" for k in range(10_000)], ["10000 different values in 10000 rows"]),
    ],
)
def test_unusable_target(fails: Any, tmp_path: Path, labels: Any, words: list[str]) -> None:
    rows = [f"{k};{label}\n" for k, label in enumerate(labels)]
    fit_text(fails, tmp_path, "x;y\n" + "".join(rows), *words)


def test_new_rows_that_do_not_match_the_model(fails: Any, tmp_path: Path, home: Path) -> None:
    data = tmp_path / "new.csv"
    data.write_text("z,kind\n1,a\n")
    fails(["predict", home / "model.sklr", data], "new.csv", "missing: x, colour")
    data.write_text("x,colour\nlow,red\n,red\n" + "high,red\n" * 4)
    fails(["predict", home / "model.sklr", data], "new.csv: column 'x'", "row 1", "'low'", "a number")
    data.write_text("x,colour,kind\n1,red,c\n2,red,a\n")
    fails(
        ["evaluate", home / "model.sklr", data],
        "--target kind",
        "the model has no class c",
        "a, b",
    )


@pytest.mark.slow
def test_error_names_a_cell_that_is_too_large(fails: Any, tmp_path: Path) -> None:
    """The estimator clips large numbers, but it cannot predict for infinite features."""
    rows = [f"{k % 7},{k % 5 / 10},{'ab'[k % 7 > 3]}" for k in range(60)]
    train, data, model = tmp_path / "train.csv", tmp_path / "new.csv", tmp_path / "m.sklr"
    train.write_text("\n".join(["x,z,kind", *rows]))
    assert main(["fit", str(train), "--target", "kind", "--model", "sparse", "-o", str(model)]) == 0
    data.write_text("\n".join(["x,z,kind", *rows[:57], "2,1e200,a", *rows[58:]]))
    assert main(["predict", str(model), str(data)]) == 0
    data.write_text("\n".join(["x,z,kind", *rows[:57], "2,1e308,a", *rows[58:]]))  # infinite if standardised
    words = "new.csv: row 58: the value 1e+308 in column 'z'", "too far", "remove the row"
    fails(["predict", model, data], *words)
    fails(["evaluate", model, data], *words)
    fails(["explain", model, data, "--row", "58"], *words)
    fails(["report", model, data, "-o", tmp_path / "r.html"], *words)
    fails(["report", model, data, "-o", tmp_path / "r.json"], *words)
    assert main(["explain", str(model), str(data), "--row", "3"]) == 0  # another row of the file


def test_error_names_a_feature_that_is_too_large(fails: Any, tmp_path: Path, home: Path) -> None:
    """Sparse features are not clipped, and the cube of this feature overflows."""
    model = tmp_path / "poly.sklr"
    assert main(["fit", str(home / "data.svm"), "--kernel", "poly", "-o", str(model)]) == 0
    (tmp_path / "new.svm").write_text("1 0:1 1:1\n0 0:1 1:1e200\n")
    fails(["predict", model, tmp_path / "new.svm"], "new.svm: row 2: the value 1e+200 of feature 1")


# -- model files ------------------------------------------------------------------------------


def test_damaged_model(fails: Any, tmp_path: Path, home: Path) -> None:
    whole, model = (home / "model.sklr").read_bytes(), tmp_path / "m.sklr"
    contents = [whole[: len(whole) // 2], whole[: len(whole) - 10], b"", CSV.encode()]
    tampered = change(whole, "model.json", lambda text: text.replace(b'"median"', b'"mean"'))
    contents += [
        tampered,
        change(whole, "sparseklr.json", lambda text: text.replace(b"sha256", b"sha")),
        whole[:-2],
    ]
    for content in [*contents, pack({}), pack({"model.json": b"{}"}), pack(encode([1, 2], {}))]:
        model.write_bytes(content)
        fails(["predict", model, home / "data.csv"], "m.sklr", "not a model")


def test_model_of_another_format(fails: Any, tmp_path: Path, home: Path) -> None:
    whole, model = (home / "model.sklr").read_bytes(), tmp_path / "m.sklr"
    model.write_bytes(
        change(whole, "sparseklr.json", lambda text: text.replace(b'"format": 2', b'"format": 7'))
    )
    fails(
        ["predict", model, home / "data.csv"], "m.sklr", "format 7", "reads format 2", "Fit the model again"
    )


def test_model_of_other_libraries(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is one warning for any number of libraries, and the model is used."""
    model = tmp_path / "m.sklr"
    ours = version("scikit-learn")
    whole = (home / "model.sklr").read_bytes()
    old = lambda text: text.replace(f'"{ours}"'.encode(), b'"0.1.0"')  # noqa: E731
    model.write_bytes(change(whole, "sparseklr.json", old))
    capsys.readouterr()
    assert main(["predict", str(model), str(home / "data.csv")]) == 0
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"was written with scikit-learn 0.1.0, but {ours} is installed" in err


@pytest.mark.parametrize("name", ["fractions.Fraction", "numpy.linalg.norm"])
def test_untrusted_model(fails: Any, tmp_path: Path, home: Path, name: str) -> None:
    members = encode(MaxAbsScaler().fit([[1.0]]), {})
    tree = members["model.json"].replace(b"sklearn.preprocessing.MaxAbsScaler", name.encode())
    (tmp_path / "m.sklr").write_bytes(pack({**members, "model.json": tree}))
    for command in (["evaluate"], ["predict"], ["report", "-o", tmp_path / "r.html"]):
        fails([*command, tmp_path / "m.sklr", home / "data.csv"], "m.sklr", "untrusted types", name)


# -- output -----------------------------------------------------------------------------------


def test_output_that_cannot_be_written(
    fails: Any, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ["fit", home / "data.csv", "--target", "kind", "--model", "sparse", "-o"]
    fails([*argv, tmp_path / "no" / "m.sklr"], "does not exist")
    fails([*argv, tmp_path, "--force"], "not a regular file")
    (tmp_path / "m.sklr").write_text("precious")
    fails([*argv, tmp_path / "m.sklr"], "m.sklr", "exists", "--force")
    predict = ["predict", home / "model.sklr", home / "data.csv", "-o"]
    fails([*predict, tmp_path / "p.xlsx"], "p.xlsx", ".parquet")
    fails(["report", home / "model.sklr", home / "data.csv", "-o", tmp_path / "r.pdf"], "r.pdf", ".html")
    monkeypatch.setattr("os.access", lambda *_: False)
    fails([*argv, tmp_path / "new.sklr"], "no permission")
    assert [path.name for path in tmp_path.iterdir()] == ["m.sklr"]
    assert (tmp_path / "m.sklr").read_text() == "precious"


def test_data_gives_the_model_file_its_name(
    fails: Any, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["--target", "kind", "--model", "linear"]
    assert main(["fit", str(home / "data.csv"), *argv]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["data.sklr"]
    fails(["fit", home / "data.csv", *argv], "data.sklr", "exists", "--force")
    fails(["fit", "part-*.csv", *argv], "part-*.csv", "-o FILE")
    fails(["fit", "-", *argv], "-o FILE")


def test_failed_write_keeps_the_old_file(
    fails: Any, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full before the file is complete."""

    def full(self: Any, path: Path, **_: Any) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device", str(path))

    (tmp_path / "p.csv").write_text("precious")
    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    argv = ["predict", home / "model.sklr", home / "data.csv", "-o", tmp_path / "p.csv", "--force"]
    fails(argv, f"{tmp_path / 'p.csv'}: no space left")
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]
    assert (tmp_path / "p.csv").read_text() == "precious"


# -- the command line itself ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], ["COMMAND"]),
        (["fti"], ["fti", "fit", "show"]),
        (["fit"], ["DATA"]),
        (["fit", "a.csv", "-o", "m", "--C", "-1"], ["--C", "above 0", "'-1'"]),
        (["fit", "a.csv", "-o", "m", "--C", "many"], ["--C", "'many'"]),
        (["fit", "a.csv", "-o", "m", "--gamma", "nan"], ["--gamma", "above 0 or scale or auto", "'nan'"]),
        (["fit", "a.csv", "-o", "m", "--test-size", "1"], ["--test-size", "between 0 and 1"]),
        (["fit", "a.csv", "-o", "m", "--kernel", "cosine"], ["--kernel", "cosine", "laplacian"]),
        (["fit", "a.csv", "-o", "m", "--n-points", "0"], ["--n-points", "whole number of at least 1", "'0'"]),
        (["fit", "a.csv", "-o", "m", "--max-points", "2.5"], ["--max-points", "'2.5'"]),
        (["report", "-o", "r.html"], ["FILE"]),
        (["fit", "a.csv", "-o", "m", "--colour", "red"], ["unrecognized", "--colour"]),
        (["fit", "a.csv", "-o", "m", "--sep", "ab"], ["--sep", "a single character", "'ab'"]),
        (["fit", "a.csv", "-o", "m", "--decimal", "x"], ["--decimal", "'x'"]),
        (["fit", "a.csv", "-o", "m", "--kernel", "cosine"], ["--kernel", "laplacian"]),
        (["fit", "a.csv", "-o", "-", "--json"], ["--json", "standard output"]),
        (["fit", "a.csv", "-o", "m", "--jobs", "0"], ["--jobs", "-1 for all cores", "'0'"]),
        (["fit", "a.csv", "-o", "m", "--seed", "-1"], ["--seed", "at least 0", "'-1'"]),
        (["fit", "a.csv", "-o", "m", "--jobs", "many"], ["--jobs", "'many'"]),
        (["predict", "-", "-"], ["MODEL and DATA", "standard input"]),
    ],
)
def test_usage(fails: Any, argv: list[str], words: list[str]) -> None:
    fails(argv, *words)


def test_errors_of_the_library_are_one_line(fails: Any, tmp_path: Path, home: Path) -> None:
    data, output = home / "data.csv", ["-o", tmp_path / "m.sklr"]
    wrong = ["--model", "sparse", "--n-points", "5"]
    fails(["fit", data, "--target", "kind", *wrong, *output], "not an option of --model sparse")
    fails(["fit", data, "--target", "kynd", *output], "did you mean 'kind'?")
    fails(["report", home / "model.sklr", "-o", tmp_path / "r.html"], "expected a model file and a data file")


def test_classes_of_too_few_rows(fails: Any, tmp_path: Path) -> None:
    """The error, raised before the fit, names the option, the file, the class and the number of rows."""
    files = {n: tmp_path / f"{n}.csv" for n in (1, 2)}
    for n, file in files.items():
        file.write_text("x,y\n" + "".join(f"{k % 7},{'ab'[k % 2]}\n" for k in range(60)) + "3,c\n" * n)
    argv = ["--target", "y", "-o", tmp_path / "m.sklr"]
    one = "1.csv: --test-size 0.2: class c has only one row; expected at least one training row"
    fails(["fit", files[1], "--test-size", "0.2", *argv], one)
    few = "2.csv: --test-size 0.02: only 2 of 62 rows would be test rows; expected at least one for each"
    fails(["fit", files[2], "--test-size", "0.02", *argv], few)
    fails(
        ["fit", files[2], "--test-size", "0.98", *argv],
        "--test-size 0.98: only 1 of 62 rows would be training rows; expected",
    )
    none = "2.csv: --test-size 0.9: all 2 rows of class c would be test rows"
    fails(["fit", files[2], "--test-size", "0.9", *argv], none)


@pytest.mark.slow
def test_missing_package(home: Path) -> None:
    script = "import sys; sys.modules['pandas'] = None; from sparseklr.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "predict", home / "model.sklr", home / "data.csv"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == 'sparseklr: error: this command needs pandas: pip install "sparseklr[cli]"\n'


def test_interrupt(fails: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fit, "run_fit", stopped)
    fails(["fit", "a.csv", "-o", "m.sklr"], "interrupted", code=130)


def test_unexpected_error_and_debug(
    fails: Any, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(args: Any) -> None:
        raise RuntimeError("odd\nthing")

    monkeypatch.setattr(fit, "run_fit", broken)
    fails(["fit", "a.csv", "-o", "m.sklr"], "RuntimeError: odd thing", "--debug")
    assert main(["fit", "a.csv", "-o", "m.sklr", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err
