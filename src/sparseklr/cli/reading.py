"""Reading of data files: detection of formats, raw tables, and features, labels and weights for a model."""

from __future__ import annotations

import codecs
import csv
import functools
import io
import itertools
import re
import statistics
from argparse import Namespace
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._utils.messages import listing
from ..tables.cells import TableError, detect_decimal, read_cells, sample_tokens
from ..tables.columns import Column, known_spelling, one_spelling, read_column
from ..tables.reader import read_columns
from .files import read_bytes, source_name
from .options import CliError, unknown

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".svmlight": "svmlight",
}
SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
# a label that is a number; a label with leading zeros is text
_PLAIN = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class ReadingSettings:
    """Limits for reading files."""

    sample_lines: int = 200  # the separator of a CSV file is detected in at most this number of lines ...
    sample_bytes: int = 1 << 20  # ... and this number of characters
    max_row: int = 1 << 26  # maximum number of bytes in a row of a CSV file
    max_classes: int = 1000  # a column with more distinct values is not accepted as the target


SETTINGS = ReadingSettings()


@dataclass(frozen=True, eq=False)
class Table:
    """A table with the cells as they are in the file; the index of ``frame`` counts the rows from 1."""

    name: str  # name of the file, for messages
    frame: pd.DataFrame  # all cells are strings if the file is a text file
    na: tuple[str, ...] = ()  # additional tokens for missing values
    decimal: str | None = None  # decimal sign; None if the cells do not determine it
    facts: dict[str, Any] = field(default_factory=dict)  # size and format of the file
    notes: list[str] = field(default_factory=list)  # messages for the user
    usual: bool = True  # whether separator, decimal sign and encoding are the default ones

    def __str__(self) -> str:
        """Return a description of the size and format of the table."""
        facts = self.facts
        parts = [f"read {facts['n_rows']} rows", f"{facts['n_columns']} columns"]
        if "separator" in facts:
            parts.append(f"{SEPARATORS.get(facts['separator'], repr(facts['separator']))} separated")
            parts += ["decimal comma"] if facts["decimal"] == "," else []
            parts += [facts["encoding"]] if facts["encoding"] != "utf-8" else []
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features, labels and weights of rows of a file."""

    name: str  # name of the file, for messages
    X: Any  # the features: a data frame or a CSR matrix
    y: np.ndarray | None = None  # the labels
    weight: np.ndarray | None = None  # the sample weights
    table: Table | None = None  # the table with the original cells; None for svmlight files
    svmlight: dict[str, Any] | None = None  # options for reading further svmlight files in the same way
    missing: tuple[str, ...] = ()  # columns that the model needs and the file does not have
    numbers: np.ndarray | None = None  # row numbers in the file, counted from 1; None if X has all rows
    n_all: int | None = None  # number of rows in the file, if X is a sample of them

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def number(self, row: int) -> int:
        """Return the position in the file of a row of X, counted from 1."""
        return row + 1 if self.numbers is None else int(self.numbers[row])

    @property
    def sample(self) -> str | None:
        """A description of the sample; None if X contains all rows of the file."""
        n = len(self)
        return None if self.n_all in (None, n) else f"a uniform sample of {n} of the {self.n_all} rows"

    def take(self, indices: np.ndarray) -> Dataset:
        """Return a data set that contains only the rows at the given positions."""
        return replace(
            self,
            X=self.X.iloc[indices] if hasattr(self.X, "iloc") else self.X[indices],
            y=None if self.y is None else self.y[indices],
            weight=None if self.weight is None else self.weight[indices],
            numbers=1 + indices if self.numbers is None else self.numbers[indices],
            n_all=None,
        )


# -- formats ----------------------------------------------------------------------------------


def format_of(path: str, given: str | None, data: bytes) -> str:
    """Return the format of a file: as given by the user, or detected from its suffix or its first bytes."""
    if given:
        return given
    if data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise CliError(f"{source_name(path)}: this looks like a spreadsheet; save it as CSV or Parquet")
    suffix = Path(path.removesuffix(".gz").removesuffix(".bz2")).suffix.lower()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if path == "-" or not Path(path).is_file():  # a pipe has no suffix
        return "parquet" if data.startswith(b"PAR1") else "csv"
    raise CliError(
        f"{path}: the format is unknown, because the suffix {suffix!r} is not one of {listing(SUFFIXES)}; "
        "give --format"
    )


# -- tables -----------------------------------------------------------------------------------


def read_table(args: Namespace, data: bytes, form: str) -> Table:
    """Parse the contents of a file (bytes) in the format ``form`` and return the table.

    ``args`` has the attributes ``data``, ``sep``, ``decimal``, ``encoding`` and ``na``.
    """
    name, na = source_name(args.data), tuple(args.na)
    if form == "parquet":
        frame = _read_parquet(name, data)
        facts = {"format": form, "n_rows": len(frame), "n_columns": frame.shape[1]}
        return Table(name, frame, na, args.decimal, facts)
    usual_sep = "\t" if form == "tsv" else ","
    text, encoding = decode(name, data, args.encoding)
    # Excel reads the separator from such a line, which is not part of the table.
    declared = re.match(r'"?sep=(.)"?\r?\n', text, re.IGNORECASE)
    text = text[declared.end() :] if declared else text
    sep = args.sep or (declared[1] if declared else detect_separator(text, usual_sep))
    frame, notes = _read_delimited(name, text, sep)
    decimal = args.decimal or detect_decimal(sample_tokens(frame, na))
    facts = {
        "format": form,
        "n_rows": len(frame),
        "n_columns": frame.shape[1],
        "separator": sep,
        # Files with a semicolon as separator often come from countries that use the decimal comma.
        "decimal": decimal or ("," if sep == ";" else "."),
        "encoding": encoding,
    }
    usual = (sep, facts["decimal"], encoding) == (usual_sep, ".", "utf-8")
    return Table(name, frame, na, decimal, facts, notes, usual)


def _read_parquet(name: str, data: bytes) -> pd.DataFrame:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise CliError(f"{name}: the file cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    _check_distinct(name, table.column_names)
    # pandas stores the index of a data frame as columns with these names
    kept = [k for k in table.column_names if not (k.startswith("__index_level_") and k.endswith("__"))]
    frame = table.select(kept).to_pandas(ignore_metadata=True)
    if not len(frame):
        raise CliError(f"{name}: the table has no rows")
    return frame.set_axis(pd.RangeIndex(1, len(frame) + 1))


def _read_delimited(name: str, text: str, sep: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the columns of a CSV file that have a name, as text, and notes on what is ignored."""
    import pyarrow.compute as pc

    if not text.strip():
        raise CliError(f"{name}: the file is empty")
    header, rows, above = _first_lines(text, sep)
    if not rows and len(text) <= SETTINGS.sample_bytes:
        raise CliError(f"{name}: the table has a header but no rows")
    if above:
        text = "".join(list(io.StringIO(text, newline=""))[above:])
    names = [label.strip() for label in header]
    if all(_is_number(label) for label in names):
        raise CliError(
            f"{name}: the first row contains numbers ({listing(names, 3)}); expected column names. Add a "
            "header"
        )
    if {len(row) for row in rows} == {len(names) + 1}:
        # Either each row ends with a separator, or the first column contains row names without a header, as
        # in files written by R.
        at_end = all(not row[-1].strip() for row in rows)
        names = [*names, ""] if at_end else ["", *names]
    named = [label for label in names if label]
    if 2 * len(named) < len(names):
        raise CliError(
            f"{name}: the first row names only {len(named)} of {len(names)} columns ({listing(named)}); "
            "expected a header. If the header is further down, delete the lines above the header"
        )
    _check_distinct(name, named)
    table = _parse_csv(name, text, sep, [label or f"\0{k}" for k, label in enumerate(names)])
    # A spreadsheet exports an empty row as separators; like a blank line, it is not a row of the table.
    filled = [pc.not_equal(pc.utf8_trim_whitespace(column), "") for column in table.columns]
    kept = table.filter(functools.reduce(pc.or_, filled))
    if not len(kept):
        raise CliError(f"{name}: the table has a header but no rows")
    frame = kept.select(named).to_pandas()
    notes = [f"{above} line{'s' if above > 1 else ''} above the header skipped"] if above else []
    notes += [f"column {k + 1} has no name and is ignored" for k, label in enumerate(names) if not label]
    if n_empty := len(table) - len(kept):
        notes.append(f"{n_empty} empty rows are skipped" if n_empty > 1 else "1 empty row is skipped")
    return frame.set_axis(pd.RangeIndex(1, len(frame) + 1)), notes


