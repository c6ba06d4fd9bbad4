"""Log-loss of one model with four feature scales."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, QuantileTransformer, StandardScaler

from sparseklr import CompactKLR, SparseKLR

from .rows import best_in_bold, splits, test_loss

SETS = ("wisconsin", "diabetes", "banknote", "magic", "spambase", "waveform")
NOTE = (
    "The first four columns show the test log-loss of `SparseKLR(scale=None)` after different "
    "scalings of the features. The last two columns show the test log-losses of `SparseKLR()` and "
    "`CompactKLR()`, which scale the features themselves. The models were fitted to at most 500 "
    "rows. The lowest log-loss of each row is in bold."
)
SCALERS = {
    "not scaled": FunctionTransformer(),
    "[0, 1]": MinMaxScaler(),
    "standardised": StandardScaler(),
    "ranks to normal": QuantileTransformer(output_distribution="normal", n_quantiles=200),
}
COLUMNS = ["data set", *SCALERS, "`SparseKLR()`", "`CompactKLR()`"]


def measure() -> list[list[Any]]:
    warnings.simplefilter("ignore")
    rows = []
    for name in SETS:
        data = list(splits(name))
        models = [make_pipeline(scaler, SparseKLR(scale=None)) for scaler in SCALERS.values()]
        models += [SparseKLR(), CompactKLR()]
        losses = [float(np.mean([test_loss(model, split) for split in data])) for model in models]
        rows.append([name, *best_in_bold(losses)])
    return rows
