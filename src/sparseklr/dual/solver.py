"""Solving the dual: settings, solution, and :func:`solve_dual` on a kernel matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import Enum
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .. import _core
from ..kernels import RowSource, check_gram, gram_row_source, n_threads
from .problem import DualProblem, labels_and_boxes

WorkingSet = Literal["mixed", "second-order", "first-order"]

# The default bound as a share of C_i. What it leaves out is at most 1e-9 C_i of loss per point.
BOUND_SHARE = 1e-9
# Below it, numbers computed from the bound lose digits or become zero.
SMALLEST_BOX = 1e-290
# How often a running solver looks for Ctrl-C and calls the callback.
POLL_SECONDS = 0.05


class Status(Enum):
    """How a run ended.

    ``STALLED``: rounding errors leave no progress to be made, short of the tolerance. It takes kernel
    values times C that are 1e12 times the tolerance, or more.
    """

    OPTIMAL = "optimal"
    MAX_ITER = "max_iter"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"


@dataclass(frozen=True)
class Settings:
    """What steers the solver; unpacks into :func:`solve_dual` with ``**``.

    Parameters
    ----------
    working_set : {"mixed", "second-order", "first-order"}
        Rule for the second point of a pair. ``"second-order"`` takes the point for which the quadratic
        model promises the largest decrease, as in the paper; ``"first-order"`` the most violating point
        (Keerthi et al. 2005); ``"mixed"`` alternates, with the latter every tenth time, which needs the
        fewest steps.
    tol : float
        Stop when the KKT violation is at most ``tol * max(1, lam)``; ``tol`` if not ``scale_tol``.
    max_iter : int
        Pair steps; -1 for no limit.
    bound : float or None
        Distance that alpha keeps from 0 and from its box; None: ``1e-9 * C_i``.
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
        """The absolute KKT violation accepted for margin ``lam``."""
        return self.tol * max(1.0, lam) if self.scale_tol else self.tol

    def bounds(self, box: np.ndarray) -> np.ndarray:
        """``lo_i`` for each box ``C_i``."""
        if not (box.min() >= SMALLEST_BOX and np.isfinite(box.sum())):
            raise ValueError(
                f"C times sample_weight must be at least {SMALLEST_BOX:g}, with a finite sum; it ranges from "
                f"{box.min():g} to {box.max():g}. A weight of 0 leaves a row out."
            )
        if self.bound is None:
            return BOUND_SHARE * box
        if 2 * self.bound >= box.min():
            raise ValueError(
                f"bound={self.bound:g} leaves no room in the box [0, {box.min():g}] of a point "
                f"(C times its weight); it must be less than half of that, {box.min() / 2:g}."
            )
        return np.full_like(box, self.bound)


@dataclass(frozen=True, eq=False)
class Solution:
    """A solved dual, with its certificate.

    Attributes
    ----------
    alpha : array (n,)
        The dual variables; of :func:`solve_above_bound`, what they exceed their lower bound by.
    F : array (n,)
        ``K @ (alpha * y)``: decision values without the intercept.
    intercept : float
    n_iter : int
        Pair steps.
    status : Status
    kkt_violation : float
        ``max_up E - min_low E`` (absolute).
    dual_objective, primal_objective, gap : float
        ``gap = primal_objective + dual_objective >= 0`` is zero only at the optimum.
    support : array of int
        Points whose alpha is off its lower bound.
    history : structured array
        ``n_iter``, ``violation`` and ``seconds`` along the run.
    min_curvature : float
        Smallest ``K_ii + K_jj - 2 K_ij`` met, relative to the size of its terms; negative (beyond
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
    """Ctrl-C during a solve; ``solution`` is where it stood, good as a warm start.

    ``lam`` is its margin where that was being searched for, None otherwise.
    """

    def __init__(self, solution: Solution) -> None:
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
    """Solve the bounded dual as it stands, from ``alpha`` (in the box) and ``F = K @ (alpha * y)``.

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
    """Solve the bounded dual in the variables ``above = alpha - bound``, the lower bound counted as zero.

    ``above`` and ``F = K @ (above * y)`` are the start. ``alpha``, ``F`` and the objectives of the returned
    solution belong to these variables too, and ``y'above`` is what stays constant. A point at its bound is
    then *exactly* absent from the model, and the start ``above = 0`` needs no kernel row.
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
    """Run the compiled solver; ``F`` and the solution's alpha belong to alpha or to ``alpha - bound``."""
    # Adding up may miss the upper bound by rounding; the point would then count as free to grow.
    top = problem.box - 2 * problem.bound
    above = np.where(top - above <= 4 * np.finfo(float).eps * problem.box, top, above)
    F = np.array(F, dtype=np.float64)
    core_settings = _core.Settings(
        getattr(_core.WorkingSet, settings.working_set.replace("-", "_")),
        settings.tolerance(problem.lam),
        settings.max_iter if settings.max_iter > 0 else np.iinfo(np.int64).max,
        n_threads(n_jobs),
        POLL_SECONDS,
    )
    y, box, bound = (
        np.ascontiguousarray(a, dtype=np.float64) for a in (problem.y, problem.box, problem.bound)
    )
    _check_finite(problem, F)
    info, error = _core.solve_in_place(
        row_source, y, box, bound, problem.lam, above, F, core_settings, callback
    )
    support, alpha = np.flatnonzero(above > 0), problem.alpha_above(above) if bound_counts else above
    # Any number between the two is optimal for the bounded dual; one is infinite if its set is empty.
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
        history=np.array([(s.n_iter, s.violation, s.seconds) for s in info.history], dtype=_HISTORY),
        min_curvature=info.min_curvature,
    )
    if isinstance(error, KeyboardInterrupt):
        raise SolveInterrupted(solution) from error
    if error is not None:
        raise error
    return solution


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

    The SMO Algorithm of the paper for formulation (2BM),

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
        The margin, >= 0; 0 is plain kernel logistic regression.
    sample_weight : array (n,), optional
        Non-negative; a point of weight 0 gets alpha = 0.
    working_set, bound, tol, max_iter, scale_tol
        See :class:`Settings`; ``**Settings.paper()`` are the paper's own.
    alpha0 : array (n,), optional
        Start; projected onto the feasible set.
    callback : callable, optional
        Called about 20 times a second with an iteration (``n_iter``, ``violation``, ``seconds``);
        a true return value stops the run.

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
        given = f"bound={bound!r}" + (
            f" ({BOUND_SHARE:g} times C and sample_weight)" if bound is None else ""
        )
        raise ValueError(
            f"{given} is infeasible: the bounds of one class add up to more than the boxes of "
            f"the other, so y'alpha = 0 has no solution; use a bound below {smaller / len(box):g}."
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
        # The rounding errors of the start stay in F: from one far away, once more from where it led.
        if alpha0 is None or np.finfo(float).eps * np.abs(F).max() <= settings.tolerance(problem.lam):
            break
        alpha = solution.alpha
    return solution if len(keep) == len(y) else _with_dropped(solution, K, y, keep)


def _with_dropped(solution: Solution, K: np.ndarray, y: np.ndarray, keep: np.ndarray) -> Solution:
    """The solution for all points, those of weight zero included."""
    alpha = np.zeros(len(y))
    alpha[keep] = solution.alpha
    values = {field.name: getattr(solution, field.name) for field in fields(solution)}
    values |= {"alpha": alpha, "F": K @ (alpha * y), "support": keep[solution.support]}
    return Solution(**values)
