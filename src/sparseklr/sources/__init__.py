"""Rows by the million: where they come from, and passes over all of them.

A :class:`Source` hands out blocks of rows in a fixed order, as often as it is asked: :class:`ArraySource`,
:class:`NpySource`, :class:`TableSource` (Parquet, Arrow, CSV), :class:`GeneratorSource` and
:class:`DaskSource`. :class:`LocalBlocks` and :class:`ClusterBlocks` map a function over the blocks and add up
its results, with threads or on a Dask cluster, to the same sum to the last bit.
"""

from .arrays import ArraySource, NpySource
from .base import Block, Source
from .cluster import ClusterBlocks
from .collections import DaskSource, is_dask, lazily
from .generated import GeneratorSource
from .open import as_source, blocks_of
from .passes import Blocks, LocalBlocks
from .sample import Summary, class_shares, draw, summarise, uniform
from .tables import TableSource

__all__ = [
    "ArraySource",
    "Block",
    "Blocks",
    "ClusterBlocks",
    "DaskSource",
    "GeneratorSource",
    "LocalBlocks",
    "NpySource",
    "Source",
    "Summary",
    "TableSource",
    "as_source",
    "blocks_of",
    "class_shares",
    "draw",
    "is_dask",
    "lazily",
    "summarise",
    "uniform",
]
