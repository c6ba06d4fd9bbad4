"""Where the points of a compact model start: cluster centres of the classes.

Growing the model of half the size by forward selection was tried as well: on twelve benchmark sets it had a
worse log-loss in the mean, with as many points (the old points are where the smaller model wanted them).
"""

from __future__ import annotations

import numpy as np

from .objective import CompactModel
from .rows import LabelledRows

# Rows of a class that are clustered, and sweeps of Lloyd's algorithm; the points move later anyway.
_SAMPLE, _SWEEPS = 3000, 5


def base_rate(rows: LabelledRows) -> CompactModel:
    """The model without points: the logits of the classes' shares."""
    p = rows.X.shape[1]
    total = np.bincount(rows.label, rows.weight, minlength=rows.n_classes)
    # as a difference, because the share of a class of tiny weights may be zero as a double
    share = np.log(np.maximum(total, np.finfo(float).tiny)) - np.log(rows.weight.sum())
    intercept = share[1:] - share[:1] if rows.n_classes == 2 else share - share.mean()
    return CompactModel(np.zeros((0, p)), np.full(p, -np.log(max(p, 1))), intercept[:, None])


def started(rows: LabelledRows, n_points: int, log_gamma: np.ndarray) -> CompactModel:
    """A model of given widths whose points are cluster centres and whose coefficients are still zero.

    Points are shared evenly among the classes, as far as these have distinct rows; the first classes get one
    more.
    """
    metric = np.exp(0.5 * log_gamma)
    own = [np.flatnonzero(rows.label == label) for label in range(rows.n_classes)]
    counts = _shares(n_points, np.array([len(part) for part in own]))
    centres = [
        cluster_centres(rows.X[part[:_SAMPLE]] * metric, rows.weight[part[:_SAMPLE]], count) / metric
        for part, count in zip(own, counts, strict=True)
        if count
    ]
    points = np.ascontiguousarray(np.vstack(centres))
    intercept = base_rate(rows).coef
    coef = np.hstack([np.zeros((len(intercept), len(points))), intercept])
    return CompactModel(points, log_gamma, coef)


def _shares(n_points: int, available: np.ndarray) -> np.ndarray:
    """How many points each class starts with."""
    shares = np.zeros_like(available)
    while (left := min(n_points, int(available.sum())) - int(shares.sum())) > 0:
        open_ = np.flatnonzero(shares < available)
        shares[open_] += left // len(open_)
        shares[open_[: left % len(open_)]] += 1
        shares = np.minimum(shares, available)
    return shares


def cluster_centres(X: np.ndarray, weight: np.ndarray, n_clusters: int) -> np.ndarray:
    """Centres of clusters by Lloyd's algorithm from k-means++ draws (Arthur and Vassilvitskii 2007)."""
    X = np.asarray(X, dtype=np.float64)
    if n_clusters == 1:
        return (weight @ X / weight.sum())[None]
    rng = np.random.default_rng(n_clusters)
    norm = np.einsum("ij,ij->i", X, X)
    chosen = [0]  # rows are in random order
    distance = np.full(len(X), np.inf)
    for draw in rng.random(n_clusters - 1):
        centre = X[chosen[-1]]
        distance = np.minimum(distance, np.maximum(norm - 2 * X @ centre + centre @ centre, 0.0))
        mass = np.cumsum(weight * distance)
        if mass[-1] <= 0:  # all rows are centres already
            break
        drawn = np.searchsorted(mass, draw * mass[-1], side="right")
        chosen.append(
            int(min(drawn, np.searchsorted(mass, mass[-1])))
        )  # the product may round up to the whole
    centres = X[chosen]
    rows = np.arange(len(X))
    for _ in range(_SWEEPS):
        nearest = np.argmin((centres**2).sum(axis=1) - 2 * X @ centres.T, axis=1)
        member = np.zeros((len(centres), len(X)))
        member[nearest, rows] = weight
        mass = member.sum(axis=1)
        moved = mass > 0
        centres[moved] = (member @ X)[moved] / mass[moved, None]
    return centres
