r"""The objective of a compact model, with the coefficients eliminated.

A model of k points is :math:`f_o(x) = \sum_b \beta_{ob} e^{-\sum_j \gamma_j (x_j - z_{bj})^2} + c_o`, one
output for two classes and one per class (softmax) for more. Everything in it is fitted:

.. math:: J = \sum_i w_i\, \ell(y_i, f(x_i)) + \tfrac1{2C} \sum_o \beta_o^\top K_{zz} \beta_o
    + \tfrac{\rho}{2} a^2 + \tfrac{\tau}{2} \sum_j r_j^2, \qquad \log \gamma_j = -\log p + a + r_j,\; \sum_j
    r_j = 0.

For given points and widths the coefficients are a convex problem; L-BFGS moves points and widths on the
minimum over coefficients (variable projection, Golub and Pereyra, Inverse Problems 19, 2003). The compiled
core does both: with SciPy's L-BFGS, two thirds of the time on a few hundred rows went into its Python.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Event

import numpy as np
from scipy.spatial.distance import cdist

from .. import _core
from .._arrays import check_floats

# Precision of a prior on the mean log-width and on the deviations from it. Values of tau from 0.3 to 5 gave
# the same mean log-loss within noise on twelve benchmark sets.
RHO, TAU = 0.1, 1.0


@dataclass(frozen=True, eq=False)
class CompactModel:
    """Points and log-widths in the units of the rows; ``coef`` is (n_outputs, n_points + 1), intercepts
    last."""

    points: np.ndarray
    log_gamma: np.ndarray
    coef: np.ndarray

    def check(self) -> None:
        """Raise unless the arrays are what the compiled core expects; for models that are read from files."""
        check_floats("points", self.points, (None, None))
        n_points, n_features = self.points.shape
        check_floats("log_gamma", self.log_gamma, (n_features,))
        check_floats("coef", self.coef, (None, n_points + 1))
        if not len(self.coef):
            raise ValueError("coef must have a row for each output")

    @property
    def n_points(self) -> int:
        return len(self.points)

    @property
    def gamma(self) -> np.ndarray:
        return gamma_of(self.log_gamma)

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Points, gamma, coefficients and intercepts as the compiled core takes them."""
        coef = np.ascontiguousarray(self.coef[:, :-1])
        return self.points, self.gamma, coef, np.ascontiguousarray(self.coef[:, -1])

    def distances(self, X: np.ndarray) -> np.ndarray:
        """Distances of rows from the points in units of the widths: the kernel is exp(-distance^2)."""
        if not self.n_points:
            return np.zeros((len(X), 0))
        root = np.sqrt(self.gamma)
        # by differences: from norms and products, those between points far from zero are nothing but rounding
        distance: np.ndarray = cdist(X * root, self.points * root)
        return distance

    def squared_derivatives(self, X: np.ndarray) -> np.ndarray:
        """Mean over rows of the squared derivative of the outputs in each feature (summed over outputs)."""
        X = np.asarray(X, dtype=np.float64)
        norm = (X**2) @ self.gamma
        scaled = self.points * self.gamma
        distance = norm[:, None] - 2 * X @ scaled.T + (scaled * self.points).sum(axis=1)
        K = np.exp(-np.maximum(distance, 0.0))
        total = np.zeros(X.shape[1])
        for beta in self.coef[:, :-1]:
            slope = -2 * self.gamma * (X * (K @ beta)[:, None] - K @ (beta[:, None] * self.points))
            total += (slope**2).mean(axis=0)
        return total

    def outputs(self, rows: _core.CompactRows, threads: int = 1) -> np.ndarray:
        """f of every row, (n_rows, n_outputs)."""
        return rows.decision(*self.parts(), threads)


def gamma_of(log_gamma: np.ndarray) -> np.ndarray:
    """exp, finite also where a line search tries its luck far away."""
    return np.exp(np.clip(log_gamma, -50.0, 50.0))


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
    stop : Event or None
        Set by another thread to make :meth:`move` give up.
    """

    def __init__(
        self,
        rows: _core.CompactRows,
        *,
        shared: bool = False,
        threads: int = 1,
        stop: Event | None = None,
    ) -> None:
        self.rows, self.shared, self.threads, self.stop = rows, shared, threads, stop
        self._inner = _core.CompactInner(rows, threads)

    def solve(self, model: CompactModel, C: float, tol: float = 1e-7) -> tuple[CompactModel, float]:
        """The best coefficients for the points and widths of a model, and J without the penalty on widths."""
        self._inner.move(model.points, model.gamma)
        coef = model.coef.copy()
        value = self._inner.solve(coef, C, tol, 100).value
        return replace(model, coef=coef), value

    def gradient(self, log_gamma: np.ndarray, C: float) -> np.ndarray:
        """The gradient of the minimum over coefficients, in points and log-widths, at the last solve."""
        by_points, by_widths = self._inner.gradient(C)
        by_widths += width_penalty(log_gamma)[1]
        return np.concatenate([by_points.ravel(), [by_widths.sum()] if self.shared else by_widths])

    def move(
        self, model: CompactModel, C: float, *, max_iter: int = 25, tol: float = 1e-7, inner_tol: float = 1e-5
    ) -> Moved:
        """Move points and widths by L-BFGS until J falls by less than ``tol`` (relative) in a step."""
        points, coef = model.points.copy(), model.coef.copy()
        widths = model.log_gamma[:1].copy() if self.shared else model.log_gamma.copy()
        found = self._inner.descend(
            points, widths, coef, C, RHO, TAU, self.shared, max_iter, tol, inner_tol, self._check
        )
        log_gamma = np.full(points.shape[1], widths[0]) if self.shared else widths
        return Moved(CompactModel(points, log_gamma, coef), found.value, found.iterations, found.evaluations)

    def _check(self) -> None:
        """Called every tenth of a second while points move."""
        if self.stop is not None and self.stop.is_set():
            raise InterruptedError("another part of the fit has failed or was interrupted")
