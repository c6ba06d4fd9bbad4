"""AccuracySparsityDisplay agrees with cv_results_."""

from __future__ import annotations

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError

from sparseklr import SKLRCV
from sparseklr.inspection.accuracy_sparsity import AccuracySparsityDisplay

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def model() -> SKLRCV:
    X, y = make_moons(150, noise=0.3, random_state=0)
    return SKLRCV(Cs=[10, 100, 1000], selection="one-se").fit(X, y)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_draws_every_candidate_and_marks_the_chosen(model) -> None:
    display = AccuracySparsityDisplay.from_estimator(model)
    results = model.cv_results_
    assert [line.get_label() for line in display.lines_] == ["C=10", "C=100", "C=1000"]
    x = np.concatenate([line.get_xdata() for line in display.lines_])
    y = np.concatenate([line.get_ydata() for line in display.lines_])
    np.testing.assert_array_equal(x, results["mean_n_support"])
    np.testing.assert_array_equal(y, results["mean_test_score"])
    (marked,) = display.chosen_[0].get_xydata()
    np.testing.assert_array_equal(marked, [x[model.best_index_], y[model.best_index_]])
    low, high = display.chosen_[2][0].get_segments()[0][:, 1]
    assert (high - low) / 2 == pytest.approx(results["std_test_score"][model.best_index_] / 2)  # 5 splits
    assert display.ax_.get_ylabel() == "mean score"


def test_front_holds_the_best_of_each_size(model) -> None:
    display = AccuracySparsityDisplay.from_estimator(model)
    front = display.front_.get_xydata()
    assert np.all(np.diff(front, axis=0) > 0)
    for size, score in zip(display.n_support, display.score, strict=True):
        assert np.any((front[:, 0] <= size) & (front[:, 1] >= score))


def test_draws_into_given_axes(model) -> None:
    figure, ax = plt.subplots()
    display = AccuracySparsityDisplay.from_estimator(model, ax=ax)
    assert isinstance(display, AccuracySparsityDisplay)
    assert display.ax_ is ax
    assert display.figure_ is figure


@pytest.mark.parametrize(
    ("scoring", "label"), [("roc_auc", "mean roc_auc"), (lambda m, X, y: 1.0, "mean score")]
)
def test_score_is_named(scoring, label) -> None:
    X, y = make_moons(60, noise=0.3, random_state=0)
    model = SKLRCV(Cs=[10], lams=[0.1, 1], scoring=scoring).fit(X, y)
    assert AccuracySparsityDisplay.from_estimator(model).ax_.get_ylabel() == label


def test_needs_a_fitted_estimator() -> None:
    with pytest.raises(NotFittedError):
        AccuracySparsityDisplay.from_estimator(SKLRCV())


@pytest.mark.slow
def test_matplotlib_is_imported_only_to_draw() -> None:
    code = (
        "import sys, sparseklr.inspection.accuracy_sparsity, sparseklr.sklr\n"
        "assert 'matplotlib' not in sys.modules\n"
        "sys.modules['matplotlib'] = sys.modules['matplotlib.pyplot'] = None\n"
        "import numpy as np\n"
        "one = np.ones(1)\n"
        "display = sparseklr.inspection.accuracy_sparsity.AccuracySparsityDisplay("
        "n_support=one, score=one, score_error=one, groups=['a'], chosen=0)\n"
        "try:\n"
        "    display.plot()\n"
        "except ImportError as error:\n"
        "    assert \"pip install 'sparseklr[plots]'\" in str(error)\n"
        "else:\n"
        "    raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
