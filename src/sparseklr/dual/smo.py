"""Solve the dual problem: settings, solutions, and :func:`solve_dual` for a kernel matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import Enum
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .. import _core
from .._utils.threads import n_threads
from ..kernels import RowSource, check_gram, gram_row_source
from .problem import DualProblem, labels_and_boxes

WorkingSet = Literal["mixed", "second-order", "first-order"]

# The default bound as a fraction of C_i. It changes the loss by at most 1e-9 C_i per point.
BOUND_FRACTION = 1e-9
# Smallest box; with smaller boxes, numbers computed from the bound would underflow.
SMALLEST_BOX = 1e-290
# Seconds between checks for Ctrl-C and calls of the callback.
POLL_SECONDS = 0.05


class Status(Enum):
    """Reason why the solver stopped.

    ``STALLED``: rounding errors prevent further progress before the tolerance is reached. This happens
    only if kernel values times C are at least 1e12 times the tolerance.
    """

    OPTIMAL = "optimal"
    MAX_ITER = "max_iter"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"


@dataclass(frozen=True)
class Settings:
    """Settings of the solver; unpacks into :func:`solve_dual` with ``**``.

    Parameters
    ----------
    working_set : {"mixed", "second-order", "first-order"}
        Rule for the second point of a pair. ``"second-order"``: the largest decrease of the quadratic model,
        as in the paper. ``"first-order"``: the most violating point (Keerthi et al. 2005). ``"mixed"``:
        second-order, with every tenth step first-order, which needs the fewest steps.
    tol : float
        Stop when the KKT violation is at most ``tol * max(1, lam)``, or ``tol`` without ``scale_tol``.
    max_iter : int
        Maximum number of pair steps; -1 for no limit.
    bound : float or None
        Smallest distance of alpha from 0 and from ``C_i``; None means ``1e-9 * C_i``.
    scale_tol : bool
        Whether the tolerance grows with ``lam``, as the decision values do.

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
        """The settings of the paper's experiments."""
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

    def keys(self) -> Iterator[str]:
        return (field.name for field in fields(self))

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def tolerance(self, lam: float) -> float:
        """The accepted absolute KKT violation for margin ``lam``."""
        return self.tol * max(1.0, lam) if self.scale_tol else self.tol

    def bounds(self, box: np.ndarray) -> np.ndarray:
        """The bound ``lo_i`` for each box ``C_i``."""
        if not (box.min() >= SMALLEST_BOX and np.isfinite(box.sum())):
            raise ValueError(
                f"C times sample_weight must be at least {SMALLEST_BOX:g}, with a finite sum; it ranges from "
                f"{box.min():g} to {box.max():g}. Use a weight of 0 to leave a row out."
            )
        if self.bound is None:
            return BOUND_FRACTION * box
        if 2 * self.bound >= box.min():
            raise ValueError(
                f"bound={self.bound:g} is too large for the box [0, {box.min():g}] of a point "
                f"(C times its weight); it must be less than half of that, {box.min() / 2:g}."
            )
        return np.full_like(box, self.bound)


@dataclass(frozen=True, eq=False)
class Solution:
    """A solution of the dual problem, with its certificate of optimality.

    Attributes
    ----------
    alpha : array (n,)
        The dual variables; from :func:`solve_above_bound`, their excess over the lower bound.
    F : array (n,)
        ``K @ (alpha * y)``: decision values without the intercept.
    intercept : float
    n_iter : int
        Number of pair steps.
    status : Status
    kkt_violation : float
        ``max_up E - min_low E`` (absolute).
    dual_objective, primal_objective, gap : float
        ``gap = primal_objective + dual_objective >= 0`` is zero only at the optimum.
    support : array of int
        Points whose alpha is above its lower bound.
    history : structured array
        ``n_iter``, ``violation`` and ``seconds`` during the run.
    min_curvature : float
        Smallest ``K_ii + K_jj - 2 K_ij`` encountered, relative to the size of its terms; negative (beyond
        rounding) if the kernel is not positive semidefinite.
    """

    alpha: np.ndarray
    F: np.ndarray
    intercept: float
    n_iter: int
    status: Status
    kkt_violation: float
    dual_objective: float
    primal_objective: float
    gap: float
    support: np.ndarray
    history: np.ndarray
    min_curvature: float

    @property
    def decision(self) -> np.ndarray:
        """Decision values of the training points."""
        return self.F + self.intercept

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.primal_objective), abs(self.dual_objective), np.finfo(float).tiny)


class SolveInterrupted(KeyboardInterrupt):
    """Ctrl-C during a solve; ``solution`` is the current iterate, which can serve as a warm start.

    ``lam`` is the margin of this iterate if the margin was being searched, else None.
    """

    def __init__(self, solution: Any) -> None:
        super().__init__("interrupted; the solution reached so far is in .solution")
        self.solution = solution
        self.lam: float | None = None


Callback = Callable[[Any], Any]
_HISTORY = np.dtype([("n_iter", np.int64), ("violation", np.float64), ("seconds", np.float64)])