def _check_distinct(name: str, labels: list[str]) -> None:
    if twice := [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
        raise CliError(f"{name}: several columns have the same name: {listing(twice)}")


def decode(name: str, data: bytes, encoding: str | None) -> tuple[str, str]:
    """Return the decoded text and the name of its encoding.

    Unless the encoding is given or a byte order mark determines it, UTF-8, Windows-1252 and Latin-1 are tried
    in this order.
    """
    marks = {
        codecs.BOM_UTF8: "utf-8-sig",
        codecs.BOM_UTF32_LE: "utf-32",
        codecs.BOM_UTF32_BE: "utf-32",
        codecs.BOM_UTF16_LE: "utf-16",
        codecs.BOM_UTF16_BE: "utf-16",
    }
    try:
        if encoding:
            return data.decode(encoding), encoding
        for mark, marked in marks.items():
            if data.startswith(mark):
                return data.decode(marked), marked.removesuffix("-sig")
        if b"\0" in data[:4096]:
            raise CliError(f"{name}: this does not look like a text file; give --encoding if it is one")
        for codec, label in (("utf-8", "utf-8"), ("cp1252", "windows-1252")):
            try:
                return data.decode(codec), label
            except UnicodeDecodeError:
                pass
        return data.decode("latin-1"), "latin-1"  # unlike cp1252, latin-1 can decode every byte
    except LookupError as error:
        raise CliError(f"--encoding: unknown encoding {encoding!r}") from error
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        row = data[:start].count(b"\n")
        raise CliError(
            f"{name}: {'the header' if not row else f'row {row}'} cannot be decoded as {encoding or 'text'} "
            f"(byte {start})"
        ) from error


def detect_separator(text: str, default: str = ",") -> str:
    """Return the separator that best splits the text into a header of several names and rows of equal length.

    The best separator is the one for which the largest fraction of rows has as many cells as the header.
    """
    best, best_score = default, (0.0, 0, 0, False)
    for sep in SEPARATORS:
        header, rows, above = _first_lines(text, sep)
        if len(header) > 1:
            # rows may have one cell more than the header (see _read_delimited)
            fits = sum(len(row) in (len(header), len(header) + 1) for row in rows) / max(1, len(rows))
            score = (round(fits, 2), -above, len(header), sep == default)
            if score > best_score:
                best, best_score = sep, score
    return best


def _first_lines(text: str, sep: str) -> tuple[list[str], list[list[str]], int]:
    """Return the cells of the header and of the first rows, and the number of lines above the header.

    These lines, such as the title of a report, are empty in more than half of the columns.
    """
    csv.field_size_limit(SETTINGS.sample_bytes)  # a cell may contain a long text
    reader = csv.reader(io.StringIO(text[: SETTINGS.sample_bytes], newline=""), delimiter=sep)
    rows, starts, end = [], [], 0
    for row in itertools.islice(reader, SETTINGS.sample_lines):
        if row:
            rows.append(row)
            starts.append(end)
        end = reader.line_num
    if len(text) > SETTINGS.sample_bytes and len(rows) > 1:
        rows.pop()  # the last row may be incomplete
    if not rows:
        return [], [], 0
    width = statistics.mode(len(row) for row in reversed(rows))
    full = [len(row) >= width - 1 and 2 * sum(bool(cell.strip()) for cell in row) >= width for row in rows]
    first = full.index(True) if True in full else 0
    if any(map(_is_number, rows[first])):  # a row of the table, whose header names too few columns
        first = 0
    return rows[first], rows[first + 1 :], starts[first]


def _parse_csv(name: str, text: str, sep: str, names: list[str]) -> Any:
    """Return a pyarrow table with all cells as text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        return arrow_csv.read_csv(
            pa.BufferReader(text.encode()),
            # errors of pyarrow contain the row number only with a single thread
            arrow_csv.ReadOptions(
                use_threads=False, column_names=names, skip_rows_after_names=1, block_size=SETTINGS.max_row
            ),
            arrow_csv.ParseOptions(delimiter=sep, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        if match := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", reason):
            row, expected, found = map(int, match.groups())
            raise CliError(
                f"{name}: row {row - 1} has {found} cells; expected {expected}, one for each name in the "
                f"header ({SEPARATORS.get(sep, repr(sep))} separated)"
            ) from error
        raise CliError(f"{name}: the file cannot be read as CSV: {reason}") from error


def _is_number(label: str) -> bool:
    try:
        float(label.replace(",", "."))
    except ValueError:
        return False
    return True


def _read_svmlight(
    name: str, data: bytes, one_based: bool | None = None, n_features: int | None = None
) -> Dataset:
    """Return the rows of an svmlight file.

    For new data, ``one_based`` and ``n_features`` are those of the training file. For the training file, they
    are None and are detected.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        # zero_based=True keeps the indices of the file; in a one-based file, column 0 is then empty
        X, y = load_svmlight_file(io.BytesIO(data), zero_based=True)
    except ValueError as error:
        raise CliError(f"{name}: the file cannot be read as svmlight: {error}") from error
    if not X.nnz:
        raise CliError(f"{name}: no row has a non-zero feature")
    lowest, highest = int(X.indices.min()), int(X.indices.max())
    one_based = lowest > 0 if one_based is None else one_based
    first = int(one_based)
    n_features = n_features or highest + 1 - first
    if lowest < first or highest >= n_features + first:
        bad = lowest if lowest < first else highest
        raise CliError(
            f"{name}: feature {bad} is out of range; the features of the model are {first} to "
            f"{n_features - 1 + first}"
        )
    X.resize(X.shape[0], n_features + first)
    whole = np.array_equal(y, np.round(y))
    svmlight = {"n_features": n_features, "one_based": one_based}
    return Dataset(name, X[:, first:], y.astype(np.int64) if whole else y, svmlight=svmlight)


# -- features, labels and weights -------------------------------------------------------------

_COLUMN_OPTIONS = ("target", "sample_weight_column", "categorical", "number", "date", "drop", "id")


def read_training(args: Namespace) -> Dataset:
    """Return the training rows in the file ``args.data``; ``args`` has the options of ``add_training``."""
    data = read_bytes(args.data)
    form, name = format_of(args.data, args.format, data), source_name(args.data)
    if form == "svmlight":
        if given := [option for option in _COLUMN_OPTIONS if getattr(args, option)]:
            raise CliError(f"--{given[0].replace('_', '-')}: svmlight files do not have named columns")
        dataset = _read_svmlight(name, data)
        assert dataset.y is not None
        _check_classes(dataset.y, f"{name}: the label")
        return dataset
    table = read_table(args, data, form)
    names = list(table.frame.columns)
    if args.target is None:
        raise CliError(
            f"--target is required: the name of the column that contains the classes, one of {listing(names)}"
        )
    roles = _roles(args, names)
    table = _with_class(table, args.target)
    y = _labels(table, args.target)
    if y.dtype.kind == "U":
        spelled, merged = one_spelling(y.astype(object), args.target)
        y, table = spelled.astype(str), replace(table, notes=[*table.notes, *merged])
    _check_classes(y, f"{name}: --target {args.target}")
    weight = _weights(table, args.sample_weight_column)
    features = [k for k in names if roles.get(k) not in ("--target", "--sample-weight-column")]
    if all(roles.get(k) in ("--drop", "--id") for k in features):
        raise CliError(f"{name}: there is no feature column besides the target {args.target!r}")
    return Dataset(name, table.frame[features], y, weight, table, numbers=table.frame.index.to_numpy())


def _with_class(table: Table, target: str) -> Table:
    """Return the rows of a table that have a class (rows with totals do not), and a note on the others."""
    _check_column(list(table.frame.columns), target, "--target")
    try:
        filled = read_cells(table.frame[target], target, table.na).codes >= 0
    except TableError as error:
        raise CliError(f"{table.name}: {error}") from error
    if filled.all():
        return table
    if not filled.any():
        raise CliError(f"{table.name}: --target {target}: no row has a class")
    n, first = int((~filled).sum()), table.frame.index[~filled][0]
    verb, place = ("has", "is ignored (row") if n == 1 else ("have", "are ignored, beginning with row")
    note = f"{n} of {len(filled)} rows {verb} no class and {place} {first}" + (")" if n == 1 else "")
    return replace(table, frame=table.frame[filled], notes=[*table.notes, note])


def read_for_model(
    args: Namespace, model: Any, with_labels: bool, fill: bool = False
) -> tuple[Dataset, list[str]]:
    """Return the rows of ``args.data``, converted like the training rows, and notes for the user.

    If ``fill`` is set, columns that the file lacks are filled with missing values; otherwise they raise an
    error. If ``with_labels`` is set, labels and weights are read from the columns ``args.target`` and
    ``args.sample_weight_column``.
    """
    data = read_bytes(args.data)
    form, name = format_of(args.data, args.format, data), source_name(args.data)
    if (form == "svmlight") != (model.svmlight is not None):
        trained = "an svmlight file" if model.svmlight is not None else "a table"
        raise CliError(f"{name}: the model was fitted to {trained}; got a file of format {form}")
    if model.svmlight is not None:
        dataset = _read_svmlight(name, data, **model.svmlight)
        if with_labels and dataset.y is not None:
            check_known(dataset.y, model.classes, f"{name}: the label")
        return dataset, []
    table = read_table(args, data, form)
    y = weight = None
    if with_labels:
        target = args.target or model.target
        if target is None:
            raise CliError(
                "--target is required: the name of the column that contains the classes, one of "
                f"{listing(table.frame.columns)}"
            )
        table = _with_class(table, target)
        y, weight = _labels(table, target, model.classes), _weights(table, args.sample_weight_column)
        check_known(y, model.classes, f"{name}: --target {target}")
    X, notes, missing = _read_features(model, table, fill)
    notes = [*([] if table.usual else [str(table)]), *table.notes, *notes]
    if with_labels and 2 * (n_seen := model.n_training_rows(X)) > len(X):
        seen = f"{n_seen} of {len(X)} rows are identical to training rows"
        notes.append(f"{seen}, so the results do not estimate the performance on new rows")
    numbers = table.frame.index.to_numpy()
    return Dataset(name, X, y, weight, table, missing=missing, numbers=numbers), notes


def _read_features(model: Any, table: Table, fill: bool) -> tuple[pd.DataFrame, list[str], tuple[str, ...]]:
    """Return the columns that a model needs, notes for the user, and the names of missing columns."""
    frame, columns = table.frame, model.columns
    missing: tuple[str, ...] = ()
    if fill:
        missing = tuple(name for name in columns if name not in frame.columns)
        if len(missing) == len(columns):
            raise CliError(
                f"{table.name}: the table has none of the columns of the model: {listing(missing)}"
            )
        frame = frame.assign(**dict.fromkeys(missing, None))
    try:
        X, notes = read_columns(frame, columns, table.decimal or model.decimal, [*model.na, *table.na])
    except TableError as error:
        lacks = any(name not in frame.columns for name in columns)
        hint = "; predict --flag fills them with missing values" if lacks else ""
        raise CliError(f"{table.name}: {error}{hint}") from error
    if missing:
        notes.insert(
            0,
            "columns of the model that the file does not have are filled with missing values: "
            f"{listing(missing)}",
        )
    return X, notes, missing


def _roles(args: Namespace, names: list[str]) -> dict[str, str]:
    """Return the option that names each column; an error is raised if two options name the same column."""
    roles: dict[str, str] = {}
    for option in _COLUMN_OPTIONS:
        given = getattr(args, option) or []
        flag = f"--{option.replace('_', '-')}"
        for name in [given] if isinstance(given, str) else given:
            _check_column(names, name, flag)
            if name in roles:
                raise CliError(f"{flag}: column {name!r} is already used by {roles[name]}")
            roles[name] = flag
    return roles


def _check_column(names: list[str], name: str, option: str) -> None:
    if name not in names:
        raise unknown(f"{option}: there is no column", name, names, "columns")


def _weights(table: Table, name: str | None) -> np.ndarray | None:
    if name is None:
        return None
    _check_column(list(table.frame.columns), name, "--sample-weight-column")
    where = f"{table.name}: column {name!r}"
    values, unreadable = read_column(
        table.frame[name], name, Column("number"), table.decimal or ".", table.na
    )
    if unreadable:
        token, row = unreadable.examples[0]
        raise CliError(f"{where}: row {row} contains {token!r}; expected a number")
    bad = np.flatnonzero(~(values >= 0))
    if len(bad):
        held = "no value" if np.isnan(values[bad[0]]) else f"{values[bad[0]]:g}"
        raise CliError(
            f"{where}: row {table.frame.index[bad[0]]} contains {held}; expected a weight of 0 or more"
        )
    return values


def _labels(table: Table, name: str, classes: list[Any] | None = None) -> np.ndarray:
    """Return the labels of a table, all rows of which have a class, as strings, booleans or numbers.

    ``classes`` are the classes of a fitted model, whose type the labels must have; None in training.
    """
    column = table.frame[name]
    cells = read_cells(column, name, table.na)
    tokens = cells.tokens.tolist()
    if classes is not None and all(isinstance(label, str) for label in classes):
        return known_spelling(cells.tokens, classes).astype(str)[cells.codes]
    if column.dtype == bool or (classes and isinstance(classes[0], bool)):
        return np.array([token.lower() in ("true", "1") for token in tokens])[cells.codes]
    if all(_PLAIN.fullmatch(token) for token in tokens):
        values = np.array([float(token.replace(",", ".")) for token in tokens])
        whole = np.array_equal(values, np.round(values))
        return (values.astype(np.int64) if whole else values)[cells.codes]
    return np.array(tokens)[cells.codes]


def _check_classes(y: np.ndarray, what: str) -> None:
    """Raise an error if there is only one class, or if the labels do not look like classes."""
    classes = np.unique(y)
    if len(classes) == 1:
        rows = f"all {len(y)} rows have" if len(y) > 1 else "the only row has"
        raise CliError(f"{what}: {rows} the class {classes[0]}; expected at least two classes")
    if y.dtype.kind == "f" or len(classes) > min(SETTINGS.max_classes, max(20, len(y) // 5)):
        raise CliError(
            f"{what}: there are {len(classes)} different values in {len(y)} rows, from {classes[0]} to "
            f"{classes[-1]}; this looks like a quantity or a name, not like classes"
        )


def check_known(y: np.ndarray, classes: list[Any], what: str) -> None:
    """Raise an error unless every label is a class of the model."""
    if new := sorted(set(y.tolist()) - set(classes), key=str):
        raise CliError(f"{what}: the model has no class {listing(new)}; its classes are {listing(classes)}")
