"""Kernels that are chosen: by leave-one-out inside a fit, or as the candidates of a search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from ..data import DistinctPoints, TrainingSet
from ..kernels import Kernel
from ..probability.copies import with_copies_marked
from ..probability.refit import Strength
from ..probability.width import MAX_STEPS, STEP, Candidate, choose_kernel, laplacian_like
from .parameters import has_gamma
from .training import GivenData, training_set

if TYPE_CHECKING:
    from .sparse_klr import SparseKLR

# The kernels that ``kernel="loo"`` stands for.
KINDS = "rbf", "laplacian"


def searches(kernel: Any, gamma: Any) -> bool:
    """Whether these parameters leave something to be chosen."""
    return has_gamma(kernel) and "loo" in (kernel, gamma)


def middle_kernels(rows: TrainingSet, kernel: str, gamma: Any) -> list[Kernel]:
    """Every kind of kernel that may be chosen, with the given width or that around which the search goes.

    ``rows`` have the kernel that belongs to ``"rbf"`` or to the only kind, with ``gamma="scale"`` for
    ``"loo"``.
    """
    first, n_features = rows.kernel, rows.X.shape[1]
    kinds = [replace(first, name=name) for name in (KINDS if kernel == "loo" else [kernel])]
    if gamma != "loo":
        return kinds
    return [laplacian_like(kind, n_features) if kind.name == "laplacian" else kind for kind in kinds]


@dataclass(frozen=True, eq=False)
class SearchedKernel:
    """The result of a search, with what the fit after it need not compute again.

    Attributes
    ----------
    rows : TrainingSet
        The training set, with the kernel that was chosen.
    points : DistinctPoints
        Its distinct rows with relative weights.
    tried : list of Candidate
        The first is the kernel that the search starts from.
    chosen : Candidate
    """

    rows: TrainingSet
    points: DistinctPoints
    tried: list[Candidate]
    chosen: Candidate

    @classmethod
    def of(
        cls, rows: TrainingSet, points: DistinctPoints, tried: list[Candidate], chosen: Candidate
    ) -> SearchedKernel:
        kernel = chosen.kernel
        return cls(replace(rows, kernel=kernel), replace(points, kernel=kernel), tried, chosen)

    @property
    def first(self) -> Candidate:
        return self.tried[0]

    @property
    def is_first(self) -> bool:
        return self.chosen is self.tried[0]

    def back_to_first(self) -> SearchedKernel:
        """The same search with the kernel that it started from."""
        return SearchedKernel.of(self.rows, self.points, self.tried, self.first)

    @property
    def strengths(self) -> list[Strength] | None:
        """Of the refit with this kernel; None where the search has looked at a part of the points."""
        whole = len(self.chosen.losses) == len(self.points.observations.point)
        return self.chosen.strengths if whole else None


def search_kernel(
    given: GivenData, *, kernel: Any, gamma: Any, seed: int, n_jobs: int | None, **parameters: Any
) -> SearchedKernel:
    """Choose the kernel by leave-one-out; where ``gamma`` is given only the kinds of kernels are compared."""
    rows = _unsearched(given, kernel, gamma, **parameters)
    points = with_copies_marked(DistinctPoints.of(rows, n_jobs), seed)
    kernels = middle_kernels(rows, kernel, gamma)
    chosen, tried = choose_kernel(points, kernels, climb=gamma == "loo", seed=seed, n_jobs=n_jobs)
    return SearchedKernel.of(rows, points, tried, chosen)


def _unsearched(given: GivenData, kernel: Any, gamma: Any, **parameters: Any) -> TrainingSet:
    name, width = KINDS[0] if kernel == "loo" else kernel, "scale" if gamma == "loo" else gamma
    return training_set(given, kernel=name, gamma=width, **parameters)


def width_path(tried: list[Candidate]) -> dict[str, np.ndarray]:
    """The kernels that were tried, as columns of a table."""
    return {
        "kernel": np.array([one.kernel.name for one in tried]),
        "gamma": np.array([one.kernel.gamma for one in tried]),
        "C": np.array([float(np.median([each.C for each in one.strengths])) for one in tried]),
        "loss": np.array([one.loss for one in tried]),
        "standard_error": np.array([one.error for one in tried]),
        "seconds": np.array([one.seconds for one in tried]),
    }


@dataclass(frozen=True)
class KernelOption:
    """A kernel among the candidates of a search.

    Attributes
    ----------
    kernel : str or callable
    gamma : float, "scale" or "auto"
        The width itself, as the user gave it.
    factor : float or None
        Instead of ``gamma``: the width in units of the middle one of the rows that a model is fitted to.
    """

    kernel: Any
    gamma: Any = None
    factor: float | None = None

    def applied(self, template: SparseKLR, given: GivenData) -> SparseKLR:
        """The estimator with this kernel, to be fitted to these rows."""
        gamma = self.gamma
        if self.factor is not None:
            rows = _unsearched(
                given,
                self.kernel,
                "loo",
                coef0=template.coef0,
                degree=template.degree,
                class_weight=template.class_weight,
            )
            gamma = self.factor * middle_kernels(rows, self.kernel, "loo")[0].gamma
        return clone(template).set_params(kernel=self.kernel, gamma=gamma)

    @property
    def may_go_on(self) -> bool:
        """Whether there is a next width beyond this one."""
        return self.factor is not None and STEP**-MAX_STEPS < self.factor < STEP**MAX_STEPS

    def next(self, direction: int) -> KernelOption:
        """The next smoother (-1) or narrower (+1) one."""
        assert self.factor is not None
        return replace(self, factor=self.factor * STEP**direction)


def kernel_options(template: SparseKLR) -> list[list[KernelOption]]:
    """What an estimator leaves open by ``"loo"``: every kind of kernel, with its middle width."""
    kinds = KINDS if template.kernel == "loo" else [template.kernel]
    if template.gamma == "loo":
        return [[KernelOption(kind, factor=1.0)] for kind in kinds]
    return [[KernelOption(kind, template.gamma)] for kind in kinds]
