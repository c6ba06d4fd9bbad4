"""Rows of Dask arrays and data frames, and processing of blocks on the workers of a cluster."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from .._utils.threads import one_thread
from .passes import Blocks, Forest, Prepare, grow, merge, root
from .sources import Block, Source


def is_dask(X: Any) -> bool:
    """Return whether X is a Dask array, data frame or series, without importing Dask."""
    return "dask" in sys.modules and hasattr(X, "__dask_graph__") and hasattr(X, "ndim")


def running_client() -> Any:
    """Return the current Dask client, or None."""
    try:
        from distributed import Client

        return Client.current()
    except (ImportError, ValueError):
        return None


class DaskSource(Source):
    """Rows of a Dask array or data frame, processed by the running ``distributed`` client if there is one.

    If the chunk lengths are unknown, as for data frames, a first pass computes them. The workers of a client
    keep the rows that they read in this pass. Without a client, the current process computes one chunk after
    the other in every pass.

    Parameters
    ----------
    X : dask array or data frame (n_rows, n_features)
        The features.
    y : dask array, series or array (n_rows,), or None
        Labels; the chunks may differ from the chunks of X.
    sample_weight : dask array, series or array (n_rows,), or None
        Weights of the rows.
    """

    def __init__(self, X: Any, y: Any = None, sample_weight: Any = None) -> None:
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and features; got {X.ndim}.")
        self.feature_names = list(map(str, X.columns)) if hasattr(X, "columns") else None
        self.X = _as_array(X, "X")
        if self.X.dtype.kind not in "biuf":
            raise ValueError(f"X must contain numbers; got dtype {self.X.dtype}.")
        self.X = self.X.rechunk({1: -1})
        self.n_features = self.X.shape[1]
        self.y, self.weight = self._aligned(y, "y"), self._aligned(sample_weight, "sample_weight")
        self.has_labels = y is not None

    def _aligned(self, values: Any, name: str) -> Any:
        """Return a column divided into the chunks of X."""
        if values is None:
            return None
        values = _as_array(values, name)
        if values.shape != self.X.shape[:1]:
            raise ValueError(
                f"{name} must have one entry per row of X, {self.X.shape[:1]}; got {values.shape}."
            )
        return values.rechunk((self.X.chunks[0],))

    @property
    def cuts(self) -> np.ndarray:
        """Index of the first row of each chunk, followed by the total number of rows."""
        return np.cumsum([0, *self.X.chunks[0]])

    def on_grid(self, n_parts: int) -> DaskSource:
        """Return the source with chunks that consist of whole blocks.

        A chunk much longer than 1 / ``n_parts`` of all rows is divided. Otherwise only rows at the edges of a
        chunk move to another chunk.
        """
        step, per_part, blocks = self.block_rows, self.n_blocks / n_parts, [0]
        for end in [*np.round(self.cuts[1:-1] / step).astype(int).tolist(), self.n_blocks]:
            if end > blocks[-1]:
                n_new = max(1, round((end - blocks[-1]) / per_part))
                blocks += even_parts(blocks[-1], end, n_new)[1:]
        chunks = tuple(np.diff([*(step * block for block in blocks[:-1]), self.n_rows]).tolist())
        moved = copy.copy(self)
        moved.X = self.X.rechunk((chunks, -1))
        moved.y = None if self.y is None else self.y.rechunk((chunks,))
        moved.weight = None if self.weight is None else self.weight.rechunk((chunks,))
        return moved

    def delayed(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield the first row of each chunk, and its X, y and weight as delayed objects (or None)."""
        columns = [
            [None] * len(self.X.chunks[0]) if part is None else part.to_delayed().ravel().tolist()
            for part in (self.X, self.y, self.weight)
        ]
        for start, parts in zip(self.cuts[:-1].tolist(), zip(*columns, strict=True), strict=True):
            yield start, list(parts)

    def _count(self) -> int:
        """Return the number of rows."""
        return int(self.X.shape[0])

    def _read(self, start: int, stop: int) -> Iterator[Block]:
        """Yield the rows from ``start`` to ``stop`` in blocks."""
        import dask

        lengths = iter(self.X.chunks[0])
        for begin, parts in self.delayed():
            if begin >= stop:
                return
            if begin + next(lengths) <= start:
                continue
            block = Block.of(begin, *dask.compute(*parts))
            low, high = max(0, start - begin), min(len(block), stop - begin)
            if low < high:
                yield block.take(slice(low, high))


