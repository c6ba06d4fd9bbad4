"""The scale of numbers, on which kernel models depend more than on any other choice."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from ..equal_rows import row_keys
from ..estimators.sparse_klr import SparseKLR
from ..estimators.training import GivenData, weighted_classes
from ..probability.calibration import log_probabilities

SCALES = ("standard", "quantile", "squash")
# What another scale must gain on standardising, in standard errors of the paired difference of leave-one-out
# losses. Chosen on splits of the 12 sets that benchmarks/front_door.py does not use (12 splits of at most 500
# rows, 5 of at most 1400). The geometric mean of the log-loss in units of that with standardising was .958
# and .918 for 1.5, and no set was above 1.001; .959 and .918 for 1, with up to 1.039 on a set; .963 and .921
# for 2. A gain of one percent, whatever its error, came to .928 and .914, with up to 1.015 on a set.
MUST_GAIN = 1.5


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
    must be better by ``MUST_GAIN`` standard errors of the difference.
    """
    y = np.asarray(y)
    rows = np.arange(len(y))
    if len(y) > max_rows:
        # a class of one row cannot be drawn by its share
        stratify = y if np.unique(y, return_counts=True)[1].min() > 1 else None
        rows, _ = train_test_split(rows, train_size=max_rows, stratify=stratify, random_state=random_state)
    X, codes, y = X[rows], codes[rows], y[rows]
    weight = None if sample_weight is None else np.asarray(sample_weight)[rows]
    model = SparseKLR() if estimator is None else clone(estimator)
    model.set_params(calibration="refit", verbose=0)
    if "loo" in (model.kernel, model.gamma):  # the scale is chosen first, by the simplest kernel
        model.set_params(kernel="rbf" if model.kernel == "loo" else model.kernel, gamma="scale")
    kept, classes_of_rows, _, weight_of_rows = weighted_classes(
        GivenData(X, y, weight, precomputed=False), model.class_weight
    )
    _, point = np.unique(row_keys(np.hstack([X, codes])[kept]), return_inverse=True)
    losses, of_points = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model fitted in the end warns of the same
        for scale in SCALES:
            scaled = make_scaler(scale, X, weight).transform(X)
            model.fit(np.hstack([scaled, codes]), y, sample_weight=weight)
            losses[scale] = float(model.loo_log_loss_)
            outputs = model.loo_decision_function_.reshape(len(y), -1)[kept]
            of_rows = -log_probabilities(outputs)[np.arange(len(kept)), classes_of_rows]
            of_points[scale] = np.bincount(point, weight_of_rows * of_rows)
    weight_of_points = np.bincount(point, weight_of_rows)
    least_error = 1e-4 * losses["standard"]  # what is within the accuracy of the fits
    clear = [
        scale
        for scale in SCALES
        if _in_errors(of_points["standard"] - of_points[scale], weight_of_points, least_error) > MUST_GAIN
    ]
    return min(clear, key=lambda scale: losses[scale], default="standard"), losses


def _in_errors(sums: np.ndarray, weight: np.ndarray, least_error: float) -> float:
    """The weighted mean of sums over distinct rows, in units of its standard error.

    Distinct rows are what is independent, whatever they weigh.
    """
    mean = sums.sum() / weight.sum()
    error = np.linalg.norm(sums - weight * mean) / weight.sum()
    return float(mean / max(error, least_error, 1e-12))
