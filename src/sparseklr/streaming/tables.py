"""Rows from Parquet, Arrow and CSV files: one or more files, a folder or a partitioned data set."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .._utils.messages import listing
from .sources import Block, Source

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".tsv": "tsv",
}


class TableSource(Source):
    """Rows of Parquet, Arrow or CSV files, read in batches. This class needs pyarrow.

    Only the required columns are read. A filter skips whole files and row groups if their statistics show
    that they contain no matching rows. Every file must have all columns. Files without rows are skipped.

    Parameters
    ----------
    paths : path, or sequence of paths
        Files, folders, or patterns such as ``"part-*.parquet"``, whose matches are read in the order of their
        names. A folder is searched for files of the format; partition keys of paths such as ``year=2024/``
        become columns.
    target : str or None
        Name of the label column; None if the rows are only to be predicted.
    weight : str, optional
        Name of the column with the weights of the rows.
    features : sequence of str, optional
        Names of the feature columns, in this order; by default all columns except labels and weights.
    drop : sequence of str, optional
        Names of columns that are not features.
    filter : pyarrow.compute.Expression, optional
        Condition on the rows to read, for example ``pyarrow.compute.field("year") >= 2020``.
    format : {"parquet", "arrow", "csv", "tsv"}, optional
        Format of the files; by default, inferred from the suffix of the first file.
    sep : str, optional
        Separator of CSV files; by default a comma.
    decimal : {".", ","}, default="."
        Decimal sign of CSV files.

    Notes
    -----
    Features may be floats, integers and booleans, but not text, dates or nested columns. Missing values
    become NaN; a fit then raises an error with the row number, counted from 1.
    """

    def __init__(
        self,
        paths: str | os.PathLike | Sequence[str | os.PathLike],
        target: str | None,
        *,
        weight: str | None = None,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        filter: Any = None,
        format: str | None = None,
        sep: str | None = None,
        decimal: str = ".",
    ) -> None:
        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        self.paths, self.format = _expand([os.fspath(path) for path in given], format)
        self.target, self.weight, self.filter = target, weight, filter
        self.has_labels = target is not None
        self.sep, self.decimal = sep or ("\t" if self.format == "tsv" else ","), decimal
        schema = self._open().schema
        for role, name in (("target", target), ("weight", weight)):
            if name is not None and name not in schema.names:
                raise ValueError(
                    f"{role}={name!r} is not a column of {self}; its columns are {self._columns(schema)}."
                )
        if features is None:
            features = [name for name in schema.names if name not in {target, weight, *drop, *_index(schema)}]
        self.feature_names = list(features)
        if not self.feature_names:
            raise ValueError(f"{self}: there is no feature column.")
        self.n_features = len(self.feature_names)
        self._types = self._column_types(schema)
        self.dtype = np.float32 if {str(self._types[f]) for f in features} == {"float"} else np.float64

    # -- contents of the files ------------------------------------------------------------------

    def _open(self, schema: Any = None) -> Any:
        """Return the files as a pyarrow data set."""
        from pyarrow import csv, dataset

        form: Any = self.format
        if self.format in ("csv", "tsv"):
            nulls = [*csv.ConvertOptions().null_values, "?"]
            form = dataset.CsvFileFormat(
                csv.ParseOptions(delimiter=self.sep),
                convert_options=csv.ConvertOptions(
                    null_values=nulls, strings_can_be_null=True, decimal_point=self.decimal
                ),
            )
        with _arrow_errors(str(self), self._form):
            return dataset.dataset(self.paths, format=form, schema=schema, partitioning="hive")

    @property
    def _form(self) -> str:
        """The name of the format, for messages."""
        return f"csv separated by {self.sep!r} (sep= changes it)" if self.format == "csv" else self.format

    def _columns(self, schema: Any) -> str:
        """Return a list of the columns, for messages; a single column suggests a wrong separator."""
        return listing(schema.names) + (f", read as {self._form}" if len(schema.names) == 1 else "")

    def _column_types(self, schema: Any) -> dict[str, Any]:
        """Return the types of the columns; raise an error if a feature is not a number."""
        import pyarrow as pa

        types = {}
        for name in self.feature_names or []:
            if name not in schema.names:
                raise ValueError(
                    f"feature {name!r} is not a column of {self}; its columns are {self._columns(schema)}."
                )
            kind = schema.field(name).type
            _check_number(kind, name, self.paths[0])
            types[name] = kind if kind in (pa.float32(), pa.bool_()) else pa.float64()
        if self.weight is not None:
            _check_number(schema.field(self.weight).type, self.weight, self.paths[0])
            types[self.weight] = pa.float64()
        if self.target is not None:
            types[self.target] = _label_type(schema.field(self.target).type)
        return types

    @cached_property
    def _dataset(self) -> Any:
        """The files with explicit column types, which the first lines of a CSV file may not determine."""
        schema = self._open().schema
        for name, kind in self._types.items():
            field = schema.field(name).with_type(kind)
            schema = schema.set(schema.get_field_index(name), field)
        opened = self._open(schema)
        for fragment in opened.get_fragments():
            self._check_file(fragment)
        return opened

    def _check_file(self, fragment: Any) -> None:
        """Raise an error if a file lacks a column, because pyarrow would silently fill it with nulls."""
        from pyarrow import dataset

        with _arrow_errors(fragment.path, self._form):
            schema = fragment.physical_schema
        keys = dataset.get_partition_keys(fragment.partition_expression)
        for name in self._types:
            if name in keys:
                continue
            if name not in schema.names:
                raise ValueError(
                    f"{fragment.path}: there is no column {name!r}; the columns are {listing(schema.names)}."
                )
            kind = schema.field(name).type
            if name != self.target:
                _check_number(kind, name, fragment.path)
            elif _is_number(kind) != _is_number(self._types[name]):
                raise ValueError(
                    f"{fragment.path}: column {name!r} is of type {kind}; in {self.paths[0]} it is of type "
                    f"{self._types[name]}."
                )

    @cached_property
    def _parts(self) -> list[tuple[Any, int]]:
        """The non-empty row groups (for CSV, files) in order, with their numbers of rows."""
        parts = []
        for fragment in self._dataset.get_fragments(filter=self.filter):
            if self.format == "parquet":
                pieces = fragment.split_by_row_group(filter=self.filter, schema=self._dataset.schema)
            else:
                pieces = [fragment]
            parts += [(piece, self._rows_of(piece)) for piece in pieces]
        return [(piece, n_rows) for piece, n_rows in parts if n_rows]

    def _rows_of(self, piece: Any) -> int:
        """Return the number of rows of a row group or file."""
        if self.format == "parquet" and self.filter is None:
            return sum(group.num_rows for group in piece.row_groups)
        with _arrow_errors(piece.path, self._form):
            if self.filter is None:
                return int(piece.count_rows())
            # With a filter, count_rows may count the whole file instead of the row group.
            scanner = self._scanner([piece])
            return sum(batch.num_rows for batch in scanner.to_batches())

    def _count(self) -> int:
        return int(self.cuts[-1])

    @cached_property
    def cuts(self) -> np.ndarray:
        """Index of the first row of each row group or file, followed by the total number of rows."""
        return np.cumsum([0, *(n_rows for _, n_rows in self._parts)])

    def place(self, row: int) -> str:
        part = int(np.searchsorted(self.cuts, row, side="right")) - 1
        path = self._parts[part][0].path
        first = next(k for k, (piece, _) in enumerate(self._parts) if piece.path == path)
        return f"{path}, row {row - int(self.cuts[first]) + 1} (counted from 1)"

    # -- reading -------------------------------------------------------------------------------

    def _read(self, start: int, stop: int) -> Iterator[Block]:
        first = int(np.searchsorted(self.cuts, start, side="right")) - 1
        last = int(np.searchsorted(self.cuts, stop, side="left"))
        pieces = [piece for piece, _ in self._parts[first:last]]
        if not pieces:
            return
        row = int(self.cuts[first])
        with _arrow_errors(str(self), self._form):
            for batch in self._scanner(pieces).to_batches():
                begin, end = max(0, start - row), min(batch.num_rows, stop - row)
                if begin < end:
                    yield self._block(batch.slice(begin, end - begin), row + begin)
                row += batch.num_rows
                if row >= stop:
                    return

    def _scanner(self, pieces: list[Any]) -> Any:
        """Return a scanner that reads the required columns of the given row groups or files."""
        from pyarrow import dataset

        chosen = dataset.FileSystemDataset(pieces, self._dataset.schema, self._dataset.format)
        return chosen.scanner(
            columns=list(self._types),
            filter=self.filter,
            batch_size=2 * self.block_rows,
            batch_readahead=4,  # limits the memory
            fragment_readahead=2,
        )

    def _block(self, batch: Any, start: int) -> Block:
        """Convert a pyarrow record batch to a block of rows."""
        X = np.empty((batch.num_rows, self.n_features), dtype=self.dtype)
        for j, name in enumerate(self.feature_names or []):
            X[:, j] = _to_numpy(batch.column(name))
        y = weight = None
        if self.target is not None:
            y = self._labels(batch.column(self.target), start)
        if self.weight is not None:
            weight = _to_numpy(batch.column(self.weight))
        return Block(start, X, y, weight)

    def _labels(self, column: Any, start: int) -> np.ndarray:
        """Return the labels as an array; raise an error if a label is missing."""
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise ValueError(f"{self.place(start + row)}: the label ({self.target!r}) is missing.")
        import pyarrow as pa

        if pa.types.is_dictionary(column.type) or pa.types.is_string(self._types[self.target or ""]):
            encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            values = np.array(encoded.dictionary.to_pylist())
            return values[encoded.indices.to_numpy(zero_copy_only=False)]
        return column.to_numpy(zero_copy_only=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without open files; a process that receives it need not count the rows again."""
        cached = ("_dataset", "_parts", "cuts")
        return {name: value for name, value in self.__dict__.items() if name not in cached}

    def __repr__(self) -> str:
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{self.paths[0]}{more}"


