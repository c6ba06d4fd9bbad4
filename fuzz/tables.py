"""Random realistic tables for the pipeline that the command line fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from sparseklr import CompactKLR, SparseKLR, tabular_pipeline

from .findings import Findings
from .inputs import Data, Rng
from .trial import Trial

_WORDS = np.array(["Oslo", "Rome", "new york", "Ärger", "", " a ", "007", "1e5", "none", "NA", "?", "0"])
_MISSING: list[Any] = [None, np.nan, "", "NA", "n/k", "-", pd.NA]


def _with_missing(rng: Rng, cells: list[Any]) -> list[Any]:
    """Return a column in which some cells are replaced by a common notation of missing values."""
    fraction, token = rng.choice([0.0, 0.0, 0.1, 0.9]), _MISSING[rng.integers(len(_MISSING))]
    return [token if rng.random() < fraction else cell for cell in cells]


def _numbers_as_text(rng: Rng, values: np.ndarray) -> list[str]:
    form = str(rng.choice(["{:.3f}", "{:g}", "${:,.2f}", "{:.1f} kg", "{:.0f} %", "({:.2f})", "{:e}"]))
    cells = [form.format(value) for value in values]
    if rng.random() < 0.2:  # a decimal comma
        cells = [cell.replace(".", ",") for cell in cells]
    return cells


def _dates(rng: Rng, values: np.ndarray) -> Any:
    days = np.clip(values, -20, 20) * 500
    dates = pd.Timestamp("2001-02-03") + pd.to_timedelta(np.nan_to_num(days).round(), unit="D")
    form = [None, "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y %H:%M", "%B %d, %Y"][rng.integers(5)]
    return dates if form is None else dates.strftime(form).tolist()


_COLUMNS: dict[str, Callable[[Rng, np.ndarray], Any]] = {
    "numbers": lambda rng, values: values,
    "numbers as text": lambda rng, values: _with_missing(rng, _numbers_as_text(rng, values)),
    "numbers with missing values": lambda rng, values: np.where(
        rng.random(len(values)) < 0.3, np.nan, values
    ),
    "whole": lambda rng, values: pd.array(np.clip(values, -1e6, 1e6).round().tolist(), dtype="Int64"),
    "category": lambda rng, values: pd.Categorical(_WORDS[np.digitize(values, [-1.0, 0.0, 1.0])]),
    "text": lambda rng, values: _with_missing(rng, rng.choice(_WORDS, len(values)).tolist()),
    "mixed": lambda rng, values: [v if rng.random() < 0.5 else str(rng.choice(_WORDS)) for v in values],
    "booleans": lambda rng, values: values > 0,
    "dates": _dates,
    "dates with missing values": lambda rng, values: _with_missing(rng, list(_dates(rng, values))),
    "constant": lambda rng, values: ["same"] * len(values),
    "empty": lambda rng, values: [None] * len(values),
    "identifier": lambda rng, values: [f"id{k}" for k in range(len(values))],
}


def table(rng: Rng, data: Data, findings: Findings) -> None:
    """Check that predictions for a table are finite and consistent, or that an error names the problem."""
    kinds = [str(rng.choice(list(_COLUMNS))) for _ in range(min(data.dense.shape[1], 6))]
    frame = pd.DataFrame(
        {
            f"{kind} {k}": _COLUMNS[kind](rng, column)
            for k, (kind, column) in enumerate(zip(kinds, data.dense.T, strict=False))
        }
    )
    estimator = [None, SparseKLR(tol=1e-2), CompactKLR(max_points=8)][rng.choice(3, p=[0.6, 0.2, 0.2])]
    model = tabular_pipeline(estimator)
    trial = Trial(rng, replace(data, weight=None), findings, model, tame=False)
    trial.rows, trial.new_rows = frame, _changed(rng, frame)
    findings.start(f"tabular_pipeline({estimator!r}) on a table of {', '.join(kinds)} from {data.about}")
    trial.fit()
    trial.predict()


def _changed(rng: Rng, frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows to predict: reordered rows with exchanged cells, new categories and missing values."""
    rows = frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)
    for name in rows.columns:
        if rng.random() < 0.3:
            cells = rows[name].astype(object).tolist()
            if isinstance(cells[0], str):
                cells[0] = str(rng.choice(["never seen", "", "NA"]))
            else:
                cells[0] = np.nan
            rows[name] = cells
    return rows[rng.permutation(rows.columns)]
