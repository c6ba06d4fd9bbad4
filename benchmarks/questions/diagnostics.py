"""Leave-one-out loss, calibration error and duality gap, with the quantities that they estimate."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from sparseklr import SparseKLR
from sparseklr.inspection import expected_calibration_error

from .rows import splits

SETS = ("sonar", "ionosphere", "diabetes", "wisconsin", "spambase", "waveform", "magic", "coil2000")
NOTE = (
    "`SparseKLR` was fitted to at most 1,000 rows with standardised features, and the numbers are "
    "averaged over two splits. *ECE by chance* is the mean ECE for 20 samples of labels drawn "
    "from the predicted probabilities."
)
COLUMNS = ["data set", "`loo_log_loss_`", "log-loss on new rows", "ECE", "ECE by chance", "`dual_gap_`"]


def measure() -> list[list[Any]]:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    rows = []
    for name in SETS:
        found = []
        for X, y, new, truth in splits(name, n_train=1000, repeats=2):
            scaler = StandardScaler().fit(X)
            model = SparseKLR().fit(scaler.transform(X), y)
            p = model.predict_proba(scaler.transform(new))[:, 1]
            chance = [expected_calibration_error((rng.random(len(p)) < p).astype(int), p) for _ in range(20)]
            error = expected_calibration_error(truth, p)
            found.append([model.loo_log_loss_, log_loss(truth, p), error, np.mean(chance), model.dual_gap_])
        rows.append([name, *np.mean(found, axis=0).tolist()])
    return rows
