"""Passes on a Dask cluster: bit-equal sums on any worker, even if a worker dies."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client, LocalCluster, get_task_stream
from pyarrow import parquet

from sparseklr import CompactKLR
from sparseklr.streaming import ArraySource, DaskSource, TableSource
from sparseklr.streaming.dask import ClusterBlocks
from sparseklr.streaming.fit import as_source, blocks_of
from sparseklr.streaming.passes import LocalBlocks, draw, summarise
from sparseklr.streaming.sources import Block

pytestmark = pytest.mark.slow

N, P = 150_000, 20
NAMES = [f"x{j}" for j in range(P)]


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "60s"}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="2GiB"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def make(start, stop):
    """Rows ``start`` to ``stop`` of the data, the same in any process."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, P))
    rows = np.arange(start, stop)
    return X[rows % 1000] + (rows[:, None] % 7) / 10


@pytest.fixture(scope="module")
def rows():
    return make(0, N), np.arange(N) % 3, np.ones(N)


def dask_rows(chunk):
    """A Dask array whose chunks are generated on the workers."""
    edges = [*range(0, N, chunk), N]
    parts = [da.from_delayed(dask.delayed(make)(a, b), (b - a, P), np.float64) for a, b in pairwise(edges)]
    return da.concatenate(parts)


class Centred:
    """Prepared blocks; a module-level class, so that workers can load it."""

    def __call__(self, block):
        return Block(block.start, (block.X - 0.3).astype(np.float32), block.y)


def squares(block):
    time.sleep(0.01)
    X = block.X.astype(np.float64)
    return X.T @ X


def same(summary, expected):
    return summary.labels == expected.labels and all(
        np.array_equal(getattr(summary, name), getattr(expected, name))
        for name in ("mean", "second", "third", "least", "greatest")
    )


def test_chunks_of_any_size_have_the_sums_of_arrays(client, rows):
    X, y, _ = rows
    source = ArraySource(X, y)
    expected = summarise(LocalBlocks(source, 2), source)
    dask_source = as_source(dask_rows(47_001), da.from_array(y, chunks=80_000))
    assert isinstance(dask_source, DaskSource)
    assert isinstance(blocks_of(dask_source), LocalBlocks)  # no default client
    blocks = blocks_of(dask_source.on(client))
    assert isinstance(blocks, ClusterBlocks)
    done = []
    assert same(summarise(blocks, dask_source, done.append), expected)
    assert sum(done) == N
    assert same(summarise(LocalBlocks(dask_source, 2), dask_source), expected)

    local, mapped = LocalBlocks(source, 2).map(Centred()), blocks.map(Centred())
    np.testing.assert_array_equal(local.sum(squares), mapped.sum(squares))
    a, b = (draw(part, np.array([0.03]), salt=1) for part in (local, mapped))
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)


def test_work_is_distributed_and_a_pass_is_one_task_per_part(client, rows):
    """A single chunk is split between both workers; a pass then sends one task per part."""
    _, y, _ = rows
    blocks = ClusterBlocks(DaskSource(dask_rows(N), da.from_array(y)), client).map(Centred())
    first = blocks.sum(squares)
    held = client.who_has([part for _, part in blocks.parts])
    assert len({worker for workers in held.values() for worker in workers}) == 2
    assert sum(blocks.lengths) == N

    with get_task_stream(client) as stream:
        np.testing.assert_array_equal(blocks.sum(squares), first)
    assert len(stream.data) == len(blocks.parts) == 4


def test_parts_stay_on_their_worker_up_to_its_fraction(client):
    """If one of two workers has all five parts, two of them move; parts without a worker are distributed."""
    a, b = sorted(client.nthreads())
    blocks = ClusterBlocks(DaskSource(dask_rows(N)), client)
    assert blocks._places([[a]] * 5) == [a, a, a, b, b]
    assert blocks._places([[b], [a], [b], [a]]) == [b, a, b, a]
    assert sorted(blocks._places([()] * 4)) == [a, a, b, b]


def test_rows_of_a_data_frame_are_read_once(client, tmp_path):
    def read(k):
        (tmp_path / f"{k}-{time.perf_counter_ns()}").touch()
        return pd.DataFrame(make(k * 50_000, (k + 1) * 50_000), columns=NAMES).assign(y=np.arange(50_000) % 3)

    data = dd.from_map(read, range(3), meta=read(0))
    for file in tmp_path.iterdir():
        file.unlink()
    with client.as_current():
        source = as_source(data[NAMES])  # of unknown length
        blocks = blocks_of(source)
        for _ in range(2):
            summarise(blocks, source)
    assert sorted(file.name.split("-")[0] for file in tmp_path.iterdir()) == ["0", "1", "2"]


