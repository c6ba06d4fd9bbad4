"""Displays of Shapley values and of decision curves, and the smooth calibration error."""

import subprocess
import sys
from datetime import datetime

import matplotlib
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import DecisionCurveDisplay, ShapleyDisplay, SparseKLR
from sparseklr.inspection import smooth_calibration_error

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
X, Y = load_iris(return_X_y=True, as_frame=True)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


# -- Shapley values -------------------------------------------------------------------------------


def test_bars_lead_from_the_base_value_to_the_log_odds() -> None:
    model = SparseKLR().fit(X, Y)
    display = ShapleyDisplay.from_estimator(model, X[70:75], row=2, label=1, max_features=2)
    assert display.label == 1
    widths = [bar.get_width() for bar in display.bars_]
    total = model.decision_function(X[72:73])[0, 1]
    assert len(widths) == 5  # base, two features, the others, sum
    assert widths[-1] == pytest.approx(total)
    assert sum(widths[:-1]) == pytest.approx(total)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels[-2:] == ["2 other features", "this row"]
    assert any(label.startswith("petal length (cm) = ") for label in labels)


def test_many_rows_are_points_and_pipelines_have_their_names() -> None:
    model = make_pipeline(StandardScaler(), SparseKLR()).fit(X, Y > 0)
    display = ShapleyDisplay.from_estimator(model, X)
    assert display.values.shape == (150, 4)
    assert len(display.points_) == 4
    first = display.order[0]
    np.testing.assert_allclose(display.points_[0].get_offsets()[:, 0], display.values[:, first])
    assert display.feature_names == list(X.columns)
    total = display.values.sum(axis=1) + display.base_value
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-9)
    _, ax = plt.subplots()
    assert ShapleyDisplay.from_estimator(model, X[:1], ax=ax).ax_ is ax


def test_values_of_a_table_in_the_labels() -> None:
    name = "a column whose name would leave no space for the plot"
    display = ShapleyDisplay(
        values=np.array([[0.3, -0.2, 0.1]]),
        base_value=-1.0,
        data=np.array([[np.nan, datetime(2020, 1, 2), 5.0]], dtype=object),
        feature_names=["age", "day", name],
        label="yes",
    ).plot()
    labels = [label.get_text() for label in display.ax_.get_yticklabels()][1:4]
    assert labels[:2] == ["age is missing", "day = 2020-01-02"]
    assert labels[2].startswith("a column")
    assert len(labels[2]) < len(name)
    assert "\N{MINUS SIGN}1.00" in [text.get_text() for text in display.ax_.texts]


def test_missing_values_are_neither_low_nor_high() -> None:
    rng = np.random.default_rng(0)
    data = np.array([[1.0], [np.nan], [3.0], [2.0]])
    display = ShapleyDisplay(
        values=rng.normal(size=(4, 1)), base_value=0.0, data=data, feature_names=["age"], label=1
    ).plot()
    np.testing.assert_array_equal(np.ma.filled(display.points_[0].get_array(), np.nan), [0, np.nan, 1, 0.5])
    assert len(display.points_[0].get_offsets()) == 4


# -- decision curves ------------------------------------------------------------------------------


def test_net_benefit_is_that_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y, weight = rng.random(300) < p, rng.integers(0, 3, 300)
    display = DecisionCurveDisplay.from_predictions(y, p, sample_weight=weight)
    assert len(display.thresholds) == 99
    for t, benefit, everyone in zip(display.thresholds, display.net_benefit, display.act_on_all, strict=True):
        acts, n = p >= t, weight.sum()
        hits, alarms = weight[acts & y].sum(), weight[acts & ~y].sum()
        assert benefit == pytest.approx(hits / n - alarms / n * t / (1 - t), abs=1e-12)
        all_hits, all_alarms = weight[y].sum(), weight[~y].sum()
        assert everyone == pytest.approx(all_hits / n - all_alarms / n * t / (1 - t), abs=1e-12)


