"""Model files: :mod:`storage` writes and reads them, :mod:`archive` is their zip container, and
:mod:`invariants` checks what was read before it is used as a model. Needs the extra ``sparseklr[files]``."""

from .archive import ModelFileError
from .storage import load, save

__all__ = ["ModelFileError", "load", "save"]