def even_parts(first: int, last: int, n_parts: int) -> list[int]:
    """Return the edges of at most ``n_parts`` consecutive parts of nearly equal length.

    Examples
    --------
    >>> even_parts(0, 13, 4)
    [0, 3, 6, 10, 13]
    """
    return np.unique(np.linspace(first, last, n_parts + 1).round().astype(int)).tolist()


def lazily(X: Any, function: Callable[[Any], np.ndarray], n_columns: int | None, dtype: Any) -> Any:
    """Return a lazy Dask array with the results of a function, which is applied to X chunk by chunk.

    The function gets arrays or data frames, like X. For each row of X it returns ``n_columns`` values, or one
    number if ``n_columns`` is None.
    """
    import dask.array as da

    if hasattr(X, "map_partitions"):
        parts = X.to_delayed()
        lengths = [np.nan] * len(parts)
    else:
        X = X.rechunk({1: -1})
        parts, lengths = X.to_delayed().ravel(), X.chunks[0]
    from dask import delayed

    shared = delayed(function, pure=True)
    tail = () if n_columns is None else (n_columns,)
    return da.concatenate(
        [
            da.from_delayed(shared(part), (length, *tail), dtype)
            for part, length in zip(parts, lengths, strict=True)
        ],
        allow_unknown_chunksizes=True,
    )


def _as_array(values: Any, name: str) -> Any:
    """Return a Dask array with known chunk lengths."""
    import dask.array as da

    if hasattr(values, "to_dask_array"):
        values = values.to_dask_array().map_blocks(np.ascontiguousarray)
    if not isinstance(values, da.Array):
        if hasattr(values, "__dask_graph__"):
            raise TypeError(f"{name} must be a Dask array or data frame; got {type(values).__name__}.")
        return da.from_array(np.asarray(values))
    if any(np.isnan(size) for sizes in values.chunks for size in sizes):
        client = running_client()  # the workers of a client keep the rows, so the rows are read only once
        values = copy.copy(values) if client is None else client.persist(values)
        values.compute_chunk_sizes()  # modifies the array, so a copy is needed
    return values


# -- passes on a cluster ----------------------------------------------------------------------------


