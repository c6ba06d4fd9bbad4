r"""Levenberg-Marquardt steps for points, widths and coefficients, each in about one pass over the rows.

Let J be the objective of :mod:`sparseklr.compact.model`. A step s solves

.. math:: (G + \mu D)\, s = -\nabla J, \qquad G = \sum_i w_i\, \Phi_i^\top \bigl(\operatorname{diag} p_i - p_i
    p_i^\top\bigr) \Phi_i + \text{penalties},

where :math:`\Phi_i` is the derivative of the outputs (decision values) of row i with respect to all
parameters, :math:`p_i` contains the class probabilities of the row, and D is a diagonal matrix. G is the
Fisher information: the Hessian of J without a term whose expectation is zero if the model is correct. The
gradient is summed over all rows. G is summed over a sample of the rows and scaled up, because it affects only
the speed of convergence.

For two classes, the middle factor of G is the number :math:`p_i (1 - p_i)`. For m > 2 classes it has the root

.. math:: \operatorname{diag} p - p p^\top = A A^\top, \quad A = \operatorname{diag} \sqrt p - p \sqrt p^\top,
    \quad a_c = \sqrt{p_c}\, (e_c - p),

because :math:`\sqrt p^\top \sqrt p = 1`; the vectors :math:`a_c` are the columns of A. Row i contributes only
:math:`m\, a_c a_c^\top` with c = i mod m. As the rows are in random order, this is an unbiased estimate of
:math:`A A^\top = \sum_c a_c a_c^\top`, and it is m times cheaper.

References
----------
J. Moré, "The Levenberg-Marquardt algorithm: implementation and theory", Lecture Notes in Mathematics 630,
1978. H. Nielsen, "Damping parameter in Marquardt's method", Report IMM-REP-1999-05, Technical University of
Denmark. R. Byrd, G. Chin, W. Neveitt and J. Nocedal, "On the use of stochastic Hessian information in
optimization methods for machine learning", SIAM J. Optimization 21, 2011 (Hessian of a sample, gradient of
all rows).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit, softmax

from .. import _core
from .._utils.threads import ordered_threads
from ..compact.model import RHO, TAU, CompactModel, width_penalty
from ..compact.rows import LabelledRows
from .passes import Blocks
from .sources import Block


@dataclass(frozen=True)
class GaussNewtonSettings:
    """Settings of the Levenberg-Marquardt steps."""

    most_together: int = 2900  # largest order of G; in larger models, groups of points take turns to move
    matters: float = 0.04  # points move in features whose gamma is at least this fraction of the largest
    first_damping: float = 1e-2  # damping mu of the first step
    least_damping: float = 1e-6  # smallest damping
    most_damping: float = 1e6  # largest damping
    chunk: int = 1024  # number of rows in one matrix product
    parts: int = 4  # number of parts of the sample, each summed by one thread


STEPS = GaussNewtonSettings()


# -- all parameters as one vector ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Parameters:
    """Layout of the parameter vector: points, log gamma (one if shared), coefficients and intercepts."""

    k: int  # number of points
    p: int  # number of features
    n_outputs: int
    shared: bool  # whether all features share one width

    @classmethod
    def of(cls, model: CompactModel, shared: bool) -> Parameters:
        """Return the layout for a model."""
        k, p = model.points.shape
        return cls(k, p, len(model.coef), shared)

    @property
    def n_widths(self) -> int:
        """Number of values of log gamma."""
        return 1 if self.shared else self.p

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.k * self.p + self.n_widths + self.n_outputs * (self.k + 1)

    def gradient(self, by_points: np.ndarray, by_widths: np.ndarray, by_coef: np.ndarray) -> np.ndarray:
        """Return the gradient vector from derivatives with respect to points, log gamma and coefficients."""
        widths = by_widths.sum(keepdims=True) if self.shared else by_widths
        return np.concatenate([by_points.ravel(), widths, by_coef.ravel()])

    def moved(self, model: CompactModel, step: np.ndarray) -> CompactModel:
        """Return the model after a step of its parameters."""
        a, b = self.k * self.p, self.k * self.p + self.n_widths
        return CompactModel(
            model.points + step[:a].reshape(self.k, self.p),
            model.log_gamma + step[a:b],
            model.coef + step[b:].reshape(self.n_outputs, self.k + 1),
        )

    def together(self, points: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the indices of the given features of the given points, the widths and all coefficients."""
        moving = (points[:, None] * self.p + features).ravel()
        return np.concatenate([moving, np.arange(self.k * self.p, self.size)])


