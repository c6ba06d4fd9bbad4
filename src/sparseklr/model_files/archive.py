"""The zip archive of a model file: what skops writes, and ``sparseklr.json`` with the format, the versions,
and a digest of the rest, which reveals damage. A digest is not a signature: anyone can compute one.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import skops.io

from .. import __version__
from ..memory import available_memory

FORMAT = 1
HEADER = "sparseklr.json"
LIBRARIES = ("scikit-learn", "skrub")  # whose classes the files hold
# A file may unpack to this many bytes, or to this many times its size if that is more. Arrays of doubles
# rarely shrink to a tenth, columns of zeros and ones to a fiftieth.
_ALWAYS, _RATIO = 256 << 20, 100
_CHUNK = 1 << 20


class ModelFileError(ValueError):
    """A file that is not a model, is damaged or too large, or is of another version."""


def pack(content: Any) -> bytes:
    """The archive of some content, whatever its types."""
    buffer = io.BytesIO(skops.io.dumps(content, compression=ZIP_DEFLATED))
    with ZipFile(buffer) as archive:
        digest = _digest((name, archive.read(name)) for name in sorted(archive.namelist()))
    header = {
        "format": FORMAT,
        "versions": versions(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "sha256": digest,
    }
    with ZipFile(buffer, "a", compression=ZIP_DEFLATED) as archive:
        archive.writestr(HEADER, json.dumps(header))
    return buffer.getvalue()


def unpack(data: bytes, name: str, max_bytes: int | None = None) -> tuple[bytes, dict[str, Any]]:
    """The checked archive without its header, uncompressed, and the header; ``name`` is for messages.

    What is not compressed cannot grow any more: skops reads members whole.
    """
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_size(size := _announced(archive), len(data), name, max_bytes)
            contents = {member.filename: _read(archive, member) for member in members}
            inner = [io.BytesIO(one) for one in contents.values() if one.startswith(b"PK")]  # sparse matrices
            _check_size(size + sum(_announced(ZipFile(one)) for one in inner), len(data), name, max_bytes)
            header = json.loads(contents.pop(HEADER))
        found = header["format"]
        header["versions"] = {str(library): str(number) for library, number in header["versions"].items()}
    except ModelFileError:
        raise
    except Exception as error:  # whatever zipfile, zlib, json and lookups raise of a wrong content
        raise ModelFileError(damaged(name)) from error
    if found != FORMAT:
        raise ModelFileError(
            f"{name}: a model of format {found}, written by sparseklr "
            f"{header['versions'].get('sparseklr')}; sparseklr {__version__} reads format {FORMAT}. "
            "Fit the model again."
        )
    intact = header.get("sha256") == _digest(sorted(contents.items()))
    if not intact or len(contents) + 1 != len(members) or not isinstance(header.get("created"), str):
        raise ModelFileError(damaged(name))
    buffer = io.BytesIO()
    with ZipFile(buffer, "w", compression=ZIP_STORED) as archive:
        for member, content in contents.items():
            archive.writestr(member, content)
    return buffer.getvalue(), header


def versions() -> dict[str, str]:
    """Of this package, and of the libraries that are installed."""
    found = {"sparseklr": __version__}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:  # of an extra
            continue
    return found


def damaged(name: str) -> str:
    return f"{name}: not a model written by sparseklr, or damaged"


def _announced(archive: ZipFile) -> int:
    """Bytes that an archive unpacks to, by its directory."""
    return sum(member.file_size for member in archive.infolist())


def _check_size(unpacked: int, packed: int, name: str, max_bytes: int | None) -> None:
    """Raise if an archive unpacks to far more than its size, or to more than fits in memory."""
    limit = max(_ALWAYS, _RATIO * packed) if max_bytes is None else max_bytes
    if unpacked > limit:
        raise ModelFileError(
            f"{name}: not loaded, {packed >> 10} kB unpack to {unpacked >> 20} MB; the limit is "
            f"{limit >> 20} MB. If you trust the file, sparseklr.load(path, max_bytes=...) raises the limit"
        )
    if unpacked > (free := available_memory() // 4):  # up to four copies are made
        raise ModelFileError(
            f"{name}: not loaded, it unpacks to {unpacked >> 20} MB, and the available memory suffices for "
            f"{free >> 20} MB"
        )


def _read(archive: ZipFile, member: ZipInfo) -> bytes:
    """The content of a member in chunks: the directory may announce less than there is."""
    with archive.open(member) as file:
        return b"".join(_chunks(file))


def _chunks(file: Any) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _digest(contents: Any) -> str:
    """Of names and contents, in the order of the names."""
    digest = hashlib.sha256()
    for name, content in contents:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
