r"""
A larger nu means a larger norm of w and fewer points
=====================================================

This is the paper's second illustration. It uses the data of the first (``plot_synth_scatter.py``) and eight
values of ``nu`` from 500 to 1000. A larger ``nu`` means a larger margin, which gives the loss more weight
relative to :math:`\|w\|^2`, so the norm grows. The number of selected points falls to about a fifth and
then stays constant, because dual variables of at most C can have the sum ``nu`` only if there are at least
``nu / C`` of them.

The data and the figure come from the package ``paper`` in the repository. From its root, run ``PYTHONPATH=.
python examples/plot_synth_nu.py``.
"""

import matplotlib.pyplot as plt
import numpy as np

from paper.report import figures
from paper.synth import C, make_synth, sparse_klr, weights

X, y = make_synth()
nus = np.linspace(500, 1000, 8)
models = [sparse_klr(nu).fit(X, y) for nu in nus]
selected = np.array([len(model.support_) for model in models])
norms = np.array([np.linalg.norm(weights(model)) for model in models])

figure = figures.synth_nu(plt.figure(figsize=(7, 4.5), layout="constrained"))
figure.suptitle("Synth, linear kernel, C = 60")
plt.show()

# %%
# These assertions check the trend in the paper's figure. On the plateau the number of points may increase
# by one, like its lower bound.
assert np.all(np.diff(norms) > 0), norms
assert np.all(np.diff(selected) <= 1), selected
assert selected[-1] < 0.25 * len(y) < selected[0]
assert np.all(selected >= nus / C)
sums = [np.abs(model.dual_coef_).sum() for model in models]
np.testing.assert_allclose(sums, nus, rtol=1e-5)
