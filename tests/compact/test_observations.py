"""Independent observations: counts from weights, folds of copies, discrete data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from support.standins import HOME

from sparseklr import CompactKLR
from sparseklr.compact.rows import (
    LabelledRows,
    Observations,
    by_point,
    distinct_pairs,
    relative_weights,
    repeated_folds,
    validation_folds,
)
from sparseklr.compact.size_search import Validation
from sparseklr.weights import MOST_COPIES, observation_counts

pytestmark = pytest.mark.numerical

ARENA = HOME / "arena"


@pytest.fixture
def rows_are_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal rows count as copies, whatever their labels."""
    monkeypatch.setattr("sparseklr.compact_klr._are_copies", lambda X, weight, count: True)


# -- what a weight counts --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "counts"),
    [
        ([1.0, 1.0, 1.0], [1, 1, 1]),
        ([10.0, 10.0], [1, 1]),
        ([1.0, 2.0, 3.0], [1, 2, 3]),
        ([0.0, 2.0, 4.0], [0, 1, 2]),
        ([2.0, 3.0], [2, 3]),
        ([0.1, 0.2, 0.1 + 0.2], [1, 2, 3]),
        ([1 / 3, 2 / 3, 1.0], [1, 2, 3]),
        ([16.0, 17.0], [16, 17]),
        ([17.0, 18.0], [1, 1]),  # a common unit, but too small a part of the weights
        ([1.0, np.pi], [1, 1]),
        ([1.0, 2.0, 2.000001], [1, 1, 1]),
        ([1.0, 1e6], [1, MOST_COPIES]),
        ([1.0, 1e18], [1, 1]),
        ([1e-300, 1e150], [1, 1]),
        ([5e-324, 1e150, 0.0], [1, 1, 0]),
        ([0.0, 7.0], [0, 1]),
        ([], []),
    ],
)
def test_weights_that_are_whole_multiples_of_a_unit_are_counts(weight, counts) -> None:
    found = observation_counts(np.array(weight))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, counts)


@pytest.mark.slow
@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.floats(1e-100, 1e100))
def test_a_factor_on_all_weights_does_not_change_the_counts(weight: list[int], factor: float) -> None:
    once = observation_counts(np.array(weight, dtype=float))
    np.testing.assert_array_equal(observation_counts(factor * np.array(weight, dtype=float)), once)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30))
def test_with_a_weight_of_one_counts_are_the_weights(weight: list[int]) -> None:
    np.testing.assert_array_equal(observation_counts(np.array([1.0, *weight])), [1, *weight])


# -- folds -----------------------------------------------------------------------------------------


def pairs(
    draw_counts: list[list[int]], copies: bool = False
) -> tuple[np.ndarray, int, Observations, np.ndarray]:
    """Label, number of classes and observations of distinct rows with given counts by class."""
    counts = np.array(draw_counts)
    point, label = np.nonzero(counts)
    _, point = np.unique(point, return_inverse=True)
    return label.astype(np.int32), counts.shape[1], Observations(counts[counts > 0], point, copies), counts


COUNTS = st.integers(2, 3).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 30), min_size=k, max_size=k), min_size=1, max_size=40)
)


@pytest.mark.slow
@given(COUNTS)
def test_folds_hold_out_observations_class_by_class(counts: list[list[int]]) -> None:
    label, n_classes, observations, table = pairs(counts)
    folds = validation_folds(label, n_classes, observations) if len(label) else []
    if table.sum(axis=0).min() < 2:
        assert not folds
        return
    n_folds = 10 if table.sum() <= 500 else 5
    n_folds = min(n_folds, table.sum(axis=0).min())
    assert len(folds) == (n_folds if table.sum() <= 1500 else min(3, n_folds))
    for part in folds:
        assert ((part >= 0) & (part <= observations.count)).all()
        by_class = np.bincount(label, part, minlength=n_classes)
        expected = table.sum(axis=0) / n_folds
        assert (np.abs(by_class - expected) < 1).all()  # evenly spread
    if len(folds) == n_folds:
        np.testing.assert_array_equal(np.sum(folds, axis=0), observations.count)


@pytest.mark.slow
@given(COUNTS)
def test_copies_of_a_row_are_in_one_fold(counts: list[list[int]]) -> None:
    label, n_classes, observations, _ = pairs(counts, copies=True)
    folds = validation_folds(label, n_classes, observations) if len(label) else []
    for part in folds:
        held_out = np.isin(observations.point, observations.point[part > 0])
        np.testing.assert_array_equal(part, np.where(held_out, observations.count, 0))
        assert len(np.unique(label[part < observations.count])) == n_classes


