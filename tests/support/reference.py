"""An independent solver (Newton's method on the primal), and the accuracy that a certificate guarantees."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from sparseklr.dual.problem import DualProblem, labels_and_boxes
from sparseklr.dual.smo import Solution


def primal_newton(
    K: np.ndarray, y: np.ndarray, box: np.ndarray, lam: float, max_steps: int = 500
) -> tuple[np.ndarray, np.ndarray, float]:
    """Minimise 1/2 beta'K beta + sum C_i log(1 + exp(lam - y_i (K beta + b)_i)).

    Returns alpha, decision values and b. The margin is increased in steps, each of which is solved by a
    damped Newton method. At a large margin the loss is nearly the hinge loss, and Newton's method would be
    slow from a distant start.
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


def largest_gap(problem: DualProblem, f: np.ndarray, violation: float) -> float:
    """The largest duality gap that decision values f can have at this violation of the KKT conditions.

    The gap is the sum of C_i KL(d_i || s_i) with d = alpha / C and s = sigmoid(lam - y f), the divergences
    between Bernoulli distributions. Where alpha is between its bounds, the logits of d and s differ by at
    most the violation, and the divergence is at most an eighth of its square. At a bound, the divergence is
    at most the fraction of the box that the bound cuts off, times the difference of the logits.
    """
    share = problem.bound / problem.box
    return float(problem.box @ (violation**2 / 8 + share * (problem.lam + np.abs(f) + violation)))


def decision_accuracy(problem: DualProblem, violation: float, largest_kernel_value: float = 1.0) -> float:
    """A bound on the difference in decision values of two solutions with at most this violation.

    Both satisfy the optimality conditions up to the violation v, so that
    ``<grad(a) - grad(b), a - b> <= v |a - b|_1``. The left side is at least
    ``|f_a - f_b|^2 + sum 4/C_i (a_i - b_i)^2``, in the norm of the kernel's space; maximised over ``a - b``
    this gives ``|f_a - f_b| <= v sqrt(sum C_i) / 4``. Intercepts are those of the freest point: its alpha / C
    moves by at most ``v sqrt(n) / 4``, and its logit by at most 16 times that if it is not within 0.07 of 0
    or 1.
    """
    function = np.sqrt(largest_kernel_value * problem.box.sum()) / 4
    return violation * float(2 * function + 4 * np.sqrt(len(problem.y)) + 1)


def rho(solution: Solution, y: np.ndarray, C: float, sample_weight: np.ndarray | None = None) -> float:
    """The slack in the primal problem of the paper, which equals lam (Observation 1 of the paper).

    The equations xi_i = rho - y_i f(x_i) and alpha_i = C_i sigmoid(xi_i) imply rho = logit(alpha_i / C_i) +
    y_i f(x_i).
    """
    y, box = labels_and_boxes(y, C, sample_weight)
    inside = (solution.alpha > 1e-8 * box) & (solution.alpha < (1 - 1e-8) * box)
    return float(np.median(logit(solution.alpha[inside] / box[inside]) + (y * solution.decision)[inside]))
