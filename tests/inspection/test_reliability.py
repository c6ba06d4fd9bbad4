"""The reliability diagram: coverage of its bands, agreement with the numbers, and its drawing."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_iris, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from sparseklr import SparseKLR
from sparseklr.inspection.reliability import ReliabilityDisplay

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed_figures() -> Iterator[None]:
    plt.switch_backend("agg")
    yield
    plt.close("all")


def simulated(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    return rng.uniform(size=n) < p, p


@pytest.mark.parametrize("weighted", [False, True])
def test_bands_have_nominal_coverage(weighted: bool) -> None:
    covered = []
    for seed in range(200):
        y, p = simulated(1000, seed)
        weight = np.random.default_rng([seed, 1]).uniform(0.2, 2, size=1000) if weighted else None
        covered.append(ReliabilityDisplay.compute(y, p, sample_weight=weight).covered)
    assert 0.94 < np.mean(covered) < 0.965


def test_bands_exclude_a_miscalibrated_model() -> None:
    y, p = simulated(2000)
    display = ReliabilityDisplay.from_predictions(y, expit(2 * logit(p)))
    assert display.covered.mean() <= 0.5
    assert (display.prob_true > display.prob_pred)[:4].all()  # too sure
    assert (display.prob_true < display.prob_pred)[-4:].all()


def test_curve_agrees_with_scikit_learn() -> None:
    y, p = simulated(500)
    display = ReliabilityDisplay.from_predictions(y, p, n_bins=10)
    observed, predicted = calibration_curve(y, p, n_bins=10, strategy="quantile")
    np.testing.assert_allclose(display.line_.get_xdata(), predicted)
    np.testing.assert_allclose(display.line_.get_ydata(), observed)
    assert (display.lower < observed).all()
    assert (observed < display.upper).all()


def test_bands_widen_with_confidence_and_less_data() -> None:
    y, p = simulated(1000)
    width = [
        np.mean(d.upper - d.lower)
        for c in (0.8, 0.95)
        for d in [ReliabilityDisplay.compute(y, p, confidence=c)]
    ]
    part = ReliabilityDisplay.compute(y, p, sample_weight=np.arange(1000) < 250)
    assert width[0] < width[1] < 0.6 * np.mean(part.upper - part.lower)


def test_scale_of_weights_does_not_matter() -> None:
    y, p = simulated(300)
    one, two = (ReliabilityDisplay.compute(y, p, sample_weight=np.full(300, w)) for w in (1.0, 7.0))
    np.testing.assert_allclose(one.lower, two.lower)
    np.testing.assert_allclose(one.lower, ReliabilityDisplay.compute(y, p).lower)


def test_from_estimator_two_classes() -> None:
    X, codes = make_moons(400, noise=0.3, random_state=0)
    y = np.array(["no", "yes"])[codes]
    model = SparseKLR().fit(X[:200], y[:200])
    display = ReliabilityDisplay.from_estimator(model, X[200:], y[200:], n_bins=5)
    assert display.estimator_name == "SparseKLR"
    assert display.hist_ax_.get_xlabel() == "Predicted probability of class yes"
    np.testing.assert_array_equal(display.y_prob, model.predict_proba(X[200:])[:, 1])
    other = ReliabilityDisplay.from_estimator(model, X[200:], y[200:], n_bins=5, pos_label="no")
    np.testing.assert_allclose(other.prob_pred, 1 - display.prob_pred[::-1])
    with pytest.raises(ValueError, match="pos_label='perhaps'"):
        ReliabilityDisplay.from_estimator(model, X, y, pos_label="perhaps")


def test_from_estimator_more_classes_is_top_label() -> None:
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, n_bins=5, name="iris")
    np.testing.assert_array_equal(display.y_prob, model.predict_proba(X).max(axis=1))
    assert np.average(display.prob_true, weights=display.weight) == pytest.approx(model.score(X, y))
    assert "top class" in display.hist_ax_.get_xlabel()
    assert "iris" in [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_displays_share_axes_and_leave_others_alone() -> None:
    y, p = simulated(200)
    figure, (left, right) = plt.subplots(1, 2, sharex=True)
    one = ReliabilityDisplay.from_predictions(y, p, ax=left, name="one")
    two = ReliabilityDisplay.from_predictions(y, p**2, ax=left, name="two", color="red")
    three = ReliabilityDisplay.from_predictions(y, p, ax=right, histogram=False, ref_line=False)
    four = ReliabilityDisplay.from_predictions(y, p, ax=right)
    assert one.hist_ax_ is two.hist_ax_ is not four.hist_ax_
    assert three.hist_ax_ is None
    assert len(figure.axes) == 4
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels == ["perfectly calibrated", "one", "two"]
    assert two.line_.get_color() == "red"
    by_hand = plt.figure().add_axes((0.1, 0.1, 0.8, 0.8))
    assert ReliabilityDisplay.from_predictions(y, p, ax=by_hand).hist_ax_ is None
    assert by_hand.get_xlabel() == "Predicted probability of class 1"


def test_everything_is_inside_the_figure() -> None:
    """Labels of the histogram are not cut off, with and without a layout engine."""
    for layout in (None, "tight", "constrained"):
        figure, ax = plt.subplots(layout=layout)
        display = ReliabilityDisplay.from_predictions(*simulated(200), ax=ax)
        figure.draw_without_rendering()
        box = display.hist_ax_.get_tightbbox()
        assert box.y0 >= 0
        assert box.y1 <= display.ax_.get_window_extent().y0 + 10


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"sparseklr\[plots\]"):
        ReliabilityDisplay.from_predictions([0, 1], [0.2, 0.7])


def test_errors_name_the_argument() -> None:
    X, y = make_moons(40, random_state=0)
    with pytest.raises(TypeError, match="estimator must have predict_proba; LinearSVC"):
        ReliabilityDisplay.from_estimator(LinearSVC().fit(X, y), X, y)
    with pytest.raises(ValueError, match="confidence == 1"):
        ReliabilityDisplay.from_predictions(y, np.full(40, 0.5), confidence=1)
    with pytest.raises(ValueError, match="sample_weight"):
        ReliabilityDisplay.from_predictions(y, np.full(40, 0.5), sample_weight=np.full(40, -1.0))
