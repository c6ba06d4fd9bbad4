"""Probabilities from the decision values of S-KLR: the link of its margin loss, and Platt's sigmoid.

The link follows from the loss and needs no data. Platt's sigmoid is fitted to cross-fitted decision values:
the value of each training row comes from a model that was fitted without it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import log_expit, log_softmax
from sklearn.linear_model import LogisticRegression

from .._utils.messages import warn
from ..dual.one_vs_rest import BinarySolutions, BinarySolver
from ..dual.problem import DualProblem
from ..dual.smo import Solution
from ..kernels import rounded
from ..samples import DistinctPoints


def link(f: np.ndarray, lam: float | np.ndarray) -> np.ndarray:
    r"""Return the logit of the positive class that corresponds to the decision value f under the margin loss.

    The loss ``log(1 + exp(lam - y f))`` is proper composite: its expected value is minimal at f if the
    positive class has the probability :math:`\eta = s(\lambda+f) / (s(\lambda+f) + s(\lambda-f))`, where s is
    the sigmoid. The logit of :math:`\eta` is :math:`\log(1 + e^{f-\lambda}) - \log(1 + e^{-f-\lambda})`. If
    :math:`|f|` is much smaller than :math:`\lambda`, this difference rounds to zero. A small multiple of f is
    therefore added, which preserves the order of the decision values.

    >>> round(float(link(np.array(0.3), 0.0)), 6)
    0.3
    """
    return np.logaddexp(0, f - lam) - np.logaddexp(0, -f - lam) + 1e-12 * f


Link = Literal["softmax", "one-vs-rest"]
SOFTMAX: Link = "softmax"
ONE_VS_REST: Link = "one-vs-rest"


def log_probabilities(outputs: np.ndarray, link: Link) -> np.ndarray:
    """Return the logarithms (n, n_classes) of the class probabilities, given the outputs (n, n_outputs).

    A single output is the logit of the second class. Several outputs f_k give probabilities proportional to
    exp(f_k) with the link "softmax", and to sigmoid(f_k) with the link "one-vs-rest".

    >>> np.exp(log_probabilities(np.array([[0.0]]), SOFTMAX)).tolist()
    [[0.5, 0.5]]
    """
    if outputs.shape[1] == 1:
        return log_expit(np.hstack([-outputs, outputs]))
    return np.asarray(log_softmax(outputs if link == SOFTMAX else log_expit(outputs), axis=1))


def platt(y: np.ndarray, f: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Return slope and intercept of Platt's sigmoid for cross-fitted decision values f and labels y = ±1.

    The target of a row is (n+1)/(n+2) for its own class and 1/(n+2) for the other class, where n is the total
    weight of its own class (Platt 2000). These targets keep the slope finite.
    """
    positive = y > 0
    n = [weight[~positive].sum(), weight[positive].sum()]
    shrunk = [1 / (total + 2) for total in n]
    full = [(total + 1) / (total + 2) for total in n]
    ones, zeros = np.where(positive, full[1], shrunk[0]), np.where(positive, shrunk[1], full[0])
    # Constant decision values carry no information about the classes; other values are scaled to [-1, 1].
    centre, spread = (f.max() + f.min()) / 2, (f.max() - f.min()) / 2
    if spread <= max(1e-10 * np.abs(f).max(), 1e-200):
        return 0.0, float(np.log(weight @ ones) - np.log(weight @ zeros))
    rows = np.tile((f - centre) / spread, 2)[:, None]
    labels = np.repeat([1, 0], len(f))
    # If nearly all weight is on one value, the data do not determine the slope; the penalty of 1e-14 does.
    relative = weight / weight.sum()
    model = LogisticRegression(C=1e14, solver="newton-cholesky", tol=1e-12)
    model.fit(rows, labels, sample_weight=np.concatenate([relative * ones, relative * zeros]))
    slope = model.coef_[0, 0] / spread
    return float(slope), float(model.intercept_[0] - slope * centre)


def folds_along(
    points: DistinctPoints, values: np.ndarray, y: np.ndarray, weight: np.ndarray, most: int
) -> np.ndarray | None:
    """Return the fold number of each row, or None if a class has fewer than two distinct points.

    Each distinct point belongs to the class with the largest weight at this point. Within each class, the
    points are sorted by ``values`` and assigned to the folds in turn. Equal rows share a fold, whatever their
    labels. No row is therefore predicted by a model trained on rows equal to it, and repeating a row is
    equivalent to increasing its weight. The number of folds is ``most``, or the number of distinct points of
    the smallest class if this number is smaller. The result is also None if a fold contains all rows of a
    class.
    """
    place = np.empty(len(points), dtype=np.intp)
    place[np.lexsort((points.first, rounded(values[points.first], 24)))] = np.arange(len(points))
    labels, codes = np.unique(y, return_inverse=True)
    total = np.zeros((len(points), len(labels)))
    np.add.at(total, (points.point_of_row, codes), weight)
    rank, owner = np.empty(len(points), dtype=np.intp), total.argmax(axis=1)
    for k in range(len(labels)):
        own = np.flatnonzero(owner == k)
        rank[own[np.argsort(place[own])]] = np.arange(len(own))
    most = min(most, int(np.count_nonzero(total, axis=0).min()))
    fold = rank[points.point_of_row] % most
    return fold if all(np.ptp(fold[codes == k]) for k in range(len(labels))) else None


def cross_fitted(
    solver: BinarySolver, points: DistinctPoints, problem: DualProblem, solution: Solution
) -> np.ndarray | None:
    """Return the decision value of every row from a model fitted without the fold of that row.

    The result is None if :func:`folds_along` finds no folds. The solver starts each model from
    ``solution``. Rows are assigned to folds in the order of ``K @ (box * y)``, their projection onto the
    difference of the class means in feature space. Up to rounding, this order does not change if the rows are
    shuffled or the kernel is precomputed.
    """
    data = solver.data
    fold = folds_along(points, solver.product(problem.box * problem.y), problem.y, data.weight, most=5)
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
    """Return an array (n_problems, 2) with the slope and the intercept of Platt's sigmoid for each problem.

    If cross-fitting is impossible, a warning is issued and the decision values of the training rows are used.
    """
    points, sigmoids = DistinctPoints.of(solver.data), []
    for problem, solution in zip(solved.problems, solved.solutions, strict=True):
        f = cross_fitted(solver, points, problem, solution)
        if f is None:
            warn(
                "calibration='sigmoid': a class has fewer than two distinct samples, so cross-fitting is "
                "impossible. The sigmoid is fitted to the decision values of the training rows instead. "
                "Consider using SparseKLR.",
            )
            f = solution.decision
        sigmoids.append(platt(problem.y, f, solver.data.weight))
    return np.array(sigmoids)