@pytest.mark.parametrize("n", [60, 700, 2000])
def test_without_repeats_copies_make_no_difference(n: int) -> None:
    """Repeated rows that count as copies are assigned to folds like single rows."""
    label = np.random.default_rng(0).integers(0, 3, n).astype(np.int32)
    single = validation_folds(label, 3, Observations.single(n))
    repeated = validation_folds(label, 3, Observations(np.full(n, 10), np.arange(n), copies=True))
    assert len(single) == (10 if n <= 500 else 5 if n <= 1500 else 3)
    for one, ten in zip(single, repeated, strict=True):
        np.testing.assert_array_equal(10 * one, ten)


@pytest.mark.parametrize(
    ("n", "n_folds"),
    [(100, [10, 10, 10]), (1000, [5, 5, 5]), (1400, [5, 5, 5]), (1500, [5, 5]), (6000, [3]), (20_000, [1])],
)
def test_folds_are_repeated_until_there_are_enough_validation_rows(n: int, n_folds: list[int]) -> None:
    label = np.random.default_rng(0).integers(0, 2, n).astype(np.int32)
    found = repeated_folds(label, 2, Observations.single(n), n_rows=3000, most=3)
    assert [len(folds) for folds in found] == n_folds
    if n <= 1500:
        for folds in found:
            np.testing.assert_array_equal(np.sum(folds, axis=0), 1)
        assert not np.array_equal(found[0][0], found[1][0])


def test_few_rows_change_their_fold_if_one_is_left_out() -> None:
    label = np.random.default_rng(0).integers(0, 3, 400).astype(np.int32)
    every = np.array(validation_folds(label, 3, Observations.single(400)))
    fewer = np.array(validation_folds(label[1:], 3, Observations.single(399)))
    assert (every.argmax(axis=0)[1:] != fewer.argmax(axis=0)).sum() < 10


@pytest.mark.slow
@given(COUNTS, st.booleans(), st.integers(0, 2**31))
def test_shuffled_pairs_of_a_point_stay_together(counts: list[list[int]], copies: bool, seed: int) -> None:
    _, _, observations, _ = pairs(counts, copies)
    assume(len(observations.count))
    order, shuffled = observations.shuffled(seed)
    np.testing.assert_array_equal(shuffled.count, observations.count[order])
    assert (np.diff(shuffled.point) >= 0).all()
    same = observations.point[order][:, None] == observations.point[order]
    np.testing.assert_array_equal(same, shuffled.point[:, None] == shuffled.point)


def test_repeated_values_of_a_pair_are_averaged() -> None:
    """Equal repetitions change neither mean nor standard error; different ones have a fold error."""
    rng = np.random.default_rng(0)
    losses, weight = rng.exponential(size=50), rng.uniform(1, 2, size=50)
    rows = LabelledRows(np.empty((50, 0)), np.zeros(50, dtype=np.int32), weight, 2)
    once, twice = Validation.of(rows), np.tile(np.arange(50), 2)
    repeated = Validation(rows.take(twice), twice, np.ones(100), np.repeat([0, 1], 50))
    np.testing.assert_allclose(repeated.mean(losses[twice]), once.mean(losses), rtol=1e-12)
    halves = Validation(rows.take(twice), twice, np.full(100, 0.5), np.zeros(100, dtype=np.intp))
    np.testing.assert_allclose(halves.mean(losses[twice]), once.mean(losses), rtol=1e-12)
    assert np.isnan(once.fold_error(losses))
    assert repeated.fold_error(losses[twice]) == pytest.approx(0, abs=1e-12)
    higher = np.concatenate([losses, losses + 0.2])
    assert repeated.fold_error(higher) == pytest.approx(0.1)
    assert repeated.mean(higher)[0] == pytest.approx(once.mean(losses)[0] + 0.1)


def test_distinct_pairs_count_observations() -> None:
    X = np.array([[0.0], [1.0], [0.0], [0.0], [2.0]])
    codes, weight, count = np.array([0, 1, 1, 0, 1]), np.array([1.0, 2, 3, 4, 5]), np.array([1, 2, 3, 4, 5])
    found = distinct_pairs(X, codes, weight, count)
    assert len(found.label) == 4
    assert found.observations.n_points == 3
    assert (len(found.observations), found.weight.sum()) == (15, 15.0)
    rows = LabelledRows(X[found.positions], found.label, found.weight, 2)
    points, weights, counts = by_point(rows, found.observations)
    assert sorted(points[:, 0]) == [0.0, 1.0, 2.0]
    zero = int(np.flatnonzero(points[:, 0] == 0)[0])
    np.testing.assert_array_equal(weights[zero], [5.0, 3.0])
    np.testing.assert_array_equal(counts, weights)


