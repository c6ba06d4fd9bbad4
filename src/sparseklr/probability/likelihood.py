r"""Penalised likelihood in the span of a few kernel functions, and its leave-one-out values.

With basis points ``B`` the model is :math:`f(x) = \sum_{b \in B} \beta_b k(x_b, x) + c` and

.. math:: \min_{\beta, c}\; \tfrac12 \beta^\top K_{BB} \beta + C \sum_i w_i \log(1 + e^{-y_i f(x_i)})

over *all* training rows. Equal rows are one point with all their weight :math:`w_i`; the share of it that
the positive class has is the target :math:`t_i`. In the coordinates v of :class:`~.basis.Basis` the penalty
is :math:`\tfrac12\|v\|^2` and Newton's system is well conditioned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from .basis import Basis
from .loss import cross_entropies, derivatives

# At most so many heavy points get a second step when they are left out.
_SECOND_STEPS = 64


@dataclass(frozen=True, eq=False)
class Labels:
    """What a binary problem knows of every point: the share t of the positive class, and the weight w."""

    target: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray, k: int) -> Labels:
        """Class k against the rest, from the weight of each class on each point."""
        total = weight.sum(axis=1)
        return cls(weight[:, k] / total, total)

    def losses(self, f: np.ndarray) -> np.ndarray:
        """Log-loss of each point, whatever it weighs: ``-t log p - (1 - t) log(1 - p)``, p = sigmoid(f)."""
        return cross_entropies(self.target, f)

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivative of the weighted loss of each point."""
        slope, curvature = derivatives(self.target, f)
        return self.weight * slope, self.weight * curvature

    def mean(self, losses: np.ndarray) -> tuple[float, float]:
        r"""Weighted mean of one number for each point, and its standard error.

        Points are what is independent, whatever they weigh: with :math:`m = \sum w_i l_i / \sum w_i` the
        error is :math:`\sqrt{\sum_i w_i^2 (l_i - m)^2} / \sum_i w_i`. Multiplying all weights changes
        neither.
        """
        share = self.weight / self.weight.sum()
        mean = float(share @ losses)
        return mean, float(np.linalg.norm(share * (losses - mean)))


@dataclass(frozen=True, eq=False)
class LikelihoodFit:
    """A fitted penalised likelihood."""

    v: np.ndarray  # coordinates in the basis, the intercept last
    f: np.ndarray  # outputs of all points
    C: float
    factor: np.ndarray  # Cholesky factor (lower) of the Newton matrix at f, in units of the likelihood


