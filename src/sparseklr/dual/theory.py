r"""What is known about the dual variables as functions of the margin, as functions to call.

For the dual of :mod:`sparseklr.dual.problem` with boxes :math:`C_i`, and :math:`\alpha(\lambda)` its
solution:

- :math:`0 < \alpha_i < C_i`, and :math:`\sum_i \alpha_i(\lambda)` does not decrease with
  :math:`\lambda` (:func:`alpha_sums`);
- it tends to :math:`2 \min(\sum_{y_i=1} C_i, \sum_{y_i=-1} C_i)`, that is :math:`2 C n_{min}`
  (:func:`nu_limit`);
- the slack :math:`\rho` of the paper's primal equals :math:`\lambda` (:func:`rho`);
- beyond a margin that can be computed beforehand the minority class is saturated and nothing more is
  gained (:func:`saturation_bound`). The paper's own formula, which does not hold, is
  :func:`paper_saturation_bound`.

References
----------
Consolo, Manno and Amaldi, "Binary kernel logistic regression: a sparsity-inducing formulation
and a convergent decomposition training algorithm", Computers & Operations Research 188, 107363.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .problem import labels_and_boxes
from .solver import Solution, solve_dual

# The saturation bound looks at each pair up to this many triples (minority point, majority point, point).
_PAIRWISE = 300_000_000


def nu_limit(y: Any, *, C: float, sample_weight: Any = None) -> float:
    r"""The number that the sum of the dual variables tends to as the margin grows.

    :math:`\sum_i\alpha_i(\lambda) \uparrow 2 \min_\pm \sum_{y_i = \pm 1} C_i`, which is
    :math:`2 C n_{min}` without weights (Proposition 3 of the paper's appendix): no ``nu`` at or above
    it can be reached.

    Parameters
    ----------
    y : array (n,)
        Labels, -1 or +1.
    C : float
        Weight of the loss.
    sample_weight : array (n,), optional
        Non-negative; ``C_i = C * sample_weight_i``.

    Returns
    -------
    float

    Examples
    --------
    >>> nu_limit([-1, -1, -1, 1], C=10.0)
    20.0
    """
    y, box = labels_and_boxes(y, C, sample_weight)
    return float(2 * min(box[y > 0].sum(), box[y < 0].sum()))


def rho(solution: Solution, y: Any, *, C: float, sample_weight: Any = None) -> float:
    r"""The paper's primal slack at a solution; it equals ``lam`` (its Observation 1).

    :math:`\xi_i = \rho - y_i f(x_i)` and :math:`\alpha_i = C_i \sigma(\xi_i)` give
    :math:`\rho = \operatorname{logit}(\alpha_i / C_i) + y_i f(x_i)` at each point; the median is
    taken over the points inside their box.

    Parameters
    ----------
    solution : Solution
        As returned by :func:`~sparseklr.solve_dual`.
    y : array (n,)
        Labels, -1 or +1.
    C : float
        The C of the solution.
    sample_weight : array (n,), optional
        The weights of the solution.

    Returns
    -------
    float

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> solution = solve_dual(X @ X.T, [-1, -1, 1, 1], C=1.0, lam=2.5, tol=1e-10)
    >>> round(rho(solution, [-1, -1, 1, 1], C=1.0), 6)
    2.5
    """
    y, box = labels_and_boxes(y, C, sample_weight)
    check_consistent_length(solution.alpha, y)
    inside = (solution.alpha > 1e-8 * box) & (solution.alpha < (1 - 1e-8) * box)
    if not inside.any():
        raise ValueError("solution holds no dual variable inside its box, so rho is not determined.")
    slack = logit(solution.alpha[inside] / box[inside]) + (y * solution.decision)[inside]
    return float(np.median(slack))


def alpha_sums(K: Any, y: Any, *, C: float, lams: Any, **options: Any) -> np.ndarray:
    r""":math:`\sum_i \alpha_i(\lambda)` at each margin; non-decreasing in it.

    Adding the optimality inequalities of two margins gives
    :math:`(\lambda_2 - \lambda_1)(\sum_i\alpha_i(\lambda_2) - \sum_i\alpha_i(\lambda_1)) \ge 0`.

    Parameters
    ----------
    K : array (n, n)
        Symmetric kernel matrix.
    y : array (n,)
        Labels, -1 or +1.
    C : float
    lams : array (n_lams,)
        Margins, in any order.
    **options
        Options of :func:`~sparseklr.solve_dual`, such as ``tol`` and ``sample_weight``.

    Returns
    -------
    array (n_lams,)

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> sums = alpha_sums(X @ X.T, [-1, -1, 1, 1], C=1.0, lams=[0.0, 1.0, 10.0])
    >>> bool(np.all(np.diff(sums) >= 0) and sums[-1] <= nu_limit([-1, -1, 1, 1], C=1.0))
    True
    """
    lams = column_or_1d(lams).astype(np.float64)
    sums, alpha0 = np.empty(len(lams)), None
    for k in np.argsort(lams):
        alpha0 = solve_dual(K, y, C=C, lam=float(lams[k]), alpha0=alpha0, **options).alpha
        sums[k] = alpha0.sum()
    return sums


def saturation_bound(
    K: Any, y: Any, C: float, tol: float | None = None, *, sample_weight: Any = None
) -> float:
    r"""A margin beyond which every dual variable of the minority class is at its box.

    For every ``lam`` at or above the returned number, :math:`\alpha_i(\lambda) \ge C_i - \gamma_i`
    for each point i of the minority class M (the one of smaller total box; both if these are
    equal), with ``gamma_i = tol * C_i / C``. A larger margin then only scales the model.

    Parameters
    ----------
    K : array (n, n)
        Symmetric kernel matrix; entries of any sign.
    y : array (n,)
        Labels, -1 or +1.
    C : float
        Weight of the loss.
    tol : float, optional
        The paper's gamma, below C; ``1e-5 * C`` by default.
    sample_weight : array (n,), optional
        Non-negative; ``C_i = C * sample_weight_i``. Points of weight 0 do not count.

    Returns
    -------
    float

    Notes
    -----
    Were :math:`\alpha_i < C_i - \gamma_i` for some i in M, stationarity at i and at each j of the majority
    N would add up (the intercept cancels) to

    .. math:: \operatorname{logit}(\alpha_j/C_j) \ge 2\lambda - \operatorname{logit}(1-\gamma/C)
              - (y_i F_i + y_j F_j),

    .. math:: y_i F_i + y_j F_j = \sum_{k \in M} \alpha_k (K_{ik} - K_{jk})
              + \sum_{k \in N} \alpha_k (K_{jk} - K_{ik}) \le P_{ij},

    .. math:: P_{ij} = \sum_{k \in M} C_k (K_{ik} - K_{jk})_+
              + \max\Bigl\{\sum_{k \in N} a_k (K_{jk} - K_{ik})_+ :
              0 \le a_k \le C_k,\ \sum_N a_k \le \sum_M C_k\Bigr\}.

    But :math:`\sum_N \alpha_j = \sum_M \alpha_k < \sum_M C_k - \gamma_i`. So the bound is the largest, over i
    in M, of the roots of

    .. math:: \sum_{j \in N} C_j\, \sigma(2\lambda - \operatorname{logit}(1-\gamma/C) - P_{ij})
              = \sum_{k \in M} C_k - \min_k \gamma_k .

    All pairs cost :math:`O(n^3)`. Above about 1000 points the differences are bounded by those to
    the smallest :math:`K_{jk}` over j and the smallest :math:`K_{ik}` over i, which costs
    :math:`O(n^2)`. With zero in place of these (for a kernel without negative values), and the largest
    value over j for all j, it is the simpler and looser
    :math:`2\lambda = C \max_i\sum_{k \in M} K_{ik}
    + C\max_j(\text{the } |M| \text{ largest } K_{jk}, k \in N)
    + \operatorname{logit}(1 - \gamma/C) + \operatorname{logit}(1 - \gamma/(C|N|))`.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> K, y = np.exp(-((X - X.T) ** 2)), np.array([-1, -1, 1, 1])
    >>> bound = saturation_bound(K, y, C=1.0, tol=1e-3)
    >>> alpha = solve_dual(K, y, C=1.0, lam=bound, tol=1e-8).alpha
    >>> bool(alpha.min() >= 1 - 1e-3)
    True
    """
    K, y, box, gamma = _checked(K, y, C, tol, sample_weight)
    minority = y == (1 if box[y > 0].sum() < box[y < 0].sum() else -1)
    bounds = [_one_sided_bound(K, box, minority, gamma)]
    if box[minority].sum() == box[~minority].sum():
        bounds.append(_one_sided_bound(K, box, ~minority, gamma))
    return max(0.0, *bounds)


def _one_sided_bound(K: np.ndarray, box: np.ndarray, minority: np.ndarray, gamma: float) -> float:
    """The bound for the points of the mask; ``gamma`` is relative to the box."""
    few, many = np.flatnonzero(minority), np.flatnonzero(~minority)
    target = box[few].sum() - gamma * box[few].min()
    edge = logit(1 - gamma)
    bounds = []
    for load in _loads(K, box, few, many):

        def missing(lam: float, load: np.ndarray = load) -> float:
            return float(box[many] @ expit(2 * lam - edge - load) - target)

        # Beyond it every sigmoid is 0 or 1.
        spread = 40.0 + np.log(box[many].sum()) - np.log(gamma) - np.log(box[few].min())
        low, high = (0.5 * (edge + end) for end in (load.min() - spread, load.max() + spread))
        # Where rounding hides the sign at an end, that end is the root.
        at_low, at_high = missing(low) >= 0, missing(high) <= 0
        root = (
            low if at_low else high if at_high else brentq(missing, low, high, maxiter=2000)
        )  # loads of 1e300
        bounds.append(root)
    return float(max(bounds))


def _loads(K: np.ndarray, box: np.ndarray, few: np.ndarray, many: np.ndarray) -> Iterator[np.ndarray]:
    """Bounds of ``y_i F_i + y_j F_j`` over j of the majority: one array for each i, or one for all i."""
    total = box[few].sum()
    to_few, to_many = K[np.ix_(many, few)], K[np.ix_(many, many)]
    if len(few) * len(many) * len(K) <= _PAIRWISE:
        for i in few:
            own = np.maximum(K[i, few] - to_few, 0.0) @ box[few]
            yield own + _fill(to_many - K[i, many], box[many], total)
    else:
        own = np.maximum(K[np.ix_(few, few)] - to_few.min(axis=0), 0.0) @ box[few]
        yield own.max() + _fill(to_many - K[np.ix_(few, many)].min(axis=0), box[many], total)


def _fill(gain: np.ndarray, capacity: np.ndarray, total: float) -> np.ndarray:
    """Largest ``sum_k a_k gain_k`` of each row over 0 <= a <= capacity, sum a <= total."""
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


def paper_saturation_bound(
    K: Any, y: Any, C: float, tol: float | None = None, *, sample_weight: Any = None
) -> float:
    r"""Proposition 1 of the paper as printed. It does not hold: use :func:`saturation_bound`.

    .. math:: \lambda \ge \max_{i \in I_-} \sum_j (C - \gamma - \alpha_j(0))\, y_j K_{ij}

    with :math:`I_-` the minority class (labels are exchanged if it is the positive one) and
    :math:`\alpha(0)` the solution of plain kernel logistic regression.

    Parameters
    ----------
    K : array (n, n)
        Symmetric kernel matrix.
    y : array (n,)
        Labels, -1 or +1.
    C : float
    tol : float, optional
        The paper's gamma, below C; ``1e-5 * C`` by default.
    sample_weight : array (n,), optional
        Non-negative; ``C_i = C * sample_weight_i``.

    Returns
    -------
    float

    Notes
    -----
    The proof loses the sign :math:`y_i` of the index i and takes every majority variable to reach
    its box, which fewer than all of them do. With features in [0, 1], ``exp(-||x - x'||^2 / 2)``, C = 1
    and gamma = 1e-5, the minority class is saturated from lam = 13.9 on for sonar and from 29.5 on
    for monk2; the formula says 3.9 and 16.3, :func:`saturation_bound` 20.6 and 44.5.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> K, y = np.exp(-((X - X.T) ** 2)), np.array([-1, -1, 1, 1])
    >>> lam = paper_saturation_bound(K, y, C=1.0, tol=1e-3)
    >>> alpha = solve_dual(K, y, C=1.0, lam=max(lam, 0.0), tol=1e-8).alpha
    >>> bool(alpha[y < 0].min() >= 1 - 1e-3)
    False
    """
    K, y, box, gamma = _checked(K, y, C, tol, sample_weight)
    if box[y > 0].sum() < box[y < 0].sum():
        y = -y
    alpha = solve_dual(K, y, C=1.0, lam=0.0, sample_weight=box).alpha
    return float((K[y < 0] @ (((1 - gamma) * box - alpha) * y)).max())


def _checked(
    K: Any, y: Any, C: float, tol: float | None, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """K, y and boxes of the points that count, and the tolerance relative to the box."""
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
    return K, y, box, gamma
