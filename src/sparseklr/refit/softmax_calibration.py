"""Probabilities from the decision values of softmax S-KLR: the link of its loss, and vector scaling."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp

from .._utils.messages import warn
from ..dual.softmax import SoftmaxSolution, SoftmaxSolver
from ..samples import DistinctPoints
from .calibration import folds_along


def softmax_link(g: np.ndarray, lam: float) -> np.ndarray:
    r"""Return scores whose softmax gives the class probabilities, for decision values g (n, n_classes).

    ``lam`` is the margin :math:`\lambda` of the loss, which is proper composite. Let :math:`\pi` be the
    softmax of g. The expected loss is minimal at g if the class probabilities are
    :math:`\eta_k \propto \pi_k (1 - (1 - e^{-\lambda}) \pi_k)`. With two classes, the difference of the two
    scores is :func:`~sparseklr.refit.calibration.link` applied to the difference of the two decision values.

    >>> softmax_link(np.array([[0.0, 1.0, 2.0]]), 0.0).round(6).tolist()
    [[0.0, 1.0, 2.0]]
    """
    # The logarithm of e^(-lam) pi_k plus the sum of the other pi, without cancellation
    n_classes = g.shape[1]
    rest = np.stack([logsumexp(np.delete(g, k, axis=1), axis=1) for k in range(n_classes)], axis=1)
    # If lam is large, the scores of the two largest classes may round to the same number (see ``link``).
    return (1 + 1e-12) * g + np.logaddexp(rest, g - lam) - logsumexp(g, axis=1, keepdims=True)


def vector_scaling(codes: np.ndarray, g: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return an array (n_classes, 2) with a slope and an offset for each class, by maximum likelihood.

    The probabilities are the softmax of ``slope * g + offset`` (Guo et al., ICML 2017), where g are
    cross-fitted decision values. As in Platt's method for two classes, the target is (n+1)/(n+2) for the
    class of a row, where n is the total weight of that class. The remaining 1/(n+2) is divided equally among
    the other classes. These targets keep the slopes finite.
    """
    n, n_classes = g.shape
    total = np.bincount(codes, weight, minlength=n_classes)[codes]
    target = np.repeat(1 / ((total + 2) * (n_classes - 1))[:, None], n_classes, axis=1)
    target[np.arange(n), codes] = (total + 1) / (total + 2)
    spread = max(float(g.max() - g.min()), np.finfo(float).tiny)
    scaled, fraction = g / spread, (weight / weight.sum())[:, None]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        slope, offset = theta.reshape(2, n_classes)
        log_p = log_softmax(slope * scaled + offset, axis=1)
        residual = fraction * (np.exp(log_p) - target)
        gradient = np.concatenate([(residual * scaled).sum(axis=0), residual.sum(axis=0)])
        return -float((fraction * target * log_p).sum()), gradient

    options = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
    found = minimize(loss, np.zeros(2 * n_classes), jac=True, method="L-BFGS-B", options=options)
    slope, offset = found.x.reshape(2, n_classes)
    return np.column_stack([slope / spread, offset - offset.mean()])


def cross_fitted(solver: SoftmaxSolver, solution: SoftmaxSolution) -> np.ndarray | None:
    """Return the decision values of every row from a model fitted without the fold of that row.

    The result is None if :func:`folds_along` finds no folds. The solver starts each model from
    ``solution``. The rows of a class are assigned to folds in the order of their mean kernel value with the
    rows of the class.
    """
    data, problem = solver.data, solution.problem
    similarity = solver.product(problem.box * problem.own)[problem.codes, np.arange(len(problem.codes))]
    fold = folds_along(DistinctPoints.of(data), similarity, problem.codes, data.weight, most=5)
    if fold is None:
        return None
    g = np.empty((len(problem.codes), problem.n_classes))
    C = problem.box / data.weight  # equal up to rounding
    for k in np.unique(fold):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        part = solver.part(train)
        fitted = part.solve(part.problem(float(C[0]), problem.lam), solution.coef[:, train], "calibration")
        kept = fitted.support
        queries = data.X[np.ix_(test, train[kept])] if data.kernel.precomputed else data.X[test]
        sums = data.kernel.sum(queries, part.data.X[kept], fitted.coef[:, kept], n_jobs=solver.n_jobs)
        g[test] = sums + fitted.intercept
    return g


def fit_vector_scaling(solver: SoftmaxSolver, solution: SoftmaxSolution) -> np.ndarray:
    """Return the result of :func:`vector_scaling` for cross-fitted decision values.

    If cross-fitting is impossible, a warning is issued and the decision values of the training rows are used.
    """
    g = cross_fitted(solver, solution)
    if g is None:
        warn(
            "calibration='sigmoid': a class has fewer than two distinct samples, so cross-fitting is "
            "impossible. The calibration is fitted to the decision values of the training rows instead. "
            "Consider using SparseKLR.",
        )
        g = solution.decision
    return vector_scaling(solution.problem.codes, g, solver.data.weight)
