"""Saving and loading of model files. Loading a file does not execute code from the file.

A model file is a zip archive with four kinds of members:

- ``sparseklr.json``: the version of the format, the versions of the libraries, the time, and a digest of the
  other members. The digest detects damage. It is not a signature, because anyone can compute it.
- ``model.json``: ``objects``, a list of ``{"type": ..., "parameters": {...}, "attributes": {...}}``, and
  ``model`` and ``metadata``, which refer to objects. An object refers only to earlier objects.
- ``description.json``: the text that ``sparseklr show`` prints. :func:`load` ignores it.
- ``0.npy``, ``1.npy``, ...: the arrays, without pickled objects.

A value in ``model.json`` is a number, text, true, false, null, a list, or an object with one key that names
the kind of the value (``_Reader.value``). :mod:`sparseklr._stored_types` lists the public names of the
allowed types, with their attributes. The reader rejects everything else. It also checks that the arrays of
every object are consistent before compiled code uses them.
"""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ._stored_types import NAMES, check_csr, stored_type, type_of
from ._utils.archive import (
    DESCRIPTION,
    LIBRARIES,
    TREE,
    ModelFileError,
    damaged,
    pack,
    unpack,
    versions,
)
from ._utils.files import replacing
from ._utils.messages import listing, warn

_KINDS = "biufUSMm"  # kinds of arrays and NumPy scalars: all except objects and records


def save(model: Any, path: str | Path, *, metadata: dict[str, Any] | None = None) -> None:
    """Write a fitted model to a file for :func:`load` and the command line.

    Parameters
    ----------
    model : estimator
        A fitted pipeline of :func:`tabular_pipeline`, an estimator of this package, or a pipeline of such
        estimators and transformers of scikit-learn. A search (:class:`SKLRCV`, GridSearchCV) is stored as its
        best model.
    path : str or Path
        The file to write, by convention ``*.sklr``. An existing file is replaced only when the new content
        is complete.
    metadata : dict or None, default=None
        Further content to store: numbers, text, lists, dicts and arrays. The command line uses ``target``,
        the name of the column that contains the classes.

    Raises
    ------
    ValueError
        If the model is not fitted, or contains something that :func:`load` would reject. No file is written.

    See Also
    --------
    load, tabular_pipeline

    Notes
    -----
    A model file contains training rows, so take care if the data are confidential: the points of SKLR and
    SparseKLR, and for SparseKLR and CompactKLR up to 100 scaled rows for explanations. A file may contain the
    following classes of scikit-learn: scalers, encoders, imputers, PCA, TruncatedSVD, VarianceThreshold,
    vectorizers, ColumnTransformer, FeatureUnion and Pipeline. The only functions that a file may contain are
    universal functions of NumPy. For other models use joblib, whose files execute code when they are loaded.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SparseKLR, load, save
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> model = SparseKLR().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/moons.sklr")
    ...     same = load(f"{folder}/moons.sklr")
    >>> np.array_equal(same.predict_proba(X), model.predict_proba(X))
    True
    """
    check_is_fitted(model)
    model, metadata = _chosen(model), {**(metadata or {})}
    members = encode(model, metadata)
    decode(members)  # raises an error if the file could not be read again
    members[DESCRIPTION] = json.dumps(describe(model, metadata), default=str).encode()
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(pack(members))


def load(path: str | Path, *, max_bytes: int | None = None) -> Any:
    """Read a model written by :func:`save` or the command line, without executing code from the file.

    Parameters
    ----------
    path : str or Path
        The model file.
    max_bytes : int or None, default=None
        Maximum unpacked size in bytes, in which the size of JSON members is multiplied by eight. None means
        100 times the size of the file, but at least 256 MB.

    Returns
    -------
    estimator
        The fitted model.

    Raises
    ------
    ValueError
        If the file is not a model, is damaged, unpacks to more than ``max_bytes`` or the available memory,
        has a different format, contains an untrusted type, or contains inconsistent arrays.

    See Also
    --------
    save
    """
    return load_with_metadata(Path(path).read_bytes(), str(path), max_bytes)[0]


def load_with_metadata(
    data: bytes, name: str, max_bytes: int | None = None
) -> tuple[BaseEstimator, dict[str, Any]]:
    """Return the model and the metadata from the content of a model file; errors mention ``name``."""
    members, header = unpack(data, name, max_bytes)
    try:
        model, metadata = decode(members)
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from error
    except ImportError:
        raise
    except ValueError as error:  # a check failed
        reason = "because the model is damaged or was altered"
        raise ModelFileError(f"{name}: the file was not loaded, {reason}: {error}") from error
    except Exception as error:  # any other error that invalid content causes
        raise ModelFileError(damaged(name)) from error
    if not isinstance(model, BaseEstimator):
        kind = type(model).__name__
        raise ModelFileError(f"{name}: the file was not loaded, because it contains a {kind}, not a model")
    here, there = versions(), header["versions"]
    for library in LIBRARIES:
        if library in here and library in there and _minor(there[library]) != _minor(here[library]):
            warn(
                f"{name} was written with {library} {there[library]}, but {here[library]} is installed. Fit "
                "the model again if predictions fail."
            )
    return model, {**metadata, "created": header["created"], "versions": there}


