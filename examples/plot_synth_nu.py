r"""
Selected points fall and the norm of w grows with nu
====================================================

The paper's second illustration, on the same data as the first (``plot_synth_scatter.py``): ``nu``
from 500 to 1000 in eight steps. The margin that belongs to ``nu`` weighs the loss up against
:math:`\|w\|^2`, so the norm grows; the number of selected points falls to about a fifth and then
stays, because no fewer than ``nu / C`` dual variables below C can add up to ``nu``.

The data and the figure are those of the package ``paper`` in the repository; from its root:
``PYTHONPATH=. python examples/plot_synth_nu.py``.
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
# The trend of the paper's figure. On the plateau the number may go up by one, as its lower limit does.
assert np.all(np.diff(norms) > 0), norms
assert np.all(np.diff(selected) <= 1), selected
assert selected[-1] < 0.25 * len(y) < selected[0]
assert np.all(selected >= nus / C)
sums = [np.abs(model.dual_coef_).sum() for model in models]
np.testing.assert_allclose(sums, nus, rtol=1e-5)
