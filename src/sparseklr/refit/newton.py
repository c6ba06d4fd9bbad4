r"""Penalised likelihood in the span of a few kernel functions, by Newton's method.

With basis points ``B`` the model is :math:`f(x) = \sum_{b \in B} \beta_b k(x_b, x) + c` and

.. math:: \min_{\beta, c}\; \tfrac12 \beta^\top K_{BB} \beta + C \sum_i w_i \log(1 + e^{-y_i f(x_i)})

over *all* training rows. Equal rows are one point with total weight :math:`w_i`; the fraction of it that
belongs to the positive class is the target :math:`t_i`. In the coordinates v of :class:`~.basis.Basis` the
penalty is :math:`\tfrac12\|v\|^2` and Newton's system is well conditioned.

With more than two classes, every class k has its own function :math:`f_k` with coordinates :math:`v_k` on
the same points. The penalty is the sum of theirs, and the loss is the cross-entropy of the softmax p of the
outputs. Coordinates and outputs are then matrices with a column for each class. The sum of the functions is
zero at the solution, because it costs a penalty and does not change the probabilities.

Several problems, such as those of cross-validation, may be solved at once: their coordinates have a third
axis, and one product with the features serves all of them.

A Newton matrix costs as much as tens of products with it. Newton's equations are therefore solved by
conjugate gradients, preconditioned by the matrix of an earlier step or of a neighbouring C; when this takes
too many products, the matrix is recomputed. A Newton matrix of all classes would have millions of entries, so
each class has a matrix with its own information (:mod:`~.labels`), averaged over the problems. Conjugate
gradients only reduce the residual by a factor, so those of several classes compute in float32; gradients,
outputs and the line search are float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from .. import _core
from .basis import Basis, solve_symmetric
from .labels import Labels, LossAt, SoftmaxLossAt


@dataclass(frozen=True)
class NewtonSettings:
    """Settings of Newton's method."""

    max_steps: int = 200  # usually about ten; a limit in case rounding errors of huge kernel values dominate
    reduction: float = 0.03  # factor by which conjugate gradients reduce the residual ...
    reduction_coupled: float = 0.2  # ... and with several classes
    dropped: float = 1e-2  # fraction of the information that preconditioners omit ...
    dropped_at_end: float = 1e-3  # ... and that the matrix at the solution omits
    coupled: int = 60  # further products with several classes, whose coupling the preconditioner ignores
    worth: int = 50  # products of several classes whose cost a matrix for each class may have
    coupled_enough: int = 5  # products after which matrices of several classes are recomputed, at least
    few_rows: int = 2000  # up to this many rows, products stay in the cache and are cheap
    armijo: float = 1e-4  # sufficient decrease of the line search
    least_step: float = 1e-10  # smallest step of the line search


SETTINGS = NewtonSettings()


@dataclass(frozen=True, eq=False)
class LikelihoodFit:
    """A fit of the penalised likelihood."""

    v: np.ndarray  # coordinates in the basis, the intercept last; several classes are columns
    f: np.ndarray  # outputs of all points
    C: float
    # Second derivatives of the likelihood in v, at f if ``fresh``, and the Cholesky factor (lower) of the
    # Newton matrix, curvature plus ridge. With several classes, those of the mean information of the classes,
    # and None unless ``fresh``.
    curvature: Any = None
    factor: Any = None


def embedded(v: np.ndarray, basis: Basis) -> np.ndarray:
    """Coordinates of the same function in a larger basis, whose first points are those of the basis of v."""
    added = np.zeros((basis.size + 1 - len(v), *v.shape[1:]))
    return np.concatenate([v[:-1], added, v[-1:]])


