"""Cost of decisions if a missed positive costs ten times as much as a false alarm."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sparseklr import SKLR, SparseKLR

from .rows import splits

COST = 10.0
SETS = ("diabetes", "coil2000", "spambase")
NOTE = (
    "The numbers are mean costs per test row if a missed positive costs 10 and a false alarm "
    "costs 1. The models were fitted to at most 1,000 rows, and the costs are averaged over two "
    "splits."
)
COLUMNS = ["decision", *SETS]


def cost(truth: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.mean(COST * ((truth == 1) & (predicted == 0)) + ((truth == 0) & (predicted == 1))))


def measure() -> list[list[Any]]:
    warnings.simplefilter("ignore")
    models = {
        "`SparseKLR()`": SparseKLR(),
        "`SKLR(calibration=None)`": SKLR(calibration=None),
        "calibrated `SVC()`": CalibratedClassifierCV(SVC(), ensemble=False),
    }
    table: dict[str, dict[str, list[float]]] = {}
    for name in SETS:
        for X, y, new, truth in splits(name, n_train=1000, repeats=2):
            table.setdefault("everything is positive", {}).setdefault(name, []).append(
                cost(truth, np.ones_like(truth))
            )
            for label, model in models.items():
                fitted = make_pipeline(StandardScaler(), model).fit(X, y)
                p = fitted.predict_proba(new)[:, 1]
                for title, at in (("p > 0.5", 0.5), ("p > 1/11", 1 / (1 + COST))):
                    table.setdefault(f"{label}, {title}", {}).setdefault(name, []).append(
                        cost(truth, (p > at).astype(int))
                    )
            scorer = make_scorer(lambda t, q: -cost(t, q))
            tuned = TunedThresholdClassifierCV(
                make_pipeline(StandardScaler(), SparseKLR()), scoring=scorer, cv=5, random_state=0
            )
            title = "`SparseKLR()`, threshold tuned by cross-validation"
            table.setdefault(title, {}).setdefault(name, []).append(cost(truth, tuned.fit(X, y).predict(new)))
    return [[title, *(float(np.mean(costs[name])) for name in SETS)] for title, costs in table.items()]
