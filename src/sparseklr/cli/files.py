"""Data files: tables (CSV, TSV, Parquet) as Arrow tables, svmlight files as sparse matrices; safe writing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import CliError, listing

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".svmlight": "svmlight",
}


def format_of(path: str, given: str | None) -> str:
    """The format of a data file that must exist: as given, or by its suffix."""
    if not Path(path).is_file():
        raise CliError(f"{path}: no such file" if not Path(path).exists() else f"{path}: not a file")
    suffix = Path(path.removesuffix(".gz").removesuffix(".bz2")).suffix.lower()
    if not (found := given or SUFFIXES.get(suffix)):
        raise CliError(f"{path}: suffix {suffix!r} is not one of {listing(SUFFIXES)}; give --format")
    return found


def read_table(path: str, form: str, text_columns: list[str]) -> Any:
    """A table with at least one row and distinct column names, as a ``pyarrow.Table``.

    A CSV file does not tell types: what looks like a number is one, but for ``text_columns``.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if form == "parquet":
            table = parquet.read_table(path)
        else:
            nulls = [*csv.ConvertOptions().null_values, "?"]
            types = dict.fromkeys(text_columns, pa.string())
            table = csv.read_csv(
                path,
                # one thread: errors then tell the row
                csv.ReadOptions(use_threads=False),
                csv.ParseOptions(delimiter="\t" if form == "tsv" else ",", newlines_in_values=True),
                csv.ConvertOptions(null_values=nulls, strings_can_be_null=True, column_types=types),
            )
    except pa.ArrowException as error:
        raise CliError(f"{path}: cannot be read as {form}: {str(error).splitlines()[0]}") from error
    names = table.column_names
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise CliError(f"{path}: more than one column is called {listing(twice)}")
    if not table.num_rows:
        raise CliError(f"{path}: there are no rows below the header")
    # the index of a pandas frame is not data
    return table.select([name for name in names if not re.fullmatch(r"__index_level_\d+__", name)])


def read_svmlight(path: str, one_based: bool | None = None, n_features: int | None = None) -> Any:
    """Rows (CSR), labels and whether features are counted from 1.

    With ``one_based`` and ``n_features`` of a model, the columns are those of its training data.
    """
    import numpy as np
    from sklearn.datasets import load_svmlight_file

    try:
        # counted from 0 whatever the file does: of one-based files column 0 is then empty
        X, y = load_svmlight_file(path, zero_based=True)
    except ValueError as error:
        raise CliError(f"{path}: cannot be read as svmlight: {error}") from error
    if not X.nnz:
        raise CliError(f"{path}: there are no rows with a feature")
    lowest, highest = int(X.indices.min()), int(X.indices.max())
    one_based = lowest > 0 if one_based is None else one_based
    first = int(one_based)
    n_features = n_features or highest + 1 - first
    if lowest < first or highest >= n_features + first:
        bad = lowest if lowest < first else highest
        raise CliError(
            f"{path}: there is a feature {bad}; the model knows features {first} to {n_features - 1 + first}"
        )
    X.resize(X.shape[0], n_features + first)
    whole = np.array_equal(y, np.round(y))
    return X[:, first:], y.astype(np.int64) if whole else y, one_based


def check_output(path: str, force: bool) -> Path:
    """The output file, if it may be written: told before a long computation rather than after."""
    output = Path(path).resolve()
    if output.exists() and not output.is_file():
        raise CliError(f"--output {path}: exists and is not a file")
    if output.exists() and not force:
        raise CliError(f"--output {path}: exists; --force overwrites it")
    if not output.parent.is_dir():
        raise CliError(f"--output {path}: there is no directory {output.parent}")
    if not os.access(output.parent, os.W_OK):
        raise CliError(f"--output {path}: no permission to write in {output.parent}")
    return output


@contextmanager
def replacing(output: Path) -> Iterator[Path]:
    """A temporary file beside ``output`` that takes its place if all goes well, and vanishes otherwise."""
    temporary = output.with_name(f".{os.getpid()}-{output.name}")
    try:
        yield temporary
        os.replace(temporary, output)
    except OSError as error:
        raise CliError(f"--output {output}: {(error.strerror or str(error)).lower()}") from error
    finally:
        temporary.unlink(missing_ok=True)
