r"""Honest probabilities at the sparse model's size: refit the likelihood on the selected points.

The margin loss of S-KLR finds the points that matter and throws away what a probability needs. So
the points are kept and the coefficients are those of the plain penalised likelihood on all rows.

1. Strength: C is chosen by approximate leave-one-out on a basis picked *without* labels, and frozen.
   (On a basis chosen by labels the leave-one-out loss is badly optimistic.)
2. Refit on the selected points; a pivoted Cholesky drops what is numerically dependent.
3. Pruning: backward elimination (optimal brain surgeon; Hassibi and Stork 1993) orders the points;
   the smallest set is kept whose mean Kullback-Leibler distance to the unpruned model is below
   ``c`` standard errors of the leave-one-out loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import expit

from ..data import TrainingSet
from .likelihood import Fit, Span, cross_entropies, fit_likelihood, independent, leave_one_out

# Up to this many rows the label-free basis is all of them; beyond, so many are drawn.
LABEL_FREE_POINTS = 300
ALL_POINTS = 800
# More points than this are numerically redundant for any smooth kernel we met.
MAX_POINTS = 700
C_RANGE = 1e-4, 1e5  # beyond, the model is constant, or no regularisation is left


@dataclass(frozen=True, eq=False)
class Refit:
    """A refitted binary model on a subset of the training rows."""

    points: np.ndarray  # row indices
    coef: np.ndarray
    intercept: float
    C: float
    loo: np.ndarray  # leave-one-out decision values at the chosen C
    loo_log_loss: float


def random_pivots(data: TrainingSet, rows: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """``size`` of the given rows by randomly pivoted Cholesky, in blocks.

    A row is drawn with probability proportional to what the rows drawn before leave of its kernel
    function (Chen, Epperly, Tropp and Webber, 2025): spread out, but not after outliers.
    """
    if len(rows) <= size:
        return rows
    kernel, X = data.kernel, data.X

    def columns(points: np.ndarray) -> np.ndarray:
        block = kernel.matrix(X[rows], points if kernel.precomputed else X[points])
        return np.asarray(block, dtype=np.float64)

    residual = _diagonal(data, rows)
    floor = 1e-6 * residual.max()
    factor = np.empty((len(rows), size), order="F")
    chosen: list[int] = []
    while len(chosen) < size and residual.max() > floor:
        m = len(chosen)
        draw = np.unique(rng.choice(len(rows), size=min(64, size - m), p=residual / residual.sum()))
        block = columns(rows[draw]) - factor[:, :m] @ factor[draw, :m].T
        # of the block, what is not nearly in the span of the rest of it
        kept, L = independent(block[draw], tolerance=1e-3)
        new = solve_triangular(L, block[:, kept].T, lower=True, check_finite=False).T
        factor[:, m : m + len(kept)] = new
        chosen.extend(draw[kept].tolist())
        residual = np.maximum(residual - np.einsum("ij,ij->i", new, new), 0.0)
        residual[chosen] = 0.0
    return rows[np.sort(chosen)]


def _diagonal(data: TrainingSet, rows: np.ndarray) -> np.ndarray:
    if data.kernel.name in ("rbf", "laplacian"):
        return np.ones(len(rows))
    if data.kernel.precomputed:
        return data.X[rows, rows].astype(np.float64)
    blocks = (data.X[rows[start : start + 64]] for start in range(0, len(rows), 64))
    return np.concatenate([data.kernel.matrix(block, block).diagonal() for block in blocks]).astype(
        np.float64
    )


def choose_C(span: Span, target: np.ndarray, weight: np.ndarray) -> tuple[Fit, np.ndarray]:
    """The fit of least leave-one-out log-loss over decades of C, and its leave-one-out values.

    Climbs from C = 10 in either direction while the loss falls; a clear failure ends it, or two in a
    row. The approximation flatters large C, so a larger one must win by half a standard error of the
    paired difference.
    """

    def attempt(C: float, start: np.ndarray | None) -> tuple[np.ndarray, Fit, np.ndarray]:
        fit = fit_likelihood(span, target, weight, C, start, tol=1e-5)
        loo = leave_one_out(span, target, fit)
        return cross_entropies(target, loo), fit, loo

    def better(new: np.ndarray, old: np.ndarray, by: float) -> bool:
        gain = np.average(old - new, weights=weight)
        error = np.sqrt(np.average((old - new - gain) ** 2, weights=weight) / weight.sum())
        return bool(gain > by * error)

    best = first = attempt(10.0, None)
    for direction, by in ((10.0, 0.5), (0.1, -0.5)):
        last, failures = first, 0
        while failures < 2 and C_RANGE[0] < last[1].C < C_RANGE[1]:
            last = attempt(last[1].C * direction, last[1].v)
            if better(last[0], best[0], by):
                best, failures = last, 0
            else:
                failures += 2 if better(best[0], last[0], 1.0) else 1
        if best is not first:  # the loss falls in this direction: no need to look into the other
            break
    return best[1], best[2]


def elimination_order(span: Span, fit: Fit) -> np.ndarray:
    """Positions in ``span.points``, most expendable first, by backward elimination."""
    m = span.size
    H = np.diag(np.append(np.full(m, 10.0 / fit.C), 0.0))
    information = fit.information
    for rows, A in span.blocks():
        scaled = A * np.sqrt(information[rows])[:, None]
        H += scaled.T @ scaled
    H[-1, -1] += 1e-12 * (1 + H[-1, -1])
    # covariance of (beta, c): T' H^-1 T with T = diag(L^-1, 1)
    T = np.eye(m + 1)
    T[:m, :m] = solve_triangular(span.L, np.eye(m), lower=True, check_finite=False)
    half = solve_triangular(cholesky(H, lower=True, check_finite=False), T, lower=True, check_finite=False)
    return _eliminate(half.T @ half, np.append(span.coefficients(fit.v), fit.v[-1]))


def _eliminate(sigma: np.ndarray, beta: np.ndarray, block: int = 64) -> np.ndarray:
    """Order of elimination by ``beta_b^2 / sigma_bb``; the last entry, the intercept, stays.

    Taking b away moves beta by ``-sigma[:, b] beta_b / sigma_bb`` and sigma by the outer product of that
    column: a Cholesky factorisation with this pivot rule, the products put off to blocks.
    """
    left, order = np.arange(len(beta) - 1), []
    while n := len(left):
        size = min(block, n)
        V, variance, gone = np.empty((n + 1, size)), sigma.diagonal().copy(), np.zeros(n, dtype=bool)
        for k in range(size):
            saliency = beta[:n] ** 2 / np.maximum(variance[:n], 1e-300)
            b = int(np.argmin(np.where(gone, np.inf, saliency)))
            column = sigma[:, b] - V[:, :k] @ V[b, :k]
            scale = max(float(column[b]), 1e-300)
            beta = beta - column * (beta[b] / scale)
            V[:, k] = column / np.sqrt(scale)
            variance -= V[:, k] ** 2
            gone[b] = True
            order.append(left[b])
        keep = np.append(np.flatnonzero(~gone), n)
        sigma = sigma[np.ix_(keep, keep)] - V[keep] @ V[keep].T
        beta, left = beta[keep], left[~gone]
    return np.array(order, dtype=np.intp)


def prune(
    data: TrainingSet, span: Span, fit: Fit, target: np.ndarray, allowed: float, n_jobs: int | None
) -> tuple[Span, Fit]:
    """The smallest nested subset within ``allowed`` mean Kullback-Leibler distance of the fit."""
    ranking = span.points[elimination_order(span, fit)[::-1]]  # most important first
    p = expit(fit.f)
    entropy = float(np.average(cross_entropies(p, fit.f), weights=fit.weight))

    def attempt(size: int) -> tuple[Span, Fit, bool]:
        part = Span(data, ranking[:size], n_jobs)
        refitted = fit_likelihood(part, target, fit.weight, fit.C, near=fit.f, tol=1e-6)
        distance = float(np.average(cross_entropies(p, refitted.f), weights=fit.weight)) - entropy
        return part, refitted, distance <= allowed

    # sizes 5, 10, 20, ... until one is near enough, then halve the (logarithmic) interval
    found = span, fit
    low, high = 0, min(5, span.size)
    while high < span.size:
        part, refitted, near = attempt(high)
        if near:
            found = part, refitted
            break
        low, high = high, min(2 * high, span.size)
    while high > max(1.1 * low, low + 1):
        middle = int(np.clip(round(np.sqrt(max(low, 1) * high)), low + 1, high - 1))
        part, refitted, near = attempt(middle)
        if near:
            found, high = (part, refitted), middle
        else:
            low = middle
    return found


def label_free_span(data: TrainingSet, rng: np.random.Generator, n_jobs: int | None = None) -> Span:
    """The basis on which C is chosen: all rows, or a few hundred drawn without looking at labels."""
    n = len(data.codes)
    size = ALL_POINTS if n <= ALL_POINTS else LABEL_FREE_POINTS
    return Span(data, random_pivots(data, np.arange(n), size, rng), n_jobs)


def refit(
    data: TrainingSet,
    y: np.ndarray,
    support: np.ndarray,
    label_free: Span,
    *,
    C: float | str = "alo",
    prune_within: float = 0.05,
    rng: np.random.Generator,
    n_jobs: int | None = None,
) -> Refit:
    """Refit one binary problem (labels -1/+1) on its support; ``prune_within`` 0 keeps all points."""
    weight, target = data.weight, (y > 0).astype(np.float64)
    if C == "alo":
        reference, loo = choose_C(label_free, target, weight)
    else:
        reference = fit_likelihood(label_free, target, weight, float(C))
        loo = leave_one_out(label_free, target, reference)
    losses = cross_entropies(target, loo)
    loss = float(np.average(losses, weights=weight))
    error = float(np.sqrt(np.average((losses - loss) ** 2, weights=weight) / weight.sum()))

    span = Span(data, random_pivots(data, support, MAX_POINTS, rng), n_jobs)
    # Fitting the pruned model to the unpruned one's probabilities instead of the labels, or to a mix
    # of both, was tried: the same log-loss within noise on the five small sets.
    fit = fit_likelihood(span, target, weight, reference.C, near=reference.f, tol=1e-6)
    if prune_within > 0:
        span, fit = prune(data, span, fit, target, prune_within * error, n_jobs)
    fit = fit_likelihood(span, target, weight, reference.C, fit.v)  # to the last digit
    return Refit(span.points, span.coefficients(fit.v), float(fit.v[-1]), reference.C, loo, loss)
