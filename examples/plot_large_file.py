"""
Fitting a large file block by block
===================================

Training a support vector machine needs kernel values for many pairs of rows, and predicting a row needs a
kernel value for each support vector. With more than about ten thousand rows, both are slow.
:class:`~sparseklr.CompactKLR` needs only sums over the rows, so ``fit_source`` can read a file block by block
in several passes, and learn from all rows. The model has only a few points, so it predicts a million rows
quickly. The data are drawn from known densities, so the best possible log-loss is known.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from sparseklr import CompactKLR
from sparseklr.datasets import expected_log_loss, make_clusters, true_log_proba

KIND = {"n_features": 3, "n_clusters": 12}
N_ROWS, BLOCK = 300_000, 50_000

folder = tempfile.TemporaryDirectory()
features, labels = Path(folder.name) / "X.npy", Path(folder.name) / "y.npy"
X = np.lib.format.open_memmap(features, mode="w+", dtype=np.float32, shape=(N_ROWS, 3))
y = np.lib.format.open_memmap(labels, mode="w+", dtype=np.int8, shape=(N_ROWS,))
for start in range(0, N_ROWS, BLOCK):  # write the file in blocks
    X[start : start + BLOCK], y[start : start + BLOCK] = make_clusters(BLOCK, random_state=start, **KIND)
X.flush()
y.flush()

# %%
# First we fit models to the first 200, 1,000 and 5,000 rows in memory. Then ``fit_source`` takes the path of
# the file and fits a model to all rows. ``fit_source`` also accepts Parquet and CSV files, generators and the
# row sources of :mod:`sparseklr.streaming`.
X_test, _ = make_clusters(20_000, random_state=1, **KIND)
truth = true_log_proba("clusters", X_test, n_clusters=12)
models, seconds = {}, {}
for n_rows in (200, 1000, 5000, N_ROWS):
    start = time.process_time()
    model = CompactKLR(max_points=32)
    if n_rows == N_ROWS:
        models[n_rows] = model.fit_source(features, labels)
    else:
        models[n_rows] = model.fit(X[:n_rows], y[:n_rows])
    seconds[n_rows] = time.process_time() - start
loss = {n: expected_log_loss(truth, model.predict_log_proba(X_test)).mean() for n, model in models.items()}
best = expected_log_loss(truth, truth).mean()
for n, model in models.items():
    print(f"{n:7d} rows: {model.n_points_} points, log-loss {loss[n]:.4f}, {seconds[n]:.1f} s")

# %%
# Finally, we compare prediction times. The compact model predicts the whole file, and a support vector
# machine that was fitted to 5,000 rows predicts a hundredth of it.
svc, compact = SVC(C=10).fit(X[:5000], y[:5000]), models[N_ROWS]


def seconds_per_million(model: CompactKLR | SVC, rows: np.ndarray) -> float:
    start = time.process_time()
    model.predict(rows)
    return 1e6 * (time.process_time() - start) / len(rows)


pace = {
    f"CompactKLR\n{compact.n_points_} points": seconds_per_million(compact, X),
    f"SVC\n{len(svc.support_)} points": seconds_per_million(svc, X[: N_ROWS // 100]),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=[2, 1])
left.plot(list(loss), list(loss.values()), "o-", label="CompactKLR")
for n, model in models.items():
    left.annotate(f"{model.n_points_} points", (n, loss[n]), (6, 8), textcoords="offset points")
left.axhline(best, color="black", ls=":", label="true densities")
left.set(
    xscale="log", xlabel="Training rows", ylabel="Test log-loss", title="Log-loss by number of training rows"
)
left.margins(x=0.15)
left.legend()
bars = right.bar(list(pace), list(pace.values()), color=["C0", "0.6"])
right.bar_label(bars, fmt="%.2g")
right.set(yscale="log", ylabel="CPU seconds per million rows", title="Prediction time")
right.margins(y=0.15)
plt.show()

assert loss[N_ROWS] < loss[5000] < loss[200]
assert loss[N_ROWS] - best < 0.5 * (loss[5000] - best)
assert len(svc.support_) > 10 * compact.n_points_
del X, y
folder.cleanup()