def moving_features(gamma: np.ndarray) -> np.ndarray:
    """Return the features in which points move.

    With a small gamma, the position of a point hardly matters.
    """
    return np.flatnonzero(gamma >= STEPS.matters * gamma.max())


def kernel_matrix(points: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """Return the kernel values k(z_a, z_b) of all pairs of points."""
    scaled = (points - points.mean(axis=0)) * np.sqrt(gamma)
    norm = (scaled**2).sum(axis=1)
    return np.exp(-np.maximum(norm[:, None] + norm - 2 * scaled @ scaled.T, 0.0))


# -- Fisher information ----------------------------------------------------------------------------


def fisher_information(
    rows: LabelledRows,
    model: CompactModel,
    C: float,
    points: np.ndarray,
    features: np.ndarray,
    *,
    shared: bool,
    n_jobs: int | None,
) -> np.ndarray:
    """Return the matrix G for the given features of the given points, the widths and all coefficients.

    The module docstring defines G. The rows must be in random order.
    """
    parameters = Parameters.of(model, shared)
    size = len(parameters.together(points, features))
    edges = [len(rows) * part // STEPS.parts for part in range(STEPS.parts + 1)]
    G = np.zeros((size, size))
    with ordered_threads(n_jobs) as run:
        for part in run(
            lambda k: _products(rows, edges[k], edges[k + 1], model, points, features, shared, size),
            range(STEPS.parts),
        ):
            G += part
    p, k = parameters.p, parameters.k
    n_coordinates = len(points) * len(features)
    widths = slice(n_coordinates, n_coordinates + parameters.n_widths)
    G[widths, widths] += RHO if shared else TAU * np.eye(p) + (RHO / p - TAU) / p
    K = kernel_matrix(model.points, model.gamma) / C
    for start in range(widths.stop, size, k + 1):
        G[start : start + k, start : start + k] += K
    return G


def _products(
    rows: LabelledRows,
    first: int,
    last: int,
    model: CompactModel,
    points: np.ndarray,
    features: np.ndarray,
    shared: bool,
    size: int,
) -> np.ndarray:
    """Return the sum over rows of the products of derivatives, in float32."""
    gamma = model.gamma.astype(np.float32)
    root, Z = np.sqrt(gamma), model.points.astype(np.float32)
    scaled = Z * root
    norm = (scaled**2).sum(axis=1)
    beta, intercept = model.coef[:, :-1].astype(np.float32), model.coef[:, -1].astype(np.float32)
    m, k = beta.shape
    total, product = np.zeros((2, size, size), dtype=np.float32)
    n_coordinates, n_widths = len(points) * len(features), 1 if shared else Z.shape[1]
    positions = Z[np.ix_(points, features)]
    for start in range(first, last, STEPS.chunk):
        stop = min(start + STEPS.chunk, last)
        X = rows.X[start:stop].astype(np.float32, copy=False)
        A = X * root
        K = np.exp(-np.maximum((A**2).sum(axis=1)[:, None] + norm - 2 * A @ scaled.T, 0))
        factor = _root_of_curvature(K @ beta.T + intercept, rows.weight[start:stop], start)
        W = K * (factor @ beta)
        Phi = np.empty((stop - start, size), dtype=np.float32)
        by_points = Phi[:, :n_coordinates].reshape(stop - start, len(points), len(features))
        np.subtract(X[:, None, features], positions, out=by_points)
        by_points *= 2 * gamma[features]
        by_points *= W[:, points, None]
        by_widths = -gamma * (X**2 * W.sum(axis=1)[:, None] - 2 * X * (W @ Z) + W @ Z**2)
        after = n_coordinates + n_widths
        Phi[:, n_coordinates:after] = by_widths.sum(axis=1, keepdims=True) if shared else by_widths
        by_coef = Phi[:, after:].reshape(stop - start, m, k + 1)
        np.multiply(factor[:, :, None], K[:, None, :], out=by_coef[:, :, :-1])
        by_coef[:, :, -1] = factor
        # NumPy calls the BLAS function syrk here and, unlike SciPy, releases the interpreter lock.
        total += np.matmul(Phi.T, Phi, out=product)
    return total


def _root_of_curvature(outputs: np.ndarray, weight: np.ndarray, start: int) -> np.ndarray:
    """Return an array (n_rows, n_outputs) with sqrt(m w_i) a_c, where c = i mod m, for each row i.

    The module docstring defines a_c. The number of the first row is ``start``.
    """
    m = outputs.shape[1]
    if m == 1:
        p = expit(outputs)
        return np.sqrt(weight[:, None] * p * (1 - p)).astype(np.float32)
    p = softmax(outputs, axis=1)
    c = (start + np.arange(len(p))) % m
    root = np.sqrt(p[np.arange(len(p)), c])
    column = -p * root[:, None]
    column[np.arange(len(p)), c] += root
    return (column * np.sqrt(m * weight)[:, None]).astype(np.float32)


# -- the objective over blocks -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LossPass:
    """Function of a block that returns its loss and the gradient of the loss, as one vector."""

    model: CompactModel
    n_classes: int

    def __call__(self, block: Block) -> np.ndarray:
        rows = LabelledRows(block.X, block.labels, block.weights, self.n_classes).compiled()
        sums = rows.sums(*self.model.parts(), _core.Curvature.none, True, 1)
        names = ("point_gradient", "width_gradient", "coef_gradient")
        return np.concatenate([[sums["loss"]], *(sums[name].ravel() for name in names)])


@dataclass(frozen=True, eq=False)
class RowsObjective:
    """The objective J on all rows of blocks with encoded labels and scaled features.

    ``each`` is called with the number of rows of each finished block.
    """

    blocks: Blocks
    n_classes: int
    C: float
    shared: bool = False
    each: Callable[[int], None] | None = None

    def __call__(self, model: CompactModel) -> tuple[float, np.ndarray]:
        """Return J and its gradient, in the order of :class:`Parameters`."""
        with np.errstate(over="ignore", invalid="ignore"):  # steps that overflow are rejected
            return self._value_and_gradient(model)

    def _value_and_gradient(self, model: CompactModel) -> tuple[float, np.ndarray]:
        """Return J and its gradient."""
        total = self.blocks.sum(LossPass(model, self.n_classes), self.each)
        k, p = model.points.shape
        value, by_points = total[0], total[1 : 1 + k * p].reshape(k, p)
        by_widths = total[1 + k * p : 1 + k * p + p]
        by_coef = total[1 + k * p + p :].reshape(model.coef.shape)
        beta = model.coef[:, :-1]
        K = kernel_matrix(model.points, model.gamma)
        slopes = beta @ K / self.C
        V = K * (beta.T @ beta) / self.C
        mass, first = V.sum(axis=1), V @ model.points
        penalty, slope = width_penalty(model.log_gamma)
        value += float((slopes * beta).sum()) / 2 + penalty
        by_coef[:, :-1] += slopes
        by_points += 2 * model.gamma * (first - mass[:, None] * model.points)
        by_widths += slope - model.gamma * ((mass[:, None] * model.points - first) * model.points).sum(axis=0)
        return float(value), Parameters.of(model, self.shared).gradient(by_points, by_widths, by_coef)


# -- the steps -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Descent:
    """The state of an optimisation. An interrupted optimisation resumes from it with the same result."""

    model: CompactModel
    damping: float = STEPS.first_damping  # mu of the next step
    value: float = np.inf  # objective J over all rows
    idle: int = 0  # number of consecutive steps that lowered J by less than the tolerance
    gradient_norm: float = np.inf  # largest absolute derivative with respect to a point or log gamma
    n_steps: int = 0  # number of steps so far
    n_passes: int = 0  # number of passes over all rows so far
    done: bool = False  # whether the optimisation has converged


def descend(
    objective: RowsObjective,
    sample: LabelledRows,
    start: Descent,
    *,
    max_steps: int,
    tol: float,
    n_jobs: int | None = None,
    report: Callable[[Descent], Any] = lambda descent: None,
) -> Descent:
    """Optimise all parameters until two consecutive steps each lower J by less than the fraction ``tol``.

    If groups of points take turns to move, this must hold for every group. ``sample`` contains the rows for
    the Fisher information, in random order, with weights that sum to the weight of all rows. ``max_steps``
    includes the steps taken before an optimisation was resumed. ``report`` is called with the state after
    every step.
    """
    now = start
    if now.done or now.n_steps >= max_steps:
        return now
    value, gradient = objective(now.model)
    now = replace(now, value=value, n_passes=now.n_passes + 1)
    while now.n_steps < max_steps and not now.done:
        moving = MovingPoints.of(now.model, objective.shared, now.n_steps)
        G = fisher_information(
            sample,
            now.model,
            objective.C,
            moving.points,
            moving.features,
            shared=objective.shared,
            n_jobs=n_jobs,
        )
        last, (now, gradient) = now, _step(objective, now, gradient, G, moving)
        gained = (last.value - now.value) >= tol * abs(last.value) and now.value < last.value
        idle = 0 if gained else last.idle + 1
        stuck = moving.n_turns == 1 and now.value == last.value
        now = replace(now, idle=idle, done=stuck or idle >= max(2, moving.n_turns))
        report(now)
    return now


@dataclass(frozen=True, eq=False)
class MovingPoints:
    """The points that move in a step, and the features in which they move.

    Widths and coefficients move in every step.
    """

    points: np.ndarray
    features: np.ndarray
    n_turns: int  # number of groups of points that take turns to move

    @classmethod
    def of(cls, model: CompactModel, shared: bool, n_steps: int = 0) -> MovingPoints:
        """Return all points, or one of several groups if G would be too large for all points."""
        parameters, features = Parameters.of(model, shared), moving_features(model.gamma)
        free = STEPS.most_together - (parameters.size - parameters.k * parameters.p)
        n_turns = -(-parameters.k // max(1, free // len(features)))
        return cls(np.arange(n_steps % n_turns, parameters.k, n_turns), features, n_turns)


def _step(
    objective: RowsObjective,
    now: Descent,
    gradient: np.ndarray,
    G: np.ndarray,
    moving: MovingPoints,
) -> tuple[Descent, np.ndarray]:
    """Return the state after one step, and the gradient at the new parameters.

    The damping is increased until J falls. If it does not fall beyond rounding errors, the model stays
    unchanged.
    """
    parameters = Parameters.of(now.model, objective.shared)
    together = parameters.together(moving.points, moving.features)
    g = gradient[together]
    scale = _scale(G, now.model.gamma[moving.features], len(moving.points), parameters.n_widths)
    damping, more, n_passes = now.damping, 2.0, now.n_passes
    diagonal = np.diag(G).copy()
    n_outer = parameters.k * parameters.p + parameters.n_widths
    while damping <= STEPS.most_damping:
        np.fill_diagonal(G, diagonal + damping * scale)
        try:
            step = -cho_solve(cho_factor(G, lower=True, check_finite=False), g, check_finite=False)
        except LinAlgError:  # too few sample rows, or rounding errors of float32, make the matrix indefinite
            damping, more = damping * more, 2 * more
            continue
        # The decrease of J that the quadratic model without damping predicts
        expected = -(g @ step) / 2 + damping * (scale * step) @ step / 2
        everything = np.zeros(parameters.size)
        everything[together] = step
        model = parameters.moved(now.model, everything)
        value, slope = objective(model)
        n_passes += 1
        if np.isfinite(value) and value < now.value:
            ratio = (now.value - value) / expected
            damping = max(STEPS.least_damping, damping * max(1 / 3, 1 - (2 * ratio - 1) ** 3))
            norm = float(np.abs(slope[:n_outer]).max(initial=0.0))
            return replace(
                now,
                model=model,
                damping=damping,
                value=value,
                gradient_norm=norm,
                n_steps=now.n_steps + 1,
                n_passes=n_passes,
            ), slope
        if expected < 1e-10 * abs(now.value):  # the decrease is below rounding errors
            break
        damping, more = damping * more, 2 * more
    norm = float(np.abs(gradient[:n_outer]).max(initial=0.0))
    return replace(now, gradient_norm=norm, n_steps=now.n_steps + 1, n_passes=n_passes), gradient


def _scale(G: np.ndarray, gamma: np.ndarray, n_points: int, n_widths: int) -> np.ndarray:
    """Return the diagonal D of the damping: the diagonal of G, with lower limits.

    Damping all points nearly equally prevents large moves of points with small coefficients. The lower limit
    that is proportional to gamma prevents large moves of a point whose coefficient, and therefore curvature,
    is zero.
    """
    scale = np.diag(G).copy()
    n_coordinates = n_points * len(gamma)
    by_points, widths, coef = np.split(scale, [n_coordinates, n_coordinates + n_widths])  # views
    by_points += 5.0 * by_points.mean() + 1e-2 * coef.mean() * np.tile(gamma, n_points)
    widths += 1e-2 * widths.mean()
    coef += 1e-6 * coef.mean() + np.finfo(float).tiny
    return scale
