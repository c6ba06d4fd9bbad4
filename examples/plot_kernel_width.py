"""
The kernel's width matters most, and the fit can choose it
==========================================================

Of the parameters of :class:`~sparseklr.SparseKLR`, the width ``gamma`` of the kernel is the one worth a
thought. The weight ``C`` and the margin ``lam`` say which points are kept; the likelihood is then
fitted again on them with a strength of its own, so that a factor of ten in either hardly shows. A width
that is wrong by a factor of ten cannot be mended by anything else. The leave-one-out log-loss of the
fit finds the right one without a cross-validation: ``gamma="loo"``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from sparseklr import SparseKLR

X, y = make_moons(300, noise=0.25, random_state=0)
X_test, y_test = make_moons(5000, noise=0.25, random_state=1)


def test_loss(**parameters: float) -> float:
    return log_loss(y_test, SparseKLR(**parameters).fit(X, y).predict_proba(X_test))


gammas, Cs, ratios = np.geomspace(0.01, 100, 9), np.geomspace(1e3, 1e6, 4), np.geomspace(0.01, 1, 4)
by_gamma = np.array([[test_loss(gamma=gamma, C=C) for C in Cs] for gamma in gammas])
by_ratio = np.array([[test_loss(C=C, lam=ratio * C) for C in Cs] for ratio in ratios])
leave_one_out = [SparseKLR(gamma=gamma).fit(X, y).loo_log_loss_ for gamma in gammas]

# %%
# Left: each line is a value of C, and all of them follow the width. Right: C and the margin over two or
# three powers of ten, at the default width, on the same scale.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", sharey=True)
colors = plt.get_cmap("viridis")(np.linspace(0, 0.85, len(Cs)))
for k, (C, color) in enumerate(zip(Cs, colors, strict=True)):
    left.plot(gammas, by_gamma[:, k], "o-", ms=3, color=color, label=f"C = {C:g}")
    right.plot(ratios, by_ratio[:, k], "o-", ms=3, color=color, label=f"C = {C:g}")
left.plot(gammas, leave_one_out, "k:", label="leave-one-out, C = 10000")
chosen = SparseKLR(gamma="loo").fit(X, y)
loss = log_loss(y_test, chosen.predict_proba(X_test))
left.plot(chosen.gamma_, loss, "*", ms=14, color="crimson", label=f'gamma="loo": {chosen.gamma_:.3g}')
left.set(xscale="log", xlabel="Width gamma of the kernel", ylabel="Test log-loss", title="The width decides")
right.set(xscale="log", xlabel="Margin lam / C", title="C and the margin do not")
left.legend(fontsize="small")
plt.show()

print(f"log-loss at the best width of the grid {by_gamma.min():.3f}, with gamma='loo' {loss:.3f}")
print(f"worst for the wrong width {by_gamma.max():.3f}, for the wrong C and lam {by_ratio.max():.3f}")
assert np.ptp(by_ratio) < 0.2 * np.ptp(by_gamma)
assert loss < 1.1 * by_gamma.min()
assert abs(np.argmin(leave_one_out) - np.argmin(by_gamma.min(axis=1))) <= 2
