"""Fit times of S-KLR and LIBSVM in ten cases: ``python -m benchmarks.dual_speed``.

The benchmark uses five tables with features in [0, 1] and the rbf kernel with gamma = 0.5. S-KLR with C = 1e4 and
lam = 1e3 or 1e2 is compared with ``SVC(C=10)`` and ``SVC(C=100)``, whose optimisation problems are nearly the same. The
fits alternate on one thread, and the smallest CPU times are reported, because other programs affect them least. Only
ratios within a run are meaningful.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from sparseklr import SKLR

from .arena_measure import table
from .common import DATA, show

SETS = "spambase", "ring", "magic", "phoneme", "segment"


def seconds(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=SETS)
    arguments = parser.parse_args()
    rows, ratios = [], []
    for name in arguments.sets:
        features, y = table(name, str(DATA))
        X, y = MinMaxScaler().fit_transform(features.to_numpy(dtype=float)), (y == y.max()).astype(int)
        for lam in (1e3, 1e2):
            ours = SKLR(C=1e4, lam=lam, gamma=0.5, calibration=None, n_jobs=1)
            svc = SVC(C=1e4 / lam, gamma=0.5)
            with threadpool_limits(1):
                times = np.array([[seconds(m, X, y) for m in (ours, svc)] for _ in range(arguments.repeats)])
            found = times.min(axis=0)
            ratios.append(found[0] / found[1])
            rows.append([name, f"{lam:g}", *(f"{t:.3f}" for t in found), f"{ratios[-1]:.2f}"])
    mean, worst = np.exp(np.mean(np.log(ratios))), max(ratios)
    rows.append(["geometric mean, worst", "", "", "", f"{mean:.2f}, {worst:.2f}"])
    show("S-KLR against LIBSVM", ["set", "lam", "S-KLR (s)", "SVC (s)", "ratio"], rows)


if __name__ == "__main__":
    main()
