"""Choice of the kernel and its width by the leave-one-out log-loss.

Each kernel is evaluated by the leave-one-out log-loss of a model with the best C for that kernel
(:mod:`~.regularisation`). The model has a label-free basis and is fitted to a sample of about 1500 points.
With ``kernel="auto"``, the rbf or the Laplacian kernel is chosen, whichever has the smaller loss. A kernel of
the same kind with a third of gamma, which is wider, then replaces the chosen one while this lowers the loss
by more than a standard error of the difference.

With ``gamma="auto"``, the search also covers the width. The candidate values of gamma form a geometric grid
with ratio three around the value of ``gamma="scale"``. The search proceeds from there to wider kernels while
the loss falls, and likewise to narrower ones. The Laplacian kernel is first evaluated in the middle of its
grid. Its other widths are evaluated only if its loss there is at most the loss of the first kernel.

The smallest of many leave-one-out losses is optimistic. With ``gamma="auto"``, the best kernel therefore
replaces the first one only if its loss on validation folds is smaller too. This validation loss is reported.
docs/design/refit.md has measurements.
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
from .basis import ALL_AT_ONCE, LabelFreeBases
from .labels import Labels
from .regularisation import SETTINGS as C_SEARCH
from .regularisation import EvaluatedFit, choose_C, fit_at, improve_on_larger_bases
from .relevance import LearnedFolds, learned_factors


@dataclass(frozen=True)
class KernelSearchSettings:
    """Settings of the kernel search."""

    kinds: tuple[str, ...] = ("rbf", "laplacian")  # kernels of kernel="auto"; the default kernel comes first
    factor: float = 3.0  # ratio of consecutive values of gamma
    max_steps: int = 6  # maximum number of steps from the middle width in either direction
    most_points: int = 1500  # size of the sample of training points on which the search is based
    basis_size: int = 120  # number of basis points if there are more than 300 training points
    larger_basis_size: int = 300  # number of basis points on which a wider kernel must be better as well
    least_of_class: int = 10  # minimum number of points of each class in a sample
    # A narrower kernel is first evaluated at the C of the previous width, and another kind of kernel at the C
    # of the first kind. If its loss is larger by this number of standard errors, the search for its best C is
    # skipped.
    clearly_worse: float = 2.0
    better: float = 1.0  # number of standard errors by which a wider kernel must improve the loss
    small_loss: float = 1e-3  # the search ends if the first kernel has a loss below this value


SETTINGS = KernelSearchSettings()

T = TypeVar("T", DistinctPoints, Samples)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An evaluated kernel with its leave-one-out losses."""

    kernel: Kernel
    bases: LabelFreeBases  # the model is evaluated on the first basis
    evaluated: EvaluatedFit
    losses: np.ndarray  # leave-one-out log-loss of each observation
    loss: float  # weighted mean of ``losses``
    error: float  # standard error of ``loss``
    seconds: float  # duration of the evaluation
    C_searched: bool = True  # whether C was chosen for this kernel; otherwise it comes from another kernel


class Predictor(Protocol):
    """Protocol of a fitted model that predicts logarithms of class probabilities."""

    def log_proba(self, X: Any) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class ChosenKernel:
    """Result of a kernel search."""

    kernel: Kernel
    C: float  # the best C for this kernel with all factors equal to 1
    worse: tuple[float, ...]  # factors by which C is clearly worse (:class:`~.regularisation.EvaluatedFit`)
    factors: np.ndarray | None  # one factor for each feature (:mod:`~.relevance`); None if all are 1
    # The model with this kernel on all training points. None if the search used a sample of the points, or
    # if the features are multiplied by factors.
    evaluated: EvaluatedFit | None
    # Models of folds with factors learned without the fold. None without factors, or if there are more than
    # 300 training points.
    folds: LearnedFolds | None
    tried: list[Candidate]  # all evaluated kernels in order of evaluation; the first one is the default
    # Mean log-loss of the chosen kernel on validation folds. None if widths were not searched, if the first
    # kernel had the smallest leave-one-out loss, or if a class has too few observations for folds.
    validation_loss: float | None

    def applied(self, data: T) -> T:
        """Return a copy of ``data`` with this kernel and with the features multiplied by ``factors``."""
        X = data.X if self.factors is None else data.X * self.factors.astype(data.X.dtype)
        return replace(data, X=X, kernel=self.kernel)

    def table(self) -> dict[str, np.ndarray]:
        """Return the evaluated kernels as a table, a dictionary of columns."""
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
    """Return the kernels at which the search starts, one for each kind to be compared.

    ``first`` is the kernel that is evaluated first. A numerical ``gamma`` applies to all kernels. Otherwise
    ``first`` has the width of ``gamma="scale"``, and the Laplacian kernel gets the corresponding width.
    """
    kinds = [replace(first, name=name) for name in (SETTINGS.kinds if kernel == "auto" else [kernel])]
    if isinstance(gamma, float | int):
        return kinds
    return [laplacian_like(kind, n_features) if kind.name == "laplacian" else kind for kind in kinds]


