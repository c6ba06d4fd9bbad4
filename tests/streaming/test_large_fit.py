"""CompactKLR on many rows: streamed, with the same result from every container."""

from __future__ import annotations

import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.base import clone
from support.large_rows import N, assert_same

from sparseklr import CompactKLR
from sparseklr.datasets import expected_log_loss, make_clusters, make_ringnorm, make_waveform, true_log_proba
from sparseklr.streaming import ArraySource, GeneratorSource, NpySource
from sparseklr.streaming.fit import RowProgress

pytestmark = pytest.mark.numerical


def frame_of(X, y):
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)


# -- what is fitted ----------------------------------------------------------------------------


@pytest.mark.slow
def test_log_loss_is_near_the_bayes_optimum():
    """The fit has the full size of 60,000 rows, a fifth of which are validation rows."""
    X, y = make_ringnorm(60_000, random_state=0)
    model = CompactKLR().fit(X, y)
    fresh, _ = make_ringnorm(20_000, random_state=1)
    truth = true_log_proba("ringnorm", fresh)
    best = expected_log_loss(truth, truth).mean()
    assert expected_log_loss(truth, model.predict_log_proba(fresh)).mean() < 1.03 * best
    assert model.n_points_ <= 4
    assert len(model.search_results_["n_points"]) >= 3
    assert model.validation_log_loss_ < 1.1 * best
    assert model.gradient_norm_ < 1e-3


@pytest.mark.slow
def test_three_classes(small_is_large):
    X, y = make_waveform(N, random_state=0)
    names = np.array(["a", "b", "c"])[y]
    model = CompactKLR(max_points=12).fit(X, names)
    fresh, _ = make_waveform(5000, random_state=1)
    truth = true_log_proba("waveform", fresh)
    best = expected_log_loss(truth, truth).mean()
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert expected_log_loss(truth, model.predict_log_proba(fresh)).mean() < 1.15 * best


@pytest.mark.slow
def test_more_rows_support_more_points(small_is_large):
    X, y = make_clusters(N, random_state=0)
    few, many = (CompactKLR(max_points=most).fit(X, y) for most in (4, 32))
    assert few.n_points_ <= 4 < many.n_points_
    assert many.validation_log_loss_ < 0.9 * few.validation_log_loss_


@pytest.mark.parametrize("given", [{"n_points": 3}, {"C": 5.0, "n_points": 2}, {"relevance": "shared"}])
def test_given_parameters_are_used(small_is_large, ring, given):
    model = CompactKLR(max_points=4, **given).fit(*ring)
    assert model.n_points_ == given.get("n_points", model.n_points_)
    assert pytest.approx(given.get("C", model.C_)) == model.C_
    if "relevance" in given:
        assert np.ptp(model.relevance_) < 1e-12


@pytest.mark.slow
def test_weights_and_classes(small_is_large, ring):
    """Rows of weight zero, and classes of only such rows, do not count; balanced classes weigh the same."""
    X, y = ring
    weight = np.where(np.arange(N) % 3 == 0, 0.0, 1.0)
    labels = np.where(np.arange(N) == 0, 7, y)
    junk = np.where(weight[:, None] == 0, 1e6 * np.ones_like(X), X)
    model, other = (CompactKLR(n_points=2).fit(data, labels, weight) for data in (X, junk))
    assert_same(model, other)
    assert model.classes_.tolist() == [0, 1]
    rare = np.flatnonzero((y == 0) | (np.arange(N) % 5 == 0))
    balanced = CompactKLR(n_points=2, class_weight="balanced").fit(X[rare], y[rare])
    share = y[rare].mean()
    by_hand = CompactKLR(n_points=2, class_weight={0: 0.5 / (1 - share), 1: 0.5 / share}).fit(
        X[rare], y[rare]
    )
    np.testing.assert_allclose(balanced.predict_proba(X[:100]), by_hand.predict_proba(X[:100]), rtol=1e-6)
    plain = CompactKLR(n_points=2).fit(X[rare], y[rare])
    assert balanced.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    with pytest.raises(ValueError, match="class_weight must be non-negative"):
        CompactKLR(class_weight={0: -1.0}).fit(X, y)
    with pytest.raises(ValueError, match="at least two classes"):
        CompactKLR(class_weight={0: 0.0}).fit(X, y)


def test_constant_and_skewed_features(small_is_large, ring):
    X, y = ring
    odd = np.column_stack([X, np.full(N, 3.0), np.exp(2 * X[:, 0])])
    model = CompactKLR(n_points=2).fit(odd, y)
    assert model.relevance_[6] == 0
    assert (model.points_[:, 6] == 3.0).all()
    assert list(model.scaling_.knots) == [6]  # the last feature is number 6 of those that vary
    assert model.score(odd, y) > 0.85
    constant = CompactKLR().fit(np.ones((N, 2)), y)
    assert constant.n_points_ == 0
    np.testing.assert_allclose(constant.predict_proba(np.ones((1, 2)))[0, 1], y.mean(), atol=0.02)


def test_warm_start_continues(small_is_large, ring):
    X, y = ring
    model = CompactKLR(n_points=2, warm_start=True).fit(X, y)
    n_iter = model.n_iter_
    again = clone(model)
    again.__dict__.update(model.__dict__)
    again.fit(X, y)
    assert again.n_iter_ < n_iter
    assert again.C_ == model.C_
    assert len(again.search_results_["n_points"]) == 0
    np.testing.assert_allclose(again.predict_proba(X[:100]), model.predict_proba(X[:100]), atol=1e-3)


