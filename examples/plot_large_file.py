"""
A model of a few points walks through a file of any size
========================================================

The price of a prediction is the number of points. Where a support vector machine with some hundred
support vectors takes twenty seconds for a million rows, a compact model takes less than one: it can be
fitted to a sample and then walk through everything. The rows here are in a file that is mapped into
memory. Prediction reads it in blocks, and beyond its result takes no more memory for more rows.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from sparseklr import CompactKLR
from sparseklr.datasets import make_ringnorm

N_ROWS, BLOCK = 400_000, 50_000
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.npy"
rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N_ROWS, 20))
labels = np.empty(N_ROWS, dtype=np.int8)
for start in range(0, N_ROWS, BLOCK):  # written in blocks, as it would come from a data base
    rows[start : start + BLOCK], labels[start : start + BLOCK] = make_ringnorm(BLOCK, random_state=start)
rows.flush()
print(f"{path.name}: {path.stat().st_size / 2**20:.0f} MB")

# %%
# Both models are fitted to the same sample of the file.
rows = np.load(path, mmap_mode="r")
sample = np.random.default_rng(0).choice(N_ROWS, 4000, replace=False)
X, y = np.asarray(rows[np.sort(sample)]), labels[np.sort(sample)]
compact, svc = CompactKLR().fit(X, y), SVC(C=10).fit(X, y)


def microseconds(model: CompactKLR | SVC, X: np.ndarray) -> float:
    """Processor time of a prediction, per row."""
    start = time.process_time()
    model.predict(X)
    return 1e6 * (time.process_time() - start) / len(X)


# %%
# All rows by the compact model; of the machine a fortieth, which is enough to know its pace.
prob = compact.predict_proba(rows)[:, 1]
accuracy = np.mean((prob > 0.5) == labels)
pace = {"CompactKLR": microseconds(compact, rows), "SVC": microseconds(svc, rows[: N_ROWS // 40])}
size = {"CompactKLR": compact.n_points_, "SVC": len(svc.support_)}
for name in pace:
    print(f"{name:10s} {size[name]:4d} points: {pace[name]:7.2f} s for a million rows")
print(f"accuracy of CompactKLR on all {N_ROWS} rows {accuracy:.4f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for axis, values, label in (
    (left, size, "Points"),
    (right, pace, "Seconds for a million rows, one processor"),
):
    bars = axis.bar(list(values), list(values.values()), color=["C0", "0.6"])
    axis.bar_label(bars, fmt="%.3g")
    axis.set(yscale="log", ylabel=label)
    axis.margins(y=0.15)
figure.suptitle(f"Fitted to {len(y)} rows of {N_ROWS}, 20 features")
plt.show()

assert size["SVC"] > 20 * size["CompactKLR"]
assert accuracy > 0.975
del rows
folder.cleanup()
