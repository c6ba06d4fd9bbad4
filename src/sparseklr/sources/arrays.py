"""Rows in memory (arrays, data frames, CSR) and in memory-mapped .npy files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from .._sklearn import get_feature_names
from ..data import check_indices
from .base import Block, Source


class ArraySource(Source):
    """Rows of arrays, data frames or CSR matrices in memory; nothing is copied but a block at a time.

    Parameters
    ----------
    X : array, data frame or CSR matrix (n_rows, n_features)
    y : array-like (n_rows,) or None
        Labels.
    sample_weight : array-like (n_rows,) or None

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
                    f"{name} must have shape {X.shape[:1]}, one entry per row of X; got {values.shape}."
                )

    def _count(self) -> int:
        return int(self.X.shape[0])

    def _columns(self) -> tuple[Any, Any, Any]:
        """X, y and the weights, for one block."""
        return self.X, self.y, self.weight

    def _read(self, start: int, stop: int) -> Iterator[Block]:
        for begin in range(start, stop, self.block_rows):
            part = slice(begin, min(begin + self.block_rows, stop))
            X, y, weight = (None if values is None else _rows(values, part) for values in self._columns())
            yield Block.of(begin, X, y, weight)


def _rows(values: Any, part: slice) -> Any:
    return values.iloc[part] if hasattr(values, "iloc") else values[part]


def _mapped(path: str | None) -> Any:
    return None if path is None else np.load(path, mmap_mode="r")


class NpySource(ArraySource):
    """Rows of .npy files, mapped into memory: only the blocks at work are read from the disk.

    Each process that a source is sent to opens the files anew.

    Parameters
    ----------
    X, y, sample_weight : path
        Files written by :func:`numpy.save`; the last two may be None.
    """

    def __init__(
        self,
        X: str | os.PathLike,
        y: str | os.PathLike | None = None,
        sample_weight: str | os.PathLike | None = None,
    ) -> None:
        self.paths = [None if path is None else os.path.abspath(path) for path in (X, y, sample_weight)]
        super().__init__(*map(_mapped, self.paths))

    def _columns(self) -> tuple[Any, Any, Any]:
        # One mapping per block: pages stay charged to the process as long as they are mapped, so that a pass
        # through a single mapping would take as much memory as the file has.
        X, y, weight = map(_mapped, self.paths)
        return X, y, weight

    def __getstate__(self) -> list[str | None]:
        return self.paths

    def __setstate__(self, paths: list[str | None]) -> None:
        self.__init__(*paths)  # type: ignore[misc]

    def __repr__(self) -> str:
        return str(self.paths[0])
