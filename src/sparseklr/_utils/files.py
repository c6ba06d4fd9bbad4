"""Atomic replacement of files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Provide the path of a temporary file, which replaces ``path`` on success and is deleted on failure.

    The temporary file is in a new folder beside ``path``. Only the owner can access the folder, so that other
    users can neither read nor replace the file. The permissions of an existing file ``path`` are preserved.
    """
    try:
        with TemporaryDirectory(prefix=".", dir=path.parent) as folder:
            temporary = Path(folder) / path.name
            yield temporary
            if path.exists():
                shutil.copymode(path, temporary)
            os.replace(temporary, path)
    except OSError as error:  # the error names the file of the user, not the temporary file
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