def laplacian_like(rbf: Kernel, n_features: int) -> Kernel:
    r"""Return the Laplacian kernel whose width corresponds to the width of an rbf kernel.

    The coefficient :math:`\gamma = 1/(p\sigma^2)` of the rbf kernel becomes :math:`1/(p\sigma)`, where p is
    the number of features. Neither kernel then depends on the unit of the features.
    """
    return replace(rbf, name="laplacian", gamma=float(np.sqrt(rbf.gamma / n_features)))


def choose_kernel(
    points: DistinctPoints,
    kernels: Sequence[Kernel],
    fit: Callable[[DistinctPoints], Predictor],
    *,
    climb: bool,
    widen: bool,
    relevance: bool,
    seed: int,
    report: Report = silent,
    n_jobs: int | None = None,
) -> ChosenKernel:
    """Return the chosen kernel, and optionally factors by which the features are multiplied.

    Parameters
    ----------
    points : DistinctPoints
        Training points, with weights whose mean over the observations is 1.
    kernels : sequence of Kernel
        One kernel of each kind to be compared. The first kernel is the default.
    fit : callable
        Function that fits a model to points. It is used to compute validation losses.
    climb : bool
        Whether other widths of the kernels are evaluated too. If so, another kernel replaces the first kernel
        only if its loss on validation folds is smaller as well.
    widen : bool
        Whether the best of the given kernels may be replaced by a wider kernel of its kind.
    relevance : bool
        Whether features may be multiplied by learned factors (:mod:`~.relevance`).
    seed : int
        Seed of the sample and of the random basis.
    report : callable
        Function that displays the progress.
    n_jobs : int or None
        Number of threads.

    Returns
    -------
    ChosenKernel
        The kernel with the smallest leave-one-out loss, subject to the check on validation folds.

    Warns
    -----
    UserWarning
        For each kernel that was skipped because its evaluation failed. If all evaluations fail, the first
        error is raised instead.
    """
    losses, factors, folds = None, None, None
    with ordered_threads(n_jobs) as map_:
        search = KernelSearch(points, seed, map_, report)
        search.run(kernels, climb)
        if not search.tried:
            raise search.failed[0][1]
        first, best = search.tried[0], search.best()
        if widen:
            best = search.widened(best)
        for kernel, error in search.failed:
            reason = naming_row(error, None) if isinstance(error, NonFiniteKernel) else error
            warn(f"kernel={kernel.name!r} with gamma={kernel.gamma:.3g} was skipped by the search: {reason}")
        if climb and best is not first:
            report("validation of the width", 0.6)
            losses = validation_losses(points, [first.kernel, best.kernel], fit)
            if losses is None or losses[0] <= losses[1]:
                best = first
        if relevance:
            report("relevance of the features", 0.9)
            fitted = best.bases[0], search.labels, best.evaluated, seed
            learned = LearnedFolds.of(*fitted)
            if learned.reduce_loss(best.evaluated.C):
                factors = learned_factors(*fitted)
                folds = learned if len(points) <= ALL_AT_ONCE else None
    whole = len(best.losses) == len(points.observations.point)
    return ChosenKernel(
        best.kernel,
        best.evaluated.C,
        best.evaluated.worse if whole else (),  # more points may need another C
        factors,
        best.evaluated if whole and factors is None else None,
        folds,
        search.tried,
        None if losses is None else float(losses.min()),
    )


