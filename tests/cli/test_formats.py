"""The command line on files of every format."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_iris, make_moons
from sklearn.metrics import log_loss

import sparseklr
from sparseklr import SKLR, SKLRCV, SparseKLR, load, save
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR
from sparseklr.cli import COMMANDS, main
from sparseklr.cli.model import Model


def mixed_frame() -> pd.DataFrame:
    """Numbers, text and booleans with missing values; only the first two columns are informative."""
    rng = np.random.default_rng(0)
    X, y = make_moons(240, noise=0.25, random_state=0)
    frame = pd.DataFrame(
        {
            "age": X[:, 0],
            "income": X[:, 1],
            "city": rng.choice(["Rome", "Paris", "Oslo"], 240),
            "member": rng.random(240) < 0.5,
            "weight": rng.integers(1, 4, 240),
            "churned": np.where(y == 1, "yes", "no"),
        }
    )
    frame.loc[::9, "income"] = np.nan
    frame.loc[::11, "city"] = None
    return frame


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write training and test files, and fit a model."""
    home = tmp_path_factory.mktemp("cli")
    frame = mixed_frame()
    frame[:160].to_csv(home / "train.csv", index=False)
    frame[160:].to_csv(home / "test.csv", index=False)
    frame[160:].to_parquet(home / "test.parquet")
    argv = ["fit", str(home / "train.csv"), "--target", "churned", "--model", "sparse", "--drop", "weight"]
    assert main([*argv, "-o", str(home / "model.sklr")]) == 0
    return home


