"""Read the bytes of input files, and write output files, which are replaced only when complete."""

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
    """Limits for unpacking files."""

    # An unpacked file may have this many bytes, or this multiple of the packed size if that is more.
    # Packing usually shrinks a table three- to tenfold, and one with few categories fiftyfold.
    unpacked: int = 256 << 20
    unpacked_ratio: int = 100


SETTINGS = PackingSettings()


def source_name(path: str) -> str:
    """The name of an input in messages."""
    return "standard input" if path == "-" else path


def read_bytes(path: str) -> bytes:
    """The content of a file, a pipe or, for "-", standard input; gzip and bzip2 are unpacked."""
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
        raise CliError(f"{source_name(path)}: cannot be unpacked, it is truncated or damaged") from error
    return data


def _unpacked(file: Any, packed: int, name: str) -> bytes:
    """The content of a packed file; raises if it is implausibly large or does not fit into memory."""
    ratio = SETTINGS.unpacked_ratio
    limit, reason = max(SETTINGS.unpacked, ratio * packed), f"{ratio} times its size"
    if (half := available_memory() // 2) < limit:
        limit, reason = half, "half of the available memory"
    chunks, size = [], 0
    while chunk := file.read(1 << 20):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise CliError(
                f"{name}: unpacks to more than {limit >> 20} MB, {reason}; if that is intended, unpack it "
                "first (gunzip, bunzip2) and give the unpacked file"
            )
    return b"".join(chunks)


# -- output -----------------------------------------------------------------------------------


def check_output(path: str, force: bool) -> Path:
    """Check that an output path can be written, and return it; "-" is standard output."""
    if path == "-":
        return Path(path)
    output = Path(path).absolute()
    if _is_stream(output):
        return output
    if output.exists() and not output.is_file():
        raise CliError(f"--output {path}: exists and is not a file")
    if output.exists() and not force:
        raise CliError(f"--output {path}: the file exists; use --force to overwrite it")
    if not output.parent.is_dir():
        raise CliError(f"--output {path}: the directory {output.parent} does not exist")
    if not os.access(output.parent, os.W_OK):
        raise CliError(f"--output {path}: no permission to write to {output.parent}")
    return output.resolve()


@contextmanager
def writing(output: Path, suffix: str = "") -> Iterator[Path]:
    """Provide a temporary file that replaces ``output`` unless an error occurs.

    ``suffix`` is the suffix of the temporary file if the output is a stream.
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
    """Whether an output is a pipe or a device such as /dev/null."""
    return output.is_fifo() or output.is_char_device()


def output_of(args: Namespace) -> Any:
    """Check that the model file can be written, and return its path; the name of the data is the default."""
    if args.output is None:
        if args.data == "-" or set("*?[") & set(Path(args.data).stem):
            raise CliError(f"--output: {args.data!r} gives no name for the model file; use -o FILE")
        args.output = f"{Path(args.data).stem}.sklr"
    if args.output == "-" and args.json:
        raise CliError("--output - and --json both write to standard output; use only one of them")
    return check_output(args.output, args.force)