class KernelSearch:
    """Evaluation of kernels by leave-one-out on a sample of ``points``.

    The kernel in ``points`` has no effect. ``seed`` determines the sample and the random basis. ``map_`` is
    the built-in ``map``, or its threaded version from :func:`~sparseklr._utils.threads.ordered_threads`.
    """

    def __init__(self, points: DistinctPoints, seed: int, map_: Map = map, report: Report = silent) -> None:
        self.points, self.seed, self.map_ = sample_points(points, seed), seed, map_
        self.labels, self.report = Labels.of_points(self.points), report
        self.tried: list[Candidate] = []
        self.failed: list[tuple[Kernel, Exception]] = []

    def run(self, kernels: Sequence[Kernel], climb: bool) -> None:
        """Evaluate each of the given kernels, and with ``climb`` further widths.

        Further widths are evaluated only for kernels whose loss is at most the loss of the first kernel. The
        search ends early if the loss of the first kernel is tiny.
        """
        for kernel in kernels:
            middle = self.evaluate(kernel, self.tried[0] if self.tried else None)
            if not self.tried:
                continue
            if self.tried[0].loss < SETTINGS.small_loss:
                break
            if climb and middle is not None and middle.loss <= self.tried[0].loss:
                self.climb(middle)

    def climb(self, middle: Candidate) -> None:
        """Evaluate wider kernels of the same kind while the loss falls, and then narrower kernels."""
        for factor in (1 / SETTINGS.factor, SETTINGS.factor):
            best = middle
            for _ in range(SETTINGS.max_steps):
                kernel = replace(best.kernel, gamma=best.kernel.gamma * factor)
                new = self.evaluate(kernel, best if factor > 1 else None)
                if new is None or not new.C_searched or new.loss >= best.loss:
                    break
                best = new

    def widened(self, best: Candidate) -> Candidate:
        """Evaluate wider kernels of the same kind; return the last one that improves the loss clearly.

        The search ends at the first kernel that does not improve the loss by a standard error of the
        difference, both on the basis of the search and on a larger one. A small basis favours wide kernels,
        because the functions of a narrow kernel need more basis points.
        """
        before: np.ndarray | None = None
        for _ in range(SETTINGS.max_steps if best.loss >= SETTINGS.small_loss else 0):
            new = self.evaluate(replace(best.kernel, gamma=best.kernel.gamma / SETTINGS.factor), best)
            if new is None or self._gain(new.losses, best.losses) <= SETTINGS.better:
                break
            before = self._losses_on_larger_basis(best) if before is None else before
            after = self._losses_on_larger_basis(new)
            if self._gain(after, before) <= SETTINGS.better:
                break
            best, before = new, after
        return best

    def _losses_on_larger_basis(self, one: Candidate) -> np.ndarray:
        """Return the leave-one-out losses of a kernel with the best C for each basis, on the best basis."""
        return improve_on_larger_bases(one.bases, self.labels, one.evaluated).losses

    def best(self) -> Candidate:
        """Return the candidate with the smallest loss, among the candidates whose C was chosen for them."""
        return min((one for one in self.tried if one.C_searched), key=lambda one: one.loss)

    def evaluate(self, kernel: Kernel, before: Candidate | None = None) -> Candidate | None:
        """Evaluate a kernel and return it with its leave-one-out losses.

        If the evaluation fails, the error is appended to ``failed`` and the result is None. ``before`` is the
        candidate with the previous width or of the first kind, if its C is tried first. The search for the
        best C is then skipped if the kernel is clearly worse than ``before`` at the same C, or if a wider
        kernel is worse at three times the C. With this larger C and a third of gamma, the prior variance of
        the difference of two nearby outputs, about :math:`2 C (1 - k)`, is the same.
        """
        start, done = time.perf_counter(), len(self.tried) + len(self.failed)
        # The number of evaluations is unknown in advance; the progress assumes that two remain.
        self.report(f"leave-one-out with kernel {kernel.name}, gamma {kernel.gamma:.3g}", done / (done + 2))
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                bases = self.bases(kernel)
                evaluated, C_searched = self._fit(bases, before)
            losses = evaluated.losses
            if not np.isfinite(losses).all():
                raise FloatingPointError("the leave-one-out loss of the kernel is not finite")
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            self.failed.append((kernel, error))
            return None
        loss, standard_error = self.labels.observations.mean(losses)
        seconds = time.perf_counter() - start
        self.tried.append(
            Candidate(kernel, bases, evaluated, losses, loss, standard_error, seconds, C_searched)
        )
        return self.tried[-1]

    def bases(self, kernel: Kernel) -> LabelFreeBases:
        """Return nested label-free bases for a kernel; all points form one basis if there are at most 300."""
        points, sizes = replace(self.points, kernel=kernel), (SETTINGS.basis_size, SETTINGS.larger_basis_size)
        return LabelFreeBases(points, np.random.default_rng(self.seed), self.map_, sizes)

    def _fit(self, bases: LabelFreeBases, before: Candidate | None) -> tuple[EvaluatedFit, bool]:
        """Fit a model on the first of ``bases``; return it evaluated, and whether a search chose its C."""
        kernel, first = bases.points.kernel, [bases[0]]
        if before is not None:
            another = kernel.name != before.kernel.name
            wider = not another and kernel.gamma < before.kernel.gamma
            C = min(before.evaluated.C * (SETTINGS.factor if wider else 1.0), C_SEARCH.most)
            evaluated = fit_at(first, self.labels, C, before.evaluated.fit.f)
            if self._gain(evaluated.losses, before.losses) < (0.0 if wider else -SETTINGS.clearly_worse):
                return evaluated, False
            if another or wider:
                # A wider kernel may need a larger C, even if it was worse before.
                worse = (0.1,) if wider and 0.1 in before.evaluated.worse else ()
                return choose_C(first, self.labels, evaluated, worse=worse), True
        return choose_C(first, self.labels, self.tried[0].evaluated.C if self.tried else None), True

    def _gain(self, losses: np.ndarray, old: np.ndarray) -> float:
        """Return the decrease of the mean loss from ``old`` to ``losses``, divided by its standard error.

        The standard error is bounded below by 1% of the loss, the accuracy of the optimisation.
        """
        mean = self.labels.observations.mean
        gain, error = mean(old - losses)
        return gain / max(error, 1e-2 * mean(old)[0], 1e-12)


