"""The probability report: its numbers, its formats, and its page in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

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

from sparseklr import SparseKLR
from sparseklr.inspection.metrics import expected_calibration_error
from sparseklr.inspection.probability_report import ProbabilityReport, kept_points, probability_report

X, y = make_moons(500, noise=0.3, random_state=0)
train, test = slice(0, 200), slice(200, 500)


@pytest.fixture(scope="module")
def model() -> SparseKLR:
    return SparseKLR().fit(X[train], y[train])


@pytest.fixture(scope="module")
def report(model: SparseKLR) -> ProbabilityReport:
    return probability_report(model, X[test], y[test])


def test_numbers_are_those_of_the_metrics(model: SparseKLR, report: ProbabilityReport) -> None:
    p = model.predict_proba(X[test])[:, 1]
    assert report.summary == {
        "n_rows": 300,
        "n_classes": 2,
        "prevalence": pytest.approx(y[test].mean()),
        "accuracy": pytest.approx(model.score(X[test], y[test])),
        "log_loss": pytest.approx(log_loss(y[test], p)),
        "brier": pytest.approx(brier_score_loss(y[test], p)),
        "ece": pytest.approx(expected_calibration_error(y[test], p)),
        "n_points": len(model.support_),
        "points_share": pytest.approx(len(model.support_) / 200),
    }


def test_tells_raw_probabilities_from_calibrated_ones(report: ProbabilityReport) -> None:
    raw = probability_report(SparseKLR(calibration=None).fit(X[train], y[train]), X[test], y[test])
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
    assert summary["n_points"] is summary["points_share"] is None
    part = probability_report(model, X[:60], y[:60])  # a class that does not occur
    assert part.summary["n_classes"] == 3


def test_weights_are_repetitions(model: SparseKLR) -> None:
    weight = np.random.default_rng(0).integers(0, 4, size=300)
    weighted = probability_report(model, X[test], y[test], sample_weight=weight).summary
    repeated = probability_report(
        model, np.repeat(X[test], weight, axis=0), np.repeat(y[test], weight)
    ).summary
    assert {**weighted, "n_rows": weight.sum()} == pytest.approx(repeated)


def test_finds_the_kernel_machine_inside_other_estimators() -> None:
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


class _Page(HTMLParser):
    """Collects tags, and attributes that could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset", "data")]


def test_html_is_one_page_without_network(report: ProbabilityReport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # nor matplotlib
    html = report.to_html()
    page = _Page(html)
    assert page.tags.count("circle") == 10
    assert page.links == []
    assert not {"script", "link", "iframe", "img"} & set(page.tags)
    assert "url(" not in html
    assert "@import" not in html
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html
    assert report._repr_html_() in html
    assert "<body" not in report._repr_html_()


def test_labels_are_escaped() -> None:
    names = np.array(["!", "<script>alert('|')</script>"])[y]
    report = probability_report(LogisticRegression().fit(X, names), X, names)
    assert "<script" not in report.to_html()
    assert r"\|" in report.to_markdown()


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not on PATH")
def test_page_in_a_browser(report: ProbabilityReport, tmp_path: Path) -> None:
    """No message on the console, the picture has a size, and nothing is wider than a phone."""
    measure = """<script>
    const frame = document.querySelector("svg").getBoundingClientRect();
    const drawn = document.querySelector("svg polyline").getBBox();
    const sizes = [frame.width, frame.height, drawn.width, drawn.height];
    document.body.dataset.sizes = sizes.map(Math.round).join();
    document.querySelector("details").open = true;
    document.body.style.width = "360px";
    document.body.dataset.overflow = [...document.querySelectorAll("table, svg, p, h2")]
      .filter(part => part.getBoundingClientRect().right > 360).length;
    </script>"""
    page = tmp_path / "report.html"
    page.write_text(report.to_html().replace("</body>", measure + "</body>"), encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--window-size=900,900",
    ]
    command = ["chromium", *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    found = re.search(r'data-sizes="([\d,]+)"', done.stdout)
    assert found, done.stdout
    width, height, curve_width, curve_height = map(int, found[1].split(","))
    assert width > 300
    assert height > 300
    assert curve_width > 200  # of 320: the curve goes from small to large probabilities,
    assert curve_height > 200  # and so do the frequencies
    assert 'data-overflow="0"' in done.stdout


def test_errors_name_the_argument(model: SparseKLR) -> None:
    with pytest.raises(TypeError, match="estimator must have predict_proba; SVC"):
        probability_report(SVC().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        probability_report(SparseKLR(), X, y)
    with pytest.raises(TypeError, match="estimator must predict one target"):
        probability_report(MultiOutputClassifier(LogisticRegression()).fit(X, np.c_[y, y]), X, y)
    with pytest.raises(ValueError, match="X has 500 rows, y 3 labels"):
        probability_report(model, X, y[:3])
    with pytest.raises(ValueError, match=r"y has labels that the estimator does not know: \[2\]"):
        probability_report(model, X, y + 1)
    with pytest.raises(ValueError, match="sample_weight"):
        probability_report(model, X, y, sample_weight=-np.ones(500))
    with pytest.raises(ValueError, match="sample_weight must hold a positive value"):
        probability_report(model, X, y, sample_weight=np.zeros(500))
