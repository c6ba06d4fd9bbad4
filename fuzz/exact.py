"""Independent verification of results: kernels in extended precision, and optimality conditions.

This module does not use the package. Every comparison allows only for the unavoidable rounding errors of
double precision, which are bounded by the sizes of the summands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

EPS = float(np.finfo(np.float64).eps)
Wide = np.longdouble  # 80 bits on x86-64; on other machines it may be double


def kernel(name: str, gamma: float, coef0: float, degree: float, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return kernel values between rows in extended precision, which overflow only if doubles do."""
    A, B = A.astype(Wide), B.astype(Wide)
    with np.errstate(all="ignore"):
        if name in ("rbf", "laplacian"):
            distance = np.zeros((len(A), len(B)), dtype=Wide)
            for a, b in zip(A.T, B.T, strict=True):
                difference = np.abs(a[:, None] - b[None, :])
                distance += difference**2 if name == "rbf" else difference
            return np.exp(-Wide(gamma) * distance)
        product = A @ B.T
        if name == "linear":
            return product
        scaled = Wide(gamma) * product + Wide(coef0)
        scaled[np.abs(scaled) < np.finfo(np.float64).smallest_subnormal] = 0  # a negative zero has all powers
        return scaled ** Wide(degree) if name == "poly" else np.tanh(scaled)


def dual_violation(
    K: np.ndarray,
    y: np.ndarray,
    box: np.ndarray,
    bound: np.ndarray,
    lam: float,
    above: np.ndarray,
    *,
    bound_counts: bool = False,
) -> float:
    """Return a lower bound on the KKT violation of alpha = bound + above, whatever the rounding errors.

    ``E_i = -y_i (y_i F_i + log(alpha_i / (C_i - alpha_i)) - lam)`` with ``F = K (above y)``, or with alpha
    itself if ``bound_counts``. Each E_i is known up to the rounding errors of the sum and of alpha, which the
    logarithm magnifies close to the ends of the box. The violation is ``max_up E - min_low E`` over the
    points that can increase and decrease; only a positive value is a violation.
    """
    above = above.astype(Wide)
    alpha, box_wide = bound.astype(Wide) + above, box.astype(Wide)
    with np.errstate(all="ignore"):
        counted = alpha if bound_counts else above
        F, size = K @ (counted * y), np.abs(K) @ counted
        left = box_wide - alpha
        E = -y * (y * F + np.log(alpha) - np.log(left) - Wide(lam))
        # 64 ulps: the solver updates F in every step, and recomputes it at the end
        error = EPS * (64 * size + 4 * (np.abs(E) + lam + 1) + 4 * box_wide / left)
    # A point whose alpha equals a bound up to rounding counts as being at this bound.
    can_fall = above > (8 * EPS * bound if bound_counts else 0)
    can_grow = left > bound + 8 * EPS * box
    up, low = np.where(y > 0, can_grow, can_fall), np.where(y > 0, can_fall, can_grow)
    if not up.any() or not low.any():
        return 0.0
    # If alpha equals the box up to rounding, as with a bound of 0.1 and a box of 1e30, E is unknown.
    certain = left > 8 * EPS * box
    least, most = np.where(certain, E - error, -np.inf), np.where(certain, E + error, np.inf)
    return float(least[up].max() - most[low].min())


def dual_gap(
    K: np.ndarray, y: np.ndarray, box: np.ndarray, lam: float, alpha: np.ndarray, intercept: float
) -> tuple[float, float]:
    """Return the sum of the primal and dual objectives, and the larger of their absolute values."""
    K, alpha, box = K.astype(Wide), alpha.astype(Wide), box.astype(Wide)
    F = K @ (alpha * y)
    d = alpha / box
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(d > 0, d * np.log(d), 0) + np.where(d < 1, (1 - d) * np.log1p(-d), 0)
    square = (alpha * y) @ F / 2
    primal = square + box @ np.logaddexp(Wide(0), lam - y * (F + intercept))
    dual = square + box @ entropy - lam * alpha.sum()
    return float(primal + dual), float(max(abs(primal), abs(dual)))


def half_violation(
    K: np.ndarray, y: np.ndarray, weight: np.ndarray, coef: np.ndarray, f: np.ndarray, fit_intercept: bool
) -> float:
    r"""Return a lower bound on the largest relative move of a non-zero coefficient under half thresholding.

    The move is divided by the largest coefficient, or by ``4 / max |K|`` if that is larger. A step either
    sets the coefficient to zero or solves ``G + h d = 0`` to first order, where ``G`` is the derivative of
    ``sum_i w_i loss_i + sum_j |x_j|^(1/2)`` with respect to the coefficient, and ``h`` is at most a quarter
    of ``sum_i w_i (K_ij - m_j)^2`` (m_j is the mean of the column if there is an intercept), or of
    ``1e-9 sum_i w_i K_ij^2`` if that is more. K has the columns of the non-zero coefficients; f are the
    outputs.
    """
    K, coef, weight, f = (values.astype(Wide) for values in (K, coef, weight, f))
    error = 8 * EPS * (np.abs(K) @ np.abs(coef) + np.abs(f))
    with np.errstate(over="ignore", under="ignore"):
        wrong, right = 1 / (1 + np.exp(y * f)), 1 / (1 + np.exp(-y * f))
        uncertain = (
            np.minimum(wrong * right * np.exp(np.minimum(error, 1000)), 0.25) * error + 8 * EPS * wrong
        )
        G = -(weight * y * wrong) @ K + np.sign(coef) / np.sqrt(np.abs(coef)) / 2
        rounding = (weight * uncertain) @ np.abs(K) + 8 * EPS / np.sqrt(np.abs(coef))
        centre = weight @ K / weight.sum() if fit_intercept else 0
        bound = np.maximum(weight @ (K - centre) ** 2, 1e-9 * (weight @ K**2)) / 4
        moves = np.minimum(np.maximum(np.abs(G) - rounding, 0) / bound, np.abs(coef))
    largest = max(np.abs(coef).max(initial=0), 4 / np.abs(K).max(initial=EPS))
    return float(moves.max(initial=0) / largest)


