"""
Automatic choice of the kernel width
====================================

The most important parameter of :class:`~sparseklr.SparseKLR` is the kernel coefficient ``gamma``, which
determines the width of the kernel. No other parameter can compensate for a ``gamma`` that is wrong by a
factor of ten. By contrast, a factor of ten in ``box`` changes little: ``box`` affects only which points are
selected, not the penalised likelihood that is then maximised. The width with the smallest approximate
leave-one-out log-loss is a good choice, and computing this loss needs no repeated fits.
``SparseKLR(kernel="auto", gamma="auto")`` evaluates several kernels and widths, and ``search_results_`` lists
them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from sparseklr import SparseKLR

X, y = make_moons(300, noise=0.25, random_state=0)
X_test, y_test = make_moons(5000, noise=0.25, random_state=1)


def test_loss(model: SparseKLR) -> float:
    return log_loss(y_test, model.fit(X, y).predict_proba(X_test))


gammas, boxes = np.geomspace(0.01, 100, 9), np.geomspace(1, 1000, 4)
by_gamma = np.array([[test_loss(SparseKLR(gamma=gamma, box=box)) for box in boxes] for gamma in gammas])
by_box = np.array([test_loss(SparseKLR(box=box)) for box in boxes])

chosen = SparseKLR(kernel="auto", gamma="auto")
loss = test_loss(chosen)
tried = chosen.search_results_

# %%
# The left plot has one line for each value of ``box``; the lines have nearly the same shape. The right plot
# shows the kernels and widths that the search evaluated, with the standard errors of their leave-one-out
# losses.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", sharey=True)
colors = plt.get_cmap("viridis")(np.linspace(0, 0.85, len(boxes)))
for k, (box, color) in enumerate(zip(boxes, colors, strict=True)):
    left.plot(gammas, by_gamma[:, k], "o-", ms=3, color=color, label=f"box = {box:g}")
left.plot(chosen.gamma_, loss, "*", ms=14, color="crimson", label=f'"auto": {chosen.gamma_:.3g}')
left.set(xscale="log", xlabel="Kernel coefficient gamma", ylabel="Log-loss", title="Log-loss on test rows")
for kernel in ("rbf", "laplacian"):
    rows = np.flatnonzero(tried["kernel"] == kernel)
    rows = rows[np.argsort(tried["gamma"][rows])]
    right.errorbar(
        tried["gamma"][rows], tried["log_loss"][rows], tried["standard_error"][rows],
        marker="o", ms=4, capsize=3, label=kernel,
    )  # fmt: skip
right.set(xscale="log", xlabel="Kernel coefficient gamma", title="Leave-one-out log-loss in the search")
for axis in (left, right):
    axis.legend(fontsize="small")
plt.show()

# %%
# The following table lists the search results.
print("kernel     gamma   leave-one-out log-loss")
for kernel, gamma, value, error in zip(
    *(tried[name] for name in ("kernel", "gamma", "log_loss", "standard_error")), strict=True
):
    print(f"{kernel:9s} {gamma:6.3g}   {value:.4f} +- {error:.4f}")
print(f"test log-loss: best gamma of the grid {by_gamma.min():.3f}, chosen gamma {loss:.3f}")
print(f"highest test log-loss: over gamma {by_gamma.max():.3f}, over box {by_box.max():.3f}")
assert np.ptp(by_box) < 0.2 * np.ptp(by_gamma)
assert loss < 1.1 * by_gamma.min()
assert len(tried["gamma"]) > 2
