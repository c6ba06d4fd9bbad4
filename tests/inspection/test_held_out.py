"""Prediction sets and probability intervals from leave-one-out and validation predictions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.datasets import make_blobs, make_moons
from sklearn.isotonic import IsotonicRegression

from sparseklr import CompactKLR, SparseKLR, load, save
from sparseklr.conformal import HeldOut, HeldOutProbabilities, lower_limit, upper_probability

X, Y = make_moons(200, noise=0.3, random_state=0)
NEW, NEW_Y = make_moons(5000, noise=0.3, random_state=1)
MODELS = [SparseKLR(), SparseKLR(C=1.0), CompactKLR()]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), weighted=st.booleans())
def test_venn_abers_ends_are_isotonic_fits_with_the_new_row(seed, n, weighted) -> None:
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 10, n).astype(float)
    event = (rng.random(n) < 0.2 + 0.06 * score).astype(float)
    weight = rng.exponential(size=n) if weighted else np.ones(n)
    new = rng.integers(-2, 24, 5) / 2
    upper = upper_probability(score, event, weight, new)
    lower = 1 - upper_probability(-score, 1 - event, weight, -new)
    for value, low, high in zip(new, lower, upper, strict=True):
        for end, label in ((low, 0.0), (high, 1.0)):
            fit = IsotonicRegression().fit(
                np.append(score, value), np.append(event, label), np.append(weight, 1.0)
            )
            assert end == pytest.approx(fit.predict([value])[0], abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_confidence_limits_are_the_largest_of_clopper_and_pearson(weighted) -> None:
    rng = np.random.default_rng(0)
    score, new = rng.integers(0, 40, 60) / 4, np.array([-1.0, 0.0, 3.1, 5.0, 20.0])
    event = (rng.random(60) < score / 10).astype(float)
    weight = rng.integers(1, 4, 60) if weighted else np.ones(60)
    repeated = np.repeat(
        np.argsort(score, kind="stable"), weight[np.argsort(score, kind="stable")].astype(int)
    )
    sizes = [2**k for k in range(8)][: int(np.ceil(np.log2(weight.sum()))) + 1]
    found = lower_limit(score, event, weight, new, 0.9)
    for value, limit in zip(new, found, strict=True):
        below = event[repeated][score[repeated] <= value]
        expected = [0.0]
        for size in sizes:
            rows = below[-size:]
            if rows.sum():
                expected.append(binomtest(int(rows.sum()), len(rows)).proportion_ci(1 - 0.1 / len(sizes)).low)
        # a weighted row is not divided, so the limit may use fewer observations
        assert limit == pytest.approx(max(expected), rel=1e-6) or (weighted and limit <= max(expected))


def test_confidence_intervals_contain_the_frequency() -> None:
    """The least favourable case is a constant frequency: every row has the frequency of the new row."""
    rng, inside = np.random.default_rng(0), []
    for _ in range(2000):
        score, event = rng.random(100), (rng.random(100) < 0.3).astype(float)
        least = lower_limit(score, event, np.ones(100), np.array([0.5]), 0.8)
        most = 1 - lower_limit(-score, 1 - event, np.ones(100), np.array([-0.5]), 0.8)
        inside.append(least <= 0.3 <= most)
    assert np.mean(inside) > 0.8


def test_p_values_count_rows_of_at_most_the_probability() -> None:
    proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.8, 0.2]])
    rows = HeldOutProbabilities(np.log(proba), np.array([0, 0, 1, 1]), np.array([1.0, 2.0, 1.0, 1.0]))
    new = np.log([[0.65, 0.35]])
    # true classes have 0.9, 0.6 (twice), 0.7 and 0.2
    np.testing.assert_allclose(rows.p_values(new, by_class=False), [[4 / 6, 2 / 6]])
    np.testing.assert_allclose(rows.p_values(new, by_class=True), [[3 / 4, 2 / 3]])


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_sets_have_the_coverage(model, tmp_path) -> None:
    """The mean coverage over samples of training rows is the nominal one; with 200 rows, one sample varies by
    0.02."""
    found = []
    for seed in range(10):
        model.fit(*make_moons(200, noise=0.3, random_state=100 + seed))
        inside = model.predict_set(NEW)
        by_class = model.predict_set(NEW, by_class=True)
        found.append([
            inside[np.arange(len(NEW)), NEW_Y].mean(),
            *(by_class[k == NEW_Y, k].mean() for k in (0, 1)),
        ])  # fmt: skip
    coverage = np.mean(found, axis=0)
    assert ((coverage > 0.87) & (coverage < 0.93)).all()
    wide = model.predict_set(NEW, 0.99)
    assert (wide >= model.predict_set(NEW, 0.8)).all()
    np.testing.assert_array_equal(wide, model.predict_p_values(NEW) > 1 - 0.99)
    save(model, tmp_path / "model.sklr")
    np.testing.assert_array_equal(load(tmp_path / "model.sklr").predict_set(NEW, 0.99), wide)


def test_sets_by_class_refer_to_the_pruned_model() -> None:
    """If all rows are predicted confidently, pruning shifts all outputs by more than they vary."""
    rows, labels = make_moons(3000, noise=0.1, random_state=999)
    for seed in range(4):
        model = SparseKLR().fit(*make_moons(400, noise=0.1, random_state=seed))
        sets = model.predict_set(rows, by_class=True)
        for k in (0, 1):
            # the standard deviation over draws is 0.02 with 200 rows of a class
            assert 0.8 < sets[labels == k, k].mean() < 1.0


@pytest.mark.parametrize("model", [SparseKLR(), CompactKLR(n_points=3)], ids=str)
def test_intervals_of_several_classes(model) -> None:
    rows, labels = make_blobs(150, centers=3, cluster_std=3.0, random_state=0)
    model.fit(rows, labels)
    lower, upper = model.predict_interval(rows)
    assert lower.shape == upper.shape == (150, 3)
    assert ((lower >= 0) & (lower <= upper) & (upper <= 1)).all()
    before = lower, upper
    for confidence in (0.5, 0.9, 0.99):
        ends = model.predict_interval(rows, confidence)
        assert (ends[0] <= before[0]).all()
        assert (ends[1] >= before[1]).all()
        before = ends
    two = model.fit(rows, labels > 0)
    lower, upper = two.predict_interval(rows)
    np.testing.assert_allclose(lower[:, 0], 1 - upper[:, 1], atol=1e-9)
    assert two.predict_set(rows).shape == (150, 2)


@pytest.mark.parametrize("model", [SparseKLR(), CompactKLR(n_points=3)], ids=str)
def test_weights_are_repetitions(model) -> None:
    weight = 1 + (np.arange(60) % 3 == 0)
    repeated = model.fit(np.repeat(X[:60], weight, axis=0), np.repeat(Y[:60], weight)).predict_p_values(
        NEW[:50]
    )
    weighted = model.fit(X[:60], Y[:60], sample_weight=5.0 * weight).predict_p_values(NEW[:50])
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


def test_a_model_keeps_at_most_10000_rows() -> None:
    n = 25_000
    kept = HeldOut.of(np.zeros((n, 1)), np.arange(n) % 2, np.full(n, 3.0), n)
    assert len(kept.code) == len(kept.weight) == 10_000
    assert kept.weight[0] == 1.0


def test_prediction_only_models_keep_their_sets() -> None:
    model = SparseKLR().fit(X, Y)
    before = model.predict_set(NEW)
    np.testing.assert_array_equal(model.keep_prediction_only().predict_set(NEW), before)


@pytest.mark.parametrize("model", [SparseKLR(), CompactKLR()], ids=str)
def test_a_constant_model_predicts_the_frequent_class_for_all_rows(model) -> None:
    """The class fractions of the folds differ from those of all rows, which must not give empty sets."""
    rng = np.random.default_rng(0)
    labels = np.arange(103) < 5
    with pytest.warns(UserWarning, match="signal"):
        model.fit(rng.normal(size=(103, 2)), labels)
    np.testing.assert_array_equal(model.predict_set(rng.normal(size=(9, 2))), [[True, False]] * 9)


def test_bad_arguments() -> None:
    model = SparseKLR().fit(X, Y)
    for coverage in (0, 1, 90, -0.1, True, "0.9", None):
        with pytest.raises(ValueError, match="coverage must be a number between 0 and 1; got"):
            model.predict_set(NEW, coverage)
        if coverage is not None:
            with pytest.raises(ValueError, match="confidence must be a number between 0 and 1; got"):
                model.predict_interval(NEW, coverage)
    with pytest.raises(ValueError, match=r"has no held-out predictions.*C='auto' or n_points='auto'"):
        CompactKLR(n_points=2, C=1.0).fit(X, Y).predict_set(NEW)
