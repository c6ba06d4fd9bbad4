"""Comparison for users of SVC(probability=True), on five sets with standardised features and default parameters.

The baselines are ``SVC(probability=True)``, which scikit-learn 1.9 deprecates, and the replacement it recommends,
``CalibratedClassifierCV(SVC(), ensemble=False)``. Results are shared with :mod:`benchmarks.overview`.
"""

from __future__ import annotations

import numpy as np

from .overview import FOLDS, known, measured, run
from .store import store

SETS = ("sonar", "ionosphere", "diabetes", "wisconsin", "spambase")
MODELS = ("`SVC(probability=True)`", "calibrated `SVC()`", "`SparseKLR()`", "`CompactKLR()`")
KEYS = ("seconds", "points", "loss", "accuracy", "agreement")
NOTE = (
    f"Means over {FOLDS} of 5 test folds; features are standardised. *Calibrated* means "
    "`CalibratedClassifierCV(SVC(), ensemble=False)`. *Agreement* is the fraction of rows for which "
    "`predict` returns the class with the largest probability. Fit times are wall-clock times."
)


def main() -> None:
    run(SETS, MODELS)
    cells = known()

    def means(label: str, sets: tuple[str, ...]) -> list:
        found = [[c[key] for key in KEYS] for c in cells if c["model"] == label and c["set"] in sets]
        seconds, kept, loss, accuracy, agreement = np.mean(found, axis=0)
        return [seconds, round(kept), loss, accuracy, f"{agreement:.1%}"]

    rows = [[name, label, *means(label, (name,))] for name in SETS for label in MODELS]
    rows += [["**mean**", label, *means(label, SETS)] for label in MODELS]
    columns = ["set", "model", "fit time (s)", "points", "log-loss", "accuracy", "agreement"]
    store(
        "migration",
        "python -m benchmarks.migration",
        NOTE,
        columns,
        rows,
        measured([c for c in cells if c["set"] in SETS]),
    )


if __name__ == "__main__":
    main()
