"""Storage of results in an SQLite file, with one row for each finished cell."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .protocol import Cell

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, facts TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cells (
  mode TEXT, dataset TEXT, method TEXT, fold INTEGER, seed INTEGER,
  run INTEGER NOT NULL REFERENCES runs(id), finished TEXT NOT NULL, seconds REAL NOT NULL,
  result TEXT NOT NULL, PRIMARY KEY (mode, dataset, method, fold, seed));
"""
_FORMAT = 0x534B4C52  # "SKLR" in the header of the file
_KEY = ", ".join(field.name for field in fields(Cell))


class ResultsError(ValueError):
    """Error for a file that contains no results, or cannot be read or written."""


@dataclass(frozen=True, eq=False)
class StoredCell:
    """A finished cell: the result of :func:`~paper.methods.compute`, its time, and its run."""

    cell: Cell
    run: int
    finished: str
    seconds: float
    result: dict[str, Any]


class Results:
    """A file of results, to which cells can be added unless it is opened with ``readonly``.

    Examples
    --------
    >>> with Results(":memory:") as results:
    ...     len(results.cells())
    0
    """

    def __init__(self, path: str | os.PathLike[str], *, readonly: bool = False) -> None:
        self.path = os.fspath(path)
        if readonly and not Path(self.path).is_file():
            raise ResultsError(f"{self.path}: no such file.")
        try:
            self._db = sqlite3.connect(
                f"{Path(self.path).absolute().as_uri()}?mode=ro" if readonly else self.path, uri=readonly
            )
            mark = self._db.execute("PRAGMA application_id").fetchone()[0]
            tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if mark != _FORMAT and (readonly or tables):
                raise ResultsError(f"{self.path}: the file is a database without results of python -m paper.")
            if not readonly:
                # in one transaction, so that another process sees either no table or all tables
                self._db.executescript(f"BEGIN IMMEDIATE;{_SCHEMA};PRAGMA application_id={_FORMAT};COMMIT")
        except sqlite3.Error as error:
            raise ResultsError(f"{self.path}: the file cannot be used for results ({error}).") from error

    def start_run(self, **facts: Any) -> int:
        """Store facts about the machine and the versions, to which the following cells refer."""
        cursor = self._db.execute("INSERT INTO runs (facts) VALUES (?)", [json.dumps(facts | environment())])
        self._db.commit()
        return int(cursor.lastrowid or 0)

    def add(self, cell: Cell, run: int, seconds: float, result: dict[str, Any]) -> None:
        """Store a finished cell, which is on disk when this method returns."""
        values = [*astuple(cell), run, _now(), seconds, json.dumps(result)]
        self._db.execute(f"INSERT OR REPLACE INTO cells VALUES ({', '.join('?' * len(values))})", values)
        self._db.commit()

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the given cells that are not stored."""
        stored = {Cell(*row) for row in self._db.execute(f"SELECT {_KEY} FROM cells")}
        return [cell for cell in cells if cell not in stored]

    def cells(self, **where: Any) -> list[StoredCell]:
        """Return the stored cells, in order; select some with arguments such as ``mode="converged"``."""
        condition = " AND ".join(f"{name} = ?" for name in where) or "1"
        n = len(fields(Cell))
        rows = self._db.execute(f"SELECT * FROM cells WHERE {condition} ORDER BY {_KEY}", [*where.values()])
        return [
            StoredCell(Cell(*row[:n]), run, finished, seconds, json.loads(result))
            for row in rows
            for run, finished, seconds, result in [row[n:]]
        ]

    def runs(self) -> dict[int, dict[str, Any]]:
        """Return the facts about each run."""
        return {run: json.loads(facts) for run, facts in self._db.execute("SELECT id, facts FROM runs")}

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def environment() -> dict[str, Any]:
    """Return the versions, the machine and the date."""
    packages = ("sparseklr", "numpy", "scipy", "scikit-learn", "joblib")
    return {
        "date": _now(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in packages},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
