"""Log-loss, accuracy and number of points of SparseKLR, compared with three other kernel models.

The other models are SKLR(C=1e4, lam=1e3), which selects the points of SparseKLR; kernel logistic regression without a
margin, whose C minimises the log-loss in 5-fold cross-validation; and a calibrated SVC(C=10). They are evaluated on the
test folds of a 5-fold split of the 12 sets, with features in [0, 1] and the rbf kernel with gamma = 0.5. The limits are
printed below the table. ``--sets`` and ``--folds`` run a part of the benchmark.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from sparseklr import SKLR, SparseKLR

from .common import NAMES, load, show

PLAIN = GridSearchCV(
    SKLR(lam=0, gamma=0.5, calibration=None),
    {"C": [1.0, 10.0, 100.0, 1e3]},
    cv=StratifiedKFold(5, shuffle=True, random_state=0),
    scoring="neg_log_loss",
)


def models(with_plain: bool) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "refit": SparseKLR(gamma=0.5),
        "raw": SKLR(1e4, lam=1e3, gamma=0.5, calibration=None),
        "SVC": CalibratedClassifierCV(SVC(C=10, gamma=0.5, cache_size=1000), ensemble=False),
    }
    return chosen | ({"plain": PLAIN} if with_plain else {})


def measure(name: str, folds: int, with_plain: bool) -> dict[str, dict[str, float]]:
    X, y = load(name)
    results: dict[str, list[dict[str, float]]] = {}
    for k, (train, test) in enumerate(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)):
        if k == folds:
            break
        for label, model in models(with_plain).items():
            start = time.perf_counter()
            model.fit(X[train], y[train])
            seconds = time.perf_counter() - start
            p = model.predict_proba(X[test])
            kept = len(model.support_) / len(train) if hasattr(model, "support_") else np.nan
            results.setdefault(label, []).append(
                {"loss": log_loss(y[test], p), "accuracy": float(np.mean(model.predict(X[test]) == y[test])), "kept": kept, "seconds": seconds}
            )  # fmt: skip
    return {
        label: {key: float(np.mean([r[key] for r in rows])) for key in rows[0]}
        for label, rows in results.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=list(NAMES))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument(
        "--no-plain", action="store_true", help="omit kernel logistic regression, which takes longest"
    )
    arguments = parser.parse_args()
    found = {}
    for name in arguments.sets:
        found[name] = measure(name, arguments.folds, not arguments.no_plain)
        print(name, {label: round(r["loss"], 4) for label, r in found[name].items()}, flush=True)
    labels = list(next(iter(found.values())))
    for key in ("loss", "accuracy", "kept", "seconds"):
        rows = [[name, *(found[name][label][key] for label in labels)] for name in found]
        rows.append(["mean", *np.mean([row[1:] for row in rows], axis=0).tolist()])
        show({"loss": "test log-loss", "kept": "fraction of rows kept"}.get(key, key), ["set", *labels], rows)

    def mean(label: str, key: str) -> float:
        return float(np.mean([found[name][label][key] for name in found]))

    worst = max(found, key=lambda name: found[name]["refit"]["loss"] / found[name]["SVC"]["loss"])
    ratio = found[worst]["refit"]["loss"] / found[worst]["SVC"]["loss"]
    bars = [
        ["log-loss / calibrated SVC", mean("refit", "loss") / mean("SVC", "loss"), "<= 1.0"],
        [f"the same on the worst set ({worst})", ratio, "<= 1.1"],
        ["mean fraction of rows kept", mean("refit", "kept"), "<= 0.15"],
        ["sets with more points than without refit", str(sum(found[n]["refit"]["kept"] > found[n]["raw"]["kept"] for n in found)), "0"],
        ["accuracy - raw S-KLR", mean("refit", "accuracy") - mean("raw", "accuracy"), ">= -0.003"],
    ]  # fmt: skip
    if "plain" in labels:
        bars.insert(
            0, ["log-loss / plain KLR, tuned", mean("refit", "loss") / mean("plain", "loss"), "<= 1.05"]
        )
    for name in ("magic", "spambase", "ring"):
        if name in found:
            times = found[name]["refit"]["seconds"] / found[name]["SVC"]["seconds"]
            bars.append([f"fit time / calibrated SVC, {name}", times, "<= 1" if name == "magic" else "<= 3"])
    show("bars", ["what", "measured", "bar"], bars)


if __name__ == "__main__":
    main()
