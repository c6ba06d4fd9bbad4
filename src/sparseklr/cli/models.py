"""Model files of the command line: the pipeline, and how it came about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..model_files.storage import load_with_metadata, save
from ..tabular.cells import read_cells
from .data import Rows
from .files import read_bytes, source_name, writing


def make_pipeline(estimator: Any, rows: Rows, args: Any) -> Any:
    """The estimator behind what makes its features: of a table as :func:`sparseklr.tabular_pipeline`."""
    if rows.table is None:  # sparse rows are only scaled
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import MaxAbsScaler

        return Pipeline([("scale", MaxAbsScaler()), ("model", estimator)])
    from ..tabular.pipeline import tabular_pipeline

    table = rows.table
    found = "auto" if table.decimal else table.facts.get("decimal", "auto")
    return tabular_pipeline(
        estimator,
        scale=args.scale,
        categorical=args.categorical,
        number=args.number,
        date=args.date,
        drop=[*args.drop, *args.id],
        na=args.na,
        decimal=args.decimal or (found if found == "," else "auto"),
    )


def save_model(output: Path, pipeline: Any, rows: Rows | None, args: Any, **more: Any) -> None:
    """Write a model file in one step; ``rows`` are those of the fit, None if they were read in blocks."""
    metadata = {
        "target": args.target,
        "id": list(args.id),
        "svmlight": None if rows is None else rows.svmlight,
        "points": {} if rows is None else _points(pipeline, rows),
        **more,
    }
    with writing(output) as temporary:
        save(pipeline, temporary, metadata=metadata)


def _points(pipeline: Any, rows: Rows) -> dict[str, Any]:
    """The training rows that the model keeps, as they stand in the file: what explanations show; of a compact
    model there are none."""
    support = getattr(pipeline[-1], "support_", None)
    if support is None:
        return {}
    assert rows.y is not None
    points: dict[str, Any] = {"classes": rows.y[support].tolist()}
    if rows.table is not None:
        frame = rows.X[pipeline["read"].get_feature_names_out()].iloc[support]
        points |= {"rows": frame.index.tolist(), "cells": cells_of(frame, rows.table.na)}
    return points


def cells_of(frame: Any, na: Any = ()) -> dict[str, list[str]]:
    """The columns of a table as text, "" where nothing is known."""
    columns = {name: read_cells(frame[name], name, na) for name in frame.columns}
    return {name: cells.spread(cells.tokens, "").tolist() for name, cells in columns.items()}


def load_model(path: str) -> tuple[Any, dict[str, Any]]:
    """Pipeline and metadata of a model file; a file that holds anything unexpected is not loaded."""
    return load_with_metadata(read_bytes(path), source_name(path))
