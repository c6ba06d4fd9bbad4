"""A compact model of given rows, from the choice of its size to the last digit of its coefficients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .objective import CompactModel, Objective
from .path import FIRST_C, SEGMENT, Path, PathSettings, Stage, choose, nothing_to_say
from .rows import LabelledRows
from .start import base_rate, started

# Segments of moves where nothing is held out that could end them earlier.
UNWATCHED = 4


@dataclass(frozen=True, eq=False)
class CompactFit:
    """A fitted model and how it came about.

    Attributes
    ----------
    model : CompactModel
        In the units of the rows, shrinkage included.
    C : float
    shrinkage : float
    stages : list of Stage
        Empty where nothing was held out: number of points and C were given, or a class has a single row.
    chosen : Stage or None
    gradient_norm : float
        Largest derivative of the objective in a point or log-width, per unit of weight.
    n_iter : int
        Iterations of L-BFGS on all rows.
    """

    model: CompactModel
    C: float
    shrinkage: float
    stages: list[Stage]
    chosen: Stage | None
    gradient_norm: float
    n_iter: int


def fit_compact(
    rows: LabelledRows, settings: PathSettings, report: Callable[[str, float], Any] = nothing_to_say
) -> CompactFit:
    """Choose what the settings leave open, then fit all rows."""
    chosen, stages, shrinkage = None, [], 1.0
    if rows.X.shape[1] == 0:  # no feature varies
        return CompactFit(base_rate(rows), settings.C or FIRST_C, 1.0, [], None, 0.0, 0)
    if settings.n_points is None or settings.C is None:
        path = Path(rows, settings, report)
        if path.folds:
            stages = path.run()
            chosen = stages[-1] if settings.n_points else choose(stages, path.weight)
            shrinkage = path.shrinkage(chosen) if chosen.n_points else 1.0
    report("all rows", 0.95)
    objective = Objective(rows.compiled(), shared=settings.shared, threads=settings.threads)
    n_iter = 0
    if chosen is not None:
        C, moved_at = chosen.C, chosen.moved_at
        n_points, log_gamma = chosen.n_points, np.mean(chosen.start_widths, axis=0)
    else:
        C, n_points = settings.C or FIRST_C, settings.n_points or rows.n_classes
        moved_at, log_gamma = (C,) * UNWATCHED, base_rate(rows).log_gamma
    if n_points == 0:
        return CompactFit(base_rate(rows), C, 1.0, stages, chosen, 0.0, 0)
    model = started(rows, n_points, log_gamma)
    for value in moved_at:
        moved = objective.move(model, value, max_iter=SEGMENT)
        model, n_iter = moved.model, n_iter + moved.n_iter
    # the coefficients once more, in double precision
    objective = Objective(rows.compiled(single=False), shared=settings.shared, threads=settings.threads)
    model, _ = objective.solve(model, C, 1e-12)
    norm = float(np.abs(objective.gradient(model.log_gamma, C)).max() / rows.weight.sum())
    model = replace(model, coef=shrinkage * model.coef)
    return CompactFit(model, C, shrinkage, stages, chosen, norm, n_iter)
