"""Solution of the dual problem by sequential minimal optimisation (SMO) in the compiled core.

SMO optimises two dual variables at a time. Such an update is called a *pair step*. :func:`solve_dual` solves
the problem for a kernel matrix. The classifiers use :func:`solve_above_bound`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal, Self, get_args

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .. import _core
from .._utils.threads import n_threads
from ..kernels import RowSource, check_gram, gram_row_source
from ..samples import Samples
from .problem import DualProblem, SoftmaxProblem, labels_and_boxes

WorkingSet = Literal["mixed", "second-order", "first-order"]

# Default of ``bound`` as a fraction of C_i. It changes the loss by at most 1e-9 C_i per training row.
BOUND_FRACTION = 1e-9
# Smallest allowed C_i; with smaller values, numbers computed from the bound would underflow.
SMALLEST_BOX = 1e-290
# Seconds between checks for Ctrl-C and calls of the callback.
POLL_SECONDS = 0.05


class Status(Enum):
    """Reason why the solver stopped.

    ``STALLED`` means that rounding errors prevent progress before the tolerance is reached. This happens only
    if kernel values times C are at least 1e12 times the tolerance.
    """

    OPTIMAL = "optimal"
    MAX_ITER = "max_iter"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"


@dataclass(frozen=True)
class Settings:
    """Settings of the solver; ``**asdict(settings)`` passes them to :func:`solve_dual`.

    Parameters
    ----------
    working_set : {"mixed", "second-order", "first-order"}
        Rule for the second variable of a pair. ``"second-order"`` takes the variable for which a quadratic
        model of the objective decreases most, as in the paper. ``"first-order"`` takes the variable that
        violates the optimality conditions most (Keerthi et al. 2005). ``"mixed"`` uses the first-order rule
        in every tenth step and the second-order rule otherwise; it needs the fewest steps.
    tol : float
        The solver stops when the KKT violation is at most ``tol * max(1, lam)``, or ``tol`` if ``scale_tol``
        is False.
    max_iter : int
        Maximum number of pair steps; -1 for no limit.
    bound : float or None
        Smallest distance that ``alpha_i`` may have from 0 and from ``C_i``; None means ``1e-9 * C_i``.
    scale_tol : bool
        Whether the tolerance grows with ``lam``, like the decision values.

    Examples
    --------
    >>> Settings.paper()
    Settings(working_set='second-order', tol=1e-05, max_iter=10000, bound=1e-05, scale_tol=False)
    """

    working_set: WorkingSet = "mixed"
    tol: float = 1e-5
    max_iter: int = -1
    bound: float | None = None
    scale_tol: bool = True

    @classmethod
    def paper(cls) -> Settings:
        """Return the settings of the experiments in the paper."""
        return cls("second-order", tol=1e-5, max_iter=10_000, bound=1e-5, scale_tol=False)

    def __post_init__(self) -> None:
        if self.working_set not in get_args(WorkingSet):
            raise ValueError(f"working_set must be one of {get_args(WorkingSet)}; got {self.working_set!r}.")
        if not (isinstance(self.tol, Real) and self.tol > 0):
            raise ValueError(f"tol must be positive; got {self.tol!r}.")
        if not isinstance(self.max_iter, Integral) or (self.max_iter != -1 and self.max_iter < 1):
            raise ValueError(f"max_iter must be at least 1, or -1 for no limit; got {self.max_iter!r}.")
        if self.bound is not None and not (isinstance(self.bound, Real) and self.bound > 0):
            raise ValueError(f"bound must be positive or None; got {self.bound!r}.")

    def tolerance(self, lam: float) -> float:
        """Return the accepted absolute KKT violation for the margin ``lam``."""
        return self.tol * max(1.0, lam) if self.scale_tol else self.tol

    def bounds(self, box: np.ndarray) -> np.ndarray:
        """Return the lower bounds of the dual variables, given the array ``box`` of the values ``C_i``."""
        if not (box.min() >= SMALLEST_BOX and np.isfinite(box.sum())):
            raise ValueError(
                f"C times sample_weight must be at least {SMALLEST_BOX:g} for every row, and its sum must be "
                f"finite; it ranges from {box.min():g} to {box.max():g}. Use a weight of 0 to ignore a row."
            )
        if self.bound is None:
            return BOUND_FRACTION * box
        if 2 * self.bound >= box.min():
            raise ValueError(
                f"bound={self.bound:g} is too large: it must be below {box.min() / 2:g}, half of the "
                "smallest value of C times sample_weight."
            )
        return np.full_like(box, self.bound)


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """Convergence of a run of the solver, and bounds on the error of its result."""

    n_iter: int
    status: Status
    kkt_violation: float
    dual_objective: float
    primal_objective: float
    history: np.ndarray
    min_curvature: float

    @property
    def gap(self) -> float:
        """Duality gap: the sum of the primal and the dual objective; it is zero only at the optimum.

        It is a sum because the dual problem is written as a minimisation.
        """
        return self.primal_objective + self.dual_objective

    @property
    def relative_gap(self) -> float:
        """Duality gap divided by the larger absolute value of the two objectives."""
        return self.gap / max(abs(self.primal_objective), abs(self.dual_objective), np.finfo(float).tiny)

    @property
    def converged(self) -> bool:
        """Whether the problem was solved to the required tolerance."""
        return self.status is Status.OPTIMAL

    @property
    def indefinite(self) -> bool:
        """Whether the kernel is not positive semidefinite; rounding errors of float32 are tolerated."""
        return self.min_curvature < -1e-5


@dataclass(frozen=True, eq=False)
class Solution(Certificate):
    """A solution of the dual problem, with a certificate of optimality.

    Attributes
    ----------
    alpha : array (n,)
        The dual variables. In a solution from :func:`solve_above_bound`, their excess over the lower bound.
    F : array (n,)
        ``K @ (alpha * y)``, the decision values without the intercept.
    intercept : float
    n_iter : int
        Number of pair steps.
    status : Status
    kkt_violation : float
        See :meth:`~sparseklr.dual.problem.DualProblem.kkt_violation`.
    dual_objective, primal_objective, gap : float
        ``gap = primal_objective + dual_objective`` is non-negative, and zero only at the optimum.
    support : array of int
        Indices of the training rows whose alpha is above its lower bound.
    history : structured array
        ``n_iter``, ``violation`` and ``seconds`` at several times during the run.
    min_curvature : float
        Smallest ``K_ii + K_jj - 2 K_ij`` of the pairs that were optimised, relative to the size of its terms.
        It is negative, beyond rounding errors, if the kernel is not positive semidefinite.
    """

    alpha: np.ndarray
    F: np.ndarray
    intercept: float
    support: np.ndarray

    @property
    def decision(self) -> np.ndarray:
        """Decision values of the training rows."""
        return self.F + self.intercept


@dataclass(frozen=True, eq=False)
class SampleSolver:
    """Solver of the dual problems of a training set; with ``show``, it displays a progress bar."""

    data: Samples
    settings: Settings
    cache_size: float | str = "auto"
    n_jobs: int | None = None
    show: bool = False

    @cached_property
    def row_source(self) -> RowSource:
        """Access to the rows of the kernel matrix, created on first use."""
        return self.data.kernel.row_source(self.data.X, cache_size=self.cache_size)

    def part(self, indices: np.ndarray) -> Self:
        """Return the solver for the training rows at ``indices``."""
        return replace(self, data=self.data.part(indices))


Callback = Callable[[Any], Any]
_HISTORY = np.dtype([("n_iter", np.int64), ("violation", np.float64), ("seconds", np.float64)])


def solve_above_bound(
    row_source: RowSource,
    problem: DualProblem,
    settings: Settings,
    *,
    above: np.ndarray,
    F: np.ndarray,
    bound_counts: bool = False,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Solve the dual problem in the variables ``above = alpha - bound``.

    The start is ``above`` with ``F = K @ (above * y)``. The solver keeps ``y'above`` constant. ``alpha``,
    ``F`` and the objectives of the returned solution refer to ``above``. A row whose variable is at its lower
    bound therefore has the coefficient 0, and the start ``above = 0`` needs no kernel values. If
    ``bound_counts``, ``F`` and the solution refer to alpha instead, and such a row has the coefficient
    ``bound * y``.
    """
    # Rounding may leave a variable just below its upper bound, and the solver would try to increase it
    # further.
    top = problem.box - 2 * problem.bound
    above = np.where(top - above <= 4 * np.finfo(float).eps * problem.box, top, above)
    F = np.array(F, dtype=np.float64)
    y, box, bound = (
        np.ascontiguousarray(a, dtype=np.float64) for a in (problem.y, problem.box, problem.bound)
    )
    check_finite(problem, F)
    info = _core.solve_in_place(
        row_source,
        y,
        box,
        bound,
        problem.lam,
        above,
        F,
        core_settings(settings, problem.lam, n_jobs),
        callback,
    )
    support, alpha = np.flatnonzero(above > 0), problem.alpha_above(above) if bound_counts else above
    # Any intercept between these two values is optimal. A value is infinite if its set of rows is empty.
    ends = [end for end in (info.upper, info.lower) if np.isfinite(end)]
    intercept = float(np.mean(ends)) if ends else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        primal, dual = problem.primal_objective(alpha, F, intercept), problem.dual_objective(alpha, F)
    check_finite(problem, F, primal, dual)
    return Solution(alpha, F, intercept, support, **certificate_of(info, primal, dual))


