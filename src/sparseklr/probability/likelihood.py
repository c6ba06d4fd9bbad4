r"""Penalised likelihood in the span of a few kernel functions.

With basis points ``B`` the model is :math:`f(x) = \sum_{b \in B} \beta_b k(x_b, x) + c` and

.. math:: \min_{\beta, c}\; \tfrac12 \beta^\top K_{BB} \beta + C \sum_i w_i \log(1 + e^{-y_i f(x_i)})

over *all* training rows. In coordinates :math:`\beta = L^{-\top} v`, :math:`K_{BB} = LL^\top`, the
penalty is :math:`\tfrac12\|v\|^2` and Newton's system is well conditioned. Approximate leave-one-out
values come with the Newton system (Cawley and Talbot, Machine Learning 71, 2008).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dpstrf
from scipy.special import expit

from ..data import TrainingSet

# Rows per block, and how many bytes of feature blocks are kept rather than computed again.
_BLOCK = 4096
_KEEP_BYTES = 1 << 29


def independent(K: np.ndarray, tolerance: float = 1e-8) -> tuple[np.ndarray, np.ndarray]:
    """Positions of numerically independent points and the Cholesky factor L of their kernel matrix.

    Pivoted Cholesky: points whose residual is below ``tolerance`` times the largest diagonal entry
    add nothing (duplicates, and the tail of a kernel of low rank).
    """
    scale = float(K.diagonal().max(initial=0.0))
    if scale <= 0:
        return np.empty(0, dtype=np.intp), np.empty((0, 0))
    factor, pivots, rank, _ = dpstrf(K, lower=True, tol=tolerance * scale)
    return pivots[:rank] - 1, np.tril(factor[:rank, :rank])


class Span:
    """The span of some training points, as whitened features ``[L^{-1} k(B, x), 1]`` of all rows."""

    def __init__(self, data: TrainingSet, points: np.ndarray, n_jobs: int | None = None) -> None:
        self.data, self.n_jobs = data, n_jobs
        K = self._kernel_to(points, points)
        kept, self.L = independent(np.asarray(K, dtype=np.float64))
        self.points = points[kept]
        self.size = len(self.points)
        self._columns = self._prepare(self.points)
        self._blocks: list[np.ndarray] | None = None
        if 8 * len(data.codes) * (self.size + 1) <= _KEEP_BYTES:
            self._blocks = [self._features(rows) for rows in self._slices()]

    def _prepare(self, points: np.ndarray) -> np.ndarray:
        return points if self.data.kernel.precomputed else self.data.X[points]

    def _kernel_to(self, rows: np.ndarray | slice, points: np.ndarray) -> np.ndarray:
        return self.data.kernel.matrix(self.data.X[rows], self._prepare(points), n_jobs=self.n_jobs)

    def _slices(self) -> Iterator[slice]:
        n = len(self.data.codes)
        return (slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK))

    def _features(self, rows: slice) -> np.ndarray:
        K = np.asarray(
            self.data.kernel.matrix(self.data.X[rows], self._columns, n_jobs=self.n_jobs), dtype=np.float64
        )
        out = np.empty((K.shape[0], self.size + 1), order="F")
        if self.size:
            out[:, :-1] = solve_triangular(self.L, K.T, lower=True, check_finite=False).T
        out[:, -1] = 1
        return out

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Slices of rows with their features; every row once."""
        for k, rows in enumerate(self._slices()):
            yield rows, self._blocks[k] if self._blocks is not None else self._features(rows)

    def values(self, v: np.ndarray) -> np.ndarray:
        """f of all rows."""
        return np.concatenate([A @ v for _, A in self.blocks()])

    def coefficients(self, v: np.ndarray) -> np.ndarray:
        """beta of the points, from whitened coordinates (without the intercept ``v[-1]``)."""
        return (
            solve_triangular(self.L, v[:-1], lower=True, trans="T", check_finite=False)
            if self.size
            else v[:0]
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted penalised likelihood."""

    v: np.ndarray  # whitened coordinates, the intercept last
    f: np.ndarray  # decision values of all rows
    C: float
    factor: tuple  # Cholesky factor of the Newton matrix, in units of the likelihood
    weight: np.ndarray

    @property
    def information(self) -> np.ndarray:
        """w_i p_i (1 - p_i)."""
        p = expit(self.f)
        return self.weight * p * (1 - p)


def fit_likelihood(
    span: Span,
    target: np.ndarray,
    weight: np.ndarray,
    C: float,
    start: np.ndarray | None = None,
    *,
    near: np.ndarray | None = None,
    tol: float = 1e-12,
) -> Fit:
    """Damped Newton for targets in [0, 1] (labels, or probabilities to be matched).

    Minimises ``1/(2C) |v|^2 + sum_i w_i [log(1 + exp(f_i)) - target_i f_i]``; stops when the Newton
    decrement is below ``tol`` times the value. Starts at coordinates ``start``, or at those to which a
    Newton step leads from decision values ``near`` the solution's (of another span).
    """
    target = np.asarray(target, dtype=np.float64)
    ridge = np.full(span.size + 1, 1.0 / C)
    ridge[-1] = 0.0

    def system(f: np.ndarray, v: np.ndarray | None) -> tuple[tuple, np.ndarray]:
        """Factor of the Newton matrix at f, and the gradient at v (less what v adds, if None)."""
        p, q = expit(f), expit(-f)
        residual, information = weight * (target * q - (1 - target) * p), weight * p * q
        if v is None:
            residual = residual + information * f
        H, gradient = np.diag(ridge), np.zeros(span.size + 1) if v is None else ridge * v
        for rows, A in span.blocks():
            scaled = A * np.sqrt(information[rows])[:, None]
            H += scaled.T @ scaled
            gradient -= A.T @ residual[rows]
        H[-1, -1] += 1e-12 * (1 + H[-1, -1])  # all rows saturated: the intercept is free
        return cho_factor(H, lower=True, check_finite=False), gradient

    def value(v: np.ndarray, f: np.ndarray) -> float:
        return float(0.5 * ridge @ v**2 + weight @ cross_entropies(target, f))

    if near is not None:
        factor, gradient = system(near, None)
        start = -cho_solve(factor, gradient, check_finite=False)
    v = np.zeros(span.size + 1) if start is None else start
    f = span.values(v)
    current = value(v, f)
    while True:
        factor, gradient = system(f, v)
        step = -cho_solve(factor, gradient, check_finite=False)
        decrement = -float(gradient @ step)
        if decrement <= tol * max(abs(current), 1e-300) or decrement <= 1e-14 * weight.sum():
            return Fit(v, f, C, factor, weight)
        change, t = span.values(step), 1.0
        while (trial := value(v + t * step, f + t * change)) > current - 1e-4 * t * decrement and t > 1e-10:
            t /= 2
        if not trial < current:  # rounding is all that is left
            return Fit(v, f, C, factor, weight)
        v, f, current = v + t * step, f + t * change, trial


def leave_one_out(span: Span, target: np.ndarray, fit: Fit) -> np.ndarray:
    """Approximate decision values of every row by the model fitted without it.

    One Newton step from the full fit, with one unit of weight taken away (all of it if less):
    ``f + (p - target) s / (1 - p (1 - p) s)``, ``s = a' H^-1 a``.
    """
    leverage = np.empty(len(target))
    for rows, A in span.blocks():
        half = solve_triangular(fit.factor[0], A.T, lower=True, check_finite=False)
        leverage[rows] = np.einsum("ij,ij->j", half, half)
    removed = np.minimum(fit.weight, 1.0)
    p = expit(fit.f)
    denominator = np.maximum(1 - removed * p * (1 - p) * leverage, 1e-3)
    return fit.f + removed * (p - target) * leverage / denominator


def cross_entropies(target: np.ndarray, f: np.ndarray) -> np.ndarray:
    """``-target log p - (1 - target) log(1 - p)`` of each row, p = sigmoid(f)."""
    target = np.asarray(target, dtype=np.float64)
    return target * np.logaddexp(0, -f) + (1 - target) * np.logaddexp(0, f)
