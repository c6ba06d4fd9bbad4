"""Sources: the same rows and the same sums from every container, and clear errors for bad ones."""

from __future__ import annotations

import gzip
import pickle
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, feather, parquet
from scipy import sparse
from scipy.stats import kstest, skew

from sparseklr.streaming import ArraySource, GeneratorSource, NpySource, TableSource
from sparseklr.streaming.fit import as_source
from sparseklr.streaming.passes import (
    LocalBlocks,
    class_fractions,
    draw,
    grow,
    merge,
    root,
    summarise,
    uniform,
)
from sparseklr.streaming.sources import Block

N, P = 40_000, 6
NAMES = [f"x{j}" for j in range(P)]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P)) + 3.0
    X[:, 1] = np.exp(X[:, 1])
    X[:, 2] = rng.integers(5, size=N)
    return X, rng.integers(3, size=N), rng.integers(4, size=N) / 2.0


@pytest.fixture(scope="module")
def reference(rows):
    source = ArraySource(*rows)
    return source, summarise(LocalBlocks(source), source)


def table(rows, part=slice(None)):
    X, y, weight = (column[part] for column in rows)
    return pa.table({**{name: X[:, j] for j, name in enumerate(NAMES)}, "y": y, "w": weight})


def in_parts(rows, folder: Path, write, suffix, cuts=(0, 9_000, 9_000, 25_001, N)):
    """Files of unequal size, one of them without rows."""
    for k, (start, stop) in enumerate(pairwise(cuts)):
        write(table(rows, slice(start, stop)), folder / f"part-{k}{suffix}")
    return folder


def write_parquet(part, path):
    parquet.write_table(part, path, row_group_size=3_333)


def chunks(rows):
    def factory():
        for start in range(0, N, 7_777):
            yield tuple(column[start : start + 7_777] for column in rows)

    return factory


def npy(rows, folder):
    for name, column in zip(("X", "y", "w"), rows, strict=True):
        np.save(folder / f"{name}.npy", column)
    return NpySource(folder / "X.npy", folder / "y.npy", folder / "w.npy")


def columns(**more):
    return {"target": "y", "weight": "w", **more}


CONTAINERS = {
    "array in Fortran order": lambda rows, _: ArraySource(np.asfortranarray(rows[0]), *rows[1:]),
    "frame": lambda rows, _: ArraySource(pd.DataFrame(rows[0], columns=NAMES), *rows[1:]),
    "CSR": lambda rows, _: ArraySource(sparse.csr_array(rows[0]), *rows[1:]),
    "npy": npy,
    "generator": lambda rows, _: GeneratorSource(chunks(rows)),
    "parquet": lambda rows, folder: TableSource(
        str(in_parts(rows, folder, write_parquet, ".parquet") / "part-*.parquet"),
        **columns(),
    ),
    "folder of feather": lambda rows, folder: TableSource(
        in_parts(rows, folder, feather.write_feather, ".feather"), **columns()
    ),
    "csv": lambda rows, folder: TableSource(in_parts(rows, folder, csv.write_csv, ".csv"), **columns()),
}  # fmt: skip


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_has_the_same_rows_and_sums(container, rows, reference, tmp_path):
    expected_source, expected = reference
    source = CONTAINERS[container](rows, tmp_path)
    assert (source.n_rows, source.n_features) == (N, P)
    for given_again in (source, pickle.loads(pickle.dumps(source)) if container != "generator" else source):
        for block, other in zip(given_again.blocks(), expected_source.blocks(), strict=True):
            assert block.start == other.start
            assert block.X.flags.c_contiguous
            for part in ("X", "y", "weight"):
                np.testing.assert_array_equal(getattr(block, part), getattr(other, part))
    (middle,) = source.blocks(1, 2)
    np.testing.assert_array_equal(middle.X, rows[0][middle.start : middle.start + len(middle)])
    summary = summarise(LocalBlocks(source, n_jobs=2), source)
    assert summary.labels == expected.labels
    for name in ("mean", "second", "third", "least", "greatest"):
        np.testing.assert_array_equal(getattr(summary, name), getattr(expected, name))


