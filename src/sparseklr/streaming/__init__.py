"""Out-of-core fits of compact models: sources of rows, passes over all rows, and the fit itself.

A :class:`Source` yields blocks of rows in a fixed order, as often as needed. The sources are
:class:`ArraySource`, :class:`NpySource`, :class:`TableSource` (Parquet, Arrow, CSV), :class:`GeneratorSource`
and :class:`DaskSource`. :class:`LocalBlocks` (threads) and :class:`ClusterBlocks` (a Dask cluster) apply a
function to all blocks and sum the results. Both give bit-identical sums.
"""

from .dask import DaskSource
from .sources import ArraySource, GeneratorSource, NpySource, Source
from .tables import TableSource

__all__ = ["ArraySource", "DaskSource", "GeneratorSource", "NpySource", "Source", "TableSource"]
