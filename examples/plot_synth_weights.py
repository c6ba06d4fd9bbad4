r"""
Sparse KLR distributes the weight evenly, thresholding does not
===============================================================

The figure shows the relative weights :math:`\alpha_i / \sum_j \alpha_j` of the 20 points that sparse kernel
logistic regression selects at nu = 1100, and of the 20 largest dual variables of plain kernel logistic
regression (the thresholding heuristic). In the sparse model nearly all selected points are at or near their
upper bound C, as in a support vector machine; after thresholding a few misclassified points dominate.

The data and the figure come from the package ``paper`` in the repository. From the root of the repository,
run ``PYTHONPATH=.
python examples/plot_synth_weights.py``.
"""

import matplotlib.pyplot as plt
import numpy as np

from paper.report import figures
from paper.synth import make_synth

sparse, thresholded = figures.sparse_and_thresholded(*make_synth())
relative = {
    "sparse KLR": figures.relative_weights(sparse),
    "thresholding": figures.relative_weights(thresholded),
}
figure = figures.synth_weights(plt.figure(figsize=(9, 4.5), layout="constrained"))
figure.suptitle("Relative weights of the selected points, C = 60")
plt.show()

# %%
# The weights of sparse KLR have a smaller spread and a smaller maximum.
spread = {name: np.std(list(weights.values())) for name, weights in relative.items()}
largest = {name: max(weights.values()) for name, weights in relative.items()}
assert spread["sparse KLR"] < 0.5 * spread["thresholding"], spread
assert largest["sparse KLR"] < largest["thresholding"], largest
