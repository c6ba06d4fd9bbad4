"""Model files of the command line: the pipeline, and how it came about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..tabular.storage import load_with_metadata, save
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


def save_model(output: Path, pipeline: Any, rows: Rows, args: Any, **more: Any) -> None:
    """Write a model file, in one step."""
    metadata = {"target": args.target, "id": list(args.id), "svmlight": rows.svmlight, **more}
    with writing(output) as temporary:
        save(pipeline, temporary, metadata=metadata)


def load_model(path: str) -> tuple[Any, dict[str, Any]]:
    """Pipeline and metadata of a model file; a file that holds anything unexpected is not loaded."""
    return load_with_metadata(read_bytes(path), source_name(path))
