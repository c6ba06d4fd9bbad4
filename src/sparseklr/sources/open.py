"""From what a user gives to a source, and from a source to where its blocks are worked on."""

from __future__ import annotations

from os import PathLike
from typing import Any

from .arrays import ArraySource, NpySource
from .base import Source
from .cluster import ClusterBlocks
from .collections import DaskSource, is_dask, running_client
from .passes import Blocks, LocalBlocks
from .tables import TableSource


def as_source(X: Any, y: Any = None, sample_weight: Any = None) -> Source:
    """A source of what is given.

    A source is taken as it is. Paths of .npy files become a :class:`NpySource`, other paths a
    :class:`TableSource` with ``y`` and ``sample_weight`` as names of columns, Dask collections a
    :class:`DaskSource`, and anything else an :class:`ArraySource`.
    """
    if isinstance(X, Source):
        if y is not None or sample_weight is not None:
            raise ValueError(
                f"{type(X).__name__} holds labels and weights itself: y and sample_weight must be None."
            )
        return X
    if isinstance(X, (str, PathLike)):
        if str(X).endswith(".npy"):
            return NpySource(X, y, sample_weight)
        for name, part in (("y", y), ("sample_weight", sample_weight)):
            if part is not None and not isinstance(part, str):
                raise TypeError(
                    f"X is the path {X!s}: {name} must be the name of a column; got {type(part).__name__}."
                )
        return TableSource(X, y, weight=sample_weight)
    if any(map(is_dask, (X, y, sample_weight))):
        if not is_dask(X):
            raise TypeError("y or sample_weight is a Dask collection: X must be one as well.")
        return DaskSource(X, y, sample_weight)
    return ArraySource(X, y, sample_weight)


def blocks_of(source: Source, n_jobs: int | None = None) -> Blocks:
    """On the cluster of ``source.client``, or of the running client for Dask collections; else on threads."""
    client = source.client
    if client is None and isinstance(source, DaskSource):
        client = running_client()
    return LocalBlocks(source, n_jobs) if client is None else ClusterBlocks(source, client)
