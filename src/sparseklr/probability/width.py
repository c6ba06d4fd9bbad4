r"""The kernel's width, and the kernel itself, by leave-one-out.

With a refit, the width matters more than any other parameter. A width is judged by the leave-one-out
log-loss that the penalised likelihood has with the C that is best for this width (:func:`~.refit.choose_C`).
No model is fitted twice, and no row is held out.

The basis of these likelihoods is larger than that of the refit's own choice of C, and of the same size for
all widths: a small one, drawn without labels, hides what a narrow kernel can do (spambase, 3681 rows: on
bases that end at 400 points leave-one-out prefers a width of the log-loss .202 to ``"scale"`` with .157).
Of many points 6000 stand for all. With 600 points, all of them the basis, the choice took a quarter of the
time, but it was too noisy (ring: up to 1.16 times the log-loss of ``"scale"``; with 3000 points 1.08).

The widths that are tried lie around a middle one, in factors of three. The search climbs: from the middle to
smoother kernels and then to narrower ones, in each direction while the loss falls by half a standard error; a
clear increase ends it, or two steps in a row that gain nothing. Two losses are compared point by point:
points are what is independent, so a difference has the standard error of its mean over the points.
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
from .pivots import random_basis
from .refit import choose_C

STEP = 3.0
MAX_STEPS = 6  # a factor of 729 in either direction
# At most so many points are looked at, with at least so many of each class. A third of them is the basis, but
# not less than the first number and not more than the second.
MOST_POINTS, LEAST_OF_CLASS = 6000, 10
BASIS_POINTS = 200, 600
# In standard errors of the paired difference: what the next width must gain, what ends the climb, what
# another kind of kernel must gain, and how much worse its middle may be for a climb. Chosen on two folds of
# the 12 sets of the paper with at most 1500 rows, two draws of 600 points: the mean log-loss was .992 and
# .984 of that of gamma="scale" for MUST_GAIN = 0.5, .990 and .989 for 0.1, .994 and .990 for 1; with the
# Laplacian kernel .968 and .957 for OTHER_KIND_MUST_GAIN = 2, .970 and .960 for 1.
MUST_GAIN = 0.5
CLEARLY_WORSE = 1.0
OTHER_KIND_MUST_GAIN = 2.0
FAR_WORSE = 3.0


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
        points = self.points
        n_classes = points.weight.shape[1]
        self.outputs = [Labels.of(points.weight, k) for k in (range(n_classes) if n_classes > 2 else (1,))]
        self.tried: list[Candidate] = []
        self.failed: list[tuple[Kernel, Exception]] = []

    def judge(self, kernel: Kernel, near: Candidate | None = None) -> Candidate | None:
        """The leave-one-out loss of a kernel; None, with a note in ``failed``, if it has none.

        C is looked for around that of a candidate ``near``.
        """
        start = time.perf_counter()
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                losses, C = self._leave_one_out(kernel, near)
            if not np.isfinite(losses).all():
                raise FloatingPointError("its leave-one-out loss is not finite")
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            self.failed.append((kernel, error))
            return None
        loss, standard_error = self.outputs[0].mean(losses)
        seconds = time.perf_counter() - start
        self.tried.append(Candidate(kernel, C, losses, loss, standard_error, seconds))
        return self.tried[-1]

    def _leave_one_out(self, kernel: Kernel, near: Candidate | None) -> tuple[np.ndarray, np.ndarray]:
        points = replace(self.points, kernel=kernel)
        n, rng = len(points), np.random.default_rng(self.seed)
        size = int(np.clip(n // 3, *BASIS_POINTS))
        bases = [random_basis(points, np.arange(n), size, rng, self.map_, tolerance=1e-6).whiten()]
        start = np.full(len(self.outputs), 10.0) if near is None else near.C
        chosen = [choose_C(bases, labels, float(C)) for labels, C in zip(self.outputs, start, strict=True)]
        logarithms = log_probabilities(np.column_stack([loo for _, loo in chosen]))
        losses = -(points.weight * logarithms).sum(axis=1) / points.weight.sum(axis=1)
        return losses, np.array([fit.C for fit, _ in chosen])

    def gain(self, new: Candidate, old: Candidate) -> float:
        """How much lower the loss of ``new`` is, in standard errors of the difference.

        What is within the accuracy of the fits counts as little: the error is taken to be at least that.
        """
        gain, error = self.outputs[0].mean(old.losses - new.losses)
        return gain / max(error, 1e-4 * old.loss, 1e-12)

    def climb(self, middle: Kernel, other: Candidate | None = None) -> Candidate | None:
        """The best width of one kind of kernel; None if the middle has failed.

        Where the middle is far worse than the best of another kind, the climb is not worth it.
        """
        first = best = self.judge(middle)
        if first is None or best is None or (other is not None and self.gain(first, other) < -FAR_WORSE):
            return first
        for factor in (1 / STEP, STEP):
            failures, last = 0, first
            for _ in range(MAX_STEPS):
                candidate = self.judge(replace(last.kernel, gamma=last.kernel.gamma * factor), last)
                if candidate is None:
                    break
                last = candidate
                gain = self.gain(last, best)
                if gain > MUST_GAIN:
                    best, failures = last, 0
                else:
                    failures += 2 if gain < -CLEARLY_WORSE else 1
                if failures >= 2:
                    break
            if best is not first:  # the loss falls in this direction: no need to look into the other
                break
        return best


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
    """The kernel of least leave-one-out loss, and all that were tried.

    ``kernels`` are of different kinds; of each the width is chosen around the given one if ``climb``. A later
    kind is taken only if it is better by two standard errors of the difference. A candidate that fails is
    left out with a warning; if no kernel is left, its error is raised.
    """
    best: Candidate | None = None
    with ordered_threads(n_jobs) as map_:
        search = WidthSearch(points, seed, map_)
        for kernel in kernels:
            found = search.climb(kernel, best) if climb else search.judge(kernel)
            if best is None or (found is not None and search.gain(found, best) > OTHER_KIND_MUST_GAIN):
                best = found
    if best is None:
        raise search.failed[0][1]
    for kernel, error in search.failed:
        warn(f"kernel={kernel.name!r} with gamma={kernel.gamma:.3g} was left out of the search: {error}")
    return best.kernel, search.tried