def core_settings(settings: Settings, lam: float, n_jobs: int | None) -> _core.Settings:
    """Return the settings of the compiled solver for the margin ``lam``."""
    return _core.Settings(
        getattr(_core.WorkingSet, settings.working_set.replace("-", "_")),
        settings.tolerance(lam),
        settings.max_iter if settings.max_iter > 0 else np.iinfo(np.int64).max,
        n_threads(n_jobs),
        POLL_SECONDS,
    )


def certificate_of(info: _core.SolveInfo, primal: float, dual: float) -> dict[str, Any]:
    """Return the attributes of a :class:`Certificate`.

    ``info`` describes the run of the solver; ``primal`` and ``dual`` are the objectives of its solution."""
    return {
        "n_iter": info.n_iter,
        "status": Status(info.status.name),
        "kkt_violation": max(0.0, info.violation),
        "dual_objective": dual,
        "primal_objective": primal,
        "history": np.array([(s.n_iter, s.violation, s.seconds) for s in info.history], dtype=_HISTORY),
        "min_curvature": info.min_curvature,
    }


def check_finite(problem: DualProblem | SoftmaxProblem, *values: np.ndarray | float) -> None:
    """Raise an error unless all values are finite."""
    if not all(np.isfinite(value).all() for value in values):
        raise ValueError(
            f"the solution overflows: the largest C times sample_weight, {problem.box.max():g}, or "
            f"lam={problem.lam:g} is too large for these kernel values. Scale the features."
        )


