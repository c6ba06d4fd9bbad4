"""Log-loss and AUC of an estimator with default parameters on the 12 sets, compared with another version.

Features are in [0, 1], and every row is a test row once per repeat (stratified folds). ``--store FILE`` writes the
results to a file, and ``--against FILE`` compares them with the file of another version. That version must run this
script with the same ``--model``, ``--folds``, ``--repeats`` and ``--rows``, in an environment in which it is installed.
The limit of the ratio of mean losses is 1.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold

import sparseklr

from .common import NAMES, load, show


def measure(name: str, model: str, folds: int, repeats: int, rows: int) -> list[float]:
    """Return the test log-loss, the AUC and the number of points, averaged over the folds."""
    X, y = load(name)
    kept = np.random.default_rng(0).permutation(len(y))[:rows]
    X, y = X[kept], y[kept]
    found = []
    for train, test in RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=0).split(X, y):
        fitted = getattr(sparseklr, model)().fit(X[train], y[train])
        p = fitted.predict_proba(X[test])
        found.append([log_loss(y[test], p), roc_auc_score(y[test], p[:, 1]), fitted.dual_coef_.shape[1]])
    return np.mean(found, axis=0).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=list(NAMES))
    parser.add_argument("--model", choices=["SparseKLR", "CompactKLR"], default="SparseKLR")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--rows", type=int, default=10**9, help="maximum number of rows of a set")
    parser.add_argument("--store", type=Path, help="JSON file to which the results are written")
    parser.add_argument("--against", type=Path, help="JSON file with the results of another version")
    arguments = parser.parse_args()
    plan = {name: getattr(arguments, name) for name in ("model", "folds", "repeats", "rows")}
    before = {}
    if arguments.against:
        stored = json.loads(arguments.against.read_text())
        if stored["plan"] != plan:
            parser.error(f"{arguments.against} contains results for {stored['plan']}, not for {plan}")
        before = stored["sets"]
    now = {}
    for name in arguments.sets:
        now[name] = measure(name, **plan)
        print(name, *(f"{value:.4g}" for value in now[name]), flush=True)
    if arguments.store:
        arguments.store.write_text(json.dumps({"plan": plan, "sets": now}, indent=1))
    table = [[name, *now[name], *before.get(name, [])] for name in now if not before or name in before]
    table.append(["mean", *np.mean([row[1:] for row in table], axis=0).tolist()])
    columns = ["set", "log-loss", "AUC", "points"]
    if before:
        columns += ["before", "AUC before", "points before", "ratio"]
        table = [[*row, row[1] / row[4]] for row in table]
    show(f"{arguments.model}() of version {sparseklr.__version__}", columns, table)


if __name__ == "__main__":
    main()
