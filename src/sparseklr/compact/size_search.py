"""Search for the number of points and C: models of growing size, evaluated on validation rows.

The *size* of a model is its number of points. :func:`search_sizes` and :func:`choose` determine which sizes
are tried and which size is chosen, both for rows in memory and for out-of-core fits. :class:`SizeSearch` fits
models to rows in memory. The models of one size, one for each fold, form a *stage* of the search. The models
of a stage use the same C.

For each size, the points start at cluster centres, and L-BFGS optimises points and widths. C is then chosen,
and L-BFGS continues with this C. If the validation loss was lowest at the start, the points stay there. The
next size starts with the chosen C, and with the widths found so far unless equal widths have a lower
objective.

With few rows, the choice depends on the division into folds. The rows are therefore divided into folds up to
three times. The runs of L-BFGS that led to the chosen models are finally repeated on all rows (:mod:`.fit`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from .._utils.threads import Map, ordered_threads
from ..samples import weighted_mean
from .model import CompactModel, Objective, base_rate, started, width_penalty
from .rows import LabelledRows, Observations, repeated_folds

Report = Callable[[str, float], Any]  # name of the current step, completed fraction of the fit


@dataclass(frozen=True)
class CompactSettings:
    """Settings of a fit. Settings that are None are chosen on validation rows."""

    n_points: int | None = None
    max_points: int = 512
    C: float | None = None
    shared: bool = False  # whether all features share one width
    sparse: bool = False  # whether features are eliminated
    tol: float = 1e-4  # a second run of L-BFGS must lower the loss by this fraction
    threads: int = 1
    seed: int = 0  # seed of the samples that are drawn from more than 20,000 rows


@dataclass(frozen=True)
class SizeSearchSettings:
    """Settings of the search. A loss is the mean log-loss of the validation rows."""

    gain: float = 2e-3  # doubling the number of points must lower the loss by this fraction ...
    least_gain: float = 3e-4  # ... and by this amount, so that models stop growing at a loss near zero
    patience: int = 2  # the search ends after this number of sizes without a sufficient gain
    least_tried: int = 16  # sizes up to this number of points are always tried, because they are cheap
    # A model with more than ``many_points`` points takes longer to fit than all smaller models together. It
    # must lower the loss by the fraction ``many_points_gain``. Otherwise it is rejected and the search ends.
    many_points: int = 128
    many_points_gain: float = 0.02
    # A model with more points than ``many_points``, or with more coefficients (points times outputs) than
    # this, is first fitted in one fold, and in the other folds only if its loss there is low enough.
    many_coefficients: int = 512
    # The rows are divided into folds again until the validation rows have at least this number of decision
    # values, ...
    validation_values: int = 3000
    validation_rows: int = 600  # ... and at least this number of validation rows
    most_repeats: int = 3  # maximum number of divisions into folds
    first_C: float = 10.0  # the search for C starts at this value
    C_factor: float = 10.0  # ratio of consecutive values of C
    least_C: float = 0.1  # smallest C
    most_C: float = 1e5  # largest C, which keeps coefficients finite on separable data
    segment: int = 25  # maximum number of iterations in a run of L-BFGS
    n_segments: int = 2  # maximum number of runs of L-BFGS for a size; one run above ``many_points``
    least_shrinkage: float = 0.5  # smallest factor by which decision values are multiplied
    features_per_row: int = 10  # above this ratio of features to rows, all features share one width
    rows_per_point: int = 3  # the largest size has at least this number of rows per point


SEARCH = SizeSearchSettings()


# -- which sizes are tried and chosen --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stage:
    """Models of one size, one for each fold, and their loss on the validation rows."""

    n_points: int
    C: float
    moved_at: tuple[float, ...]  # value of C in each run of L-BFGS; empty for points at cluster centres
    models: tuple[CompactModel, ...] = field(repr=False)
    outputs: np.ndarray = field(repr=False)  # decision values of the validation rows
    losses: np.ndarray = field(repr=False)  # log-losses of the validation rows
    loss: float  # weighted mean of ``losses``
    standard_error: float  # standard error of ``loss``
    fold_error: float  # standard error due to the division into folds; NaN if the folds were not repeated
    seconds: float  # time since the search began

    @property
    def start_C(self) -> float:
        """Value of C with which the fit of this size started."""
        return (*self.moved_at, self.C)[0]

    @property
    def n_features(self) -> int:
        """Number of scaled columns that the models use."""
        return len(self.models[0].log_gamma)


@dataclass(frozen=True, eq=False)
class Validation:
    """The validation rows of all folds and repetitions.

    The same (row, class) pair may occur several times, in different folds or repetitions.
    """

    rows: LabelledRows
    pair: np.ndarray  # index of the (row, class) pair of each validation row
    count: np.ndarray  # number of independent observations of each validation row
    repeat: np.ndarray  # index of the repetition to which each validation row belongs

    @classmethod
    def of(cls, rows: LabelledRows) -> Validation:
        """Return ``rows`` as validation rows, each of which is one observation."""
        return cls(rows, np.arange(len(rows)), np.ones(len(rows)), np.zeros(len(rows), dtype=np.intp))

    def mean(self, values: np.ndarray) -> tuple[float, float]:
        """Return the weighted mean and its standard error.

        Repeated values of a (row, class) pair are averaged first.
        """
        if not self.repeat.any():
            return weighted_mean(values, self.rows.weight, self.count)
        n_pairs = self.pair.max() + 1
        weight = np.bincount(self.pair, self.rows.weight)
        total = np.bincount(self.pair, self.rows.weight * values)
        # Count each (pair, repetition) once, even if a repetition has a pair in several folds.
        n_repeats = np.bincount(np.unique(self.pair + n_pairs * self.repeat) % n_pairs)
        count = np.bincount(self.pair, self.count)
        used = weight > 0
        return weighted_mean(total[used] / weight[used], weight[used], count[used] / n_repeats[used])

    def standard_error(self, values: np.ndarray) -> float:
        """Return the standard error of the weighted mean."""
        return self.mean(values)[1]

    def fold_error(self, values: np.ndarray) -> float:
        """Return the standard error of the mean over repetitions of the folds; NaN without repetitions."""
        weight = np.bincount(self.repeat, self.rows.weight)
        means = np.bincount(self.repeat, self.rows.weight * values) / weight
        return float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else np.nan

    def stage(
        self,
        models: Sequence[CompactModel],
        outputs: np.ndarray,
        C: float,
        seconds: float,
        moved_at: tuple[float, ...] = (),
    ) -> Stage:
        """Return the stage of models with the given decision values ``outputs`` on the validation rows."""
        losses = self.rows.losses(outputs)
        loss, error = self.mean(losses)
        n_points = max(model.n_points for model in models)
        fold_error = self.fold_error(losses)
        return Stage(n_points, C, moved_at, tuple(models), outputs, losses, loss, error, fold_error, seconds)

    def shrinkage(self, stage: Stage) -> float:
        """Return the factor from 0.5 to 1 on the decision values that minimises the validation loss."""
        end = minimize_scalar(
            lambda s: float(np.average(self.rows.losses(s * stage.outputs), weights=self.rows.weight)),
            bounds=(SEARCH.least_shrinkage, 1.0),
            method="bounded",
            options={"xatol": 1e-3},
        )
        return 1.0 if end.x > 0.998 else float(end.x)


def sizes(settings: CompactSettings, n_classes: int, most: int) -> list[int]:
    """Return the numbers of points to try.

    These are the number of classes, doubled repeatedly up to ``most``, or only ``n_points`` if it is given.
    """
    if settings.n_points is not None:
        return [settings.n_points]
    most = min(settings.max_points, max(1, most))
    tried = [min(n_classes, most)]
    while 2 * tried[-1] <= most:
        tried.append(2 * tried[-1])
    return tried


def search_sizes(
    without_points: Stage, sizes: list[int], fit_size: Callable[[int, list[Stage]], Stage | None]
) -> list[Stage]:
    """Return the stages of increasing size, starting with ``without_points``.

    ``fit_size`` is called with the next size and the previous stages, and returns the stage of this size. The
    search ends when the gain is too small, or when ``fit_size`` returns None.
    """
    stages = [without_points]
    best, without_gain = without_points.loss, 0
    for size in sizes:
        if (stage := fit_size(size, stages)) is None:
            break
        stages.append(stage)
        loss = stage.loss
        if size > SEARCH.many_points and loss > (1 - SEARCH.many_points_gain) * best:
            break
        without_gain = 0 if gained(loss, best) else without_gain + 1
        best = min(best, loss)
        if without_gain >= SEARCH.patience and size >= SEARCH.least_tried:
            break
    return stages


def gained(loss: float, best: float) -> bool:
    """Return whether a loss is sufficiently below the best loss of smaller models."""
    return loss < (1 - SEARCH.gain) * best - SEARCH.least_gain


def choose(stages: list[Stage], validation: Validation) -> Stage:
    """Return the stage with the fewest points whose loss is close enough to the smallest loss.

    The loss of this stage exceeds the smallest loss by at most one standard error of the difference, or by
    the fraction ``gain`` for each doubling between the two sizes. It must also be smaller than the loss of
    all smaller models. Above ``many_points``, it must be smaller by the fraction ``many_points_gain``.
    """
    smaller = np.minimum.accumulate([np.inf, *(stage.loss for stage in stages[:-1])])
    better = [
        stage
        for stage, least in zip(stages, smaller, strict=True)
        if stage.loss < least * (1 - SEARCH.many_points_gain * (stage.n_points > SEARCH.many_points))
    ]
    best = better[-1]
    for stage in better:
        doublings = np.log2(best.n_points / stage.n_points) if stage.n_points else 0.0
        noise = validation.standard_error(stage.losses - best.losses)
        if stage.loss - best.loss <= max(noise, SEARCH.gain * doublings * best.loss):
            return stage
    return best


# -- rows in memory --------------------------------------------------------------------------------


class Fold:
    """Training rows and validation rows of one fold."""

    def __init__(
        self, rows: LabelledRows, validation: LabelledRows, *, shared: bool, threads: int, stop: Event
    ) -> None:
        self.rows, self.validation = rows, validation
        self._compiled = validation.compiled()
        self._options: dict[str, Any] = {"shared": shared, "threads": threads, "stop": stop}
        self.objective = Objective(rows.compiled(), **self._options)

    def columns(self, features: np.ndarray) -> Fold:
        """Return the fold with the given features only."""
        return Fold(self.rows.columns(features), self.validation.columns(features), **self._options)

    def start(self, log_gamma: np.ndarray, size: int, C: float) -> CompactModel:
        """Return a starting model with points at cluster centres."""
        return at_centres(self.rows, self.objective, size, C, log_gamma)

    def move(self, model: CompactModel, C: float) -> CompactModel:
        """Return the model after one run of L-BFGS on the training rows."""
        return self.objective.move(model, C, max_iter=SEARCH.segment).model

    def solve(self, model: CompactModel, C: float) -> CompactModel:
        """Return the model with optimal coefficients for C; points and widths are kept."""
        return self.objective.solve(model, C, 1e-5)[0]

    def predict(self, model: CompactModel) -> np.ndarray:
        """Return the decision values of the validation rows."""
        return model.outputs(self._compiled, self.objective.threads)


def no_report(name: str, fraction: float) -> None:
    """Ignore the progress of a fit; used if there is no progress bar."""


class SizeSearch:
    """Search for the number of points and C, with one model for each fold.

    The rows must be in random order.
    """

    def __init__(
        self,
        rows: LabelledRows,
        settings: CompactSettings,
        observations: Observations,
        report: Report = no_report,
    ) -> None:
        self.settings, self.report = settings, report
        self._began = time.perf_counter()
        repeats = repeated_folds(
            rows.label,
            rows.n_classes,
            observations,
            n_rows=max(SEARCH.validation_values // rows.n_outputs, SEARCH.validation_rows),
            most=SEARCH.most_repeats,
        )
        counts = [part for folds in repeats for part in folds]
        # Threads work on different folds. If there are more threads than folds, they also divide the rows.
        self._threads = min(settings.threads, max(1, len(counts)))
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
            for part in counts
        ]
        if not self.folds:
            return
        label = np.concatenate([fold.validation.label for fold in self.folds])
        weight = np.concatenate([fold.validation.weight for fold in self.folds])
        self.validation = Validation(
            LabelledRows(np.empty((len(label), 0)), label, weight, rows.n_classes),
            pair=np.concatenate([np.flatnonzero(part) for part in counts]),
            count=np.concatenate([observations.independent(part[part > 0]) for part in counts]),
            repeat=np.repeat(np.arange(len(repeats)), [np.count_nonzero(folds) for folds in repeats]),
        )
        # A model has at most as many points as there are distinct rows.
        most = min(len(observations) // SEARCH.rows_per_point, observations.n_points)
        self.sizes = sizes(settings, rows.n_classes, max(rows.n_classes, most))

    @contextmanager
    def in_threads(self) -> Iterator[Map]:
        """Provide a threaded map over the folds; if a fold fails or the user interrupts, all folds stop."""
        with ordered_threads(self._threads) as each:
            try:
                yield each
            except BaseException:
                self._stop.set()
                raise

    def run(self) -> list[Stage]:
        """Fit models of increasing size and return one stage for each size."""
        with self.in_threads() as each:

            def fit_size(size: int, stages: list[Stage]) -> Stage | None:
                self.report(f"{size} points", self.sizes.index(size) / len(self.sizes))
                last = stages[-1]
                widths = [model.log_gamma for model in last.models]
                if self._is_expensive(size) and last.n_points:
                    best = min(stages, key=lambda stage: stage.loss)
                    return self._fit_expensive(each, size, last, widths) if last is best else None
                return self.fit_size(each, self.folds, size, last.C, widths)

            models = [base_rate(fold.rows) for fold in self.folds]
            first = self._evaluate(self.folds, models, self.settings.C or SEARCH.first_C, ())
            return search_sizes(first, self.sizes, fit_size)

    def fit_size(self, each: Map, folds: list[Fold], size: int, C: float, widths: list[np.ndarray]) -> Stage:
        """Return the stage of one size: start at cluster centres, and run L-BFGS while the loss falls.

        With few rows, the loss may be lowest at the start.
        """
        starts = list(each(partial(Fold.start, size=size, C=C), folds, widths))
        first = self._best_C(each, folds, starts, C, ())
        moved = list(each(partial(Fold.move, C=C), folds, starts))
        return min(first, self._moved_further(each, folds, moved, C), key=lambda stage: stage.loss)

    def _fit_expensive(self, each: Map, size: int, last: Stage, widths: list[np.ndarray]) -> Stage | None:
        """Return the stage of one size, as :meth:`fit_size` does; None if its loss in fold 1 is too high.

        The validation loss of fold 1 is compared with that of the previous size. Up to ``many_points``
        points, it may exceed the previous loss by one standard error of the difference. With more points, it
        must be below the previous loss by the fraction ``many_points_gain``.
        """
        C, (first, *others) = last.C, self.folds
        starts = [first.start(widths[0], size, C)]
        moved = [first.move(starts[0], C)]
        solved = [first.solve(moved[0], value) for value in self._neighbours(C)]
        weight, count = first.validation.weight, self.validation.count[: len(first.validation)]
        before = last.losses[: len(weight)]
        changes = [
            weighted_mean(first.validation.losses(first.predict(model)) - before, weight, count)
            for model in (*moved, *solved)
        ]
        change, error = min(changes)
        required = -SEARCH.many_points_gain * np.average(before, weights=weight)
        if change >= (required if size > SEARCH.many_points else error):
            return None
        starts += each(partial(Fold.start, size=size, C=C), others, widths[1:])
        moved += each(partial(Fold.move, C=C), others, starts[1:])
        return self._moved_further(each, self.folds, moved, C)

    def _is_expensive(self, size: int) -> bool:
        """Return whether models of this size are first fitted in a single fold."""
        coefficients = size * self.validation.rows.n_outputs
        return size > SEARCH.many_points or coefficients > SEARCH.many_coefficients

    def _moved_further(self, each: Map, folds: list[Fold], moved: list[CompactModel], C: float) -> Stage:
        """Choose C, run L-BFGS again as long as the validation loss falls, and return the stage."""
        stage = self._best_C(each, folds, moved, C, (C,))
        for _ in range(SEARCH.n_segments - 1 if moved[0].n_points <= SEARCH.many_points else 0):
            moved = list(each(partial(Fold.move, C=stage.C), folds, stage.models))
            trial = self._best_C(each, folds, moved, stage.C, (*stage.moved_at, stage.C))
            if trial.loss > stage.loss * (1 - self.settings.tol):
                break
            stage = trial
        return stage

    def _best_C(
        self, each: Map, folds: list[Fold], models: list[CompactModel], C: float, moved_at: tuple[float, ...]
    ) -> Stage:
        """Return the stage with the lowest loss among C and its neighbours, for fixed points and widths."""
        trials = [self._evaluate(folds, models, C, moved_at)]
        for value in self._neighbours(C):
            solved = list(each(partial(Fold.solve, C=value), folds, models))
            trials.append(self._evaluate(folds, solved, value, moved_at))
        return min(trials, key=lambda stage: stage.loss)

    def _neighbours(self, C: float) -> list[float]:
        """Return a smaller and a larger value of C to try; the list is empty if the user has set C."""
        if self.settings.C:
            return []
        values = (C / SEARCH.C_factor, C * SEARCH.C_factor)
        return [value for value in values if SEARCH.least_C <= value <= SEARCH.most_C]

    def _evaluate(
        self, folds: list[Fold], models: list[CompactModel], C: float, moved_at: tuple[float, ...]
    ) -> Stage:
        """Return the stage of the given models."""
        outputs = np.vstack([fold.predict(model) for fold, model in zip(folds, models, strict=True)])
        return self.validation.stage(models, outputs, C, time.perf_counter() - self._began, moved_at)


def at_centres(
    rows: LabelledRows, objective: Objective, n_points: int, C: float, log_gamma: np.ndarray
) -> CompactModel:
    """Return a model with points at cluster centres, and with given or equal widths.

    The function returns the model with the lower objective. A smaller model may have widths that suppress a
    feature; equal widths allow the new model to use this feature again.
    """
    equal = base_rate(rows).log_gamma
    widths = [log_gamma] if np.array_equal(log_gamma, equal) else [log_gamma, equal]
    solved = [objective.solve(started(rows, n_points, each), C, 1e-4) for each in widths]
    return min(solved, key=lambda pair: pair[1] + width_penalty(pair[0].log_gamma)[0])[0]