def fit_likelihood(
    basis: Basis,
    labels: Labels,
    C: float,
    start: np.ndarray | None = None,
    *,
    near: np.ndarray | None = None,
    curvature: np.ndarray | None = None,
    fresh: bool = True,
    tol: float = 1e-10,
) -> LikelihoodFit:
    """Minimise ``|v|^2 / (2C)`` plus the weighted cross-entropy of the labels by damped Newton steps.

    Parameters
    ----------
    start : array, optional
        Initial coordinates; zero by default.
    near : array, optional
        Outputs near those of the solution, for example from another basis; a Newton step from them gives the
        initial coordinates.
    curvature : array, optional
        Second derivatives of the likelihood at a point near the solution.
    fresh : bool
        Whether the returned curvature is evaluated at the solution; otherwise it may be that of a previous
        iterate.
    tol : float
        Stop after a step whose Newton decrement is below ``tol`` times the objective.
    """
    ridge, outputs = ridge_of(basis, C), labels.target.shape[1:]
    penalty = ridge.reshape(-1, *(1 for _ in outputs))

    def objective(v: np.ndarray, f: np.ndarray) -> tuple[float, LossAt | SoftmaxLossAt]:
        here = labels.at(f)
        return 0.5 * float(np.vdot(penalty * v, v)) + here.value, here

    def preconditioner(information: np.ndarray) -> tuple[Any, Any]:
        if labels.several:
            return None, inverse_factors(basis, information, ridge, int(np.prod(outputs)))
        curvature = basis.curvature(information)
        return curvature, newton_factor(curvature, ridge)

    factor = None if curvature is None or labels.several else newton_factor(curvature, ridge)
    v = np.zeros((basis.size + 1, *outputs)) if start is None else start
    if near is not None:
        there = labels.at(near)
        information = there.information
        if near.ndim == 2:  # the start needs the information of all classes, and a single matrix is cheaper
            information = information.mean(axis=1, keepdims=True)
        information = _most_of(information, SETTINGS.dropped)
        curvature, factor = preconditioner(information)
        if near.ndim == 3:
            information = there.by_output
        v = solve_newton(factor, basis.project(information * near - there.slope))
    f = basis.outputs(v)
    (current, here), products, dropped = objective(v, f), 0, SETTINGS.dropped
    # Number of products after which the matrix is recomputed. It is larger if products are cheap and the
    # caller needs a fresh matrix: that at the solution is computed in any case.
    enough = most = 3 + basis.size // (10 if fresh and len(f) <= SETTINGS.few_rows else 30)
    if labels.several:  # conjugate gradients must also account for the coupling of the classes
        enough = SETTINGS.coupled_enough + basis.size * outputs[-1] // (2 * int(np.prod(outputs)))
        most = enough + SETTINGS.coupled
    for _ in range(SETTINGS.max_steps):
        gradient = basis.project(here.slope) + penalty * v
        new = factor is None
        if factor is None:
            curvature, factor = preconditioner(_most_of(here.information, dropped))
        # If rows are far on the wrong side, the curvature vanishes but the slopes are large: a fraction of
        # these bounds the step of the intercept, which has no ridge, by 1e10.
        bounded = penalty + np.zeros_like(v)
        bounded[-1] = np.maximum(1e-10 * np.abs(here.slope).sum(axis=0) - here.information.sum(axis=0), 0.0)
        step, change, taken, left = _newton_step(basis, here, bounded, gradient, factor, most)
        products += taken
        decrement = -float(np.vdot(gradient, step))
        t = 1.0
        trial, there = objective(v + step, f + change)
        while trial > current - SETTINGS.armijo * t * decrement and t > SETTINGS.least_step:
            t /= 2
            trial, there = objective(v + t * step, f + t * change)
        done = decrement + left <= max(tol * abs(current), 1e-14 * labels.weight.sum())
        if trial < current:
            v, f, current, here = v + t * step, f + t * change, trial, there
        else:  # the remaining decrease is below rounding
            done = True
        if done:
            break
        if products >= enough:
            if new and taken >= most:  # the omitted rows matter, for example if kernel values are huge
                dropped = 0.0
            factor, products = None, 0
    if labels.several and not fresh:
        return LikelihoodFit(v, f, C)
    if fresh or factor is None:
        information = here.information.mean(axis=1) if labels.several else here.information
        curvature = basis.curvature(_most_of(information, SETTINGS.dropped_at_end))
        factor = newton_factor(curvature, ridge)
    return LikelihoodFit(v, f, C, curvature, factor)


def ridge_of(basis: Basis, C: float) -> np.ndarray:
    """Second derivatives of the penalty; zero for the intercept."""
    return np.append(np.full(basis.size, 1.0 / C), 0.0)


def factors_at(basis: Basis, labels: Labels, f: np.ndarray, C: float) -> np.ndarray:
    """Cholesky factors (lower) of the Newton matrices at outputs f, one for each output."""
    ridge, by_output = ridge_of(basis, C), labels.at(f).by_output
    matrices = (basis.curvature(_most_of(column, SETTINGS.dropped_at_end)) for column in by_output.T)
    return np.stack([newton_factor(matrix, ridge) for matrix in matrices])


def inverse_factors(basis: Basis, information: np.ndarray, ridge: np.ndarray, n_columns: int) -> np.ndarray:
    """Inverses of the factors of the Newton matrices, (n_classes, size + 1, size + 1), in float32.

    If the matrices would cost too much, a single one with the mean information serves all classes.
    ``n_columns`` is the number of outputs of a point. Products with the inverses and their transposes are
    positive semidefinite in spite of rounding; those with a rounded inverse of a Newton matrix need not be.
    """
    n, n_classes = information.shape
    cost = basis.size * (np.count_nonzero(information) / n_classes + basis.size)
    if cost > 2 * SETTINGS.worth * n * n_columns / n_classes:
        information = information.mean(axis=1, keepdims=True)
    inverses = np.empty((information.shape[1], len(ridge), len(ridge)), dtype=np.float32)
    for inverse, column in zip(inverses, information.T, strict=True):
        upper, _ = dtrtri(newton_factor(basis.curvature(column), ridge).T, lower=0)
        inverse[...] = upper.T
    return inverses


