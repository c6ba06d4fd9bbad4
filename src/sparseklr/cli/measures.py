"""How good a model is on labelled rows, as numbers for tables and JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix, roc_auc_score

from ..inspection.probability_report import probability_report
from .data import Rows
from .unfamiliar import naming_large_cells


def measure(pipeline: Any, rows: Rows) -> dict[str, Any]:
    """The summary of :func:`sparseklr.probability_report`, ROC AUC and the confusion matrix."""
    with naming_large_cells(pipeline, rows):
        summary = probability_report(pipeline, rows.X, rows.y, sample_weight=rows.weight).summary
    classes = pipeline.classes_
    confusion = confusion_matrix(rows.y, pipeline.predict(rows.X), labels=classes, sample_weight=rows.weight)
    return {
        **summary,
        "roc_auc": _roc_auc(pipeline, rows),
        "classes": classes.tolist(),
        "confusion": confusion.tolist(),
    }


def _roc_auc(pipeline: Any, rows: Rows) -> float | None:
    """One-vs-rest for more than two classes; None where a class does not occur."""
    classes, prob = pipeline.classes_, pipeline.predict_proba(rows.X)
    if len(np.unique(np.asarray(rows.y))) < len(classes):
        return None
    if len(classes) == 2:
        return float(roc_auc_score(rows.y == classes[1], prob[:, 1], sample_weight=rows.weight))
    return float(roc_auc_score(rows.y, prob, multi_class="ovr", labels=classes, sample_weight=rows.weight))
