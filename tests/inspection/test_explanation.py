"""Explanations add up to the decision values, for every classifier that predicts from points."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import SKLR, SKLRCV, CompactKLR, ExplanationDisplay, SparseKLR
from sparseklr.baselines import HalfKLR, ImportVectorMachine, ThresholdedKLR

matplotlib.use("Agg")
MOONS = make_moons(120, noise=0.25, random_state=0)
IRIS = load_iris(return_X_y=True)
MODELS = {
    "refit": SparseKLR(),
    "paper": SKLR(C=10, lam=1, calibration=None),
    "sigmoid": SKLR(C=10, lam=1, calibration="sigmoid"),
    "link": SKLR(C=10, lam=1, calibration="link"),
    "linear": SparseKLR(kernel="linear"),
    "search": SKLRCV(Cs=[10]),
    "compact": CompactKLR(4, C=10.0),
    "half": HalfKLR(),
    "ivm": ImportVectorMachine(),
    "thresholded": ThresholdedKLR(n_points=20),
}


def check(model, X) -> None:
    explanation, decision = model.explain(X), model.decision_function(X)
    total = explanation.contributions.sum(axis=-1) + explanation.intercept
    assert total.shape == decision.shape
    # a sum of numbers is known up to rounding of the largest of them
    size = np.abs(explanation.contributions).sum(axis=-1) + np.abs(explanation.intercept)
    assert (np.abs(total - decision) <= 1e-13 * (1 + size) * explanation.contributions.shape[-1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("data", [MOONS, IRIS], ids=["two classes", "three classes"])
def test_contributions_add_up(name, data) -> None:
    X, y = data
    if name == "linear" and data is IRIS:
        X = X / X.std(axis=0)
    model = MODELS[name].fit(X, y)
    check(model, X[:17] + 0.01)


def test_explanation_of_other_inputs() -> None:
    X, y = MOONS
    model = SparseKLR().fit(sparse.csr_array(X), y)
    check(model, sparse.csr_array(X[:5]))
    distance = model.explain(X[:5]).distance
    assert distance.shape == (5, len(model.support_))
    halves = sparse.csr_array((np.repeat(X / 2, 2), np.tile([0, 0, 1, 1], len(X)), 4 * np.arange(len(X) + 1)))
    np.testing.assert_allclose(model.explain(halves[:5]).distance, distance, rtol=1e-12)  # entries add up
    np.testing.assert_allclose(SparseKLR().fit(halves, y).explain(halves[:5]).distance, distance, rtol=1e-12)
    K = rbf_kernel(X)
    model = SparseKLR(kernel="precomputed").fit(K, y)
    check(model, K[:5])
    assert model.explain(K[:5]).distance is None
    assert len(model.explain(K[:5]).of_row(1).nearest(3)) == 3
    check(SparseKLR(kernel=rbf_kernel).fit(X, y), X[:5])
    constant = CompactKLR().fit(np.zeros_like(X), y)  # has no point
    assert constant.explain(X[:3]).contributions.shape == (3, 0)
    check(constant, X[:3])


def test_distances_and_points() -> None:
    X, y = MOONS
    for scaled, model in (
        (False, SparseKLR(kernel="rbf", scale=None, relevance="shared").fit(X, y)),
        (True, SparseKLR(kernel="rbf").fit(X, y)),
    ):
        explanation = model.explain(X[:4])
        features, points = (model._features(X[:4]), model._points_) if scaled else (X[:4], X[model.support_])
        expected = np.linalg.norm(features[:, None] - points, axis=2)
        np.testing.assert_allclose(explanation.distance, expected, atol=1e-7)
        values = np.exp(-model.gamma_ * expected**2)
        np.testing.assert_allclose(explanation.contributions, values * model.dual_coef_, rtol=1e-6)
    np.testing.assert_array_equal(explanation.support, model.support_)
    compact = CompactKLR(3, C=10.0).fit(X, y)
    found = compact.explain(X[:4])
    np.testing.assert_allclose(found.contributions, np.exp(-(found.distance**2)) * compact.dual_coef_)
    assert found.support is None


def test_a_row_is_explained_for_a_class() -> None:
    X, y = MOONS
    model = SparseKLR().fit(X, np.where(y, "yes", "no"))
    explanation = model.explain(X)
    for row, label in enumerate(model.predict(X)):
        found = explanation.of_row(row)
        assert found.label == label
        assert found.log_odds > 0  # the evidence for the predicted class prevails
    yes, no = explanation.of_row(3, "yes"), explanation.of_row(3, "no")
    np.testing.assert_array_equal(yes.contributions, -no.contributions)
    assert yes.log_odds == pytest.approx(model.decision_function(X)[3])
    strongest = np.abs(yes.contributions[yes.strongest(4)])
    assert (np.diff(strongest) <= 0).all()
    assert strongest[0] == np.abs(yes.contributions).max()
    assert (np.diff(yes.distance[yes.nearest(5)]) >= 0).all()
    with pytest.raises(ValueError, match=r"label must be one of \['no', 'yes'\]; got 'maybe'"):
        explanation.of_row(0, "maybe")
    iris = SparseKLR().fit(*IRIS)
    found = iris.explain(IRIS[0][:5])
    assert found.of_row(2, 1).log_odds == pytest.approx(iris.decision_function(IRIS[0][:5])[2, 1])
    assert found.of_row(2).label == 0


def test_only_two_classes_have_log_odds() -> None:
    """With more than two classes, the contributions add up to an output of the softmax."""
    for (X, y), unit in ((MOONS, "log-odds"), (IRIS, "output")):
        display = ExplanationDisplay.from_estimator(SparseKLR().fit(X, y), X[:1])
        assert display.ax_.get_xlabel().startswith(f"contribution to the {unit} of class")
        assert display.ax_.get_yticklabels()[-1].get_text() == unit


def test_unfitted() -> None:
    for model in (SparseKLR(), SKLR(), CompactKLR(), SKLRCV()):
        with pytest.raises(NotFittedError):
            model.explain(MOONS[0])


@pytest.mark.parametrize("model", [SparseKLR(), CompactKLR(6, C=10.0), SparseKLR(kernel="precomputed")])
def test_the_bars_of_the_display_add_up(model) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = MOONS
    precomputed = getattr(model, "kernel", "") == "precomputed"
    X = rbf_kernel(X) if precomputed else X
    estimator = model if precomputed else make_pipeline(StandardScaler(), model)
    estimator.fit(X, y)
    display = ExplanationDisplay.from_estimator(estimator, X, row=7, label=1, n_points=3)
    drawn = [bar.get_width() for bar in display.bars_]
    assert len(drawn) == len(display.names) + 1 == 3 + 1 + 1 + 1  # points, the others, intercept, sum
    assert sum(drawn[:-1]) == pytest.approx(drawn[-1])
    assert drawn[-1] == pytest.approx(estimator.decision_function(X)[7])
    assert "class 1" in display.ax_.get_xlabel()
    plt.close("all")


def test_the_display_takes_rows_in_any_container() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = MOONS
    frame = pd.DataFrame(X, columns=["a", "b"])
    of_array, of_frame = SparseKLR().fit(X, y), SparseKLR().fit(frame, y)
    expected = ExplanationDisplay.from_estimator(of_array, X, row=7).contributions
    for model, rows in ((of_frame, frame), (of_array, sparse.csr_array(X)), (of_array, X.tolist())):
        display = ExplanationDisplay.from_estimator(model, rows, row=7)
        np.testing.assert_allclose(display.contributions, expected)
    plt.close("all")
