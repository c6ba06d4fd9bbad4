"""The probability report: its numbers and its formats."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sparseklr import SKLR, SparseKLR
from sparseklr.inspection.metrics import expected_calibration_error, smooth_calibration_error
from sparseklr.inspection.reliability import ProbabilityReport, kept_points, probability_report

X, y = make_moons(500, noise=0.3, random_state=0)
train, test = slice(0, 200), slice(200, 500)


@pytest.fixture(scope="module")
def model() -> SparseKLR:
    return SparseKLR().fit(X[train], y[train])


@pytest.fixture(scope="module")
def report(model: SparseKLR) -> ProbabilityReport:
    return probability_report(model, X[test], y[test])


def test_summary_agrees_with_the_metrics(model: SparseKLR, report: ProbabilityReport) -> None:
    p = model.predict_proba(X[test])[:, 1]
    assert report.summary == {
        "n_rows": 300,
        "n_classes": 2,
        "prevalence": pytest.approx(y[test].mean()),
        "accuracy": pytest.approx(model.score(X[test], y[test])),
        "log_loss": pytest.approx(log_loss(y[test], p)),
        "brier": pytest.approx(brier_score_loss(y[test], p)),
        "ece": pytest.approx(expected_calibration_error(y[test], p)),
        "smooth_ece": pytest.approx(smooth_calibration_error(y[test], p)),
        "n_points": len(model.support_),
        "points_fraction": pytest.approx(len(model.support_) / 200),
    }


def test_distinguishes_raw_from_calibrated_probabilities() -> None:
    """Both models have the same kernel of unscaled features."""
    calibrated = SparseKLR(kernel="rbf", scale=None, relevance="shared").fit(X[train], y[train])
    report = probability_report(calibrated, X[test], y[test])
    raw = probability_report(SKLR(calibration=None).fit(X[train], y[train]), X[test], y[test])
    for measure in ("log_loss", "brier", "ece"):
        assert report.summary[measure] < raw.summary[measure]
    assert report.display.covered.mean() > raw.display.covered.mean()


def test_more_classes() -> None:
    X, codes = load_iris(return_X_y=True)
    y = load_iris().target_names[codes]
    model = LogisticRegression(max_iter=1000).fit(X, y)
    summary = probability_report(model, X, y).summary
    p = model.predict_proba(X)
    assert summary["n_classes"] == 3
    assert summary["prevalence"] == pytest.approx(1 / 3)
    assert summary["log_loss"] == pytest.approx(log_loss(y, p))
    assert summary["brier"] == pytest.approx(np.mean(np.sum((p - np.eye(3)[codes]) ** 2, axis=1)))
    assert summary["ece"] == expected_calibration_error(y, p)
    assert summary["n_points"] is summary["points_fraction"] is None
    part = probability_report(model, X[:60], y[:60])  # a class that does not occur
    assert part.summary["n_classes"] == 3


def test_weights_are_repetitions(model: SparseKLR) -> None:
    weight = np.random.default_rng(0).integers(0, 4, size=300)
    weighted = probability_report(model, X[test], y[test], sample_weight=weight).summary
    repeated = probability_report(
        model, np.repeat(X[test], weight, axis=0), np.repeat(y[test], weight)
    ).summary
    assert {**weighted, "n_rows": weight.sum()} == pytest.approx(repeated)


def test_finds_the_kernel_model_inside_other_estimators() -> None:
    search = GridSearchCV(make_pipeline(StandardScaler(), SparseKLR()), {"sparseklr__C": [100, 1e4]}, cv=2)
    search.fit(X[train], y[train])
    report = probability_report(search, X[test], y[test])
    assert report.summary["n_points"] == len(search.best_estimator_[-1].support_)
    assert report.display.estimator_name == "SparseKLR"
    svc = SVC().fit(X[train], y[train])
    assert kept_points(svc) == (len(svc.support_), len(svc.support_) / 200)


def test_json_and_markdown(report: ProbabilityReport) -> None:
    content = json.loads(report.to_json())
    assert content["estimator"] == "SparseKLR"
    assert content["summary"] == report.summary
    assert {len(values) for values in content["curve"].values()} == {10}
    assert sum(content["curve"]["weight"]) == 300
    lines = report.to_markdown().splitlines()
    assert lines[1] == "|---|---:|"
    assert f"| Log-loss | {report.summary['log_loss']:.4f} |" in lines
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in lines)


def test_figure_draws_the_same_curve(report: ProbabilityReport) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    figure = report.figure()
    assert figure is report.display.figure_
    np.testing.assert_array_equal(report.display.line_.get_ydata(), report.display.prob_true)
    plt.close(figure)


def test_notebooks_show_summary_and_diagram(
    report: ProbabilityReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    html = report._repr_html_()
    assert f"<td>{report.summary['log_loss']:.4f}</td>" in html
    assert html.count("<svg") == html.count("</svg>") == 1
    assert not plt.get_fignums()  # the notebook would show it a second time
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert report._repr_html_() == html[: html.index("<svg")]


def test_labels_are_escaped() -> None:
    names = np.array(["!", "<script>alert('|')</script> $x"])[y]
    report = probability_report(LogisticRegression().fit(X, names), X, names)
    assert "<script" not in report._repr_html_()
    assert r"\|" in report.to_markdown()


def test_errors_name_the_argument(model: SparseKLR) -> None:
    with pytest.raises(TypeError, match="estimator must have predict_proba; SVC"):
        probability_report(SVC().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        probability_report(SparseKLR(), X, y)
    with pytest.raises(TypeError, match="estimator must predict a single target"):
        probability_report(MultiOutputClassifier(LogisticRegression()).fit(X, np.c_[y, y]), X, y)
    with pytest.raises(ValueError, match="X has 500 rows, y has 3 labels"):
        probability_report(model, X, y[:3])
    with pytest.raises(ValueError, match=r"y has the labels \[2\], which are not classes of the estimator"):
        probability_report(model, X, y + 1)
    with pytest.raises(ValueError, match="sample_weight"):
        probability_report(model, X, y, sample_weight=-np.ones(500))
    with pytest.raises(ValueError, match="sample_weight must contain a positive value"):
        probability_report(model, X, y, sample_weight=np.zeros(500))
