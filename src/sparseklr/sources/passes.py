"""Passes over all blocks of a source: a function of each block, and the sum of what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import count
from typing import Any

from ..kernels import n_threads
from ..threads import ThreadPool, one_thread
from .base import Block, Source
from .reduction import Forest, grow, root

Prepare = Callable[[Block], Block]


class Blocks(ABC):
    """All blocks of a source, and where they are worked on."""

    n_rows: int
    n_blocks: int

    @abstractmethod
    def map(self, prepare: Prepare, memory: float = 0.0) -> Blocks:
        """The blocks after a function that keeps their rows; up to ``memory`` bytes of them stay computed."""

    @abstractmethod
    def sum(self, statistic: Callable[[Block], Any], each: Callable[[int], None] | None = None) -> Any:
        """The sum of ``statistic(block)`` over all blocks, by ``+`` along a fixed tree.

        Arrays add up, lists are put one behind the other in the order of the blocks. ``each`` is called in
        this thread with numbers of rows that are done.
        """


class LocalBlocks(Blocks):
    """The blocks of a source, worked on by threads of this process.

    Parameters
    ----------
    source : Source
    n_jobs : int or None
        Number of threads; -1 for one on each core.
    """

    def __init__(self, source: Source, n_jobs: int | None = None) -> None:
        self.source, self.threads = source, n_threads(n_jobs)
        self._prepare: Prepare | None = None
        self._room = 0.0
        self._kept: dict[int, Block] = {}

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.source.n_rows

    @property
    def n_blocks(self) -> int:  # type: ignore[override]
        return self.source.n_blocks

    def map(self, prepare: Prepare, memory: float = 0.0) -> LocalBlocks:
        before = self._prepare
        mapped = LocalBlocks(self.source)
        mapped.threads, mapped._room = self.threads, memory
        mapped._prepare = prepare if before is None else lambda block: prepare(before(block))
        return mapped

    def sum(self, statistic: Callable[[Block], Any], each: Callable[[int], None] | None = None) -> Any:
        forest: Forest = {}
        with one_thread:
            for number, (rows, value) in enumerate(self.results(statistic)):
                grow(forest, [((0, number), value)], self.n_blocks)
                if each is not None:
                    each(rows)
        return root(forest)

    def results(self, statistic: Callable[[Block], Any]) -> Iterator[tuple[int, Any]]:
        """Sizes of the blocks and what the function makes of them, in order."""

        def work(number: int, raw: Block | None) -> tuple[int, Any]:
            block = self._kept[number] if raw is None else self._prepared(number, raw)
            return len(block), statistic(block)

        if self.threads == 1:
            for number, raw in enumerate(self._raw()):
                yield work(number, raw)
            return
        pool = ThreadPool(self.threads, thread_name_prefix="sparseklr")
        waiting: deque[Future] = deque()
        try:
            for number, raw in enumerate(self._raw()):
                waiting.append(pool.submit(work, number, raw))
                del raw
                if len(waiting) > 2 * self.threads:  # blocks in memory do not grow in number
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # an error or an interruption waits for the blocks at work only
            pool.shutdown(cancel_futures=True)

    def _raw(self) -> Iterator[Block | None]:
        """The blocks of the source; None for those that are kept: these are the first ones."""
        n_kept = next(number for number in count() if number not in self._kept)
        for _ in range(n_kept):
            yield None
        if n_kept < self.n_blocks:
            yield from self.source.blocks(n_kept)

    def _prepared(self, number: int, raw: Block) -> Block:
        block = raw if self._prepare is None else self._prepare(raw)
        per_row = sum(part.nbytes for part in (block.X, block.y, block.weight) if part is not None) / len(
            block
        )
        if (number + 1) * self.source.block_rows * per_row <= self._room:
            self._kept[number] = block
        return block
