"""Checkpoints: the state of an out-of-core fit on disk, so that an interrupted fit can resume."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._utils.files import replacing
from .._utils.messages import warn
from ..compact.model import CompactModel
from .gauss_newton import Descent

# Version of the file layout and of the algorithm. A fit resumes only from a file of the same version.
FORMAT = 2
# Errors that NumPy, json and the lookups below raise for a file that is not a checkpoint.
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass
class FitState:
    """The current results of an out-of-core fit."""

    models: list[CompactModel] = field(default_factory=list)  # one model per size, in the order of the search
    Cs: list[float] = field(default_factory=list)  # the C of each model
    seconds: list[float] = field(default_factory=list)  # time from the start of the fit to each model
    descent: Descent | None = None  # state of the final optimisation on all rows


class Checkpoint:
    """A file that contains a :class:`FitState`, replaced atomically; if ``path`` is None, there is no file.

    ``identity`` contains everything on which the fit depends: numbers, strings and arrays. :meth:`load`
    rejects a file that belongs to a different fit.
    """

    def __init__(self, path: str | os.PathLike | None, **identity: Any) -> None:
        self.path = None if path is None else Path(path).absolute()
        self.identity = {name: _digest(value) for name, value in identity.items()}
        self._warned = False
        if self.path is not None and not self.path.parent.is_dir():
            raise ValueError(f"checkpoint={path!s}: the directory {self.path.parent} does not exist.")

    def load(self) -> FitState:
        """Return the state in the file; a new state if there is no file."""
        if self.path is None or not self.path.exists():
            return FitState()
        try:
            with np.load(self.path, allow_pickle=False) as file:
                content = {name: file[name] for name in file.files}
            header = json.loads(str(content.pop("header")))
            version, identity = header["format"], {**header["identity"]}
            state = _state(header, content) if version == FORMAT else FitState()
        except _UNREADABLE as error:
            raise ValueError(
                f"checkpoint={self.path}: this file is not a checkpoint of CompactKLR, or it is damaged. "
                "Delete it, or choose another name."
            ) from error
        if version != FORMAT:
            raise ValueError(
                f"checkpoint={self.path}: a different version of sparseklr wrote this file (format "
                f"{version}; expected {FORMAT}). Finish the fit with that version, or delete the file."
            )
        if other := [name for name, value in self.identity.items() if identity.get(name) != value]:
            raise ValueError(
                f"checkpoint={self.path}: this file belongs to another fit, which differs in "
                f"{', '.join(other)}. Delete it, or choose another name."
            )
        return state

    def save(self, state: FitState) -> None:
        """Write the state to the file.

        If writing fails, for example because the disk is full, a warning is issued once and the fit
        continues.
        """
        if self.path is None:
            return
        arrays: dict[str, Any] = {}
        for k, model in enumerate(state.models):
            arrays.update(_arrays(model, f"size{k}"))
        steps = None
        if state.descent is not None:
            arrays.update(_arrays(state.descent.model, "descent"))
            steps = {name: value for name, value in vars(state.descent).items() if name != "model"}
        header = {
            "format": FORMAT,
            "identity": self.identity,
            "Cs": state.Cs,
            "seconds": state.seconds,
            "descent": steps,
        }
        try:
            with replacing(self.path) as temporary, open(temporary, "wb") as file:
                np.savez(file, header=np.array(json.dumps(header)), **arrays)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if not self._warned:
                self._warned = True
                warn(
                    f"checkpoint={self.path} could not be written ({error.strerror}). The fit continues; "
                    "the previous checkpoint is kept.",
                    RuntimeWarning,
                )

    def remove(self) -> None:
        """Delete the checkpoint file after the fit has finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _arrays(model: CompactModel, name: str) -> dict[str, Any]:
    """Return the arrays of a model, with names that start with ``name``."""
    return {f"{name}_{part}": getattr(model, part) for part in ("points", "log_gamma", "coef")}


def _state(header: dict[str, Any], content: dict[str, np.ndarray]) -> FitState:
    """Return the state in a file of this format; raise an error if parts are missing or inconsistent."""
    Cs, seconds = ([float(value) for value in header[name]] for name in ("Cs", "seconds"))
    if len(Cs) != len(seconds):
        raise ValueError("Cs and seconds differ in length")
    models = [_model(content, f"size{k}") for k in range(len(Cs))]
    steps = header["descent"]
    if steps is None:
        return FitState(models, Cs, seconds)
    for name, value in steps.items():
        if type(value) is not type(getattr(Descent, name)):
            raise TypeError(f"{name} of the descent is {value!r}")
    return FitState(models, Cs, seconds, Descent(_model(content, "descent"), **steps))


def _model(content: dict[str, np.ndarray], name: str) -> CompactModel:
    """Return the model whose arrays start with ``name``."""
    model = CompactModel(*(content[f"{name}_{part}"] for part in ("points", "log_gamma", "coef")))
    model.check()
    return model


def _digest(value: Any) -> str:
    """Return the hash of an array, or the text of any other value."""
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    return repr(value)