def sample_points(points: DistinctPoints, seed: int) -> DistinctPoints:
    """Return a sample of about 1500 points, with weights whose mean over the observations is 1.

    The sample contains the first 1500 points in an order that depends only on the contents of the rows and on
    ``seed``. It also contains at least ten points of each class, or all points of a class that has fewer.
    """
    if len(points) <= SETTINGS.most_points:
        return points
    return points.part(_subsample(points.weight, np.argsort(shuffled_keys(points.X, seed)))).relative()


def _subsample(weight: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return indices of the first 1500 points in the given order, and of the first ten of each class."""
    return first_of_each_class(weight, order, SETTINGS.most_points, SETTINGS.least_of_class)


def validation_losses(
    points: DistinctPoints, kernels: Sequence[Kernel], fit: Callable[[DistinctPoints], Predictor]
) -> np.ndarray | None:
    """Return the mean log-loss of each kernel on validation folds.

    The result is None if a class has too few observations for folds. About 1500 points are used. Folds are
    the same as in :class:`~sparseklr.CompactKLR`: they consist of observations, and copies of an observation
    stay in one fold.
    """
    points = points.part(_subsample(points.weight, np.arange(len(points))))
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
                warnings.simplefilter("ignore")  # the final fit to all rows issues the same warnings
                log_proba = fit(replace(train, kernel=kernel)).log_proba(test.X)
            totals[k] -= (test.weight * np.maximum(log_proba, np.log(np.finfo(float).tiny))).sum()
    return totals / total if total else None