def describe(model: Any, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the properties of a model that ``sparseklr show`` prints, as plain values.

    ``parameters`` contains the parameters of the estimator that differ from their defaults. ``training`` is
    the summary of the training written by the command line.
    """
    steps = getattr(model, "named_steps", {})
    estimator = model[-1] if steps else model
    defaults = type(estimator)().get_params(deep=False)
    return {
        "estimator": type(estimator).__name__,
        "parameters": {
            name: value if isinstance(value, str | int | float) else str(value)
            for name, value in estimator.get_params(deep=False).items()
            if value != defaults[name] and name not in ("n_jobs", "verbose")
        },
        "target": metadata.get("target"),
        "n_features": getattr(estimator, "n_features_in_", None),
        "n_points": len(estimator.dual_coef_[0]) if hasattr(estimator, "dual_coef_") else None,
        "classes": getattr(estimator, "classes_", np.arange(0)).tolist(),
        "columns": steps["read"].summary() if "read" in steps else None,
        "training": metadata.get("training") or {},
    }


def _chosen(model: Any) -> Any:
    """Return the best model of a search, even if the search is the last step of a pipeline."""
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        return type(model)([*model.steps[:-1], (name, _chosen(last))])
    return getattr(model, "best_estimator_", model)


def _minor(number: str) -> list[str]:
    """Return the major and minor part of a version number."""
    return number.split(".")[:2]


# -- writing ----------------------------------------------------------------------------------------


def encode(model: Any, metadata: Any) -> dict[str, bytes]:
    """Return the members of a model file, by name, for a model and its metadata."""
    writer = _Writer()
    tree = {"model": writer.value(model), "metadata": writer.value(metadata)}
    text = json.dumps({"objects": writer.objects, **tree}, allow_nan=False)
    return {TREE: text.encode(), **writer.arrays}


class _Writer:
    """Encoder of values as JSON. Objects and arrays that occur several times are written once."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: dict[str, bytes] = {}
        self._written: dict[int, tuple[Any, dict[str, Any]]] = {}  # by id of the value

    def value(self, value: Any, where: str = "") -> Any:
        """Return the JSON encoding of a value; ``where`` is its location, for error messages."""
        if value is None or isinstance(value, bool | str) or type(value) in (int, float):
            return {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value
        if id(value) in self._written:
            return self._written[id(value)][1]
        if type(value) is list:
            return [self.value(one, where) for one in value]
        if type(value) is tuple:
            return {"tuple": [self.value(one, where) for one in value]}
        if type(value) is dict:
            pairs = [[self.value(key, where), self.value(one, where)] for key, one in value.items()]
            plain = all(isinstance(key, str) for key in value)
            return {"dict": dict(pairs)} if plain else {"items": pairs}
        if type(value) is slice:
            return {"slice": [value.start, value.stop, value.step]}
        written = self._numpy(value, where) or self._object(value, where)
        self._written[id(value)] = (value, written)
        return written

    def _numpy(self, value: Any, where: str) -> dict[str, Any]:
        """Return the encoding of NumPy values and sparse matrices; an empty dict for other values."""
        if type(value) is np.ndarray:
            if value.dtype.kind == "O":
                return {"cells": [self.value(one, where) for one in value.ravel()], "shape": [*value.shape]}
            return self._array(value, where)
        if sparse.issparse(value) and value.format == "csr":
            parts = [self._array(np.asarray(one), where) for one in (value.data, value.indices, value.indptr)]
            is_array = isinstance(value, sparse.sparray)
            return {"csr": parts, "shape": [*map(int, value.shape)], "is_array": is_array}
        if isinstance(value, np.dtype) and value.kind in (*_KINDS, "O"):
            return {"dtype": value.str}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"scalar_type": value.__name__}
        if isinstance(value, np.generic) and value.dtype.kind in "biufU":
            return {"scalar": self.value(value.item(), where), "dtype": value.dtype.str}
        name = getattr(value, "__name__", "")
        return {"ufunc": name} if isinstance(value, np.ufunc) and vars(np).get(name) is value else {}

    def _array(self, array: np.ndarray, where: str) -> dict[str, Any]:
        """Store an array as a member of the file, and return a reference to it."""
        if array.dtype.kind not in _KINDS:
            raise _not_storable(f"an array of {array.dtype}", where)
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        name = f"{len(self.arrays)}.npy"
        self.arrays[name] = buffer.getvalue()
        return {"array": name}

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        """Store an object, and return a reference to it."""
        stored = type_of(value)
        if stored is None:
            named: Any = value if callable(value) and hasattr(value, "__qualname__") else type(value)
            raise _not_storable(f"{named.__module__}.{named.__qualname__}", where)
        try:
            both = stored.parts(value)
        except ValueError as error:  # the message is the name of an attribute
            raise _not_storable(str(error), where) from error
        parameters, attributes = (
            {name: self.value(one, f"{stored.name}.{name}") for name, one in part.items()} for part in both
        )
        self.objects.append({"type": stored.name, "parameters": parameters, "attributes": attributes})
        return {"object": len(self.objects) - 1}


def _not_storable(what: str, where: str) -> ValueError:
    """Return the error for a value that a model file cannot contain."""
    place = f" (in {where})" if where else ""
    return ValueError(
        f"a model file cannot contain {what}{place}. Use pickle or cloudpickle, but load their files only "
        "from sources that you trust."
    )


# -- reading ----------------------------------------------------------------------------------------


def decode(members: dict[str, bytes]) -> tuple[Any, dict[str, Any]]:
    """Return the model and the metadata from the members of a model file."""
    tree = json.loads(members[TREE], object_pairs_hook=_distinct)
    types = {str(one["type"]) for one in tree["objects"]}
    if foreign := sorted(types - {*NAMES}):
        raise ModelFileError(
            f"the file was not loaded, because it contains untrusted types: {listing(foreign)}"
        )
    reader = _Reader(members)
    for one in tree["objects"]:
        parameters, attributes = reader.named(one["parameters"]), reader.named(one["attributes"])
        reader.objects.append(stored_type(one["type"]).make(parameters, attributes))
    return reader.value(tree["model"]), reader.named(tree["metadata"]["dict"])


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dict of the given pairs; raise an error if a key occurs twice."""
    if len(unique := dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return unique


class _Reader:
    """Decoder of values from JSON."""

    def __init__(self, members: dict[str, bytes]) -> None:
        self.members = members
        self.objects: list[Any] = []

    def value(self, value: Any) -> Any:
        """Decode a value from its JSON encoding."""
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if not isinstance(value, dict):
            return value
        match value:
            case {"dict": dict(content)}:
                return self.named(content)
            case {"array": str(name)}:
                return self.array(name)
            case {"object": int(index)} if index >= 0:
                return self.objects[index]
            case {"tuple": list(content)}:
                return tuple(self.value(content))
            case {"items": list(pairs)}:
                return {self.value(key): self.value(one) for key, one in pairs}
            case {"cells": list(content), "shape": list(shape)}:
                cells = np.empty(len(content), dtype=object)
                for k, one in enumerate(content):
                    cells[k] = self.value(one)
                return cells.reshape(shape)
            case {
                "csr": [data, indices, indptr],
                "shape": [int(n_rows), int(n_columns)],
                "is_array": is_array,
            }:
                parts = self.value([data, indices, indptr])
                make = sparse.csr_array if is_array else sparse.csr_matrix
                matrix = make(tuple(parts), shape=(n_rows, n_columns))
                check_csr("a sparse matrix", matrix, (n_rows, n_columns))
                return matrix
            case {"float": "nan" | "inf" | "-inf" as text}:
                return float(text)
            case {"slice": [start, stop, step]}:
                return slice(start, stop, step)
            case {"dtype": str(text), **more} if np.dtype(text).kind in (*_KINDS, "O"):
                return np.dtype(text).type(self.value(more["scalar"])) if "scalar" in more else np.dtype(text)
            case {"scalar_type": str(name)} if name in np.sctypeDict:
                return np.sctypeDict[name]
            case {"ufunc": str(name)} if isinstance(found := getattr(np, name, None), np.ufunc):
                return found
        raise ModelFileError(
            f"the file was not loaded, because it contains an unknown value: {str(value)[:40]}"
        )

    def named(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the decoded values of a dict."""
        return {name: self.value(one) for name, one in values.items()}

    def array(self, name: str) -> np.ndarray:
        """Return a copy of an array in the file, after checking its header and size."""
        content = self.members[name]
        buffer = io.BytesIO(content)
        major, _ = np.lib.format.read_magic(buffer)
        read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(buffer)
        if dtype.kind not in _KINDS or not dtype.itemsize:
            raise ValueError(f"an array has the unsupported type {dtype}")
        size, start = math.prod(shape) * dtype.itemsize, buffer.tell()
        if min(shape, default=0) < 0 or size != len(content) - start:
            raise ValueError(f"an array of shape {shape} has {len(content) - start} bytes; expected {size}")
        if dtype.kind == "b" and (np.frombuffer(content, np.uint8, offset=start) > 1).any():
            raise ValueError("a bool array contains values other than 0 and 1")  # NumPy would miscount them
        flat = np.frombuffer(content, dtype, offset=start) if size else np.empty(shape, dtype)
        return flat.reshape(shape, order="F" if by_columns else "C").copy(order="K")
