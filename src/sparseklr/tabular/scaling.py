"""The scale of numbers, on which kernel models depend more than on any other choice."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from ..estimators.sparse_klr import SparseKLR

SCALES = ("standard", "quantile", "squash")
LEAST_GAIN = 0.01  # of the log-loss, below which nothing but standardising is worth it


def make_scaler(scale: str, X: np.ndarray, sample_weight: Any = None) -> Any:
    """A scaler of the given name, fitted to X without holes."""
    if scale == "standard":
        return StandardScaler().fit(X, sample_weight=sample_weight)
    if scale == "quantile":
        n_quantiles = min(len(X), 200)  # a model file holds all of them
        return QuantileTransformer(n_quantiles=n_quantiles, output_distribution="normal", random_state=0).fit(
            X
        )
    from skrub import SquashingScaler

    return SquashingScaler().fit(X)


def choose_scale(
    X: np.ndarray,
    codes: np.ndarray,
    y: Any,
    sample_weight: Any = None,
    *,
    estimator: Any = None,
    max_rows: int = 2000,
    random_state: int = 0,
) -> tuple[str, dict[str, float]]:
    """The scale of the lowest leave-one-out log-loss, and the log-loss of each.

    ``codes`` are features that have no scale and stand beside the scaled X. A scale other than "standard"
    must gain one percent.
    """
    y = np.asarray(y)
    rows = np.arange(len(y))
    if len(y) > max_rows:
        # a class of one row cannot be drawn by its share
        stratify = y if np.unique(y, return_counts=True)[1].min() > 1 else None
        rows, _ = train_test_split(rows, train_size=max_rows, stratify=stratify, random_state=random_state)
    weight = None if sample_weight is None else np.asarray(sample_weight)[rows]
    model = SparseKLR() if estimator is None else clone(estimator)
    model.set_params(calibration="refit", verbose=0)
    if "loo" in (model.kernel, model.gamma):  # the scale is chosen first, by the simplest kernel
        model.set_params(kernel="rbf" if model.kernel == "loo" else model.kernel, gamma="scale")
    losses = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model fitted in the end warns of the same
        for scale in SCALES:
            scaled = make_scaler(scale, X[rows], weight).transform(X[rows])
            model.fit(np.hstack([scaled, codes[rows]]), y[rows], sample_weight=weight)
            losses[scale] = float(model.loo_log_loss_)
    best = min(losses, key=lambda scale: losses[scale])
    return (best if losses[best] < (1 - LEAST_GAIN) * losses["standard"] else "standard"), losses
