"""Model files as zip archives: a header, the model, and a description for ``sparseklr show``.

This module imports no third-party packages, so that ``sparseklr show`` can print the description quickly.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from .. import __version__
from .memory import available_memory

FORMAT = 2
HEADER, TREE, DESCRIPTION = "sparseklr.json", "model.json", "description.json"
LIBRARIES = ("scikit-learn",)  # libraries whose classes a file may contain
_MEMBER = re.compile(r"sparseklr\.json|model\.json|description\.json|[0-9]{1,9}\.npy")


@dataclass(frozen=True)
class Limits:
    """Limits on the size of an unpacked archive: ``always``, or ``ratio`` times the file size if larger."""

    always: int = 256 << 20  # bytes
    ratio: int = 100  # compression shrinks columns of zeros and ones by a factor of 50, and others much less
    copies: int = 4  # number of copies of the content in memory while a file is read
    json: int = 8  # memory of a JSON document, relative to the size of its text


LIMITS = Limits()


class ModelFileError(ValueError):
    """Error for a file that is not a model file, is damaged or too large, or has another format version."""


def versions() -> dict[str, str]:
    """Return a mapping from the names of this package and of installed ``LIBRARIES`` to their versions."""
    found = {"sparseklr": __version__}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:  # not installed
            continue
    return found


def pack(members: dict[str, bytes]) -> bytes:
    """Return a zip archive with the given members and a header."""
    header = {
        "format": FORMAT,
        "versions": versions(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "sha256": _digest(members),
    }
    buffer = io.BytesIO()
    with ZipFile(buffer, "w", compression=ZIP_DEFLATED) as archive:
        archive.writestr(HEADER, json.dumps(header))
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def unpack(data: bytes, name: str, max_bytes: int | None = None) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the members of an archive and its header; ``name`` is the name of the file in errors.

    ``max_bytes`` replaces the limit on the unpacked size.
    """
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            infos = archive.infolist()
            size = sum(i.file_size * (1 if i.filename.endswith(".npy") else LIMITS.json) for i in infos)
            _check_size(size, len(data), name, max_bytes)
            sound = len({*names}) == len(names) and all(map(_MEMBER.fullmatch, names))
            members = {info.filename: _read(archive, info) for info in infos} if sound else {}
        header = json.loads(members.pop(HEADER))
        found = header["format"]
        header["versions"] = {str(library): str(number) for library, number in header["versions"].items()}
    except ModelFileError:
        raise
    except Exception as error:  # wrong content can cause any error in zipfile, zlib, json and lookups
        raise ModelFileError(damaged(name)) from error
    if found != FORMAT:
        raise ModelFileError(
            f"{name}: the model has format {found}, written by sparseklr "
            f"{header['versions'].get('sparseklr')}; sparseklr {__version__} reads format {FORMAT}. "
            "Fit the model again."
        )
    if header.get("sha256") != _digest(members) or not isinstance(header.get("created"), str):
        raise ModelFileError(damaged(name))
    return members, header


def _read(archive: ZipFile, member: ZipInfo) -> bytes:
    """Return the content of a member; zipfile raises an error if it is larger than its declared size."""
    with archive.open(member) as file:
        return file.read(member.file_size)


def damaged(name: str) -> str:
    return f"{name}: the file is not a model written by sparseklr, or it is damaged"


def _check_size(unpacked: int, packed: int, name: str, max_bytes: int | None) -> None:
    """Raise an error if the unpacked content is implausibly large or does not fit into memory."""
    limit = max(LIMITS.always, LIMITS.ratio * packed) if max_bytes is None else max_bytes
    if unpacked > limit:
        raise ModelFileError(
            f"{name}: the file was not loaded, because {packed >> 10} kB would unpack to "
            f"{unpacked >> 20} MB; the limit is {limit >> 20} MB. If you trust the file, raise the limit: "
            "sparseklr.load(path, max_bytes=...)"
        )
    if unpacked > (free := available_memory() // LIMITS.copies):
        raise ModelFileError(
            f"{name}: the file was not loaded, because it would unpack to {unpacked >> 20} MB, and the "
            f"available memory suffices for only {free >> 20} MB"
        )


def _digest(members: dict[str, bytes]) -> str:
    """Return the SHA-256 digest of the names and contents of all members, sorted by name."""
    digest = hashlib.sha256()
    for name, content in sorted(members.items()):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
