r"""Choice of the kernel by leave-one-out, and of its width, which validation folds must confirm.

Each kernel is evaluated by the leave-one-out log-loss of the penalised likelihood on a label-free basis, with
the C that is best for it (:mod:`~.regularisation`), on at most 1500 points. The kind of kernel with the
smaller loss is chosen.

With ``gamma="auto"``, widths form a geometric grid with ratio three around the width of ``gamma="scale"``.
From there the search proceeds to wider kernels while the loss falls, and likewise to narrower ones. Another
kind of kernel is evaluated at its middle width only, unless it is at least as good there as the first kernel.
The leave-one-out loss of the best of many widths is optimistic, so this width replaces the first one only if
its loss on validation folds is smaller too; that validation loss is the one to report. docs/design/refit.md
has measurements.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from .._utils.messages import warn
from .._utils.progress import Report, silent
from .._utils.threads import Map, ordered_threads
from ..compact.rows import Observations, validation_folds
from ..kernels import Kernel, NonFiniteKernel, naming_row
from ..samples import DistinctPoints, Samples, first_of_each_class, shuffled_keys
from .basis import ALL_AT_ONCE, Basis, LabelFreeBases
from .labels import Labels
from .regularisation import EvaluatedFit, choose_C, fit_at
from .relevance import factors_pay, learned_factors


@dataclass(frozen=True)
class KernelSearchSettings:
    """Settings of the kernel search."""

    kinds: tuple[str, ...] = ("rbf", "laplacian")  # kinds of kernel="auto"; the first one is the default
    factor: float = 3.0  # ratio of consecutive widths
    max_steps: int = 6  # largest number of steps from the middle width in either direction
    most_points: int = 1500  # size of the sample of the points
    basis_size: int = 120  # number of basis points for a sample of more than 300 points
    least_of_class: int = 10  # smallest number of points of each class in the sample
    # A narrower kernel that is worse by this many standard errors, at the C of the previous width, is
    # abandoned without a search for its best C.
    clearly_worse: float = 2.0
    small_loss: float = 1e-3  # loss below which the search ends


SETTINGS = KernelSearchSettings()

T = TypeVar("T", DistinctPoints, Samples)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An evaluated kernel with its leave-one-out losses."""

    kernel: Kernel
    evaluated: EvaluatedFit
    losses: np.ndarray  # leave-one-out log-loss of each observation
    loss: float  # their weighted mean
    error: float  # its standard error
    seconds: float
    settled: bool = True  # whether C is the best for this kernel


class Predictor(Protocol):
    """A fitted model that predicts logarithms of class probabilities."""

    def log_proba(self, X: Any) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class ChosenKernel:
    """The result of a search."""

    kernel: Kernel
    C: float  # the best for this kernel, before the factors
    factors: np.ndarray | None  # of the features (:mod:`~.relevance`); None if all features count alike
    evaluated: EvaluatedFit | None  # its fit to all points; None with factors, or a sample of the points
    origin: tuple[Basis, EvaluatedFit] | None  # of the factors; None if the basis lacks some points
    tried: list[Candidate]  # in order of evaluation; the first is the default
    validation_loss: float | None  # of the chosen kernel; None if it is the first, or folds are impossible

    def applied(self, data: T) -> T:
        """Samples or points with this kernel and with scaled features."""
        X = data.X if self.factors is None else data.X * self.factors.astype(data.X.dtype)
        return replace(data, X=X, kernel=self.kernel)

    def table(self) -> dict[str, np.ndarray]:
        """The evaluated kernels, as columns."""
        columns: dict[str, list[Any]] = {
            "kernel": [str(one.kernel.name) for one in self.tried],
            "gamma": [one.kernel.gamma for one in self.tried],
            "C": [one.evaluated.C for one in self.tried],
            "log_loss": [one.loss for one in self.tried],
            "standard_error": [one.error for one in self.tried],
            "seconds": [one.seconds for one in self.tried],
        }
        return {name: np.array(values) for name, values in columns.items()}


def middle_kernels(first: Kernel, n_features: int, kernel: str, gamma: Any) -> list[Kernel]:
    """Every kind of kernel to evaluate, with the given width or the middle of its search range.

    ``first`` is the first kernel to try. If the width is searched, ``first`` has the width of
    ``gamma="scale"``.
    """
    kinds = [replace(first, name=name) for name in (SETTINGS.kinds if kernel == "auto" else [kernel])]
    if isinstance(gamma, float | int):
        return kinds
    return [laplacian_like(kind, n_features) if kind.name == "laplacian" else kind for kind in kinds]


