"""CompactKLR in the command line, model files, pipelines, reports and metadata routing."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_iris, make_moons
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import CompactKLR, load, probability_report, save, tabular_pipeline
from sparseklr.cli import main

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of numbers and text with missing values, and a compact model of it."""
    home = tmp_path_factory.mktemp("compact")
    rng = np.random.default_rng(0)
    X, y = make_moons(300, noise=0.25, random_state=0)
    frame = pd.DataFrame({"age": X[:, 0], "income": X[:, 1], "noise": rng.normal(size=300)})
    frame["city"] = rng.choice(["Rome", "Oslo"], 300)
    frame["weight"] = rng.integers(1, 4, 300)
    frame["churned"] = np.where(y == 1, "yes", "no")
    frame.loc[::9, "income"] = np.nan
    frame[:200].to_csv(home / "train.csv", index=False)
    frame[200:].to_csv(home / "test.csv", index=False)
    argv = ["fit", home / "train.csv", "--target", "churned", "--drop", "weight", "--model", "compact"]
    assert main([*map(str, argv), "-o", str(home / "model.sklr")]) == 0
    return home


def run_json(capsys: pytest.CaptureFixture[str], *argv: Any) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*map(str, argv), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_predict_evaluate_and_report(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = load(home / "model.sklr")
    assert isinstance(model[-1], CompactKLR)
    assert (
        main(["predict", str(home / "model.sklr"), str(home / "test.csv"), "-o", str(tmp_path / "p.csv")])
        == 0
    )
    test = pd.read_csv(home / "test.csv", float_precision="round_trip")
    found = pd.read_csv(tmp_path / "p.csv", float_precision="round_trip")
    np.testing.assert_array_equal(found[["p_no", "p_yes"]], model.predict_proba(test))
    evaluation = run_json(capsys, "evaluate", home / "model.sklr", home / "test.csv")
    assert evaluation["n_points"] == model[-1].n_points_
    assert evaluation["points_fraction"] is None  # the points are no rows
    assert evaluation["accuracy"] > 0.85
    report = tmp_path / "report.html"
    assert main(["report", str(home / "model.sklr"), str(home / "test.csv"), "-o", str(report)]) == 0
    assert "CompactKLR" in report.read_text()


def test_explain(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The points are not rows of the file, so only their contributions to the log-odds are shown."""
    argv = ["explain", home / "model.sklr", home / "test.csv", "--row", 2]
    (found,) = run_json(capsys, *argv)["rows"]
    total = found["intercept"] + found["others"]["for"] + found["others"]["against"]
    assert found["log_odds"] == pytest.approx(total + sum(point["contribution"] for point in found["points"]))
    assert all(point["row"] is None for point in found["points"])
    assert main([*map(str, argv)]) == 0
    assert "point 1" in capsys.readouterr().out


def test_options_reach_the_model(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "fit",
        home / "train.csv",
        "--target",
        "churned",
        "--model",
        "compact",
        "--class-weight",
        "balanced",
    ]
    argv += ["--n-points", "4", "--C", "30", "--relevance", "shared", "--seed", "3", "--test-size", "0.3"]
    found = run_json(capsys, *argv, "-o", tmp_path / "m.sklr")
    asked = {"n_points": 4, "C": 30, "relevance": "shared", "random_state": 3, "class_weight": "balanced"}
    parameters = load(tmp_path / "m.sklr")[-1].get_params()
    assert {name: parameters[name] for name in asked} == asked
    assert found["estimator"] == "CompactKLR"
    assert found["n_points"] == 4
    assert found["n_features_used"] == found["n_features"]
    assert "validation_log_loss" not in found  # nothing had to be chosen
    assert found["test"]["n_rows"] == 60


@pytest.mark.slow
def test_useless_columns_are_dropped_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = make_moons(600, noise=0.2, random_state=0)
    frame = pd.DataFrame(np.hstack([X, np.random.default_rng(0).normal(size=(600, 8))])).add_prefix("x")
    frame.assign(churned=y).to_csv(tmp_path / "train.csv", index=False)
    argv = ["fit", tmp_path / "train.csv", "--target", "churned", "--model", "compact"]
    assert main([*map(str, argv), "--relevance", "sparse", "-o", str(tmp_path / "m.sklr")]) == 0
    model = load(tmp_path / "m.sklr")[-1]
    used = int(model.get_support().sum())
    assert 0 < used < model.n_features_in_
    shown = capsys.readouterr().out
    assert "Features used" in shown
    assert "Validation log-loss" in shown
    assert "duality" not in shown


@pytest.mark.parametrize(
    ("model", "option", "value"),
    [("compact", "--box", "1"), ("compact", "--kernel", "rbf"), ("compact", "--degree", "2"),
     ("sparse", "--n-points", "3"), ("sparse", "--relevance", "sparse")],
)  # fmt: skip
def test_options_of_the_other_model_raise(home, tmp_path, capsys, model, option, value) -> None:
    output = tmp_path / "m.sklr"
    argv = ["fit", str(home / "train.csv"), "--target", "churned", "--model", model, option, value]
    assert main([*argv, "-o", str(output)]) == 2
    assert f"{option} is not an option of --model {model}" in capsys.readouterr().err
    assert not output.exists()


def test_weights_equal_repeated_rows(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.read_csv(home / "train.csv")[["age", "noise", "churned"]]
    frame["weight"] = np.where(frame["churned"] == "yes", 5, 1)
    frame.to_csv(tmp_path / "weighted.csv", index=False)
    repeated = frame.loc[frame.index.repeat(frame["weight"])].drop(columns="weight")
    repeated.to_csv(tmp_path / "repeated.csv", index=False)
    losses = []
    for data, more in (
        ("weighted", ["--sample-weight-column", "weight"]),
        ("repeated", []),
        ("weighted", ["--drop", "weight"]),
    ):
        argv = ["fit", str(tmp_path / f"{data}.csv"), "--target", "churned", "--model", "compact", *more]
        argv += ["--n-points", "3", "--C", "10", "--force", "-o", str(tmp_path / "m.sklr")]
        assert main(argv) == 0
        losses.append(
            run_json(capsys, "evaluate", tmp_path / "m.sklr", tmp_path / "repeated.csv")["log_loss"]
        )
    assert losses[0] == pytest.approx(losses[1], rel=0.01)  # the table's own scaling rounds differently
    assert losses[2] > 1.1 * losses[1]


def test_svmlight(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = make_moons(200, noise=0.2, random_state=0)
    dump_svmlight_file(X, y, str(tmp_path / "train.svm"))
    model = tmp_path / "m.sklr"
    assert (
        main(["fit", str(tmp_path / "train.svm"), "--model", "compact", "--n-points", "4", "-o", str(model)])
        == 0
    )
    assert run_json(capsys, "evaluate", model, tmp_path / "train.svm")["accuracy"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_files_and_pickles_preserve_every_bit(tmp_path: Path, form: Any, n_classes: int) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = form(X[y < n_classes]), y[y < n_classes]
    model = CompactKLR(relevance="sparse").fit(X, y)
    save(model, tmp_path / "m.sklr")
    for back in (load(tmp_path / "m.sklr"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(back.points_, model.points_)
        np.testing.assert_array_equal(back.get_support(), model.get_support())
        assert back.search_results_.keys() == model.search_results_.keys()


def test_pipeline_of_a_table() -> None:
    """CompactKLR scales its features itself: the model is the same, up to the tolerance of the solver."""
    iris = load_iris(as_frame=True)
    model = tabular_pipeline(CompactKLR(3, C=10)).fit(iris.data, iris.target)
    alone = CompactKLR(3, C=10).fit(iris.data, iris.target)
    np.testing.assert_allclose(model.predict_proba(iris.data), alone.predict_proba(iris.data), atol=2e-3)
    assert model.score(iris.data, iris.target) > 0.9


def test_columns_are_matched_by_name() -> None:
    iris = load_iris(as_frame=True)
    model = CompactKLR(3, C=10).fit(iris.data, iris.target)
    assert model.feature_names_in_.tolist() == iris.data.columns.tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(iris.data[iris.data.columns[::-1]])


def test_probability_report_counts_the_points() -> None:
    X, y = make_moons(300, noise=0.3, random_state=0)
    model = CompactKLR(4, C=10)
    report = probability_report(
        make_pipeline(StandardScaler(), model).fit(X[:200], y[:200]), X[200:], y[200:]
    )
    assert report.summary["n_points"] == 4
    assert report.summary["points_fraction"] is None
    assert report.display.estimator_name == "CompactKLR"


def test_routed_weights_reach_the_fit() -> None:
    X, y = make_moons(120, noise=0.3, random_state=0)
    weight = np.random.default_rng(0).integers(1, 4, 120).astype(float)
    splits = [(np.arange(0, 120, 2), np.arange(1, 120, 2))]
    with sklearn.config_context(enable_metadata_routing=True):
        model = CompactKLR(3, C=10).set_fit_request(sample_weight=True)
        routed = cross_validate(
            make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model),
            X,
            y,
            cv=splits,
            scoring=get_scorer("accuracy").set_score_request(sample_weight=True),
            params={"sample_weight": weight},
            return_estimator=True,
        )["estimator"][0][-1]
    train = splits[0][0]
    scaled = StandardScaler().fit_transform(X[train])
    direct = CompactKLR(3, C=10).fit(scaled, y[train], sample_weight=weight[train])
    np.testing.assert_array_equal(routed.points_, direct.points_)
    assert not np.array_equal(routed.points_, CompactKLR(3, C=10).fit(scaled, y[train]).points_)
