"""``sparseklr fit`` without ``--model``: four models on the same validation rows, and the chosen one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.shop import run, shop

from sparseklr import load
from sparseklr.cli.compare import Candidate, Comparison
from sparseklr.samples import weighted_mean


def comparison(losses: dict[str, np.ndarray]) -> Comparison:
    """Return a comparison of candidates with given losses, in the order of their size."""
    n = len(next(iter(losses.values())))
    candidates = [Candidate(name, np.zeros((n, 2)), loss, None, 0.0) for name, loss in losses.items()]
    half = np.arange(n) % 2 == 0
    return Comparison(candidates, np.zeros(n, dtype=int), np.ones(n), half, n, n)


def test_ties_go_to_the_smallest_model() -> None:
    rng = np.random.default_rng(0)
    base = rng.exponential(1, 1000)
    noise = rng.normal(0, 0.1, 1000)
    tied = comparison({"fractions": base + 0.3, "linear": base + noise, "sparse": base})
    assert tied.chosen().model == "linear"
    clear = comparison({"fractions": base + 0.3, "linear": base + 0.02 + noise, "sparse": base})
    assert clear.chosen().model == "sparse"
    mean, error = weighted_mean(base, np.ones(1000))
    assert mean == pytest.approx(base.mean())
    assert error == pytest.approx(base.std() / np.sqrt(1000))


def test_rows_that_choose_do_not_evaluate() -> None:
    """If models differ only by noise, the lowest loss is optimistic, but the expected loss is not."""
    rng = np.random.default_rng(0)
    lowest, expected = [], []
    for _ in range(200):
        found = comparison({str(k): rng.normal(1, 1, 100) for k in range(20)})
        lowest.append(min(one.losses.mean() for one in found.candidates))
        expected.append(found.expected()[0])
    assert np.mean(lowest) < 0.85
    assert abs(np.mean(expected) - 1) < 4 * np.std(expected) / np.sqrt(200)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The classes of linear.csv depend on a sum, of ring.csv on a radius, and of noise.csv on nothing."""
    home = tmp_path_factory.mktemp("compare")
    rng, table = np.random.default_rng(0), shop(300)
    log_odds = 2 * (table["x"] - table["z"]) + rng.logistic(size=300)
    table.assign(y=np.where(log_odds > 0, "yes", "no")).to_csv(home / "linear.csv", index=False)
    X = rng.normal(size=(400, 2)).round(3)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.assign(y=np.where((X**2).sum(axis=1) > 1.4, "out", "in")).to_csv(home / "ring.csv", index=False)
    frame.assign(y=rng.choice(["out", "in"], 400)).to_csv(home / "noise.csv", index=False)
    return home


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear", {"LogisticRegression"}),
        ("ring", {"SparseKLR", "CompactKLR"}),
        ("noise", {"DummyClassifier"}),
    ],
)
def test_the_best_model_is_stored(
    home: Path, name: str, expected: set[str], tmp_path: Path, capsys: Any
) -> None:
    data, model = home / f"{name}.csv", tmp_path / "m.sklr"
    run("fit", data, "--target", "y", "-o", model)
    shown = capsys.readouterr()
    assert "one standard error of the difference" in shown.out
    for one in ("class fractions", "logistic regression", "CompactKLR", "SparseKLR", "(chosen)"):
        assert one in shown.out
    assert "columns used" in shown.err
    assert shown.out.index("Models compared on") < shown.out.index("Expected log-loss")
    assert type(load(model)[-1]).__name__ in expected
    run("fit", data, "--target", "y", "-o", model, "--force", "--json")
    found = json.loads(capsys.readouterr().out)
    assert [one["chosen"] for one in found["comparison"]["candidates"]].count(True) == 1
    assert found["estimator"] in expected
    run("show", model)
    assert "Expected log-loss" in capsys.readouterr().out
    run("predict", model, data, "--set", "0.9")
    sets = [line.rpartition(",")[2].split("|") for line in capsys.readouterr().out.splitlines()[1:]]
    inside = [label in s for label, s in zip(pd.read_csv(data)["y"].astype(str), sets, strict=True)]
    assert np.mean(inside) > 0.85
    run("explain", model, data, "--row", "3", code=2 if name == "noise" else 0)
    run("evaluate", model, data)
    run("report", model, data, "-o", tmp_path / "r.html")
    run("export", model, "-o", tmp_path / "m.onnx")


def test_columns_of_a_logistic_regression(home: Path, tmp_path: Path, capsys: Any) -> None:
    """The contributions sum to the difference between the log-odds of the row and the mean log-odds."""
    model = tmp_path / "m.sklr"
    run("fit", home / "linear.csv", "--target", "y", "--model", "linear", "-o", model)
    capsys.readouterr()
    run("explain", model, home / "linear.csv", "--row", "4", "--class", "no", "--json")
    found = json.loads(capsys.readouterr().out)["rows"][0]
    columns = found["columns"]
    total = columns["base"] + sum(one["contribution"] for one in columns["contributions"])
    assert total == pytest.approx(found["log_odds"])
    assert found["probability"] == pytest.approx(1 / (1 + np.exp(-total)))
    run("predict", model, home / "linear.csv", "--set", "0.9", code=2)
    assert "fit it with --model sparse or --model compact" in capsys.readouterr().err


def test_options_of_a_model_choose_it(home: Path, tmp_path: Path, capsys: Any) -> None:
    fit = ("fit", home / "ring.csv", "--target", "y", "-o", tmp_path / "m.sklr", "--json", "--force")
    for options, expected in {
        ("--n-points", "3", "--C", "10"): "CompactKLR",
        ("--C", "10"): "SparseKLR",
    }.items():
        run(*fit, *options)
        found = json.loads(capsys.readouterr().out)
        assert (found["estimator"], found["comparison"]) == (expected, None)
    run(*fit, "--model", "linear", "--C", "10", code=2)
    assert "--C is not an option of --model linear" in capsys.readouterr().err
