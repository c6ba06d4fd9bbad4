"""Data that need not fit into memory: patterns and folders of Parquet, Arrow or CSV files, read in blocks.

The columns are numbers as they stand; what is made of other tables (dates, text, missing values) needs the
whole table in memory.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import CliError

if TYPE_CHECKING:
    import numpy as np

_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# Rows of a report: of more, so many are drawn.
REPORT_ROWS = 100_000
# Blocks of predictions that are written together.
_TOGETHER = 16
# What makes features of other columns than numbers, or looks at the rows twice.
_WHOLE_TABLE = ("categorical", "number", "date", "na", "encoding", "test_size")


def size(text: str) -> float:
    """Type of an option: bytes, as in 500MB, 1GB or 2e9."""
    found = re.fullmatch(r"([\d.]+(?:e\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    try:
        value = float(found[1]) * _UNITS[found[2].upper()] if found else 0.0
    except ValueError:
        value = 0.0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"expected a size such as 500MB or 1GB; got {text!r}")
    return value


def add_stream(parser: Any) -> None:
    """Options of a fit to more rows than fit into memory."""
    group = parser.add_argument_group(
        "many rows",
        "With --model compact, rows are read in blocks where DATA is a folder or a pattern such as\n"
        "'part-*.parquet', or where one of these options is given. Every cell must then hold a number;\n"
        "of CSV files, commas and decimal points are expected unless --sep and --decimal are given.\n"
        "Text, dates and missing values need one file that is read whole.",
    )
    group.add_argument(
        "--memory",
        metavar="SIZE",
        type=size,
        help="what a fit that reads in blocks takes at most, 1GB where nothing is given. Giving it makes the "
        "fit of a single file one in blocks, of which the model differs slightly",
    )
    group.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster whose workers see the files")
    group.add_argument(
        "--checkpoint", metavar="FILE", help="what a fit that was interrupted or killed goes on from"
    )


def is_many(data: str) -> bool:
    """Whether DATA is a folder, or a pattern."""
    return data != "-" and (os.path.isdir(data) or (glob.has_magic(data) and not os.path.exists(data)))


def is_streamed(args: Namespace) -> bool:
    """Whether a fit reads its rows in blocks."""
    given = [name for name in ("memory", "scheduler", "checkpoint") if getattr(args, name) is not None]
    if not given and not is_many(args.data):
        return False
    what = f"--{given[0]}" if given else f"{args.data}: a folder or a pattern"
    if args.model != "compact":
        raise CliError(f"{what} is for --model compact")
    if args.data == "-":
        raise CliError(f"{what}: standard input can be read only once; give files")
    for name in _WHOLE_TABLE:
        if getattr(args, name):
            raise CliError(f"--{name.replace('_', '-')}: not for rows that are read in blocks ({what})")
    if args.target is None:
        raise CliError("--target: which column holds the classes?")
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
        raise CliError(f"--scheduler {address}: no scheduler answers there") from error
    with client:
        yield client


def fit_stream(args: Namespace, model: Any) -> tuple[int, float]:
    """Fit a CompactKLR to the rows; their number, and the seconds that it took."""
    from ..sources.sample import NotFiniteError

    source = _table(args, args.target, args.sample_weight_column, drop=[*args.drop, *args.id])
    more = {name: getattr(args, name) for name in ("memory", "checkpoint") if getattr(args, name) is not None}
    start = time.perf_counter()
    with _cluster(args.scheduler) as client:
        try:
            model.set_params(**more).fit(source.on(client))
        except NotFiniteError as error:
            raise CliError(
                f"{error} Rows that are read in blocks need a number in every cell; one file without "
                "--memory, --scheduler and --checkpoint is read whole, and missing values are filled"
            ) from error
    model.set_params(checkpoint=None)  # a model file is not bound to a place
    return source.n_rows, time.perf_counter() - start


# -- prediction -------------------------------------------------------------------------------


def predicts_in_blocks(args: Namespace, model: Any) -> bool:
    """Whether rows are predicted in blocks: those of a folder or pattern, and of Parquet by a plain model."""
    plain = not hasattr(model, "named_steps")
    in_memory = [name for name in ("keep", "id", "flag") if getattr(args, name, None) not in (None, False)]
    in_memory += [name for name in ("na", "encoding") if getattr(args, name)]
    if is_many(args.data):
        if in_memory:
            raise CliError(f"--{in_memory[0]}: not for rows that are read in blocks ({args.data})")
        if not plain:
            raise CliError(
                f"{args.data}: the model makes its features of a whole table; give one file at a time"
            )
        return True
    return (
        plain
        and not in_memory
        and args.data.endswith((".parquet", ".pq"))
        and hasattr(model, "feature_names_in_")
    )


def predicted_blocks(
    args: Namespace, model: Any, target: str | None = None, weight: str | None = None
) -> Iterator[tuple[np.ndarray, Any]]:
    """Probabilities of the rows and the rows themselves, block by block.

    Threads work on blocks of their own: of a model of two points, most time goes into reading and scaling.
    """
    import pandas as pd

    from ..sources import LocalBlocks
    from ..sources.sample import check_block, naming_place
    from .data import Rows
    from .unfamiliar import naming_large_cells

    source = _features(args, model, target, weight)
    model.set_params(n_jobs=1)

    def predicted(block: Any) -> tuple[np.ndarray, Any]:
        with naming_place(source):
            check_block(block)
        X = pd.DataFrame(block.X, columns=source.feature_names, copy=False)
        with naming_large_cells(model, Rows(X, None, None, numbers=block.rows, name=args.data)):
            return model.predict_proba(X), block

    for _, found in LocalBlocks(source, -1).results(predicted):
        yield found


def _table(args: Namespace, target: str | None, weight: str | None, **columns: Any) -> Any:
    """The files that DATA stands for."""
    from ..sources import TableSource

    reading = {"format": args.format, "sep": args.sep, "decimal": args.decimal or "."}
    return TableSource(args.data, target, weight=weight, **reading, **columns)


def _features(args: Namespace, model: Any, target: str | None, weight: str | None) -> Any:
    """The files with the features of a model."""
    if not hasattr(model, "feature_names_in_"):
        raise CliError("the model does not know names of columns: it was not fitted to a table")
    return _table(args, target, weight, features=model.feature_names_in_.tolist())


def write_predictions(args: Namespace, model: Any, output: Path, form: str) -> int:
    """Predictions of all rows to a file; the number of rows."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from .files import writing

    classes, n_rows = model.classes_, 0
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
            if len(waiting) == _TOGETHER:
                writer.write_table(pa.concat_tables(waiting))
                waiting.clear()
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
    return n_rows


