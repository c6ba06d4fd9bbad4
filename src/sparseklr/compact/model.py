r"""The compact model, its objective as a function of points and widths, and starting points.

A model of k points :math:`z_b` is
:math:`f_o(x) = \sum_b \beta_{ob} e^{-\sum_j \gamma_j (x_j - z_{bj})^2} + c_o`. It has one output o for two
classes, and otherwise one output for each class with softmax probabilities. The points, the parameters
:math:`\gamma_j` and the coefficients minimise

.. math:: J = \sum_i w_i\, \ell(y_i, f(x_i)) + \tfrac1{2C} \sum_o \beta_o^\top K_{zz} \beta_o
    + \tfrac{\rho}{2} a^2 + \tfrac{\tau}{2} \sum_j r_j^2, \qquad \log \gamma_j = -\log p + a + r_j,\; \sum_j
    r_j = 0,

where p is the number of features and :math:`\ell` is the log-loss. The width of the kernel along feature j is
proportional to :math:`\gamma_j^{-1/2}`. For given points and widths, the coefficients solve a convex problem.
L-BFGS minimises the optimal value of this problem over the points and :math:`\log \gamma_j` (variable
projection; Golub and Pereyra, Inverse Problems 19, 2003). The compiled core solves both problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Event

import numpy as np
from scipy.spatial.distance import cdist

from .. import _core
from .._utils.arrays import check_floats
from .rows import LabelledRows

# Factors of the penalty on log gamma: rho for the mean of log gamma, and tau for the deviations from the mean
RHO, TAU = 0.1, 1.0


@dataclass(frozen=True, eq=False)
class CompactModel:
    """Parameters of a compact model for scaled rows."""

    points: np.ndarray  # (n_points, n_features)
    log_gamma: np.ndarray  # logarithm of gamma_j for each feature j, (n_features,)
    coef: np.ndarray  # coefficients of the points, followed by the intercept, (n_outputs, n_points + 1)

    def check(self) -> None:
        """Raise an error unless the arrays are valid input of the compiled core.

        This check protects against invalid model files.
        """
        check_floats("points", self.points, (None, None))
        n_points, n_features = self.points.shape
        check_floats("log_gamma", self.log_gamma, (n_features,))
        check_floats("coef", self.coef, (None, n_points + 1))
        if not len(self.coef):
            raise ValueError("coef must have a row for each output")

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.points)

    @property
    def gamma(self) -> np.ndarray:
        r"""Kernel coefficient :math:`\gamma_j` of each feature j."""
        return gamma_of(self.log_gamma)

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return points, gamma, coefficients and intercepts, as arguments of the compiled core."""
        coef = np.ascontiguousarray(self.coef[:, :-1])
        return self.points, self.gamma, coef, np.ascontiguousarray(self.coef[:, -1])

    def distances(self, X: np.ndarray) -> np.ndarray:
        """Return the distances of rows from the points, such that the kernel is exp(-distance^2)."""
        if not self.n_points:
            return np.zeros((len(X), 0))
        root = np.sqrt(self.gamma)
        # cdist subtracts coordinates. Norms and products would cancel if points are close together and far
        # from zero.
        distance: np.ndarray = cdist(X * root, self.points * root)
        return distance

    def squared_derivatives(self, X: np.ndarray) -> np.ndarray:
        """Return the mean squared derivative with respect to each feature, summed over the outputs."""
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
        """Return the decision values of all rows as an array of shape (n_rows, n_outputs)."""
        return rows.decision(*self.parts(), threads)


def gamma_of(log_gamma: np.ndarray) -> np.ndarray:
    """Return exp(log_gamma), clipped so that long line-search steps stay finite."""
    return np.exp(np.clip(log_gamma, -50.0, 50.0))