def test_files_on_the_workers(client, rows, tmp_path):
    X, y, _ = rows
    for k in range(3):
        part = slice(k * 50_000, (k + 1) * 50_000)
        columns = {name: X[part, j] for j, name in enumerate(NAMES)}
        parquet.write_table(
            pa.table({**columns, "y": y[part]}), tmp_path / f"{k}.parquet", row_group_size=15_000
        )
    source = TableSource(tmp_path, "y")
    expected = summarise(LocalBlocks(source), source)
    assert same(summarise(blocks_of(source.on(client)), source), expected)


def test_data_frame_with_unknown_divisions_and_categories(client, rows):
    X, y, _ = rows
    labels = np.array(["a", "b", "c"])[y]
    frame = pd.DataFrame(X, columns=NAMES).assign(label=pd.Categorical(labels))
    data = dd.from_pandas(frame, npartitions=5).clear_divisions()
    data = data[data.x0 > -10]  # nobody knows how many rows are left
    source = DaskSource(data[NAMES], data.label)
    assert source.n_rows == N
    assert source.feature_names == NAMES
    arrays = ArraySource(X, labels)
    expected = summarise(LocalBlocks(arrays), arrays)
    assert same(summarise(ClusterBlocks(source, client), source), expected)
    unknown = data[NAMES].to_dask_array()  # chunks of unknown length
    assert DaskSource(unknown, data.label.to_dask_array()).n_rows == N
    assert np.isnan(unknown.shape[0])  # the user's array stays as it is


def test_bad_collections(rows):
    X, y, _ = rows
    with pytest.raises(ValueError, match=r"y must have one entry per row of X, \(150000,\).*got \(149999,\)"):
        DaskSource(dask_rows(100_000), y[1:])
    with pytest.raises(TypeError, match="X must be a Dask collection"):
        as_source(X, da.from_array(y))
    with pytest.raises(ValueError, match="two dimensions"):
        DaskSource(da.from_array(y))
    frame = dd.from_pandas(pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}), npartitions=1)
    with pytest.raises(ValueError, match="X must contain numbers"):
        DaskSource(frame)
    source = as_source(da.where(dask_rows(100_000) > 3.9, np.nan, 1.0), y)
    with pytest.raises(ValueError, match=r"row \d+: feature \d+ is nan"):
        summarise(LocalBlocks(source), source)


def test_error_on_a_worker_names_the_row(client, rows):
    X, y, _ = rows
    X = X.copy()
    X[120_000, 3] = np.inf
    source = as_source(da.from_array(X, chunks=(50_000, P)), y).on(client)
    with pytest.raises(ValueError, match="row 120000: feature 3 is inf"):
        summarise(blocks_of(source), source)


def test_compact_klr_on_a_cluster(client, rows):
    """The model is bit-equal, and predictions stay on the cluster until they are computed."""
    X, y, _ = rows
    model = CompactKLR(n_points=3).fit(X, y)
    chunks, labels = dask_rows(47_001), da.from_array(y, chunks=80_000)
    with client.as_current():
        other = CompactKLR(n_points=3).fit(chunks, labels)
    for name in ("points_", "dual_coef_", "intercept_", "relevance_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name))
    lazy = client.compute(other.predict_proba(chunks)[:1000]).result()
    np.testing.assert_array_equal(lazy, model.predict_proba(X[:1000]))


def test_dead_worker_costs_its_blocks_only(client, rows):
    """One of two workers is killed during the passes; the sums are bit-equal."""
    X, y, _ = rows
    expected = LocalBlocks(ArraySource(X, y), 2).map(Centred()).sum(squares)
    blocks = ClusterBlocks(DaskSource(dask_rows(10_000), da.from_array(y, chunks=100_000)), client).map(
        Centred()
    )
    assert len(blocks.parts) == 10  # more than one task merges
    np.testing.assert_array_equal(blocks.sum(squares), expected)
    victims = list(client.run(os.getpid).values())
    killed = []

    def kill(_):
        if not killed:
            killed.append(victims[0])
            os.kill(victims[0], signal.SIGKILL)

    np.testing.assert_array_equal(blocks.sum(squares, kill), expected)
    assert killed
    np.testing.assert_array_equal(blocks.sum(squares), expected)
