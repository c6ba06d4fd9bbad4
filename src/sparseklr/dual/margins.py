r"""The effect of the margin on the dual variables: their sum, their saturation, and the nu form.

Let :math:`\alpha(\lambda)` be the solution of the dual problem of :mod:`sparseklr.dual.problem` with upper
limits :math:`C_i`:

- :math:`\sum_i \alpha_i(\lambda)` is non-decreasing in :math:`\lambda`, because adding the optimality
  inequalities of two margins gives
  :math:`(\lambda_2 - \lambda_1)(\sum_i\alpha_i(\lambda_2) - \sum_i\alpha_i(\lambda_1)) \ge 0`;
- the limit of this sum is :math:`2 \min_\pm \sum_{y_i=\pm 1} C_i` (:func:`nu_limit`);
- the slack :math:`\rho` in the primal problem of the paper equals :math:`\lambda`;
- above a computable margin, all dual variables of the minority class are at their upper bounds
  (:func:`saturation_bound`);
- the points of the model are the training rows with :math:`y_i f(x_i)` below a threshold
  (:func:`support_band`).

**The nu form.** The sparse primal problem of the paper has a parameter :math:`\nu` and optimises the margin
:math:`\rho`:

.. math:: \min_{f,\, \rho \ge 0}\; \tfrac12\|f\|^2 + \sum_i C_i \log(1 + e^{\rho - y_i f(x_i)}) - \nu \rho .

At the optimum either :math:`\sum_i \alpha_i = \nu`, or :math:`\rho = 0` and
:math:`\bar\nu = \sum_i \alpha_i(0) \ge \nu`. The margin for a given :math:`\nu` is therefore the root of a
monotone function. Each evaluation of this function solves one dual problem, warm-started from the previous
solution.

The paper is Consolo, Manno and Amaldi (2025), Computers & Operations Research 188, 107363.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.utils import check_array, check_consistent_length

from ..kernels import RowSource
from .problem import DualProblem, labels_and_boxes
from .smo import BOUND_FRACTION, Callback, Settings, Solution, solve_above_bound, solve_dual

# Up to this number of operations, :func:`saturation_bound` considers every pair of a minority row and a
# majority row. The number of operations is the number of pairs times the number of all rows.
_PAIRWISE = 300_000_000


def nu_limit(y: Any, *, C: float, sample_weight: Any = None) -> float:
    r"""Return the limit of the sum of the dual variables as lam grows.

    The limit is :math:`2 \min_\pm \sum_{y_i = \pm 1} C_i`. Without weights the limit is :math:`2 C n_{min}`
    (Proposition 3 in the appendix of the paper), where :math:`n_{min}` is the size of the smaller class. The
    dual variables cannot sum to a ``nu`` at or above this limit. ``y`` contains the labels -1 and +1, and
    ``C_i = C * sample_weight_i``.

    Examples
    --------
    >>> nu_limit([-1, -1, -1, 1], C=10.0)
    20.0
    """
    y, box = labels_and_boxes(y, C, sample_weight)
    return float(2 * min(box[y > 0].sum(), box[y < 0].sum()))


def support_band(C: Any, lam: float, bound: Any = None) -> tuple[Any, Any]:
    r"""Return the interval of :math:`y_i f(x_i)` in which dual variables lie strictly between their bounds.

    At the optimum with the bounds :math:`b \le \alpha_i \le C - b` and :math:`w = \log\frac{C - b}{b}`, the
    dual variable of a training row is

    - at its upper bound if :math:`y_i f(x_i) \le \lambda - w`,
    - strictly between its bounds if :math:`\lambda - w < y_i f(x_i) < \lambda + w`,
    - at its lower bound if :math:`y_i f(x_i) \ge \lambda + w`. The model then drops the row.

    The points of the model are therefore exactly the rows with :math:`y_i f(x_i) < \lambda + w`.

    Parameters
    ----------
    C : float or array (n,)
        Weight of the loss; with sample weights, the array ``C * sample_weight``.
    lam : float
        The margin, >= 0.
    bound : float or array (n,), optional
        The lower bound b < C / 2, at which a dual variable counts as zero. The default is ``1e-9 * C``, as in
        :class:`~sparseklr.SKLR`. The paper uses ``bound=1e-5``.

    Returns
    -------
    lower, upper : float or array (n,)
        ``lam - w`` and ``lam + w``.

    Notes
    -----
    The derivative of the dual objective with respect to :math:`\alpha_i`, including the multiplier of
    :math:`y^\top\alpha = 0`, is :math:`y_i f(x_i) + \operatorname{logit}(\alpha_i / C) - \lambda`. The
    derivative is zero between the bounds, at least zero at the lower bound, and at most zero at the upper
    bound. The result follows because the logit is increasing and :math:`\operatorname{logit}(b / C) = -w`.

    For large :math:`\lambda`, :math:`f / \lambda` tends to the decision function of a support vector machine
    with parameter :math:`C / \lambda`. S-KLR then keeps the support vectors of this machine, and the rows
    whose margin in this machine lies between 1 and :math:`1 + w / \lambda`.

    References
    ----------
    Consolo, Manno and Amaldi (2025), "Binary kernel logistic regression: a sparsity-inducing formulation and
    a convergent decomposition training algorithm", Computers & Operations Research 188, 107363. Its last
    section poses the level of sparsity as an open question.

    Examples
    --------
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> y = np.where(X.ravel() > 0, 1, -1)
    >>> solution = solve_dual(np.exp(-((X - X.T) ** 2)), y, C=1000.0, lam=100.0)
    >>> lower, upper = support_band(C=1000.0, lam=100.0)
    >>> print(f"{lower:.2f} {upper:.2f}")
    79.28 120.72
    >>> len(solution.support), int((y * solution.decision < upper).sum())
    (24, 24)
    """
    box, lam = np.asarray(C, dtype=float), float(lam)
    if not (np.isfinite(box).all() and (box > 0).all()):
        raise ValueError(f"C must be positive and finite; got {C!r}. Remove rows whose weight is 0.")
    if not (np.isfinite(lam) and lam >= 0):
        raise ValueError(f"lam must be a number >= 0; got {lam!r}.")
    low = BOUND_FRACTION * box if bound is None else np.asarray(bound, dtype=float)
    if not ((low > 0) & (low < box / 2)).all():
        raise ValueError(f"bound must be positive and less than C / 2; got bound={bound!r} and C={C!r}.")
    width = np.log((box - low) / low)
    return (lam - width)[()], (lam + width)[()]


def saturation_bound(
    K: Any, y: Any, C: float, tol: float | None = None, *, sample_weight: Any = None
) -> float:
    r"""Return a margin above which every dual variable of the minority class is at its upper bound.

    For every ``lam`` at or above this margin, :math:`\alpha_i(\lambda) \ge C_i - \gamma_i` with
    ``gamma_i = tol * C_i / C`` for each row i of the minority class M. This is the class with the smaller
    sum of :math:`C_i`; if the sums are equal, the statement holds for both classes. A larger margin then
    changes only the intercept.

    Parameters
    ----------
    K : array (n, n)
        Symmetric kernel matrix; entries may have any sign.
    y : array (n,)
        Labels, -1 or +1.
    C : float
        Weight of the loss.
    tol : float, optional
        The gamma of the paper, below C; ``1e-5 * C`` by default.
    sample_weight : array (n,), optional
        Non-negative weights; ``C_i = C * sample_weight_i``. Rows of weight 0 are ignored.

    Returns
    -------
    float

    Notes
    -----
    Suppose that :math:`\alpha_i < C_i - \gamma_i` for some i in M. Let j be any row of the majority class
    N. Adding the stationarity conditions of i and j, in which the intercept cancels, gives

    .. math:: \operatorname{logit}(\alpha_j/C_j) \ge 2\lambda - \operatorname{logit}(1-\gamma/C)
              - (y_i F_i + y_j F_j),

    .. math:: y_i F_i + y_j F_j = \sum_{k \in M} \alpha_k (K_{ik} - K_{jk})
              + \sum_{k \in N} \alpha_k (K_{jk} - K_{ik}) \le P_{ij},

    .. math:: P_{ij} = \sum_{k \in M} C_k (K_{ik} - K_{jk})_+
              + \max\Bigl\{\sum_{k \in N} a_k (K_{jk} - K_{ik})_+ :
              0 \le a_k \le C_k,\ \sum_N a_k \le \sum_M C_k\Bigr\}.

    On the other hand :math:`\sum_N \alpha_j = \sum_M \alpha_k < \sum_M C_k - \gamma_i`. The bound is
    therefore the largest, over i in M, of the roots :math:`\lambda` of

    .. math:: \sum_{j \in N} C_j\, \sigma(2\lambda - \operatorname{logit}(1-\gamma/C) - P_{ij})
              = \sum_{k \in M} C_k - \min_k \gamma_k .

    Computing :math:`P_{ij}` for all pairs costs :math:`O(n^3)`. Above about 1000 rows, :math:`K_{jk}` and
    :math:`K_{ik}` in the differences are replaced by their minima over j and over i. This gives a larger
    bound at a cost of :math:`O(n^2)`.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> K, y = np.exp(-((X - X.T) ** 2)), np.array([-1, -1, 1, 1])
    >>> bound = saturation_bound(K, y, C=1.0, tol=1e-3)
    >>> alpha = solve_dual(K, y, C=1.0, lam=bound, tol=1e-8).alpha
    >>> bool(alpha.min() >= 1 - 1e-3)
    True
    """
    K = check_array(K, dtype=[np.float64, np.float32], input_name="K")
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"K must be a square kernel matrix; its shape is {K.shape}.")
    y, box = labels_and_boxes(y, C, sample_weight)
    check_consistent_length(K, y)
    gamma = 1e-5 if tol is None else tol / C
    if not 0 < gamma < 1:
        raise ValueError(f"tol must lie between 0 and C={C:g}; got {tol!r}.")
    keep = np.flatnonzero(box > 0)
    if len(keep) < len(y):
        K, y, box = K[np.ix_(keep, keep)], y[keep], box[keep]
    minority = y == (1 if box[y > 0].sum() < box[y < 0].sum() else -1)
    bounds = [_one_sided_bound(K, box, minority, gamma)]
    if box[minority].sum() == box[~minority].sum():
        bounds.append(_one_sided_bound(K, box, ~minority, gamma))
    return max(0.0, *bounds)


def _one_sided_bound(K: np.ndarray, box: np.ndarray, minority: np.ndarray, gamma: float) -> float:
    """Return the saturation bound for the class given by the mask; ``gamma`` is relative to :math:`C_i`."""
    few, many = np.flatnonzero(minority), np.flatnonzero(~minority)
    target = box[few].sum() - gamma * box[few].min()
    edge = logit(1 - gamma)
    bounds = []
    for load in _loads(K, box, few, many):

        def missing(lam: float, load: np.ndarray = load) -> float:
            return float(box[many] @ expit(2 * lam - edge - load) - target)

        # Outside the interval from low to high, every sigmoid is numerically 0 or 1.
        spread = 40.0 + np.log(box[many].sum()) - np.log(gamma) - np.log(box[few].min())
        low, high = (0.5 * (edge + end) for end in (load.min() - spread, load.max() + spread))
        # If rounding hides the change of sign, the root is at an end of the interval. Intervals that reach
        # up to 1e300 need many iterations.
        at_low, at_high = missing(low) >= 0, missing(high) <= 0
        root = low if at_low else high if at_high else brentq(missing, low, high, maxiter=2000)
        bounds.append(root)
    return float(max(bounds))


def _loads(K: np.ndarray, box: np.ndarray, few: np.ndarray, many: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the bounds :math:`P_{ij}` of :func:`saturation_bound`, as arrays over the majority rows j.

    There is one array for each minority row i, or a single array of larger bounds that holds for all i.
    """
    total = box[few].sum()
    to_few, to_many = K[np.ix_(many, few)], K[np.ix_(many, many)]
    if len(few) * len(many) * len(K) <= _PAIRWISE:
        for i in few:
            within = np.maximum(K[i, few] - to_few, 0.0) @ box[few]
            yield within + _fill(to_many - K[i, many], box[many], total)
    else:
        within = np.maximum(K[np.ix_(few, few)] - to_few.min(axis=0), 0.0) @ box[few]
        yield within.max() + _fill(to_many - K[np.ix_(few, many)].min(axis=0), box[many], total)


