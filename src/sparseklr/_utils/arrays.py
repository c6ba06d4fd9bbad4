"""Validation of arrays whose indices compiled code does not check."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_floats(
    name: str, array: Any, shape: tuple[int | None, ...], dtypes: tuple[Any, ...] = (np.float64,)
) -> None:
    """Raise an error unless ``array`` is an array of finite numbers of the given shape.

    None in ``shape`` allows any length.

    >>> check_floats("coef", np.zeros((2, 3)), (None, 3))
    >>> check_floats("coef", np.zeros((2, 3)), (None, 4))
    Traceback (most recent call last):
    ValueError: coef must have the shape (any, 4); it has (2, 3)
    """
    _check_form(name, array, shape, dtypes)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must contain finite numbers")


def check_indices_below(name: str, array: Any, size: int) -> None:
    """Raise an error unless ``array`` is an array of integers from 0 to ``size - 1``.

    >>> check_indices_below("support", np.array([0, 7]), 5)
    Traceback (most recent call last):
    ValueError: support must contain integers from 0 to 4
    """
    _check_form(name, array, (None,), (np.int64, np.int32))
    if array.min(initial=0) < 0 or array.max(initial=-1) >= size:
        raise ValueError(f"{name} must contain integers from 0 to {size - 1}")


def _check_form(name: str, array: Any, shape: tuple[int | None, ...], dtypes: tuple[Any, ...]) -> None:
    if type(array) is not np.ndarray or array.dtype not in dtypes:
        kind = f"array of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"{name} must be an array of numbers; its type is {kind}")
    required = tuple(m if n is None else n for n, m in zip(shape, array.shape, strict=False))
    if len(shape) != array.ndim or required != array.shape:
        expected = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} must have the shape ({expected}); it has {array.shape}")


def check_indices(X: Any) -> None:
    """Raise an error if the indices of a sparse matrix are out of range.

    Compiled code does not check the indices.
    """
    if getattr(X, "format", None) == "coo" and X.ndim == 2:
        _check_range("row", X.row, X.shape[0])
        _check_range("column", X.col, X.shape[1])
    if getattr(X, "format", None) in ("csr", "csc", "bsr"):
        height, width = X.blocksize if X.format == "bsr" else (1, 1)
        sizes = [("row", X.shape[0] // height), ("column", X.shape[1] // width)]
        (_, n), (name, size) = reversed(sizes) if X.format == "csc" else sizes
        ends, entries = X.indptr, len(X.data)
        if X.indices.shape != (entries,):
            raise ValueError(
                f"X is not a valid sparse matrix: X.indices has shape {X.indices.shape} but there are "
                f"{entries} entries."
            )
        if len(ends) != n + 1 or ends[0] != 0 or ends[-1] > entries or (ends[1:] < ends[:-1]).any():
            raise ValueError(
                f"X is not a valid sparse matrix: X.indptr must be {n + 1} ascending numbers from 0 to at "
                f"most {entries}, the number of entries."
            )
        _check_range(name, X.indices, size)


def _check_range(name: str, indices: np.ndarray, size: int) -> None:
    """Raise an error unless all indices are non-negative and below ``size``."""
    for index in (indices.min(initial=0), indices.max(initial=0)):
        if not 0 <= index < max(size, 1):
            raise ValueError(
                f"X is not a valid sparse matrix: {name} index {index} is out of range for {size} {name}s."
            )
