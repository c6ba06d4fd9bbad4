"""Passes over blocks that live on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .base import Block, Source
from .collections import DaskSource
from .passes import Blocks, Prepare, one_blas_thread
from .reduction import Forest, grow, merge, root

# Forests that one task merges: the depth of the tree of tasks is log8 of the number of parts.
_ARITY = 8


class ClusterBlocks(Blocks):
    """Blocks on the workers of a cluster, in parts: runs of consecutive blocks that stay on one worker.

    What is summed up goes to the workers once per pass, and sums come back along a tree of tasks. All of it
    is in Dask's graph, so that the parts of a worker that dies are made again on another, and no other work
    is repeated.

    Parameters
    ----------
    source : Source
        A :class:`DaskSource`, whose chunks stay where they are; or files that every worker can read.
    client : distributed.Client
    """

    def __init__(self, source: Source, client: Any) -> None:
        self.client, self.n_rows, self.n_blocks = client, source.n_rows, source.n_blocks
        self.parts: list[tuple[int, Any]] = []  # number of the first block, future of a list of blocks
        self.lengths: list[int] = []  # rows of the parts
        if isinstance(source, DaskSource):
            self._take_chunks(source.on_grid())
        else:
            self._take_rows(source)

    def _take_chunks(self, source: DaskSource) -> None:
        import dask

        cut = dask.delayed(_cut_chunk, pure=False)
        chunks = list(source.delayed())
        futures = self.client.compute([cut(start, source.block_rows, *parts) for start, parts in chunks])
        self.parts = [(start // source.block_rows, f) for (start, _), f in zip(chunks, futures, strict=True)]
        self.lengths = list(source.X.chunks[0])

    def _take_rows(self, source: Source) -> None:
        threads = max(1, sum(self.client.nthreads().values()))
        step = max(1, min(64, source.n_blocks // (4 * threads)))
        here = self.client.submit(_same, source.on(None), pure=False)
        for first in range(0, source.n_blocks, step):
            last = min(first + step, source.n_blocks)
            self.parts.append((first, self.client.submit(_load, here, first, last, pure=False)))
            self.lengths.append(min(last * source.block_rows, source.n_rows) - first * source.block_rows)

    def map(self, prepare: Prepare, memory: float = 0.0) -> ClusterBlocks:
        """As in the base class; all blocks stay computed, and Dask writes to disk what does not fit."""
        mapped: ClusterBlocks = object.__new__(ClusterBlocks)
        mapped.client, mapped.n_rows, mapped.n_blocks = self.client, self.n_rows, self.n_blocks
        function = self.client.submit(_same, prepare, pure=False)
        mapped.parts = [
            (first, self.client.submit(_map, function, part, pure=False)) for first, part in self.parts
        ]
        mapped.lengths = self.lengths
        return mapped

    def sum(self, statistic: Callable[[Block], Any], each: Callable[[int], None] | None = None) -> Any:
        submit = partial(self.client.submit, pure=False)
        function = submit(_same, statistic)
        forests = [submit(_forest, function, part, first, self.n_blocks) for first, part in self.parts]
        leaves = forests
        while len(forests) > 1:
            groups = [forests[k : k + _ARITY] for k in range(0, len(forests), _ARITY)]
            forests = [submit(merge, *group, n_leaves=self.n_blocks) for group in groups]
        if each is not None:
            self._follow(leaves, each)
        return root(forests[0].result())

    def _follow(self, futures: list[Any], each: Callable[[int], None]) -> None:
        from distributed import as_completed

        rows = dict(zip((future.key for future in futures), self.lengths, strict=True))
        for future in as_completed(futures, loop=self.client.loop):
            each(rows[future.key])


def running_client() -> Any:
    """The client that Dask would use, None if there is none."""
    try:
        from distributed import Client

        return Client.current()
    except (ImportError, ValueError):
        return None


# -- what runs on the workers --------------------------------------------------------------------


def _same(value: Any) -> Any:
    """A task whose result is a constant: unlike scattered data it is made again when a worker is lost."""
    return value


def _cut_chunk(start: int, block_rows: int, X: Any, y: Any, weight: Any) -> list[Block]:
    whole = Block.of(start, X, y, weight)
    return [whole.take(slice(k, k + block_rows)) for k in range(0, len(whole), block_rows)]


def _load(source: Source, first: int, last: int) -> list[Block]:
    return list(source.blocks(first, last))


def _map(prepare: Prepare, part: list[Block]) -> list[Block]:
    with one_blas_thread():
        return [prepare(block) for block in part]


def _forest(statistic: Callable[[Block], Any], part: list[Block], first: int, n_leaves: int) -> Forest:
    with one_blas_thread():
        return grow({}, (((0, first + k), statistic(block)) for k, block in enumerate(part)), n_leaves)
