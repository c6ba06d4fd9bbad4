"""CSV files as people have them: encoding and separator are found, cells stay text."""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass
from typing import Any

from .errors import CliError, listing

SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
_SAMPLE = 200  # lines that are looked at
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True, eq=False)
class Delimited:
    """The content of a CSV file."""

    frame: Any  # of strings, rows counted from 1
    sep: str
    encoding: str
    notes: list[str]  # on columns that are not in the frame


def read_delimited(name: str, data: bytes, sep: str | None, encoding: str | None, default: str) -> Delimited:
    """A CSV file; ``sep`` and ``encoding`` are found where they are None, ``default`` decides in doubt."""
    import pandas as pd

    text, encoding = decode(name, data, encoding)
    if not text.strip():
        raise CliError(f"{name}: the file is empty")
    sep = sep or detect_separator(text, default)
    header, rows = _sample(text, sep)
    if not rows:
        raise CliError(f"{name}: there are no rows below the header")
    names = [label.strip() for label in header]
    if all(_is_number(label) for label in names):
        raise CliError(
            f"{name}: the first row holds numbers ({listing(names, 3)}); expected names of columns. "
            "Add a row of names"
        )
    widths = {len(row) for row in rows}
    if widths == {len(names) + 1}:
        # a separator at the end of each row, or names of rows without a head, as R writes them
        at_end = all(not row[-1].strip() for row in rows)
        names = [*names, ""] if at_end else ["", *names]
    if twice := [label for label in dict.fromkeys(names) if label and names.count(label) > 1]:
        raise CliError(f"{name}: more than one column is called {listing(twice)}")
    table = _parse(name, text, sep, [label or f"\0{k}" for k, label in enumerate(names)])
    frame = table.select([label for label in names if label]).to_pandas()
    notes = [f"column {k + 1} has no name and is left out" for k, label in enumerate(names) if not label]
    return Delimited(frame.set_axis(pd.RangeIndex(1, len(frame) + 1)), sep, encoding, notes)


def decode(name: str, data: bytes, encoding: str | None) -> tuple[str, str]:
    """The text, and its encoding: as given, by its mark, UTF-8, or Windows' own."""
    try:
        if encoding:
            return data.decode(encoding), encoding
        for mark, marked in _MARKS.items():
            if data.startswith(mark):
                return data.decode(marked), marked.removesuffix("-sig")
        if b"\0" in data[:4096]:
            raise CliError(f"{name}: not a text file; give --encoding if it is one")
        try:
            return data.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            pass
        try:
            return data.decode("cp1252"), "windows-1252"
        except UnicodeDecodeError:  # it leaves out five bytes
            return data.decode("latin-1"), "latin-1"
    except LookupError as error:
        raise CliError(f"--encoding: there is no encoding {encoding!r}") from error
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        row = data[:start].count(b"\n")
        raise CliError(
            f"{name}: {'the header' if not row else f'row {row}'} is not {encoding or 'text'} (byte {start})"
        ) from error


def detect_separator(text: str, default: str = ",") -> str:
    """The separator that cuts the header into several names and the most rows into as many cells."""
    best, best_score = default, (0.0, 0, False)
    for sep in SEPARATORS:
        header, rows = _sample(text, sep)
        if len(header) > 1:
            # one cell more than names: see read_delimited
            share = sum(len(row) in (len(header), len(header) + 1) for row in rows) / max(1, len(rows))
            score = (round(share, 2), len(header), sep == default)
            if score > best_score:
                best, best_score = sep, score
    return best


def _sample(text: str, sep: str) -> tuple[list[str], list[list[str]]]:
    """The header and the first rows."""
    head = io.StringIO(text[: 1 << 20], newline="")
    try:
        rows = [row for row, _ in zip(csv.reader(head, delimiter=sep), range(_SAMPLE), strict=False)]
    except csv.Error:  # a cell of more than 128 kB: a quote that is never closed
        return [], []
    rows = [row for row in rows if row]
    whole = len(text) <= 1 << 20
    return (rows[0] if rows else []), (rows[1:] if whole else rows[1:-1])


def _parse(name: str, text: str, sep: str, names: list[str]) -> Any:
    """All cells as text, by pyarrow."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        return arrow_csv.read_csv(
            pa.BufferReader(text.encode()),
            # one thread: errors then tell the row
            arrow_csv.ReadOptions(use_threads=False, column_names=names, skip_rows_after_names=1),
            arrow_csv.ParseOptions(delimiter=sep, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowException as error:
        told = str(error).splitlines()[0]
        if match := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", told):
            row, expected, found = map(int, match.groups())
            raise CliError(
                f"{name}: row {row - 1} has {found} cells; expected {expected}, one for each name in the "
                f"header ({SEPARATORS.get(sep, repr(sep))} separated)"
            ) from error
        raise CliError(f"{name}: cannot be read as CSV: {told}") from error


def _is_number(label: str) -> bool:
    try:
        float(label.replace(",", "."))
    except ValueError:
        return False
    return True
