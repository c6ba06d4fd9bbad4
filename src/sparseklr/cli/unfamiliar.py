"""Rows that a model should not be trusted on, because it has seen nothing like them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .data import Rows
from .errors import CliError

# Farther out than 99% of the training rows: of rows like these, one in a hundred is.
LEAST = 0.01
# Beyond this share of unfamiliar rows there is a word about them.
FEW = 0.05
FAR = "unlike the training rows"
# A scaled feature beyond this makes kernels overflow; dates stay below.
TOO_LARGE = 1e20


def unfamiliar(pipeline: Any, rows: Rows) -> list[str]:
    """Why each row is unfamiliar to a model; "" where it is not."""
    n = rows.X.shape[0]
    reasons: list[list[str]] = [[f"{name} is missing" for name in rows.missing] for _ in range(n)]
    reader = getattr(pipeline, "named_steps", {}).get("read")
    if reader is not None:
        for words, strange in zip(reasons, reader.strange(rows.X), strict=True):
            words += [word for word in strange.split("; ") if word and word not in words]
    for row in np.flatnonzero(familiarity(pipeline, rows.X) < LEAST):
        reasons[row].append(FAR)
    return ["; ".join(words) for words in reasons]


def familiarity(pipeline: Any, X: Any) -> np.ndarray:
    """The familiarity of rows; NaN for a model that does not tell it."""
    model, features = pipeline, X
    if hasattr(pipeline, "steps"):
        model, features = pipeline[-1], pipeline[:-1].transform(X)
    try:
        return model.familiarity(features)
    except (AttributeError, ValueError):
        return np.full(X.shape[0], np.nan)


def summary(reasons: list[str], flagged: bool) -> list[str]:
    """A sentence where more than a few rows are unfamiliar."""
    n = sum(map(bool, reasons))
    if n <= FEW * len(reasons):
        return []
    counts = Counter(word for words in reasons for word in words.split("; ") if word)
    shown = ", ".join(f"{word} ({count})" for word, count in counts.most_common(3))
    more = ", ..." if len(counts) > 3 else ""
    hint = "" if flagged else "; --flag marks them"
    return [f"{n} of {len(reasons)} rows ({n / len(reasons):.0%}) are unfamiliar: {shown}{more}{hint}"]


@contextmanager
def naming_large_cells(pipeline: Any, rows: Rows) -> Iterator[None]:
    """Let an error of a prediction name the cell of the file that is too large to compute with, if one is."""
    try:
        yield
    except ValueError as error:
        made = pipeline[:-1] if hasattr(pipeline, "steps") else None
        features = np.asarray(rows.X) if made is None else made.transform(rows.X)
        row, j = divmod(int(abs(features).argmax()), features.shape[1])
        if not abs(features[row, j]) > TOO_LARGE:
            raise
        if rows.svmlight is not None:
            cell = f"feature {j + rows.svmlight['one_based']} is {rows.X[row, j]:g}"
        else:
            name = rows.X.columns[j] if made is None else made.get_feature_names_out()[j]
            cell = f"column {name!r} holds {rows.X[name].iloc[row]}"
        raise CliError(
            f"{rows.name}: row {rows.number(row)}: {cell}, which is too far from the training rows to "
            "compute with; correct it, or remove the row"
        ) from error
