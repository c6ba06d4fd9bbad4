r"""Penalised maximum likelihood in the span of a few kernel functions, by Newton's method.

With the basis points B, the model is :math:`f(x) = \sum_{b \in B} \beta_b k(x_b, x) + c`. Its coefficients
solve

.. math:: \min_{\beta, c}\; \tfrac12 \beta^\top K_{BB} \beta + C \sum_i w_i \log(1 + e^{-y_i f(x_i)})

over *all* training rows. Equal rows form one point. Its weight :math:`w_i` is the sum of their weights, and
its target :math:`t_i` is the fraction of this weight that belongs to the positive class. In the coordinates v
of :class:`~.basis.Basis` the penalty is :math:`\tfrac12\|v\|^2`, and Newton's system is well conditioned.

With more than two classes, every class k has its own function :math:`f_k` with coordinates :math:`v_k` on
the same basis points. The penalty is the sum over the classes, and the loss is the cross-entropy of the
softmax of the outputs :math:`f_k(x)`. Coordinates and outputs are then matrices with one column for each
class. At the solution, the functions of all classes sum to zero: a non-zero sum would increase the penalty
without changing the probabilities.

Several problems, such as those of cross-validation, can be solved simultaneously. Their coordinates have a
third axis, and they share the preconditioners and the products with the features.

Computing a Newton matrix costs as much as tens of products with it. Newton's equations are therefore solved
by conjugate gradients, preconditioned by the matrix of an earlier step or of a neighbouring C. The matrix is
recomputed when conjugate gradients need too many products. A Newton matrix of all classes together would have
millions of entries. Instead, each class has a preconditioner computed from its own information
(:mod:`~.labels`), averaged over the problems. With more than two classes, conjugate gradients use float32,
because they only need to reduce the residual by a small factor. Gradients, outputs and the line search use
float64.
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

    # Maximum number of Newton steps. About ten are usual; rounding errors of huge kernel values may prevent
    # convergence.
    max_steps: int = 200
    reduction: float = 0.03  # factor by which conjugate gradients reduce the residual with two classes, ...
    reduction_coupled: float = 0.2  # ... and with more classes
    dropped: float = 1e-2  # fraction of the information that preconditioners omit
    dropped_at_end: float = 1e-3  # fraction of the information that the matrix at the solution omits
    # With more than two classes, the preconditioners ignore the coupling of the classes. A Newton step may
    # therefore take this number of additional products.
    coupled: int = 60
    coupled_enough: int = 5  # minimum number of products before matrices of several classes are recomputed
    # Each class has its own preconditioner if all of them together cost at most as much as this number of
    # products.
    worth: int = 50
    few_rows: int = 2000  # up to this number of rows, products stay in the processor cache and are cheap
    armijo: float = 1e-4  # constant of the sufficient decrease condition (Armijo) in the line search
    least_step: float = 1e-10  # smallest step length of the line search


SETTINGS = NewtonSettings()


@dataclass(frozen=True, eq=False)
class LikelihoodFit:
    """A model fitted by penalised maximum likelihood."""

    v: np.ndarray  # coordinates in the basis, the intercept last; one column for each of several classes
    f: np.ndarray  # outputs of all training points
    C: float
    # Second derivatives of the negative log-likelihood with respect to v. With more than two classes, they
    # use the mean information of the classes, and are None unless ``fresh`` was set in ``fit_likelihood``.
    curvature: Any = None
    factor: Any = None  # lower Cholesky factor of the Newton matrix, the sum of curvature and ridge


def embedded(v: np.ndarray, basis: Basis) -> np.ndarray:
    """Return the coordinates of the same function in a larger basis.

    The first points of ``basis`` are the points of the smaller basis to which v refers.
    """
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
    """Return the model that minimises ``|v|^2 / (2C)`` plus the weighted cross-entropy of the labels.

    The minimum over the coordinates v is found by damped Newton steps.

    Parameters
    ----------
    start : array, optional
        Initial coordinates; zero by default.
    near : array, optional
        Outputs near the outputs of the solution, for example from another basis. A Newton step from them
        gives the initial coordinates, and ``start`` is ignored.
    curvature : array, optional
        Second derivatives of the negative log-likelihood near the solution, which serve as a preconditioner.
    fresh : bool
        Whether the returned curvature is evaluated at the solution. Otherwise it may come from an earlier
        iterate.
    tol : float
        Stop after a step whose squared Newton decrement is at most ``tol`` times the objective.
    """
    ridge, outputs = ridge_of(basis, C), labels.target.shape[1:]
    penalty = ridge.reshape(-1, *(1 for _ in outputs))

    def objective(v: np.ndarray, f: np.ndarray) -> tuple[float, LossAt | SoftmaxLossAt]:
        here = labels.at(f)
        return 0.5 * float(np.vdot(penalty * v, v)) + here.value, here

    def preconditioner(information: np.ndarray) -> tuple[Any, Any]:
        if labels.several:
            return None, inverse_factors(basis, information, C, int(np.prod(outputs)))
        return newton_matrix(information)

    def newton_matrix(information: np.ndarray) -> tuple[Any, Any]:
        curvature = basis.curvature(information.astype(basis.precision_at(C), copy=False))
        return curvature, newton_factor(curvature, ridge)

    factor = None if curvature is None or labels.several else newton_factor(curvature, ridge)
    v = np.zeros((basis.size + 1, *outputs)) if start is None else start
    if near is not None:
        there = labels.at(near)
        information = there.information
        if near.ndim == 2:  # a single matrix with the mean information of the classes suffices for the start
            information = information.mean(axis=1, keepdims=True)
        information = _most_of(information, SETTINGS.dropped)
        curvature, factor = preconditioner(information)
        if near.ndim == 3:
            information = there.by_output
        v = solve_newton(factor, basis.project(information * near - there.slope))
    f = basis.outputs(v)
    (current, here), products, dropped = objective(v, f), 0, SETTINGS.dropped
    # The matrix is recomputed after ``enough`` products. This number is larger if products are cheap and a
    # matrix at the solution will be computed in any case.
    enough = most = 3 + basis.size // (10 if fresh and len(f) <= SETTINGS.few_rows else 30)
    if labels.several:  # conjugate gradients must also account for the coupling of the classes
        enough = SETTINGS.coupled_enough + basis.size * outputs[-1] // (2 * int(np.prod(outputs)))
        most = enough + SETTINGS.coupled
    for _ in range(SETTINGS.max_steps):
        gradient = basis.project(here.slope) + penalty * v
        new = factor is None
        if factor is None:
            curvature, factor = preconditioner(_most_of(here.information, dropped))
        # If rows are far on the wrong side of the decision boundary, the curvature vanishes while the
        # slopes are large. The intercept has no ridge, so a fraction of the slopes bounds its step by 1e10.
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
            if new and taken >= most:  # the omitted information matters, for example with huge kernel values
                dropped = 0.0
            factor, products = None, 0
    if labels.several and not fresh:
        return LikelihoodFit(v, f, C)
    if fresh or factor is None:
        information = here.information.mean(axis=1) if labels.several else here.information
        curvature, factor = newton_matrix(_most_of(information, SETTINGS.dropped_at_end))
    return LikelihoodFit(v, f, C, curvature, factor)


def ridge_of(basis: Basis, C: float) -> np.ndarray:
    """Return the second derivatives of the penalty: 1/C for each coordinate and zero for the intercept."""
    return np.append(np.full(basis.size, 1.0 / C), 0.0)


def factors_at(basis: Basis, labels: Labels, f: np.ndarray, C: float) -> np.ndarray:
    """Return lower Cholesky factors of the Newton matrices at the outputs f, one factor for each output."""
    ridge, by_output = ridge_of(basis, C), labels.at(f).by_output
    matrices = (basis.curvature(_most_of(column, SETTINGS.dropped_at_end)) for column in by_output.T)
    return np.stack([newton_factor(matrix, ridge) for matrix in matrices])


def inverse_factors(basis: Basis, information: np.ndarray, C: float, n_columns: int) -> np.ndarray:
    """Return inverses of the Cholesky factors of the Newton matrices of all classes.

    The result has the shape (n_classes, size + 1, size + 1). If these matrices would cost too much, a single
    matrix with the mean information is used for all classes. ``n_columns`` is the number of outputs of a
    point, over all classes and problems. The product of the transpose of such an inverse and the inverse is
    positive semidefinite in spite of rounding errors. A rounded inverse of the Newton matrix itself may be
    indefinite.
    """
    n, n_classes = information.shape
    cost = basis.size * (np.count_nonzero(information) / n_classes + basis.size)
    if cost > 2 * SETTINGS.worth * n * n_columns / n_classes:
        information = information.mean(axis=1, keepdims=True)
    ridge, information = ridge_of(basis, C), information.astype(basis.precision_at(C), copy=False)
    inverses: np.ndarray = np.empty((information.shape[1], len(ridge), len(ridge)), dtype=basis.precision)
    for inverse, column in zip(inverses, information.T, strict=True):
        upper, _ = dtrtri(newton_factor(basis.curvature(column), ridge).T, lower=0)
        inverse[...] = upper.T
    return inverses


def _most_of(information: np.ndarray, dropped: float) -> np.ndarray:
    """Return the information with its smallest values, which add up to the fraction ``dropped``, set to zero.

    A matrix has one column for each class. If the classes are well separated, few non-zero values remain, and
    sums over the rows become cheap. The resulting Newton matrix is used only where errors of a few percent do
    not matter: as a preconditioner, and for leverages and variances.
    """
    if information.ndim > 1:
        return np.column_stack([_most_of(column, dropped) for column in information.T])
    ordered = np.sort(information)
    total = np.cumsum(ordered)
    return np.where(information >= ordered[np.searchsorted(total, dropped * total[-1])], information, 0.0)


def solve_newton(factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``H^-1 b`` for the Newton matrix H with the given Cholesky factor.

    With more than two classes, ``factor`` contains the inverses from :func:`inverse_factors`, and the result
    is centred: the classes sum to zero, as they do at the solution.
    """
    if b.ndim == 1:
        return solve_symmetric(factor, b)
    by_class = np.ascontiguousarray(b.reshape(len(b), -1, b.shape[-1]).transpose(2, 0, 1), dtype=factor.dtype)
    solved = (factor.transpose(0, 2, 1) @ (factor @ by_class)).transpose(1, 2, 0)
    solved = solved - solved.mean(axis=-1, keepdims=True)
    return solved.reshape(b.shape).astype(b.dtype, copy=False)