class ClusterBlocks(Blocks):
    """Blocks of rows on the workers of a cluster.

    Consecutive blocks are grouped into parts, and each part stays on one worker. Each pass sends a function
    to the workers once, and a tree of tasks adds up its results. Because all tasks belong to Dask's task
    graph, only the lost parts are recomputed if a worker is lost.

    ``source`` is a :class:`DaskSource`, whose chunks are not moved, or a source of files that every worker
    can read.
    """

    arity = 8  # number of partial sums that one task merges
    parts_per_thread = 2  # number of parts per thread, if there are enough rows
    most_blocks = 64  # largest number of blocks in a part; a block has 2 MB

    def __init__(self, source: Source, client: Any) -> None:
        self.client, self.n_rows, self.n_blocks = client, source.n_rows, source.n_blocks
        self.parts: list[tuple[int, Any]] = []  # number of the first block, and future of the list of blocks
        self.lengths: list[int] = []  # number of rows of each part
        if isinstance(source, DaskSource):
            self._take_chunks(source)
        else:
            self._take_rows(source)

    def _take_chunks(self, source: DaskSource) -> None:
        """Use the chunks of a Dask source as parts, on the workers that have them.

        Chunks that are too large or smaller than a block are divided or merged.
        """
        from distributed import wait

        source = source.on_grid(self._n_parts())
        pieces = list(source.delayed())
        parts = self.client.compute([part for _, parts in pieces for part in parts])
        with self.client.as_current():
            wait(parts[::3])
        held = self.client.who_has(parts[::3])
        places = self._places([held.get(part.key, ()) for part in parts[::3]])
        for k, (start, _) in enumerate(pieces):
            cut = self._at(places[k], _cut_chunk, start, source.block_rows, *parts[3 * k : 3 * k + 3])
            self.parts.append((start // source.block_rows, cut))
        self.lengths = list(source.X.chunks[0])

    def _take_rows(self, source: Source) -> None:
        """Divide the rows of a source of files into parts, and let the workers read them."""
        shared = self.client.submit(_same, source.on(None), pure=False)
        edges = even_parts(0, source.n_blocks, self._n_parts())
        places = self._places([()] * (len(edges) - 1))
        for place, (first, last) in zip(places, pairwise(edges), strict=True):
            self.parts.append((first, self._at(place, _load, shared, first, last)))
            self.lengths.append(min(last * source.block_rows, source.n_rows) - first * source.block_rows)

    def _n_parts(self) -> int:
        """Return the number of parts, a multiple of the number of threads."""
        at_once = self.parts_per_thread * max(1, sum(self.client.nthreads().values()))
        return at_once * max(1, -(-self.n_blocks // (at_once * self.most_blocks)))

    def _places(self, held: list[Sequence[str]]) -> list[str | None]:
        """Return a worker for each part: a worker that already has the part, unless it has too many parts."""
        threads = self.client.nthreads()
        free = {worker: -(-len(held) * n // sum(threads.values())) for worker, n in threads.items()}
        places: list[str | None] = []
        for workers in held:
            places.append(next((worker for worker in workers if free.get(worker, 0) > 0), None))
            if places[-1] is not None:
                free[places[-1]] -= 1
        for k in [k for k, place in enumerate(places) if place is None and free]:
            places[k] = worker = max(free, key=lambda worker: free[worker])
            free[worker] -= 1
        return places

    def _at(self, place: str | None, task: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a task to a worker; if this worker is lost, another worker takes over."""
        where = {} if place is None else {"workers": [place], "allow_other_workers": True}
        return self.client.submit(task, *arguments, pure=False, **where)

    def map(self, prepare: Prepare, memory: float = 0.0) -> ClusterBlocks:
        """Return the blocks transformed by ``prepare``.

        All transformed blocks are cached, and Dask writes them to disk if memory is short.
        """
        firsts, parts = zip(*self.parts, strict=True)
        mapped = copy.copy(self)
        mapped.parts = list(zip(firsts, self._submit(_map, prepare, parts), strict=True))
        return mapped

    def sum(self, statistic: Callable[[Block], Any], each: Callable[[int], None] | None = None) -> Any:
        """Return the sum of ``statistic(block)`` over all blocks, in the order of a fixed tree."""
        firsts, parts = zip(*self.parts, strict=True)
        forests = leaves = self._submit(_forest, statistic, parts, firsts, [self.n_blocks] * len(parts))
        while len(forests) > self.arity:
            groups = [forests[k : k + self.arity] for k in range(0, len(forests), self.arity)]
            forests = self.client.map(partial(_merge, n_leaves=self.n_blocks), groups, pure=False)
        if each is not None:
            self._follow(leaves, each)
        return root(merge(*self.client.gather(forests), n_leaves=self.n_blocks))

    def _submit(self, task: Callable[..., Any], function: Any, *arguments: Any) -> list[Any]:
        """Submit one task for each part; with many parts, the workers pass the function on to one another."""
        n_parts = len(self.parts)
        shared = function if n_parts <= self.arity else self.client.submit(_same, function, pure=False)
        return list(self.client.map(task, [shared] * n_parts, *arguments, pure=False))

    def _follow(self, futures: list[Any], each: Callable[[int], None]) -> None:
        """Call ``each`` with the number of rows of every part that is finished."""
        from distributed import as_completed

        rows = dict(zip((future.key for future in futures), self.lengths, strict=True))
        for future in as_completed(futures, loop=self.client.loop):
            each(rows[future.key])


# -- tasks on the workers -----------------------------------------------------------------------------


def _same(value: Any) -> Any:
    """Return the argument.

    Unlike scattered data, the result of this task survives the loss of a worker.
    """
    return value


def _cut_chunk(start: int, block_rows: int, X: Any, y: Any, weight: Any) -> list[Block]:
    """Return the blocks of a chunk."""
    whole = Block.of(start, X, y, weight)
    return [whole.take(slice(k, k + block_rows)) for k in range(0, len(whole), block_rows)]


def _load(source: Source, first: int, last: int) -> list[Block]:
    """Return the blocks of a source from ``first`` to ``last``."""
    return list(source.blocks(first, last))


def _merge(forests: list[Forest], n_leaves: int) -> Forest:
    """Return the merged partial sums."""
    return merge(*forests, n_leaves=n_leaves)


def _map(prepare: Prepare, part: list[Block]) -> list[Block]:
    """Return the transformed blocks of a part."""
    with one_thread:
        return [prepare(block) for block in part]


def _forest(statistic: Callable[[Block], Any], part: list[Block], first: int, n_leaves: int) -> Forest:
    """Return the partial sums of a statistic over a part."""
    with one_thread:
        return grow({}, (((0, first + k), statistic(block)) for k, block in enumerate(part)), n_leaves)
