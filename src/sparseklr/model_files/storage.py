"""Writing and reading fitted models, stored by skops. Loading one runs no code of the file.

Whoever wrote a file, only the types named below are made, and the arrays of a model are checked before it is
returned.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import skops.io
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._files import replacing
from .._warn import warn
from .._words import listing
from .archive import LIBRARIES, ModelFileError, damaged, pack, unpack, versions
from .invariants import OWN, check_fitted_arrays

_SKRUB = """
    _apply_to_cols.ApplyToCols _apply_to_each_col.ApplyToEachCol _datetime_encoder.DatetimeEncoder
    _squashing_scaler.SquashingScaler _squashing_scaler._MinMaxScaler _string_encoder.StringEncoder
    _to_str.ToStr selectors._base.All
"""
# What a model file may hold beyond the types that skops trusts: classes whose objects are filled with data.
TRUSTED = OWN | {
    "numpy.dtype",
    "scipy.sparse._csr.csr_matrix",
    *(f"skrub.{name}" for name in _SKRUB.split()),
}


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
        Where the model is not fitted, or holds something that :func:`load` would refuse. No file is written.

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
    model = _chosen(model)
    check_fitted_arrays(model, from_file=False)
    data = pack({"model": model, "metadata": {**(metadata or {})}})
    if foreign := _foreign(data):
        raise ValueError(f"the model holds types that a model file may not hold: {listing(foreign)}")
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(data)


def load(path: str | Path, *, max_bytes: int | None = None) -> Any:
    """Read a model that :func:`save` or the command line wrote. No code of the file is run.

    Parameters
    ----------
    path : str or Path
    max_bytes : int or None, default=None
        Bytes that the file may unpack to. None is 100 times its size, and at least 256 MB.

    Returns
    -------
    estimator
        The fitted model.

    Raises
    ------
    ValueError
        Where the file is not a model, is damaged, unpacks to more than ``max_bytes`` or than fits in memory,
        is of another format, holds a type that is not trusted, or holds arrays that do not fit together.

    See Also
    --------
    save
    """
    return load_with_metadata(Path(path).read_bytes(), str(path), max_bytes)[0]


def load_with_metadata(
    data: bytes, name: str, max_bytes: int | None = None
) -> tuple[BaseEstimator, dict[str, Any]]:
    """Model and metadata from the content of a file; ``name`` is for messages."""
    data, header = unpack(data, name, max_bytes)
    try:
        foreign = _foreign(data)
    except Exception as error:
        raise ModelFileError(damaged(name)) from error
    if foreign:
        raise ModelFileError(f"{name}: not loaded, it holds types that are not trusted: {listing(foreign)}")
    with warnings.catch_warnings():
        # scikit-learn's, for each part of another version: reported below, once
        warnings.simplefilter("ignore")
        try:
            content = skops.io.loads(data, trusted=sorted(TRUSTED))
            model, metadata = content["model"], {**content["metadata"]}
        except Exception as error:  # whatever a wrong content makes of itself
            raise ModelFileError(damaged(name)) from error
    if not isinstance(model, BaseEstimator):
        raise ModelFileError(f"{name}: not loaded, it holds a {type(model).__name__} instead of a model")
    try:
        check_fitted_arrays(model)
    except Exception as error:
        raise ModelFileError(f"{name}: not loaded, the model is damaged or was altered: {error}") from error
    here, there = versions(), header["versions"]
    for library in LIBRARIES:
        if library in here and library in there and _minor(there[library]) != _minor(here[library]):
            warn(
                f"{name} was written with {library} {there[library]}, and this is {here[library]}: fit the "
                "model again if predictions fail."
            )
    return model, {**metadata, "created": header["created"], "versions": there}


def _chosen(model: Any) -> Any:
    """What a search has chosen, also as the last step of a pipeline: all that prediction needs."""
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        return Pipeline([*model.steps[:-1], (name, _chosen(last))])
    return getattr(model, "best_estimator_", model)


def _foreign(data: bytes) -> list[str]:
    return sorted(set(skops.io.get_untrusted_types(data=data)) - TRUSTED)


def _minor(number: str) -> list[str]:
    return number.split(".")[:2]
