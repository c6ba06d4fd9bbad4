"""Comparison for users of SVC(probability=True), on five sets with standardised features and default parameters.

The baselines are ``SVC(probability=True)``, which scikit-learn 1.9 deprecates, and the replacement it recommends,
``CalibratedClassifierCV(SVC(), ensemble=False)``. ``python -m benchmarks.migration`` writes the table of
docs/coming-from-svc.md.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sparseklr import CompactKLR, SparseKLR

from .common import load
from .store import store

FOLDS = 3
SETS = ("sonar", "ionosphere", "diabetes", "wisconsin", "spambase")
MODELS = {
    "`SVC(probability=True)`": SVC(probability=True, random_state=0),
    "calibrated `SVC()`": CalibratedClassifierCV(SVC(), ensemble=False),
    "`SparseKLR()`": SparseKLR(),
    "`CompactKLR()`": CompactKLR(),
}
NOTE = (
    f"The numbers are means over {FOLDS} of 5 test folds. Features are standardised. *Calibrated* means "
    "`CalibratedClassifierCV(SVC(), ensemble=False)`. *Agreement* is the fraction of rows for which "
    "`predict` returns the class with the largest probability. Fit times are CPU times."
)


def n_points(model: Any) -> int:
    """Return the number of points of a fitted model: training rows that it keeps, or fitted locations."""
    if isinstance(model, CalibratedClassifierCV):
        model = model.calibrated_classifiers_[0].estimator
    return model.n_points_ if isinstance(model, CompactKLR) else len(model.support_)


def measure(X: np.ndarray, y: np.ndarray, model: Any) -> np.ndarray:
    """Return fit time, number of points, log-loss, accuracy and agreement, averaged over the folds."""
    found = []
    for train, test in list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))[:FOLDS]:
        pipeline = make_pipeline(StandardScaler(), clone(model))
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SVC's deprecation of probability=True
            pipeline.fit(X[train], y[train])
        seconds = time.process_time() - start
        p, predicted = pipeline.predict_proba(X[test]), pipeline.predict(X[test])
        agreement = np.mean(predicted == pipeline.classes_[p.argmax(axis=1)])
        found.append([seconds, n_points(pipeline[-1]), log_loss(y[test], p), np.mean(predicted == y[test]), agreement])  # fmt: skip
    return np.mean(found, axis=0)


def main() -> None:
    means = {name: [measure(*load(name), model) for model in MODELS.values()] for name in SETS}
    means["**mean**"] = list(np.mean(list(means.values()), axis=0))
    rows = [
        [name, label, seconds, round(points), loss, accuracy, f"{agreement:.1%}"]
        for name, values in means.items()
        for label, (seconds, points, loss, accuracy, agreement) in zip(MODELS, values, strict=True)
    ]
    columns = ["data set", "model", "fit time (s)", "points", "log-loss", "accuracy", "agreement"]
    store("migration", "python -m benchmarks.migration", NOTE, columns, rows)


if __name__ == "__main__":
    main()
