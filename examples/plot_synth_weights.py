r"""
Sparse KLR shares the weight out evenly, thresholding does not
==============================================================

The relative weights :math:`\alpha_i / \sum_j \alpha_j` of the 20 points that sparse kernel logistic
regression selects at nu = 1100, and of the 20 largest dual variables of plain kernel logistic
regression (the thresholding heuristic). In the sparse model nearly all selected points are at or
near their upper limit C, as in a support vector machine; after thresholding a few misclassified
points decide.
"""

import matplotlib.pyplot as plt
import numpy as np
from _synth import C, make_synth, sparse_klr

from sparseklr.thresholded import ThresholdedKLR

X, y = make_synth()
sparse = sparse_klr(1100).fit(X, y)
thresholded = ThresholdedKLR(C, n_points=len(sparse.support_), kernel="linear").fit(X, y)
models = {"sparse KLR": (sparse, "tab:blue"), "thresholding": (thresholded, "gold")}
relative = {
    name: dict(zip(model.support_, np.abs(model.dual_coef_[0]) / np.abs(model.dual_coef_).sum(), strict=True))
    for name, (model, _) in models.items()
}
indices = sorted(set().union(*relative.values()))

fig, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
for shift, (name, (_, color)) in zip((-0.2, 0.2), models.items(), strict=True):
    heights = [relative[name].get(index, 0.0) for index in indices]
    ax.bar(np.arange(len(indices)) + shift, heights, width=0.4, color=color, edgecolor="0.3", label=name)
ax.set_xticks(range(len(indices)), indices)
ax.set(xlabel="index of the point", ylabel=r"$\alpha_i\, /\, \sum_j \alpha_j$")
ax.legend()
ax.set_title("Relative weights of the selected points, C = 60")
plt.show()

# %%
# More even: a smaller spread, and a smaller largest weight.
spread = {name: np.std(list(share.values())) for name, share in relative.items()}
largest = {name: max(share.values()) for name, share in relative.items()}
assert spread["sparse KLR"] < 0.5 * spread["thresholding"], spread
assert largest["sparse KLR"] < largest["thresholding"], largest
