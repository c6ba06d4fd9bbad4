"""Pruning: search for fewer points with which the refitted model predicts nearly the same probabilities.

Backward elimination (optimal brain surgeon; Hassibi and Stork, "Second order derivatives for network
pruning", NIPS 5, 1993) orders the points of a fitted model by importance. The sets of the s most important
points are nested, and so are their features, Newton matrices and Cholesky factors. For every s, the
predictions of the model that uses only the s most important points can therefore be approximated to second
order, without computing new kernel values or Newton matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import qr
from scipy.linalg.lapack import dpotri

from .. import _core
from .basis import Basis, solve_lower
from .labels import Labels
from .newton import LikelihoodFit, fit_likelihood, newton_factor
from .recalibration import Recalibration

# The elimination order uses this multiple of the ridge of the fitted model.
_RIDGE_OF_ORDER = 10.0


def _in_coefficients(basis: Basis, factor: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of the Newton matrix with respect to coefficients and intercept.

    ``factor`` is the lower Cholesky factor with respect to the coordinates of the basis.
    """
    factor = factor.copy()
    factor[:-1] = basis.L @ factor[:-1]
    return factor


def elimination_order(basis: Basis, fit: LikelihoodFit) -> np.ndarray:
    """Return positions in ``basis.chosen`` in the order of backward elimination, least important first.

    With more than two classes, all classes share one order. It is computed from the mean information of the
    classes (:mod:`~.labels`).
    """
    ridge = np.append(np.full(basis.size, _RIDGE_OF_ORDER / fit.C), 0.0)
    sigma, _ = dpotri(_in_coefficients(basis, newton_factor(fit.curvature, ridge)), lower=True)
    sigma = np.tril(sigma) + np.tril(sigma, -1).T
    beta = np.concatenate([basis.coefficients(fit.v), fit.v[-1:]])
    return _eliminate(sigma, beta.reshape(len(beta), -1).T)


def _eliminate(sigma: np.ndarray, beta: np.ndarray, block: int = 64) -> np.ndarray:
    """Return the order of elimination by ``|beta_b|^2 / sigma_bb``, smallest first.

    ``sigma`` is the inverse Newton matrix, and ``beta`` has a row of coefficients for each output. The last
    entry of a row, the intercept, is never eliminated. Eliminating b changes beta by
    ``-sigma[:, b] beta_b / sigma_bb`` and sigma by ``-sigma[:, b] sigma[b, :] / sigma_bb``. These are the
    steps of a Cholesky factorisation with this pivot rule, which is computed in blocks.
    """
    left, beta = np.arange(beta.shape[1] - 1), beta.copy()
    order = [left[:0]]
    while n := len(left):
        gone = np.empty(min(block, n), dtype=np.int64)
        V = np.empty((len(gone), n + 1))
        _core.eliminate(sigma, beta, gone, V)
        keep = np.delete(np.arange(n + 1), gone)
        order.append(left[gone])
        V = V[:, keep]
        sigma, left = sigma[np.ix_(keep, keep)] - V.T @ V, left[keep[:-1]]
        beta = np.ascontiguousarray(beta[:, keep])
    return np.concatenate(order)


def prune(
    basis: Basis,
    labels: Labels,
    fit: LikelihoodFit,
    allowed: float,
    maps: Sequence[Recalibration] = (Recalibration(),),
    max_points: int | None = None,
) -> tuple[Basis, LikelihoodFit]:
    """Return a model on fewer points whose divergence from the model ``fit`` is at most ``allowed``.

    The divergence is the mean Kullback-Leibler divergence between the probabilities of the two models. It is
    computed after each recalibration in ``maps``, and the largest value is used. If nearly all training
    probabilities are 0 or 1, points that matter for new rows would seem unnecessary. A recalibration that
    moves the training probabilities away from 0 and 1 prevents this.

    The function searches for the smallest number s such that the s most important points suffice. One Newton
    step from ``fit`` approximates the model on s points; with more than two classes, the Newton matrix is
    computed from the mean information of the classes. A refit on the s points then checks the approximation.
    The result has at most ``max_points`` points, even if its divergence is larger than ``allowed``.
    """
    order, m = elimination_order(basis, fit)[::-1], basis.size  # most important first
    distance, step = _divergence(labels, fit, maps), _newton_steps(basis, fit, order)

    def fitted(size: int) -> tuple[Basis, LikelihoodFit]:
        kept = order[:size]
        part = basis.part(kept).whiten_if_few()
        projection = basis.projection(kept, part)
        return part, fit_likelihood(
            part,
            labels,
            fit.C,
            part.coordinates(*step(size)),
            curvature=None if labels.several else projection @ fit.curvature @ projection.T,
            fresh=False,
            tol=1e-4,
        )

    def near(size: int) -> bool:
        coef, intercept = step(size)
        whole = np.zeros((m, *coef.shape[1:]))
        whole[order[:size]] = coef
        return distance(basis.outputs(basis.coordinates(whole, intercept))) <= allowed

    # Double the number of points until the divergence is small enough, then bisect.
    most = m if max_points is None else min(m, max_points)
    low, high = 0, min(5, most)
    while high < most and not near(high):
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if near(middle) else (middle, high)
    best = basis, fit
    while high < m:  # check the second-order approximation by a refit
        best = fitted(high)
        if high == most or distance(best[1].f) <= allowed:
            break
        best, high = (basis, fit), min(most, high + 1 + high // 20)
    # With more than two classes, the refitted model is better than the approximation and needs fewer points.
    while labels.several and (high := high - 1 - high // 20) > 0:
        smaller = fitted(high)
        if distance(smaller[1].f) > allowed:
            break
        best = smaller
    return best


def _divergence(
    labels: Labels, fit: LikelihoodFit, maps: Sequence[Recalibration]
) -> Callable[[np.ndarray], float]:
    """Return a function that measures how far outputs f are from those of the model ``fit``.

    The distance is the mean Kullback-Leibler divergence between the probabilities. It is computed after each
    recalibration in ``maps``, and the function returns the largest value.
    """
    unpruned = [replace(labels, target=labels.probabilities(each(fit.f))) for each in maps]
    entropy = [one.at(each(fit.f)).value for one, each in zip(unpruned, maps, strict=True)]

    def distance(f: np.ndarray) -> float:
        terms = zip(unpruned, maps, entropy, strict=True)
        return max(one.at(each(f)).value - least for one, each, least in terms) / labels.weight.sum()

    return distance


def _newton_steps(
    basis: Basis, fit: LikelihoodFit, order: np.ndarray
) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    r"""Return a function from the number of points to coefficients and intercept after a Newton step.

    The Newton step starts at ``fit``. Let b contain the intercept and then the coefficients in order of
    importance. Let :math:`H = GG^\top` be the Newton matrix at ``fit`` with respect to b, and
    :math:`z = G^\top b`. The Newton step to the model with the first s entries of b gives
    :math:`b_s = G_s^{-\top} z_{1..s}`. It costs one triangular solve for each s.
    """
    rows = np.append(basis.size, order)
    (R,) = qr(_in_coefficients(basis, fit.factor)[rows].T, mode="r", check_finite=False)
    G = R.T
    z = R @ np.concatenate([basis.coefficients(fit.v), fit.v[-1:]])[rows]

    def step(size: int) -> tuple[np.ndarray, np.ndarray]:
        b = solve_lower(G[: size + 1, : size + 1], z[: size + 1], trans=True)
        return b[1:], b[0]

    return step