def test_curve_of_an_estimator() -> None:
    model = LogisticRegression(max_iter=1000).fit(X, Y)
    display = DecisionCurveDisplay.from_estimator(model, X, Y, pos_label=2, color="black")
    direct = DecisionCurveDisplay.from_predictions(Y == 2, model.predict_proba(X)[:, 2], ax=display.ax_)
    np.testing.assert_array_equal(display.net_benefit, direct.net_benefit)
    assert direct.figure_ is display.figure_
    assert display.ax_.get_xlabel() == "Threshold for the probability of class 1"
    labels = display.ax_.get_legend_handles_labels()[1]
    assert labels == ["act on all rows", "act on no row", "LogisticRegression", "model"]


def test_bad_arguments_of_the_curve() -> None:
    model = LogisticRegression(max_iter=1000).fit(X, Y)
    with pytest.raises(ValueError, match="pos_label is required for more than two classes"):
        DecisionCurveDisplay.from_estimator(model, X, Y)
    with pytest.raises(ValueError, match="pos_label must be one of"):
        DecisionCurveDisplay.from_estimator(model, X, Y, pos_label="none")
    with pytest.raises(ValueError, match=r"y_prob must have shape \(n_samples,\).*got shape"):
        DecisionCurveDisplay.from_predictions(Y, model.predict_proba(X))
    with pytest.raises(ValueError, match="thresholds must be a list of numbers strictly between 0 and 1"):
        DecisionCurveDisplay.from_predictions([0, 1], [0.2, 0.5], thresholds=[0.5, 1.0])


# -- smooth calibration error ---------------------------------------------------------------------


def smoothed_by_definition(y: np.ndarray, p: np.ndarray, width: float) -> float:
    """The integral of the smoothed residuals, with the reflected kernel as a sum over images."""
    t = (np.arange(4000) + 0.5) / 4000
    images = [2 * k + sign * p for k in range(-3, 4) for sign in (-1, 1)]
    density = sum(norm.pdf(t[:, None], image, width) for image in images)
    return float(np.abs(density @ (y - p) / len(p)).mean())


def test_smooth_error_is_the_fixed_point_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    f = rng.normal(size=400)
    y, p = rng.random(400) < expit(f), expit(3 * f)  # too confident
    error = smooth_calibration_error(y, p)
    assert smoothed_by_definition(y, p, error) == pytest.approx(error, abs=1e-3)
    calibrated = smooth_calibration_error(rng.random(400) < p, p)
    assert calibrated < error / 3


def test_smooth_error_of_weights_and_classes() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(100)
    y, weight = rng.random(100) < p, 1 + (np.arange(100) % 2)
    repeated = smooth_calibration_error(np.repeat(y, weight), np.repeat(p, weight))
    assert smooth_calibration_error(y, p, sample_weight=weight) == pytest.approx(repeated, abs=1e-9)
    assert smooth_calibration_error([0, 1], [0.0, 1.0]) == pytest.approx(0, abs=1e-9)
    matrix = np.column_stack([1 - p, p])
    top = smooth_calibration_error(y.astype(int), matrix)
    assert 0 < top < 0.2


@pytest.mark.slow
def test_matplotlib_is_imported_only_to_draw() -> None:
    code = (
        "import sys, numpy as np, sparseklr\n"
        "one = np.ones(1)\n"
        "display = sparseklr.DecisionCurveDisplay(thresholds=one / 2, net_benefit=one, act_on_all=one)\n"
        "assert 'matplotlib' not in sys.modules\n"
        "sys.modules['matplotlib'] = sys.modules['matplotlib.pyplot'] = None\n"
        "try:\n"
        "    display.plot()\n"
        "except ImportError as error:\n"
        "    assert \"pip install 'sparseklr[plots]'\" in str(error)\n"
        "else:\n"
        "    raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
