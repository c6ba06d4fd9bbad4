"""Data directory, folds and printed tables, which all benchmarks use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from sklearn.preprocessing import minmax_scale

from paper.datasets import BENCHMARKS, load_benchmark

DATA = os.environ.get("SPARSEKLR_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
NAMES = tuple(BENCHMARKS)


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the features, scaled to [0, 1], and the labels 0 and 1 of a benchmark set."""
    data = load_benchmark(name, data_home=DATA)
    return np.ascontiguousarray(minmax_scale(data.data)), data.target


def show(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Print a table; numbers have four significant digits."""
    table = Table(title=title)
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
    wide = Console(width=1000)
    Console(width=max(100, Measurement.get(wide, wide.options, table).maximum)).print(table)
