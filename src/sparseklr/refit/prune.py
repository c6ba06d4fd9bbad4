r"""Pruning: the smallest part of a basis whose model predicts nearly the same probabilities.

Backward elimination (optimal brain surgeon; Hassibi and Stork, "Second order derivatives for network
pruning", NIPS 5, 1993) orders the points of a fitted model. The first s points of this order are nested for
all s, and so are their features, Newton matrices and factors. To second order, the prediction of the model on
s points follows without new kernel values or Newton matrices.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr
from scipy.linalg.lapack import dpotri
from scipy.special import expit

from .. import _core
from .basis import Basis, solve_lower
from .newton import Labels, LikelihoodFit, fit_likelihood, newton_factor
from .recalibration import Recalibration

# The elimination order uses ten times the ridge of the fit.
_RIDGE_OF_ORDER = 10.0


def _in_coefficients(basis: Basis, factor: np.ndarray) -> np.ndarray:
    """Factor (lower) of the Newton matrix in coefficients and intercept, from the factor in coordinates."""
    factor = factor.copy()
    factor[:-1] = basis.L @ factor[:-1]
    return factor


def elimination_order(basis: Basis, fit: LikelihoodFit) -> np.ndarray:
    """Positions in ``basis.chosen`` in the order of backward elimination, least important first."""
    ridge = np.append(np.full(basis.size, _RIDGE_OF_ORDER / fit.C), 0.0)
    sigma, _ = dpotri(_in_coefficients(basis, newton_factor(fit.curvature, ridge)), lower=True)
    sigma = np.tril(sigma) + np.tril(sigma, -1).T
    return _eliminate(sigma, np.append(basis.coefficients(fit.v), fit.v[-1]))


def _eliminate(sigma: np.ndarray, beta: np.ndarray, block: int = 64) -> np.ndarray:
    """Order of elimination by ``beta_b^2 / sigma_bb``; the last entry, the intercept, is never eliminated.

    Eliminating b changes beta by ``-sigma[:, b] beta_b / sigma_bb`` and sigma by the outer product of that
    column: a Cholesky factorisation with this pivot rule, computed in blocks.
    """
    left, beta = np.arange(len(beta) - 1), beta.copy()
    order = [left[:0]]
    while n := len(left):
        gone = np.empty(min(block, n), dtype=np.int64)
        V = np.empty((len(gone), n + 1))
        _core.eliminate(sigma, beta, gone, V)
        keep = np.delete(np.arange(n + 1), gone)
        order.append(left[gone])
        V = V[:, keep]
        sigma, beta, left = sigma[np.ix_(keep, keep)] - V.T @ V, beta[keep], left[keep[:-1]]
    return np.concatenate(order)


def prune(
    basis: Basis,
    labels: Labels,
    fit: LikelihoodFit,
    allowed: float,
    recalibration: Recalibration | None = None,
) -> tuple[Basis, LikelihoodFit]:
    r"""The model on the smallest nested part within ``allowed`` mean Kullback-Leibler divergence of the fit.

    The divergence is the larger of those of the probabilities with and without recalibration. With a steep
    recalibration nearly all training probabilities are 0 or 1, and points that matter for new rows would seem
    unnecessary.

    Let b contain the intercept and then the coefficients in order of importance, :math:`H = GG^\top` be the
    Newton matrix at the fit and :math:`z = G^\top b`. A Newton step from the fit to the first s entries leads
    to :math:`b_s = G_s^{-\top} z_{1..s}`, one triangular solve for each size.
    """
    total = labels.weight.sum()
    order = elimination_order(basis, fit)[::-1]  # most important first
    m = basis.size
    rows = np.append(m, order)
    (R,) = qr(_in_coefficients(basis, fit.factor)[rows].T, mode="r", check_finite=False)
    G = R.T
    z = R @ np.append(basis.coefficients(fit.v), fit.v[-1])[rows]
    maps = {Recalibration(), recalibration or Recalibration()}
    unpruned = {each: Labels(expit(each(fit.f)), labels.weight) for each in maps}
    entropy = {each: unpruned[each].at(each(fit.f)).value for each in maps}

    def distance(f: np.ndarray) -> float:
        return max(unpruned[each].at(each(f)).value - entropy[each] for each in maps) / total

    def step(size: int) -> tuple[np.ndarray, float]:
        b = solve_lower(G[: size + 1, : size + 1], z[: size + 1], trans=True)
        return b[1:], float(b[0])

    def near(size: int) -> bool:
        coef, intercept = step(size)
        whole = np.zeros(m)
        whole[order[:size]] = coef
        return distance(basis.outputs(basis.coordinates(whole, intercept))) <= allowed

    # Double the size until the model is near enough, then bisect.
    low, high = 0, min(5, m)
    while high < m and not near(high):
        low, high = high, min(2 * high, m)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if near(middle) else (middle, high)
    while high < m:  # check the second-order approximation by a fit
        kept = order[:high]
        part = basis.part(kept).whiten_if_few()
        refitted = fit_likelihood(
            part,
            labels,
            fit.C,
            part.coordinates(*step(high)),
            curvature=basis.turned(kept, part, fit.curvature),
            fresh=False,
            tol=1e-4,
        )
        if distance(refitted.f) <= allowed:
            return part, refitted
        high = min(m, high + 1 + high // 20)
    return basis, fit
