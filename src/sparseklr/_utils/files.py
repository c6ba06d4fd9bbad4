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
    """Provide a temporary file that replaces ``path`` on success and is deleted on failure.

    The file is created beside ``path`` in a new folder that only its owner can access, so that nobody else
    can read or replace it and threads do not share it. The mode of ``path`` is preserved.
    """
    try:
        with TemporaryDirectory(prefix=".", dir=path.parent) as folder:
            temporary = Path(folder) / path.name
            yield temporary
            if path.exists():
                shutil.copymode(path, temporary)
            os.replace(temporary, path)
    except OSError as error:  # name the user's file rather than the temporary one
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