def test_summary_with_weights_equals_repeated_rows(rows, reference):
    X, y, weight = rows
    again = np.repeat(np.arange(N), (2 * weight).astype(int))
    summary = reference[1]
    np.testing.assert_allclose(summary.mean, X[again].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(summary.std, X[again].std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(summary.skewness, skew(X[again]), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(summary.greatest, X[again].max(axis=0))
    assert summary.classes.tolist() == [0, 1, 2]
    for label, (count, total) in summary.labels.items():
        of_class = (y == label) & (weight > 0)
        assert count == of_class.sum()
        np.testing.assert_allclose(total, weight[of_class].sum(), rtol=1e-14)
    assert summary.n_rows == N


def test_class_of_weight_zero_does_not_exist():
    source = ArraySource(np.ones((4, 1)), ["a", "b", "a", "c"], [1, 1, 0, 0])
    assert summarise(LocalBlocks(source), source).classes.tolist() == ["a", "b"]


# -- the tree ----------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.data(), st.integers(1, 70))
def test_sum_does_not_depend_on_the_order_of_additions(data, n):
    """Numbers whose floating-point sum depends on the order are added in sequence and in random parts."""
    rng = np.random.default_rng(n)
    leaves = [((0, k), x) for k, x in enumerate(rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, size=n))]
    expected = root(grow({}, leaves, n))
    assert abs(expected - sum(x for _, x in leaves)) <= 1e-15 * n * sum(abs(x) for _, x in leaves)
    cuts = sorted({0, n, *data.draw(st.lists(st.integers(0, n), max_size=6))})
    forests = [grow({}, leaves[a:b], n) for a, b in pairwise(cuts)]
    for forest, (a, b) in zip(forests, pairwise(cuts), strict=True):
        assert len(forest) <= 2 * np.log2(b - a) + 2
    forests = data.draw(st.permutations(forests))
    assert root(merge(*forests, n_leaves=n)) == expected


def test_lists_keep_the_order_of_the_blocks(rows):
    blocks = LocalBlocks(ArraySource(*rows), n_jobs=2)
    done = []
    starts = blocks.sum(lambda block: [block.start], done.append)
    assert starts == sorted(starts)
    assert sum(done) == N
    assert done[0] == blocks.source.block_rows


@pytest.mark.parametrize("room", [0, 300_000, 1e9])
def test_mapped_blocks_are_cached_within_the_memory_limit(rows, room):
    calls = []

    def prepare(block):
        calls.append(block.start)
        return Block(block.start, (block.X - 3).astype(np.float32), block.y)

    blocks = LocalBlocks(ArraySource(*rows), n_jobs=2)
    mapped = blocks.map(prepare, memory=room)
    first = mapped.sum(lambda block: block.X.sum(axis=0, dtype=np.float64))
    n_first = len(calls)
    again = mapped.sum(lambda block: block.X.sum(axis=0, dtype=np.float64))
    np.testing.assert_array_equal(first, again)
    assert n_first == blocks.n_blocks
    size = blocks.source.block_rows * (4 * P + 8)
    assert len(calls) - n_first == blocks.n_blocks - min(blocks.n_blocks, int(room // size))
    twice = mapped.map(lambda block: Block(block.start, 2 * block.X))
    np.testing.assert_allclose(twice.sum(lambda block: block.X.sum(axis=0, dtype=np.float64)), 2 * first)


def test_error_in_a_block_ends_the_pass(rows):
    def fail(block):
        raise ZeroDivisionError(block.start)

    with pytest.raises(ZeroDivisionError):
        LocalBlocks(ArraySource(*rows), n_jobs=2).sum(fail)


# -- samples -----------------------------------------------------------------------------------


def test_hash_is_uniform_and_salts_are_independent():
    numbers = np.arange(200_000)
    a, b = uniform(numbers, 0), uniform(numbers, 1)
    assert kstest(a, "uniform").pvalue > 0.01
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(len(a))
    assert abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < 4 / np.sqrt(len(a))
    np.testing.assert_array_equal(uniform(numbers[1000:1010], 0), a[1000:1010])


def test_samples_are_nested_and_balanced_ones_are_reweighted(rows):
    X, _, weight = rows
    y = (np.arange(N) % 100 == 0).astype(int)
    blocks, counts = LocalBlocks(ArraySource(X, y, weight)), np.bincount(y)
    small, large = (draw(blocks, class_fractions(n, counts), salt=3) for n in (500, 2000))
    assert abs(len(large) - 2000) < 5 * np.sqrt(2000)
    np.testing.assert_array_equal(small.X, large.X[: len(small)])
    first = np.array([np.flatnonzero((row == X).all(axis=1))[0] for row in large.X[:200]])
    assert abs(first.mean() - N / 2) < 5 * N / np.sqrt(12 * 200)  # in random order
    shares = class_fractions(2000, counts, least=300)
    balanced = draw(blocks, shares, salt=3)
    assert shares[1] == 0.75
    assert (balanced.y == 1).sum() > 250
    for label in (0, 1):
        estimate = balanced.weight[balanced.y == label].sum() / shares.max()
        exact = weight[y == label].sum()
        assert abs(estimate - exact) < 5 * exact / np.sqrt((balanced.y == label).sum())
    everything = draw(blocks, class_fractions(10 * N, counts))
    np.testing.assert_array_equal(np.sort(everything.X[:, 0]), np.sort(X[:, 0]))
    with pytest.raises(ValueError, match="the sample is empty"):
        draw(blocks, np.array([1e-12]))


# -- tables ------------------------------------------------------------------------------------


def test_partitions_filters_and_chosen_columns(tmp_path, rows):
    whole = table(rows).append_column("year", pa.array(np.arange(N) % 4 + 2020))
    parquet.write_to_dataset(whole, tmp_path / "set", partition_cols=["year"])
    (tmp_path / "set" / "_SUCCESS").touch()
    source = TableSource(tmp_path / "set", "y", features=["x3", "year"], filter=pc.field("year") >= 2022)
    assert source.n_rows == N // 2
    assert source.feature_names == ["x3", "year"]
    (block,) = source.blocks(0, 1)
    assert set(block.X[:, 1]) <= {2022, 2023}
    some = TableSource(tmp_path / "set", "y", drop=["w"], filter=pc.field("x0") > 3)
    assert some.n_rows == (rows[0][:, 0] > 3).sum() == sum(map(len, some.blocks()))
    assert "w" not in some.feature_names
    assert "year" in some.feature_names


@pytest.mark.slow
def test_text_labels_categories_float32_and_compressed_csv(tmp_path, rows):
    X, y, _ = rows
    names = np.array(["ham", "spam", "eggs"])[y]
    frame = pd.DataFrame(X.astype(np.float32), columns=NAMES).assign(y=names, flag=y > 0)
    frame.assign(y=frame.y.astype("category")).to_parquet(tmp_path / "a.parquet")
    source = TableSource(tmp_path / "a.parquet", "y", drop=["flag"])
    block = next(source.blocks())
    assert block.X.dtype == np.float32
    np.testing.assert_array_equal(block.y, names[: len(block)])
    frame.to_csv(tmp_path / "a.csv", index=False)
    with open(tmp_path / "a.csv", "rb") as plain, gzip.open(tmp_path / "b.csv.gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    packed_source = TableSource(tmp_path / "b.csv.gz", "y")
    block = next(packed_source.blocks())
    assert packed_source.n_features == P + 1
    np.testing.assert_array_equal(block.X[:, -1], (y > 0)[: len(block)])
    np.testing.assert_array_equal(block.y, names[: len(block)])


def test_csv_whose_first_lines_look_like_whole_numbers(tmp_path):
    lines = ["a,y", *["1,0"] * 300_000, "2.5,1"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    source = TableSource(tmp_path / "a.csv", "y")
    assert summarise(LocalBlocks(source), source).greatest.tolist() == [2.5]


def write_parts(folder, *tables):
    for k, part in enumerate(tables):
        parquet.write_table(pa.table(part), folder / f"part-{k}.parquet")
    return str(folder / "part-*.parquet")


GOOD = {"a": [1.0, 2.0, 3.0], "b": [1, 2, 3], "y": [0, 1, 0]}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"a": [1.0], "y": [1]}, r"part-1\.parquet: there is no column 'b'; the columns are a, y"),
        ({"a": ["one"], "b": [1], "y": [1]}, r"part-1\.parquet: column 'a' is of type string; expected"),
        ({"a": [1.0], "b": [1], "y": ["1"]}, r"part-1\.parquet: column 'y' is of type string; in .*int64"),
        ({"a": [1.0, np.nan], "b": [1, 2], "y": [0, 1]}, r"part-1\.parquet, row 2 .*: feature 'a' is nan"),
        ({"a": [1.0, 2.0], "b": [None, 2], "y": [0, 1]}, r"part-1\.parquet, row 1 .*: feature 'b' is nan"),
        ({"a": [1.0, np.inf], "b": [1, 2], "y": [0, 1]}, r"part-1\.parquet, row 2 .*: feature 'a' is inf"),
        ({"a": [1.0, 2.0], "b": [1, 2], "y": [0, None]}, r"part-1\.parquet, row 2 .*: the label \('y'\) is"),
    ],
)  # fmt: skip
def test_bad_part(tmp_path, second, message):
    pattern = write_parts(tmp_path, GOOD, second)
    with pytest.raises(ValueError, match=message):
        summarise(LocalBlocks(source := TableSource(pattern, "y")), source)


def test_part_of_another_number_type_and_without_rows(tmp_path):
    empty = {"a": pa.array([], pa.float64()), "b": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}
    other = {"a": pa.array([4, 5], pa.int32()), "b": [0.5, 1.5], "y": pa.array([1, 1], pa.int8())}
    source = TableSource(write_parts(tmp_path, GOOD, empty, other), "y")
    (block,) = source.blocks()
    np.testing.assert_array_equal(block.X, [[1, 1], [2, 2], [3, 3], [4, 0.5], [5, 1.5]])
    assert block.y.tolist() == [0, 1, 0, 1, 1]
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    with pytest.raises(ValueError, match=r"part-0\.parquet: there are no rows"):
        TableSource(write_parts(tmp_path, empty), "y").n_rows  # noqa: B018


def test_bad_tables(tmp_path):
    pattern = write_parts(tmp_path, GOOD)
    with pytest.raises(ValueError, match=r"target='z' is not a column .*a, b, y"):
        TableSource(pattern, "z")
    with pytest.raises(ValueError, match="feature 'z' is not a column"):
        TableSource(pattern, "y", features=["a", "z"])
    with pytest.raises(ValueError, match="there is no feature column"):
        TableSource(pattern, "y", drop=["a", "b"])
    with pytest.raises(FileNotFoundError, match="no file matches"):
        TableSource(tmp_path / "none-*.parquet", "y")
    with pytest.raises(FileNotFoundError, match="no such file"):
        TableSource(tmp_path / "none.parquet", "y")
    (tmp_path / "a.bin").touch()
    with pytest.raises(ValueError, match="suffix does not determine"):
        TableSource(tmp_path / "a.bin", "y")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no, it is not")
    with pytest.raises(ValueError, match=r"broken\.parquet.*cannot be read as parquet"):
        TableSource(tmp_path / "broken.parquet", "y")
    (tmp_path / "bad.csv").write_text("a,y\n1,0\n2,1\n" * 1 + "3,0,7\n")
    with pytest.raises(ValueError, match=r"bad\.csv.*cannot be read as csv"):
        summarise(LocalBlocks(source := TableSource(tmp_path / "bad.csv", "y")), source)


# -- other bad input ---------------------------------------------------------------------------


def test_bad_arrays():
    X, y = np.zeros((10, 2)), np.arange(10) % 2
    with pytest.raises(ValueError, match=r"X must have two dimensions"):
        ArraySource(y, y)
    with pytest.raises(ValueError, match=r"y must have one entry per row of X, \(10,\).*got \(9,\)"):
        ArraySource(X, y[1:])
    with pytest.raises(ValueError, match=r"sample_weight must have one entry per row"):
        ArraySource(X, y, np.ones((10, 1)))
    with pytest.raises(ValueError, match="no rows"):
        ArraySource(X[:0], y[:0]).n_rows  # noqa: B018
    with pytest.raises(ValueError, match="y and sample_weight must be None"):
        as_source(ArraySource(X, y), y)
    for weight, message in ((-1.0, "row 0: the weight is -1.0"), (np.nan, "the weight is nan")):
        source = ArraySource(X, y, np.full(10, weight))
        with pytest.raises(ValueError, match=message):
            summarise(LocalBlocks(source), source)
    for labels in (np.where(y == 1, np.nan, 0.0), np.where(y == 1, None, "a")):
        source = ArraySource(X, labels)
        with pytest.raises(ValueError, match="row 1: the label is"):
            summarise(LocalBlocks(source), source)
    source = ArraySource(X, np.array(["a", 1] * 5, dtype=object))
    with pytest.raises((ValueError, TypeError)):
        summarise(LocalBlocks(source), source)


def test_bad_generators():
    X, y = np.zeros((10, 2)), np.arange(10) % 2
    with pytest.raises(TypeError, match="new iterator each time"):
        GeneratorSource((X, y))
    with pytest.raises(ValueError, match="yields no rows"):
        GeneratorSource(lambda: [])
    with pytest.raises(TypeError, match="item 0 is a ndarray"):
        GeneratorSource(lambda: [X])
    with pytest.raises(ValueError, match=r"X of item 1 .*\(any, 2\); got \(10, 1\)"):
        GeneratorSource(lambda: [(X, y), (X[:, :1], y)]).n_rows  # noqa: B018
    with pytest.raises(ValueError, match=r"y of item 0"):
        GeneratorSource(lambda: [(X, y[1:])])
    with pytest.raises(ValueError, match=r"all or none of the items of factory\(\) must have labels; item"):
        GeneratorSource(lambda: [(X, y), (X, None)]).n_rows  # noqa: B018
    once = iter([(X, y)] * 3)
    with pytest.raises(ValueError, match="same rows each time"):
        list(GeneratorSource(lambda: once).blocks())
    with pytest.raises(ValueError, match="expected 15 rows"):
        list(GeneratorSource(lambda: [(X, y)] * 3, n_rows=15).blocks())
