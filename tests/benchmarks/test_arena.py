"""``benchmarks/arena.py`` on synthetic tables: stored rows, resuming, comparisons, and the two halves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import arena, arena_measure, arena_report
from benchmarks.common import NAMES

MODELS = {"logistic": "logistic", "forest": "forest"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write two tables: one with text and missing cells, and one with three classes."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("data")
    (folder / "arena").mkdir()
    x = rng.normal(size=(80, 2)).round(3)
    mixed = pd.DataFrame(
        {"x1": x[:, 0].astype(str), "x2": rng.choice(["red", "blue", "NA"], 80), "x3": x[:, 1]}
    )
    mixed.loc[:4, "x1"] = ""
    mixed["target"] = np.where(x[:, 1] + (mixed["x2"] == "red") > 0.3, "yes", "no")
    mixed.to_csv(folder / "arena" / "mixed.csv.gz", index=False)
    three = pd.DataFrame(x, columns=["x1", "x2"])
    three["target"] = np.digitize(x[:, 0], [-0.5, 0.5])
    three.to_csv(folder / "arena" / "three.csv.gz", index=False)
    return str(folder)


def run(file: Path, data: str, **options) -> int:
    settings = {"models": MODELS, "sets": ["mixed", "three"], "splits": 2, "rows": 40, "jobs": 1}
    return arena.run(file, data=data, **{**settings, **options})


def test_halves_are_disjoint_and_complete() -> None:
    choose, report = set(arena_measure.CHOOSE), set(arena_measure.REPORT)
    assert not choose & report
    assert len(choose) == 22
    assert len(report) == 21
    assert choose | report == set(arena_measure.HALVES["all"])
    assert set(NAMES) < choose | report
    assert all(list(stratum) == sorted(stratum) for stratum in arena_measure.STRATA)


def test_cells_become_numbers_or_text(data: str) -> None:
    X, y = arena_measure.table("mixed", data)
    assert [X[column].dtype == object for column in X] == [False, True, False]
    assert X["x1"].isna().sum() == 5
    assert set(X["x2"]) == {"red", "blue", "NA"}  # only an empty cell is missing
    assert set(y) == {0, 1}


def test_splits_are_stratified_and_depend_on_seed_and_split() -> None:
    y = np.repeat([0, 1], [900, 100])
    train, test = arena_measure.divide(y, 0, 500, 0)
    assert len(train) == 500
    assert y[train].sum() == 50
    assert not set(train) & set(test)
    assert len(arena_measure.divide(y, 0, 5000, 0)[0]) == 700  # at most 70% of the rows
    assert np.array_equal(train, arena_measure.divide(y, 0, 500, 0)[0])
    assert not np.array_equal(train, arena_measure.divide(y, 1, 500, 0)[0])
    assert not np.array_equal(train, arena_measure.divide(y, 0, 500, 1)[0])


@pytest.mark.slow
def test_a_run_resumes(data: str, tmp_path: Path) -> None:
    file = tmp_path / "results" / "a.csv"
    assert run(file, data, splits=1) == 4
    before = file.read_text()
    assert run(file, data, splits=1) == 0
    assert file.read_text() == before
    assert run(file, data, splits=2) == 4
    assert file.read_text().startswith(before)
    rows = arena_report.read([file])
    assert len(rows) == 8
    assert (rows["error"] == "").all()
    assert (rows["log_loss"] < rows["base_log_loss"]).all()
    # A key that differs in the number of rows, the seed or the label is a new measurement.
    assert run(file, data, rows=41) == run(file, data, seed=1) == 8
    assert run(file, data, models={"again": "logistic"}) == 4


@pytest.mark.slow
def test_estimates_of_ours_are_stored_and_errors_do_not_end_a_run(
    data: str, tmp_path: Path, monkeypatch
) -> None:
    file = tmp_path / "a.csv"
    run(file, data, models={"wide": "SparseKLR(gamma=0.01)", "bad": "SparseKLR(C=-1)"}, splits=1)
    rows = arena_report.read([file]).set_index(["model", "set"])
    assert rows.loc["wide", "estimate"].gt(0).all()
    assert rows.loc["wide", "points"].gt(0).all()
    assert rows.loc["bad", "error"].str.contains("'C' parameter of SparseKLR").all()
    assert (rows.loc["bad", "loss"] == rows.loc["bad", "base_log_loss"]).all()
    monkeypatch.setitem(arena_measure.MODELS, "bad", arena_measure.MODELS["logistic"])
    retried = {"models": {"bad": "bad"}, "splits": 1, "retry": True}
    assert run(file, data, **retried) == 2
    assert run(file, data, **retried) == 0
    assert (arena_report.read([file])["error"] == "").all()


def test_an_expression_that_is_wrong_ends_the_run_at_once(data: str, tmp_path: Path) -> None:
    with pytest.raises(NameError, match="SparseKLX"):
        run(tmp_path / "a.csv", data, models={"x": "SparseKLX()"})
    assert not (tmp_path / "a.csv").exists()


def results(model: str, losses: dict[str, list[float]]) -> pd.DataFrame:
    rows = pd.DataFrame(
        [(name, split, loss) for name, values in losses.items() for split, loss in enumerate(values)],
        columns=["set", "split", "loss"],
    )
    other = dict.fromkeys(("accuracy", "auc", "points", "seconds", "cpu_seconds"), 1.0)
    estimates = {"train_log_loss": 0.3, "estimate": 0.2, "train_base_log_loss": 0.6}
    return rows.assign(model=model, seed=0, rows=40, warnings="", error="", **other, **estimates)


def test_comparison_arithmetic() -> None:
    a = results("a", {"iris": [0.2, 0.4], "wine": [0.5, 0.5], "banknote": [1e-6, 1e-5], "only": [1.0]})
    b = results("b", {"iris": [0.1, 0.2], "wine": [0.6, 0.4, 9.0], "banknote": [1e-4, 1e-4]})
    found = arena_report.compare(a, b)
    assert set(found.index) == {"iris", "wine", "banknote"}  # what both have, split by split
    assert found.loc["iris", ["a", "b", "difference", "ratio"]].tolist() == pytest.approx(
        [0.3, 0.15, -0.15, 0.5]
    )
    assert found.loc["iris", "error"] == pytest.approx(0.05)  # of -0.1 and -0.2
    assert found.loc["wine", "ratio"] == pytest.approx(1)
    assert found.loc["banknote", "ratio"] == 1  # both below the floor
    assert found.index[-1] == "iris"  # the worst for b first
    total = arena_report.totals(found.loc[["iris", "wine"]])
    assert total["difference"] == pytest.approx(-0.075)
    assert total["error"] == pytest.approx(0.075)
    assert total["ratio"] == pytest.approx(0.5**0.5)
    assert total["better"] == 1


def test_summary_arithmetic() -> None:
    a = results("a", {"iris": [0.2, 0.4], "wine": [0.5, 0.5]})
    b = results("b", {"iris": [0.1, 0.2], "wine": [0.51, 0.51], "only": [1.0]})
    shared = arena_report.common(pd.concat([a, b]))
    assert set(shared["set"]) == {"iris", "wine"}
    found = arena_report.summary(shared, "a")
    assert found.loc["b", ["loss", "rank", "close", "worst"]].tolist() == pytest.approx([0.33, 1.5, 1, 1.02])
    assert found.loc["a", ["rank", "close", "worst"]].tolist() == pytest.approx([1.5, 0.5, 2])
    assert found.loc["a", "worst_set"] == "iris"
    assert found.loc["b", "geometric"] == pytest.approx((0.5 * 1.02) ** 0.5)
    assert found["above_estimate"].tolist() == [4, 4]
    assert found["above_base"].tolist() == [0, 0]


@pytest.mark.slow
def test_the_commands_print(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = str(tmp_path / "a.csv"), str(tmp_path / "b.csv")
    common = ["--data", data, "--sets", "mixed", "three", "--splits", "1", "--jobs", "1"]
    arena.main(["run", a, "--model", "logistic", "--model", "SparseKLR", *common])
    arena.main(["run", b, "--model", "forest", "--label", "logistic", *common])
    capsys.readouterr()
    arena.main(["compare", a, b])
    assert "logistic of b.csv (b) against logistic of a.csv (a)" in capsys.readouterr().out
    arena.main(["compare", a, a, "--model-a", "logistic", "--model-b", "SparseKLR", "--brief"])
    assert "SparseKLR of a.csv (b) against logistic" in capsys.readouterr().out
    arena.main(["summary", a, "--reference", "SparseKLR"])
    assert "geo. to SparseKLR" in capsys.readouterr().out
    arena.main(["violations", a])
    assert "of 2 fits" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        arena.main(["run", a, "--model", "logistic", "--label", "x", "--label", "y"])
