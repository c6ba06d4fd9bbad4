"""A data set similar to Synth in the paper, and the model that four figures of the paper show.

Synth has 99 points with two features, in overlapping classes of 50 and 49 points. It is not published, so
this module draws a similar set. The seed was chosen such that the numbers of selected points are close to
those of the paper: 90 of 99 points at nu = 0 (paper: 92), 30 at nu = 625 (37), and 20 at nu = 1100 (20).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparseklr import SKLR

C = 60.0
SEED = 22
COLORS = np.array(["tab:blue", "tab:red"])
MARKERS = ("x", "D")


def make_synth(seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """Return 99 random points from two normal distributions whose means are 3.4 standard deviations apart."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(1.2, 1.0, (50, 2)), rng.normal(-1.2, 1.0, (49, 2))])
    return X, np.repeat([1, 0], [50, 49])


def sparse_klr(nu: float) -> SKLR:
    """Return the fitted model of the paper: linear kernel, C = 60, dual variables up to 1e-5 treated as zero.

    With nu = 0, the loss has no margin.
    """
    model = SKLR(C=C, kernel="linear", bound=1e-5, tol=1e-6, calibration=None)
    return model.set_params(nu=nu) if nu > 0 else model.set_params(lam=0)


def weights(model: Any) -> np.ndarray:
    """Return the weights w of the linear decision function w.x + b."""
    return (model.dual_coef_ @ model.support_vectors_)[0]


def draw_points(ax: Any, X: np.ndarray, y: np.ndarray, support: np.ndarray) -> None:
    """Draw the selected points in bold colours, and all other points in faint colours."""
    selected = np.isin(np.arange(len(y)), support)
    for label in (0, 1):
        for bold in (False, True):
            points = X[(y == label) & (selected == bold)]
            style = {"s": 38, "alpha": 1.0} if bold else {"s": 14, "alpha": 0.35}
            ax.scatter(*points.T, color=COLORS[label], marker=MARKERS[label], **style)


def draw_boundary(ax: Any, model: Any, X: np.ndarray, **style: Any) -> None:
    """Draw the line w.x + b = 0 without changing the axes."""
    w, b = weights(model), float(model.intercept_[0])
    limits = np.array([X.min(axis=0) - 0.4, X.max(axis=0) + 0.4])
    ax.axline(-b * w / (w @ w), slope=-w[0] / w[1], **style)
    ax.set(xlim=limits[:, 0], ylim=limits[:, 1])
