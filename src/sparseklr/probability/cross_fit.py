"""Decision values that were not fitted to their own labels: what Platt's sigmoid is fitted to."""

from __future__ import annotations

import numpy as np

from .._warn import warn
from ..data import DistinctPoints
from ..dual.binary import BinarySolutions, BinarySolver
from ..dual.problem import DualProblem
from ..dual.solver import Solution
from ..kernels import rounded
from .calibration import platt

# As many as scikit-learn's CalibratedClassifierCV has by default.
_FOLDS = 5


def folds_along(points: DistinctPoints, values: np.ndarray, y: np.ndarray, most: int) -> np.ndarray | None:
    """A fold number for each row: the distinct points of a label are dealt out in the order of their values.

    Equal rows of a label share a fold: none is predicted by a model that has seen its twin, and repeating a
    row is the same as giving it more weight. As many folds as the smaller class has distinct points, at most
    ``most``; None if that is fewer than two.
    """
    place = np.empty(len(points), dtype=np.intp)
    place[np.lexsort((points.first, rounded(values[points.first], 24)))] = np.arange(len(points))
    rank = np.empty(len(y), dtype=np.intp)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        rank[rows] = np.unique(place[points.point_of_row[rows]], return_inverse=True)[1]
        most = min(most, int(rank[rows].max()) + 1)
    return rank % most if most >= 2 else None


def cross_fitted(
    solver: BinarySolver, points: DistinctPoints, problem: DualProblem, solution: Solution
) -> np.ndarray | None:
    """f of every row by a model fitted without its fold; None if there are too few distinct rows for two.

    Each fit starts from ``solution``, that of all rows. Folds are dealt out along the direction between the
    means of the classes in feature space, ``K @ (box * y)``: it is the same, to rounding, for every form of
    the kernel and for every order of the rows.
    """
    data = solver.data
    fold = folds_along(points, solver.product(problem.box * problem.y), problem.y, _FOLDS)
    if fold is None:
        return None
    f = np.empty(len(problem.y))
    for k in np.unique(fold):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        part = solver.part(train)
        inner = DualProblem(problem.y[train], problem.box[train], problem.bound[train], problem.lam)
        fitted = part.solve(inner, solution.alpha[train], "calibration")
        kept = np.flatnonzero(fitted.alpha)
        coef = (fitted.alpha * inner.y)[None, kept]
        queries = data.X[np.ix_(test, train[kept])] if data.kernel.precomputed else data.X[test]
        sums = data.kernel.sum(queries, part.data.X[kept], coef, n_jobs=solver.n_jobs)
        f[test] = sums[:, 0] + fitted.intercept
    return f


def fit_sigmoids(solver: BinarySolver, solved: BinarySolutions) -> np.ndarray:
    """Slope and intercept of Platt's sigmoid of cross-fitted values, one row for each binary problem."""
    points, sigmoids = DistinctPoints.of(solver.data), []
    for problem, solution in zip(solved.problems, solved.solutions, strict=True):
        f = cross_fitted(solver, points, problem, solution)
        if f is None:
            warn(
                "calibration='sigmoid': a class has fewer than two distinct samples, so that nothing can "
                "be fitted across folds; the sigmoid is fitted to the training values. Prefer 'refit'.",
            )
            f = solution.decision
        sigmoids.append(platt(problem.y, f, solver.data.weight))
    return np.array(sigmoids)
