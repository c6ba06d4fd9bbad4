"""Size, C and stopping of a compact model: models of more and more points, judged on rows that are held out.

Every fold has its own model, all in lockstep: the points of a size start at cluster centres, move, C is
chosen, they move on. Widths and C go on to the next size. What was decided is then done once more, on all
rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from scipy.optimize import minimize_scalar

from .objective import CompactModel, Objective
from .rows import LabelledRows, held_out_folds
from .start import base_rate, started

T = TypeVar("T")

# Iterations of L-BFGS between two looks at the held-out rows, and at most so many of these segments per size.
SEGMENT, SEGMENTS = 25, 2
# Beyond this many points one segment has to do.
LARGE = 128
# C is sought from here by factors of ten, between these bounds. The upper one keeps separable data finite.
FIRST_C, FACTOR, LEAST_C, MOST_C = 10.0, 10.0, 0.1, 1e5
# A size has to lower the held-out loss by this share and by this much; the path ends after so many that do
# not.
GAIN, LEAST_GAIN, PATIENCE = 1e-3, 3e-4, 4
# The smallest size within this share of the best loss, and within a standard error, is taken.
EXCESS = 0.02


@dataclass(frozen=True, eq=False)
class Stage:
    """A size, what was done for it, and what the held-out rows say."""

    n_points: int
    C: float
    moved_at: tuple[float, ...]  # C of each segment of moves
    start_widths: tuple[np.ndarray, ...] = field(
        repr=False
    )  # log gamma of each fold before the first of them
    models: tuple[CompactModel, ...] = field(repr=False)  # of the folds
    outputs: np.ndarray = field(repr=False)  # of the held-out rows
    losses: np.ndarray = field(repr=False)
    loss: float
    standard_error: float
    seconds: float  # since the path began


class Fold:
    """Rows to fit and rows to judge by."""

    def __init__(self, rows: LabelledRows, held_out: np.ndarray, *, shared: bool, threads: int) -> None:
        seen = np.ones(len(rows), dtype=bool)
        seen[held_out] = False
        self.rows, self.held_out, self.threads = rows.part(np.flatnonzero(seen)), rows.part(held_out), threads
        self.objective = Objective(self.rows.compiled(), shared=shared, threads=threads)
        self._compiled = self.held_out.compiled()

    def predict(self, model: CompactModel) -> np.ndarray:
        """Outputs of the held-out rows."""
        return model.outputs(self._compiled, self.threads)


class Team:
    """Runs a function on several items in threads; when one fails or the user interrupts, all stop."""

    def __init__(self, threads: int) -> None:
        self.stop = Event()
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def map(self, function: Callable[..., T], *items: Iterable[Any]) -> list[T]:
        if self._pool is None:
            return list(map(function, *items))
        try:
            return list(self._pool.map(function, *items))
        except BaseException:
            self.stop.set()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class PathSettings:
    """What a path is to look for; None where it is to choose."""

    n_points: int | None = None
    max_points: int = 512
    C: float | None = None
    shared: bool = False
    tol: float = 1e-4
    threads: int = 1


def nothing_to_say(name: str, share: float) -> None:
    """The report of a path nobody watches."""


class Path:
    """The stages of all folds in lockstep.

    Parameters
    ----------
    rows : LabelledRows
        In random order.
    settings : PathSettings
    report : callable
        Told the name of what is going on, and the share of the path that is done.
    """

    def __init__(
        self, rows: LabelledRows, settings: PathSettings, report: Callable[[str, float], Any] = nothing_to_say
    ) -> None:
        self.settings, self.report, self.n_classes = settings, report, rows.n_classes
        self._began = time.perf_counter()
        held_out = held_out_folds(rows)
        # threads work on folds, and what is left over on the rows of a fold
        self._threads = min(settings.threads, max(1, len(held_out)))
        inner = max(1, settings.threads // self._threads)
        self.folds = [Fold(rows, part, shared=settings.shared, threads=inner) for part in held_out]
        parts = [fold.held_out for fold in self.folds]
        self.weight = np.concatenate([np.empty(0), *(part.weight for part in parts)])
        self.labels = np.concatenate([np.empty(0, dtype=np.int32), *(part.label for part in parts)])
        self._most = min(settings.max_points, max(rows.n_classes, len(rows) // 3))

    def sizes(self) -> list[int]:
        """As many points as classes, and twice as many each time; one size if the number is given."""
        if self.settings.n_points is not None:
            return [self.settings.n_points]
        sizes = [min(self.n_classes, self._most)]
        while 2 * sizes[-1] <= self._most:
            sizes.append(2 * sizes[-1])
        return sizes

    def run(self) -> list[Stage]:
        """All stages until larger models stop paying."""
        with Team(self._threads) as team:
            for fold in self.folds:
                fold.objective.stop = team.stop
            models = tuple(base_rate(fold.rows) for fold in self.folds)
            widths = tuple(model.log_gamma for model in models)
            stages = [self._judged(0, self.settings.C or FIRST_C, (), widths, models)]
            best, without_gain, sizes = stages[0].loss, 0, self.sizes()
            for position, size in enumerate(sizes):
                self.report(f"{size} points", position / len(sizes))
                stages.append(self._fit_size(team, size, stages[-1]))
                loss = stages[-1].loss
                without_gain = 0 if loss < best - (GAIN * best + LEAST_GAIN) else without_gain + 1
                best = min(best, loss)
                if without_gain == PATIENCE:
                    break
        return stages

    def _fit_size(self, team: Team, size: int, last: Stage) -> Stage:
        """Start points and move them as long as the held-out loss falls."""
        widths = tuple(model.log_gamma for model in last.models)
        models = team.map(lambda fold, log_gamma: started(fold.rows, size, log_gamma), self.folds, widths)
        C, stage = last.C, None
        moved_at: tuple[float, ...] = ()
        for _ in range(SEGMENTS if size <= LARGE else 1):
            moved_at = (*moved_at, C)
            moved = team.map(partial(_move, C=C), self.folds, models)
            trial = self._best_C(team, C, moved_at, widths, moved)
            if stage is not None and trial.loss > stage.loss * (1 - self.settings.tol):
                break
            stage, models, C = trial, list(trial.models), trial.C
        assert stage is not None
        return stage

    def _best_C(
        self,
        team: Team,
        C: float,
        moved_at: tuple[float, ...],
        widths: tuple[np.ndarray, ...],
        models: list[CompactModel],
    ) -> Stage:
        """The stage with the best of the present C and its neighbours, points and widths as they are."""
        trials = [self._judged(models[0].n_points, C, moved_at, widths, tuple(models))]
        for value in () if self.settings.C else (C / FACTOR, C * FACTOR):
            if LEAST_C <= value <= MOST_C:
                solved = team.map(partial(_solve, C=value), self.folds, models)
                trials.append(self._judged(models[0].n_points, value, moved_at, widths, tuple(solved)))
        return min(trials, key=lambda stage: stage.loss)

    def _judged(
        self,
        n_points: int,
        C: float,
        moved_at: tuple[float, ...],
        widths: tuple[np.ndarray, ...],
        models: tuple[CompactModel, ...],
    ) -> Stage:
        outputs = np.vstack([fold.predict(model) for fold, model in zip(self.folds, models, strict=True)])
        losses = self.losses(outputs)
        return Stage(
            n_points,
            C,
            moved_at,
            widths,
            models,
            outputs,
            losses,
            float(np.average(losses, weights=self.weight)),
            standard_error(losses, self.weight),
            time.perf_counter() - self._began,
        )

    def losses(self, outputs: np.ndarray) -> np.ndarray:
        """Of the held-out rows of all folds."""
        empty = np.empty((len(self.labels), 0))
        return LabelledRows(empty, self.labels, self.weight, self.n_classes).losses(outputs)

    def shrinkage(self, stage: Stage) -> float:
        """The factor in [0.5, 1] by which outputs have the least held-out loss."""
        found = minimize_scalar(
            lambda s: float(np.average(self.losses(s * stage.outputs), weights=self.weight)),
            bounds=(0.5, 1.0),
            method="bounded",
            options={"xatol": 1e-3},
        )
        return 1.0 if found.x > 0.998 else float(found.x)


def _move(fold: Fold, model: CompactModel, C: float) -> CompactModel:
    return fold.objective.move(model, C, max_iter=SEGMENT).model


def _solve(fold: Fold, model: CompactModel, C: float) -> CompactModel:
    return fold.objective.solve(model, C, 1e-5)[0]


def standard_error(values: np.ndarray, weight: np.ndarray) -> float:
    """Of a weighted mean, where the rows are the independent units."""
    share = weight / weight.sum()
    return float(np.sqrt(share**2 @ (values - share @ values) ** 2))


def choose(stages: list[Stage], weight: np.ndarray) -> Stage:
    """The smallest model that is nearly as good as the best.

    Its loss exceeds the best by at most a standard error of the difference, and by at most 2%.
    """
    best = min(stages, key=lambda stage: stage.loss)
    for stage in stages:
        allowed = min(standard_error(stage.losses - best.losses, weight), EXCESS * best.loss)
        if stage.loss - best.loss <= allowed:
            return stage
    return best
