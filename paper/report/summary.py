"""Means of stored results over folds and seeds, for one mode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..datasets import BENCHMARKS
from ..protocol import METHODS
from ..store import StoredCell


class Summary:
    """Means over folds and seeds of the results stored in one mode.

    ``value(dataset, method, rule, metric)`` returns a mean; the metrics are those of the stored grid.
    """

    def __init__(self, records: Iterable[StoredCell], mode: str) -> None:
        self.mode = mode
        self.records = [record for record in records if record.cell.mode == mode]
        self._by: dict[tuple[str, str], list[StoredCell]] = {}
        for record in self.records:
            self._by.setdefault((record.cell.dataset, record.cell.method), []).append(record)
        self.datasets = [name for name in BENCHMARKS if any(name == dataset for dataset, _ in self._by)]
        self.methods = [name for name in METHODS if any(name == method for _, method in self._by)]

    def of(self, dataset: str, method: str) -> list[StoredCell]:
        """Return the stored folds."""
        return self._by.get((dataset, method), [])

    def folds(self, dataset: str, method: str, rule: str, metric: str) -> np.ndarray:
        """Return the metric of the chosen model in each fold."""
        return np.array(
            [_number(r.result["grid"][metric][r.result["chosen"][rule]]) for r in self.of(dataset, method)]
        )

    def value(self, dataset: str, method: str, rule: str, metric: str) -> float:
        found = self.folds(dataset, method, rule, metric)
        return float(found.mean()) if len(found) else np.nan

    def grid(self, dataset: str, method: str, metric: str) -> np.ndarray:
        """Return the metric of every candidate, averaged over the folds; empty if nothing is stored."""
        columns = [[_number(v) for v in r.result["grid"][metric]] for r in self.of(dataset, method)]
        return np.mean(columns, axis=0) if columns else np.empty(0)

    def seconds(self, dataset: str, method: str) -> float:
        """Return the seconds per fit, averaged over the folds and the fitted candidates."""
        found = [v for r in self.of(dataset, method) for v in r.result["grid"]["seconds"] if v is not None]
        return float(np.mean(found)) if found else np.nan


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of a mean over folds; NaN for a single fold."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan
