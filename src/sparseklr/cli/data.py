"""From data files to features, labels and weights: for training, and for a model that knows its columns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import CliError, listing, unknown
from .files import format_of, read_svmlight, read_table


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a file. ``columns`` is what a model must remember to read others like them."""

    X: Any  # a frame, or CSR
    y: np.ndarray | None
    weight: np.ndarray | None
    columns: dict[str, Any]


def read_training(args: Any) -> Rows:
    """The rows that a model is fitted to; ``args`` has data, format, target, drop, sample_weight_column."""
    form = format_of(args.data, args.format)
    if form == "svmlight":
        if options := [name for name in ("target", "drop", "sample_weight_column") if getattr(args, name)]:
            raise CliError(f"--{options[0].replace('_', '-')}: not for svmlight files, which have no columns")
        X, y, one_based = read_svmlight(args.data)
        _check_classes(y, f"{args.data}: the label")
        return Rows(X, y, None, {"n_features": X.shape[1], "one_based": one_based})
    table = read_table(args.data, form, [])
    if args.target is None:
        raise CliError(f"--target: which column holds the classes? {listing(table.column_names)}")
    y = _labels(table, args.target)
    _check_classes(y, f"--target {args.target}")
    weight = _weights(table, args.sample_weight_column)
    for name in args.drop:
        _column(table, name, "--drop")
    names = [n for n in table.column_names if n not in {args.target, args.sample_weight_column, *args.drop}]
    if not names:
        raise CliError(f"{args.data}: no column is left to predict {args.target!r} from")
    kinds = {name: _kind(table[name], name) for name in names}
    return Rows(_frame(table, kinds, args.data), y, weight, {"features": kinds})


def read_rows(args: Any, metadata: dict[str, Any], with_labels: bool) -> Rows:
    """Rows for a model to predict; with labels, ``args`` has also target and sample_weight_column."""
    form, columns, classes = format_of(args.data, args.format), metadata["columns"], metadata["classes"]
    if (form == "svmlight") != ("n_features" in columns):
        trained = "a svmlight file" if "n_features" in columns else "a table"
        raise CliError(f"{args.data}: the model was fitted to {trained}; got {form}")
    if form == "svmlight":
        X, y, _ = read_svmlight(args.data, **columns)
        if with_labels:
            _check_known(y, classes, f"{args.data}: the label")
        return Rows(X, y, None, columns)
    target = (args.target or metadata["target"]) if with_labels else None
    text = [name for name, kind in columns["features"].items() if kind == "text"]
    if isinstance(classes[0], str) and target:
        text.append(target)
    table = read_table(args.data, form, text)
    if missing := [name for name in columns["features"] if name not in table.column_names]:
        raise CliError(f"{args.data}: columns of the model are missing: {listing(missing)}")
    y = weight = None
    if target:
        y, weight = _labels(table, target), _weights(table, args.sample_weight_column)
        _check_known(y, classes, f"--target {target}")
    return Rows(_frame(table, columns["features"], args.data), y, weight, columns)


# -- columns ----------------------------------------------------------------------------------


def _column(table: Any, name: str, option: str) -> Any:
    if name not in table.column_names:
        raise unknown(f"{option}: there is no column", name, table.column_names, "columns")
    return table[name]


def _plain_type(column: Any) -> Any:
    """The type of the values, also of a column stored by categories."""
    import pyarrow as pa

    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _kind(column: Any, name: str) -> str:
    """The word for what a column holds: "number" (booleans too) or "text"."""
    from pyarrow import types

    kind = _plain_type(column)
    if column.is_null(nan_is_null=True).to_numpy().all():
        raise CliError(f"column {name!r} is empty in every row; leave it out: --drop {name}")
    if any(is_a(kind) for is_a in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    raise CliError(
        f"column {name!r} is of type {kind}; expected numbers, booleans or text. Leave it out: --drop {name}"
    )


def _frame(table: Any, kinds: dict[str, str], path: str) -> Any:
    """The features as a frame: numbers as floats, text as strings, "" where it is missing."""
    import pandas as pd

    columns = {}
    for name, kind in kinds.items():
        if kind == "number":
            columns[name] = _numbers(table[name], name)
        else:
            text = table[name].cast("string").fill_null("").to_pylist()
            columns[name] = np.array(text, dtype=object)
            if len(text) > 50 and len(set(text)) > len(text) / 2:
                warnings.warn(
                    f"{path}: column {name!r} is text with {len(set(text))} different values in {len(text)} "
                    f"rows: rare ones count as one. If it identifies the rows, --drop {name}.",
                    UserWarning,
                    stacklevel=2,
                )
    return pd.DataFrame(columns)


def _numbers(column: Any, name: str) -> np.ndarray:
    """A column as floats, NaN where it is missing."""
    import pandas as pd
    import pyarrow as pa

    try:
        values: np.ndarray = column.cast(_plain_type(column)).cast(pa.float64(), safe=False).to_numpy()
    except pa.ArrowException as error:
        given = pd.Series(column.to_pylist(), dtype=object)
        row = int((pd.to_numeric(given, errors="coerce").isna() & given.notna()).to_numpy().argmax())
        raise CliError(f"column {name!r}: row {row + 1} holds {given[row]!r}; expected a number") from error
    if np.isinf(values).any():
        raise CliError(
            f"column {name!r}: row {np.flatnonzero(np.isinf(values))[0] + 1} holds an infinite number"
        )
    return values


def _weights(table: Any, name: str | None) -> np.ndarray | None:
    if name is None:
        return None
    values = _numbers(_column(table, name, "--sample-weight-column"), name)
    bad = np.flatnonzero(~(values >= 0))
    if len(bad):
        raise CliError(
            f"--sample-weight-column {name}: row {bad[0] + 1} holds {values[bad[0]]:g}; expected 0 or more"
        )
    return values


# -- labels -----------------------------------------------------------------------------------


def _labels(table: Any, name: str) -> np.ndarray:
    """The classes of the rows: strings, booleans, whole numbers, or floats."""
    column = _column(table, name, "--target")
    empty = np.flatnonzero(column.is_null(nan_is_null=True).to_numpy())
    if len(empty):
        raise CliError(
            f"--target {name}: {len(empty)} of {len(column)} rows have no class, the first is row "
            f"{empty[0] + 1}; remove them or fill them in"
        )
    kind = _kind(column, name)
    values = np.array(column.cast(_plain_type(column)).to_pylist())
    if kind == "number" and values.dtype.kind not in "bi":
        values = values.astype(np.float64)
        if np.array_equal(values, np.round(values)):
            return values.astype(np.int64)
    return values


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


def _check_known(y: np.ndarray, classes: list[Any], what: str) -> None:
    if new := sorted(set(y.tolist()) - set(classes), key=str):
        raise CliError(
            f"{what}: classes the model does not know: {listing(new)}; its own: {listing(classes)}"
        )
