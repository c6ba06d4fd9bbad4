"""The paper's SMO Algorithm, literally: a Python loop and SciPy's Newton-CG for every pair.

Written from the text of the paper (with its errata E1 to E3 mended, see docs/errata.md) to measure
what the compiled solver gains, and to compare results with. Not for use.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def solve(
    K: np.ndarray, y: np.ndarray, C: float, lam: float, *, gamma: float = 1e-5, tol: float = 1e-5, max_iter: int = 10_000
) -> tuple[np.ndarray, int]:
    """alpha and the number of iterations."""
    n, low, high = len(y), gamma, C - gamma
    positive = y > 0
    alpha = np.full(n, low)  # feasible: class sums equal, inside the box
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
        t_max = min((high - alpha[i]) if positive[i] else (alpha[i] - low), (alpha[j] - low) if positive[j] else (high - alpha[j]))

        def terms(t: float, i: int = i, j: int = j) -> tuple[np.ndarray, np.ndarray]:
            pair = np.array([alpha[i] + y[i] * t, alpha[j] - y[j] * t])
            return np.clip(pair, low, high), np.array([y[i], -y[j]])

        def value(x: np.ndarray, gap: float = E[i] - E[j], eta: float = eta) -> float:
            pair, _ = terms(x[0])
            entropy = pair * np.log(pair / C) + (C - pair) * np.log(1 - pair / C)
            base = np.array([np.log(alpha[i] / (C - alpha[i])), np.log(alpha[j] / (C - alpha[j]))])
            return float(entropy.sum() - base @ (pair - np.array([alpha[i], alpha[j]])) + 0.5 * eta * x[0] ** 2 - gap * x[0])

        def slope(x: np.ndarray, gap: float = E[i] - E[j], eta: float = eta) -> np.ndarray:
            pair, sign = terms(x[0])
            base = np.array([np.log(alpha[i] / (C - alpha[i])), np.log(alpha[j] / (C - alpha[j]))])
            return np.array([sign @ (np.log(pair / (C - pair)) - base) + eta * x[0] - gap])

        def second(x: np.ndarray, eta: float = eta) -> np.ndarray:
            pair, _ = terms(x[0])
            return np.array([[(C / (pair * (C - pair))).sum() + eta]])

        result = minimize(value, [0.0], jac=slope, hess=second, method="Newton-CG", options={"xtol": 1e-8})
        t = float(np.clip(result.x[0], 0.0, t_max))
        alpha[i] = np.clip(alpha[i] + y[i] * t, low, high)
        alpha[j] = np.clip(alpha[j] - y[j] * t, low, high)
        F += t * (K[i] - K[j])
    return alpha, max_iter
