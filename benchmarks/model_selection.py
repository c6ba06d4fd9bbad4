"""Comparison of SparseKLR(kernel="auto", gamma="auto") with GridSearchCV(SVC) over 4 x 4 values of C and gamma.

Features are in [0, 1], and searches use 5 folds. Both models are fitted to the training part of an outer fold and
evaluated on its test part. The results are the CPU time of the search, log-loss, accuracy and number of points. The
search for SVC maximises the accuracy, without probabilities. For its log-loss, a sigmoid is cross-fitted afterwards to
the chosen SVC (``CalibratedClassifierCV``); this does not count in the time. On each of spambase, ring and magic,
SparseKLR must take at most a quarter of the time (goal: a tenth) and have a lower log-loss.

``--grid`` compares the choice of C and lam by SKLRCV with the choice of C for SVC, with equal numbers of values and
folds. SKLRCV must take at most half the time on spambase, have an accuracy at most 0.5 percentage points below SVC on 10
of the 12 sets and, with the rule "sparsest of the three most accurate", keep at most 1.2 times as many points as SVC on
9 sets.

Every search is stored (``--store``) and not repeated, because the search for SVC takes long and does not depend on this
package. ``--again`` repeats the searches of SparseKLR.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from sparseklr import SKLR, SKLRCV, SparseKLR
from sparseklr.sklr import select_sparsest_of_3

from .common import NAMES, load, show

JUDGED = ("spambase", "ring", "magic")
SVC_GRID = {"C": [0.1, 1, 10, 100], "gamma": [0.1, 1.0, 10.0, "scale"]}
SVC_CS = (1, 10, 100)


def n_support(model: Any, X: np.ndarray, y: np.ndarray) -> int:
    """Return the number of points of a fitted model, as a scorer."""
    return len(model.support_)


def timed(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the CPU seconds of a fit."""
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def search_svc(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """Return the results of the search for SVC in one outer fold."""
    svc = GridSearchCV(SVC(), SVC_GRID)
    seconds = timed(svc, X[train], y[train])
    sigmoid = CalibratedClassifierCV(SVC(**svc.best_params_), ensemble=False).fit(X[train], y[train])
    return {
        "SVC loss": log_loss(y[test], sigmoid.predict_proba(X[test])),
        "SVC accuracy": svc.score(X[test], y[test]),
        "SVC points": len(svc.best_estimator_.support_),
        "SVC s": seconds,
        "SVC chose": str(svc.best_params_),
    }


def search_klr(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """Return the results of SparseKLR in one outer fold."""
    klr = SparseKLR(kernel="auto", gamma="auto")
    seconds = timed(klr, X[train], y[train])
    return {
        "KLR loss": log_loss(y[test], klr.predict_proba(X[test])),
        "KLR accuracy": klr.score(X[test], y[test]),
        "KLR points": len(klr.support_),
        "KLR s": seconds,
        "candidates": len(klr.search_results_["gamma"]),
        "KLR chose": f"{klr.kernel_.name}, gamma={klr.gamma_:.4g}",
    }


def report_kernels(names: list[str], means: list[dict[str, Any]]) -> None:
    columns = [f"{who} {what}" for what in ("loss", "accuracy", "points", "s") for who in ("SVC", "KLR")]
    rows = [
        [name, *(mean[column] for column in [*columns, "candidates"]), mean["KLR s"] / mean["SVC s"]]
        for name, mean in zip(names, means, strict=True)
    ]
    show("search over kernels", ["set", *columns, "candidates", "time ratio"], rows)
    for name, mean in zip(names, means, strict=True):
        ratio, loss = mean["KLR s"] / mean["SVC s"], mean["KLR loss"] / mean["SVC loss"]
        held = "held" if ratio <= 0.25 and loss < 1 else "missed"
        print(f"{name}: time {ratio:.3f} (bar .25, goal .1), log-loss {loss:.3f} (bar below 1): {held}")


def compare_grids(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """Return accuracies, fractions of points kept and seconds of the searches over C and lam in one outer fold."""
    scoring = {"score": "accuracy", "n_support": n_support}
    svc = GridSearchCV(SVC(), {"C": SVC_CS}, scoring=scoring, refit="score")
    klr = SKLRCV(estimator=SKLR(calibration=None))
    seconds = {"SVC": timed(svc, X[train], y[train]), "KLR": timed(klr, X[train], y[train])}
    results = svc.cv_results_
    by_rule = select_sparsest_of_3(
        {
            "mean_test_score": results["mean_test_score"],
            "mean_support_fraction": results["mean_test_n_support"],
        }
    )
    sparse_svc = SVC(**results["params"][by_rule]).fit(X[train], y[train])
    params = klr.cv_results_["params"][select_sparsest_of_3(klr.cv_results_)]
    sparse_klr = SKLR(**params, calibration=None).fit(X[train], y[train])
    return {
        "SVC": svc.best_estimator_.score(X[test], y[test]),
        "KLR": klr.score(X[test], y[test]),
        "SVC sparse": sparse_svc.score(X[test], y[test]),
        "KLR sparse": sparse_klr.score(X[test], y[test]),
        "SVC points": len(sparse_svc.support_) / len(train),
        "KLR points": len(sparse_klr.support_) / len(train),
        "SVC s": seconds["SVC"],
        "KLR s": seconds["KLR"],
    }


def report_grids(names: list[str], means: list[dict[str, float]]) -> None:
    rows = [
        [name, *mean.values(), mean["KLR s"] / mean["SVC s"]] for name, mean in zip(names, means, strict=True)
    ]
    rows.append(["mean", *np.mean([list(mean.values()) for mean in means], axis=0).tolist(), ""])
    show("search over C and lam: accuracy, fraction of points kept", ["set", *means[0], "time ratio"], rows)
    close = sum(mean["KLR"] >= mean["SVC"] - 0.005 for mean in means)
    small = sum(mean["KLR points"] <= 1.2 * mean["SVC points"] for mean in means)
    print(f"accuracy not more than 0.5 points below SVC: {close} of {len(means)} sets (bar: 10 of 12)")
    print(f"at most 1.2 times the points: {small} of {len(means)} (bar: 9 of 12)")
    if "spambase" in names:
        print(f"time on spambase: {rows[names.index('spambase')][-1]:.2f} of GridSearchCV(SVC) (bar: 0.5)")


SEARCHES = {"SVC": search_svc, "KLR": search_klr, "grids": compare_grids}


def n_outer(n_samples: int) -> int:
    """Return the number of outer folds: fewer for large sets, whose folds are slow and already informative."""
    return 5 if n_samples < 3000 else 2 if n_samples < 9000 else 1


def measure(name: str, fold: int, rows: int, search: str) -> dict[str, Any]:
    """Return the results of one search in one outer fold, on at most ``rows`` rows."""
    X, y = load(name)
    train, test = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))[fold]
    return SEARCHES[search](X, y, np.random.default_rng(fold).permutation(train)[:rows], test)


def stored(path: Path) -> dict[tuple, dict[str, Any]]:
    """Return the stored results by the arguments of :func:`measure`; if there are several, the last one."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {tuple(key): record for key, record in map(json.loads, lines)}


def mean(values: list[Any]) -> Any:
    """Return the mean of numbers; other values are returned as a list."""
    return values if isinstance(values[0], str) else float(np.mean(values))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--grid", action="store_true", help="compare the choice of C and lam by SKLRCV instead"
    )
    parser.add_argument("--sets", nargs="*", help="data sets (default: those with limits)")
    parser.add_argument("--folds", type=int, default=5, help="maximum number of outer folds")
    parser.add_argument("--rows", type=int, default=10**9, help="maximum number of training rows")
    parser.add_argument("--store", type=Path, default=Path("build/model_selection.jsonl"))
    parser.add_argument("--again", action="store_true", help="repeat the searches of SparseKLR")
    arguments = parser.parse_args()
    arguments.store.parent.mkdir(parents=True, exist_ok=True)
    done = stored(arguments.store)
    names, means = arguments.sets or list(NAMES if arguments.grid else JUDGED), []
    for name in names:
        records: list[dict[str, Any]] = []
        for fold in range(min(n_outer(len(load(name)[1])), arguments.folds)):
            records.append({})
            for search in ["grids"] if arguments.grid else ["SVC", "KLR"]:
                key = name, fold, arguments.rows, search
                if key not in done or (arguments.again and search == "KLR"):
                    done[key] = measure(*key)
                    with arguments.store.open("a") as file:
                        print(json.dumps([key, done[key]]), file=file)
                records[-1] |= done[key]
        means.append({key: mean([record[key] for record in records]) for key in records[0]})
        print(name, means[-1], flush=True)
    (report_grids if arguments.grid else report_kernels)(names, means)


if __name__ == "__main__":
    main()