@pytest.mark.slow
def test_features_of_noise_are_dropped(small_is_large, ring):
    X, y = ring
    wide = np.column_stack([X, np.random.default_rng(0).normal(5.0, size=(N, 6))])
    model = CompactKLR(relevance="sparse", max_points=2).fit(wide, y)
    assert set(range(6)) <= set(model.get_support(indices=True)) < set(range(12))
    dropped = ~model.get_support()
    np.testing.assert_allclose(model.points_[:, dropped], 5.0, atol=0.1)
    assert model.score(wide, y) > 0.8


def test_labels_that_are_noise(small_is_large, ring):
    """No model is better than the class fractions by more than the noise of the validation rows."""
    X, _ = ring
    y = np.random.default_rng(1).integers(2, size=N)
    model = CompactKLR().fit(X, y)
    found = model.search_results_
    assert found["log_loss"][0] <= (found["log_loss"] + found["standard_error"]).min()
    assert model.n_points_ == 0
    assert abs(model.predict_proba(X)[:, 1] - y.mean()).max() < 0.02


# -- containers --------------------------------------------------------------------------------


@pytest.mark.slow
def test_same_model_from_every_container(small_is_large, ring, tmp_path):
    X, y = ring
    settings = {"max_points": 4}
    model = CompactKLR(**settings).fit(X, y)
    frame = frame_of(X, y)
    for k, part in enumerate(np.array_split(np.arange(N), 3)):
        parquet.write_table(pa.Table.from_pandas(frame.iloc[part]), tmp_path / f"part-{k}.parquet")
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    halves = [(X[:5000], y[:5000]), (X[5000:], y[5000:])]
    for source in (
        ArraySource(X, y),
        NpySource(tmp_path / "X.npy", tmp_path / "y.npy"),
        GeneratorSource(lambda: halves),
    ):
        assert_same(CompactKLR(n_jobs=2, **settings).fit_source(source), model)
    assert_same(CompactKLR(**settings).fit_source(tmp_path / "part-*.parquet", "y"), model)
    assert_same(CompactKLR(**settings).fit_source(str(tmp_path / "X.npy"), tmp_path / "y.npy"), model)
    assert_same(CompactKLR(**settings).fit_source(lambda: halves), model)
    with pytest.raises(TypeError, match=r"got str\. Use fit_source"):
        CompactKLR().fit(str(tmp_path / "X.npy"), y)
    with pytest.raises(TypeError, match=r"y must be the name of a column.*got ndarray"):
        CompactKLR().fit_source(tmp_path / "part-*.parquet", y)
    assert_same(
        CompactKLR(**settings).fit(da.from_array(X, chunks=(3333, 2)), da.from_array(y, chunks=5000)), model
    )
    data = dd.from_pandas(frame, npartitions=4).clear_divisions()
    named = CompactKLR(**settings).fit(data.drop(columns="y"), data.y)
    assert_same(named, model)
    assert named.feature_names_in_.tolist() == [f"x{j}" for j in range(6)]


def test_small_source_is_fitted_like_arrays(ring):
    X, y = ring[0][:400], ring[1][:400]
    settings = {"n_points": 2, "C": 10.0}
    assert_same(CompactKLR(**settings).fit_source(ArraySource(X, y)), CompactKLR(**settings).fit(X, y))
    named = CompactKLR(**settings).fit_source(ArraySource(frame_of(X, y).drop(columns="y"), y))
    assert named.feature_names_in_.tolist() == [f"x{j}" for j in range(6)]


def test_class_that_appears_only_in_the_last_block(small_is_large, ring):
    X, y = ring
    labels = y.copy()
    labels[-300:] = 2
    model = CompactKLR(n_points=3).fit(X, labels)
    assert model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="at least two classes"):
        CompactKLR().fit(X, np.zeros(N))
    with pytest.raises(ValueError, match="a fit needs labels"):
        CompactKLR().fit_source(ArraySource(X))
    holed = np.where(np.arange(N * 6).reshape(N, 6) == N * 6 - 4, np.nan, X)
    with pytest.raises(ValueError, match=r"row 11999: feature 2 is nan"):
        CompactKLR().fit_source(ArraySource(holed, y))


def test_prediction_of_dask_collections_is_lazy(ring):
    X, y = ring[0][:2000], ring[1][:2000]
    model = CompactKLR(n_points=2, C=10.0).fit(X, y)
    calls = []

    def chunk(block):
        calls.append(len(block))
        return block

    rows = da.from_array(X, chunks=(700, 3)).map_blocks(chunk, dtype=float, meta=np.empty((0, 0)))
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        calls.clear()
        lazy = getattr(model, method)(rows)
        assert isinstance(lazy, da.Array)
        assert not calls
        expected = getattr(model, method)(X)
        assert lazy.shape == expected.shape
        assert lazy.dtype == expected.dtype
        np.testing.assert_array_equal(lazy.compute(scheduler="sync"), expected)
    named = CompactKLR(n_points=2, C=10.0).fit(frame_of(X, y).drop(columns="y"), y)
    data = dd.from_pandas(frame_of(X, y).drop(columns="y"), npartitions=3)
    np.testing.assert_array_equal(named.predict_proba(data).compute(), model.predict_proba(X))
    with pytest.raises(ValueError, match="feature names"), dask.config.set(scheduler="sync"):
        named.predict_proba(data.rename(columns={"x0": "z"})).compute()


def test_progress_names_stages_and_rates(small_is_large, ring, capsys, monkeypatch):
    clock = iter(np.arange(0, 1e6, 0.4))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    shown = []
    progress = RowProgress(lambda text, fraction: shown.append((text, fraction)), n_rows=1000)
    progress.stage("all rows", 0.5, n_passes=2)
    for _ in range(4):
        progress.each(500)
    assert shown[0] == ("all rows", 0.5)
    assert "million rows/s, at most" in shown[-1][0]
