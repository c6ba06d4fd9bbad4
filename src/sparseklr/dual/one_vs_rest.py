"""The binary problems of a classifier, each class against the rest, with a common kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .. import _core
from .._utils.messages import warn
from .._utils.progress import ProgressBar
from .._utils.threads import n_threads
from ..kernels import RowSource
from ..samples import Samples
from .margins import reachable_sum, solve_nu
from .problem import DualProblem, boxes
from .smo import Settings, Solution, Status, solve_above_bound


@dataclass(frozen=True, eq=False)
class BinarySolutions:
    """Solutions of binary problems on the same rows; after an interruption some are missing."""

    problems: list[DualProblem]
    solutions: list[Solution]

    @property
    def coef(self) -> np.ndarray:
        """``alpha * y``, (n_problems, n_rows); zero for unsolved problems."""
        coef = np.zeros((len(self.problems), len(self.problems[0].y)))
        for k, solution in enumerate(self.solutions):
            coef[k] = solution.alpha * self.problems[k].y
        return coef

    @property
    def intercept(self) -> np.ndarray:
        """(n_problems,); zero for unsolved problems."""
        missing = len(self.problems) - len(self.solutions)
        return np.array([solution.intercept for solution in self.solutions] + missing * [0.0])

    @property
    def margins(self) -> np.ndarray:
        """The margin lam of every problem."""
        return np.array([problem.lam for problem in self.problems])

    @property
    def n_iter(self) -> int:
        """Pair steps of all problems."""
        return sum(solution.n_iter for solution in self.solutions)

    @property
    def converged(self) -> bool:
        return len(self.solutions) == len(self.problems) and all(
            solution.status is Status.OPTIMAL for solution in self.solutions
        )

    @property
    def kkt_violation(self) -> float:
        """The maximum over the problems."""
        return max(solution.kkt_violation for solution in self.solutions)

    @property
    def relative_gap(self) -> float:
        """The maximum over the problems."""
        return max(solution.relative_gap for solution in self.solutions)

    @property
    def indefinite(self) -> bool:
        """Whether the kernel is not positive semidefinite, beyond the rounding errors of float32."""
        return min(solution.min_curvature for solution in self.solutions) < -1e-5

    def warn_of_small_nu(self, nu: float, tol: float) -> None:
        """Warn if the dual variables already sum to more than ``nu`` at ``lam=0``."""
        least = [solution.alpha.sum() for solution in np.array(self.solutions)[self.margins == 0]]
        if max(least, default=0.0) > nu * (1 + tol):
            n = len(self.problems)
            which = "" if n == 1 else f" in {len(least)} of the {n} binary problems"
            most = min(map(reachable_sum, self.problems))
            warn(
                f"nu={nu:g} is too small for a margin{which}: with lam=0, which is used, the dual variables "
                f"already sum to {max(least):g}. Use a nu between that and {most:g}, or lam=0."
            )


@dataclass(frozen=True, eq=False)
class BinarySolver:
    """Solves the binary problems of a training set in the variables ``alpha - bound``.

    See :func:`~sparseklr.dual.smo.solve_above_bound`. With ``show``, a progress bar is shown.
    """

    data: Samples
    settings: Settings
    cache_size: float | str = "auto"
    n_jobs: int | None = None
    show: bool = False

    @cached_property
    def row_source(self) -> RowSource:
        """Row source shared by all problems, created on first use."""
        return self.data.kernel.row_source(self.data.X, cache_size=self.cache_size)

    def problems(self, C: float, lam: float) -> list[DualProblem]:
        """One dual problem for each class (a single one for two classes)."""
        box = boxes(C, self.data.weight)
        bound = self.settings.bounds(box)
        return [DualProblem(y, box, bound, lam) for y in self.data.signs()]

    def part(self, indices: np.ndarray) -> BinarySolver:
        """The solver for the rows at ``indices``."""
        return replace(self, data=self.data.part(indices))

    def solve(self, problem: DualProblem, start: np.ndarray | None = None, title: str = "") -> Solution:
        """Solve a problem from zero, which needs no kernel row, or from the projection of ``start``."""
        above, F = self._start(problem, start)
        tolerance = self.settings.tolerance(problem.lam)
        with ProgressBar(title, tolerance, self.show) as progress:
            return solve_above_bound(
                self.row_source,
                problem,
                self.settings,
                above=above,
                F=F,
                n_jobs=self.n_jobs,
                callback=progress if self.show else None,
            )

    def solve_nu(
        self,
        problem: DualProblem,
        nu: float,
        start: np.ndarray | None = None,
        lam: float = 0.0,
        title: str = "",
    ) -> tuple[DualProblem, Solution]:
        """Find the margin at which the dual variables sum to ``nu``, starting from ``lam`` and ``start``.

        Returns the problem with that margin, and its solution.
        """
        above, F = self._start(problem, start)
        with ProgressBar(title, self.settings.tol, self.show) as progress:
            return solve_nu(
                self.row_source,
                problem,
                self.settings,
                nu,
                above=above,
                F=F,
                lam=lam,
                n_jobs=self.n_jobs,
                callback=progress if self.show else None,
            )

    def product(self, coef: np.ndarray) -> np.ndarray:
        """``K @ coef``, computed from the kernel rows of the solver in their precision."""
        return _core.row_sum(self.row_source, coef, n_threads(self.n_jobs))

    def _start(self, problem: DualProblem, start: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The feasible point nearest to ``start``, minus the lower bound, and its F."""
        if start is None or not start.any():
            return np.zeros(len(problem.y)), np.zeros(len(problem.y))
        shifted = DualProblem(problem.y, problem.box - 2 * problem.bound, 0 * problem.bound, problem.lam)
        above = shifted.project(start)
        return above, self.product(above * problem.y)
