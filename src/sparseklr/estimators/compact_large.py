"""What CompactKLR does with rows that come as a stream, or by the hundred thousand."""

from __future__ import annotations

from dataclasses import asdict, replace
from os import PathLike
from typing import Any

import numpy as np

from ..compact.checkpoint import Checkpoint
from ..compact.fit import CompactFit, fit_compact
from ..compact.large import LargeFit, Report
from ..compact.large_rows import LargeRows
from ..compact.objective import CompactModel
from ..compact.path import PathSettings
from ..compact.rows import LabelledRows, Observations
from ..sources import Source, is_dask
from ..sources.base import Block, joined
from ..sources.sample import check_block, naming_place

# More rows than these are fitted as a stream: sizes on samples, and passes over all rows. In CPU seconds and
# log-loss over the best possible, against the fit of fewer rows: 40 000 rows of waveform 2.7 s and 1.026,
# against 11 s and 1.026; 25 000 of 24 clusters 5.7 s and 1.151, against 51 s and 1.147; 15 000 of magic (in
# three splits) 6 to 16 s and a log-loss of 0.293, against 25 to 34 s and 0.296. With 12 000 to 16 000 rows of
# ring, waveform and the clusters it lost up to 1%.
MANY_ROWS = 20_000
# Of the memory that a fit may take: prepared blocks that stay for the next pass, and samples.
_KEPT, _SAMPLE = 0.4, 0.2
# Rows on which features are chosen.
_FEATURE_ROWS = 20_000


def is_stream(*given: Any) -> bool:
    """Whether rows, labels or weights come as a source, as a Dask collection or in files."""
    return any(isinstance(part, (Source, str, PathLike)) or is_dask(part) for part in given)


def whole(source: Source) -> Block:
    """All rows of a small source."""
    _check_labels(source)
    block = joined(list(source.blocks()))
    with naming_place(source):
        check_block(block)
    return block


def _check_labels(source: Source) -> None:
    if not source.has_labels:
        raise ValueError(f"{source}: there are no labels to fit to; a source names them itself (target=).")


def first_look(
    source: Source, *, class_weight: Any, scale: bool, seed: int, memory: float, n_jobs: int | None
) -> LargeRows:
    """The rows with their classes and their scaling."""
    _check_labels(source)
    return LargeRows.of(
        source, class_weight=class_weight, scale=scale, seed=seed, memory=_KEPT * memory, n_jobs=n_jobs
    )


def fit_large(
    rows: LargeRows,
    settings: PathSettings,
    memory: float,
    checkpoint: str | PathLike | None,
    start: tuple[CompactModel, float] | None,
    report: Report,
) -> tuple[LabelledRows, CompactFit]:
    """A sample of the rows, and the fit to all of them.

    ``start`` is a model with its C to go on from, instead of a choice of sizes.
    """
    summary, encode = rows.summary, rows.encode
    identity = {
        "the rows": np.concatenate([[summary.n_rows], summary.mean, summary.second, summary.third]),
        "the labels": summary.labels,
        "class_weight": encode.factors,
        "scale": rows.scaling.spread,
        "random_state": rows.seed,
        "memory": memory,
        **{name: value for name, value in asdict(settings).items() if name != "threads"},
    }
    if start is not None:
        identity["the model to start from"] = np.concatenate([part.ravel() for part in start[0].parts()])
    place = Checkpoint(checkpoint, **identity)
    place.load()  # whatever is wrong with it is said now
    if not settings.sparse or start is not None:
        fit = LargeFit(rows, settings, place, _SAMPLE * memory, report)
        found = fit.run(start)
        return fit.sample, found
    report("features", 0.0)
    sample = rows.sample(_FEATURE_ROWS)
    features = fit_compact(sample, settings, Observations.single(len(sample))).features
    fewer = rows.rescaled(rows.scaling.restricted(features))
    found = LargeFit(fewer, settings, place, _SAMPLE * memory, report).run()
    return sample, replace(found, features=features)
