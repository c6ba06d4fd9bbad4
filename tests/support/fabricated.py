"""Made-up results close to the paper's numbers, for tests of the report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from paper import Cell, Results, plan
from paper.methods import method
from paper.protocol import RULES
from paper.report.tables import theirs


def fabricate(path: Path, cells: Iterable[Cell] | None = None, source: str = "made up") -> Path:
    """Write a file of results with the given cells, all of the converged mode by default."""
    cells = plan() if cells is None else cells
    with Results(path) as results:
        run = results.start_run(jobs=2, scheduler=None, cells=0)
        results._db.execute("PRAGMA synchronous = OFF")
        for k, cell in enumerate(cells):
            rng = np.random.default_rng(k)
            results.add(cell, run, float(rng.uniform(0.1, 3)), _result(cell, rng) | {"source": source})
    return path


def _result(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    grid = method(cell.method, cell.mode).candidates
    n, wanted = len(grid), theirs(cell.method, "best", cell.dataset) or (0.92, 0.1)
    peak = np.exp(-((np.arange(n) - 0.6 * n) ** 2) / (0.3 * n + 1) ** 2)  # best beyond the middle
    accuracy = np.clip(wanted[0] * (0.7 + 0.3 * peak) + rng.normal(0, 0.01, n), 0.4, 1)
    share = np.clip(1 - (1 - wanted[1]) * np.arange(1, n + 1) / n, 0.0001, 1)
    fitted = np.ones(n, dtype=bool) if method(cell.method, cell.mode).whole_grid else peak > 0.8
    best = int(np.argmax(np.where(fitted, accuracy, 0)))
    columns = {
        "accuracy": accuracy,
        "share": share,
        "converged": rng.random(n) > (0.4 if cell.mode == "as-printed" else 0.002),
        "n_iter": np.full(n, 100.0),
        "seconds": rng.lognormal(-4, 0.5, n) * (3 if cell.method.endswith("1ord") else 1),
    }
    logits = cell.method != "SVM"
    if logits:
        columns |= {"log_loss": 1 - accuracy, "brier": (1 - accuracy) / 2}
    names = ("accuracy", "share", "log_loss", "brier", "converged", "n_iter", "seconds")
    stored = {
        name: [float(v) if ok and name in columns else None for v, ok in zip(values, fitted, strict=True)]
        for name in names
        for values in [columns.get(name, np.zeros(n))]
    }
    rows = rng.integers(5, 60, 10)
    probability = np.linspace(0.05, 0.95, 10)
    bins = {"n": rows, "p": rows * probability, "y": np.round(rows * probability ** (1 + rng.random()))}
    reliability = {rule: {key: value.tolist() for key, value in bins.items()} for rule in RULES}
    return {
        "grid": {
            "C": [None if np.isnan(C) else C for C, _ in grid],
            "lam": [None if np.isnan(lam) else lam for _, lam in grid],
            "val_accuracy": accuracy.round(2).tolist(),
            "val_share": share.tolist(),
            **stored,
        },
        "chosen": dict.fromkeys(RULES, best),
        "reliability": reliability if logits else {},
        "n_train": 400,
        "n_val": 20,
        "n_test": 100,
    }
