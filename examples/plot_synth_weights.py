r"""
Weights of the selected points
==============================

This example compares the relative weights :math:`\alpha_i / \sum_j \alpha_j` of 20 points in two models. The
first is sparse kernel logistic regression in which the dual variables :math:`\alpha_i` sum to ``nu = 1100``;
it selects 20 points. Nearly all of their dual variables are at or near the upper bound C, as in a support
vector machine. The second is the thresholding heuristic, which keeps the 20 largest dual variables of kernel
logistic regression. In the second model, a few misclassified points dominate.

The data and the figure come from the package ``paper`` of the repository. To run the example, enter
``PYTHONPATH=. python examples/plot_synth_weights.py`` in the root folder of the repository.
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
# In sparse kernel logistic regression, the weights vary less and their maximum is smaller than with the
# thresholding heuristic.
spread = {name: np.std(list(weights.values())) for name, weights in relative.items()}
largest = {name: max(weights.values()) for name, weights in relative.items()}
assert spread["sparse KLR"] < 0.5 * spread["thresholding"], spread
assert largest["sparse KLR"] < largest["thresholding"], largest
