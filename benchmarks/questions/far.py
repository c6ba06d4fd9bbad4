"""Probabilities of test rows that are moved away from the centre of the data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sparseklr import CompactKLR, SparseKLR

from .rows import splits

FACTORS = (1, 2, 4, 8, 16)
NOTE = (
    "The numbers are means of the largest class probability over the test rows of waveform, after "
    "the distances of the rows from the centre were multiplied by the factor in the heading. "
    "Features are standardised. The models were fitted to 1,000 rows, and the numbers are "
    "averaged over two splits."
)
COLUMNS = ["model", *(f"{factor} times" for factor in FACTORS)]
MODELS = {
    "`SparseKLR()`": SparseKLR(),
    "`CompactKLR()`": CompactKLR(),
    "calibrated `SVC()`": CalibratedClassifierCV(SVC(), ensemble=False),
    "`LogisticRegression()`": LogisticRegression(max_iter=1000),
    "`HistGradientBoosting`": HistGradientBoostingClassifier(random_state=0),
}


def measure() -> list[list[Any]]:
    warnings.simplefilter("ignore")
    found: dict[str, list[list[float]]] = {label: [] for label in MODELS}
    for X, y, new, _ in splits("waveform", n_train=1000, repeats=2):
        scaler = StandardScaler().fit(X)
        rows, test = scaler.transform(X), scaler.transform(new)
        for label, model in MODELS.items():
            model.fit(rows, y)
            found[label].append(
                [float(model.predict_proba(factor * test).max(axis=1).mean()) for factor in FACTORS]
            )
    return [[label, *np.mean(values, axis=0).tolist()] for label, values in found.items()]
