"""Agreement between the leave-one-out log-loss and the log-loss on new rows.

The script compares the log-loss of ``SparseKLR()`` on test folds with its attribute ``loo_log_loss_``, for the default
model and for the model without pruning. The data are the 12 sets and the multi-class sets of scikit-learn, with
features in [0, 1] and five folds. The goal is a ratio of the mean losses within 10% of 1. ``--sets``, ``--folds`` and
``--rows`` run a part of the benchmark.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn import datasets
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import minmax_scale

from sparseklr import SparseKLR

from .common import NAMES, load, show

MULTICLASS = ("iris", "wine", "digits")


def load_any(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name in NAMES:
        return load(name)
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return minmax_scale(X), y


def measure(name: str, folds: int, rows: int, gamma: float | str) -> list[float]:
    """Return the test loss, the leave-one-out loss, the test loss without pruning, and the number of points.

    All are means over folds.
    """
    X, y = load_any(name)
    splits = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))[:folds]
    found = []
    for train, test in splits:
        train = np.random.default_rng(0).permutation(train)[:rows]
        model = SparseKLR(gamma=gamma).fit(X[train], y[train])
        whole = SparseKLR(gamma=gamma, prune=0).fit(X[train], y[train])
        losses = [log_loss(y[test], m.predict_proba(X[test]), labels=m.classes_) for m in (model, whole)]
        found.append([losses[0], model.loo_log_loss_, losses[1], len(model.support_)])
    return np.mean(found, axis=0).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=[*NAMES, *MULTICLASS])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10**9, help="maximum number of training rows")
    parser.add_argument("--gamma", default="scale")
    arguments = parser.parse_args()
    gamma = arguments.gamma if arguments.gamma in ("scale", "auto") else float(arguments.gamma)
    table = []
    for name in arguments.sets:
        held_out, loo, whole, points = measure(name, arguments.folds, arguments.rows, gamma)
        table.append([name, held_out, loo, loo / held_out, whole, loo / whole, points])
        print(name, [round(value, 4) for value in table[-1][1:]], flush=True)
    held_out, loo, _, whole, _, points = np.mean([row[1:] for row in table], axis=0).tolist()
    table.append(["mean (ratios: of the means)", held_out, loo, loo / held_out, whole, loo / whole, points])
    columns = ["set", "test rows", "leave-one-out", "ratio", "test rows, unpruned", "ratio", "points"]
    show("log-loss", columns, table)


if __name__ == "__main__":
    main()
