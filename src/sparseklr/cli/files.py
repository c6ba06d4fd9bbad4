"""Files in and out: bytes of a file, a pipe or standard input, their format, and outputs that are replaced
only when they are complete."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..memory import available_memory
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
# A packed file may unpack to this many bytes, or to this many times its size if that is more: packing makes
# tables three to ten times smaller, and fifty times smaller if there are few categories.
_ALWAYS, _RATIO = 256 << 20, 100
STDIN = "standard input"  # the name of "-" in messages


def source_name(path: str) -> str:
    """What messages call an input."""
    return STDIN if path == "-" else path


def read_bytes(path: str) -> bytes:
    """The content of a file, a pipe or, for "-", standard input; unpacked if it is gzip or bzip2."""
    if path != "-" and not Path(path).exists():
        raise CliError(f"{path}: no such file")
    if Path(path).is_dir():
        raise CliError(f"{path}: not a file")
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        if data.startswith(b"\x1f\x8b"):
            return _unpacked(gzip.GzipFile(fileobj=io.BytesIO(data)), len(data), source_name(path))
        if data.startswith(b"BZh"):
            return _unpacked(bz2.BZ2File(io.BytesIO(data)), len(data), source_name(path))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise CliError(f"{source_name(path)}: cannot be unpacked, it is cut or damaged") from error
    return data


def _unpacked(file: Any, packed: int, name: str) -> bytes:
    """What a packed file holds; an error if that is far more than tables are, or than fits in memory."""
    limit, reason = max(_ALWAYS, _RATIO * packed), f"{_RATIO} times its size"
    if (half := available_memory() // 2) < limit:
        limit, reason = half, "half of the memory that is available"
    chunks, size = [], 0
    while chunk := file.read(1 << 20):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise CliError(
                f"{name}: unpacks to more than {limit >> 20} MB, {reason}; if it should, unpack it first "
                "(gunzip, bunzip2) and give the unpacked file"
            )
    return b"".join(chunks)


def format_of(path: str, given: str | None, data: bytes) -> str:
    """The format of some data: as given, by the suffix of its file, or by its first bytes."""
    if given:
        return given
    if data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise CliError(f"{source_name(path)}: looks like a spreadsheet; save it as CSV or Parquet")
    suffix = Path(path.removesuffix(".gz").removesuffix(".bz2")).suffix.lower()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if path == "-" or not Path(path).is_file():  # a pipe has no suffix
        return "parquet" if data.startswith(b"PAR1") else "csv"
    raise CliError(f"{path}: suffix {suffix!r} is not one of {listing(SUFFIXES)}; give --format")


def read_parquet(path: str, data: bytes) -> Any:
    """A Parquet file as a pandas data frame whose rows count from 1."""
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    name = source_name(path)
    try:
        table = parquet.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise CliError(f"{name}: cannot be read as parquet: {str(error).splitlines()[0]}") from error
    if twice := [k for k in dict.fromkeys(table.column_names) if table.column_names.count(k) > 1]:
        raise CliError(f"{name}: more than one column is called {listing(twice)}")
    # the index of a pandas frame is not data
    kept = [k for k in table.column_names if not (k.startswith("__index_level_") and k.endswith("__"))]
    frame = table.select(kept).to_pandas(ignore_metadata=True)
    if not len(frame):
        raise CliError(f"{name}: there are no rows")
    return frame.set_axis(pd.RangeIndex(1, len(frame) + 1))


def read_svmlight(
    path: str, data: bytes, one_based: bool | None = None, n_features: int | None = None
) -> Any:
    """Rows (CSR), labels and whether features are counted from 1.

    With ``one_based`` and ``n_features`` of a model, the columns are those of its training data.
    """
    import numpy as np
    from sklearn.datasets import load_svmlight_file

    name = source_name(path)
    try:
        # counted from 0 whatever the file does: of one-based files column 0 is then empty
        X, y = load_svmlight_file(io.BytesIO(data), zero_based=True)
    except ValueError as error:
        raise CliError(f"{name}: cannot be read as svmlight: {error}") from error
    if not X.nnz:
        raise CliError(f"{name}: there are no rows with a feature")
    lowest, highest = int(X.indices.min()), int(X.indices.max())
    one_based = lowest > 0 if one_based is None else one_based
    first = int(one_based)
    n_features = n_features or highest + 1 - first
    if lowest < first or highest >= n_features + first:
        bad = lowest if lowest < first else highest
        raise CliError(
            f"{name}: there is a feature {bad}; the model knows features {first} to {n_features - 1 + first}"
        )
    X.resize(X.shape[0], n_features + first)
    whole = np.array_equal(y, np.round(y))
    return X[:, first:], y.astype(np.int64) if whole else y, one_based


# -- output -----------------------------------------------------------------------------------


def check_output(path: str, force: bool) -> Path:
    """The output file, if it may be written; an error comes before a long computation rather than after it.

    "-" stands for standard output; a pipe is taken as it is.
    """
    if path == "-":
        return Path(path)
    output = Path(path).absolute()
    if output.is_fifo():
        return output
    if output.exists() and not output.is_file():
        raise CliError(f"--output {path}: exists and is not a file")
    if output.exists() and not force:
        raise CliError(f"--output {path}: exists; --force overwrites it")
    if not output.parent.is_dir():
        raise CliError(f"--output {path}: there is no directory {output.parent}")
    if not os.access(output.parent, os.W_OK):
        raise CliError(f"--output {path}: no permission to write in {output.parent}")
    return output.resolve()


@contextmanager
def writing(output: Path, suffix: str = "") -> Iterator[Path]:
    """A temporary file whose content goes to ``output`` if all goes well, and nowhere otherwise.

    ``suffix`` is that of the temporary file where the output is a stream and has none.
    """
    from .._files import replacing

    if output != Path("-") and not output.is_fifo():
        with replacing(output) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory() as folder:
        yield (temporary := Path(folder) / f"output{suffix}")
        content = temporary.read_bytes()
    if output == Path("-"):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    else:
        output.write_bytes(content)
