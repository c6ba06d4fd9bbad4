"""The binary problems of a classifier: every class against the rest, over one source of kernel rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .. import _core
from .._warn import warn
from ..data import TrainingSet
from ..kernels import RowSource, n_threads
from ..progress import ProgressBar
from .nu import reachable_sum, solve_nu
from .problem import DualProblem, boxes
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
    def margins(self) -> np.ndarray:
        """lam of every problem."""
        return np.array([problem.lam for problem in self.problems])

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

    def warn_of_small_nu(self, nu: float, tol: float) -> None:
        """Warn where no margin is small enough for ``nu``, and say which sums can be reached."""
        least = [solution.alpha.sum() for solution in np.array(self.solutions)[self.margins == 0]]
        if max(least, default=0.0) > nu * (1 + tol):
            n = len(self.problems)
            which = "" if n == 1 else f" in {len(least)} of the {n} binary problems"
            most = min(map(reachable_sum, self.problems))
            warn(
                f"nu={nu:g} is too small for a margin{which}: with lam=0, which is used, the dual variables "
                f"add up to {max(least):g} already. Give a nu between that and {most:g}, or lam=0."
            )


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
        return self.data.kernel.row_source(self.data.X, cache_size=self.cache_size)

    def problems(self, C: float, lam: float) -> list[DualProblem]:
        """One dual for each class (a single one for two classes)."""
        box = boxes(C, self.data.weight)
        bound = self.settings.bounds(box)
        return [DualProblem(y, box, bound, lam) for y in self.data.signs()]

    def part(self, indices: np.ndarray) -> BinarySolver:
        """The same for some of the rows."""
        return replace(self, data=self.data.part(indices))

    def solve(self, problem: DualProblem, start: np.ndarray | None = None, title: str = "") -> Solution:
        """Solve from zero, which needs no kernel row, or from the nearest feasible point to ``start``.

        A cascade was tried and left out (Graf et al., NIPS 2004): four parts, their supports together, and
        all rows from there. In CPU seconds against the direct solve: 49 000 rows of waveform 7.0 and 7.4, of
        ring 4.6 and 4.4; 30 000 of waveform 2.0 and 3.2. The last solve takes most of it: rows that were in
        no support still have to be looked at.
        """
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
        """Find the margin at which the dual variables add up to ``nu``; the problem is returned with it.

        The search begins at the margin ``lam`` and at ``start``.
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
        """``K @ coef``, made of the very rows that the solver reads, in their precision."""
        return _core.row_sum(self.row_source, coef, n_threads(self.n_jobs))

    def _start(self, problem: DualProblem, start: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The nearest feasible point, less the lower bound, and its F."""
        if start is None or not start.any():
            return np.zeros(len(problem.y)), np.zeros(len(problem.y))
        room = DualProblem(problem.y, problem.box - 2 * problem.bound, 0 * problem.bound, problem.lam)
        above = room.project(start)
        return above, self.product(above * problem.y)