def newton_system(
    basis: Basis, labels: Labels, ridge: np.ndarray, f: np.ndarray, v: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Factor of the Newton matrix at outputs f, and the gradient at coordinates v.

    Without v, minus the gradient is the right-hand side whose solution is where a Newton step leads from f.
    """
    slope, information = labels.derivatives(f)
    if v is None:
        slope = slope - information * f
    root = np.sqrt(information)

    def part(rows: slice, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scaled = A * root[rows, None]
        return scaled.T @ scaled, A.T @ slope[rows]

    H, gradient = np.diag(ridge), np.zeros(len(ridge)) if v is None else ridge * v
    for matrix, vector in basis.map_blocks(part):
        H += matrix
        gradient += vector
    H[-1, -1] += 1e-12 * (1 + H[-1, -1])  # all rows saturated: the intercept is free
    return cholesky(H, lower=True, overwrite_a=True, check_finite=False), gradient


def fit_likelihood(
    basis: Basis,
    labels: Labels,
    C: float,
    start: np.ndarray | None = None,
    *,
    near: np.ndarray | None = None,
    tol: float = 1e-12,
) -> LikelihoodFit:
    """Damped Newton for ``|v|^2 / (2C) + sum_i w_i [log(1 + exp(f_i)) - t_i f_i]``.

    Stops when the Newton decrement is below ``tol`` times the value. Starts at coordinates ``start``, or at
    those to which a Newton step leads from outputs ``near`` the solution's (of another basis).
    """
    ridge = np.full(basis.size + 1, 1.0 / C)
    ridge[-1] = 0.0

    def value(v: np.ndarray, f: np.ndarray) -> float:
        return float(0.5 * ridge @ v**2 + labels.weight @ labels.losses(f))

    if near is not None:
        factor, gradient = newton_system(basis, labels, ridge, near, None)
        start = -cho_solve((factor, True), gradient, check_finite=False)
    v = np.zeros(basis.size + 1) if start is None else start
    f = basis.outputs(v)
    current = value(v, f)
    while True:
        factor, gradient = newton_system(basis, labels, ridge, f, v)
        step = -cho_solve((factor, True), gradient, check_finite=False)
        decrement = -float(gradient @ step)
        if decrement <= tol * max(abs(current), 1e-300) or decrement <= 1e-14 * labels.weight.sum():
            return LikelihoodFit(v, f, C, factor)
        change, t = basis.outputs(step), 1.0
        while (trial := value(v + t * step, f + t * change)) > current - 1e-4 * t * decrement and t > 1e-10:
            t /= 2
        if not trial < current:  # rounding is all that is left
            return LikelihoodFit(v, f, C, factor)
        v, f, current = v + t * step, f + t * change, trial


def leave_one_out(basis: Basis, labels: Labels, fit: LikelihoodFit) -> np.ndarray:
    r"""Approximate outputs of every point by the model fitted without it.

    One Newton step from the full fit, the point with all its weight taken away: :math:`f_i + a_i s_i` with
    :math:`a_i = w_i (p_i - t_i) / (1 - w_i p_i (1 - p_i) s_i)`, :math:`s_i = \phi_i^\top H^{-1} \phi_i`.
    Taking away a part of the weight only (one of several equal rows) would let the point speak for itself.
    The step is too short for points of much weight, because those around them lose curvature on the way; a
    second one follows for the few whose loss changes most. (Points of equal weight do not need it: their
    mean loss is within 2% of the exact one.)

    References
    ----------
    Cawley and Talbot (2008), "Efficient approximate leave-one-out cross-validation for kernel logistic
    regression", Machine Learning 71, 243-264.
    """

    def leverage(rows: slice, A: np.ndarray) -> np.ndarray:
        half = solve_triangular(fit.factor, A.T, lower=True, check_finite=False)
        return np.einsum("ij,ij->j", half, half)

    s = np.concatenate(list(basis.map_blocks(leverage)))
    slope, information = labels.derivatives(fit.f)
    a = slope / np.maximum(1 - information * s, 1e-3)
    loo = fit.f + a * s
    heavy = np.flatnonzero(labels.weight > 2 * labels.weight.mean())
    if len(heavy):
        change = labels.weight * (labels.losses(loo) - labels.losses(fit.f))
        heavy = np.sort(heavy[np.argsort(-change[heavy], kind="stable")[:_SECOND_STEPS]])
        loo[heavy] += s[heavy] * _second_step(basis, labels, fit, heavy, a[heavy])
    return loo


def _second_step(
    basis: Basis, labels: Labels, fit: LikelihoodFit, out: np.ndarray, a: np.ndarray
) -> np.ndarray:
    r"""How much further the points ``out`` move the coordinates, each when it alone is left out.

    Leaving out i has led from v to :math:`v + a_i u_i`, :math:`u_i = H^{-1}\phi_i`. This is a Newton step
    along :math:`u_i` from there, on the objective of all other points.
    """
    features = np.empty((len(out), basis.size + 1))

    def collect(rows: slice, A: np.ndarray) -> None:
        inside = (out >= rows.start) & (out < rows.stop)
        features[inside] = A[out[inside] - rows.start]

    list(basis.map_blocks(collect))
    U = cho_solve((fit.factor, True), features.T, check_finite=False)

    def along(rows: slice, A: np.ndarray) -> np.ndarray:
        c = A @ U
        slope, curvature = derivatives(labels.target[rows, None], fit.f[rows, None] + a * c)
        weight = np.repeat(labels.weight[rows, None], len(out), axis=1)
        weight[(np.arange(rows.start, rows.stop)[:, None] == out)] = 0.0
        return np.array([(weight * slope * c).sum(axis=0), (weight * curvature * c**2).sum(axis=0)])

    norms = U[:-1].T @ fit.v[:-1] + a * (U[:-1] ** 2).sum(axis=0), (U[:-1] ** 2).sum(axis=0)
    first, second = sum(basis.map_blocks(along), start=np.array(norms) / fit.C)
    return -first / second
