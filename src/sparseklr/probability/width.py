r"""The kernel's width, and the kernel itself, by leave-one-out.

With a refit, the width matters more than any other parameter. A kernel is judged by what the refit itself
would say of it: the leave-one-out log-loss of the penalised likelihood on a label-free basis, with the C
that is best for this kernel (:func:`~.refit.choose_C`). Of many points 1500 stand for all.

The widths of a kind lie around its middle one, in factors of three. The search climbs from the middle to
smoother kernels while the loss falls, or else to narrower ones. Of another kind of kernel only the middle
is looked at, unless that is at least as good as the first. A loss below a thousandth ends the search.

Most of the time goes into the choice of C. It is not made for a narrower kernel that is worse by two standard
errors with the C of the width before. (On 3 folds of the 12 sets, features in [0, 1] or standardised, that
ended 57 of 72 climbs to narrower kernels and changed no choice; of 90 boards, spirals and rings it changed
2. With one error it changed 7 of these, by giving up fine structure too early. For smoother kernels the best
C is often larger, and a look at borrowed ones costs more than it saves.) Where all points are looked at, the
refit takes the C of the kernel chosen from here.

The kernel of least loss is chosen. Leave-one-out may flatter it, so the estimator compares it with the first
one on validation folds (:mod:`~sparseklr.estimators.confirmation`). Thresholds of standard errors that a
kernel had to gain were tried instead: on the 43 tables of the arena (two splits, at most 1500 rows) the
geometric mean of the log-losses against ``gamma="scale"`` was .918 with them and is .815 by validation (.992
and .912 on the half of the sets that may choose a rule, .846 and .724 on the other; worst set cleveland,
1.41).

A third kind, the quadratic kernel :math:`(\gamma x^\top z + 1)^2`, was tried under the rule of thresholds on
the 12 sets of the paper: no gain, in half more of the time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._warn import warn
from ..data import DistinctPoints
from ..equal_rows import shuffled_keys
from ..kernels import Kernel, NonFiniteKernel, naming_row
from ..threads import Map, ordered_threads
from .calibration import log_probabilities
from .likelihood import Labels
from .pivots import LabelFreeBases
from .refit import Strength, binary_labels, choose_strengths, fit_at

STEP = 3.0
MAX_STEPS = 6  # a factor of 729 in either direction
# At most so many points are looked at, with at least so many of each class.
MOST_POINTS, LEAST_OF_CLASS = 1500, 10
# A narrower kernel that is worse than the width before by this many standard errors of the paired difference,
# with the C of that, is not considered further.
CLEARLY_WORSE = 2.0
# A loss that leaves nothing to gain.
SMALL_LOSS = 1e-3


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel that was tried, with what leave-one-out says of it."""

    kernel: Kernel
    strengths: list[Strength]  # of each one-vs-rest problem
    losses: np.ndarray  # leave-one-out log-loss of each point
    loss: float  # their weighted mean
    error: float  # and its standard error
    seconds: float
    settled: bool = True  # the strengths are the best for this kernel