def laplacian_like(rbf: Kernel, n_features: int) -> Kernel:
    r"""The Laplacian kernel whose width corresponds to that of an rbf kernel.

    :math:`\gamma = 1/(p\sigma^2)` becomes :math:`1/(p\sigma)`, where p is the number of features. Both
    kernels are invariant to the unit of the features.
    """
    return replace(rbf, name="laplacian", gamma=float(np.sqrt(rbf.gamma / n_features)))


def choose_kernel(
    points: DistinctPoints,
    kernels: Sequence[Kernel],
    fit: Callable[[DistinctPoints], Predictor],
    *,
    climb: bool,
    relevance: bool,
    seed: int,
    report: Report = silent,
    n_jobs: int | None = None,
) -> ChosenKernel:
    """The kernel with the smallest leave-one-out loss, and the relevance of the features.

    ``points`` have relative weights. ``kernels`` are of different kinds; ``climb`` enables the search of
    their widths, whose result must be confirmed by validation; otherwise the first kernel is chosen.
    ``relevance`` enables factors of the features. A kernel that fails is skipped with a warning; if all fail,
    the first error is raised. ``fit`` fits a model to points for the validation.
    """
    losses, factors, origin = None, None, None
    with ordered_threads(n_jobs) as map_:
        search = KernelSearch(points, seed, map_, report)
        search.run(kernels, climb)
        if not search.tried:
            raise search.failed[0][1]
        for kernel, error in search.failed:
            reason = naming_row(error, None) if isinstance(error, NonFiniteKernel) else error
            warn(f"kernel={kernel.name!r} with gamma={kernel.gamma:.3g} was skipped by the search: {reason}")
        first, best = search.tried[0], search.best()
        if climb and best is not first:
            report("validation of the width", 0.6)
            losses = validation_losses(points, [first.kernel, best.kernel], fit)
            if losses is None or losses[0] <= losses[1]:
                best = first
        if relevance:
            report("relevance of the features", 0.9)
            basis = search.bases(best.kernel)[0]
            fitted = basis, search.labels, best.evaluated, seed
            if factors_pay(*fitted):
                factors = learned_factors(*fitted)
                origin = (basis, best.evaluated) if len(points) <= ALL_AT_ONCE else None
    whole = len(best.losses) == len(points.observations.point)
    return ChosenKernel(
        best.kernel,
        best.evaluated.C,
        factors,
        best.evaluated if whole and factors is None else None,
        origin,
        search.tried,
        None if losses is None else float(losses.min()),
    )


