"""Rows that a Python function yields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .base import Block, Source


class GeneratorSource(Source):
    """Rows from a function that returns a fresh iterator over them each time it is called.

    Parameters
    ----------
    factory : callable
        ``factory()`` is an iterable of tuples ``(X, y)`` or ``(X, y, sample_weight)`` with any number of rows
        each; the same rows in the same order at every call. A plain generator, which can be read only once,
        will not do.
    n_rows : int, optional
        Number of rows, if it is known: otherwise one pass counts them.

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
                "factory must be a function that returns a fresh iterator each time it is called; got "
                f"{type(factory).__name__}."
            )
        self.factory = factory
        first = next(self._pieces(), None)
        if first is None:
            raise ValueError("factory() gave no rows.")
        self.n_features, self.has_labels = first.X.shape[1], first.y is not None
        if n_rows is not None:
            self.n_rows = n_rows

    def _pieces(self) -> Iterator[Block]:
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
                wanted = f"(any, {self.n_features})" if number else "(rows, features)"
                raise ValueError(f"X of item {number} of factory() must have shape {wanted}; got {shape}.")
            for name, part in (("y", y), ("sample_weight", weight)):
                if part is not None and part.shape != X.shape[:1]:
                    raise ValueError(
                        f"{name} of item {number} of factory() must have shape {X.shape[:1]}; "
                        f"got {part.shape}."
                    )
            if number and (y is None) == self.has_labels:
                raise ValueError(
                    f"item {number} of factory() and the first differ: one has labels, one has not."
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
                    raise ValueError(
                        f"{self}: more rows came than the {stop} that there were, or were announced."
                    )
                return

    def __repr__(self) -> str:
        return f"GeneratorSource({getattr(self.factory, '__name__', self.factory)!s})"
