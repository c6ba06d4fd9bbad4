"""Data that may be too large for memory and are read in blocks: folders of files, and file patterns.

The files have the format Parquet, Arrow or CSV, and all columns must be numeric. Tables with dates, text or
missing values are read as a whole by :mod:`.reading`.
"""

from __future__ import annotations

import glob
import os
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..streaming import TableSource
from ..streaming.passes import LocalBlocks, NotFiniteError, check_block, naming_place, uniform
from ..streaming.sources import joined
from .files import writing
from .model import Model
from .options import CliError
from .reading import Dataset, check_known

REPORT_ROWS = 100_000  # with more rows than this, a report uses a sample of about this size


def is_many(data: str) -> bool:
    """Return whether DATA is a folder or a file pattern."""
    return data != "-" and (os.path.isdir(data) or (glob.has_magic(data) and not os.path.exists(data)))


# -- fit --------------------------------------------------------------------------------------


def is_streamed(args: Namespace) -> bool:
    """Return whether a fit reads its rows in blocks; raise an error if the options do not allow it."""
    given = [name for name in ("memory", "scheduler", "checkpoint") if getattr(args, name) is not None]
    if not given and not is_many(args.data):
        return False
    what = f"--{given[0]}" if given else f"{args.data}: a folder or a file pattern"
    if args.model != "compact":
        raise CliError(f"{what} requires --model compact")
    if args.data == "-":
        raise CliError(f"{what}: standard input can be read only once; pass files instead")
    # test rows and columns that are not numeric require the whole table in memory
    for name in ("categorical", "number", "date", "na", "encoding", "test_size"):
        if getattr(args, name):
            raise CliError(
                f"--{name.replace('_', '-')} is not available when the data are read in blocks ({what})"
            )
    if args.target is None:
        raise CliError("--target is required: the name of the column that contains the classes")
    return True


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    if address is None:
        yield None
        return
    from distributed import Client

    try:
        client = Client(address, timeout=10)
    except (OSError, TimeoutError, ValueError) as error:
        raise CliError(f"--scheduler {address}: no Dask scheduler responds at this address") from error
    with client:
        yield client


def fit_stream(args: Namespace, model: Any) -> tuple[int, float]:
    """Fit a CompactKLR to the rows of DATA; return the number of rows and the time in seconds."""
    source = _source(args, args.target, args.sample_weight_column, drop=[*args.drop, *args.id])
    start = time.perf_counter()
    with _cluster(args.scheduler) as client:
        try:
            model.fit_source(source.on(client), memory=args.memory or 1e9, checkpoint=args.checkpoint)
        except NotFiniteError as error:
            raise CliError(
                f"{error} Out-of-core fitting requires a number in every cell. A single file without "
                "--memory, --scheduler or --checkpoint is read as a whole, and its missing values are "
                "imputed"
            ) from error
    return source.n_rows, time.perf_counter() - start


def _source(args: Namespace, target: str | None, weight: str | None, **columns: Any) -> Any:
    """Return a source that reads the files of DATA in blocks."""
    reading = {"format": args.format, "sep": args.sep, "decimal": args.decimal or "."}
    return TableSource(args.data, target, weight=weight, **reading, **columns)


# -- prediction -------------------------------------------------------------------------------


def predicts_in_blocks(args: Namespace, model: Model) -> bool:
    """Return whether the predictions for DATA are computed in blocks.

    This is the case for folders, file patterns and single Parquet files, unless the model is a pipeline. An
    error is raised if DATA is a folder or a pattern and the model or an option requires the whole table.
    """
    plain = not hasattr(model.fitted, "named_steps")
    in_memory = [
        name for name in ("keep", "id", "flag", "set") if getattr(args, name, None) not in (None, False)
    ]
    in_memory += [name for name in ("na", "encoding") if getattr(args, name)]
    if is_many(args.data):
        if in_memory:
            raise CliError(f"--{in_memory[0]} is not available for a folder or a file pattern ({args.data})")
        if not plain:
            raise CliError(
                f"{args.data}: the model is a pipeline, which cannot read a folder or a file pattern; give "
                "one file at a time"
            )
        return True
    return (
        plain
        and not in_memory
        and args.data.endswith((".parquet", ".pq"))
        and hasattr(model.fitted, "feature_names_in_")
    )


