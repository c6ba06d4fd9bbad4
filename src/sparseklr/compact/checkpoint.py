"""A fit on disk: what it has decided so far, so that it goes on after an end that nobody planned."""

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

from .._files import replacing
from .._warn import warn
from .gauss_newton import Descent
from .objective import CompactModel

# Of the layout of the file, and of the algorithm: a fit goes on only where it would have gone anyway.
FORMAT = 1
# What a file that is not a checkpoint makes NumPy, json and the lookups below raise.
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
    """What a large fit has decided.

    Attributes
    ----------
    models : list of CompactModel
        Of the sizes that were fitted, in order.
    Cs : list of float
        C of each.
    seconds : list of float
        When each was done, since the fit began.
    descent : Descent or None
        Steps on more rows, of the size that was chosen.
    """

    models: list[CompactModel] = field(default_factory=list)
    Cs: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    descent: Descent | None = None


class Checkpoint:
    """A file that holds a :class:`FitState`, replaced in one step each time.

    Parameters
    ----------
    path : path or None
        None for no file.
    **identity
        What the fit depends on: numbers, strings and arrays. A file of another fit is refused.
    """

    def __init__(self, path: str | os.PathLike | None, **identity: Any) -> None:
        self.path = None if path is None else Path(path).absolute()
        self.identity = {name: _digest(value) for name, value in identity.items()}
        self._complained = False
        if self.path is not None and not self.path.parent.is_dir():
            raise ValueError(f"checkpoint={path!s}: there is no directory {self.path.parent}.")

    def load(self) -> FitState:
        """The state in the file; a new one where there is no file."""
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
                "Delete it, or give another name."
            ) from error
        if version != FORMAT:
            raise ValueError(
                f"checkpoint={self.path}: written by another version (format {version}; expected {FORMAT}). "
                "Finish the fit with the version that began it, or delete the file."
            )
        if other := [name for name, value in self.identity.items() if identity.get(name) != value]:
            raise ValueError(
                f"checkpoint={self.path}: it belongs to another fit, which differs in {', '.join(other)}. "
                "Delete it, or give another name."
            )
        return state

    def save(self, state: FitState) -> None:
        """Write the state.

        Where that fails, as on a full disk, one warning says so: the last file stays, and the fit goes on.
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
            if not self._complained:
                self._complained = True
                warn(
                    f"checkpoint={self.path} could not be written ({error.strerror}). The fit goes on; what "
                    "was written before is still there.",
                    RuntimeWarning,
                )

    def remove(self) -> None:
        """The fit is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _arrays(model: CompactModel, name: str) -> dict[str, Any]:
    return {f"{name}_{part}": getattr(model, part) for part in ("points", "log_gamma", "coef")}


def _state(header: dict[str, Any], content: dict[str, np.ndarray]) -> FitState:
    """The state in a file of this format; raises where parts are missing or do not fit together."""
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
    model = CompactModel(*(content[f"{name}_{part}"] for part in ("points", "log_gamma", "coef")))
    model.check()
    return model


def _digest(value: Any) -> str:
    """A number or a string as it is, an array by its hash."""
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    return repr(value)
