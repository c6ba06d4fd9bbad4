r"""Pruning: the smallest part of a basis whose model predicts the same probabilities.

Backward elimination (optimal brain surgeon; Hassibi and Stork, "Second order derivatives for network
pruning", NIPS 5, 1993) orders the points of a fitted model. The first s in this order are nested for all s,
and so are their features, Newton matrices and factors: what a model of s points predicts is known, to second
order, without another look at a kernel value and without another Newton matrix.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import expit

from .basis import Basis
from .likelihood import Labels, LikelihoodFit, fit_likelihood
from .loss import cross_entropies

# In the order of elimination the points are held together by ten times the ridge of the fit.
_RIDGE_OF_ORDER = 10.0


def elimination_order(basis: Basis, fit: LikelihoodFit) -> np.ndarray:
    """Positions in ``basis.chosen``, most expendable first, by backward elimination."""
    m = basis.size
    H = fit.factor @ fit.factor.T
    H[:m, :m] += np.diag(np.full(m, (_RIDGE_OF_ORDER - 1) / fit.C))
    # covariance of (beta, c): T' H^-1 T with T = diag(L^-1, 1)
    T = np.eye(m + 1)
    T[:m, :m] = solve_triangular(basis.L, np.eye(m), lower=True, check_finite=False)
    half = solve_triangular(cholesky(H, lower=True, check_finite=False), T, lower=True, check_finite=False)
    return _eliminate(half.T @ half, np.append(basis.coefficients(fit.v), fit.v[-1]))


def _eliminate(sigma: np.ndarray, beta: np.ndarray, block: int = 64) -> np.ndarray:
    """Order of elimination by ``beta_b^2 / sigma_bb``; the last entry, the intercept, stays.

    Taking b away moves beta by ``-sigma[:, b] beta_b / sigma_bb`` and sigma by the outer product of that
    column: a Cholesky factorisation with this pivot rule, the products put off to blocks.
    """
    left, order = np.arange(len(beta) - 1), []
    while n := len(left):
        size = min(block, n)
        V, variance, gone = np.empty((n + 1, size)), sigma.diagonal().copy(), np.zeros(n, dtype=bool)
        for k in range(size):
            saliency = beta[:n] ** 2 / np.maximum(variance[:n], 1e-300)
            b = int(np.argmin(np.where(gone, np.inf, saliency)))
            column = sigma[:, b] - V[:, :k] @ V[b, :k]
            scale = max(float(column[b]), 1e-300)
            beta = beta - column * (beta[b] / scale)
            V[:, k] = column / np.sqrt(scale)
            variance -= V[:, k] ** 2
            gone[b] = True
            order.append(left[b])
        keep = np.append(np.flatnonzero(~gone), n)
        sigma = sigma[np.ix_(keep, keep)] - V[keep] @ V[keep].T
        beta, left = beta[keep], left[~gone]
    return np.array(order, dtype=np.intp)


def prune(basis: Basis, labels: Labels, fit: LikelihoodFit, allowed: float) -> tuple[Basis, LikelihoodFit]:
    r"""The model on the smallest nested part within ``allowed`` mean Kullback-Leibler distance of the fit.

    In the coordinates u of :meth:`.Basis.nested`, the intercept first, let :math:`H = GG^\top` be the Newton
    matrix at the fit and :math:`z = G^\top u`. A Newton step from the fit to the first s coordinates leads to
    :math:`u_s = G_s^{-\top} z_{1..s}`: one triangular system for each size.
    """
    order = elimination_order(basis, fit)[::-1]  # most important first
    Q, L = basis.nested(order)
    m = basis.size
    turn = np.zeros((m + 1, m + 1))
    turn[:-1, 1:], turn[-1, 0] = Q, 1
    half = fit.factor.T @ turn
    G = cholesky(half.T @ half, lower=True, check_finite=False)
    z = G.T @ (turn.T @ fit.v)
    p = expit(fit.f)
    entropy, _ = labels.mean(cross_entropies(p, fit.f))

    def distance(f: np.ndarray) -> float:
        return labels.mean(cross_entropies(p, f))[0] - entropy

    def step(size: int) -> np.ndarray:
        return solve_triangular(
            G[: size + 1, : size + 1], z[: size + 1], lower=True, trans="T", check_finite=False
        )

    def near(size: int) -> bool:
        return distance(basis.outputs(turn[:, : size + 1] @ step(size))) <= allowed

    # sizes 5, 10, 20, ... until one is near enough, then halve the interval
    low, high = 0, min(5, m)
    while high < m and not near(high):
        low, high = high, min(2 * high, m)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if near(middle) else (middle, high)
    while high < m:  # what was near to second order must be so
        part = basis.part(order, Q[:, :high], L)
        refitted = fit_likelihood(part, labels, fit.C, np.roll(step(high), -1), tol=1e-6)
        if distance(refitted.f) <= allowed:
            return part, refitted
        high = min(m, high + 1 + high // 20)
    return basis, fit