# -- report -----------------------------------------------------------------------------------


def reports_in_blocks(args: Namespace, model: Any) -> bool:
    """Whether a report reads its rows in blocks: those of a folder, a pattern or a large Parquet file."""
    from pyarrow import parquet

    return predicts_in_blocks(args, model) and (
        is_many(args.data) or parquet.read_metadata(args.data).num_rows > REPORT_ROWS
    )


def sampled_rows(args: Namespace, model: Any, target: str) -> tuple[Any, list[str]]:
    """The rows of files, or a uniform sample if they are many, and what is to be said about them."""
    import numpy as np
    import pandas as pd

    from ..sources import uniform
    from ..sources.base import joined
    from ..sources.sample import check_block, naming_place
    from .data import Rows, check_known

    source = _features(args, model, target, args.sample_weight_column)
    n_rows, pieces, numbers = source.n_rows, [], []
    for block in source.blocks():
        with naming_place(source):
            check_block(block)
        drawn = np.flatnonzero(uniform(block.rows, 0) < REPORT_ROWS / n_rows)
        if len(drawn):
            pieces.append(block.take(drawn))
            numbers.append(block.start + drawn)
    sample = joined(pieces)
    check_known(np.unique(sample.labels), model.classes_.tolist(), f"{args.data}: --target {target}")
    rows = Rows(
        pd.DataFrame(sample.X, columns=source.feature_names),
        sample.labels,
        sample.weights if args.sample_weight_column else None,
        numbers=np.concatenate(numbers),
        n_all=n_rows,
        name=args.data,
    )
    return rows, [] if rows.drawn is None else [rows.drawn]
