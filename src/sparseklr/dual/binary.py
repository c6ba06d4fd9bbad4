"""The binary problems of a classifier: every class against the rest, over one source of kernel rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..data import TrainingSet
from ..kernels import RowSource
from ..progress import ProgressBar
from .nu import solve_nu
from .problem import DualProblem
from .solver import Settings, Solution, Status, solve_above_bound


@dataclass(frozen=True, eq=False)
class BinarySolutions:
    """Solutions of binary problems over the same rows; fewer than problems after an interruption."""

    problems: list[DualProblem]
    solutions: list[Solution]

    @property
    def coef(self) -> np.ndarray:
        """``alpha * y``, (n_problems, n_rows); zero where a problem was not solved."""
        coef = np.zeros((len(self.problems), len(self.problems[0].y)))
        for k, solution in enumerate(self.solutions):
            coef[k] = solution.alpha * self.problems[k].y
        return coef

    @property
    def intercept(self) -> np.ndarray:
        """(n_problems,); zero where a problem was not solved."""
        missing = len(self.problems) - len(self.solutions)
        return np.array([solution.intercept for solution in self.solutions] + missing * [0.0])

    @property
    def lam(self) -> float | np.ndarray:
        """The margin; one for each problem where they differ."""
        margins = np.array([problem.lam for problem in self.problems])
        return margins if np.ptp(margins) else float(margins[0])

    @property
    def converged(self) -> bool:
        return len(self.solutions) == len(self.problems) and all(
            solution.status is Status.OPTIMAL for solution in self.solutions
        )

    @property
    def kkt_violation(self) -> float:
        """The largest of the problems."""
        return max(solution.kkt_violation for solution in self.solutions)

    @property
    def relative_gap(self) -> float:
        """The largest of the problems."""
        return max(solution.relative_gap for solution in self.solutions)

    @property
    def indefinite(self) -> bool:
        """Whether the kernel was seen to be not positive semidefinite; rounding in float32 does not count."""
        return min(solution.min_curvature for solution in self.solutions) < -1e-5


@dataclass(frozen=True, eq=False)
class BinarySolver:
    """Solves the binary problems of a training set, the lower bound counted as zero.

    See :func:`~sparseklr.dual.solver.solve_above_bound` for what that means. With ``show`` a bar shows how
    far a solve is.
    """

    data: TrainingSet
    settings: Settings
    cache_size: float | str = "auto"
    n_jobs: int | None = None
    show: bool = False

    @cached_property
    def row_source(self) -> RowSource:
        """Made when it is first needed, and then the same for every problem."""
        return self.data.kernel.row_source(self.data.X, cache_size=self.cache_size, n_jobs=self.n_jobs)

    def problems(self, C: float, lam: float) -> list[DualProblem]:
        """One dual for each class (a single one for two classes)."""
        box = C * self.data.weight
        bound = self.settings.bounds(box)
        return [DualProblem(y, box, bound, lam) for y in self.data.signs()]

    def part(self, indices: np.ndarray) -> BinarySolver:
        """The same for some of the rows."""
        return replace(self, data=self.data.part(indices))

    def solve(self, problem: DualProblem, start: np.ndarray | None = None, title: str = "") -> Solution:
        """Solve from zero, which needs no kernel row, or from the nearest feasible point to ``start``."""
        above, F = np.zeros(len(problem.y)), np.zeros(len(problem.y))
        if start is not None and start.any():
            free = DualProblem(problem.y, problem.box - 2 * problem.bound, 0 * problem.bound, problem.lam)
            above = free.project(start)
            F = self._outputs(above * problem.y)
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

    def solve_nu(self, problem: DualProblem, nu: float, title: str = "") -> tuple[DualProblem, Solution]:
        """Find the margin at which the dual variables add up to ``nu``; the problem is returned with it."""
        with ProgressBar(title, self.settings.tol, self.show) as progress:
            return solve_nu(
                self.row_source,
                problem,
                self.settings,
                nu,
                n_jobs=self.n_jobs,
                callback=progress if self.show else None,
            )

    def _outputs(self, coef: np.ndarray) -> np.ndarray:
        """``K @ coef`` for the rows of the training set."""
        data, used = self.data, np.flatnonzero(coef)
        queries = data.X[:, used] if data.kernel.precomputed else data.X
        return data.kernel.sum(queries, data.X[used], coef[None, used], n_jobs=self.n_jobs)[:, 0]
