"""The fit to many rows: sizes on a sample that grows with them, and the size that is chosen on all rows.

The rows that are held out, and those of the samples, are those whose numbers have small hashes. A model with
d parameters that is fitted to m rows has an expected loss of about d / (2 m) above the best of its kind, so
that a sample of a fixed multiple of d rows costs all sizes the same. On all rows that cost vanishes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..sources import ArraySource, Blocks, LocalBlocks
from ..threads import ordered_threads
from .all_rows import Plan
from .checkpoint import Checkpoint
from .fisher import moving_features
from .fit import CompactFit
from .gauss_newton import MOST_TOGETHER, Descent, RowsObjective, Turn, descend
from .large_rows import LargeRows
from .objective import CompactModel, Objective
from .path import (
    FACTOR,
    FIRST_C,
    LEAST_C,
    MOST_C,
    PathSettings,
    Stage,
    Validation,
    choose,
    nothing_to_say,
)
from .rows import LabelledRows
from .start import base_rate, started

# Rows of the smallest sample, and rows for each parameter of a larger one: 450 cost 0.001 in log-loss. Small
# models have many more: with 32 768 rows, two points cost 2.6% of the log-loss of the ring data, which then
# seemed to need 64.
LEAST_SAMPLE, PER_PARAMETER = 262_144, 450
# Rows that the C of the path is meant for; it is scaled with their number.
BASE = 32_768
# Rows held out: this many, or this share if there are fewer.
HELD_OUT, HELD_OUT_SHARE = 65_536, 0.2
# Rows that coefficients start from, and rows of the Fisher information for each parameter, between these
# bounds.
STARTERS, FISHER, LEAST_FISHER, MOST_FISHER = 20_000, 4, 4096, 20_000
# A size stops moving when two steps lower the objective by less than this share each, or after so many steps.
SIZE_TOL, SIZE_STEPS = 3e-4, 40
# The same on all rows, where the tolerance is a share of the user's.
ALL_STEPS, ALL_TOL = 20, 0.1
# Up to 32 points, the path ends after two sizes that lower the held-out loss by less than this share each.
GAIN, PATIENCE, PATIENT_UP_TO = 1e-3, 2, 32
# Beyond, the last two doublings must have lowered it by this share together for the next to be tried, from
# 256 points on by more: the next takes longer than all before. On 300 000 rows each, a doubling from 64 to
# 128 points gained 0.1% after two that gained 0.4% (Friedman's function) and 0.2% after 2.3% (12 clusters),
# but 0.8% after 10% (24 clusters), and 12% after 37% (six normals whose features are correlated).
LATE_GAINS = {128: 1.5e-2, np.inf: 4e-2}
# A size is taken if it lowers the loss by this share for each doubling, and one beyond 128 points by another
# share in all. Twice the points take twice the time to predict, and more to fit. With many rows, a standard
# error alone would take 128 points for 0.05%.
DOUBLING_GAIN, TAKEN_GAIN = 2e-3, 5e-3
# Rows for each number of a point, its place and coefficients, that the largest size has at least.
LEAST_ROWS = 5

Report = Callable[[str, float], Any]


class LargeFit:
    """The fit of a compact model to prepared rows.

    Parameters
    ----------
    rows : LargeRows
    settings : PathSettings
    checkpoint : Checkpoint
        Where every decision is written as soon as it is made.
    memory : float
        Bytes that a sample may take.
    report : callable
        Told what is going on, and the share of the fit that is done.
    """

    def __init__(
        self,
        rows: LargeRows,
        settings: PathSettings,
        checkpoint: Checkpoint,
        memory: float,
        report: Report = nothing_to_say,
    ) -> None:
        self.rows, self.settings, self.checkpoint = rows, settings, checkpoint
        self.n_rows, self.p = rows.summary.n_rows, len(rows.scaling.kept)
        self.progress = RowProgress(report, self.n_rows)
        self.held_out_share = min(HELD_OUT_SHARE, HELD_OUT / self.n_rows)
        self.most_in_memory = max(LEAST_SAMPLE, int(memory / (4 * self.p + 12)))
        self._began = time.perf_counter()

    def run(self, start: tuple[CompactModel, float] | None = None) -> CompactFit:
        """Choose what the settings leave open, then fit all rows; or go on from a model with its C."""
        with ordered_threads(1):  # linear algebra on one thread: its last digit depends on their number
            return self._run(start)

    def _run(self, start: tuple[CompactModel, float] | None) -> CompactFit:
        self.state = self.checkpoint.load()
        self._began -= self.state.seconds[-1] if self.state.seconds else 0.0
        self.progress.stage("a sample", 0.0)
        self._draw(2 * LEAST_SAMPLE)
        stages: list[Stage] = []
        if start is not None:
            model, C = start
        else:
            stages = self._path()
            validation = Validation(self.held_out.weight)
            chosen = (
                stages[-1]
                if self.settings.n_points
                else choose(stages, validation, TAKEN_GAIN, DOUBLING_GAIN)
            )
            model, C = chosen.models[0], self._C_of(chosen.C, self.n_rows)
        end = self._all_rows(model, C) if model.n_points else self._base_rate()
        self.checkpoint.remove()
        return CompactFit(
            model=end.model,
            features=np.arange(self.p if model.n_points else 0),
            plan=Plan(model.n_points, C),
            stages=stages,
            held_out_loss=chosen.loss if stages else None,
            gradient_norm=end.gradient_norm / self.rows.weight,
            n_iter=end.n_steps,
        )

    # -- sizes ---------------------------------------------------------------------------------

    def sizes(self) -> list[int]:
        """As many points as classes, and twice as many each time; one size if the number is given."""
        if self.settings.n_points is not None:
            return [self.settings.n_points]
        of_point = self.p + self.sample.n_outputs
        most = min(self.settings.max_points, max(1, self.n_rows // (LEAST_ROWS * of_point)))
        sizes = [min(self.rows.n_classes, most)]
        while 2 * sizes[-1] <= most:
            sizes.append(2 * sizes[-1])
        return sizes

    def _path(self) -> list[Stage]:
        """All stages until larger models stop paying; those of the checkpoint are only judged again."""
        C = FIRST_C if self.settings.C is None else self.settings.C * BASE / self.n_rows
        stages = [self._judged(base_rate(self.sample), C, 0.0)]
        best, without_gain, sizes = stages[0].loss, 0, self.sizes() if self.p else []
        for position, size in enumerate(sizes):
            if position == len(self.state.models):
                self.progress.stage(f"{size} points", position / (len(sizes) + 1))
                model, C = self._fit_size(size, stages[-1].models[0].log_gamma, stages[-1].C)
                self.state.models.append(model)
                self.state.Cs.append(C)
                self.state.seconds.append(time.perf_counter() - self._began)
                self.checkpoint.save(self.state)
            state = self.state
            stages.append(self._judged(state.models[position], state.Cs[position], state.seconds[position]))
            loss = stages[-1].loss
            without_gain = 0 if loss < (1 - GAIN) * best else without_gain + 1
            best = min(best, loss)
            if without_gain == PATIENCE or (size > PATIENT_UP_TO and not _still_pays(stages)):
                break
        return stages

    def _fit_size(self, size: int, log_gamma: np.ndarray, C: float) -> tuple[CompactModel, float]:
        """A model of a size on as many rows as it needs, and C for the smallest sample."""
        n_moving, n_jobs = len(moving_features(np.exp(log_gamma))), self.settings.threads
        n_rows = max(LEAST_SAMPLE, PER_PARAMETER * self._parameters(size, n_moving))
        blocks, weight, n_rows = self._blocks(n_rows)
        here = self._C_of(C, n_rows)
        model = started(self.sample, size, log_gamma)
        starters = self._first(STARTERS, weight)
        model, _ = Objective(starters.compiled(), threads=n_jobs).solve(model, here, 1e-4)
        objective = RowsObjective(blocks, self.rows.n_classes, here, self.settings.shared, self.progress.each)
        fisher = self._first(self._fisher_rows(model), weight)
        end = descend(objective, fisher, Descent(model), max_steps=SIZE_STEPS, tol=SIZE_TOL, n_jobs=n_jobs)
        if self.settings.C is not None or n_rows > LEAST_SAMPLE:
            return end.model, C
        return self._best_C(end.model, C, self._first(n_rows, 0.0))

    def _best_C(self, model: CompactModel, C: float, rows: LabelledRows) -> tuple[CompactModel, float]:
        """The coefficients with the best C, from the rows of the model: up or down as long as that pays."""
        objective = Objective(rows.compiled(), threads=self.settings.threads)
        best = (self._judged(model, C, 0.0).loss, model, C)
        for factor in (1 / FACTOR, FACTOR):
            value = C * factor
            while LEAST_C <= value <= MOST_C:
                solved = objective.solve(model, self._C_of(value, len(rows)), 1e-5)[0]
                loss = self._judged(solved, value, 0.0).loss
                if loss >= best[0]:
                    break
                best, value = (loss, solved, value), value * factor
        return best[1], best[2]

    def _judged(self, model: CompactModel, C: float, seconds: float) -> Stage:
        outputs = model.outputs(self._compiled_held_out, self.settings.threads)
        losses, validation = self.held_out.losses(outputs), Validation(self.held_out.weight)
        loss, error = validation.mean(losses), validation.standard_error(losses)
        return Stage(model.n_points, C, (), (), (model,), outputs, losses, loss, error, seconds)

    # -- all rows --------------------------------------------------------------------------------

    def _all_rows(self, model: CompactModel, C: float) -> Descent:
        """Steps on all rows, those that were held out included."""
        state, settings, rows = self.state, self.settings, self.rows
        if state.descent is None:
            state.descent = Descent(model, damping=1e-3)
        objective = RowsObjective(rows.blocks, rows.n_classes, C, settings.shared, self.progress.each)
        fisher = self._first(self._fisher_rows(model), rows.weight)
        max_steps = ALL_STEPS * Turn.of(model, settings.shared).n_turns

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
            tol=ALL_TOL * settings.tol,
            n_jobs=settings.threads,
            report=keep,
        )

    def _base_rate(self) -> Descent:
        """The model without points."""
        n = self.rows.n_classes
        classes = LabelledRows(np.empty((n, 0)), np.arange(n, dtype=np.int32), self.rows.class_weights, n)
        return Descent(base_rate(classes), gradient_norm=0.0)

    # -- rows ------------------------------------------------------------------------------------

    def _parameters(self, size: int, n_moving: int) -> int:
        """Numbers that are fitted for so many points that move in so many features."""
        return size * n_moving + self.p + self.sample.n_outputs * (size + 1)

    def _fisher_rows(self, model: CompactModel) -> int:
        size = self._parameters(model.n_points, len(moving_features(model.gamma)))
        return min(max(FISHER * min(MOST_TOGETHER, size), LEAST_FISHER), MOST_FISHER)

    def _C_of(self, C: float, n_rows: int) -> float:
        """C for so many rows: it is scaled with their number."""
        return C * n_rows / BASE

    def _draw(self, n_rows: int) -> None:
        """Rows that are held out, and a sample of the others."""
        n_rows = min(n_rows, self.most_in_memory)
        held_out, self.sample = self.rows.split(self.held_out_share, n_rows, self.progress.each)
        self.held_out, self._compiled_held_out = held_out, held_out.compiled()
        self._drawn = n_rows

    def _blocks(self, n_rows: int) -> tuple[Blocks, float, int]:
        """At least so many rows that are not held out, the sum of their weights, and how many they are.

        In memory as long as they fit and are not most of the rows; otherwise all that are not held out.
        """
        if n_rows > self._drawn and self._drawn < min(self.most_in_memory, self.n_rows // 2):
            self._draw(4 * n_rows)
        if n_rows > len(self.sample):
            weight = (1 - self.held_out_share) * self.rows.weight
            n_rows = int((1 - self.held_out_share) * self.n_rows)
            return self.rows.unseen(self.held_out_share), weight, n_rows
        part = self._first(n_rows, 0.0)
        source = ArraySource(part.X, part.label, part.weight)
        return LocalBlocks(source, self.settings.threads), float(part.weight.sum()), n_rows

    def _first(self, n_rows: int, weight: float) -> LabelledRows:
        """The first rows of the sample, which is in random order.

        Their weights add up to ``weight`` if that is not zero.
        """
        part = self.sample.part(np.arange(min(n_rows, len(self.sample))))
        return replace(part, weight=part.weight * (weight / part.weight.sum())) if weight else part


def _still_pays(stages: list[Stage]) -> bool:
    """Whether the last two doublings lowered the loss enough for another one."""
    last, before = stages[-1], min((stage.loss for stage in stages[:-2]), default=np.inf)
    gain = next(gain for most, gain in LATE_GAINS.items() if last.n_points <= most)
    return last.loss < (1 - gain) * before


class RowProgress:
    """Turns numbers of rows into what a progress bar shows: rows per second, and the time left of a stage.

    Examples
    --------
    >>> shown = []
    >>> progress = RowProgress(lambda text, share: shown.append(text), n_rows=1000)
    >>> progress.stage("all rows", 0.5)
    >>> shown
    ['all rows']
    """

    def __init__(self, report: Report, n_rows: int) -> None:
        self.report, self.n_rows = report, n_rows
        self._name, self._share, self._n_passes, self._rows = "", 0.0, 0, 0
        self._began = self._last = time.perf_counter()

    def stage(self, name: str, share: float, n_passes: int = 0) -> None:
        """A new stage begins, of at most so many passes over all rows if that is known."""
        self._name, self._share, self._n_passes, self._rows = name, share, n_passes, 0
        self._began = self._last = time.perf_counter()
        self.report(name, share)

    def each(self, n_rows: int) -> None:
        """So many more rows are done."""
        self._rows += n_rows
        now = time.perf_counter()
        if now - self._last < 0.5:
            return
        self._last = now
        rate = self._rows / (now - self._began)
        left = max(0.0, self._n_passes * self.n_rows - self._rows) / rate
        text = f"{self._name}, {rate / 1e6:.2g} million rows/s"
        self.report(f"{text}, at most {left:.0f} s left" if self._n_passes else text, self._share)
