"""Log-loss of ``SparseKLR()`` on the 12 sets, compared with another version.

Features are in [0, 1], and every row is a test row once (stratified folds). ``--store FILE`` writes the results, and
``--against FILE`` compares with those that another version wrote: run it with the same ``--folds`` and ``--rows``, from
this directory, with the interpreter of an environment in which that version is installed. The limit of the ratio of
mean losses is 1.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

import sparseklr
from sparseklr import SparseKLR

from .common import NAMES, load, show


def measure(name: str, folds: int, rows: int) -> list[float]:
    """Held-out log-loss and number of points, means over the folds."""
    X, y = load(name)
    kept = np.random.default_rng(0).permutation(len(y))[:rows]
    X, y = X[kept], y[kept]
    found = []
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y):
        model = SparseKLR().fit(X[train], y[train])
        found.append([log_loss(y[test], model.predict_proba(X[test])), len(model.support_)])
    return np.mean(found, axis=0).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=list(NAMES))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10**9, help="rows of a set at most")
    parser.add_argument("--store", type=Path, help="a JSON file for the figures")
    parser.add_argument("--against", type=Path, help="a JSON file of the figures of another version")
    arguments = parser.parse_args()
    plan = {"folds": arguments.folds, "rows": arguments.rows}
    before = {}
    if arguments.against:
        stored = json.loads(arguments.against.read_text())
        if stored["plan"] != plan:
            parser.error(f"{arguments.against} has figures for {stored['plan']}, not for {plan}")
        before = stored["sets"]
    now = {}
    for name in arguments.sets:
        now[name] = measure(name, **plan)
        print(name, *(f"{value:.4g}" for value in now[name]), flush=True)
    if arguments.store:
        arguments.store.write_text(json.dumps({"plan": plan, "sets": now}, indent=1))
    table = [[name, *now[name], *before.get(name, [])] for name in now if not before or name in before]
    table.append(["mean", *np.mean([row[1:] for row in table], axis=0).tolist()])
    columns = ["set", "log-loss", "points"]
    if before:
        columns += ["before", "points before", "ratio"]
        table = [[*row, row[1] / row[3]] for row in table]
    show(f"SparseKLR() of version {sparseklr.__version__}", columns, table)


if __name__ == "__main__":
    main()