# -- helpers -----------------------------------------------------------------------------------


def _expand(given: list[str], format: str | None) -> tuple[list[str], str]:
    """Return the files of the given paths, patterns and folders, and their format.

    The format is the given one, or determined by a suffix.
    """
    paths: list[str] = []
    for path in given:
        found = sorted(glob.glob(path)) if glob.has_magic(path) and not os.path.exists(path) else [path]
        if not found or not all(map(os.path.exists, found)):
            what = "no file matches the pattern" if glob.has_magic(path) else "no such file or folder"
            raise FileNotFoundError(f"{path}: {what}.")
        paths += map(os.path.abspath, found)
    known = sorted(set(FORMATS.values()))
    files = [file for path in paths for file in (_files_in(path) if os.path.isdir(path) else [path])]
    format = format or next(filter(None, map(format_by_suffix, files)), None)
    if format is None:
        raise ValueError(
            f"{given[0]}: the suffix does not determine the format; set format to one of {listing(known)}."
        )
    if format not in known:
        raise ValueError(f"format must be one of {listing(known)}; got {format!r}.")
    folders = tuple(path + os.sep for path in paths if os.path.isdir(path))
    if folders:
        files = [f for f in files if not f.startswith(folders) or format_by_suffix(f) == format]
    if not files:
        raise FileNotFoundError(f"{given[0]}: no files of format {format}.")
    return files, format


