"""An independent solver: Newton's method on the primal, dense and slow."""

from __future__ import annotations

import numpy as np
from scipy.special import expit


def primal_newton(
    K: np.ndarray, y: np.ndarray, box: np.ndarray, lam: float, max_steps: int = 500
) -> tuple[np.ndarray, np.ndarray, float]:
    """Minimise 1/2 beta'K beta + sum C_i log(1 + exp(lam - y_i (K beta + b)_i)).

    Returns alpha, decision values and b. The margin is approached in steps, each a damped Newton
    method: at a large margin the loss is nearly the hinge and Newton from afar would crawl.
    """
    n = len(y)
    beta, b = np.zeros(n), 0.0
    margins = [lam] if lam <= 1 else [*np.geomspace(1, lam, int(np.ceil(np.log(lam) / np.log(1.5))) + 1)]

    def value(beta: np.ndarray, b: float, margin: float) -> float:
        f = K @ beta
        return float(0.5 * beta @ f + box @ np.logaddexp(0, margin - y * (f + b)))

    for margin in margins:
        for _ in range(max_steps):
            f = K @ beta + b
            s = expit(margin - y * f)
            W = np.maximum(box * s * (1 - s), 1e-14 * box)
            residual = y * box * s - beta  # zero at the optimum, as is 1'beta
            # Newton: (I + W K) d + W e = residual, 1'(beta + d) = 0
            system = np.zeros((n + 1, n + 1))
            system[:n, :n] = np.eye(n) + W[:, None] * K
            system[:n, n] = W
            system[n, :n] = 1
            step = np.linalg.lstsq(system, np.append(residual, -beta.sum()), rcond=None)[0]
            current, t = value(beta, b, margin), 1.0
            while t > 1e-12 and value(beta + t * step[:n], b + t * step[n], margin) > current + 1e-15 * abs(
                current
            ):
                t /= 2
            beta, b = beta + t * step[:n], b + t * step[n]
            if np.abs(residual).max() <= 1e-11 * box.max() or t <= 1e-12:
                break
    f = K @ beta + b
    return box * expit(lam - y * f), f, float(b)