def _fill(gain: np.ndarray, capacity: np.ndarray, total: float) -> np.ndarray:
    """Return the maximum of ``sum_k a_k gain_k`` for each row of ``gain``.

    The constraints are 0 <= a <= capacity and sum a <= total.
    """
    gain = np.maximum(gain, 0.0)
    n_full = round(total / capacity[0])
    if np.ptp(capacity) == 0 and np.isclose(total, n_full * capacity[0], rtol=1e-12):
        if n_full >= len(capacity):
            return gain @ capacity
        return capacity[0] * np.partition(gain, -n_full, axis=1)[:, -n_full:].sum(axis=1)
    order = np.argsort(-gain, axis=1)
    before = np.cumsum(capacity[order], axis=1) - capacity[order]
    amount = np.clip(total - before, 0.0, capacity[order])
    return (amount * np.take_along_axis(gain, order, axis=1)).sum(axis=1)


# -- the nu form ----------------------------------------------------------------------------------

# A function solve(lam, start) that solves the dual problem for a margin, warm-started from ``start``.
Solve = Callable[[float, Solution | None], Solution]


def nu_bar(K: Any, y: Any, *, C: float, **options: Any) -> float:
    r"""Return the sum of the dual variables of kernel logistic regression (``lam=0``).

    The sum is :math:`\bar\nu = \sum_i C_i \sigma(-y_i f_0(x_i))`, where :math:`f_0` is the solution with
    ``lam=0``. For ``nu`` up to :math:`\bar\nu`, the nu form is kernel logistic regression; for larger ``nu``
    the margin is positive. The arguments are passed to :func:`~sparseklr.dual.solve_dual`.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> round(nu_bar(X @ X.T, [-1, -1, 1, 1], C=1.0), 3)
    1.149
    """
    return float(solve_dual(K, y, C=C, lam=0.0, **options).alpha.sum())


