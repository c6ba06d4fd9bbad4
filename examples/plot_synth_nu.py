"""
Norm of w and number of points as functions of nu
=================================================

This example repeats the second illustration in the paper by Consolo, Manno and Amaldi (2025). It fits sparse
kernel logistic regression to the data of the first illustration
(:ref:`sphx_glr_gallery_plot_synth_scatter.py`), for eight values of ``nu`` from 500 to 1,000. ``nu`` is the
sum of the dual variables. A larger ``nu`` means a larger margin, which requires larger values of the decision
function, so the norm of the weight vector w grows. The number of selected rows falls to about a fifth of all
rows and then stays nearly constant. It cannot fall further: each dual variable is at most C, so at least ``nu
/ C`` variables must be positive for the sum to be ``nu``.

The data and the figure come from the package ``paper`` of the repository. To run the example, enter
``PYTHONPATH=. python examples/plot_synth_nu.py`` in the root folder of the repository.
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
# The following assertions check the trend of the paper's figure. The number of points may increase by one
# where it has reached its lower bound ``nu / C``, which increases too.
assert np.all(np.diff(norms) > 0), norms
assert np.all(np.diff(selected) <= 1), selected
assert selected[-1] < 0.25 * len(y) < selected[0]
assert np.all(selected >= nus / C)
sums = [np.abs(model.dual_coef_).sum() for model in models]
np.testing.assert_allclose(sums, nus, rtol=1e-5)