@pytest.mark.parametrize("copies", [False, True])
def test_relative_weights_have_a_mean_of_one_per_observation(copies: bool) -> None:
    observations = Observations(np.array([1, 2, 3]), np.array([0, 0, 1]), copies)
    weight = np.array([0.3, 0.2, 0.7])
    relative = relative_weights(weight, observations)
    assert relative.sum() == pytest.approx(2 if copies else 6, rel=1e-6)
    np.testing.assert_array_equal(relative_weights(1e-80 * weight, observations), relative)


# -- discrete data ---------------------------------------------------------------------------------


def yes_no(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A yes/no feature with P(y = 1) = 0.2 and 0.8."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, n).astype(float)
    return x[:, None], (rng.random(n) < np.where(x > 0, 0.8, 0.2)).astype(int)


@pytest.mark.slow
def test_a_yes_no_feature_is_as_good_as_logistic_regression() -> None:
    losses = []
    for seed in range(20):
        X, y = yes_no(2000, seed)
        new, labels = yes_no(5000, 1000 + seed)
        models = CompactKLR().fit(X, y), LogisticRegression().fit(X, y)
        losses.append([log_loss(labels, model.predict_proba(new)) for model in models])
    ours, logistic = np.mean(losses, axis=0)
    assert ours <= 1.01 * logistic


def test_a_feature_that_is_the_label() -> None:
    X, _ = yes_no(2000, 0)
    model = CompactKLR().fit(X, X[:, 0])
    assert model.score(X, X[:, 0]) == 1
    assert model.predict_proba(X).max(axis=1).min() > 0.99
    assert model.validation_log_loss_ < 0.01


def arena(name: str) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Three stratified splits of a public table, 70% and at most 1500 rows for training."""
    if not (ARENA / f"{name}.csv.gz").exists():
        pytest.skip("set SPARSEKLR_DATA to a directory with arena/<name>.csv.gz")
    table = pd.read_csv(ARENA / f"{name}.csv.gz")
    y = table.pop("target").to_numpy().astype(str)
    for seed in range(3):
        n_train = min(1500, int(0.7 * len(y)))
        X, new, labels, new_labels = train_test_split(
            table.to_numpy(float), y, train_size=n_train, stratify=y, random_state=seed
        )
        yield X, labels, new, new_labels


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("titanic", 0.49), ("led7digit", 0.86)])
def test_tables_of_few_distinct_rows(name: str, most: float) -> None:
    losses, estimates = [], []
    for X, y, new, labels in arena(name):
        model = CompactKLR().fit(X, y)
        losses.append(log_loss(labels, model.predict_proba(new), labels=model.classes_))
        estimates.append(model.validation_log_loss_)
    assert np.mean(losses) <= most
    assert np.mean(estimates) == pytest.approx(np.mean(losses), rel=0.1)


# -- copies and weights ----------------------------------------------------------------------------


def noisy_moons() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return *make_moons(300, noise=0.4, random_state=0), *make_moons(5000, noise=0.4, random_state=1)


def losses_of(plain: CompactKLR, other: CompactKLR) -> tuple[float, float]:
    _, _, X, y = noisy_moons()
    return log_loss(y, plain.predict_proba(X)), log_loss(y, other.predict_proba(X))


@pytest.mark.slow
def test_a_common_weight_changes_nothing() -> None:
    X, y, new, _ = noisy_moons()
    plain, heavy = CompactKLR().fit(X, y), CompactKLR().fit(X, y, sample_weight=np.full(300, 10.0))
    np.testing.assert_array_equal(heavy.predict_proba(new), plain.predict_proba(new))


@pytest.mark.slow
def test_repeated_rows_that_are_copies() -> None:
    X, y, _, _ = noisy_moons()
    ten = CompactKLR().fit(np.repeat(X, 10, axis=0), np.repeat(y, 10))
    plain, repeated = losses_of(CompactKLR().fit(X, y), ten)
    assert repeated <= 1.02 * plain


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_an_oversampled_minority(weighted: bool) -> None:
    """Ten copies of each minority row are as good as a class weight of ten."""
    X, y, new, labels = noisy_moons()
    kept = np.flatnonzero((y == 0) | (np.arange(300) % 10 == 0))
    X, y = X[kept], y[kept]
    times = np.where(y == 1, 10, 1)
    if weighted:
        model = CompactKLR().fit(X, y, sample_weight=times)
    else:
        model = CompactKLR().fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    by_class = CompactKLR(class_weight={0: 1.0, 1: 10.0}).fit(X, y)
    found = log_loss(labels, model.predict_proba(new))
    assert found <= 1.02 * log_loss(labels, by_class.predict_proba(new))
    assert found < log_loss(labels, CompactKLR().fit(X, y).predict_proba(new))


@pytest.mark.slow
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("decimals", [None, 0])
def test_weights_are_bit_equal_to_repetitions(copies: bool, decimals, request) -> None:
    if copies:
        request.getfixturevalue("rows_are_copies")
    X, y, new, _ = noisy_moons()
    X = X if decimals is None else X.round(decimals)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    order = np.random.default_rng(1).permutation(weight.sum())
    weighted = CompactKLR().fit(X, y, sample_weight=weight)
    repeated = CompactKLR().fit(np.repeat(X, weight, axis=0)[order], np.repeat(y, weight)[order])
    np.testing.assert_array_equal(weighted.predict_proba(new), repeated.predict_proba(new))
    assert weighted.validation_log_loss_ == repeated.validation_log_loss_


@pytest.mark.slow
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 1: 1.0}])
@pytest.mark.parametrize("factor", [1e-9, 3.7, 1e100])
def test_a_factor_on_all_weights_changes_nothing(class_weight, factor: float) -> None:
    X, y, new, _ = noisy_moons()
    for weight in (
        np.random.default_rng(0).integers(0, 4, len(y)).astype(float),
        np.random.default_rng(0).lognormal(size=len(y)),
    ):
        one = CompactKLR(4, class_weight=class_weight).fit(X, y, sample_weight=weight)
        other = CompactKLR(4, class_weight=class_weight).fit(X, y, sample_weight=factor * weight)
        np.testing.assert_array_equal(other.predict_proba(new), one.predict_proba(new))
        assert other.validation_log_loss_ == one.validation_log_loss_


def test_the_weight_of_a_class_does_not_repeat_its_rows() -> None:
    """Class weights mean importance: the folds are unchanged, and the classes are balanced."""
    X, y = yes_no(2000, 0)
    rare = np.flatnonzero((y == 0) | (np.arange(2000) % 8 == 0))
    model = CompactKLR(class_weight="balanced").fit(X[rare], y[rare])
    logistic = LogisticRegression(class_weight="balanced").fit(X[rare], y[rare])
    given = [[0.0], [1.0]]
    np.testing.assert_allclose(model.predict_proba(given), logistic.predict_proba(given), atol=0.02)


# -- invariants ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_noise_gives_the_class_fractions_and_a_warning() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 3)), rng.random(200) < 0.3
    with pytest.warns(UserWarning, match="No signal found; the model predicts the class fractions"):
        model = CompactKLR().fit(X, y)
    assert model.n_points_ == 0
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[1 - y.mean(), y.mean()]])
    with pytest.warns(UserWarning, match=r"No signal found: with n_points=8"):
        assert CompactKLR(8).fit(X, y).n_points_ == 8
    with pytest.warns(UserWarning, match="all features are constant"):
        CompactKLR().fit(np.ones((200, 2)), y)


@pytest.mark.slow
def test_validation_loss_of_repeated_rows_is_not_too_small() -> None:
    """If equal rows were spread evenly over the folds, the validation loss would be 15% too small."""
    grid = np.array(np.meshgrid(*[np.arange(6.0)] * 3)).reshape(3, -1).T

    def sample(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = grid[rng.permutation(n) % len(grid)]
        return X, (rng.random(n) < 1 / (1 + np.exp(-2 * np.sin(X.sum(axis=1))))).astype(int)

    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        model = CompactKLR().fit(*sample(1000, rng))
        X, y = sample(20_000, rng)
        ratios.append(model.validation_log_loss_ / log_loss(y, model.predict_proba(X)))
    assert 0.95 < np.mean(ratios) < 1.05


def test_folds_of_large_weights_need_little_memory() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 4, (3000, 3)).astype(float), rng.integers(0, 2, 3000)
    weight = rng.choice([1.0, 1e6], 3000)  # 1.5e9 observations
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is no signal
        assert np.isfinite(CompactKLR().fit(X, y, sample_weight=weight).predict_proba(X)).all()
