"""The command line on out-of-core data: patterns, folders, a cluster, checkpoints, bad parts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.large_rows import N

from sparseklr import CompactKLR, SparseKLR, save
from sparseklr.cli import main, stream
from sparseklr.cli.options import size
from sparseklr.streaming import TableSource


@pytest.fixture(scope="module")
def parts(tmp_path_factory, ring):
    """Three Parquet files with labels and row numbers."""
    folder = tmp_path_factory.mktemp("parts")
    X, y = ring
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    frame = frame.assign(number=np.arange(N), outcome=np.where(y == 1, "yes", "no"))
    for k, rows in enumerate(np.array_split(np.arange(N), 3)):
        frame.iloc[rows].to_parquet(folder / f"part-{k}.parquet", index=False)
    return folder


def fit(parts: Path, output: Path, *more: str) -> int:
    argv = ["fit", f"{parts}/part-*.parquet", "--target", "outcome", "--drop", "number", "--model", "compact"]
    return main([*argv, "--n-points", "2", "-o", str(output), "--force", *more])


@pytest.fixture
def model(parts, tmp_path, small_is_large):
    assert fit(parts, tmp_path / "model.sklr", "--memory", "100MB") == 0
    return tmp_path / "model.sklr"


@pytest.mark.slow
def test_fit_predict_evaluate(parts, model, tmp_path, ring, capsys):
    X, y = ring
    expected = CompactKLR(n_points=2).fit_source(
        TableSource(f"{parts}/part-*.parquet", "outcome", drop=["number"])
    )
    prob = expected.predict_proba(pd.DataFrame(X, columns=expected.feature_names_in_))
    capsys.readouterr()
    for name, data in (("a.parquet", f"{parts}/part-*.parquet"), ("b.csv", str(parts))):
        assert main(["predict", str(model), data, "-o", str(tmp_path / name)]) == 0
        assert f"{N} predictions" in capsys.readouterr().out
        read = pd.read_parquet if name.endswith("parquet") else pd.read_csv
        found = read(tmp_path / name)
        assert list(found.columns) == ["predicted", "p_no", "p_yes"]
        np.testing.assert_allclose(found[["p_no", "p_yes"]], prob, rtol=1e-12)
        assert ((found.p_yes > found.p_no) == (found.predicted == "yes")).all()
    assert main(["evaluate", str(model), str(parts), "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["n_rows"] == N
    truth = np.where(y == 1, prob[:, 1], prob[:, 0])
    assert measured["log_loss"] == pytest.approx(-np.log(truth).mean())
    assert sum(map(sum, measured["confusion"])) == N
    # one file is predicted in blocks as well, and with --id from memory
    one = parts / "part-0.parquet"
    assert main(["predict", str(model), str(one), "-o", str(tmp_path / "c.parquet")]) == 0
    assert main(["predict", str(model), str(one), "--id", "number", "-o", str(tmp_path / "d.parquet")]) == 0
    blocks, table = pd.read_parquet(tmp_path / "c.parquet"), pd.read_parquet(tmp_path / "d.parquet")
    assert table.number.tolist() == list(range(N // 3))
    np.testing.assert_allclose(blocks.p_yes, table.p_yes, rtol=1e-12)


@pytest.mark.slow
def test_evaluate_and_report_of_many_rows(parts, model, tmp_path, monkeypatch, capsys):
    """Measures of blocks equal the measures of the whole table, and a report page shows a sample."""
    whole = tmp_path / "whole.parquet"
    pd.read_parquet(parts).to_parquet(whole)
    measures = []
    for data, options in ((parts, []), (whole, ["--na", "none"])):  # --na needs the whole table
        assert main(["evaluate", str(model), str(data), "--json", *options]) == 0
        measures.append(json.loads(capsys.readouterr().out))
    blocks, table = measures
    assert blocks.keys() == table.keys()
    for name in blocks.keys() - {"data"}:
        exact = not isinstance(table[name], float)
        assert blocks[name] == (table[name] if exact else pytest.approx(table[name], rel=1e-9)), name
    assert blocks["n_rows"] == N

    page = tmp_path / "page.html"
    assert main(["report", str(model), str(parts), "-o", str(page)]) == 0
    assert f"{N} rows of" in page.read_text()
    monkeypatch.setattr(stream, "REPORT_ROWS", 1000)
    assert main(["report", str(model), str(parts), "-o", str(page), "--force"]) == 0
    sample = next(line for line in capsys.readouterr().err.splitlines() if "uniform sample" in line)
    assert f"of the {N} rows" in sample
    assert sample.split(": ")[-1] in page.read_text()


@pytest.mark.slow
def test_on_a_cluster(parts, model, tmp_path):
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, processes=False) as cluster:
        other = tmp_path / "other.sklr"
        address = cluster.scheduler_address
        assert fit(parts, other, "--memory", "100MB", "--scheduler", address) == 0
    for name in (model, other):
        assert main(["predict", str(name), str(parts), "-o", f"{name}.parquet"]) == 0
    a, b = (pd.read_parquet(f"{name}.parquet") for name in (model, other))
    np.testing.assert_array_equal(a.p_yes, b.p_yes)


@pytest.mark.slow
def test_interrupted_fit_leaves_a_checkpoint(parts, tmp_path, small_is_large, monkeypatch, capsys):
    from sparseklr.streaming import checkpoint

    save, file = checkpoint.Checkpoint.save, tmp_path / "fit.npz"

    def interrupted(self, state):
        save(self, state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Checkpoint, "save", interrupted)
        assert fit(parts, tmp_path / "model.sklr", "--checkpoint", str(file)) == 130
    assert file.exists()
    assert not (tmp_path / "model.sklr").exists()
    assert fit(parts, tmp_path / "model.sklr", "--checkpoint", str(file)) == 0
    assert not file.exists()


BROKEN = {
    "missing column": (lambda frame: frame.drop(columns="x3"), "part-1.parquet: there is no column 'x3'"),
    "another type": (lambda frame: frame.assign(x3="high"), "part-1.parquet: column 'x3' is of type"),
    "NaN": (
        lambda frame: frame.assign(x3=np.where(frame.index == 4007, np.nan, frame.x3)),
        "part-1.parquet, row 8 (counted from 1): feature 'x3' is nan; expected a finite number. Out-of-core",
    ),
    "no class": (
        lambda frame: frame.assign(outcome=frame.outcome.where(frame.index != 4007)),
        "part-1.parquet, row 8 (counted from 1): the label ('outcome') is missing",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_part(parts, tmp_path, small_is_large, capsys, what):
    change, message = BROKEN[what]
    for k in range(3):
        frame = pd.read_parquet(parts / f"part-{k}.parquet")
        frame.index += 4000 * k
        (change(frame) if k == 1 else frame).to_parquet(tmp_path / f"part-{k}.parquet", index=False)
    assert fit(tmp_path, tmp_path / "model.sklr") == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "model.sklr").exists()


@pytest.mark.slow
def test_part_without_rows(parts, model, tmp_path):
    """Fits and predictions skip a file without rows."""
    for k in range(3):
        os.symlink(parts / f"part-{k}.parquet", tmp_path / f"part-{k}.parquet")
    empty = pd.read_parquet(parts / "part-0.parquet")[:0]
    empty.to_parquet(tmp_path / "part-1a.parquet", index=False)
    assert fit(tmp_path, tmp_path / "other.sklr", "--memory", "100MB") == 0
    found = []
    for file in (model, tmp_path / "other.sklr"):
        assert main(["predict", str(file), f"{tmp_path}/part-*.parquet", "-o", f"{file}.csv"]) == 0
        found.append(pd.read_csv(f"{file}.csv"))
    pd.testing.assert_frame_equal(*found)


@pytest.mark.slow
def test_errors_for_options_that_cannot_be_streamed(parts, model, tmp_path, capsys):
    output = ["-o", str(tmp_path / "x.sklr")]
    data, compact = f"{parts}/part-*.parquet", ["--model", "compact", "--target", "outcome"]
    for argv, message in (
        (
            ["fit", data, "--target", "outcome", *output],
            "a folder or a file pattern requires --model compact",
        ),
        (["fit", "-", *compact, "--memory", "1GB", *output], "standard input can be read only once"),
        (
            ["fit", data, *compact, "--categorical", "x0", *output],
            "--categorical is not available when the data are read in blocks",
        ),
        (["fit", data, "--model", "compact", *output], "--target is required"),
        (["fit", data, *compact, "--memory", "much", *output], "expected a size such as 500MB"),
        (["fit", f"{parts}/none-*.parquet", *compact, *output], "no file matches the pattern"),
        (
            ["fit", data, *compact, "--scheduler", "tcp://127.0.0.1:1", *output],
            "no Dask scheduler responds at this address",
        ),
        (["predict", str(model), data, "--keep", "-o", str(tmp_path / "p.csv")], "--keep is not available"),
        (["predict", str(model), data, "--na", "-9", "-o", str(tmp_path / "p.csv")], "--na is not available"),
    ):
        assert main(argv) == 2
        error = capsys.readouterr().err
        assert message in error
        assert "--debug" not in error
    frame = pd.read_parquet(parts / "part-0.parquet")
    frame.loc[5, "x1"] = np.inf
    frame.to_parquet(tmp_path / "bad.parquet")
    assert main(["predict", str(model), str(tmp_path / "bad.parquet"), "-o", str(tmp_path / "p.csv")]) == 2
    assert "bad.parquet, row 6 (counted from 1): feature 'x1' is inf" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_error_names_a_cell_that_is_too_large(parts, tmp_path, capsys):
    frame = pd.read_parquet(parts / "part-0.parquet")[:200]
    X = frame[["x0", "x1"]]
    model = SparseKLR(kernel="rbf", scale=None, relevance="shared")  # features that are scaled are clipped
    save(model.fit(X, frame["outcome"]), tmp_path / "m.sklr")
    X.assign(x1=X["x1"].where(X.index != 56, 1e200)).to_parquet(tmp_path / "new.parquet")
    assert main(["predict", str(tmp_path / "m.sklr"), str(tmp_path / "new.parquet")]) == 2
    assert "new.parquet: row 57: the value 1e+200 in column 'x1'" in capsys.readouterr().err


def written(parts, folder, sep, decimal, change=lambda frame: frame):
    """Write the first rows of each part as a CSV file, and return the file pattern."""
    for k in range(3):
        frame = change(pd.read_parquet(parts / f"part-{k}.parquet")[:100])
        frame.to_csv(folder / f"part-{k}.csv", index=False, sep=sep, decimal=decimal)
    return f"{folder}/part-*.csv"


def test_missing_value_in_few_rows(parts, tmp_path, capsys):
    data = written(parts, tmp_path, ",", ".", lambda frame: frame.assign(x3=frame.x3.where(frame.index != 7)))
    argv = ["--target", "outcome", "--model", "compact", "-o", str(tmp_path / "m.sklr")]
    assert main(["fit", data, *argv]) == 2
    error = capsys.readouterr().err
    assert "part-0.csv, row 8 (counted from 1): feature 'x3' is nan; expected a finite number" in error
    assert "requires a number in every cell. A single file without --memory" in error
    assert "HistGradient" not in error


@pytest.mark.slow
def test_separator_and_decimal_sign_of_parts(parts, tmp_path, capsys):
    argv = ["--target", "outcome", "--model", "compact", "--n-points", "2", "--drop", "number"]
    found = []
    for name, sep, decimal in (("comma", ",", "."), ("semicolon", ";", ",")):
        (tmp_path / name).mkdir()
        data = written(parts, tmp_path / name, sep, decimal)
        reading = ["--sep", sep, "--decimal", decimal]
        assert main(["fit", data, *argv, *reading, "-o", str(tmp_path / f"{name}.sklr")]) == 0
        capsys.readouterr()
        assert main(["predict", str(tmp_path / f"{name}.sklr"), data, *reading]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    for decimal in (".", ","):
        data = written(parts, tmp_path / "semicolon", ";", decimal)
        assert main(["fit", data, *argv, "-o", str(tmp_path / "m.sklr")]) == 2
        assert "read as csv separated by ',' (sep= changes it)" in capsys.readouterr().err


def test_sizes():
    assert [size(text) for text in ("1GB", "500 MB", "2e9", "1.5g", "10")] == [1e9, 5e8, 2e9, 1.5e9, 10.0]
