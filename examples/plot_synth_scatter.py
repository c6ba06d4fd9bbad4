"""
Selected points for increasing nu
=================================

This example repeats the first illustration in the paper by Consolo, Manno and Amaldi (2025). Sparse kernel
logistic regression with a linear kernel and C = 60 is fitted to two overlapping classes. ``nu`` is the sum of
the dual variables. At ``nu=0``, the model is kernel logistic regression, which keeps nearly every row. As
``nu`` grows, the margin ``lam_`` grows too. The model drops rows far from the boundary, and the boundary
hardly moves. The data resemble the paper's data set Synth, which is not published.

The data and the figure come from the package ``paper`` of the repository. To run the example, enter
``PYTHONPATH=. python examples/plot_synth_scatter.py`` in the root folder of the repository.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from paper.report import figures
from paper.synth import make_synth, sparse_klr

X, y = make_synth()
models = [sparse_klr(nu).fit(X, y) for nu in figures.NUS]

figure = figures.synth_scatter(plt.figure(figsize=(8, 7), layout="constrained"))
figure.suptitle("Selected points (bold) of sparse kernel logistic regression, C = 60")
figure.supxlabel("First feature")
figure.supylabel("Second feature")
plt.show()

# %%
# With each larger ``nu``, fewer points are selected, and the predictions hardly change. The selected points
# lie closer to the boundary, as measured by the median of abs(f), where f is the decision function of the
# first model (``nu=0``).
selected = [len(model.support_) for model in models]
assert all(more > fewer for more, fewer in pairwise(selected)), selected
assert selected[0] > 0.85 * len(y)
assert selected[-1] < 0.4 * len(y)
assert all(np.mean(model.predict(X) == models[0].predict(X)) > 0.95 for model in models)
distances = [np.median(np.abs(models[0].decision_function(X[model.support_]))) for model in models]
assert all(far > near for far, near in pairwise(distances)), distances
assert models[0].lam_ == 0