def run_json(capsys: pytest.CaptureFixture[str], *argv: Any) -> dict[str, Any]:
    """Return the JSON output of a command, which must print nothing else."""
    capsys.readouterr()
    assert main([*map(str, argv), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_fit_stores_what_prediction_needs(home: Path) -> None:
    model_file = Model.load(str(home / "model.sklr"))
    pipeline, metadata = model_file.fitted, model_file.metadata
    kinds = {"age": "number", "income": "number", "city": "text", "member": "number"}
    assert metadata["training"]["columns"] == kinds
    assert metadata["target"] == "churned"
    assert pipeline.classes_.tolist() == ["no", "yes"]
    assert metadata["versions"]["sparseklr"] == sparseklr.__version__
    assert metadata["created"].startswith("20")
    names = pipeline[:-1].get_feature_names_out().tolist()
    assert names == [
        *("age", "income", "member", "income_missing"),
        *("city_Oslo", "city_Paris", "city_Rome", "city_None"),
    ]
    assert pipeline[:-1].transform(mixed_frame()).shape == (240, len(names))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_predict(home: Path, tmp_path: Path, form: str) -> None:
    """Both formats give the same result as the pipeline."""
    output = tmp_path / f"predictions.{form}"
    assert main(["predict", str(home / "model.sklr"), str(home / f"test.{form}"), "-o", str(output)]) == 0
    found = pd.read_csv(output, float_precision="round_trip") if form == "csv" else pd.read_parquet(output)
    assert list(found.columns) == ["predicted", "p_no", "p_yes"]
    frame = mixed_frame()[160:]
    pipeline = Model.load(str(home / "model.sklr")).fitted
    np.testing.assert_array_equal(found[["p_no", "p_yes"]], pipeline.predict_proba(frame))
    assert (found["predicted"] == np.where(found["p_yes"] > 0.5, "yes", "no")).all()
    assert (found["predicted"].to_numpy() == frame["churned"].to_numpy()).mean() > 0.8


def test_predict_to_stdout_without_target(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = mixed_frame()[160:].drop(columns=["churned", "weight"])
    frame["city"] = "Lima"  # unknown to the model
    frame["age"] = np.nan  # never missing in training
    frame.to_csv(tmp_path / "new.csv.gz", index=False)
    assert main(["predict", str(home / "model.sklr"), str(tmp_path / "new.csv.gz")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "predicted,p_no,p_yes"
    assert len(lines) == 81


@pytest.mark.slow
def test_evaluate(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "evaluate", home / "model.sklr", home / "test.csv", "--target", "churned")
    assert main(["predict", str(home / "model.sklr"), str(home / "test.csv")]) == 0
    frame = mixed_frame()[160:]
    prob = np.array([line.split(",")[1:] for line in capsys.readouterr().out.splitlines()[1:]], dtype=float)
    assert found["log_loss"] == pytest.approx(log_loss(frame["churned"], prob))
    assert np.sum(found["confusion"]) == 80
    assert found["accuracy"] == np.trace(found["confusion"]) / 80
    assert found["roc_auc"] > 0.85
    assert main(["evaluate", str(home / "model.sklr"), str(home / "test.parquet")]) == 0
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("Accuracy", "ROC AUC", "Log-loss", "Brier", "ECE", "Points"))


def test_evaluate_with_weights_and_one_class(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = mixed_frame()[160:]
    frame[frame["churned"] == "no"].to_csv(tmp_path / "no.csv", index=False)
    argv = ["evaluate", home / "model.sklr", tmp_path / "no.csv", "--sample-weight-column", "weight"]
    found = run_json(capsys, *argv)
    assert found["roc_auc"] is None
    assert np.sum(found["confusion"]) == frame["weight"][frame["churned"] == "no"].sum()


@pytest.mark.slow
def test_weights_equal_repeated_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = mixed_frame()[:160].drop(columns=["income", "city"])
    frame.to_csv(tmp_path / "weighted.csv", index=False)
    repeated = frame.loc[frame.index.repeat(frame["weight"])].drop(columns="weight")
    repeated.to_csv(tmp_path / "repeated.csv", index=False)
    losses = []
    for name, more in (("weighted", ["--sample-weight-column", "weight"]), ("repeated", [])):
        model = str(tmp_path / f"{name}.sklr")
        data = str(tmp_path / f"{name}.csv")
        assert main(["fit", data, "--target", "churned", "--model", "sparse", "-o", model, *more]) == 0
        losses.append(run_json(capsys, "evaluate", model, tmp_path / "repeated.csv")["log_loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)  # the same model to rounding


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".html", ".md", ".json"])
def test_report(home: Path, tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"report{suffix}"
    assert main(["report", str(home / "model.sklr"), str(home / "test.csv"), "-o", str(output)]) == 0
    assert "SparseKLR" in output.read_text()


@pytest.mark.slow
def test_fit_options_and_held_out_rows(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [
        "fit",
        home / "train.csv",
        "--target",
        "churned",
        "--model",
        "sparse",
        "--test-size",
        "0.25",
        "--C",
        "100",
    ]
    more = ["--box", "5", "--gamma", "1", "--class-weight", "balanced"]
    found = run_json(capsys, *argv, *more, "-o", tmp_path / "m.sklr")
    assert found["n_rows"] == 120
    assert found["data"]["n_rows"] == 160
    assert {"n_features", "n_points", "points_fraction"} < set(found)
    assert found["test"]["n_rows"] == 40
    assert found["converged"]
    model = Model.load(str(tmp_path / "m.sklr")).estimator
    asked = {"C": 100, "box": 5, "gamma": 1, "class_weight": "balanced"}
    assert {name: model.get_params()[name] for name in asked} == asked
    assert main([*map(str, argv), "-o", str(tmp_path / "again.sklr")]) == 0
    assert "On the test rows" in capsys.readouterr().out


@pytest.mark.slow
def test_search_of_the_kernel(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "fit",
        home / "train.csv",
        "--target",
        "churned",
        "--model",
        "sparse",
        "--kernel",
        "auto",
        "--gamma",
        "auto",
    ]
    search = run_json(capsys, *argv, "-o", tmp_path / "m.sklr")["search"]
    assert {"rbf", "laplacian"} == set(search["kernel"])
    model = Model.load(str(tmp_path / "m.sklr"))
    assert model.estimator.gamma_ in search["gamma"]
    assert model.metadata["training"]["search"] == search
    assert main([*map(str, argv), "--force", "-o", str(tmp_path / "m.sklr")]) == 0
    assert f"{len(search['gamma'])} candidates" in capsys.readouterr().out


@pytest.mark.slow
def test_three_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    iris = load_iris(as_frame=True)
    iris.frame.to_csv(tmp_path / "iris.tsv", sep="\t", index=False)
    model = str(tmp_path / "m.sklr")
    assert (
        main(["fit", str(tmp_path / "iris.tsv"), "--target", "target", "--model", "sparse", "-o", model]) == 0
    )
    found = run_json(capsys, "evaluate", model, tmp_path / "iris.tsv")
    assert main(["explain", model, str(tmp_path / "iris.tsv"), "--row", "1"]) == 0
    assert "output of 0" in capsys.readouterr().out  # only two classes have log-odds
    assert found["classes"] == [0, 1, 2]
    assert found["roc_auc"] > 0.98


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight(tmp_path: Path, capsys: pytest.CaptureFixture[str], zero_based: bool) -> None:
    """Rows stay sparse, and columns keep their positions if a file lacks the first or last column."""
    X, y = make_moons(200, noise=0.2, random_state=0)
    X[X[:, 0] < 0, 0] = 0
    dump_svmlight_file(X[:150], 2 * y[:150] - 1, str(tmp_path / "train.svm"), zero_based=zero_based)
    model = str(tmp_path / "m.sklr")
    assert main(["fit", str(tmp_path / "train.svm"), "-o", model]) == 0
    model_file = Model.load(model)
    pipeline, metadata = model_file.fitted, model_file.metadata
    assert metadata["svmlight"] == {"n_features": 2, "one_based": not zero_based}
    assert sparse.issparse(pipeline[-1].support_vectors_)
    for column in (0, 1):
        part = X[150:].copy()
        part[:, column] = 0
        dump_svmlight_file(part, np.zeros(50), str(tmp_path / "new.txt"), zero_based=zero_based)
        capsys.readouterr()
        assert main(["predict", model, str(tmp_path / "new.txt"), "--format", "svmlight"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "predicted,p_-1,p_1"
        prob = np.array([line.split(",")[1:] for line in lines[1:]], dtype=float)
        np.testing.assert_allclose(prob, pipeline.predict_proba(sparse.csr_matrix(part)), rtol=1e-9)
    found = run_json(capsys, "evaluate", model, tmp_path / "train.svm")
    assert found["accuracy"] > 0.9


def test_text_stays_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Values that look like numbers or booleans only in the new file are read as in training."""
    values = np.array(["true", "false", "01", "maybe"] * 30)
    frame = pd.DataFrame({"answer": values, "kind": np.where(np.isin(values, ["true", "01"]), "1", "x")})
    frame.to_csv(tmp_path / "train.csv", index=False)
    model = str(tmp_path / "m.sklr")
    assert (
        main(["fit", str(tmp_path / "train.csv"), "--target", "kind", "--model", "sparse", "-o", model]) == 0
    )
    for value in ("true", "01"):
        frame[values == value].to_csv(tmp_path / "new.csv", index=False)
        assert run_json(capsys, "evaluate", model, tmp_path / "new.csv")["accuracy"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        SparseKLR(),
        SparseKLR(kernel="auto", gamma="auto"),
        SKLR(nu=100.0),
        SKLR(calibration="link"),
        SKLR(calibration=None),
        SKLRCV(cv=2),
        ImportVectorMachine(),
        HalfKLR(),
        ThresholdedKLR(n_points=10),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_round_trip(model: Any, form: Any, tmp_path: Path) -> None:
    """Probabilities are bit-equal, for two classes and three."""
    X, y = make_moons(120, noise=0.3, random_state=0)
    for labels in (y, (y + (X[:, 0] > 0.5)).astype(str)):
        model.fit(form(X), labels)
        save(model, tmp_path / "m.sklr")
        back = load(tmp_path / "m.sklr")
        np.testing.assert_array_equal(back.predict_proba(form(X)), model.predict_proba(form(X)))


def test_help_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit) as stop:
            main([command, "--help"])
        assert stop.value.code == 0
        assert (
            len(re.findall(rf"sparseklr {command}\b", capsys.readouterr().out)) >= 3
        )  # the usage and two examples
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"sparseklr {sparseklr.__version__}\n"


def test_parsing_loads_nothing_heavy() -> None:
    heavy = "{'sklearn', 'pandas', 'numpy', 'rich', 'pyarrow'}"
    code = (
        f"import sys; from sparseklr.cli import make_parser; make_parser(); print({heavy} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_as_a_process(home: Path) -> None:
    """Standard output contains only the result, and a program that stops reading it early causes no error."""
    argv = [sys.executable, "-m", "sparseklr", "predict", home / "model.sklr", home / "test.csv"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 81
    assert done.stderr == ""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(argv, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
