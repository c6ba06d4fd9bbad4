"""Files that are written in one step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of ``path`` if all goes well, and vanishes otherwise.

    It lies beside ``path`` in a new folder that only its owner can enter. Nobody can therefore plant or read
    it, threads do not share it, and its name may be as long as any. The mode of ``path`` is kept.
    """
    try:
        with TemporaryDirectory(prefix=".", dir=path.parent) as folder:
            temporary = Path(folder) / path.name
            yield temporary
            if path.exists():
                shutil.copymode(path, temporary)
            os.replace(temporary, path)
    except OSError as error:  # about the file that was asked for, not about the temporary one
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