def lam_for_nu(K: Any, y: Any, *, C: float, nu: float, tol: float = 1e-6, **options: Any) -> float:
    """Return the margin at which the dual variables sum to ``nu``, or 0 if ``nu`` is at most :func:`nu_bar`.

    ``nu`` must be below :func:`nu_limit`. The sum equals ``nu`` up to the relative tolerance ``tol``. The
    other arguments are passed to :func:`~sparseklr.dual.solve_dual`.

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
    """Solve a binary problem in the nu form.

    The results are the problem with the margin that was found, and its solution. The variables ``alpha -
    bound`` sum to ``nu`` (see :func:`~sparseklr.dual.smo.solve_above_bound`). The search starts at the margin
    ``lam``, from the variables ``above`` and the corresponding ``F``.
    """

    def solve(lam: float, start: Solution | None) -> Solution:
        first, its_F = (above, F) if start is None else (start.alpha, start.F)
        margin = replace(problem, lam=lam)
        return solve_above_bound(
            row_source, margin, settings, above=first, F=its_F, n_jobs=n_jobs, callback=callback
        )

    lam, solution = search_margin(solve, nu, reachable_sum(problem), settings.tol, lam)
    return replace(problem, lam=lam), solution


def reachable_sum(problem: DualProblem) -> float:
    """Return the largest possible sum of ``alpha - bound``."""
    widths = problem.box - 2 * problem.bound
    return float(2 * min(widths[problem.y > 0].sum(), widths[problem.y < 0].sum()))


def search_margin(
    solve: Solve, nu: float, limit: float, tol: float, lam: float = 0.0
) -> tuple[float, Solution]:
    """Return the margin at which alpha sums to ``nu`` (within ``tol * nu``), and its solution.

    Starting from ``lam``, the margin is doubled until the sum is large enough. Brent's method then finds the
    root. Each problem is warm-started from the previous solution. ``limit`` is the value of :func:`nu_limit`.
    """
    if not (np.isfinite(nu) and nu >= 0):
        raise ValueError(f"nu must be a number >= 0; got {nu!r}.")
    if nu >= limit:
        raise ValueError(
            f"nu={nu:g} is infeasible: the dual variables sum to less than {limit:g}, twice the sum of "
            "C times sample_weight over the smaller class. Use a smaller nu or a larger C."
        )
    # Store the solutions: solving again from another start would give a slightly different sum.
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
            # Approximate solutions may not reach every sum below the limit.
            if high > 1e3 * max(1.0, limit):
                raise ValueError(
                    f"nu={nu:g} is too close to its limit {limit:g} for tol={tol:g}: at lam={high:g} the sum "
                    f"is {nu + reached:g}. Use a smaller nu or a smaller tol."
                )
            low, high = high, 2 * high
    root = float(brentq(excess, low, high, xtol=1e-12, rtol=1e-12))
    excess(root)
    return root, solved[root]
