r"""The model, the objective with the coefficients eliminated, and the starting points.

A model of k points is :math:`f_o(x) = \sum_b \beta_{ob} e^{-\sum_j \gamma_j (x_j - z_{bj})^2} + c_o`, one
output for two classes and one per class (softmax) for more. All its parameters are fitted by minimising

.. math:: J = \sum_i w_i\, \ell(y_i, f(x_i)) + \tfrac1{2C} \sum_o \beta_o^\top K_{zz} \beta_o
    + \tfrac{\rho}{2} a^2 + \tfrac{\tau}{2} \sum_j r_j^2, \qquad \log \gamma_j = -\log p + a + r_j,\; \sum_j
    r_j = 0.

The code calls :math:`\gamma_j` the width of feature j. For given points and widths, the coefficients solve a
convex problem; L-BFGS minimises the optimal value of this problem over points and widths (variable
projection, Golub and Pereyra, Inverse Problems 19, 2003). The compiled core does both.
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

# Precision of the prior on the mean log-width, and on the deviations from it.
RHO, TAU = 0.1, 1.0


@dataclass(frozen=True, eq=False)
class CompactModel:
    """Points and log gamma for scaled rows; ``coef`` is (n_outputs, n_points + 1), intercepts last."""

    points: np.ndarray
    log_gamma: np.ndarray
    coef: np.ndarray

    def check(self) -> None:
        """Raise unless the arrays are valid input of the compiled core; for models read from files."""
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
        """Points, gamma, coefficients and intercepts, as arguments of the compiled core."""
        coef = np.ascontiguousarray(self.coef[:, :-1])
        return self.points, self.gamma, coef, np.ascontiguousarray(self.coef[:, -1])

    def distances(self, X: np.ndarray) -> np.ndarray:
        """Distances of rows from the points, scaled by the widths: the kernel is exp(-distance^2)."""
        if not self.n_points:
            return np.zeros((len(X), 0))
        root = np.sqrt(self.gamma)
        # by differences: norms and products cancel if points are close together and far from zero
        distance: np.ndarray = cdist(X * root, self.points * root)
        return distance

    def squared_derivatives(self, X: np.ndarray) -> np.ndarray:
        """Mean over rows of the squared derivative in each feature, summed over outputs."""
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
        """Decision values of every row, (n_rows, n_outputs)."""
        return rows.decision(*self.parts(), threads)


def gamma_of(log_gamma: np.ndarray) -> np.ndarray:
    """exp(log_gamma), clipped so that long line-search steps stay finite."""
    return np.exp(np.clip(log_gamma, -50.0, 50.0))


def width_penalty(log_gamma: np.ndarray) -> tuple[float, np.ndarray]:
    """The last two terms of J and their gradient in log gamma."""
    mean = log_gamma.mean()
    a, r = mean + np.log(len(log_gamma)), log_gamma - mean
    return 0.5 * (RHO * a * a + TAU * float(r @ r)), RHO * a / len(log_gamma) + TAU * r


# -- the objective ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moved:
    """Result of a run of L-BFGS."""

    model: CompactModel
    value: float  # J
    n_iter: int
    n_eval: int


class Objective:
    """J over given rows, as a function of points and widths.

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
        """The best coefficients for the points and widths of a model, and J without the prior on widths."""
        self._inner.move(model.points, model.gamma)
        coef = model.coef.copy()
        value = self._inner.solve(coef, C, tol, 100).value
        return replace(model, coef=coef), value

    def gradient(self, log_gamma: np.ndarray, C: float) -> np.ndarray:
        """Gradient in points and log-widths of the minimum of J over coefficients, at the last solution."""
        by_points, by_widths = self._inner.gradient(C)
        by_widths += width_penalty(log_gamma)[1]
        return np.concatenate([by_points.ravel(), [by_widths.sum()] if self.shared else by_widths])

    def move(
        self, model: CompactModel, C: float, *, max_iter: int = 25, tol: float = 1e-7, inner_tol: float = 1e-5
    ) -> Moved:
        """Move points and widths by L-BFGS until a step lowers J by less than the fraction ``tol``."""
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
        """The model after :meth:`move` at each C in turn, and the total number of iterations."""
        n_iter = 0
        for C in Cs:
            moved = self.move(model, C, max_iter=max_iter)
            model, n_iter = moved.model, n_iter + moved.n_iter
        return model, n_iter

    def _check(self) -> None:
        """Raise if another thread has set ``stop``; the compiled core calls this 20 times per second."""
        if self.stop is not None and self.stop.is_set():
            raise InterruptedError("another part of the fit failed or was interrupted")


# -- starting points -------------------------------------------------------------------------------


def base_rate(rows: LabelledRows) -> CompactModel:
    """The model without points: the logits of the class fractions."""
    p = rows.X.shape[1]
    total = np.bincount(rows.label, rows.weight, minlength=rows.n_classes)
    # a difference of logarithms: the fraction of a class of tiny weights may underflow
    logs = np.log(np.maximum(total, np.finfo(float).tiny)) - np.log(rows.weight.sum())
    intercept = logs[1:] - logs[:1] if rows.n_classes == 2 else logs - logs.mean()
    return CompactModel(np.zeros((0, p)), np.full(p, -np.log(max(p, 1))), intercept[:, None])


def started(rows: LabelledRows, n_points: int, log_gamma: np.ndarray, max_rows: int = 3000) -> CompactModel:
    """A model with the given widths, points at cluster centres, and zero coefficients.

    The first ``max_rows`` rows of each class are clustered. Points are divided equally among the classes, as
    far as each has enough rows; any remainder goes to the first classes, one each.
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
    """The number of starting points of each class."""
    counts = np.zeros_like(available)
    while (left := min(n_points, int(available.sum())) - int(counts.sum())) > 0:
        open_ = np.flatnonzero(counts < available)
        counts[open_] += left // len(open_)
        counts[open_[: left % len(open_)]] += 1
        counts = np.minimum(counts, available)
    return counts


def cluster_centres(X: np.ndarray, weight: np.ndarray, n_clusters: int, sweeps: int = 5) -> np.ndarray:
    """Cluster centres by Lloyd's algorithm, started by repeated bisection along principal axes.

    The start (PCA-Part, Su and Dy 2007) draws nothing and does not depend on the order of rows or features.
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
    """Means of clusters: the one with the largest sum of squares is halved along its principal axis."""

    def described(members: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        w = weight[members]
        mean = w @ X[members] / w.sum()
        squares = ((X[members] - mean) ** 2).sum(axis=1)
        return float(w @ squares), members, mean

    clusters = [described(np.arange(len(X)))]
    while len(clusters) < n_clusters:
        largest = max(range(len(clusters)), key=lambda c: clusters[c][0])
        scatter, members, mean = clusters[largest]
        if not scatter > 0:  # all rows are centres already
            break
        difference, w = X[members] - mean, weight[members]
        axis = difference[np.argmax(w * (difference**2).sum(axis=1))]
        for _ in range(power_steps):
            axis = (w * (difference @ axis)) @ difference
            axis /= max(np.abs(axis).max(), np.finfo(float).tiny)
        above = difference @ axis > 0
        if above.all() or not above.any():  # differences below rounding
            clusters[largest] = (0.0, members, mean)
            continue
        clusters[largest] = described(members[above])
        clusters.append(described(members[~above]))
    return np.array([mean for _, _, mean in clusters])
