r"""The objective of a compact model, with the coefficients eliminated.

A model of k points is :math:`f_o(x) = \sum_b \beta_{ob} e^{-\sum_j \gamma_j (x_j - z_{bj})^2} + c_o`, one output for
two classes and one per class (softmax) for more. Everything in it is fitted:

.. math:: J = \sum_i w_i\, \ell(y_i, f(x_i)) + \tfrac1{2C} \sum_o \beta_o^\top K_{zz} \beta_o
    + \tfrac{\rho}{2} a^2 + \tfrac{\tau}{2} \sum_j r_j^2, \qquad \log \gamma_j = -\log p + a + r_j,\; \sum_j r_j = 0.

For given points and widths the coefficients are a convex problem, which the compiled core solves; L-BFGS moves points and
widths on the minimum over coefficients (variable projection, Golub and Pereyra, Inverse Problems 19, 2003).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from .. import _core

# Precision of a prior on the mean log-width and on the deviations from it. Values of tau from 0.3 to 5 gave the
# same mean log-loss within noise on twelve benchmark sets.
RHO, TAU = 0.1, 1.0


@dataclass(frozen=True, eq=False)
class CompactModel:
    """Points and log-widths in the units of the rows; ``coef`` is (n_outputs, n_points + 1), intercepts last."""

    points: np.ndarray
    log_gamma: np.ndarray
    coef: np.ndarray

    @property
    def n_points(self) -> int:
        return len(self.points)

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Points, gamma, coefficients and intercepts as the compiled core takes them."""
        coef = np.ascontiguousarray(self.coef[:, :-1])
        return self.points, np.exp(self.log_gamma), coef, np.ascontiguousarray(self.coef[:, -1])

    def outputs(self, rows: _core.CompactRows, threads: int = 1) -> np.ndarray:
        """f of every row, (n_rows, n_outputs)."""
        return rows.decision(*self.parts(), threads)


def width_penalty(log_gamma: np.ndarray) -> tuple[float, np.ndarray]:
    """The last two terms of J and their gradient in log gamma."""
    mean = log_gamma.mean()
    a, r = mean + np.log(len(log_gamma)), log_gamma - mean
    return 0.5 * (RHO * a * a + TAU * float(r @ r)), RHO * a / len(log_gamma) + TAU * r


@dataclass(frozen=True)
class Moved:
    """Where a run of L-BFGS ended."""

    model: CompactModel
    value: float  # J
    gradient_norm: float  # largest entry of the gradient in points and log-widths
    n_iter: int
    n_eval: int


class Objective:
    """J over given rows, as a function of points and widths.

    Parameters
    ----------
    rows : CompactRows
    shared : bool
        One width for all features instead of one for each.
    threads : int
    """

    def __init__(self, rows: _core.CompactRows, *, shared: bool = False, threads: int = 1) -> None:
        self.rows, self.shared, self.threads = rows, shared, threads
        self._inner = _core.CompactInner(rows, threads)

    def solve(self, model: CompactModel, C: float, tol: float = 1e-7) -> tuple[CompactModel, float]:
        """The best coefficients for the points and widths of a model, and J without the penalty on widths."""
        self._inner.move(model.points, np.exp(model.log_gamma))
        return self.solve_here(model, C, tol)

    def solve_here(self, model: CompactModel, C: float, tol: float = 1e-7) -> tuple[CompactModel, float]:
        """The same where the points and widths are those of the last call."""
        coef = model.coef.copy()
        value = self._inner.solve(coef, C, tol, 100).value
        return replace(model, coef=coef), value

    def move(
        self, model: CompactModel, C: float, *, max_iter: int = 25, tol: float = 1e-7, inner_tol: float = 1e-7
    ) -> Moved:
        """Move points and widths by L-BFGS until J falls by less than ``tol`` (relative) in a step."""
        k, p = model.points.shape
        coef = model.coef.copy()
        best: tuple[float, np.ndarray, np.ndarray] = (np.inf, coef, coef)

        def unpack(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            widths = x[k * p :]
            return x[: k * p].reshape(k, p), np.full(p, widths[0]) if self.shared else widths

        def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best
            points, log_gamma = unpack(x)
            self._inner.move(points, np.exp(log_gamma))
            value = self._inner.solve(coef, C, inner_tol, 100).value
            by_points, by_widths = self._inner.gradient(C)
            penalty, slope = width_penalty(log_gamma)
            by_widths = by_widths + slope
            gradient = np.concatenate([by_points.ravel(), [by_widths.sum()] if self.shared else by_widths])
            value += penalty
            if value < best[0]:
                best = value, coef.copy(), gradient
            return value, gradient

        widths = model.log_gamma[:1] if self.shared else model.log_gamma
        found = minimize(
            value_and_gradient,
            np.concatenate([model.points.ravel(), widths]),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 10, "ftol": tol, "gtol": 0.0},
        )
        points, log_gamma = unpack(found.x)
        moved = CompactModel(points.copy(), log_gamma.copy(), best[1])
        return Moved(moved, float(found.fun), float(np.abs(best[2]).max()), int(found.nit), int(found.nfev))
