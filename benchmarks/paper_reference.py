"""Literal implementation of the SMO algorithm of the paper in Python, with SciPy's Newton-CG for every pair.

It follows the text of the paper, except for three corrected errors (docs/errata.md), and serves to compare the speed and
the results of the compiled solver.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def solve(
    K: np.ndarray,
    y: np.ndarray,
    C: float,
    lam: float,
    *,
    gamma: float = 1e-5,
    tol: float = 1e-5,
    max_iter: int = 10_000,
) -> tuple[np.ndarray, int]:
    """Return alpha and the number of iterations."""
    n, low, high = len(y), gamma, C - gamma
    positive = y > 0
    alpha = np.full(n, low)  # a feasible start: inside the box, with equal sums over the two classes
    small = positive if positive.sum() <= (~positive).sum() else ~positive
    alpha[small] = low * (~small).sum() / small.sum()
    F = K @ (alpha * y)
    for iteration in range(max_iter):
        gradient = y * F + np.log(alpha / (C - alpha)) - lam
        E = -y * gradient
        up = np.where(positive, alpha < high, alpha > low)
        lower = np.where(positive, alpha > low, alpha < high)
        i = int(np.flatnonzero(up)[np.argmax(E[up])])
        if E[i] - E[lower].min() <= tol:
            return alpha, iteration
        candidates = np.flatnonzero(lower & (E[i] > E))
        curvature = C / (alpha * (C - alpha))
        q = K[i, i] + K[candidates, candidates] - 2 * K[i, candidates] + curvature[i] + curvature[candidates]
        j = int(candidates[np.argmax((E[i] - E[candidates]) ** 2 / q)])
        eta = K[i, i] + K[j, j] - 2 * K[i, j]
        room_i = high - alpha[i] if positive[i] else alpha[i] - low
        room_j = alpha[j] - low if positive[j] else high - alpha[j]
        pair, sign = alpha[[i, j]], np.array([y[i], -y[j]])
        t = float(np.clip(pair_minimum(pair, sign, E[i] - E[j], eta, C, low), 0.0, min(room_i, room_j)))
        alpha[[i, j]] = np.clip(pair + sign * t, low, high)
        F += t * (K[i] - K[j])
    return alpha, max_iter


def pair_minimum(pair: np.ndarray, sign: np.ndarray, gap: float, eta: float, C: float, low: float) -> float:
    """Return the step t that minimises the dual along ``pair + t * sign``, by Newton-CG."""
    logit = np.log(pair / (C - pair))

    def at(t: np.ndarray) -> np.ndarray:
        return np.clip(pair + sign * t[0], low, C - low)

    def value(t: np.ndarray) -> float:
        a = at(t)
        entropy = a * np.log(a / C) + (C - a) * np.log(1 - a / C)
        return float(entropy.sum() - logit @ (a - pair) + 0.5 * eta * t[0] ** 2 - gap * t[0])

    def slope(t: np.ndarray) -> np.ndarray:
        a = at(t)
        return np.array([sign @ (np.log(a / (C - a)) - logit) + eta * t[0] - gap])

    def second(t: np.ndarray) -> np.ndarray:
        a = at(t)
        return np.array([[(C / (a * (C - a))).sum() + eta]])

    return float(
        minimize(value, [0.0], jac=slope, hess=second, method="Newton-CG", options={"xtol": 1e-8}).x[0]
    )
