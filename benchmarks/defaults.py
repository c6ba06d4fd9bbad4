"""Accuracy and sparsity of SKLR with default parameters, compared with a default SVC.

The means are over five folds of the 12 sets, with features scaled to [0, 1] and standardised, and ``gamma="scale"``.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from sparseklr import SparseKLR

from .common import NAMES, load, show

MODELS = {
    "SVC()": SVC(),
    "SVC(C=10)": SVC(C=10),
    **{f"box={box:g}": SparseKLR(box=box) for box in (1, 10, 100)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=list(NAMES), help="data sets to use")
    sets = parser.parse_args().sets
    for scaler in (MinMaxScaler(), StandardScaler()):
        accuracy, kept = [], []
        for name in sets:
            X, y = load(name)
            folds = StratifiedKFold(5, shuffle=True, random_state=0)
            accuracy_row, kept_row = [], []
            for model in MODELS.values():
                result = cross_validate(make_pipeline(scaler, model), X, y, cv=folds, return_estimator=True)
                accuracy_row.append(float(result["test_score"].mean()))
                fraction = [len(fit[-1].support_) / (0.8 * len(y)) for fit in result["estimator"]]
                kept_row.append(float(np.mean(fraction)))
            accuracy.append(accuracy_row)
            kept.append(kept_row)
        for title, values in (("accuracy", accuracy), ("fraction of rows kept", kept)):
            rows = [[name, *row] for name, row in zip(sets, values, strict=True)]
            rows.append(["mean", *np.mean(values, axis=0).tolist()])
            show(f"{title}, {type(scaler).__name__}", ["set", *MODELS], rows)


if __name__ == "__main__":
    main()