def _model_source(args: Namespace, model: Model, target: str | None) -> Any:
    """Return a source that reads the features of a model and, if there is a target, labels and weights."""
    if not hasattr(model.fitted, "feature_names_in_"):
        raise CliError(f"{model.name}: the model has no column names, because it was not fitted to a table")
    weight = None if target is None else args.sample_weight_column
    return _source(args, target, weight, features=model.fitted.feature_names_in_.tolist())


def predicted_blocks(
    args: Namespace, model: Model, target: str | None = None
) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield, block by block, the predicted probabilities and the block; each block uses one thread."""
    source = _model_source(args, model, target)
    model.fitted.set_params(n_jobs=1)

    def predicted(block: Any) -> tuple[np.ndarray, Any]:
        with naming_place(source):
            check_block(block)
        X = pd.DataFrame(block.X, columns=source.feature_names, copy=False)
        return model.predict_proba(Dataset(args.data, X, numbers=1 + block.rows)), block

    for _, found in LocalBlocks(source, -1).results(predicted):
        yield found


def write_predictions(args: Namespace, model: Model, output: Path, form: str) -> int:
    """Write the predictions for all rows of DATA to a file, and return the number of rows."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    classes, n_rows = model.fitted.classes_, 0
    names = ["predicted", *(f"p_{label}" for label in classes)]
    schema = pa.schema(zip(names, [pa.array(classes).type, *[pa.float64()] * len(classes)], strict=True))
    options = csv.WriteOptions(delimiter="\t" if form == "tsv" else ",")
    waiting: list[Any] = []
    with (
        writing(output) as temporary,
        parquet.ParquetWriter(temporary, schema)
        if form == "parquet"
        else csv.CSVWriter(temporary, schema, write_options=options) as writer,
    ):
        for prob, block in predicted_blocks(args, model):
            columns = [classes[prob.argmax(axis=1)], *prob.T]
            waiting.append(pa.table([pa.array(column) for column in columns], schema=schema))
            n_rows += len(block)
            if len(waiting) == 16:
                writer.write_table(pa.concat_tables(waiting))
                waiting.clear()
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
    return n_rows


# -- report -----------------------------------------------------------------------------------


def reports_in_blocks(args: Namespace, model: Model) -> bool:
    """Return whether a report reads DATA in blocks: a folder, a file pattern or a large Parquet file."""
    from pyarrow import parquet

    return predicts_in_blocks(args, model) and (
        is_many(args.data) or parquet.read_metadata(args.data).num_rows > REPORT_ROWS
    )


def sampled_rows(args: Namespace, model: Model, target: str) -> tuple[Dataset, list[str]]:
    """Return the rows of DATA, or a uniform sample if there are many rows, and notes for the user."""
    source = _model_source(args, model, target)
    n_rows, pieces, numbers = source.n_rows, [], []
    for block in source.blocks():
        with naming_place(source):
            check_block(block)
        drawn = np.flatnonzero(uniform(block.rows, 0) < REPORT_ROWS / n_rows)
        if len(drawn):
            pieces.append(block.take(drawn))
            numbers.append(1 + block.start + drawn)
    sample = joined(pieces)
    check_known(np.unique(sample.labels), model.classes, f"{args.data}: --target {target}")
    rows = Dataset(
        args.data,
        pd.DataFrame(sample.X, columns=source.feature_names),
        sample.labels,
        sample.weights if args.sample_weight_column else None,
        numbers=np.concatenate(numbers),
        n_all=n_rows,
    )
    return rows, [] if rows.sample is None else [rows.sample]


# -- measures ---------------------------------------------------------------------------------


def measure_stream(args: Namespace, model: Model, target: str) -> dict[str, Any]:
    """Return the measures of a model on the rows of DATA, which are read in blocks.

    Only predicted probabilities, labels and weights are kept in memory.
    """
    parts = []
    for prob, block in predicted_blocks(args, model, target):
        check_known(np.unique(block.labels), model.classes, f"{args.data}: --target {target}")
        parts.append((prob, block.labels, block.weights))
    prob, y, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    predicted = model.fitted.classes_[prob.argmax(axis=1)]
    return model.measure_predictions(y, prob, predicted, weight if args.sample_weight_column else None)
