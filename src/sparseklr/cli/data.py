"""From data files to features, labels and weights: for training, and for a model that knows its columns."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..tabular.cells import TableError, TableWarning, read_cells
from ..tabular.columns import Column, read_column
from ..tabular.numbers import detect_decimal
from ..tabular.reader import text_tokens
from .delimited import SEPARATORS, read_delimited
from .errors import CliError, listing, unknown
from .files import format_of, read_bytes, read_parquet, read_svmlight, source_name

# a number that is a label: leading zeros say that it is text
_PLAIN = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it stands in its file."""

    name: str  # of the file, for messages
    frame: Any  # of pandas; of strings where the file holds text
    na: tuple[str, ...] = ()
    decimal: str | None = None  # where the file tells it
    facts: dict[str, Any] = field(default_factory=dict)  # how it was read
    notes: list[str] = field(default_factory=list)
    usual: bool = True  # nothing about how it was read is worth a word


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a file. ``svmlight`` is what a model must remember of such a file to read others like it."""

    X: Any  # a data frame, or CSR
    y: np.ndarray | None
    weight: np.ndarray | None
    table: Table | None = None
    svmlight: dict[str, Any] | None = None
    missing: tuple[str, ...] = ()  # columns of the model that the file has not; they hold nothing
    numbers: np.ndarray | None = None  # of the rows in the file, from 0, if these are a sample
    n_all: int | None = None  # rows of the file, if these are a sample
    name: str = ""  # of the file, for messages

    def number(self, row: int) -> int:
        """The number of a row in the file, from 1."""
        return 1 + int(row if self.numbers is None else self.numbers[row])

    @property
    def drawn(self) -> str | None:
        """What these rows are, if they are not all of the file."""
        n = self.X.shape[0]
        return None if self.n_all in (None, n) else f"a uniform sample of {n} of the {self.n_all} rows"


def read_table(args: Any, data: bytes, form: str) -> Table:
    """A table; ``args`` has data, sep, decimal, encoding, na."""
    name, na = source_name(args.data), tuple(args.na)
    if form == "parquet":
        frame = read_parquet(args.data, data)
        facts = {"format": form, "n_rows": len(frame), "n_columns": frame.shape[1]}
        return Table(name, frame, na, args.decimal, facts)
    usual_sep = "\t" if form == "tsv" else ","
    found = read_delimited(name, data, args.sep, args.encoding, usual_sep)
    decimal = args.decimal or detect_decimal(text_tokens(found.frame, na))
    facts = {
        "format": form,
        "n_rows": len(found.frame),
        "n_columns": found.frame.shape[1],
        "separator": found.sep,
        # where nothing else tells, the semicolon does: it is used where the comma is taken
        "decimal": decimal or ("," if found.sep == ";" else "."),
        "encoding": found.encoding,
    }
    usual = (found.sep, facts["decimal"], found.encoding) == (usual_sep, ".", "utf-8")
    return Table(name, found.frame, na, decimal, facts, found.notes, usual)


def told(table: Table) -> str:
    """How a table was read, in a line."""
    facts = table.facts
    words = [f"read {facts['n_rows']} rows", f"{facts['n_columns']} columns"]
    if "separator" in facts:
        words.append(f"{SEPARATORS.get(facts['separator'], repr(facts['separator']))} separated")
        words += ["decimal comma"] if facts["decimal"] == "," else []
        words += [facts["encoding"]] if facts["encoding"] != "utf-8" else []
    return ", ".join(words)


def read_training(args: Any) -> Rows:
    """The rows that a model is fitted to; ``args`` has the options of ``add_training``."""
    data = read_bytes(args.data)
    form, name = format_of(args.data, args.format, data), source_name(args.data)
    if form == "svmlight":
        options = ("target", "sample_weight_column", "categorical", "number", "date", "drop", "id")
        if given := [option for option in options if getattr(args, option)]:
            raise CliError(f"--{given[0].replace('_', '-')}: not for svmlight files, which have no columns")
        X, y, one_based = read_svmlight(args.data, data)
        _check_classes(y, f"{name}: the label")
        return Rows(X, y, None, svmlight={"n_features": X.shape[1], "one_based": one_based}, name=name)
    table = read_table(args, data, form)
    names = list(table.frame.columns)
    if args.target is None:
        raise CliError(f"--target: which column holds the classes? {listing(names)}")
    roles = _roles(args, names)
    y = _labels(table, args.target)
    _check_classes(y, f"{name}: --target {args.target}")
    weight = _weights(table, args.sample_weight_column)
    features = [k for k in names if roles.get(k) not in ("--target", "--sample-weight-column")]
    if all(roles.get(k) in ("--drop", "--id") for k in features):
        raise CliError(f"{name}: no column is left to predict {args.target!r} from")
    return Rows(table.frame[features], y, weight, table, name=name)


def read_rows(
    args: Any, model: Any, metadata: dict[str, Any], with_labels: bool, fill: bool = False
) -> tuple[Rows, list[str]]:
    """Rows for a model, read as in training, and what is to be said about them.

    With ``fill``, columns that are missing hold nothing; they are an error otherwise. With labels,
    ``args`` has also target and sample_weight_column.
    """
    data = read_bytes(args.data)
    form, name = format_of(args.data, args.format, data), source_name(args.data)
    svmlight: dict[str, Any] | None = metadata.get("svmlight")
    classes = model.classes_.tolist()
    if (form == "svmlight") != (svmlight is not None):
        trained = "a svmlight file" if svmlight is not None else "a table"
        raise CliError(f"{name}: the model was fitted to {trained}; got {form}")
    if svmlight is not None:
        X, y, _ = read_svmlight(args.data, data, **svmlight)
        if with_labels:
            check_known(y, classes, f"{name}: the label")
        return Rows(X, y, None, svmlight=svmlight, name=name), []
    table = read_table(args, data, form)
    y = weight = None
    if with_labels:
        target = args.target or metadata.get("target")
        if target is None:
            raise CliError(f"--target: which column holds the classes? {listing(table.frame.columns)}")
        y, weight = _labels(table, target, classes), _weights(table, args.sample_weight_column)
        check_known(y, classes, f"{name}: --target {target}")
    X, notes, missing = _features(model, table, fill)
    notes = ([] if table.usual else [told(table)]) + notes
    if with_labels:
        notes += _familiar(model, X)
    return Rows(X, y, weight, table, missing=missing, name=name), notes


def _features(model: Any, table: Table, fill: bool) -> tuple[Any, list[str], tuple[str, ...]]:
    """The columns of a model, read as in its training, and those that are missing."""
    reader = getattr(model, "named_steps", {}).get("read")
    if reader is None:  # a model of one's own, written by sparseklr.save
        if not hasattr(model, "feature_names_in_"):
            raise CliError(
                "the model does not know names of columns: it was fitted to an array, not to a data frame"
            )
        from ..tabular.reader import TableReader

        numbers = list(model.feature_names_in_)
        reader = TableReader()
        reader.columns_, reader.decimal_ = {name: Column("number") for name in numbers}, "."
    frame = table.frame
    missing: tuple[str, ...] = ()
    if fill:
        missing = tuple(name for name in reader.get_feature_names_out() if name not in frame.columns)
        if len(missing) == len(reader.get_feature_names_out()):
            raise CliError(f"{table.name}: it has none of the columns of the model: {listing(missing)}")
        frame = frame.assign(**dict.fromkeys(missing, None))
    reader.set_params(na=[*reader.na, *table.na], decimal=table.decimal or reader.decimal_)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableWarning)
        try:
            X = reader.transform(frame)
        except TableError as error:
            raise CliError(f"{table.name}: {error}") from error
    warnings.simplefilter("ignore", TableWarning)  # each is said once; until the end of the command
    notes = [str(warning.message) for warning in caught]
    if missing:
        notes.insert(0, f"columns of the model are missing and count as unknown: {listing(missing)}")
    return X, notes, missing


def seen_rows(model: Any, X: Any) -> int:
    """The number of rows that equal training rows; 0 if new rows would be as many.

    In tables of few categories new rows equal training rows as well. The fraction to expect is that of the
    training rows that equal another one; three standard errors more show that training rows are among these.
    """
    reader = getattr(model, "named_steps", {}).get("read")
    if reader is None:
        return 0
    seen = reader.seen(X)
    n_training = getattr(reader, "n_rows_", 1)  # models up to version 0.2 do not have the two numbers
    expected = getattr(reader, "n_repeated_rows_", 0) / n_training
    error = math.sqrt(expected * (1 - expected) * (1 / len(seen) + 1 / n_training))
    return int(seen.sum()) if seen.mean() > expected + 3 * error else 0


def _familiar(model: Any, X: Any) -> list[str]:
    """A note if most rows are those that the model was fitted to."""
    n_seen = seen_rows(model, X)
    if 2 * n_seen <= len(X):
        return []
    return [
        f"{n_seen} of {len(X)} rows equal rows of the training data: the figures say little about new rows"
    ]


# -- columns ----------------------------------------------------------------------------------


def _roles(args: Any, names: list[str]) -> dict[str, str]:
    """The option that speaks of each column; each at most one."""
    roles: dict[str, str] = {}
    for option in ("target", "sample_weight_column", "categorical", "number", "date", "drop", "id"):
        given = getattr(args, option) or []
        shown = f"--{option.replace('_', '-')}"
        for name in [given] if isinstance(given, str) else given:
            _check_column(names, name, shown)
            if name in roles:
                raise CliError(f"{shown}: column {name!r} is named twice, also by {roles[name]}")
            roles[name] = shown
    return roles


def _check_column(names: list[str], name: str, option: str) -> None:
    if name not in names:
        raise unknown(f"{option}: there is no column", name, names, "columns")


def _weights(table: Table, name: str | None) -> np.ndarray | None:
    if name is None:
        return None
    _check_column(list(table.frame.columns), name, "--sample-weight-column")
    where = f"{table.name}: column {name!r}"
    values, odd = read_column(table.frame[name], name, Column("number"), table.decimal or ".", table.na)
    if odd:
        token, row = odd.examples[0]
        raise CliError(f"{where}: row {row} holds {token!r}; expected a number")
    bad = np.flatnonzero(~(values >= 0))
    if len(bad):
        held = "nothing" if np.isnan(values[bad[0]]) else f"{values[bad[0]]:g}"
        raise CliError(
            f"{where}: row {table.frame.index[bad[0]]} holds {held}; expected a weight of 0 or more"
        )
    return values


# -- labels -----------------------------------------------------------------------------------


def _labels(table: Table, name: str, classes: list[Any] | None = None) -> np.ndarray:
    """The classes of the rows: strings, booleans, whole numbers or floats; ``classes`` are the model's."""
    _check_column(list(table.frame.columns), name, "--target")
    column = table.frame[name]
    try:
        cells = read_cells(column, name, table.na)
    except TableError as error:
        raise CliError(f"{table.name}: {error}") from error
    empty = np.flatnonzero(cells.codes < 0)
    if len(empty):
        raise CliError(
            f"{table.name}: --target {name}: {len(empty)} of {len(column)} rows have no class, the first is "
            f"row {column.index[empty[0]]}; remove them or fill them in"
        )
    tokens = cells.tokens.tolist()
    if classes is not None and all(isinstance(label, str) for label in classes):
        return np.array(tokens)[cells.codes]
    if column.dtype == bool or (classes and isinstance(classes[0], bool)):
        return np.array([token.lower() in ("true", "1") for token in tokens])[cells.codes]
    if all(_PLAIN.fullmatch(token) for token in tokens):
        values = np.array([float(token.replace(",", ".")) for token in tokens])
        whole = np.array_equal(values, np.round(values))
        return (values.astype(np.int64) if whole else values)[cells.codes]
    return np.array(tokens)[cells.codes]


def _check_classes(y: np.ndarray, what: str) -> None:
    """At least two classes, and not so many that it must be something else."""
    classes = np.unique(y)
    if len(classes) == 1:
        raise CliError(f"{what}: all {len(y)} rows are of class {classes[0]}; expected two classes or more")
    if y.dtype.kind == "f" or len(classes) > min(1000, max(20, len(y) // 5)):
        raise CliError(
            f"{what}: {len(classes)} different values in {len(y)} rows, from {classes[0]} to {classes[-1]}; "
            "that looks like a quantity or a name, not like classes"
        )


def check_known(y: np.ndarray, classes: list[Any], what: str) -> None:
    if new := sorted(set(y.tolist()) - set(classes), key=str):
        raise CliError(
            f"{what}: classes the model does not know: {listing(new)}; its own: {listing(classes)}"
        )
