r"""The nu form: give the sum of the dual variables instead of the margin.

The paper's sparse primal leaves the margin to the optimisation and takes ``nu`` instead,

.. math:: \min_{f,\, \rho \ge 0}\; \tfrac12\|f\|^2 + \sum_i C_i \log(1 + e^{\rho - y_i f(x_i)}) - \nu \rho .

Its stationarity in :math:`\rho` reads :math:`\sum_i \alpha_i = \nu`, or :math:`\rho = 0` if the sum is at
least ``nu`` already for plain kernel logistic regression, :math:`\bar\nu = \sum_i \alpha_i(0) \ge \nu`. The
sum does not decrease with the margin, so the margin that belongs to ``nu`` is the root of a monotone
function. Each value of this function takes one warm-started solve.

References
----------
Consolo, Manno and Amaldi, "Binary kernel logistic regression: a sparsity-inducing formulation
and a convergent decomposition training algorithm", Computers & Operations Research 188, 107363,
section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ..kernels import RowSource
from .problem import DualProblem
from .solver import Callback, Settings, Solution, SolveInterrupted, solve_above_bound, solve_dual
from .theory import nu_limit

# Solves for a margin, from another solution if there is one: solve(lam, start).
Solve = Callable[[float, Solution | None], Solution]


def nu_bar(K: Any, y: Any, *, C: float, **options: Any) -> float:
    r"""The sum of the dual variables of plain kernel logistic regression.

    :math:`\bar\nu = \sum_i C_i \sigma(-y_i f_0(x_i))`. For ``nu`` up to this number the nu form is kernel
    logistic regression; above it the margin is positive (the paper's equation nu_big).

    Parameters
    ----------
    K : array (n, n)
        Symmetric kernel matrix.
    y : array (n,)
        Labels, -1 or +1.
    C : float
        Weight of the loss.
    **options
        Options of :func:`~sparseklr.solve_dual`, such as ``tol`` and ``sample_weight``.

    Returns
    -------
    float

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> round(nu_bar(X @ X.T, [-1, -1, 1, 1], C=1.0), 3)
    1.149
    """
    return float(solve_dual(K, y, C=C, lam=0.0, **options).alpha.sum())


def lam_for_nu(K: Any, y: Any, *, C: float, nu: float, tol: float = 1e-6, **options: Any) -> float:
    r"""The margin at which the dual variables add up to ``nu``.

    Parameters
    ----------
    K : array (n, n)
        Symmetric kernel matrix.
    y : array (n,)
        Labels, -1 or +1.
    C : float
        Weight of the loss.
    nu : float
        The sum wanted, >= 0 and below :func:`~sparseklr.dual.theory.nu_limit`.
    tol : float, default=1e-6
        Tolerance of the solver, and of the sum relative to ``nu``.
    **options
        Options of :func:`~sparseklr.solve_dual`, such as ``sample_weight``.

    Returns
    -------
    float
        0 if ``nu`` is at most :func:`nu_bar`.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> y = np.array([-1, -1, 1, 1])
    >>> lam = lam_for_nu(X @ X.T, y, C=1.0, nu=2.0)
    >>> round(float(solve_dual(X @ X.T, y, C=1.0, lam=lam).alpha.sum()), 4)
    2.0
    >>> lam_for_nu(X @ X.T, y, C=1.0, nu=0.5)
    0.0
    """

    def solve(lam: float, start: Solution | None) -> Solution:
        alpha0 = None if start is None else start.alpha
        return solve_dual(K, y, C=C, lam=lam, alpha0=alpha0, tol=tol, **options)

    limit = nu_limit(y, C=C, sample_weight=options.get("sample_weight"))
    return search_margin(solve, nu, limit, tol)[0]


def solve_nu(
    row_source: RowSource,
    problem: DualProblem,
    settings: Settings,
    nu: float,
    *,
    above: np.ndarray,
    F: np.ndarray,
    lam: float = 0.0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> tuple[DualProblem, Solution]:
    """Solve a binary problem for ``nu`` on kernel rows; returns it with the margin found.

    ``alpha - bound`` is what adds up to ``nu``, see :func:`~sparseklr.dual.solver.solve_above_bound`. The
    search begins at the margin ``lam`` with ``above`` and ``F``.
    """

    def solve(lam: float, start: Solution | None) -> Solution:
        at = {"above": above, "F": F} if start is None else {"above": start.alpha, "F": start.F}
        margin = replace(problem, lam=lam)
        try:
            return solve_above_bound(row_source, margin, settings, **at, n_jobs=n_jobs, callback=callback)
        except SolveInterrupted as interrupted:
            interrupted.lam = lam
            raise

    limit = reachable_sum(problem)
    lam, solution = search_margin(solve, nu, limit, settings.tol, lam)
    return replace(problem, lam=lam), solution


def reachable_sum(problem: DualProblem) -> float:
    """What ``alpha - bound`` adds up to at the most."""
    room = problem.box - 2 * problem.bound
    return float(2 * min(room[problem.y > 0].sum(), room[problem.y < 0].sum()))


def check_nu(nu: float, limit: float) -> None:
    """Raise unless ``nu`` can be reached; ``limit`` is that of :func:`~sparseklr.dual.theory.nu_limit`."""
    if not (np.isfinite(nu) and nu >= 0):
        raise ValueError(f"nu must be a number >= 0; got {nu!r}.")
    if nu >= limit:
        raise ValueError(
            f"nu={nu:g} is infeasible: the dual variables of the smaller class, each below C times its "
            f"weight, add up to less than {limit / 2:g}, so nu must be below twice that, {limit:g}. Use a "
            "smaller nu or a larger C."
        )


def search_margin(
    solve: Solve, nu: float, limit: float, tol: float, lam: float = 0.0
) -> tuple[float, Solution]:
    """The margin at which alpha adds up to ``nu`` (within ``tol * nu``), and its solution.

    Begins at ``lam``. The margin is doubled until the sum is large enough, then the root is enclosed (Brent's
    method). Each solve starts from the one before it.
    """
    check_nu(nu, limit)
    # All are kept: solved again from another start, a margin would have another sum within the tolerance.
    solved, latest = {lam: solve(lam, None)}, lam

    def excess(lam: float) -> float:
        nonlocal latest
        if lam not in solved:
            solved[lam] = solve(lam, solved[latest])
            latest = lam
        difference = float(solved[lam].alpha.sum()) - nu
        return 0.0 if abs(difference) <= tol * nu else difference  # an exact zero ends the search

    if (reached := excess(lam)) == 0:
        return lam, solved[lam]
    if reached > 0 and excess(0.0) >= 0:
        return 0.0, solved[0.0]
    if reached > 0:
        low, high = 0.0, lam
    else:
        low, high = lam, max(1.0, 2 * lam)
        while (reached := excess(high)) < 0:
            # Solutions within a tolerance need not reach every sum.
            if high > 1e3 * max(1.0, limit):
                raise ValueError(
                    f"nu={nu:g} is too close to its limit {limit:g} for tol={tol:g}: at lam={high:g} the sum "
                    f"is {nu + reached:g}. Use a smaller nu or a smaller tol."
                )
            low, high = high, 2 * high
    root = float(brentq(excess, low, high, xtol=1e-12, rtol=1e-12))
    excess(root)
    return root, solved[root]