def _most_of(information: np.ndarray, dropped: float) -> np.ndarray:
    """The information with its smallest values, which add up to the fraction ``dropped``, set to zero.

    Several classes are columns. If the classes are well separated, few rows remain. Their Newton matrix is
    used as a preconditioner, and wherever errors of a few percent do not matter.
    """
    if information.ndim > 1:
        return np.column_stack([_most_of(column, dropped) for column in information.T])
    ordered = np.sort(information)
    total = np.cumsum(ordered)
    return np.where(information >= ordered[np.searchsorted(total, dropped * total[-1])], information, 0.0)


def solve_newton(factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``H^-1 b`` for the factor of a Newton matrix, or for the inverses of the factors of several classes.

    Several classes sum to zero, as the solution does.
    """
    if b.ndim == 1:
        return solve_symmetric(factor, b)
    by_class = np.ascontiguousarray(b.reshape(len(b), -1, b.shape[-1]).transpose(2, 0, 1), dtype=factor.dtype)
    solved = (factor.transpose(0, 2, 1) @ (factor @ by_class)).transpose(1, 2, 0)
    solved = solved - solved.mean(axis=-1, keepdims=True)
    return solved.reshape(b.shape).astype(b.dtype, copy=False)


def newton_factor(curvature: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Cholesky factor of the Newton matrix."""
    H = np.array(curvature.T, order="F")  # it is symmetric
    diagonal = H.reshape(-1, order="F")[:: len(H) + 1]
    diagonal += ridge
    diagonal[-1] += 1e-12 * (1 + diagonal[-1])  # the intercept is undetermined if all rows are saturated
    trace = diagonal.sum()
    for fraction in (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4):  # the ridge may be below rounding errors
        diagonal += fraction * trace
        factor, failed = dpotrf(H, lower=0)
        if not failed:
            return factor.T  # lower triangular, row-major
    raise FloatingPointError("the second derivatives of the likelihood are dominated by rounding errors")


def _newton_step(
    basis: Basis,
    here: LossAt | SoftmaxLossAt,
    ridge: np.ndarray,
    gradient: np.ndarray,
    factor: np.ndarray,
    most_products: int,
) -> tuple[np.ndarray, np.ndarray, int, float]:
    """Solve Newton's equations by conjugate gradients.

    Returns the step, the change of the outputs, the number of products, and with several classes an estimate
    of the Newton decrement that is left: an old matrix may be far from that of a class.
    """
    step, change = np.zeros_like(gradient), np.zeros_like(here.slope)
    if basis.kept is not None and gradient.ndim == 1:
        system = None if basis.whitened else basis.L, here.information, ridge, gradient, factor
        products = _core.newton_step(
            basis.kept, *system, SETTINGS.reduction, most_products, step, change, basis.threads
        )
        return step, change, products, 0.0
    if gradient.ndim > 1:
        return _coupled_step(basis, here, ridge, gradient, factor, most_products)
    residual = -gradient
    direction = z = solve_newton(factor, residual)
    size = first = float(np.vdot(residual, z))
    products = 0
    while products < most_products:
        products += 1
        along = basis.outputs(direction)
        product = basis.project(here.times(along)) + ridge * direction
        length = size / max(float(np.vdot(direction, product)), 1e-300)
        step += length * direction
        change += length * along
        residual = residual - length * product
        z = solve_newton(factor, residual)
        last, size = size, float(np.vdot(residual, z))
        if size <= SETTINGS.reduction**2 * first:
            break
        direction = z + (size / last) * direction
    return step, change, products, 0.0


def _coupled_step(
    basis: Basis,
    here: Any,
    ridge: np.ndarray,
    gradient: np.ndarray,
    inverses: np.ndarray,
    most_products: int,
) -> tuple[np.ndarray, np.ndarray, int, float]:
    """The step of several classes, in float32."""
    unit = max(float(np.abs(gradient).max()), np.finfo(float).tiny)
    residual, ridge = (-gradient / unit).astype(np.float32), ridge.astype(np.float32)
    here = here.single()
    step = np.zeros_like(residual)
    direction = z = solve_newton(inverses, residual)
    size = first = float(np.vdot(residual, z))
    products = 0
    while products < most_products:
        products += 1
        product = basis.project(here.times(basis.outputs(direction))) + ridge * direction
        length = np.float32(size / max(float(np.vdot(direction, product)), 1e-30))
        step += length * direction
        residual -= length * product
        z = solve_newton(inverses, residual)
        last, size = size, float(np.vdot(residual, z))
        if size <= SETTINGS.reduction_coupled**2 * first:
            break
        direction = z + np.float32(size / last) * direction
    whole = unit * step.astype(np.float64)
    whole -= whole.mean(axis=-1, keepdims=True)
    return whole, basis.outputs(whole), products, unit**2 * size