def solve_dual(
    K: Any,
    y: Any,
    *,
    C: float,
    lam: float,
    sample_weight: Any = None,
    working_set: WorkingSet = "mixed",
    bound: float | None = None,
    tol: float = 1e-5,
    max_iter: int = -1,
    scale_tol: bool = True,
    alpha0: Any = None,
    callback: Callback | None = None,
) -> Solution:
    r"""Solve the dual problem of sparse kernel logistic regression for a given kernel matrix.

    The function runs the SMO algorithm of the paper (Consolo, Manno and Amaldi 2025) for formulation (2BM),

    .. math:: \min_\alpha \tfrac12\alpha^\top Q\alpha + \sum_i C_i G(\alpha_i/C_i) - \lambda\sum_i\alpha_i
              \quad\text{s.t.}\quad y^\top\alpha = 0,\ \ell_i \le \alpha_i \le C_i - \ell_i .

    Parameters
    ----------
    K : array (n, n)
        Symmetric kernel matrix, float32 or float64.
    y : array (n,)
        Labels, -1 or +1.
    C : float
        Weight of the loss; ``C_i = C * sample_weight_i``.
    lam : float
        The margin, >= 0. With ``lam=0`` the model is kernel logistic regression.
    sample_weight : array (n,), optional
        Non-negative weights. A row of weight 0 gets alpha = 0.
    working_set, bound, tol, max_iter, scale_tol
        See :class:`Settings`. ``**asdict(Settings.paper())`` passes the values of the paper.
    alpha0 : array (n,), optional
        Initial dual variables, which are projected onto the feasible set.
    callback : callable, optional
        Function that is called about 20 times per second with the state of the solver, an object with the
        attributes ``n_iter``, ``violation`` and ``seconds``. If it returns a true value, the solver stops.

    Returns
    -------
    Solution

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> solution = solve_dual(X @ X.T, [-1, -1, 1, 1], C=1.0, lam=0.0)
    >>> solution.status
    <Status.OPTIMAL: 'optimal'>
    >>> bool(solution.relative_gap < 1e-6)
    True
    """
    settings = Settings(working_set, tol, max_iter, bound, scale_tol)
    K = check_array(K, dtype=[np.float64, np.float32], order="C", input_name="K")
    check_gram(K)
    y, box = labels_and_boxes(y, C, sample_weight)
    check_consistent_length(K, y)
    if not (isinstance(lam, Real) and np.isfinite(lam) and lam >= 0):
        raise ValueError(f"lam must be a number >= 0; got {lam!r}.")
    keep = np.flatnonzero(box > 0)
    K_kept = K if len(keep) == len(y) else np.ascontiguousarray(K[np.ix_(keep, keep)])
    box = box[keep]
    problem = DualProblem(y[keep], box, settings.bounds(box), float(lam))
    if not problem.feasible:
        positive = problem.y > 0
        smaller = min(box[positive].sum(), box[~positive].sum())
        description = f"bound={bound!r}" + (
            f" ({BOUND_FRACTION:g} times C and sample_weight)" if bound is None else ""
        )
        raise ValueError(
            f"{description} is infeasible: the lower bounds of one class sum to more than the upper bounds "
            f"of the other class, so y'alpha = 0 has no solution. Use a bound below {smaller / len(box):g}."
        )
    if alpha0 is not None:
        alpha0 = column_or_1d(alpha0).astype(np.float64)
        check_consistent_length(y, alpha0)
        if not np.isfinite(alpha0).all():
            raise ValueError("alpha0 must be finite.")
    alpha = problem.project(problem.bound if alpha0 is None else alpha0[keep])
    source = gram_row_source(K_kept)
    for _ in range(3):
        with np.errstate(over="ignore", invalid="ignore"):
            F = (K_kept @ (alpha * problem.y)).astype(np.float64)
        above = alpha - problem.bound
        solution = solve_above_bound(
            source, problem, settings, above=above, F=F, bound_counts=True, callback=callback
        )
        # Rounding errors of a distant start persist in F. If they are large, restart from the solution.
        if alpha0 is None or np.finfo(float).eps * np.abs(F).max() <= settings.tolerance(problem.lam):
            break
        alpha = solution.alpha
    if len(keep) == len(y):
        return solution
    alpha = np.zeros(len(y))  # rows of weight zero have no influence
    alpha[keep] = solution.alpha
    return replace(solution, alpha=alpha, F=K @ (alpha * y), support=keep[solution.support])
