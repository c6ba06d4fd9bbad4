"""Time and memory as functions of the numbers of rows and classes; each fit runs in its own process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from ..store import ROOT

NOTE = (
    "Each fit ran in its own process. Memory is the peak memory minus the memory of the interpreter "
    "and the data. The log-loss is measured on 5,000 new rows. The data with two classes are clusters "
    "in 10 features (`make_clusters`); the data with more classes are a noisy mixture in 20 features."
)
COLUMNS = ["model", "rows", "classes", "seconds", "memory (MB)", "points", "log-loss"]
CASES = [
    *(("SparseKLR", n, 2) for n in (1000, 4000, 16_000, 50_000)),
    *(("CompactKLR", n, 2) for n in (1000, 4000, 16_000, 100_000)),
    *(("SparseKLR", 4000, classes) for classes in (5, 20)),
]
SCRIPT = """
import resource, sys, time, warnings
import numpy as np
import sparseklr
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
warnings.simplefilter("ignore")
name, n, classes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if classes == 2:
    X, y = sparseklr.datasets.make_clusters(n + 5000, random_state=0)
else:
    X, y = make_classification(n + 5000, 20, n_informative=12, n_redundant=0, n_classes=classes, class_sep=1.5, random_state=0)
X = (X - X.mean(axis=0)) / X.std(axis=0)
make = getattr(sparseklr, name)
make().fit(X[:200], y[:200])
def status(key):
    return int(open("/proc/self/status").read().split(key + ":")[1].split()[0]) / 1024
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
before, start = status("VmRSS"), time.perf_counter()
model = make().fit(X[:n], y[:n])
seconds, peak = time.perf_counter() - start, status("VmHWM") - before
points = model.n_points_ if name == "CompactKLR" else len(model.support_)
print(seconds, peak, points, log_loss(y[n:], model.predict_proba(X[n:])))
"""


def measure() -> list[list[Any]]:
    rows = []
    for name, n, classes in CASES:
        command = [sys.executable, "-c", SCRIPT, name, str(n), str(classes)]
        run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        seconds, peak, points, loss = map(float, run.stdout.split())
        rows.append([f"`{name}()`", n, classes, seconds, round(peak), int(points), loss])
        print(*rows[-1], flush=True)
    return rows
