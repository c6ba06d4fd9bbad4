"""
Dropping the small dual variables of a trained model turns its boundary
=======================================================================

Sparse kernel logistic regression at nu = 1100 selects 20 of 99 points and keeps the boundary of the
dense model. Keeping the 20 largest dual variables of the dense model instead (the thresholding
heuristic that the paper argues against) gives another boundary: the balance ``sum(alpha * y) = 0``
and the pull of the many well classified points are lost. What is left are the points on the wrong
side, and more often than not they turn the boundary right around. Retraining on the kept points
mends that on data like these (in the paper's own example it did not).
"""

import matplotlib.pyplot as plt
import numpy as np
from _synth import C, draw_boundary, draw_points, make_synth, sparse_klr

from sparseklr.thresholded import ThresholdedKLR

X, y = make_synth()
sparse, dense = (sparse_klr(nu).fit(X, y) for nu in (1100, 0))
n_points = len(sparse.support_)
thresholded = ThresholdedKLR(C, n_points=n_points, kernel="linear").fit(X, y)

fig, ax = plt.subplots(figsize=(7, 6), layout="constrained")
draw_points(ax, X, y, np.intersect1d(sparse.support_, thresholded.support_))
for indices, color, label in (
    (np.setdiff1d(sparse.support_, thresholded.support_), "cyan", "selected by sparse KLR only"),
    (np.setdiff1d(thresholded.support_, sparse.support_), "black", "selected by thresholding only"),
):
    ax.scatter(*X[indices].T, s=110, facecolors="none", edgecolors=color, linewidths=2, label=label)
for model, name, style in (
    (sparse, f"sparse KLR, nu = 1100, {n_points} points", {"color": "tab:blue", "linestyle": "--"}),
    (thresholded, f"thresholding, {n_points} points", {"color": "tab:orange"}),
    (dense, f"KLR, nu = 0, {len(dense.support_)} points", {"color": "tab:green", "linestyle": "-."}),
):
    label = f"{name}: accuracy {model.score(X, y):.0%}"
    draw_boundary(ax, model, X, linewidth=2, label=label, **style)
fig.legend(loc="outside lower center", ncols=2, fontsize="small")
ax.set_title("Sparse kernel logistic regression against thresholding, C = 60")
plt.show()

# %%
# At least as accurate as thresholding on this set, and much more so over thirty others drawn alike.
assert sparse.score(X, y) >= thresholded.score(X, y)
assert set(sparse.support_) != set(thresholded.support_)
scores = []
for seed in range(30):
    X, y = make_synth(seed)
    sparse = sparse_klr(1100).fit(X, y)
    kept = {"n_points": len(sparse.support_), "kernel": "linear"}
    heuristics = [ThresholdedKLR(C, retrain=retrain, **kept).fit(X, y) for retrain in (False, True)]
    scores.append([model.score(X, y) for model in (sparse, *heuristics)])
means = dict(zip(("sparse KLR", "thresholding", "retrained"), np.mean(scores, axis=0), strict=True))
print("mean accuracy:", ", ".join(f"{name} {mean:.3f}" for name, mean in means.items()))
assert means["sparse KLR"] > means["thresholding"] + 0.1
