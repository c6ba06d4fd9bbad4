"""Format of numbers in the tables of the documentation, the same for all numbers of a column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def aligned(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Return the cells of a table as text; None becomes "", and other cells that are not numbers stay unchanged."""
    return [list(row) for row in zip(*map(column, zip(*rows, strict=True)), strict=True)]


def column(cells: Sequence[Any]) -> list[str]:
    """Return a column as text, with fixed decimals, or three significant digits if decimals would hide a number."""
    sizes = [abs(cell) for cell in cells if is_number(cell) and cell]
    largest, smallest = max(sizes, default=1), min(sizes, default=1)
    decimals = 0 if largest >= 100 else 2 if largest >= 10 else 3
    if not any(isinstance(cell, float) for cell in cells):
        style = "{:,}"
    elif smallest < 10**-decimals:
        style = "{:#,.3g}"
    else:
        style = f"{{:,.{decimals}f}}"
    return ["" if c is None else style.format(c).rstrip(".") if is_number(c) else str(c) for c in cells]


def is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool) and math.isfinite(cell)
