"""Out-of-core fit of a compact model: samples determine its size, and the final fit uses all rows.

The validation rows and the samples are drawn by a hash of the row numbers. The expected loss of a model with
d parameters fitted to m rows is about d / (2 m) above the loss of the best model of its size. A sample with a
fixed number of rows per parameter therefore adds the same loss for all sizes. The final fit to all rows
removes this excess.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from .._utils.threads import ordered_threads
from ..compact.fit import CompactFit, Plan, fit_compact
from ..compact.model import CompactModel, Objective, base_rate, started
from ..compact.rows import LabelledRows, Observations
from ..compact.size_search import (
    SEARCH,
    CompactSettings,
    Report,
    Stage,
    Validation,
    choose,
    no_report,
    search_sizes,
    sizes,
)
from ..scaling import SCALING, Scaling, rank_knots
from ..weights import class_factors
from .checkpoint import Checkpoint
from .dask import ClusterBlocks, DaskSource, is_dask, running_client
from .gauss_newton import STEPS, Descent, MovingPoints, RowsObjective, descend, moving_features
from .passes import (
    Blocks,
    Draw,
    LocalBlocks,
    Summary,
    check_block,
    class_fractions,
    draw,
    in_turn,
    naming_place,
    summarise,
    uniform,
)
from .sources import ArraySource, Block, GeneratorSource, NpySource, Source, joined
from .tables import TableSource


@dataclass(frozen=True)
class StreamSettings:
    """Settings of out-of-core fits."""

    in_memory_rows: int = 20_000  # more rows than this are read block by block; also the first sample size
    least_sample: int = 262_144  # number of rows in the sample for small sizes
    rows_per_parameter: int = 450  # rows per parameter for larger sizes, which adds 0.001 to the log-loss
    C_rows: int = 32_768  # C refers to this number of rows, and is scaled in proportion to the actual number
    validation_rows: int = 65_536  # maximum number of validation rows
    validation_fraction: float = 0.2  # maximum fraction of validation rows
    fisher_rows_per_parameter: int = 4  # rows per parameter from which the Fisher information is computed
    least_fisher_rows: int = 4096  # minimum number of these rows
    size_tol: float = 3e-4  # the fit of a size ends when two steps gain less than this fraction ...
    size_steps: int = 40  # ... or after this number of steps
    all_tol: float = 0.1  # tolerance of the final fit to all rows, as a fraction of the parameter tol
    all_steps: int = 20  # maximum number of steps of the final fit, for each group of points
    rows_per_number: int = 5  # minimum number of rows per parameter of a point (position and coefficients)
    quantile_rows: int = 131_072  # size of the sample from which skewed features are mapped by rank
    least_class_rows: int = 2000  # minimum number of rows of each class in a sample
    kept_memory: float = 0.4  # fraction of the memory in which prepared blocks are kept for the next pass
    sample_memory: float = 0.2  # fraction of the memory for samples


STREAM = StreamSettings()


class Salt(IntEnum):
    """Numbers added to the seed of the hash, so that different samples are independent."""

    VALIDATION = 1
    SAMPLE = 2
    QUANTILES = 3


# -- from user input to blocks ---------------------------------------------------------------------


def as_source(X: Any, y: Any = None, sample_weight: Any = None) -> Source:
    """Return a source of the given rows.

    Sources are returned unchanged. Paths of .npy files become a :class:`NpySource`, and other paths a
    :class:`TableSource` with ``y`` and ``sample_weight`` as column names. Dask collections become a
    :class:`DaskSource`, functions a :class:`GeneratorSource`, and all other objects an :class:`ArraySource`.
    """
    if isinstance(X, Source) or callable(X):
        if y is not None or sample_weight is not None:
            raise ValueError(
                f"{type(X).__name__} object given as X: it provides the labels and weights itself, so y and "
                "sample_weight must be None."
            )
        return X if isinstance(X, Source) else GeneratorSource(X)
    if isinstance(X, (str, PathLike)):
        if str(X).endswith(".npy"):
            return NpySource(X, y, sample_weight)
        for name, part in (("y", y), ("sample_weight", sample_weight)):
            if part is not None and not isinstance(part, str):
                raise TypeError(
                    f"{name} must be the name of a column, because the source is the path {X!s}; "
                    f"got {type(part).__name__}."
                )
        return TableSource(X, y, weight=sample_weight)
    if any(map(is_dask, (X, y, sample_weight))):
        if not is_dask(X):
            raise TypeError("X must be a Dask collection, because y or sample_weight is one.")
        return DaskSource(X, y, sample_weight)
    return ArraySource(X, y, sample_weight)


def blocks_of(source: Source, n_jobs: int | None = None) -> Blocks:
    """Return the blocks of a source, processed by threads or by a cluster.

    The cluster belongs to ``source.client`` or, for a Dask source, to the running client.
    """
    client = source.client
    if client is None and isinstance(source, DaskSource):
        client = running_client()
    return LocalBlocks(source, n_jobs) if client is None else ClusterBlocks(source, client)


def is_streamed(n_rows: int) -> bool:
    """Return whether there are too many rows for a fit in memory."""
    return n_rows > STREAM.in_memory_rows


def whole(source: Source) -> Block:
    """Return all rows of a small source as one block."""
    _check_labels(source)
    block = joined(list(source.blocks()))
    with naming_place(source):
        check_block(block)
    return block


def _check_labels(source: Source) -> None:
    """Raise an error if a source has no labels."""
    if not source.has_labels:
        raise ValueError(f"{source}: a fit needs labels (y or target of the source).")


# -- prepared rows ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepare:
    """Function that encodes labels, multiplies weights by class factors, and scales X."""

    classes: np.ndarray
    factors: np.ndarray
    scaling: Scaling

    def __call__(self, block: Block) -> Block:
        last = len(self.classes) - 1
        codes = np.minimum(np.searchsorted(self.classes, block.labels), last).astype(np.int32)
        weight = block.weights
        unknown = self.classes[codes] != block.y
        if unknown.any():  # only rows of weight zero can have an unknown class
            weight = np.where(unknown, 0.0, weight)
        X = self.scaling.transform_single(block.X)
        return replace(block, X=X, y=codes, weight=weight * self.factors[codes])


@dataclass(frozen=True, eq=False)
class WithoutValidation:
    """Function that sets the weight of the validation rows to zero."""

    fraction: float
    salt: int

    def __call__(self, block: Block) -> Block:
        validates = uniform(block.rows, self.salt) < self.fraction
        return replace(block, weight=np.where(validates, 0.0, block.weights))


@dataclass(frozen=True, eq=False)
class Split:
    """Function that draws the validation rows and a sample of the other rows in a single pass."""

    rest: WithoutValidation
    draw: Draw

    def __call__(self, block: Block) -> list[tuple[bool, tuple[np.ndarray, Block]]]:
        turn = uniform(block.rows, self.rest.salt) / self.rest.fraction
        validates = np.flatnonzero(turn < 1)
        drawn = [(True, (turn[validates], block.take(validates)))] if len(validates) else []
        return drawn + [(False, part) for part in self.draw(self.rest(block))]


@dataclass(frozen=True, eq=False)
class StreamRows:
    """The rows of a source, with their classes and scaling."""

    raw: Blocks  # blocks as read from the source
    summary: Summary
    classes: np.ndarray  # classes with positive weight
    factors: np.ndarray  # factors from class_weight
    scaling: Scaling
    seed: int
    memory: float  # bytes for prepared blocks that are kept for the next pass

    @classmethod
    def of(
        cls,
        source: Source,
        *,
        class_weight: Any,
        scale: bool,
        seed: int,
        memory: float,
        n_jobs: int | None,
    ) -> StreamRows:
        """Compute classes and moments in one pass and, if a feature is skewed, its ranks in a second pass."""
        _check_labels(source)
        blocks = blocks_of(source, n_jobs)
        summary = summarise(blocks, source)
        classes = summary.classes
        weights = np.array([summary.labels[label][1] for label in classes.tolist()])
        factors = class_factors(class_weight, classes, classes, weights)
        classes, factors = classes[factors > 0], factors[factors > 0]
        if len(classes) < 2:
            raise ValueError(
                f"y must contain at least two classes with positive weight; got only one: {classes!r}."
            )
        sample = None
        if scale and (np.abs(summary.skewness) > SCALING.skewness).any():
            fraction = min(1.0, STREAM.quantile_rows / source.n_rows)
            sample = draw(blocks, np.array([fraction]), salt=seed + Salt.QUANTILES)
        scaling = _scaling(summary, sample, auto=scale)
        return cls(blocks, summary, classes, factors, scaling, seed, STREAM.kept_memory * memory)

    @cached_property
    def blocks(self) -> Blocks:
        """The prepared blocks: encoded, weighted and scaled."""
        return self.raw.map(Prepare(self.classes, self.factors, self.scaling), self.memory)

    @property
    def class_weights(self) -> np.ndarray:
        """The sum of the weights of each class, multiplied by the class factor."""
        return np.array([self.summary.labels[label][1] for label in self.classes.tolist()]) * self.factors

    @property
    def weight(self) -> float:
        """The sum of all weights."""
        return float(self.class_weights.sum())

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def without_validation(self, fraction: float) -> WithoutValidation:
        """Return the function that sets the weight of the validation rows to zero."""
        return WithoutValidation(fraction, self.seed + Salt.VALIDATION)

    def split(self, fraction: float, n_rows: int, each: Any = None) -> tuple[LabelledRows, LabelledRows]:
        """Return the validation rows and about ``n_rows`` of the other rows, both in random order."""
        split = Split(self.without_validation(fraction), self._draw(n_rows))
        drawn = self.blocks.sum(split, each)
        parts = [in_turn([part for kind, part in drawn if kind is which]) for which in (True, False)]
        return self._labelled(parts[0]), self._labelled(parts[1])

    def sample(self, n_rows: int) -> LabelledRows:
        """Return about ``n_rows`` rows in random order."""
        return self._labelled(in_turn(self.blocks.sum(self._draw(n_rows))))

    def _draw(self, n_rows: int) -> Draw:
        """Return the function that draws about ``n_rows`` rows."""
        counts = np.array([self.summary.labels[label][0] for label in self.classes.tolist()])
        fractions = class_fractions(n_rows, counts, STREAM.least_class_rows)
        return Draw(fractions, self.seed + Salt.SAMPLE)

    def _labelled(self, block: Block) -> LabelledRows:
        """Return the rows of positive weight in a block."""
        weight = block.weights
        used = np.flatnonzero(weight > 0)
        return LabelledRows(block.X[used], block.labels[used], weight[used], self.n_classes)


def _scaling(summary: Summary, sample: Block | None, *, auto: bool) -> Scaling:
    """Return the scaling of :meth:`Scaling.of`, from the moments of all rows and the ranks of a sample."""
    kept = np.flatnonzero(summary.greatest > summary.least)
    centre, spread = summary.mean[kept], summary.std[kept]
    if not auto:
        return Scaling(kept, centre, np.ones(len(kept)), np.inf, {})
    knots = {}
    for position, j in enumerate(kept.tolist()):
        if sample is not None and abs(summary.skewness[j]) > SCALING.skewness:
            knots[position] = rank_knots(sample.X[:, j].astype(np.float64), sample.weights)
    return Scaling(kept, centre, np.where(spread > 0, spread, 1.0), SCALING.clip, knots)


# -- the fit ---------------------------------------------------------------------------------------


def fit_stream(
    rows: StreamRows,
    settings: CompactSettings,
    *,
    memory: float,
    checkpoint: str | PathLike | None = None,
    start: tuple[CompactModel, float] | None = None,
    report: Report = no_report,
) -> tuple[LabelledRows, CompactFit]:
    """Fit a model to all rows; return a sample of the rows, and the fitted model.

    ``start`` is a pair of a model and its value of C. If it is given, the optimisation starts from this
    model, and the number of points is not searched for.
    """
    summary = rows.summary
    identity = {
        "the rows": np.concatenate([[summary.n_rows], summary.mean, summary.second, summary.third]),
        "the labels": summary.labels,
        "class_weight": rows.factors,
        "scale": rows.scaling.spread,
        "random_state": rows.seed,
        "memory": memory,
        **{name: value for name, value in asdict(settings).items() if name != "threads"},
    }
    if start is not None:
        identity["the model to start from"] = np.concatenate([part.ravel() for part in start[0].parts()])
    file = Checkpoint(checkpoint, **identity)
    file.load()  # raises an error early if the file is not usable
    if not settings.sparse or start is not None:
        fit = StreamFit(rows, settings, file, memory, report)
        end = fit.run(start)
        return fit.sample, end
    report("features", 0.0)
    sample = rows.sample(STREAM.in_memory_rows)
    features = fit_compact(sample, settings, Observations.single(len(sample))).features
    fewer = replace(rows, scaling=rows.scaling.restricted(features))
    end = StreamFit(fewer, settings, file, memory, report).run()
    return sample, replace(end, features=features)


class StreamFit:
    """The fit of a compact model to prepared rows within ``memory`` bytes; every result is checkpointed."""

    def __init__(
        self,
        rows: StreamRows,
        settings: CompactSettings,
        checkpoint: Checkpoint,
        memory: float,
        report: Report = no_report,
    ) -> None:
        self.rows, self.settings, self.checkpoint = rows, settings, checkpoint
        self.n_rows, self.p = rows.summary.n_rows, len(rows.scaling.kept)
        self.progress = RowProgress(report, self.n_rows)
        self.validation_fraction = min(STREAM.validation_fraction, STREAM.validation_rows / self.n_rows)
        bytes_per_row = 4 * self.p + 12
        self.most_in_memory = max(STREAM.least_sample, int(STREAM.sample_memory * memory / bytes_per_row))
        self._began = time.perf_counter()

    def run(self, start: tuple[CompactModel, float] | None = None) -> CompactFit:
        """Choose size and C, unless they are given, and fit a model to all rows.

        If ``start``, a pair of a model and its value of C, is given, the optimisation starts from this model.
        """
        with ordered_threads(1):  # rounding errors of BLAS depend on the number of threads
            return self._run(start)

    def _run(self, start: tuple[CompactModel, float] | None) -> CompactFit:
        """Implement :meth:`run`; the caller limits BLAS to one thread."""
        self.state = self.checkpoint.load()
        self._began -= self.state.seconds[-1] if self.state.seconds else 0.0
        self.progress.stage("drawing a sample", 0.0)
        self._draw(2 * STREAM.least_sample)
        stages: list[Stage] = []
        chosen = None
        if start is not None:
            model, C = start
        else:
            stages = self._search()
            chosen = stages[-1] if self.settings.n_points else choose(stages, self.validation)
            model, C = chosen.models[0], _scaled_C(chosen.C, self.n_rows)
        end = self._all_rows(model, C) if model.n_points else self._base_rate()
        self.checkpoint.remove()
        return CompactFit(
            model=end.model,
            features=np.arange(self.p if model.n_points else 0),
            plan=Plan(model.n_points, C),
            stages=stages,
            chosen=chosen,
            gradient_norm=end.gradient_norm / self.rows.weight,
            n_iter=end.n_steps,
            validation=None if chosen is None else self.validation,
        )

    # -- sizes ---------------------------------------------------------------------------------

    def _search(self) -> list[Stage]:
        """Fit models of increasing size until the gain is too small, and return a stage for each.

        Models from a checkpoint are evaluated without being fitted again.
        """
        state, C = self.state, SEARCH.first_C
        if self.settings.C is not None:
            C = self.settings.C * STREAM.C_rows / self.n_rows
        numbers_per_point = self.p + self.sample.n_outputs
        most = self.n_rows // (STREAM.rows_per_number * numbers_per_point)
        tried = sizes(self.settings, self.rows.n_classes, most) if self.p else []

        def fit_size(size: int, stages: list[Stage]) -> Stage:
            position, last = tried.index(size), stages[-1]
            if position == len(state.models):
                self.progress.stage(f"trying {size} points", position / (len(tried) + 1))
                model, C = self._fit_size(size, last.models[0].log_gamma, last.C)
                state.models.append(model)
                state.Cs.append(C)
                state.seconds.append(time.perf_counter() - self._began)
                self.checkpoint.save(state)
            return self._evaluate(state.models[position], state.Cs[position], state.seconds[position])

        return search_sizes(self._evaluate(base_rate(self.sample), C, 0.0), tried, fit_size)

    def _fit_size(self, size: int, log_gamma: np.ndarray, C: float) -> tuple[CompactModel, float]:
        """Fit a model with ``size`` points to a sufficient number of rows; return the model and its C.

        C refers to 32,768 rows, whatever the number of rows of the fit.
        """
        n_moving, n_jobs = len(moving_features(np.exp(log_gamma))), self.settings.threads
        n_rows = max(STREAM.least_sample, STREAM.rows_per_parameter * self._n_parameters(size, n_moving))
        blocks, weight, n_rows = self._blocks(n_rows)
        scaled_C = _scaled_C(C, n_rows)
        model = started(self.sample, size, log_gamma)
        starters = self._first(STREAM.in_memory_rows, weight)
        model, _ = Objective(starters.compiled(), threads=n_jobs).solve(model, scaled_C, 1e-4)
        objective = RowsObjective(
            blocks, self.rows.n_classes, scaled_C, self.settings.shared, self.progress.each
        )
        end = descend(
            objective,
            self._first(self._fisher_rows(model), weight),
            Descent(model),
            max_steps=STREAM.size_steps,
            tol=STREAM.size_tol,
            n_jobs=n_jobs,
        )
        if self.settings.C is not None or n_rows > STREAM.least_sample:
            return end.model, C
        return self._best_C(end.model, C, self._first(n_rows, 0.0))

    def _best_C(self, model: CompactModel, C: float, rows: LabelledRows) -> tuple[CompactModel, float]:
        """Decrease and increase C while the validation loss falls; return the best model and its C."""
        objective = Objective(rows.compiled(), threads=self.settings.threads)
        best = (self._evaluate(model, C, 0.0).loss, model, C)
        for factor in (1 / SEARCH.C_factor, SEARCH.C_factor):
            value = C * factor
            while SEARCH.least_C <= value <= SEARCH.most_C:
                solved = objective.solve(model, _scaled_C(value, len(rows)), 1e-5)[0]
                loss = self._evaluate(solved, value, 0.0).loss
                if loss >= best[0]:
                    break
                best, value = (loss, solved, value), value * factor
        return best[1], best[2]

    def _evaluate(self, model: CompactModel, C: float, seconds: float) -> Stage:
        """Return the stage of a model, evaluated on the validation rows."""
        outputs = model.outputs(self._compiled_validation, self.settings.threads)
        return self.validation.stage([model], outputs, C, seconds)

    # -- all rows --------------------------------------------------------------------------------

    def _all_rows(self, model: CompactModel, C: float) -> Descent:
        """Return the model after optimisation on all rows, including the validation rows."""
        state, settings, rows = self.state, self.settings, self.rows
        if state.descent is None:
            state.descent = Descent(model, damping=1e-3)
        objective = RowsObjective(rows.blocks, rows.n_classes, C, settings.shared, self.progress.each)
        fisher = self._first(self._fisher_rows(model), rows.weight)
        max_steps = STREAM.all_steps * MovingPoints.of(model, settings.shared).n_turns

        def keep(descent: Descent) -> None:
            state.descent = descent
            self.checkpoint.save(state)
            self.progress.stage(f"all rows, step {descent.n_steps + 1}", 0.9, max_steps - descent.n_steps)

        self.progress.stage("all rows", 0.9, max_steps)
        return descend(
            objective,
            fisher,
            state.descent,
            max_steps=max_steps,
            tol=STREAM.all_tol * settings.tol,
            n_jobs=settings.threads,
            report=keep,
        )

    def _base_rate(self) -> Descent:
        """Return the model without points, which predicts the class fractions."""
        n = self.rows.n_classes
        classes = LabelledRows(np.empty((n, 0)), np.arange(n, dtype=np.int32), self.rows.class_weights, n)
        return Descent(base_rate(classes), gradient_norm=0.0)

    # -- rows ------------------------------------------------------------------------------------

    def _n_parameters(self, size: int, n_moving: int) -> int:
        """Return the number of parameters of ``size`` points that move in ``n_moving`` features."""
        return size * n_moving + self.p + self.sample.n_outputs * (size + 1)

    def _fisher_rows(self, model: CompactModel) -> int:
        """Return the number of rows from which the Fisher information is computed."""
        n = self._n_parameters(model.n_points, len(moving_features(model.gamma)))
        return max(STREAM.fisher_rows_per_parameter * min(STEPS.most_together, n), STREAM.least_fisher_rows)

    def _draw(self, n_rows: int) -> None:
        """Draw the validation rows, and a sample of the other rows."""
        n_rows = min(n_rows, self.most_in_memory)
        validation, self.sample = self.rows.split(self.validation_fraction, n_rows, self.progress.each)
        self.validation, self._compiled_validation = Validation.of(validation), validation.compiled()
        self._drawn = n_rows

    def _blocks(self, n_rows: int) -> tuple[Blocks, float, int]:
        """Return blocks with at least ``n_rows`` training rows, the sum of their weights, and their number.

        The rows are a sample in memory if they fit into memory and are fewer than half of all rows. Otherwise
        they are all training rows.
        """
        if n_rows > self._drawn and self._drawn < min(self.most_in_memory, self.n_rows // 2):
            self._draw(4 * n_rows)
        if n_rows > len(self.sample):
            left = 1 - self.validation_fraction
            blocks = self.rows.blocks.map(self.rows.without_validation(self.validation_fraction))
            return blocks, left * self.rows.weight, int(left * self.n_rows)
        part = self._first(n_rows, 0.0)
        source = ArraySource(part.X, part.label, part.weight)
        return LocalBlocks(source, self.settings.threads), float(part.weight.sum()), n_rows

    def _first(self, n_rows: int, weight: float) -> LabelledRows:
        """Return the first rows of the sample, which is in random order.

        Unless ``weight`` is zero, the weights of these rows are scaled to sum to ``weight``.
        """
        part = self.sample.take(np.arange(min(n_rows, len(self.sample))))
        return replace(part, weight=part.weight * (weight / part.weight.sum())) if weight else part


def _scaled_C(C: float, n_rows: int) -> float:
    """Return C scaled to ``n_rows`` rows."""
    return C * n_rows / STREAM.C_rows


class RowProgress:
    """Display of the number of rows per second, and of the remaining time of the current step."""

    def __init__(self, report: Report, n_rows: int) -> None:
        self.report, self.n_rows = report, n_rows
        self._name, self._fraction, self._n_passes, self._rows = "", 0.0, 0, 0
        self._began = self._last = time.perf_counter()

    def stage(self, name: str, fraction: float, n_passes: int = 0) -> None:
        """Begin a step with at most ``n_passes`` passes over all rows; 0 if the number is unknown."""
        self._name, self._fraction, self._n_passes, self._rows = name, fraction, n_passes, 0
        self._began = self._last = time.perf_counter()
        self.report(name, fraction)

    def each(self, n_rows: int) -> None:
        """Count ``n_rows`` more finished rows."""
        self._rows += n_rows
        now = time.perf_counter()
        if now - self._last < 0.5:
            return
        self._last = now
        rate = self._rows / (now - self._began)
        left = max(0.0, self._n_passes * self.n_rows - self._rows) / rate
        text = f"{self._name}, {rate / 1e6:.2g} million rows/s"
        self.report(f"{text}, at most {left:.0f} s left" if self._n_passes else text, self._fraction)
