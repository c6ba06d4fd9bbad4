"""S-KLR for more than two classes in one problem: the softmax loss with a margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import _core
from .._utils.progress import ProgressBar
from .._utils.threads import n_threads
from ..kernels import RowSource
from .problem import SoftmaxProblem, boxes
from .smo import (
    Callback,
    Certificate,
    SampleSolver,
    Settings,
    certificate_of,
    check_finite,
    core_settings,
)

# Accepted relative duality gap as a fraction of tol. If the KKT violation decreases slowly, the gap is below
# tol / 10 much earlier, and further steps hardly change the model.
GAP_FRACTION = 0.1


@dataclass(frozen=True, eq=False)
class SoftmaxSolution(Certificate):
    """A solution of the softmax problem, with a certificate of optimality.

    Attributes
    ----------
    problem : SoftmaxProblem
    coef : array (n_classes, n)
        The coefficients beta of the function of each class. Each column and each row sums to zero.
    F : array (n_classes, n)
        ``coef @ K``, the decision values without the intercepts. Each column sums to zero.
    intercept : array (n_classes,)
        The intercepts of the classes, which sum to zero.
    n_iter : int
        Number of pair steps.
    status : Status
        Optimal if the violation is at most the tolerance, or if the relative gap is at most a tenth of
        ``tol``.
    kkt_violation : float
        See :meth:`SoftmaxProblem.kkt_violation`.
    dual_objective, primal_objective, gap : float
        ``gap = primal_objective + dual_objective`` is non-negative, and zero only at the optimum.
    history : structured array
        ``n_iter``, ``violation`` and ``seconds`` after every sweep over the pairs of classes.
    min_curvature : float
        See :class:`~sparseklr.dual.Solution`.
    """

    problem: SoftmaxProblem
    coef: np.ndarray
    F: np.ndarray
    intercept: np.ndarray

    @property
    def support(self) -> np.ndarray:
        """Indices of the training rows with a non-zero coefficient."""
        return np.flatnonzero(self.coef.any(axis=0))

    @property
    def decision(self) -> np.ndarray:
        """Decision values of the training rows as an array of shape (n, n_classes)."""
        return (self.F + self.intercept[:, None]).T

    @property
    def margins(self) -> np.ndarray:
        """The margin lam, repeated for every class."""
        return np.full(self.problem.n_classes, self.problem.lam)


@dataclass(frozen=True, eq=False)
class SoftmaxSolver(SampleSolver):
    """Solver of the softmax problem of a training set.

    The variables are the excesses of the masses over their bound
    (:class:`~sparseklr.dual.problem.SoftmaxProblem` defines the masses). A row therefore has coefficients of
    exactly zero if only the mass on its own class is above the bound.
    """

    def problem(self, C: float, lam: float) -> SoftmaxProblem:
        """Return the problem with all classes of the training set."""
        n_classes, box = len(self.data.classes), boxes(C, self.data.weight)
        bound = self.settings.bounds(box)
        if not (n_classes * bound < box).all():
            raise ValueError(
                f"bound={self.settings.bound!r} is too large for {n_classes} classes: it must be below "
                f"{box.min() / n_classes:g}, which is the smallest value of C * sample_weight, divided by "
                "the number of classes."
            )
        return SoftmaxProblem(self.data.codes, n_classes, box, bound, lam)

    def product(self, coef: np.ndarray) -> np.ndarray:
        """Return ``coef @ K``, computed from the kernel rows of the solver and in their precision."""
        threads = n_threads(self.n_jobs)
        return np.array([_core.row_sum(self.row_source, np.ascontiguousarray(row), threads) for row in coef])

    def solve(
        self, problem: SoftmaxProblem, start: np.ndarray | None = None, title: str = ""
    ) -> SoftmaxSolution:
        """Solve the problem, starting from a feasible point near ``start``.

        By default the start is zero, which needs no kernel values.
        """
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
    """Solve the softmax problem, starting from feasible coefficients ``coef`` with ``F = coef @ K``."""
    above, F = problem.masses(coef), np.array(F, dtype=np.float64)
    intercept = np.zeros(problem.n_classes)
    info = _core.solve_softmax_in_place(
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
    check_finite(problem, F, primal + dual)
    return SoftmaxSolution(problem, coef, F, intercept, **certificate_of(info, primal, dual))


def accepted_gap(settings: Settings, lam: float) -> float:
    """Return the relative duality gap at which the solver may stop.

    The gap is quadratic in the violation, and the tolerance of the violation depends on ``scale_tol``.
    """
    unit = settings.tolerance(lam) / (settings.tol * max(1.0, lam))
    return GAP_FRACTION * settings.tol * unit**2