def solve_in_box(
    row_source: RowSource,
    problem: DualProblem,
    settings: Settings,
    *,
    alpha: np.ndarray,
    F: np.ndarray,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Solve the bounded dual from ``alpha`` (in the box) and ``F = K @ (alpha * y)``.

    A point at its lower bound is part of the model, with the coefficient ``bound * y``.
    """
    return _solve(row_source, problem, settings, alpha - problem.bound, F, True, n_jobs, callback)


def solve_above_bound(
    row_source: RowSource,
    problem: DualProblem,
    settings: Settings,
    *,
    above: np.ndarray,
    F: np.ndarray,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Solve the bounded dual in the variables ``above = alpha - bound``.

    The start is ``above`` with ``F = K @ (above * y)``; ``y'above`` stays constant. ``alpha``, ``F`` and the
    objectives of the returned solution refer to these variables. A point at its bound is thus *exactly*
    absent from the model, and the start ``above = 0`` needs no kernel row.
    """
    return _solve(row_source, problem, settings, above, F, False, n_jobs, callback)


def _solve(
    row_source: RowSource,
    problem: DualProblem,
    settings: Settings,
    above: np.ndarray,
    F: np.ndarray,
    bound_counts: bool,
    n_jobs: int | None,
    callback: Callback | None,
) -> Solution:
    """Run the compiled solver.

    ``F`` and the solution refer to alpha, or to ``alpha - bound`` if :func:`solve_above_bound` is the
    caller."""
    # Rounding may leave a sum just below the upper bound; the solver would then treat the point as free to
    # grow.
    top = problem.box - 2 * problem.bound
    above = np.where(top - above <= 4 * np.finfo(float).eps * problem.box, top, above)
    F = np.array(F, dtype=np.float64)
    y, box, bound = (
        np.ascontiguousarray(a, dtype=np.float64) for a in (problem.y, problem.box, problem.bound)
    )
    _check_finite(problem, F)
    info, error = _core.solve_in_place(
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
    # Any intercept between the two ends is optimal for the bounded dual; the end of an empty set is infinite.
    ends = [end for end in (info.upper, info.lower) if np.isfinite(end)]
    intercept = float(np.mean(ends)) if ends else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        primal, dual = problem.primal_objective(alpha, F, intercept), problem.dual_objective(alpha, F)
    _check_finite(problem, F, primal, dual)
    solution = Solution(
        alpha=alpha,
        F=F,
        intercept=intercept,
        n_iter=info.n_iter,
        status=Status(info.status.name),
        kkt_violation=max(0.0, info.violation),
        dual_objective=dual,
        primal_objective=primal,
        gap=primal + dual,
        support=support,
        history=history_of(info),
        min_curvature=info.min_curvature,
    )
    if isinstance(error, KeyboardInterrupt):
        raise SolveInterrupted(solution) from error
    if error is not None:
        raise error
    return solution


def core_settings(settings: Settings, lam: float, n_jobs: int | None) -> _core.Settings:
    """The settings of the compiled solver for a margin."""
    return _core.Settings(
        getattr(_core.WorkingSet, settings.working_set.replace("-", "_")),
        settings.tolerance(lam),
        settings.max_iter if settings.max_iter > 0 else np.iinfo(np.int64).max,
        n_threads(n_jobs),
        POLL_SECONDS,
    )


def history_of(info: _core.SolveInfo) -> np.ndarray:
    """The history of a run as a structured array."""
    return np.array([(s.n_iter, s.violation, s.seconds) for s in info.history], dtype=_HISTORY)


def _check_finite(problem: DualProblem, *values: np.ndarray | float) -> None:
    if not all(np.isfinite(value).all() for value in values):
        raise ValueError(
            f"the solution overflows: the largest C times weight, {problem.box.max():g}, or "
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
    r"""Solve the dual of sparse kernel logistic regression on a kernel matrix.

    This is the SMO algorithm of the paper for formulation (2BM),

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
        The margin, >= 0; 0 is kernel logistic regression.
    sample_weight : array (n,), optional
        Non-negative; a point of weight 0 gets alpha = 0.
    working_set, bound, tol, max_iter, scale_tol
        See :class:`Settings`; ``**Settings.paper()`` gives the values of the paper.
    alpha0 : array (n,), optional
        Start, which is projected onto the feasible set.
    callback : callable, optional
        Called about 20 times per second with an iteration (``n_iter``, ``violation``, ``seconds``);
        a true return value stops the solver.

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
            f"of the other, so y'alpha = 0 has no solution; use a bound below {smaller / len(box):g}."
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
        solution = solve_in_box(source, problem, settings, alpha=alpha, F=F, callback=callback)
        # Rounding errors of a distant start persist in F; if they matter, restart from the solution.
        if alpha0 is None or np.finfo(float).eps * np.abs(F).max() <= settings.tolerance(problem.lam):
            break
        alpha = solution.alpha
    return solution if len(keep) == len(y) else _with_dropped(solution, K, y, keep)


def _with_dropped(solution: Solution, K: np.ndarray, y: np.ndarray, keep: np.ndarray) -> Solution:
    """Extend the solution to the points of weight zero."""
    alpha = np.zeros(len(y))
    alpha[keep] = solution.alpha
    values = {field.name: getattr(solution, field.name) for field in fields(solution)}
    values |= {"alpha": alpha, "F": K @ (alpha * y), "support": keep[solution.support]}
    return Solution(**values)
