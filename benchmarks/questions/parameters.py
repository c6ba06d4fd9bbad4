"""Effect of each parameter on the log-loss if all other parameters have their defaults."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import SparseKLR

from .rows import splits, test_loss

SETS = ("diabetes", "ionosphere", "waveform", "spambase")
NOTE = (
    "The table shows how the mean test log-loss changes, relative to the defaults, if one "
    "parameter of `SparseKLR` is changed. *Best* and *worst* are the changes with the best and "
    "the worst of the values tried, and *points* is the range of the mean number of points. The "
    "log-losses are averaged over diabetes, ionosphere, waveform and spambase, with standardised "
    'features and at most 500 training rows. The values of gamma are multiples of `"scale"`.'
)
COLUMNS = ["parameter", "values tried", "best", "worst", "points"]
CHANGES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "`gamma`": ("0.1, 0.3, 3, 10 times", [{"gamma": factor} for factor in (0.1, 0.3, 3.0, 10.0)]),
    "`kernel`": (
        "laplacian, poly, linear",
        [{"kernel": kernel} for kernel in ("laplacian", "poly", "linear")],
    ),
    "`C`": ("0.1, 1, 10, 100", [{"C": C} for C in (0.1, 1.0, 10.0, 100.0)]),
    "`box`": ("1, 3, 30, 100", [{"box": box} for box in (1.0, 3.0, 30.0, 100.0)]),
    "`prune`": ("0, 0.2, 1", [{"prune": width} for width in (0.0, 0.2, 1.0)]),
    "`tol`": ("0.01, 1e-5", [{"tol": tol} for tol in (0.01, 1e-5)]),
}


def fitted_loss(split: Any, change: dict[str, Any]) -> tuple[float, int]:
    change = dict(change)
    if isinstance(factor := change.get("gamma"), float):
        change["gamma"] = factor / split[0].shape[1]  # features have variance 1
    model = make_pipeline(StandardScaler(), SparseKLR(**change))
    loss = test_loss(model, split)
    return loss, len(model[-1].support_)


def measure() -> list[list[Any]]:
    warnings.simplefilter("ignore")
    data = [split for name in SETS for split in splits(name)]
    base = np.array([fitted_loss(split, {}) for split in data])
    rows = []
    for parameter, (values, changes) in CHANGES.items():
        found = [np.array([fitted_loss(split, change) for split in data]) for change in changes]
        change = [float(np.mean(tried[:, 0] / base[:, 0]) - 1) for tried in found]
        points = [tried[:, 1].mean() for tried in found]
        rows.append([parameter, values, min(change), max(change), f"{min(points):.0f} to {max(points):.0f}"])
    rows.sort(key=lambda row: -max(abs(row[2]), row[3]))
    default = ["none: the defaults", "", "0%", "0%", f"{base[:, 1].mean():.0f}"]
    return [
        default,
        *(
            [name, values, f"{best:+.1%}", f"{worst:+.1%}", points]
            for name, values, best, worst, points in rows
        ),
    ]