class WidthSearch:
    """Candidates for the kernel of some points, each judged once.

    Parameters
    ----------
    points : DistinctPoints
        Of relative weights. Their kernel is not looked at.
    seed : int
        Draws those that stand for all, and the basis.
    map_ : callable
        See :func:`~sparseklr.threads.ordered_threads`.
    """

    def __init__(self, points: DistinctPoints, seed: int, map_: Map = map) -> None:
        self.points, self.seed, self.map_ = some_points(points, seed), seed, map_
        n_classes = points.weight.shape[1]
        self.outputs = binary_labels(self.points, n_classes if n_classes > 2 else 1)
        self.tried: list[Candidate] = []
        self.failed: list[tuple[Kernel, Exception]] = []

    def judge(self, kernel: Kernel, before: Candidate | None = None) -> Candidate | None:
        """The leave-one-out loss of a kernel; None, with a note in ``failed``, if it has none.

        Its own strengths are not looked for if it is clearly worse than the width ``before`` with those of
        that.
        """
        start = time.perf_counter()
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                strengths, losses, settled = self._look_at(kernel, before)
            if not np.isfinite(losses).all():
                raise FloatingPointError("its leave-one-out loss is not finite")
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            self.failed.append((kernel, error))
            return None
        loss, standard_error = self.outputs[0].observations.mean(losses)
        seconds = time.perf_counter() - start
        self.tried.append(Candidate(kernel, strengths, losses, loss, standard_error, seconds, settled))
        return self.tried[-1]

    def _look_at(self, kernel: Kernel, before: Candidate | None) -> tuple[list[Strength], np.ndarray, bool]:
        """Strengths of a kernel, its leave-one-out losses, and whether the strengths are its own."""
        inner = self.map_ if len(self.outputs) == 1 else map
        points = replace(self.points, kernel=kernel)
        bases = LabelFreeBases(points, np.random.default_rng(self.seed), inner)
        if before is not None and kernel.gamma > before.kernel.gamma:

            def borrowed(labels: Labels, one: Strength) -> Strength:
                return fit_at(bases, labels, one.C, one.fit.f)

            strengths = list(self.map_(borrowed, self.outputs, before.strengths))
            losses = self._losses(strengths)
            if self._gain(losses, before) < -CLEARLY_WORSE:
                return strengths, losses, False
        # A search that starts at the strengths of another width may end elsewhere than that of the refit.
        strengths = choose_strengths(bases, self.outputs, self.map_)
        return strengths, self._losses(strengths), True

    def _losses(self, strengths: list[Strength]) -> np.ndarray:
        logarithms = log_probabilities(np.column_stack([one.loo for one in strengths]))
        weight = self.points.observations.weight
        losses: np.ndarray = -(weight * logarithms).sum(axis=1) / weight.sum(axis=1)
        return losses

    def _gain(self, losses: np.ndarray, old: Candidate) -> float:
        """How much lower losses are than those of a candidate, in standard errors of the difference.

        What is within the accuracy of the fits counts as little: the error is taken to be at least that.
        """
        gain, error = self.outputs[0].observations.mean(old.losses - losses)
        return gain / max(error, 1e-4 * old.loss, 1e-12)

    def climb(self, middle: Candidate) -> None:
        """Judge the widths of one kind of kernel, from its middle on while the loss falls."""
        for factor in (1 / STEP, STEP):
            best = middle
            for _ in range(MAX_STEPS):
                new = self.judge(replace(best.kernel, gamma=best.kernel.gamma * factor), best)
                if new is None or not new.settled or new.loss >= best.loss:
                    break
                best = new
            if best is not middle:  # the loss falls in this direction: no need to look into the other
                break

    def best(self) -> Candidate:
        """The candidate of least loss."""
        return min((one for one in self.tried if one.settled), key=lambda one: one.loss)


def some_points(points: DistinctPoints, seed: int) -> DistinctPoints:
    """The points that stand for all (of relative weights); which they are depends on their contents only.

    At least ten of each class are among them, or all if it has fewer.
    """
    if len(points) <= MOST_POINTS:
        return points
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
) -> tuple[Candidate, list[Candidate]]:
    """The kernel that leave-one-out chooses, and all that were tried.

    ``kernels`` are of different kinds; of each the width is chosen around the given one if ``climb``. The
    first that was tried is the first of the kernels that can be computed. A candidate that fails is left out
    with a warning; if no kernel is left, its error is raised.
    """
    first: Candidate | None = None
    with ordered_threads(n_jobs) as map_:
        search = WidthSearch(points, seed, map_)
        for kernel in kernels:
            middle = search.judge(kernel)
            first = first or middle
            if first is not None and first.loss < SMALL_LOSS:
                break
            if climb and middle is not None and first is not None and middle.loss <= first.loss:
                search.climb(middle)
    if first is None:
        raise search.failed[0][1]
    for kernel, error in search.failed:
        why = naming_row(error, None) if isinstance(error, NonFiniteKernel) else error
        warn(f"kernel={kernel.name!r} with gamma={kernel.gamma:.3g} was left out of the search: {why}")
    return search.best(), search.tried
