"""S-KLR for several classes in one problem: the softmax loss with a margin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .. import _core
from .._utils.progress import ProgressBar
from .._utils.threads import n_threads
from ..kernels import RowSource
from ..samples import Samples
from .problem import SoftmaxProblem, boxes
from .smo import Callback, Settings, SolveInterrupted, Status, core_settings, history_of

# Accepted relative duality gap as a fraction of tol. Where the optimality conditions converge slowly, a gap
# of tol / 10 is reached several times earlier, and further steps hardly change the model.
GAP_FRACTION = 0.1


@dataclass(frozen=True, eq=False)
class SoftmaxSolution:
    """A solution of the softmax problem, with its certificate of optimality.

    Attributes
    ----------
    problem : SoftmaxProblem
    coef : array (n_classes, n)
        beta: the coefficients of every function. The columns sum to zero, as do the rows.
    F : array (n_classes, n)
        ``coef @ K``: decision values without the intercepts, which sum to zero over the classes.
    intercept : array (n_classes,)
        They sum to zero.
    n_iter : int
        Pair steps.
    status : Status
        Optimal if the violation is at most the tolerance, or the relative gap at most a tenth of ``tol``.
    kkt_violation : float
        See :meth:`SoftmaxProblem.kkt_violation`.
    dual_objective, primal_objective, gap : float
        ``gap = primal_objective + dual_objective >= 0`` is zero only at the optimum.
    history : structured array
        ``n_iter``, ``violation`` and ``seconds`` after every sweep over the pairs of classes.
    min_curvature : float
        As in :class:`~sparseklr.dual.Solution`.
    """

    problem: SoftmaxProblem
    coef: np.ndarray
    F: np.ndarray
    intercept: np.ndarray
    n_iter: int
    status: Status
    kkt_violation: float
    dual_objective: float
    primal_objective: float
    gap: float
    history: np.ndarray
    min_curvature: float

    @property
    def support(self) -> np.ndarray:
        """Rows with a non-zero coefficient."""
        return np.flatnonzero(self.coef.any(axis=0))

    @property
    def decision(self) -> np.ndarray:
        """Decision values of the training rows, (n, n_classes)."""
        return (self.F + self.intercept[:, None]).T

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.primal_objective), abs(self.dual_objective), np.finfo(float).tiny)

    @property
    def converged(self) -> bool:
        return self.status is Status.OPTIMAL

    @property
    def indefinite(self) -> bool:
        """Whether the kernel is not positive semidefinite, beyond the rounding errors of float32."""
        return self.min_curvature < -1e-5

    @property
    def margins(self) -> np.ndarray:
        """lam of every output."""
        return np.full(self.problem.n_classes, self.problem.lam)


@dataclass(frozen=True, eq=False)
class SoftmaxSolver:
    """Solves the softmax problem of a training set.

    The variables are masses above their bound, so a row whose own class has all the mass is exactly absent.
    With ``show``, a progress bar is shown.
    """

    data: Samples
    settings: Settings
    cache_size: float | str = "auto"
    n_jobs: int | None = None
    show: bool = False

    @cached_property
    def row_source(self) -> RowSource:
        """Row source, created on first use."""
        return self.data.kernel.row_source(self.data.X, cache_size=self.cache_size)

    def problem(self, C: float, lam: float) -> SoftmaxProblem:
        """The problem of all classes of the data."""
        n_classes, box = len(self.data.classes), boxes(C, self.data.weight)
        bound = self.settings.bounds(box)
        if not (n_classes * bound < box).all():
            raise ValueError(
                f"bound={self.settings.bound!r} is too large for {n_classes} classes: it must be below "
                f"{box.min() / n_classes:g}, the smallest C times sample weight divided by the number of "
                "classes."
            )
        return SoftmaxProblem(self.data.codes, n_classes, box, bound, lam)

    def part(self, indices: np.ndarray) -> SoftmaxSolver:
        """The solver for the rows at ``indices``."""
        return replace(self, data=self.data.part(indices))

    def product(self, coef: np.ndarray) -> np.ndarray:
        """``coef @ K``, computed from the kernel rows of the solver in their precision."""
        threads = n_threads(self.n_jobs)
        return np.array([_core.row_sum(self.row_source, np.ascontiguousarray(row), threads) for row in coef])

    def solve(
        self, problem: SoftmaxProblem, start: np.ndarray | None = None, title: str = ""
    ) -> SoftmaxSolution:
        """Solve from zero, which needs no kernel row, or from a feasible point near ``start``."""
        coef = np.zeros((problem.n_classes, len(problem.codes)))
        F = np.zeros_like(coef)
        if start is not None and start.any():
            coef = problem.feasible_start(start)
            F = self.product(coef)
        with ProgressBar(title, self.settings.tolerance(problem.lam), self.show) as progress:
            callback = progress if self.show else None
            return solve_masses(
                self.row_source, problem, self.settings, coef=coef, F=F, n_jobs=self.n_jobs, callback=callback
            )


def solve_masses(
    row_source: RowSource,
    problem: SoftmaxProblem,
    settings: Settings,
    *,
    coef: np.ndarray,
    F: np.ndarray,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> SoftmaxSolution:
    """Solve the softmax problem from feasible coefficients ``coef`` with ``F = coef @ K``."""
    above, F = problem.masses(coef), np.array(F, dtype=np.float64)
    intercept = np.zeros(problem.n_classes)
    info, error = _core.solve_softmax_in_place(
        row_source,
        np.ascontiguousarray(problem.codes, dtype=np.int64),
        np.ascontiguousarray(problem.box, dtype=np.float64),
        np.ascontiguousarray(problem.bound, dtype=np.float64),
        problem.lam,
        above,
        F,
        intercept,
        core_settings(settings, problem.lam, n_jobs),
        accepted_gap(settings, problem.lam),
        callback,
    )
    coef, intercept = problem.coef_of_masses(above), intercept - intercept.mean()
    with np.errstate(over="ignore", invalid="ignore"):
        primal, dual = problem.primal_objective(coef, F, intercept), problem.dual_objective(coef, F)
    if not (np.isfinite(F).all() and np.isfinite(primal + dual)):
        raise ValueError(
            f"the solution overflows: the largest C times weight, {problem.box.max():g}, or "
            f"lam={problem.lam:g} is too large for these kernel values. Scale the features."
        )
    solution = SoftmaxSolution(
        problem=problem,
        coef=coef,
        F=F,
        intercept=intercept,
        n_iter=info.n_iter,
        status=Status(info.status.name),
        kkt_violation=max(0.0, info.violation),
        dual_objective=dual,
        primal_objective=primal,
        gap=primal + dual,
        history=history_of(info),
        min_curvature=info.min_curvature,
    )
    if isinstance(error, KeyboardInterrupt):
        raise SolveInterrupted(solution) from error
    if error is not None:
        raise error
    return solution


def accepted_gap(settings: Settings, lam: float) -> float:
    """The accepted relative gap; it is quadratic in the violation, whose scale depends on ``scale_tol``."""
    unit = settings.tolerance(lam) / (settings.tol * max(1.0, lam))
    return GAP_FRACTION * settings.tol * unit**2


def solve_softmax(
    samples: Samples,
    C: float,
    lam: float,
    settings: Settings,
    *,
    start: np.ndarray | None = None,
    cache_size: float | str = "auto",
    n_jobs: int | None = None,
) -> SoftmaxSolution:
    """Solve the softmax problem of a training set, from zero or from coefficients ``start``.

    Parameters
    ----------
    samples : Samples
    C, lam : float
        Weight of the loss and margin.
    settings : Settings
    start : array (n_classes, n), optional
        Coefficients of an earlier solution.
    cache_size : float or "auto"
        Memory for kernel rows in MB.
    n_jobs : int, optional

    Returns
    -------
    SoftmaxSolution
    """
    solver = SoftmaxSolver(samples, settings, cache_size, n_jobs)
    return solver.solve(solver.problem(C, lam), start)
