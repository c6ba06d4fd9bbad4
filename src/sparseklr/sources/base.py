"""What every source of rows is: blocks of a fixed size, in a fixed order, readable many times."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from ..data import check_indices


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a source.

    Attributes
    ----------
    start : int
        Number of the first row, counted from 0 over the whole source.
    X : array (n_rows, n_features)
        float32 or float64, in C order.
    y : array (n_rows,) or None
        Labels of any type, or their codes once the classes are known; None where there are none.
    weight : array (n_rows,) or None
        None stands for ones.
    """

    start: int
    X: np.ndarray
    y: np.ndarray | None = None
    weight: np.ndarray | None = None

    @classmethod
    def of(cls, start: int, X: Any, y: Any = None, weight: Any = None) -> Block:
        """A block of rows in any form: dense, float32 or float64, one row behind the other in memory.

        The layout matters because sums in another order have other last bits.
        """
        check_indices(X)
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        X = np.ascontiguousarray(X, dtype=X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
        return cls(start, X, *(None if part is None else np.asarray(part) for part in (y, weight)))

    def __len__(self) -> int:
        return len(self.X)

    @property
    def rows(self) -> np.ndarray:
        """Numbers of the rows."""
        return np.arange(self.start, self.start + len(self), dtype=np.uint64)

    @property
    def labels(self) -> np.ndarray:
        """``y`` of a block that has labels."""
        assert self.y is not None
        return self.y

    @property
    def weights(self) -> np.ndarray:
        """The weights as an array, float64."""
        return np.ones(len(self)) if self.weight is None else np.asarray(self.weight, dtype=np.float64)

    def take(self, which: Any) -> Block:
        """Some of the rows (a slice, or indices); ``start`` stays unless a slice moves it."""
        start = self.start + (which.start or 0) if isinstance(which, slice) else self.start
        y = None if self.y is None else self.y[which]
        weight = None if self.weight is None else self.weight[which]
        return Block(start, self.X[which], y, weight)


def joined(pieces: list[Block]) -> Block:
    """Consecutive blocks as one."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    y = None if first.y is None else np.concatenate([piece.y for piece in pieces])
    weighted = any(piece.weight is not None for piece in pieces)
    weight = np.concatenate([piece.weights for piece in pieces]) if weighted else None
    return replace(first, X=np.concatenate([piece.X for piece in pieces]), y=y, weight=weight)


class Source(ABC):
    """Rows that can be read in a fixed order, many times.

    The rows are cut into blocks of ``block_rows`` rows, the last one shorter, wherever files, chunks or
    partitions begin and end: sums over the blocks are then the same, to the last bit, for the same rows in
    any container. A subclass implements :meth:`_count` and :meth:`_read`, and sets ``n_features``.
    """

    n_features: int
    feature_names: list[str] | None = None
    has_labels: bool = True
    client: Any = None

    def on(self, client: Any) -> Self:
        """The same source, worked on by the cluster of a ``distributed.Client``.

        Its workers must be able to read the rows: files need a file system that all of them see.
        """
        other = copy.copy(self)
        other.client = client
        return other

    @cached_property
    def n_rows(self) -> int:
        """Number of rows; it costs a pass where no index tells it."""
        if not (n_rows := self._count()):
            raise ValueError(f"{self}: there are no rows.")
        return n_rows

    @property
    def block_rows(self) -> int:
        """Rows of a block: a power of two that depends on the number of features alone (about 2 MB)."""
        return 2 ** int(np.clip(np.log2(2**19 / max(1, self.n_features)), 10, 15))

    @property
    def n_blocks(self) -> int:
        return -(-self.n_rows // self.block_rows)

    @property
    def cuts(self) -> np.ndarray:
        """Row numbers at which the source begins a new part: the cheapest places to divide work."""
        return np.array([0, self.n_rows])

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[Block]:
        """The blocks numbered ``first`` to ``last - 1``; by default all."""
        last = self.n_blocks if last is None else min(last, self.n_blocks)
        start, stop = first * self.block_rows, min(last * self.block_rows, self.n_rows)
        given = 0
        for block in regrouped(self._read(start, stop), self.block_rows):
            given += len(block)
            yield block
        if given != stop - start:
            raise ValueError(
                f"{self}: rows {start} to {stop} were asked for, and {given} came; a source must give the "
                "same rows each time it is read."
            )

    def place(self, row: int) -> str:
        """Where a row is, for messages."""
        return f"row {row}"

    @abstractmethod
    def _count(self) -> int:
        """The number of rows."""

    @abstractmethod
    def _read(self, start: int, stop: int) -> Iterator[Block]:
        """The rows from ``start`` to ``stop - 1`` in consecutive blocks of any size."""

    def __repr__(self) -> str:
        return type(self).__name__


def regrouped(pieces: Iterable[Block], size: int) -> Iterator[Block]:
    """The same rows in blocks of ``size`` rows; only the last one may be shorter."""
    waiting: list[Block] = []
    n_waiting = 0
    for piece in pieces:
        begin = 0
        while begin < len(piece):
            end = min(len(piece), begin + size - n_waiting)
            waiting.append(piece.take(slice(begin, end)))
            n_waiting += end - begin
            begin = end
            if n_waiting == size:
                yield joined(waiting)
                waiting, n_waiting = [], 0
    if waiting:
        yield joined(waiting)
