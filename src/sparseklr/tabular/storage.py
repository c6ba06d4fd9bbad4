"""Model files: a fitted model and what is known about it, stored by skops. Loading one runs no code of the
file.

A file is a zip archive: what skops writes, and ``sparseklr.json`` with the format, the versions, and a digest
of all the rest, which tells of damage. A digest is not a signature: it does not tell who wrote the file. What
is safe whoever wrote it is that only the types named below are made.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .. import __version__
from .._files import replacing
from .._warn import warn
from .._words import listing

FORMAT = 1
HEADER = "sparseklr.json"
LIBRARIES = ("scikit-learn", "skrub")  # whose classes the files hold
_SKRUB = """
    _apply_to_cols.ApplyToCols _apply_to_each_col.ApplyToEachCol _datetime_encoder.DatetimeEncoder
    _squashing_scaler.SquashingScaler _squashing_scaler._MinMaxScaler _string_encoder.StringEncoder
    _to_str.ToStr selectors._base.All
"""
_OWN = """
    compact.objective.CompactModel compact.scaling.Scaling estimators.compact_klr.CompactKLR
    estimators.dual_model.DualModel estimators.sparse_klr.SparseKLR kernels.Kernel
    probability.uncertainty.Posterior rivals.half.HalfKLR rivals.import_vector.ImportVectorMachine
    rivals.thresholded.ThresholdedKLR
    tabular.columns.Column tabular.features.TableFeatures tabular.reader.TableReader
"""
# What a model file may hold beyond the types that skops trusts: classes whose objects are filled with data.
TRUSTED = frozenset(
    ["numpy.dtype", "scipy.sparse._csr.csr_matrix"]
    + [f"skrub.{name}" for name in _SKRUB.split()]
    + [f"sparseklr.{name}" for name in _OWN.split()]
)


class ModelFileError(ValueError):
    """A file that is not a model, is damaged, or is of another version."""


def save(model: Any, path: str | Path, *, metadata: dict[str, Any] | None = None) -> None:
    """Write a fitted model to a file that :func:`load` and the command line read.

    Parameters
    ----------
    model : estimator
        A fitted pipeline of :func:`tabular_pipeline`, an estimator of this package, or a pipeline of these
        and scikit-learn's. Of a search (:class:`SparseKLRCV`, GridSearchCV) the chosen model is stored.
    path : str or Path
        The file, by convention ``*.skops``. It is replaced when everything is written.
    metadata : dict or None, default=None
        What the file should tell beside the model, of numbers, text, lists, dicts and arrays. The command
        line knows ``target``, the name of the column of classes.

    Raises
    ------
    ValueError
        Where the model is not fitted, or holds something of a type that :func:`load` would not make. No
        file is written.

    See Also
    --------
    load, tabular_pipeline

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SparseKLR, load, save
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> model = SparseKLR().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/moons.skops")
    ...     same = load(f"{folder}/moons.skops")
    >>> np.array_equal(same.predict_proba(X), model.predict_proba(X))
    True
    """
    check_is_fitted(model)
    data = pack({"model": _chosen(model), "metadata": {**(metadata or {})}})
    if foreign := _foreign(data):
        raise ValueError(f"the model holds types that a model file may not hold: {listing(foreign)}")
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(data)


def load(path: str | Path) -> Any:
    """Read a model that :func:`save` or the command line wrote. No code of the file is run.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    estimator
        The fitted model.

    Raises
    ------
    ValueError
        Where the file is not a model, is damaged, is of another format, or holds a type that is not trusted.

    See Also
    --------
    save
    """
    return load_with_metadata(Path(path).read_bytes(), str(path))[0]


def load_with_metadata(data: bytes, name: str) -> tuple[Any, dict[str, Any]]:
    """Model and metadata from the content of a file; ``name`` is for messages."""
    import skops.io

    header = _header(data, name)
    if foreign := _foreign(data):
        raise ModelFileError(f"{name}: not loaded, it holds types that are not trusted: {listing(foreign)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, for each part of another version: said below, once
        try:
            content = skops.io.loads(data, trusted=sorted(TRUSTED))
            model, metadata = content["model"], {**content["metadata"]}
        except Exception as error:  # whatever a wrong content makes of itself
            raise ModelFileError(_damaged(name)) from error
    here = _versions()
    for library in LIBRARIES:
        if _minor(header["versions"].get(library, "")) != _minor(here[library]):
            warn(
                f"{name} was written with {library} {header['versions'].get(library)}, and this is "
                f"{here[library]}: fit the model again if predictions fail."
            )
    return model, {**metadata, "created": header["created"], "versions": header["versions"]}


def _chosen(model: Any) -> Any:
    """What a search has chosen, also as the last step of a pipeline: all that prediction needs."""
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        return Pipeline([*model.steps[:-1], (name, _chosen(last))])
    return getattr(model, "best_estimator_", model)


# -- the archive ------------------------------------------------------------------------------


def pack(content: Any) -> bytes:
    """The archive of some content, whatever its types."""
    import skops.io

    buffer = io.BytesIO(skops.io.dumps(content, compression=ZIP_DEFLATED))
    header = {
        "format": FORMAT,
        "versions": _versions(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "sha256": _digest(buffer),
    }
    with ZipFile(buffer, "a", compression=ZIP_DEFLATED) as archive:
        archive.writestr(HEADER, json.dumps(header))
    return buffer.getvalue()


def _header(data: bytes, name: str) -> dict[str, Any]:
    """The checked header of an archive."""
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            header = json.loads(archive.read(HEADER))
        found, versions = header["format"], dict(header["versions"])
    except Exception as error:
        raise ModelFileError(_damaged(name)) from error
    if found != FORMAT:
        raise ModelFileError(
            f"{name}: a model of format {found}, written by sparseklr {versions.get('sparseklr')}; sparseklr "
            f"{__version__} reads format {FORMAT}. Fit the model again."
        )
    try:
        intact = header["sha256"] == _digest(io.BytesIO(data)) and isinstance(header["created"], str)
    except Exception as error:
        raise ModelFileError(_damaged(name)) from error
    if not intact:
        raise ModelFileError(_damaged(name))
    return header


def _digest(file: io.BytesIO) -> str:
    digest = hashlib.sha256()
    with ZipFile(file) as archive:
        for name in sorted(set(archive.namelist()) - {HEADER}):
            content = archive.read(name)
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _foreign(data: bytes) -> list[str]:
    import skops.io

    return sorted(set(skops.io.get_untrusted_types(data=data)) - TRUSTED)


def _damaged(name: str) -> str:
    return f"{name}: not a model written by sparseklr, or damaged"


def _versions() -> dict[str, str]:
    return {"sparseklr": __version__, **{library: version(library) for library in LIBRARIES}}


def _minor(number: str) -> list[str]:
    return number.split(".")[:2]
