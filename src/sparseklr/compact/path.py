"""Size, C and stopping of a compact model: models of more and more points, judged on rows that are held out.

Every fold has its own model, all in lockstep: the points of a size start at cluster centres, move, C is
chosen, they move on. C, and widths unless equal ones have a lower objective, go on to the next size. What was
decided is then done once more, on all rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from ..threads import Map, ordered_threads
from .objective import CompactModel, Objective, width_penalty
from .rows import LabelledRows, Observations, held_out_folds
from .start import base_rate, started

# Iterations of L-BFGS between two looks at the held-out rows, and at most so many of these segments per size.
SEGMENT, SEGMENTS = 25, 2
# Beyond this many points a size costs more than all before it together: one segment has to do, and a size
# that does not lower the held-out loss by this share is not taken and is the last.
MANY_POINTS, MANY_POINTS_GAIN = 128, 0.01
# C is sought from here by factors of ten, between these bounds. The upper one keeps separable data finite.
FIRST_C, FACTOR, LEAST_C, MOST_C = 10.0, 10.0, 0.1, 1e5
# A size has to lower the held-out loss by this share and by this much. The path ends after so many sizes that
# do not, but not before this many points: small models cost next to nothing. A patience of four sizes took
# the same size in six folds of spambase and waveform, in twice the time.
GAIN, LEAST_GAIN, PATIENCE, TRIED = 1e-3, 3e-4, 2, 16
# The smallest size within this share of the best loss, and within a standard error, is taken.
EXCESS = 0.02


@dataclass(frozen=True)
class PathSettings:
    """What a path is to look for; None where it is to choose."""

    n_points: int | None = None
    max_points: int = 512
    C: float | None = None
    shared: bool = False  # one width for all features
    sparse: bool = False  # drop features
    tol: float = 1e-4
    threads: int = 1


@dataclass(frozen=True, eq=False)
class Stage:
    """What was done for a size, and what the held-out rows say of it."""

    n_points: int
    C: float
    moved_at: tuple[float, ...]  # C of each segment of moves
    start_widths: tuple[np.ndarray, ...] = field(repr=False)  # log gamma of the folds before that
    models: tuple[CompactModel, ...] = field(repr=False)  # of the folds
    outputs: np.ndarray = field(repr=False)  # of the held-out rows
    losses: np.ndarray = field(repr=False)
    loss: float
    standard_error: float
    seconds: float  # since the path began

    @property
    def n_features(self) -> int:
        return len(self.models[0].log_gamma)


@dataclass(frozen=True, eq=False)
class Validation:
    """Weights of the validation rows of all folds, and the number of observations behind each."""

    weight: np.ndarray
    count: np.ndarray | float = 1.0

    def mean(self, values: np.ndarray) -> float:
        return float(np.average(values, weights=self.weight))

    def standard_error(self, values: np.ndarray) -> float:
        """Standard error of the mean; observations are the independent units."""
        fraction = self.weight / self.weight.sum()
        return float(np.sqrt(fraction**2 / self.count @ (values - fraction @ values) ** 2))


class Fold:
    """Rows to fit and rows to judge by."""

    def __init__(
        self, rows: LabelledRows, held_out: LabelledRows, *, shared: bool, threads: int, stop: Event
    ) -> None:
        self.rows, self.held_out = rows, held_out
        self._compiled = held_out.compiled()
        self._options: dict[str, Any] = {"shared": shared, "threads": threads, "stop": stop}
        self.objective = Objective(rows.compiled(), **self._options)

    def columns(self, features: np.ndarray) -> Fold:
        """The same rows with some of the features."""
        return Fold(self.rows.columns(features), self.held_out.columns(features), **self._options)

    def predict(self, model: CompactModel) -> np.ndarray:
        """Outputs of the held-out rows."""
        return model.outputs(self._compiled, self.objective.threads)


def nothing_to_say(name: str, share: float) -> None:
    """The report of a path nobody watches."""


class Path:
    """The stages of all folds in lockstep.

    Parameters
    ----------
    rows : LabelledRows
        In random order.
    settings : PathSettings
    observations : Observations
        Behind the rows.
    report : callable
        Called with the name of the present step and the fraction of the path that is done.
    """

    def __init__(
        self,
        rows: LabelledRows,
        settings: PathSettings,
        observations: Observations,
        report: Callable[[str, float], Any] = nothing_to_say,
    ) -> None:
        self.settings, self.report, self.n_classes = settings, report, rows.n_classes
        self._began = time.perf_counter()
        held_out = held_out_folds(rows.label, rows.n_classes, observations)
        # threads work on folds, and what is left over on the rows of a fold
        self._threads = min(settings.threads, max(1, len(held_out)))
        inner = max(1, settings.threads // self._threads)
        self._stop = Event()
        self.folds = [
            Fold(
                rows.fraction((observations.count - part) / observations.count),
                rows.fraction(part / observations.count),
                shared=settings.shared,
                threads=inner,
                stop=self._stop,
            )
            for part in held_out
        ]
        parts = [fold.held_out for fold in self.folds]
        self.labels = np.concatenate([np.empty(0, dtype=np.int32), *(part.label for part in parts)])
        self.validation = Validation(
            np.concatenate([np.empty(0), *(part.weight for part in parts)]),
            np.concatenate([np.empty(0), *(observations.independent(part[part > 0]) for part in held_out)]),
        )
        # a third of the observations, but no more points than distinct rows
        most = min(len(observations) // 3, observations.n_points)
        self._most = min(settings.max_points, max(rows.n_classes, most))

    @contextmanager
    def in_threads(self) -> Iterator[Map]:
        """A map over folds; when one fails or the user interrupts, all stop."""
        with ordered_threads(self._threads) as each:
            try:
                yield each
            except BaseException:
                self._stop.set()
                raise

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
        with self.in_threads() as each:
            models = [base_rate(fold.rows) for fold in self.folds]
            stages = [self._judged(self.folds, models, self.settings.C or FIRST_C, (), ())]
            best, without_gain, sizes = stages[0].loss, 0, self.sizes()
            for position, size in enumerate(sizes):
                self.report(f"{size} points", position / len(sizes))
                widths = [model.log_gamma for model in stages[-1].models]
                stages.append(self.fit_size(each, self.folds, size, stages[-1].C, widths))
                loss = stages[-1].loss
                if size > MANY_POINTS and loss > (1 - MANY_POINTS_GAIN) * best:
                    break
                without_gain = 0 if loss < best - (GAIN * best + LEAST_GAIN) else without_gain + 1
                best = min(best, loss)
                if without_gain >= PATIENCE and size >= TRIED:
                    break
        return stages

    def fit_size(self, each: Map, folds: list[Fold], size: int, C: float, widths: list[np.ndarray]) -> Stage:
        """Points that start at cluster centres and move as long as the held-out loss falls."""
        models = list(each(partial(_start, size, C), folds, widths))
        widths = [model.log_gamma for model in models]
        stage = None
        moved_at: tuple[float, ...] = ()
        for _ in range(SEGMENTS if size <= MANY_POINTS else 1):
            moved_at = (*moved_at, C)
            moved = list(each(partial(_move, C), folds, models))
            trial = self._best_C(each, folds, moved, C, moved_at, tuple(widths))
            if stage is not None and trial.loss > stage.loss * (1 - self.settings.tol):
                break
            stage, models, C = trial, list(trial.models), trial.C
        assert stage is not None
        return stage

    def _best_C(
        self,
        each: Map,
        folds: list[Fold],
        models: list[CompactModel],
        C: float,
        moved_at: tuple[float, ...],
        widths: tuple[np.ndarray, ...],
    ) -> Stage:
        """The stage with the best of the present C and its neighbours, points and widths as they are."""
        trials = [self._judged(folds, models, C, moved_at, widths)]
        for value in () if self.settings.C else (C / FACTOR, C * FACTOR):
            if LEAST_C <= value <= MOST_C:
                solved = list(each(partial(_solve, value), folds, models))
                trials.append(self._judged(folds, solved, value, moved_at, widths))
        return min(trials, key=lambda stage: stage.loss)

    def _judged(
        self,
        folds: list[Fold],
        models: list[CompactModel],
        C: float,
        moved_at: tuple[float, ...],
        widths: tuple[np.ndarray, ...],
    ) -> Stage:
        """A stage of given models, with what the held-out rows say."""
        outputs = np.vstack([fold.predict(model) for fold, model in zip(folds, models, strict=True)])
        losses = self.losses(outputs)
        return Stage(
            n_points=max(model.n_points for model in models),
            C=C,
            moved_at=moved_at,
            start_widths=widths,
            models=tuple(models),
            outputs=outputs,
            losses=losses,
            loss=self.validation.mean(losses),
            standard_error=self.validation.standard_error(losses),
            seconds=time.perf_counter() - self._began,
        )

    def losses(self, outputs: np.ndarray) -> np.ndarray:
        """Of the held-out rows of all folds."""
        empty = np.empty((len(self.labels), 0))
        return LabelledRows(empty, self.labels, self.validation.weight, self.n_classes).losses(outputs)

    def shrinkage(self, stage: Stage) -> float:
        """The factor in [0.5, 1] by which outputs have the least held-out loss."""
        found = minimize_scalar(
            lambda s: self.validation.mean(self.losses(s * stage.outputs)),
            bounds=(0.5, 1.0),
            method="bounded",
            options={"xatol": 1e-3},
        )
        return 1.0 if found.x > 0.998 else float(found.x)


def _start(size: int, C: float, fold: Fold, log_gamma: np.ndarray) -> CompactModel:
    """Points at cluster centres, with the given widths or equal ones: those with the lower objective.

    The widths of a model that is too small may ignore a feature, or all, and no larger model left such
    widths again: on 1000 rows of two spirals, three of five folds had training losses of .13 to .27 at 16
    points, and the validation loss was 0.110 with 256 points where it is now 0.023 with 64.
    """

    def objective(model: CompactModel) -> float:
        return fold.objective.solve(model, C, 1e-4)[1] + width_penalty(model.log_gamma)[0]

    equal = base_rate(fold.rows).log_gamma
    starts = [started(fold.rows, size, log_gamma)]
    if not np.array_equal(log_gamma, equal):
        starts.append(started(fold.rows, size, equal))
    return min(starts, key=objective) if len(starts) > 1 else starts[0]


def _move(C: float, fold: Fold, model: CompactModel) -> CompactModel:
    return fold.objective.move(model, C, max_iter=SEGMENT).model


def _solve(C: float, fold: Fold, model: CompactModel) -> CompactModel:
    return fold.objective.solve(model, C, 1e-5)[0]


def choose(
    stages: list[Stage],
    validation: Validation,
    large_gain: float = MANY_POINTS_GAIN,
    doubling_gain: float = 0.0,
) -> Stage:
    """The smallest model that is nearly as good as the best.

    Its loss exceeds the best by at most a standard error of the difference, or by the share ``doubling_gain``
    for each time that the best has twice its points, and by at most 2%. A large model has to be better than
    all that are smaller by the share ``large_gain`` to count at all.
    """
    least = np.minimum.accumulate([np.inf, *(stage.loss for stage in stages[:-1])])
    stages = [
        stage
        for stage, smaller in zip(stages, least, strict=True)
        if stage.n_points <= MANY_POINTS or stage.loss <= (1 - large_gain) * smaller
    ]
    best = min(stages, key=lambda stage: stage.loss)
    for stage in stages:
        doublings = np.log2(best.n_points / stage.n_points) if stage.n_points else 0.0
        noise = validation.standard_error(stage.losses - best.losses)
        if stage.loss - best.loss <= min(
            max(noise, doubling_gain * doublings * best.loss), EXCESS * best.loss
        ):
            return stage
    return best