def format_by_suffix(path: str) -> str | None:
    """Return the format according to the suffix of a file; None if unknown."""
    return FORMATS.get(Path(path.removesuffix(".gz").removesuffix(".bz2")).suffix.lower())


def _files_in(folder: str) -> list[str]:
    """Return all files below a folder, sorted by name, except hidden files (``_SUCCESS``, ``.crc``)."""
    found = (path for path in Path(folder).rglob("*") if path.is_file())
    return sorted(str(p) for p in found if not any(n[0] in "._" for n in p.relative_to(folder).parts))


def _index(schema: Any) -> list[str]:
    """Return the names of index columns of a pandas data frame, which are not data."""
    return [name for name in schema.names if name.startswith("__index_level_")]


def _plain(kind: Any) -> Any:
    """Return the type of the values of a column; for a dictionary, the type of its entries."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_number(kind: Any) -> bool:
    """Return whether a pyarrow type is numeric."""
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(is_a(_plain(kind)) for is_a in tests)


def _check_number(kind: Any, name: str, where: str) -> None:
    """Raise an error unless a column is numeric."""
    if not _is_number(kind):
        raise ValueError(
            f"{where}: column {name!r} is of type {kind}; expected numbers. "
            "Use the parameter drop to exclude the column."
        )


def _label_type(kind: Any) -> Any:
    """Return the type in which labels are read."""
    import pyarrow as pa

    plain = _plain(kind)
    if pa.types.is_string(plain) or pa.types.is_large_string(plain):
        return pa.string()
    return plain


def _to_numpy(column: Any) -> np.ndarray:
    """Return a column of numbers as floats, with NaN for missing values."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    return column.to_numpy(zero_copy_only=False)


@contextmanager
def _arrow_errors(where: str, form: str) -> Iterator[None]:
    """Convert pyarrow errors to errors with a one-line message that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ValueError(f"{where}: cannot be read as {form}: {str(error).splitlines()[0]}") from error
