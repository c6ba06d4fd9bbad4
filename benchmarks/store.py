"""Storage of result tables for the documentation in ``docs/results/NAME.json``, with machine and versions."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from . import sources
from .common import show

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"


def conditions() -> str:
    """Return a description of the machine, the numbers of threads and the versions."""
    cpu = Path("/proc/cpuinfo")
    names = (
        [line for line in cpu.read_text().splitlines() if line.startswith("model name")]
        if cpu.exists()
        else []
    )
    processor = names[0].partition(": ")[2] if names else platform.processor() or platform.machine()
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    packages = ", ".join(f"{name} {version(name)}" for name in ("sparseklr", "scikit-learn", "numpy"))
    return f"{processor}, {os.cpu_count()} cores, threads of BLAS and OpenMP: {threads}, {platform.system()}, Python {platform.python_version()}, {packages}"


def store(
    name: str,
    command: str,
    note: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    measured: Iterable[str] | None = (),
) -> None:
    """Print a table, and write it to the file that the directive ``measured`` of the documentation reads.

    ``measured`` contains the hashes of the sources with which the rows were measured, in this run and in earlier runs.
    None leaves the recorded hash unchanged.
    """
    plain = [[value.item() if isinstance(value, np.generic) else value for value in row] for row in rows]
    show(name, list(columns), plain)
    RESULTS.mkdir(parents=True, exist_ok=True)
    found = {
        "command": command,
        "conditions": conditions(),
        "note": note,
        "columns": list(columns),
        "rows": plain,
    }
    (RESULTS / f"{name}.json").write_text(
        json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    if measured is not None:
        sources.record(name, measured)
