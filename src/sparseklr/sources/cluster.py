"""Passes over blocks that live on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from ..threads import one_thread
from .base import Block, Source
from .collections import DaskSource, shared_out
from .passes import Blocks, Prepare
from .reduction import Forest, grow, merge, root

# Forests that one task merges: the depth of the tree of tasks is log8 of the number of parts.
_ARITY = 8
# Parts for each thread of the cluster, if the rows suffice, and blocks of a part at most (2 MB each).
_PER_THREAD, _MOST_BLOCKS = 2, 64


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
            self._take_chunks(source)
        else:
            self._take_rows(source)

    def _take_chunks(self, source: DaskSource) -> None:
        """Chunks stay where they are, unless they are too large or too many for all threads to have work."""
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
        here = self.client.submit(_same, source.on(None), pure=False)
        edges = shared_out(0, source.n_blocks, self._n_parts())
        places = self._places([()] * (len(edges) - 1))
        for place, (first, last) in zip(places, pairwise(edges), strict=True):
            self.parts.append((first, self._at(place, _load, here, first, last)))
            self.lengths.append(min(last * source.block_rows, source.n_rows) - first * source.block_rows)

    def _n_parts(self) -> int:
        """Equally many for all threads."""
        at_once = _PER_THREAD * max(1, sum(self.client.nthreads().values()))
        return at_once * max(1, -(-self.n_blocks // (at_once * _MOST_BLOCKS)))

    def _places(self, held: list[Sequence[str]]) -> list[str | None]:
        """The worker for each part: one that holds it, as long as it has no more than its threads' share."""
        threads = self.client.nthreads()
        room = {worker: -(-len(held) * n // sum(threads.values())) for worker, n in threads.items()}
        places: list[str | None] = []
        for workers in held:
            places.append(next((worker for worker in workers if room.get(worker, 0) > 0), None))
            if places[-1] is not None:
                room[places[-1]] -= 1
        for k in [k for k, place in enumerate(places) if place is None and room]:
            places[k] = worker = max(room, key=lambda worker: room[worker])
            room[worker] -= 1
        return places

    def _at(self, place: str | None, task: Callable[..., Any], *arguments: Any) -> Any:
        """A task on a worker, or on another if that one is lost."""
        where = {} if place is None else {"workers": [place], "allow_other_workers": True}
        return self.client.submit(task, *arguments, pure=False, **where)

    def map(self, prepare: Prepare, memory: float = 0.0) -> ClusterBlocks:
        """As in the base class; all blocks stay computed, and Dask writes to disk what does not fit."""
        mapped: ClusterBlocks = object.__new__(ClusterBlocks)
        mapped.client, mapped.n_rows, mapped.n_blocks = self.client, self.n_rows, self.n_blocks
        firsts, parts = zip(*self.parts, strict=True)
        mapped.parts = list(zip(firsts, self._submit(_map, prepare, parts), strict=True))
        mapped.lengths = self.lengths
        return mapped

    def sum(self, statistic: Callable[[Block], Any], each: Callable[[int], None] | None = None) -> Any:
        firsts, parts = zip(*self.parts, strict=True)
        forests = leaves = self._submit(_forest, statistic, parts, firsts, [self.n_blocks] * len(parts))
        while len(forests) > _ARITY:
            groups = [forests[k : k + _ARITY] for k in range(0, len(forests), _ARITY)]
            forests = self.client.map(partial(_merge, n_leaves=self.n_blocks), groups, pure=False)
        if each is not None:
            self._follow(leaves, each)
        return root(merge(*self.client.gather(forests), n_leaves=self.n_blocks))

    def _submit(self, task: Callable[..., Any], function: Any, *arguments: Any) -> list[Any]:
        """A task for each part, in one message. Few get the function with it, many from one another."""
        n_parts = len(self.parts)
        shared = function if n_parts <= _ARITY else self.client.submit(_same, function, pure=False)
        return list(self.client.map(task, [shared] * n_parts, *arguments, pure=False))

    def _follow(self, futures: list[Any], each: Callable[[int], None]) -> None:
        from distributed import as_completed

        rows = dict(zip((future.key for future in futures), self.lengths, strict=True))
        for future in as_completed(futures, loop=self.client.loop):
            each(rows[future.key])


# -- what runs on the workers --------------------------------------------------------------------


def _same(value: Any) -> Any:
    """A task whose result is a constant: unlike scattered data it is made again when a worker is lost."""
    return value


def _cut_chunk(start: int, block_rows: int, X: Any, y: Any, weight: Any) -> list[Block]:
    whole = Block.of(start, X, y, weight)
    return [whole.take(slice(k, k + block_rows)) for k in range(0, len(whole), block_rows)]


def _load(source: Source, first: int, last: int) -> list[Block]:
    return list(source.blocks(first, last))


def _merge(forests: list[Forest], n_leaves: int) -> Forest:
    return merge(*forests, n_leaves=n_leaves)


def _map(prepare: Prepare, part: list[Block]) -> list[Block]:
    with one_thread:
        return [prepare(block) for block in part]


def _forest(statistic: Callable[[Block], Any], part: list[Block], first: int, n_leaves: int) -> Forest:
    with one_thread:
        return grow({}, (((0, first + k), statistic(block)) for k, block in enumerate(part)), n_leaves)
