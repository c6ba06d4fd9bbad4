r"""The kernel's width, and the kernel itself, by leave-one-out.

With a refit, the width matters more than any other parameter. A width is judged by the leave-one-out
log-loss that the penalised likelihood has on a basis picked without labels, with the C that is best for this
width (:func:`~.refit.choose_C`). No model is fitted twice, and no row is held out.

The widths that are tried lie around a middle one, in factors of three. The search climbs: from the middle to
smoother kernels and then to narrower ones, in each direction while the loss falls; a clear increase ends it,
or two slight ones in a row. Of the widths that are not clearly worse than the best the smoothest is taken,
whose models need fewer points. Two losses are compared point by point: points are what is independent, so a
difference has the standard error of its mean over the points.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._warn import warn
from ..data import DistinctPoints
from ..kernels import Kernel
from ..threads import Map, ordered_threads
from .calibration import log_probabilities
from .likelihood import Labels
from .pivots import LabelFreeBases
from .refit import choose_C

STEP = 3.0
MAX_STEPS = 6  # a factor of 729 in either direction
# In standard errors of the paired difference: what the next width must gain, what ends the climb, what a
# smoother kernel may lose in the end, and what another kind of kernel must gain. Chosen on two folds of the
# 12 sets of the paper with at most 1500 rows (benchmarks/width.py). The mean log-loss there was .9865 of that
# of gamma="scale" for SMOOTHER_MAY_LOSE = 0, .9836 for 0.25 and 0.5, .990 for 0.75; with the Laplacian kernel
# .983 for OTHER_KIND_MUST_GAIN = 0 and .961 for 0.5, 1 and 2.
MUST_GAIN = 0.01
CLEARLY_WORSE = 1.0
SMOOTHER_MAY_LOSE = 0.25
OTHER_KIND_MUST_GAIN = 1.0


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
        With relative weights; their kernel is not looked at.
    seed : int
        Draws the same points for the basis of every candidate, as far as the kernels agree.
    map_ : callable
        See :func:`~sparseklr.threads.ordered_threads`.
    """

    def __init__(self, points: DistinctPoints, seed: int, map_: Map = map) -> None:
        self.points, self.seed, self.map_ = points, seed, map_
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

    def climb(self, middle: Kernel) -> Candidate | None:
        """The best width of one kind of kernel; None if the middle has failed."""
        first = best = self.judge(middle)
        if first is None or best is None:
            return None
        family = [first]
        for factor in (1 / STEP, STEP):
            failures, last = 0, first
            for _ in range(MAX_STEPS):
                candidate = self.judge(replace(last.kernel, gamma=last.kernel.gamma * factor))
                if candidate is None:
                    break
                family.append(last := candidate)
                gain = self.gain(last, best)
                if gain > MUST_GAIN:
                    best, failures = last, 0
                else:
                    failures += 2 if gain < -CLEARLY_WORSE else 1
                if failures >= 2:
                    break
            if best is not first:  # the loss falls in this direction: no need to look into the other
                break
        smoother = [one for one in family if one.kernel.gamma <= best.kernel.gamma]
        near = [one for one in smoother if self.gain(one, best) >= -SMOOTHER_MAY_LOSE]
        return min(near, key=lambda one: one.kernel.gamma)


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
    kind is taken only if it is better by a standard error of the difference. A candidate that fails is left
    out with a warning; if no kernel is left, its error is raised.
    """
    best: Candidate | None = None
    with ordered_threads(n_jobs) as map_:
        search = WidthSearch(points, seed, map_)
        for kernel in kernels:
            found = search.climb(kernel) if climb else search.judge(kernel)
            if best is None or (found is not None and search.gain(found, best) > OTHER_KIND_MUST_GAIN):
                best = found
    if best is None:
        raise search.failed[0][1]
    for kernel, error in search.failed:
        warn(f"kernel={kernel.name!r} with gamma={kernel.gamma:.3g} was left out of the search: {error}")
    return best.kernel, search.tried