def newton_factor(curvature: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of the Newton matrix, ``curvature`` plus the diagonal ``ridge``.

    If the ridge is below the rounding errors, a multiple of the trace is added to the diagonal.
    """
    H = np.array(curvature.T, order="F")  # a copy; the matrix is symmetric
    diagonal = H.reshape(-1, order="F")[:: len(H) + 1]
    diagonal += ridge
    # The intercept is undetermined if all probabilities are 0 or 1.
    diagonal[-1] += 1e-12 * (1 + diagonal[-1])
    trace = diagonal.sum()
    for fraction in (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4):
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
    """Return the solution of Newton's equations, computed by conjugate gradients.

    The results are the step of the coordinates, the resulting change of the outputs, the number of products,
    and, with more than two classes, an estimate of the remaining squared Newton decrement. Preconditioners of
    an earlier step may lack the information of rows whose outputs have changed since. Conjugate gradients
    then stop too early, and the remaining decrement is not negligible.
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
        along, product = basis.product(here.information, direction)  # kernel columns are not kept
        product += ridge * direction
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
    """Return the results of :func:`_newton_step` with more than two classes, usually computed in float32."""
    unit = max(float(np.abs(gradient).max()), np.finfo(float).tiny)
    residual: np.ndarray = (-gradient / unit).astype(basis.precision)
    ridge = ridge.astype(basis.precision)
    here = here.rounded_to(basis.precision)
    step = np.zeros_like(residual)
    direction = z = solve_newton(inverses, residual)
    size = first = float(np.vdot(residual, z))
    products = 0
    while products < most_products:
        products += 1
        product = basis.project(here.times(basis.outputs(direction))) + ridge * direction
        length = size / max(float(np.vdot(direction, product)), np.finfo(float).tiny)
        step += length * direction
        residual -= length * product
        z = solve_newton(inverses, residual)
        last, size = size, float(np.vdot(residual, z))
        if size <= SETTINGS.reduction_coupled**2 * first:
            break
        direction = z + (size / last) * direction
    whole = unit * step.astype(np.float64)
    whole -= whole.mean(axis=-1, keepdims=True)
    return whole, basis.outputs(whole), products, unit**2 * size