def likelihood_gain(
    K: np.ndarray,
    points: np.ndarray,
    coef: np.ndarray,
    intercept: np.ndarray,
    weight: np.ndarray,
    codes: Any,
    fit_intercept: bool,
) -> tuple[float, float, float]:
    """Return the decrease of ``sum_k b_k'K_SS b_k / 2 + sum_i w_i loss_i`` by Newton steps, and its value.

    The third number is the change of the value if every kernel value is rounded once more:
    ``EPS (|b|'|K_SS||b| / 2 + sum_i w_i (|K||b|)_i)``, because the slope of a loss is at most 1. If points
    are nearly dependent, the coefficients are so large that this exceeds the value itself.

    Two classes have one output; more classes have one output each, with softmax probabilities. All
    computations except the solution of the Newton systems are in extended precision, without cancellation
    where a probability is nearly 1: there 1 - p is multiplied by weights of up to 1e20.
    """
    A = np.hstack([K[:, points], np.ones((len(K), int(fit_intercept)))]).astype(Wide)
    penalty = np.zeros((A.shape[1], A.shape[1]), dtype=Wide)
    penalty[: len(points), : len(points)] = K[np.ix_(points, points)]
    weight, rows, m = weight.astype(Wide), np.arange(len(codes)), len(coef)

    def outputs(theta: np.ndarray) -> np.ndarray:
        """Return the output of each class minus the output of the true class."""
        F = A @ theta.T
        F = F if fit_intercept else F + intercept
        F = np.hstack([np.zeros_like(F), F]) if m == 1 else F
        return F - F[rows, codes][:, None]

    def value(theta: np.ndarray) -> Any:
        F = outputs(theta)
        F[rows, codes] = -np.inf
        largest = np.maximum(F.max(axis=1), 0)
        others = np.exp(F - largest[:, None]).sum(axis=1)
        # log(1 + sum exp F), from which the larger of 1 and the largest exponential is divided
        loss = np.where(largest > 0, largest + np.log(np.exp(-largest) + others), np.log1p(others))
        return (theta @ penalty * theta).sum() / 2 + weight @ loss

    def newton_step(theta: np.ndarray) -> np.ndarray:
        F = outputs(theta)
        P = np.exp(F - F.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        Q = P @ (1 - np.eye(P.shape[1], dtype=Wide))
        residual = P.copy()
        residual[rows, codes] = -Q[rows, codes]
        own = slice(1, 2) if m == 1 else slice(None)
        P, Q, residual = P[:, own], Q[:, own], residual[:, own]
        gradient = theta @ penalty + (residual * weight[:, None]).T @ A
        size = A.shape[1]
        hessian = np.zeros((m, size, m, size), dtype=Wide)
        for k in range(m):
            for j in range(m):
                curvature = P[:, k] * Q[:, k] if k == j else -P[:, k] * P[:, j]
                hessian[k, :, j] = A.T @ ((weight * curvature)[:, None] * A) + (k == j) * penalty
        flat = hessian.reshape(m * size, m * size)
        scale = 1 / np.sqrt(np.maximum(flat.diagonal(), np.finfo(float).tiny))
        system, right = flat * scale[:, None] * scale, gradient.ravel() * scale
        unit = np.abs(right).max(initial=0) or Wide(1)
        solved = np.linalg.lstsq(system.astype(float), (right / unit).astype(float), rcond=1e-13)[0]
        return (solved * unit * scale).reshape(m, size)

    theta = (np.hstack([coef, intercept[:, None]]) if fit_intercept else coef).astype(Wide)
    first = best = value(theta)
    with np.errstate(all="ignore"):
        for _ in range(3):
            step = newton_step(theta)
            tried = [theta - Wide(0.5) ** k * step for k in range(8)]
            values = np.array([value(one) for one in tried])
            values[np.isnan(values)] = np.inf
            if values.min() >= best:
                break
            best, theta = values.min(), tried[int(values.argmin())]
    size = np.abs(coef).astype(Wide) @ np.abs(A[:, : len(points)]).T
    rounding = EPS * ((np.abs(coef) * size[:, points]).sum() / 2 + (size @ weight).sum())
    return float(first - best), float(first), float(rounding)
