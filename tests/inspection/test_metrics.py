"""Expected calibration error against known values, and probabilities for a cost matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from sparseklr import SKLR, SparseKLR
from sparseklr.inspection.metrics import Bins, expected_calibration_error, wilson_interval


def simulated(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and outcomes drawn from them."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 0.7, size=n)
    return rng.uniform(size=n) < p, p


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_ece_of_calibrated_probabilities_is_chance(strategy: str) -> None:
    values = [expected_calibration_error(*simulated(5000, seed), strategy=strategy) for seed in range(20)]
    assert 0 < np.mean(values) < 0.4 * np.sqrt(15 / 5000)  # the bound of the docstring: 0.022


def test_finds_a_known_miscalibration() -> None:
    y, p = simulated(100_000)
    assert expected_calibration_error(y, 0.8 * p) == pytest.approx(0.2 * p.mean(), abs=0.003)
    sharper = expit(3 * logit(p))
    # too low below 1/2, too high above; only in the bin around 1/2 the two cancel
    assert expected_calibration_error(y, sharper) == pytest.approx(np.abs(sharper - p).mean(), abs=0.005)
    assert expected_calibration_error(~y, p, n_bins=50) == pytest.approx(np.abs(1 - 2 * p).mean(), abs=0.005)


def test_constant_probability() -> None:
    y = np.repeat([0, 1], [30, 10])
    assert expected_calibration_error(y, np.full(40, 0.25)) == 0
    assert expected_calibration_error(y, np.ones(40)) == 0.75


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_bins_agree_with_scikit_learn(strategy: str) -> None:
    y, p = simulated(600)  # a multiple of n_bins: the quantiles have one definition
    bins = Bins.of(y, p, n_bins=12, strategy=strategy, sample_weight=None)
    observed, predicted = calibration_curve(y, p, n_bins=12, strategy=strategy)
    np.testing.assert_allclose(bins.prob_true, observed)
    np.testing.assert_allclose(bins.prob_pred, predicted)
    assert bins.weight.sum() == bins.n_effective.sum() == 600


def test_saturated_probabilities_are_not_mixed_with_others() -> None:
    p = np.repeat([0.0, 0.3, 1.0], [40, 8, 52])
    bins = Bins.of(p > 0.5, p, n_bins=10, strategy="quantile", sample_weight=None)
    np.testing.assert_allclose(bins.prob_pred, [0, 0.3, 1])
    np.testing.assert_array_equal(bins.weight, [40, 8, 52])


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=40),
    st.integers(1, 6),
    st.sampled_from(["quantile", "uniform"]),
)
def test_weights_are_repetitions(rows: list, n_bins: int, strategy: str) -> None:
    y, p, weight = (np.array(column) for column in zip(*rows, (True, 4, 1), strict=True))
    p = p / 8
    weighted = expected_calibration_error(y, p, n_bins=n_bins, strategy=strategy, sample_weight=weight)
    repeated = expected_calibration_error(
        np.repeat(y, weight), np.repeat(p, weight), n_bins=n_bins, strategy=strategy
    )
    assert weighted == pytest.approx(repeated, abs=1e-12)
    assert 0 <= weighted <= 1


def test_top_label() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 0.5, 0.5], size=500)
    y = np.array(["a", "b", "c"])[[rng.choice(3, p=row) for row in p]]
    correct = np.array(["a", "b", "c"])[p.argmax(axis=1)] == y
    assert expected_calibration_error(y, p) == expected_calibration_error(correct, p.max(axis=1)) < 0.1
    some = y != "b"  # a class that does not occur
    value = expected_calibration_error(y[some], p[some], labels=["a", "b", "c"])
    assert value == expected_calibration_error(correct[some], p[some].max(axis=1))


def test_positive_label() -> None:
    y, p = simulated(200)
    names = np.where(y, "yes", "no")
    value = expected_calibration_error(y, p)
    assert expected_calibration_error(names, p, pos_label="yes") == value
    assert expected_calibration_error(2 * y.astype(int) - 1, p) == value
    assert expected_calibration_error(names, 1 - p, pos_label="no") == pytest.approx(value, abs=0.02)


@pytest.mark.parametrize(
    ("y", "p", "options", "message"),
    [
        ([0, 1], [0.2, 1.3], {}, r"y_prob must be within \[0, 1\]"),
        ([0, 1], [0.2, np.nan], {}, "y_prob contains NaN"),
        ([0, 1, 1], [0.2, 0.3], {}, "y_true has 3 labels, y_prob has 2 rows"),
        ([0, 1, 2], [0.2, 0.3, 0.4], {}, "y_true has 3 classes"),
        (["a", "b"], [0.2, 0.3], {}, "pos_label is required"),
        (["a", "b"], [0.2, 0.3], {"pos_label": "c"}, "pos_label='c' is not a label of y_true"),
        ([0, 1], [[0.2, 0.8], [0.5, 0.5]], {"pos_label": 1}, "pos_label must be None"),
        (
            [0, 1],
            [[0.2, 0.8, 0], [0.5, 0.5, 0]],
            {},
            "y_prob must have one column for each of at least two classes",
        ),
        ([0, 1], [[0.2, 0.8], [0.5, 0.5]], {"labels": [1, 2]}, "y_true has labels"),
        ([0, 1], [[0.2, 0.2], [0.5, 0.5]], {}, "each row of y_prob must sum to 1"),
        ([0, 1], [0.2, 0.3], {"n_bins": 0}, "n_bins == 0"),
        ([0, 1], [0.2, 0.3], {"strategy": "equal"}, "strategy must be"),
        ([0, 1], [0.2, 0.3], {"sample_weight": [1, -1]}, "sample_weight"),
        ([0, 1], [0.2, 0.3], {"sample_weight": [0, 0]}, "sample_weight must contain a positive value"),
    ],
)
def test_errors_name_the_argument(y: list, p: list, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(y, p, **options)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_wilson_interval_agrees_with_scipy(confidence: float) -> None:
    k, n = np.array([0, 1, 7, 12, 12, 400]), np.array([1, 9, 20, 12, 13, 1000])
    expected = [binomtest(*case).proportion_ci(confidence, "wilson") for case in zip(k, n, strict=True)]
    lower, upper = wilson_interval(k / n, n, confidence)
    np.testing.assert_allclose(
        np.transpose([lower, upper]), [[ci.low, ci.high] for ci in expected], atol=1e-12
    )


def test_threshold_from_a_cost_matrix_needs_calibrated_probabilities() -> None:
    """A missed positive costs 30, a false alarm 1: the best threshold is 1/31."""
    X, y = load_breast_cancer(return_X_y=True)
    y, cost = 1 - y, {}
    for name, classifier in {"paper": SKLR(calibration=None), "refit": SparseKLR()}.items():
        model = make_pipeline(MinMaxScaler(), classifier)
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        p = cross_val_predict(model, X, y, cv=folds, method="predict_proba")[:, 1]
        cost[name] = np.mean(np.where(y == 1, 30 * (p <= 1 / 31), p > 1 / 31))
    assert cost["refit"] < 0.8 * cost["paper"]
    assert cost["refit"] < np.mean(y == 0)  # of calling all positive
