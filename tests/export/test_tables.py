"""Exports of models of tables: columns of the graph, scales, categories, and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from support.exported import run_c, run_json, run_onnx

from sparseklr import CompactKLR, SparseKLR, tabular_pipeline
from sparseklr.cli import main
from sparseklr.export import to_c, to_json, to_onnx
from sparseklr.export.portable import PortableModel

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

N = 160


def table() -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers that are skewed, tied and missing; categories that are rare, two-valued and missing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "skewed": np.round(np.exp(rng.normal(size=N)), 3),
            "tied": rng.integers(0, 4, N) / 10.0,
            "holed": np.where(rng.random(N) < 0.2, np.nan, rng.normal(size=N)),
            "mostly zero": np.where(rng.random(N) < 0.9, 0.0, rng.normal(size=N)),
            "day": pd.Timestamp("1968-02-01 05:30") + pd.to_timedelta(rng.integers(0, 900_000, N), "h"),
            "city": rng.choice(["Oslo", "Rome", "Paris", "Bern"], N).astype(object),
            "member": rng.choice(["yes", "no"], N).astype(object),
        }
    )
    frame.loc[[3, 7], "city"] = ["Nice", "Ulm"]  # each once
    frame.loc[10:20, "city"] = None
    frame.loc[[1, 2], "day"] = pd.NaT
    y = np.where((np.log(frame["skewed"]) > 0) == (frame["member"] == "yes"), "stays", "leaves")
    return frame, y


def seconds(column: pd.Series) -> np.ndarray:
    return np.where(column.isna(), np.nan, column.to_numpy().astype("datetime64[us]").astype(np.int64) / 1e6)


def inputs(model: Any, frame: pd.DataFrame, dtype: str = "float64") -> dict[str, np.ndarray]:
    """Rows in the form of the graph's inputs."""
    read = model[0].transform(frame)
    return {
        name: column.to_numpy(dtype)[:, None]
        if column.dtype.kind == "f"
        else seconds(column)[:, None]
        if column.dtype.kind == "M"
        else column.astype(object).where(column.notna(), "").to_numpy(dtype=object)[:, None]
        for name, column in read.items()
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scale", ["auto", None])
@pytest.mark.parametrize(
    "estimator",
    [SparseKLR(), CompactKLR(n_points=4, C=10.0), LogisticRegression(), DummyClassifier(strategy="prior")],
    ids=["sparse", "compact", "linear", "fractions"],
)
def test_columns_become_inputs(scale: str | None, estimator: Any) -> None:
    frame, y = table()
    if hasattr(estimator, "scale"):
        estimator = clone(estimator).set_params(scale=scale)
    model = tabular_pipeline(estimator).fit(frame, y)
    new = frame.copy()
    new.loc[5, "city"] = "Atlantis"  # never seen
    new.loc[6, "member"] = "perhaps"
    new.loc[[8, 9], "skewed"] = [1e6, -1e6]
    expected = model.predict_proba(new)
    label, probabilities = run_onnx(to_onnx(model), inputs(model, new))
    assert np.abs(probabilities - expected).max() < 1e-6
    sure = np.abs(expected[:, 1] - 0.5) > 1e-6
    assert (label[sure] == model.predict(new)[sure]).all()
    single = to_onnx(model, dtype="float32")
    _, probabilities = run_onnx(single, inputs(model, new, "float32"))
    assert probabilities.dtype == np.float32
    assert np.abs(probabilities - expected).max() < 1e-4


def test_tables_of_numbers_in_c_and_json(tmp_path: Path) -> None:
    frame, y = table()
    frame = frame[["skewed", "tied"]]
    model = tabular_pipeline(SparseKLR()).fit(frame, y)
    X, expected = frame.to_numpy(), model.predict_proba(frame)
    assert np.abs(run_c(to_c(model), X, tmp_path)[1] - expected).max() < 1e-6
    assert np.abs(run_json(to_json(model), X) - expected).max() < 1e-6


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator", [SparseKLR(), CompactKLR(n_points=4, C=10.0), LogisticRegression()])
def test_tables_of_numbers_and_categories_in_c_and_json(estimator: Any, tmp_path: Path) -> None:
    frame, y = table()
    frame = frame.drop(columns="day")
    model = tabular_pipeline(clone(estimator)).fit(frame, y)
    frame.loc[5, "city"] = "Atlantis"  # never seen
    expected = model.predict_proba(frame)
    columns = json.loads(to_json(model))["table"]
    assert columns["names"] == list(frame.columns)
    X = np.column_stack(
        [
            frame[name]
            if known is None
            else [known.index(cell) if cell in known else -1 for cell in frame[name].fillna("")]
            for name, known in zip(columns["names"], columns["categories"], strict=True)
        ]
    ).astype(float)
    assert np.abs(PortableModel.of(model).predict_proba(X) - expected).max() < 1e-9
    assert np.abs(run_c(to_c(model), X, tmp_path)[1] - expected).max() < 1e-9
    assert np.abs(run_json(to_json(model), X) - expected).max() < 1e-6


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_spellings_of_a_category_are_the_same_in_exports() -> None:
    cells = ["Night", "night", "NIGHT", "day", "x", "X"] * 40
    frame = pd.DataFrame({"shift": cells, "z": np.arange(len(cells)) % 7})
    y = np.where(frame["shift"].isin(["day", "X"]), "b", "a")  # x and X stay different categories
    model = tabular_pipeline(LogisticRegression()).fit(frame, y)
    assert model["read"].columns_["shift"].categories == ("Night", "X", "day", "x")
    new = frame[:7].assign(shift=["night", "NIGHT", "Night", "DAY", "X", "x", "dusk"])
    expected = model.predict_proba(new)
    given = {"shift": new[["shift"]].to_numpy(object), "z": new[["z"]].to_numpy(float)}
    assert np.abs(run_onnx(to_onnx(model), given)[1] - expected).max() < 1e-9
    assert np.abs(run_json(to_json(model), new.to_numpy(object)) - expected).max() < 1e-6


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_errors_name_columns_that_cannot_be_exported() -> None:
    frame, y = table()
    rng = np.random.default_rng(1)
    frame["note"] = ["".join(rng.choice(list("abcdefgh "), 12)) + str(i % 90) for i in range(N)]
    model = tabular_pipeline(LogisticRegression(), categorical=["note"]).fit(frame, y)
    with pytest.raises(
        ValueError, match=r"These columns of the model cannot be exported to ONNX: 'note' \(free text\)"
    ):
        to_onnx(model)
    for export in (to_c, to_json):
        with pytest.raises(ValueError, match=r"'day' \(date\), 'note' \(free text\).*--drop day note"):
            export(model)


# -- the command line -------------------------------------------------------------------------


@pytest.mark.slow
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame, y = table()
    frame[["skewed", "tied"]].assign(outcome=y).to_csv(tmp_path / "data.csv", index=False)
    model = str(tmp_path / "model.sklr")
    assert (
        main(["fit", str(tmp_path / "data.csv"), "--target", "outcome", "--model", "sparse", "-o", model])
        == 0
    )
    assert main(["predict", model, str(tmp_path / "data.csv"), "-o", str(tmp_path / "p.csv")]) == 0
    expected = pd.read_csv(tmp_path / "p.csv")[["p_leaves", "p_stays"]].to_numpy()
    X = frame[["skewed", "tied"]].to_numpy()

    for name, more in (
        ("model.onnx", []),
        ("9 lives.h", []),
        ("model.json", []),
        ("single.onnx", ["--single"]),
    ):
        assert main(["export", model, "-o", str(tmp_path / name), *more]) == 0
        assert f"Model written to {tmp_path / name}" in capsys.readouterr().out
    import onnx

    graph = onnx.load(tmp_path / "model.onnx")
    columns = {"skewed": X[:, :1], "tied": X[:, 1:]}
    assert np.abs(run_onnx(graph, columns)[1] - expected).max() < 1e-6
    columns = {name: column.astype(np.float32) for name, column in columns.items()}
    assert np.abs(run_onnx(onnx.load(tmp_path / "single.onnx"), columns)[1] - expected).max() < 1e-4
    text = (tmp_path / "model.json").read_text("utf-8")
    assert json.loads(text)["classes"] == ["leaves", "stays"]
    assert np.abs(run_json(text, X) - expected).max() < 1e-6
    assert "lives_predict_proba" in (tmp_path / "9 lives.h").read_text("utf-8")
    assert main(["export", model, "-o", str(tmp_path / "model.h"), "--name", "model"]) == 0
    assert np.abs(run_c((tmp_path / "model.h").read_text("utf-8"), X, tmp_path)[1] - expected).max() < 1e-6

    wrong = {
        ("model.pmml",): "expected a name ending in .onnx, .h or .json",
        ("other.json", "--single"): "--single is not available for JSON",
        ("other.onnx", "--name", "x"): "--name is only available for a C header",
        ("other.h", "--name", "9"): "name must be a C identifier",
        ("model.json",): "exists; use --force to overwrite it",
    }
    for (name, *more), message in wrong.items():
        capsys.readouterr()
        assert main(["export", model, "-o", str(tmp_path / name), *more]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "other.json").exists()
