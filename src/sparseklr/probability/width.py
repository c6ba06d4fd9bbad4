r"""The kernel's width, and the kernel itself, by leave-one-out.

With a refit, the width matters more than any other parameter. A kernel is judged by what the refit itself
would say of it: the leave-one-out log-loss of the penalised likelihood on a label-free basis, with the C
that is best for this kernel (:func:`~.refit.choose_C`). Of many points 1500 stand for all.

The widths of a kind lie around its middle one, in factors of three. The search climbs from the middle to
smoother kernels while the loss falls, or else to narrower ones. Of another kind of kernel only the middle
is looked at, unless that is at least as good as the first.

The first kernel, with its middle width, is left only for one that is better by two and a half standard
errors. Two losses are compared point by point: points are what is independent, so a difference has the
standard error of its mean over the points. (That error does not count that the best of several is flattered
by having been chosen, and that models which differ by a few points are alike.) Three quarters of one are
enough for a smoother one of the same kind, since the approximation flatters narrow kernels, but only where
all points are looked at: the more points, the narrower is the best kernel, so a part of them flatters smooth
ones. Of the candidates that have gained as much, the one of least loss is taken.

What was tried, on two 5-fold splits of the 12 sets of the paper with at most 2500 rows: the first to choose
constants by, the second to judge them. The mean log-loss against that of ``gamma="scale"``, and the worst
set:

====================================  ====================  ======================
rule                                  first split           second split
====================================  ====================  ======================
width and kernel, as here             .951 (sonar 1.02)     .973 (sonar 1.01)
the same, 2.5 errors for all          .954 (sonar 1.02)     .972 (sonar 1.01)
the same, 2 errors for all            .958 (sonar 1.06)     .980 (sonar 1.08)
the same, 3 errors for all            .949 (none above 1)   .978 (none above 1)
width alone, as here                  .970 (spambase 1.02)  .990 (sonar 1.01)
by 5 folds, width and kernel          .944 (none above 1)   .968 (sonar 1.01)
with bases of 200 points              .958 (wisconsin 1.19) .969 (sonar 1.01)
best on the test rows, by set                               .958; width alone .985
====================================  ====================  ======================

Where a rule fails it is mostly by noise: on ionosphere and sonar the training rows of a fold prefer a width
that its test rows do not, whether they are left out one by one or in folds. Folds would choose slightly
better, in more than a third more of the time. A smoother kernel that gains less than 2.5 errors matters
little on the 12 sets, but on the breast cancer data (standardised) the log-loss is .078 instead of .085. For
half an error instead of three quarters, wisconsin is at 1.19 on the first split; and with all rows of
spambase and ring, half an error from a part of the points costs 10% and 4%.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._warn import warn
from ..data import DistinctPoints, shuffled_keys
from ..kernels import Kernel
from ..threads import Map, ordered_threads
from .calibration import log_probabilities
from .likelihood import Labels
from .pivots import LabelFreeBases
from .refit import choose_C

STEP = 3.0
MAX_STEPS = 6  # a factor of 729 in either direction
# At most so many points are looked at, with at least so many of each class.
MOST_POINTS, LEAST_OF_CLASS = 1500, 10
# In standard errors of the paired difference: what a kernel must gain on the first one to be taken, and what
# a smoother one of the same kind must where all points are looked at.
MUST_GAIN, SMOOTHER_MUST_GAIN = 2.5, 0.75


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel that was tried, with what leave-one-out says of it."""

    kernel: Kernel
    C: np.ndarray  # (n_outputs,), the best for each one-vs-rest problem
    losses: np.ndarray  # leave-one-out log-loss of each point
    loss: float  # their weighted mean
    error: float  # and its standard error
    seconds: float


