"""Sources of rows, which yield blocks of a fixed size in a fixed order and can be read many times."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from .._utils.arrays import check_indices
from .._utils.sklearn_compat import get_feature_names


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a source."""

    start: int  # number of the first row, counted from 0 over the whole source
    X: np.ndarray  # (n_rows, n_features), float32 or float64, in C order
    y: np.ndarray | None = None  # labels of any type, or class codes once the classes are known
    weight: np.ndarray | None = None  # None means that all weights are 1

    @classmethod
    def of(cls, start: int, X: Any, y: Any = None, weight: Any = None) -> Block:
        """Return a block of the given rows, converted to dense float32 or float64 arrays in C order.

        The memory layout matters, because sums in another order have other rounding errors.
        """
        check_indices(X)
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        X = np.ascontiguousarray(X, dtype=X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
        return cls(start, X, *(None if part is None else np.asarray(part) for part in (y, weight)))

    def __len__(self) -> int:
        return len(self.X)

    @property
    def rows(self) -> np.ndarray:
        """The numbers of the rows in the source."""
        return np.arange(self.start, self.start + len(self), dtype=np.uint64)

    @property
    def labels(self) -> np.ndarray:
        """The labels; the block must have labels."""
        assert self.y is not None
        return self.y

    @property
    def weights(self) -> np.ndarray:
        """The weights as a float64 array."""
        return np.ones(len(self)) if self.weight is None else np.asarray(self.weight, dtype=np.float64)

    def take(self, which: Any) -> Block:
        """Return the rows given by a slice or by indices; only a slice changes ``start``."""
        start = self.start + (which.start or 0) if isinstance(which, slice) else self.start
        y = None if self.y is None else self.y[which]
        weight = None if self.weight is None else self.weight[which]
        return Block(start, self.X[which], y, weight)


def joined(pieces: list[Block]) -> Block:
    """Return the concatenation of consecutive blocks."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    y = None if first.y is None else np.concatenate([piece.y for piece in pieces])
    weighted = any(piece.weight is not None for piece in pieces)
    weight = np.concatenate([piece.weights for piece in pieces]) if weighted else None
    return replace(first, X=np.concatenate([piece.X for piece in pieces]), y=y, weight=weight)


class Source(ABC):
    """Rows that can be read many times in a fixed order.

    The rows are divided into blocks of ``block_rows`` rows; the last block may be shorter. The blocks do not
    depend on where files, chunks or partitions begin. Sums over the blocks are therefore bit-identical for
    the same rows in any container. A subclass implements :meth:`_count` and :meth:`_read`, and sets
    ``n_features``.
    """

    n_features: int
    feature_names: list[str] | None = None
    has_labels: bool = True
    client: Any = None

    def on(self, client: Any) -> Self:
        """Return the same source, processed on the cluster of a ``distributed.Client``.

        All workers must be able to read the rows. Files must be on a file system that every worker can
        access.
        """
        other = copy.copy(self)
        other.client = client
        return other

    @cached_property
    def n_rows(self) -> int:
        """The number of rows; counting them takes a pass if the source has no index."""
        if not (n_rows := self._count()):
            raise ValueError(f"{self}: there are no rows.")
        return n_rows

    @property
    def block_rows(self) -> int:
        """The number of rows in a block, a power of two that depends only on the number of features.

        A block has about 2 MB.
        """
        return 2 ** int(np.clip(np.log2(2**19 / max(1, self.n_features)), 10, 15))

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return -(-self.n_rows // self.block_rows)

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[Block]:
        """Yield the blocks numbered ``first`` to ``last - 1``; by default all blocks."""
        last = self.n_blocks if last is None else min(last, self.n_blocks)
        start, stop = first * self.block_rows, min(last * self.block_rows, self.n_rows)
        n_read = 0
        for block in regrouped(self._read(start, stop), self.block_rows):
            n_read += len(block)
            yield block
        if n_read != stop - start:
            raise ValueError(
                f"{self}: expected {stop - start} rows starting at row {start}, got {n_read}; a source must "
                "yield the same rows each time it is read."
            )

    def place(self, row: int) -> str:
        """Return a description of the position of a row, for messages."""
        return f"row {row}"

    @abstractmethod
    def _count(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def _read(self, start: int, stop: int) -> Iterator[Block]:
        """Yield the rows from ``start`` to ``stop - 1`` in consecutive blocks of any size."""

    def __repr__(self) -> str:
        return type(self).__name__


def regrouped(pieces: Iterable[Block], size: int) -> Iterator[Block]:
    """Yield the rows of ``pieces`` in blocks of ``size`` rows; only the last block may be shorter."""
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


# -- in memory and in .npy files ---------------------------------------------------------------------


class ArraySource(Source):
    """Rows of arrays, data frames or CSR matrices in memory; only one block at a time is copied.

    Parameters
    ----------
    X : array, data frame or CSR matrix (n_rows, n_features)
        The features.
    y : array-like (n_rows,) or None
        Labels.
    sample_weight : array-like (n_rows,) or None
        Weights of the rows.

    Examples
    --------
    >>> source = ArraySource(np.zeros((100_000, 20)), np.zeros(100_000))
    >>> source.n_rows, [len(block) for block in source.blocks()]
    (100000, [16384, 16384, 16384, 16384, 16384, 16384, 1696])
    """

    def __init__(self, X: Any, y: Any = None, sample_weight: Any = None) -> None:
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        if len(X.shape) != 2:
            raise ValueError(f"X must have two dimensions, rows and features; got shape {X.shape}.")
        check_indices(X)
        self.X = X.tocsr() if sparse.issparse(X) else X
        self.y = None if y is None else np.asarray(y)
        self.weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.n_features = X.shape[1]
        names = get_feature_names(X)
        self.feature_names = None if names is None else list(names)
        self.has_labels = y is not None
        for name, values in (("y", self.y), ("sample_weight", self.weight)):
            if values is not None and values.shape != X.shape[:1]:
                raise ValueError(
                    f"{name} must have one entry per row of X, {X.shape[:1]}; got {values.shape}."
                )

    def _count(self) -> int:
        return int(self.X.shape[0])

    def _columns(self) -> tuple[Any, Any, Any]:
        """Return X, y and the weights, opened anew for each block."""
        return self.X, self.y, self.weight

    def _read(self, start: int, stop: int) -> Iterator[Block]:
        for begin in range(start, stop, self.block_rows):
            part = slice(begin, min(begin + self.block_rows, stop))
            X, y, weight = (
                values if values is None else getattr(values, "iloc", values)[part]
                for values in self._columns()
            )
            yield Block.of(begin, X, y, weight)


def _mapped(path: str | None) -> Any:
    """Return a memory-mapped .npy file, or None."""
    return None if path is None else np.load(path, mmap_mode="r")


class NpySource(ArraySource):
    """Rows of memory-mapped .npy files; only the blocks in use are read from disk.

    Parameters
    ----------
    X : path
        File of the features, written by :func:`numpy.save`.
    y, sample_weight : path or None
        Files of the labels and weights, written by :func:`numpy.save`.
    """

    def __init__(
        self,
        X: str | os.PathLike,
        y: str | os.PathLike | None = None,
        sample_weight: str | os.PathLike | None = None,
    ) -> None:
        self._open([None if path is None else os.path.abspath(path) for path in (X, y, sample_weight)])

    def _open(self, paths: list[str | None]) -> None:
        self.paths = paths
        super().__init__(*map(_mapped, paths))

    def _columns(self) -> tuple[Any, Any, Any]:
        # Each block has its own mapping. Mapped pages count as memory of the process, so a pass through a
        # single mapping would take as much memory as the file.
        X, y, weight = map(_mapped, self.paths)
        return X, y, weight

    def __getstate__(self) -> list[str | None]:
        return self.paths

    def __setstate__(self, paths: list[str | None]) -> None:
        self._open(paths)

    def __repr__(self) -> str:
        return str(self.paths[0])


# -- generators ---------------------------------------------------------------------------------------


class GeneratorSource(Source):
    """Source whose rows come from a function that returns a new iterator over blocks of rows at each call.

    Parameters
    ----------
    factory : callable
        Function that returns an iterable of tuples ``(X, y)`` or ``(X, y, sample_weight)``; a tuple may
        contain any number of rows. Every call must return the same rows in the same order. A generator object
        is not sufficient, because it can be read only once.
    n_rows : int, optional
        Number of rows, if known. Otherwise one pass counts the rows.

    Examples
    --------
    >>> def chunks():
    ...     for seed in range(3):
    ...         rng = np.random.default_rng(seed)
    ...         yield rng.normal(size=(1000, 2)), rng.integers(2, size=1000)
    >>> GeneratorSource(chunks).n_rows
    3000
    """

    def __init__(self, factory: Callable[[], Iterable[tuple]], n_rows: int | None = None) -> None:
        if not callable(factory):
            raise TypeError(
                "factory must be a function that returns a new iterator each time it is called; got "
                f"{type(factory).__name__}."
            )
        self.factory = factory
        first = next(self._pieces(), None)
        if first is None:
            raise ValueError("factory() yields no rows.")
        self.n_features, self.has_labels = first.X.shape[1], first.y is not None
        if n_rows is not None:
            self.n_rows = n_rows

    def _pieces(self) -> Iterator[Block]:
        """Yield the validated items of ``factory()`` as blocks."""
        start = 0
        for number, item in enumerate(self.factory()):
            if not isinstance(item, tuple) or not 2 <= len(item) <= 3:
                raise TypeError(
                    "factory() must yield tuples (X, y) or (X, y, sample_weight); "
                    f"item {number} is a {type(item).__name__}."
                )
            X, y, weight = (None if part is None else np.asarray(part) for part in (*item, None)[:3])
            if X is None or X.ndim != 2 or (number and X.shape[1] != self.n_features):
                shape: Any = None if X is None else X.shape
                expected = f"(any, {self.n_features})" if number else "(rows, features)"
                raise ValueError(f"X of item {number} of factory() must have shape {expected}; got {shape}.")
            for name, part in (("y", y), ("sample_weight", weight)):
                if part is not None and part.shape != X.shape[:1]:
                    raise ValueError(
                        f"{name} of item {number} of factory() must have shape {X.shape[:1]}; "
                        f"got {part.shape}."
                    )
            if number and (y is None) == self.has_labels:
                raise ValueError(
                    "all or none of the items of factory() must have labels; "
                    f"item {number} differs from item 0."
                )
            yield Block.of(start, X, y, weight)
            start += len(X)

    def _count(self) -> int:
        return sum(map(len, self._pieces()))

    def _read(self, start: int, stop: int) -> Iterator[Block]:
        for piece in self._pieces():
            begin, end = max(start, piece.start) - piece.start, min(stop - piece.start, len(piece))
            if begin < end:
                yield piece.take(slice(begin, end))
            if piece.start + len(piece) > stop:
                if stop == self.n_rows:
                    raise ValueError(f"{self}: expected {stop} rows; factory() yields more.")
                return

    def __repr__(self) -> str:
        return f"GeneratorSource({getattr(self.factory, '__name__', self.factory)!s})"
