"""Effect of weights on probabilities, and how to correct it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import SparseKLR
from sparseklr.inspection import expected_calibration_error

from .rows import splits

NOTE = (
    "The table shows results of `SparseKLR` on coil2000, where 6% of the rows are positive. They "
    "are averaged over two splits with 2,500 training rows and 4,000 test rows. ECE is the "
    "expected calibration error. The third row changes the threshold, and the last row corrects "
    "the probabilities; neither needs another fit."
)
COLUMNS = ["model", "log-loss", "mean probability", "fraction of positives", "ECE", "balanced accuracy"]


def facts(p: np.ndarray, truth: np.ndarray, threshold: float = 0.5) -> list[float]:
    chosen = (p > threshold).astype(int)
    error = expected_calibration_error(truth, p)
    return [log_loss(truth, p), p.mean(), truth.mean(), error, balanced_accuracy_score(truth, chosen)]


def measure() -> list[list[Any]]:
    warnings.simplefilter("ignore")
    found: dict[str, list[list[float]]] = {}
    for X, y, new, truth in splits("coil2000", n_train=2500, repeats=2):
        share = y.mean()
        plain = make_pipeline(StandardScaler(), SparseKLR()).fit(X, y).predict_proba(new)[:, 1]
        balanced = (
            make_pipeline(StandardScaler(), SparseKLR(class_weight="balanced"))
            .fit(X, y)
            .predict_proba(new)[:, 1]
        )
        corrected = expit(logit(balanced) + np.log(share / (1 - share)))
        for title, values in {
            "no weights": facts(plain, truth),
            '`class_weight="balanced"`': facts(balanced, truth),
            "no weights, threshold at the fraction of positives": facts(plain, truth, share),
            "balanced, probabilities corrected": facts(corrected, truth, share),
        }.items():
            found.setdefault(title, []).append(values)
    return [[title, *np.mean(values, axis=0).tolist()] for title, values in found.items()]