class WidthSearch:
    """Candidates for the kernel of some points, each judged once.

    Parameters
    ----------
    points : DistinctPoints
        Their kernel is not looked at.
    seed : int
        Draws those that stand for all, and the basis.
    map_ : callable
        See :func:`~sparseklr.threads.ordered_threads`.
    """

    def __init__(self, points: DistinctPoints, seed: int, map_: Map = map) -> None:
        self.points, self.seed, self.map_ = some_points(points, seed), seed, map_
        self.smoother_must_gain = SMOOTHER_MUST_GAIN if len(self.points) == len(points) else MUST_GAIN
        points = self.points
        n_classes = points.weight.shape[1]
        self.outputs = [Labels.of(points.weight, k) for k in (range(n_classes) if n_classes > 2 else (1,))]
        self.tried: list[Candidate] = []
        self.failed: list[tuple[Kernel, Exception]] = []

    def judge(self, kernel: Kernel) -> Candidate | None:
        """The leave-one-out loss of a kernel; None, with a note in ``failed``, if it has none."""
        start = time.perf_counter()
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                losses, C = self._leave_one_out(kernel)
            if not np.isfinite(losses).all():
                raise FloatingPointError("its leave-one-out loss is not finite")
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            self.failed.append((kernel, error))
            return None
        loss, standard_error = self.outputs[0].mean(losses)
        seconds = time.perf_counter() - start
        self.tried.append(Candidate(kernel, C, losses, loss, standard_error, seconds))
        return self.tried[-1]

    def _leave_one_out(self, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
        points = replace(self.points, kernel=kernel)
        bases = LabelFreeBases(points, np.random.default_rng(self.seed), self.map_)
        # A search for C that starts near that of another width may end elsewhere than that of the refit.
        chosen = [choose_C(bases, labels) for labels in self.outputs]
        logarithms = log_probabilities(np.column_stack([loo for _, loo in chosen]))
        losses = -(points.weight * logarithms).sum(axis=1) / points.weight.sum(axis=1)
        return losses, np.array([fit.C for fit, _ in chosen])

    def gain(self, new: Candidate, old: Candidate) -> float:
        """How much lower the loss of ``new`` is, in standard errors of the difference.

        What is within the accuracy of the fits counts as little: the error is taken to be at least that.
        """
        gain, error = self.outputs[0].mean(old.losses - new.losses)
        return gain / max(error, 1e-4 * old.loss, 1e-12)

    def climb(self, middle: Candidate) -> None:
        """Judge the widths of one kind of kernel, from its middle on while the loss falls."""
        for factor in (1 / STEP, STEP):
            best = middle
            for _ in range(MAX_STEPS):
                new = self.judge(replace(best.kernel, gamma=best.kernel.gamma * factor))
                if new is None or new.loss >= best.loss:
                    break
                best = new
            if best is not middle:  # the loss falls in this direction: no need to look into the other
                break

    def best(self, first: Candidate) -> Candidate:
        """Of the first candidate and all that are clearly better, the one of least loss."""

        def is_clearly_better(one: Candidate) -> bool:
            smoother = one.kernel.name == first.kernel.name and one.kernel.gamma < first.kernel.gamma
            return self.gain(one, first) > (self.smoother_must_gain if smoother else MUST_GAIN)

        return min(filter(is_clearly_better, self.tried), key=lambda one: one.loss, default=first)


def some_points(points: DistinctPoints, seed: int) -> DistinctPoints:
    """The points that stand for all, with relative weights; which they are depends on their contents only.

    At least ten of each class are among them, or all if it has fewer.
    """
    if len(points) <= MOST_POINTS:
        return points.relative()
    order = np.argsort(shuffled_keys(points.X, seed))
    of_class = [order[points.weight[order, k] > 0][:LEAST_OF_CLASS] for k in range(points.weight.shape[1])]
    return points.part(np.unique(np.concatenate([order[:MOST_POINTS], *of_class]))).relative()


def laplacian_like(rbf: Kernel, n_features: int) -> Kernel:
    r"""The Laplacian kernel whose width belongs to that of an rbf kernel.

    For :math:`\gamma = 1/(p\sigma^2)`, p the number of features, it has :math:`1/(p\sigma)`: both are then
    the same for any unit of the features.
    """
    return replace(rbf, name="laplacian", gamma=float(np.sqrt(rbf.gamma / n_features)))


def choose_kernel(
    points: DistinctPoints,
    kernels: Sequence[Kernel],
    *,
    climb: bool = True,
    seed: int = 0,
    n_jobs: int | None = None,
) -> tuple[Kernel, list[Candidate]]:
    """The kernel that leave-one-out chooses, and all that were tried.

    ``kernels`` are of different kinds; of each the width is chosen around the given one if ``climb``. The
    first is kept unless another is clearly better. A candidate that fails is left out with a warning; if no
    kernel is left, its error is raised.
    """
    first: Candidate | None = None
    with ordered_threads(n_jobs) as map_:
        search = WidthSearch(points, seed, map_)
        for kernel in kernels:
            middle = search.judge(kernel)
            first = first or middle
            if climb and middle is not None and first is not None and middle.loss <= first.loss:
                search.climb(middle)
    if first is None:
        raise search.failed[0][1]
    for kernel, error in search.failed:
        warn(f"kernel={kernel.name!r} with gamma={kernel.gamma:.3g} was left out of the search: {error}")
    return search.best(first).kernel, search.tried