def width_penalty(log_gamma: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the last two terms of J, the penalty on log gamma, and their derivatives."""
    mean = log_gamma.mean()
    a, r = mean + np.log(len(log_gamma)), log_gamma - mean
    return 0.5 * (RHO * a * a + TAU * float(r @ r)), RHO * a / len(log_gamma) + TAU * r


# -- the objective ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moved:
    """Result of a run of L-BFGS."""

    model: CompactModel
    value: float  # objective J
    n_iter: int  # number of iterations
    n_eval: int  # number of evaluations of the objective


class Objective:
    """The objective J on given rows, as a function of points and widths.

    With ``shared``, all features have the same width. Another thread may set ``stop`` to end :meth:`move`.
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
        """Return the model with optimal coefficients, and J without the penalty on log gamma.

        The points and widths of ``model`` are kept.
        """
        self._inner.move(model.points, model.gamma)
        coef = model.coef.copy()
        value = self._inner.solve(coef, C, tol, 100).value
        return replace(model, coef=coef), value

    def gradient(self, log_gamma: np.ndarray, C: float) -> np.ndarray:
        """Return the derivatives, with respect to points and log gamma, of J minimised over the coefficients.

        They are evaluated at the last solution of :meth:`solve`.
        """
        by_points, by_widths = self._inner.gradient(C)
        by_widths += width_penalty(log_gamma)[1]
        return np.concatenate([by_points.ravel(), [by_widths.sum()] if self.shared else by_widths])

    def move(
        self, model: CompactModel, C: float, *, max_iter: int = 25, tol: float = 1e-7, inner_tol: float = 1e-5
    ) -> Moved:
        """Optimise points and widths by L-BFGS until an iteration lowers J by less than the fraction ``tol``.

        At most ``max_iter`` iterations are made.
        """
        points, coef = model.points.copy(), model.coef.copy()
        widths = model.log_gamma[:1].copy() if self.shared else model.log_gamma.copy()
        end = self._inner.descend(
            points, widths, coef, C, RHO, TAU, self.shared, max_iter, tol, inner_tol, self._check
        )
        log_gamma = np.full(points.shape[1], widths[0]) if self.shared else widths
        return Moved(CompactModel(points, log_gamma, coef), end.value, end.iterations, end.evaluations)

    def move_along(
        self, model: CompactModel, Cs: Sequence[float], *, max_iter: int
    ) -> tuple[CompactModel, int]:
        """Return the model after :meth:`move` with each C in turn, and the total number of iterations."""
        n_iter = 0
        for C in Cs:
            moved = self.move(model, C, max_iter=max_iter)
            model, n_iter = moved.model, n_iter + moved.n_iter
        return model, n_iter

    def _check(self) -> None:
        """Raise an error if another thread has set ``stop``.

        The compiled core calls this method 20 times per second.
        """
        if self.stop is not None and self.stop.is_set():
            raise InterruptedError("another part of the fit failed or was interrupted")


# -- starting points -------------------------------------------------------------------------------


def base_rate(rows: LabelledRows) -> CompactModel:
    """Return the model without points, whose intercepts are the logits of the class fractions."""
    p = rows.X.shape[1]
    total = np.bincount(rows.label, rows.weight, minlength=rows.n_classes)
    # The difference of logarithms avoids underflow if a class has a tiny fraction of the weight.
    logs = np.log(np.maximum(total, np.finfo(float).tiny)) - np.log(rows.weight.sum())
    intercept = logs[1:] - logs[:1] if rows.n_classes == 2 else logs - logs.mean()
    return CompactModel(np.zeros((0, p)), np.full(p, -np.log(max(p, 1))), intercept[:, None])


def started(rows: LabelledRows, n_points: int, log_gamma: np.ndarray, max_rows: int = 3000) -> CompactModel:
    """Return a model with the given widths, points at cluster centres, and zero coefficients.

    The first ``max_rows`` rows of each class are clustered. The points are divided equally among the classes,
    as far as each class has enough rows. If the division leaves a remainder, the first classes get one more
    point each.
    """
    metric = np.exp(0.5 * log_gamma)
    members = [np.flatnonzero(rows.label == label) for label in range(rows.n_classes)]
    counts = _points_by_class(n_points, np.array([len(part) for part in members]))
    centres = [
        cluster_centres(rows.X[part[:max_rows]] * metric, rows.weight[part[:max_rows]], count) / metric
        for part, count in zip(members, counts, strict=True)
        if count
    ]
    points = np.ascontiguousarray(np.vstack(centres))
    intercept = base_rate(rows).coef
    coef = np.hstack([np.zeros((len(intercept), len(points))), intercept])
    return CompactModel(points, log_gamma, coef)


def _points_by_class(n_points: int, available: np.ndarray) -> np.ndarray:
    """Return the number of starting points of each class."""
    counts = np.zeros_like(available)
    while (left := min(n_points, int(available.sum())) - int(counts.sum())) > 0:
        open_ = np.flatnonzero(counts < available)
        counts[open_] += left // len(open_)
        counts[open_[: left % len(open_)]] += 1
        counts = np.minimum(counts, available)
    return counts


def cluster_centres(X: np.ndarray, weight: np.ndarray, n_clusters: int, sweeps: int = 5) -> np.ndarray:
    """Return cluster centres by Lloyd's algorithm, started by repeated bisection along principal axes.

    This start (PCA-Part, Su and Dy 2007) is deterministic, and does not depend on the order of rows or
    features.
    """
    X = np.asarray(X, dtype=np.float64)
    if n_clusters == 1:
        return (weight @ X / weight.sum())[None]
    centres = _bisected(X, weight, n_clusters)
    rows = np.arange(len(X))
    for _ in range(sweeps):
        nearest = np.argmin((centres**2).sum(axis=1) - 2 * X @ centres.T, axis=1)
        member = np.zeros((len(centres), len(X)))
        member[nearest, rows] = weight
        mass = member.sum(axis=1)
        moved = mass > 0
        centres[moved] = (member @ X)[moved] / mass[moved, None]
    return centres


def _bisected(X: np.ndarray, weight: np.ndarray, n_clusters: int, power_steps: int = 5) -> np.ndarray:
    """Return cluster means from repeated bisection.

    The cluster with the largest sum of squares is divided at its mean, orthogonally to its principal axis.
    """

    def described(members: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        w = weight[members]
        mean = w @ X[members] / w.sum()
        squares = ((X[members] - mean) ** 2).sum(axis=1)
        return float(w @ squares), members, mean

    clusters = [described(np.arange(len(X)))]
    while len(clusters) < n_clusters:
        largest = max(range(len(clusters)), key=lambda c: clusters[c][0])
        scatter, members, mean = clusters[largest]
        if not scatter > 0:  # every cluster consists of equal rows
            break
        difference, w = X[members] - mean, weight[members]
        axis = difference[np.argmax(w * (difference**2).sum(axis=1))]
        for _ in range(power_steps):
            axis = (w * (difference @ axis)) @ difference
            axis /= max(np.abs(axis).max(), np.finfo(float).tiny)
        above = difference @ axis > 0
        if above.all() or not above.any():  # the differences are below rounding errors
            clusters[largest] = (0.0, members, mean)
            continue
        clusters[largest] = described(members[above])
        clusters.append(described(members[~above]))
    return np.array([mean for _, _, mean in clusters])