class KernelSearch:
    """Search over kernels on a sample of ``points``, which have relative weights; their kernel is not used.

    ``seed`` determines the sample and the basis; ``map_`` is that of
    :func:`~sparseklr._utils.threads.ordered_threads`.
    """

    def __init__(self, points: DistinctPoints, seed: int, map_: Map = map, report: Report = silent) -> None:
        self.points, self.seed, self.map_ = sample_points(points, seed), seed, map_
        self.labels, self.report = Labels.of_points(self.points), report
        self.tried: list[Candidate] = []
        self.failed: list[tuple[Kernel, Exception]] = []

    def run(self, kernels: Sequence[Kernel], climb: bool) -> None:
        """Evaluate each kernel and, with ``climb``, the widths of those that are at least as good as the
        first; a tiny loss of the first kernel ends the search."""
        for kernel in kernels:
            middle = self.evaluate(kernel)
            if not self.tried:
                continue
            if self.tried[0].loss < SETTINGS.small_loss:
                break
            if climb and middle is not None and middle.loss <= self.tried[0].loss:
                self.climb(middle)

    def climb(self, middle: Candidate) -> None:
        """Evaluate widths of one kind of kernel in both directions from the middle while the loss falls."""
        for factor in (1 / SETTINGS.factor, SETTINGS.factor):
            best = middle
            for _ in range(SETTINGS.max_steps):
                new = self.evaluate(replace(best.kernel, gamma=best.kernel.gamma * factor), best)
                if new is None or not new.settled or new.loss >= best.loss:
                    break
                best = new

    def best(self) -> Candidate:
        """The candidate with the smallest loss."""
        return min((one for one in self.tried if one.settled), key=lambda one: one.loss)

    def evaluate(self, kernel: Kernel, before: Candidate | None = None) -> Candidate | None:
        """The leave-one-out loss of a kernel; if it fails, None and an entry in ``failed``.

        C is not searched if the kernel is clearly worse than the width ``before``, at the C of that width.
        """
        start, done = time.perf_counter(), len(self.tried) + len(self.failed)
        # The search for the width evaluates any number of kernels; two are usual.
        self.report(f"leave-one-out with kernel {kernel.name}, gamma {kernel.gamma:.3g}", done / (done + 2))
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                bases = self.bases(kernel)
                evaluated, settled = self._fit(bases, before)
            losses = evaluated.losses
            if not np.isfinite(losses).all():
                raise FloatingPointError("its leave-one-out loss is not finite")
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            self.failed.append((kernel, error))
            return None
        loss, standard_error = self.labels.observations.mean(losses)
        seconds = time.perf_counter() - start
        self.tried.append(Candidate(kernel, evaluated, losses, loss, standard_error, seconds, settled))
        return self.tried[-1]

    def bases(self, kernel: Kernel) -> LabelFreeBases:
        """The label-free basis of a kernel, or that of all points if these are few."""
        points = replace(self.points, kernel=kernel)
        return LabelFreeBases(points, np.random.default_rng(self.seed), self.map_, (SETTINGS.basis_size,))

    def _fit(self, bases: LabelFreeBases, before: Candidate | None) -> tuple[EvaluatedFit, bool]:
        """A fit evaluated by leave-one-out, and whether its C was searched."""
        if before is not None and bases.points.kernel.gamma > before.kernel.gamma:
            evaluated = fit_at(bases, self.labels, before.evaluated.C, before.evaluated.fit.f)
            if self._gain(evaluated.losses, before) < -SETTINGS.clearly_worse:
                return evaluated, False
        return choose_C(bases, self.labels, self.tried[0].evaluated.C if self.tried else None), True

    def _gain(self, losses: np.ndarray, old: Candidate) -> float:
        """Decrease of the mean loss relative to a candidate, in standard errors of the difference.

        The standard error is bounded below by the accuracy of the fits.
        """
        gain, error = self.labels.observations.mean(old.losses - losses)
        return gain / max(error, 1e-4 * old.loss, 1e-12)


def sample_points(points: DistinctPoints, seed: int) -> DistinctPoints:
    """A sample of at most 1500 points with relative weights, determined by row contents and ``seed``.

    It contains at least ten points of each class, or all of them if there are fewer.
    """
    if len(points) <= SETTINGS.most_points:
        return points
    return points.part(_first(points.weight, np.argsort(shuffled_keys(points.X, seed)))).relative()


def _first(weight: np.ndarray, order: np.ndarray) -> np.ndarray:
    return first_of_each_class(weight, order, SETTINGS.most_points, SETTINGS.least_of_class)


def validation_losses(
    points: DistinctPoints, kernels: Sequence[Kernel], fit: Callable[[DistinctPoints], Predictor]
) -> np.ndarray | None:
    """Mean log-loss with each kernel on validation folds; None if folds are impossible.

    As in CompactKLR, folds consist of observations, and copies stay together. The first 1500 points are used.
    """
    points = points.part(_first(points.weight, np.arange(len(points))))
    point, codes = np.nonzero(points.weight)
    count = np.ones(len(codes)) if points.count is None else points.count[point, codes]
    observations = Observations(count.astype(np.int64), point, points.copies)
    totals, total = np.zeros(len(kernels)), 0.0
    for validation in validation_folds(codes, points.weight.shape[1], observations):
        fraction = np.zeros_like(points.weight)
        fraction[point, codes] = validation / count
        train, test = points.fraction(1 - fraction).relative(), points.fraction(fraction)
        total += test.weight.sum()
        for k, kernel in enumerate(kernels):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit to all rows issues them
                log_proba = fit(replace(train, kernel=kernel)).log_proba(test.X)
            totals[k] -= (test.weight * np.maximum(log_proba, np.log(np.finfo(float).tiny))).sum()
    return totals / total if total else None
