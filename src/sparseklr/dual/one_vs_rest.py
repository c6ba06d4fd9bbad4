"""Binary problems of a classifier, one for each class against the other classes, with a common kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import _core
from .._utils.messages import warn
from .._utils.progress import ProgressBar
from .._utils.threads import n_threads
from .margins import reachable_sum, solve_nu
from .problem import DualProblem, boxes
from .smo import SampleSolver, Solution, solve_above_bound


@dataclass(frozen=True, eq=False)
class BinarySolutions:
    """Solutions of binary problems on the same training rows."""

    problems: list[DualProblem]
    solutions: list[Solution]

    @property
    def coef(self) -> np.ndarray:
        """Coefficients ``alpha * y`` as an array of shape (n_problems, n_rows)."""
        pairs = zip(self.problems, self.solutions, strict=True)
        return np.array([solution.alpha * problem.y for problem, solution in pairs])

    @property
    def intercept(self) -> np.ndarray:
        """Intercepts as an array of shape (n_problems,)."""
        return np.array([solution.intercept for solution in self.solutions])

    @property
    def margins(self) -> np.ndarray:
        """The margins lam of the problems as an array of shape (n_problems,)."""
        return np.array([problem.lam for problem in self.problems])

    @property
    def n_iter(self) -> int:
        """Number of pair steps, summed over the problems."""
        return sum(solution.n_iter for solution in self.solutions)

    @property
    def converged(self) -> bool:
        """Whether all problems were solved to the required tolerance."""
        return all(solution.converged for solution in self.solutions)

    @property
    def kkt_violation(self) -> float:
        """The largest violation of the optimality conditions over the problems."""
        return max(solution.kkt_violation for solution in self.solutions)

    @property
    def relative_gap(self) -> float:
        """The largest relative duality gap over the problems."""
        return max(solution.relative_gap for solution in self.solutions)

    @property
    def indefinite(self) -> bool:
        """Whether the kernel is not positive semidefinite, beyond the rounding errors of float32."""
        return any(solution.indefinite for solution in self.solutions)

    def warn_about_small_nu(self, nu: float, tol: float) -> None:
        """Warn if the dual variables sum to more than ``nu`` even at ``lam=0``."""
        least = [solution.alpha.sum() for solution in np.array(self.solutions)[self.margins == 0]]
        if max(least, default=0.0) > nu * (1 + tol):
            n = len(self.problems)
            which = "" if n == 1 else f" in {len(least)} of the {n} binary problems"
            most = min(map(reachable_sum, self.problems))
            warn(
                f"nu={nu:g} is too small for a positive margin{which}: at lam=0, the dual variables "
                f"already sum to {max(least):g}, so lam=0 is used. Use a nu between {max(least):g} and "
                f"{most:g}, or set lam=0."
            )


@dataclass(frozen=True, eq=False)
class BinarySolver(SampleSolver):
    """Solver of the binary problems of a training set, in the variables ``alpha - bound``.

    See :func:`~sparseklr.dual.smo.solve_above_bound`.
    """

    def problems(self, C: float, lam: float) -> list[DualProblem]:
        """Return one dual problem for each class, or a single problem for two classes."""
        box = boxes(C, self.data.weight)
        bound = self.settings.bounds(box)
        return [DualProblem(y, box, bound, lam) for y in self.data.signs()]

    def solve(self, problem: DualProblem, start: np.ndarray | None = None, title: str = "") -> Solution:
        """Solve a problem, starting from the feasible point nearest to ``start``.

        By default the start is zero, which needs no kernel values.
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
        """Find the margin at which the dual variables sum to ``nu``.

        The search starts from the margin ``lam`` and the variables ``start``. The results are the problem
        with the margin that was found, and its solution.
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
        """Return ``K @ coef``, in the precision of the solver's kernel rows."""
        return _core.row_sum(self.row_source, coef, n_threads(self.n_jobs))

    def _start(self, problem: DualProblem, start: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the feasible variables ``alpha - bound`` nearest to ``start``, and the corresponding F."""
        if start is None or not start.any():
            return np.zeros(len(problem.y)), np.zeros(len(problem.y))
        shifted = DualProblem(problem.y, problem.box - 2 * problem.bound, 0 * problem.bound, problem.lam)
        above = shifted.project(start)
        return above, self.product(above * problem.y)
