"""Reading of input files as bytes, and writing of output files, which appear only when they are complete."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import sys
import tempfile
import zlib
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._utils.files import replacing
from .._utils.memory import available_memory
from .options import CliError


@dataclass(frozen=True)
class PackingSettings:
    """Limits for decompressing files."""

    # The maximum size of a decompressed file is the larger of ``unpacked`` bytes and ``unpacked_ratio`` times
    # the compressed size. Compression usually shrinks a table by a factor of 3 to 10, and a table with few
    # distinct values by a factor of 50.
    unpacked: int = 256 << 20
    unpacked_ratio: int = 100


SETTINGS = PackingSettings()


def source_name(path: str) -> str:
    """Return the name by which messages refer to an input file."""
    return "standard input" if path == "-" else path


def read_bytes(path: str) -> bytes:
    """Return the content of a file, a pipe or standard input ("-"); gzip and bzip2 files are decompressed."""
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
        raise CliError(
            f"{source_name(path)}: the file cannot be decompressed; it is truncated or damaged"
        ) from error
    return data


def _unpacked(file: Any, packed: int, name: str) -> bytes:
    """Return the content of a compressed file.

    A :class:`CliError` is raised if it is implausibly large, or larger than half of the available memory.
    """
    ratio = SETTINGS.unpacked_ratio
    limit, reason = max(SETTINGS.unpacked, ratio * packed), f"{ratio} times its compressed size"
    if (half := available_memory() // 2) < limit:
        limit, reason = half, "half of the available memory"
    chunks, size = [], 0
    while chunk := file.read(1 << 20):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise CliError(
                f"{name}: the decompressed file is larger than {limit >> 20} MB ({reason}); if this is "
                "intended, decompress the file first (gunzip, bunzip2)"
            )
    return b"".join(chunks)


# -- output -----------------------------------------------------------------------------------


def check_output(path: str, force: bool) -> Path:
    """Return the path of an output file ("-" is standard output); raise an error if it cannot be written."""
    if path == "-":
        return Path(path)
    output = Path(path).absolute()
    if _is_stream(output):
        return output
    if output.exists() and not output.is_file():
        raise CliError(f"--output {path}: the path exists but is not a regular file")
    if output.exists() and not force:
        raise CliError(f"--output {path}: the file exists; use --force to overwrite it")
    if not output.parent.is_dir():
        raise CliError(f"--output {path}: the directory {output.parent} does not exist")
    if not os.access(output.parent, os.W_OK):
        raise CliError(f"--output {path}: no permission to write to {output.parent}")
    return output.resolve()


@contextmanager
def writing(output: Path, suffix: str = "") -> Iterator[Path]:
    """Provide the path of a temporary file, whose content is moved to ``output`` unless an error occurs.

    If the output is a stream, ``suffix`` is the suffix of the temporary file.
    """
    if output != Path("-") and not _is_stream(output):
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


def _is_stream(output: Path) -> bool:
    """Return whether the output is a pipe, or a device such as /dev/null."""
    return output.is_fifo() or output.is_char_device()


def output_of(args: Namespace) -> Any:
    """Return the path of the model file; raise an error if it cannot be written.

    By default, the model file is named after the data.
    """
    if args.output is None:
        if args.data == "-" or set("*?[") & set(Path(args.data).stem):
            raise CliError(f"--output: no model file name can be derived from {args.data!r}; use -o FILE")
        args.output = f"{Path(args.data).stem}.sklr"
    if args.output == "-" and args.json:
        raise CliError("--output - and --json both write to standard output; use only one of them")
    return check_output(args.output, args.force)
