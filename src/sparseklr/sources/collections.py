"""Rows of Dask arrays and data frames."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .base import Block, Source


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array, data frame or series; does not import Dask."""
    return "dask" in sys.modules and hasattr(X, "__dask_graph__") and hasattr(X, "ndim")


def running_client() -> Any:
    """The client that Dask would use, None if there is none."""
    try:
        from distributed import Client

        return Client.current()
    except (ImportError, ValueError):
        return None


class DaskSource(Source):
    """Rows of a Dask array or data frame; a running ``distributed`` client does the work where they are.

    Lengths that Dask does not know (of a data frame, or of an array made from one) are computed first, by a
    pass. The workers keep what they have read in it. Without a client, this process computes one chunk after
    the other, in every pass.

    Parameters
    ----------
    X : dask array or data frame (n_rows, n_features)
    y : dask array, series or array (n_rows,), or None
        Labels; its chunks need not be those of X.
    sample_weight : as y
    """

    def __init__(self, X: Any, y: Any = None, sample_weight: Any = None) -> None:
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and features; got {X.ndim}.")
        self.feature_names = list(map(str, X.columns)) if hasattr(X, "columns") else None
        self.X = _as_array(X, "X")
        if self.X.dtype.kind not in "biuf":
            raise ValueError(f"X must hold numbers; got dtype {self.X.dtype}.")
        self.X = self.X.rechunk({1: -1})
        self.n_features = self.X.shape[1]
        self.y, self.weight = self._aligned(y, "y"), self._aligned(sample_weight, "sample_weight")
        self.has_labels = y is not None

    def _aligned(self, values: Any, name: str) -> Any:
        """A column in the chunks of X."""
        if values is None:
            return None
        values = _as_array(values, name)
        if values.shape != self.X.shape[:1]:
            raise ValueError(
                f"{name} must have shape {self.X.shape[:1]}, one entry per row of X; got {values.shape}."
            )
        return values.rechunk((self.X.chunks[0],))

    @property
    def cuts(self) -> np.ndarray:
        return np.cumsum([0, *self.X.chunks[0]])

    def on_grid(self, n_parts: int) -> DaskSource:
        """The same rows, with chunks of whole blocks; those much longer than 1 / n_parts of all are cut.

        Of other chunks only the rows at the edges move.
        """
        step, share, blocks = self.block_rows, self.n_blocks / n_parts, [0]
        for end in [*np.round(self.cuts[1:-1] / step).astype(int).tolist(), self.n_blocks]:
            if end > blocks[-1]:
                n_new = max(1, round((end - blocks[-1]) / share))
                blocks += shared_out(blocks[-1], end, n_new)[1:]
        chunks = tuple(np.diff([*(step * block for block in blocks[:-1]), self.n_rows]).tolist())
        moved = copy.copy(self)
        moved.X = self.X.rechunk((chunks, -1))
        moved.y = None if self.y is None else self.y.rechunk((chunks,))
        moved.weight = None if self.weight is None else self.weight.rechunk((chunks,))
        return moved

    def delayed(self) -> Iterator[tuple[int, list[Any]]]:
        """First row, and X, y and weight of each chunk as delayed objects (None where there are none)."""
        columns = [
            [None] * len(self.X.chunks[0]) if part is None else part.to_delayed().ravel().tolist()
            for part in (self.X, self.y, self.weight)
        ]
        for start, parts in zip(self.cuts[:-1].tolist(), zip(*columns, strict=True), strict=True):
            yield start, list(parts)

    def _count(self) -> int:
        return int(self.X.shape[0])

    def _read(self, start: int, stop: int) -> Iterator[Block]:
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


def shared_out(first: int, last: int, n_parts: int) -> list[int]:
    """Edges of consecutive parts of nearly the same length; fewer than asked for if there are no more.

    Examples
    --------
    >>> shared_out(0, 13, 4)
    [0, 3, 6, 10, 13]
    """
    return np.unique(np.linspace(first, last, n_parts + 1).round().astype(int)).tolist()


def lazily(X: Any, function: Callable[[Any], np.ndarray], n_columns: int | None, dtype: Any) -> Any:
    """A Dask array of what a function makes of the rows of X, chunk by chunk, when it is computed.

    The function gets arrays or data frames, as X is, and returns one row for each; ``n_columns`` of None
    stands for one number per row.
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
    """A Dask array with known lengths of its chunks."""
    import dask.array as da

    if hasattr(values, "to_dask_array"):
        values = values.to_dask_array().map_blocks(np.ascontiguousarray)
    if not isinstance(values, da.Array):
        if hasattr(values, "__dask_graph__"):
            raise TypeError(f"{name} must be a Dask array or data frame; got {type(values).__name__}.")
        return da.from_array(np.asarray(values))
    if any(np.isnan(size) for sizes in values.chunks for size in sizes):
        client = running_client()  # on its workers rows are kept, so that they are read only once
        values = copy.copy(values) if client is None else client.persist(values)
        values.compute_chunk_sizes()  # in place: the user's array stays as it is
    return values
