"""From decision values to logits of probabilities: the link of the margin loss, and Platt's sigmoid."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_expit, logsumexp
from sklearn.linear_model import LogisticRegression

from ..data import row_keys
from ..dual.binary import BinarySolver
from ..dual.problem import DualProblem
from ..dual.solver import Solution


def link(f: np.ndarray, lam: float | np.ndarray) -> np.ndarray:
    r"""Logit of the probability that belongs to f under the loss ``log(1 + exp(lam - y f))``.

    The loss is proper composite with :math:`\eta = s(\lambda+f) / (s(\lambda+f) + s(\lambda-f))`, s the
    sigmoid; its logit is :math:`\log(1 + e^{f-\lambda}) - \log(1 + e^{-f-\lambda})`.

    Well inside the margin it is flat (to rounding: zero); a trace of f itself keeps the order there.

    >>> round(float(link(np.array(0.3), 0.0)), 6)
    0.3
    """
    return np.logaddexp(0, f - lam) - np.logaddexp(0, -f - lam) + 1e-12 * f


def log_probabilities(outputs: np.ndarray) -> np.ndarray:
    """Logarithms of class probabilities from the outputs (n, n_outputs) of one-vs-rest problems.

    One output is the logit of the second of two classes. With several, the probabilities sigmoid(f_k) are
    made to sum to one.

    >>> np.exp(log_probabilities(np.array([[0.0]]))).tolist()
    [[0.5, 0.5]]
    """
    if outputs.shape[1] == 1:
        return log_expit(np.hstack([-outputs, outputs]))
    log_positive = log_expit(outputs)
    return log_positive - logsumexp(log_positive, axis=1, keepdims=True)


def platt(y: np.ndarray, f: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Slope and intercept of Platt's sigmoid for values f that were not fitted to their own labels.

    Targets are shrunk to (n+1)/(n+2) and 1/(n+2), n the weight of a class (Platt 2000), which
    keeps the slope finite.
    """
    positive = y > 0
    n = [weight[~positive].sum(), weight[positive].sum()]
    target = np.where(positive, (n[1] + 1) / (n[1] + 2), 1 / (n[0] + 2))
    scale = max(float(np.abs(f).max()), np.finfo(float).tiny)
    rows = np.tile(f / scale, 2)[:, None]
    labels = np.repeat([1, 0], len(f))
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12)
    model.fit(rows, labels, sample_weight=np.concatenate([weight * target, weight * (1 - target)]))
    return float(model.coef_[0, 0] / scale), float(model.intercept_[0])


def content_folds(X: Any, y: np.ndarray, most: int) -> np.ndarray | None:
    """A fold number for each row, stratified by label, that depends only on what the row holds.

    Equal rows share a fold: none is predicted by a model that has seen its twin, and repeating a
    row is the same as giving it more weight. As many folds as the smaller class has distinct rows,
    at most ``most``; None if that is fewer than two.
    """
    keys, rank = row_keys(X), np.empty(len(y), dtype=np.intp)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        rank[rows] = np.unique(keys[rows], return_inverse=True)[1]
        most = min(most, int(rank[rows].max()) + 1)
    return rank % most if most >= 2 else None


def cross_fitted(
    solver: BinarySolver, problem: DualProblem, solution: Solution, n_folds: int = 5
) -> np.ndarray | None:
    """f of every row by a model fitted without its fold; None if there are too few distinct rows for two.

    Each fit starts from ``solution``, that of all rows.
    """
    data = solver.data
    fold = content_folds(data.X, problem.y, n_folds)
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
