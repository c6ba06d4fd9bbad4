"""
From kernel logistic regression to a support vector machine
===========================================================

Sparse kernel logistic regression, :class:`~sparseklr.SKLR`, has the loss ``log(1 + exp(lam - y f))`` with a
margin ``lam``. With ``lam = 0``, it is kernel logistic regression: every training row has a coefficient, so
the model keeps all rows. As ``lam`` grows with ``C / lam`` fixed at 10, the coefficients of rows beyond
the margin vanish, and the model approaches a support vector machine. :class:`~sparseklr.SparseKLR` selects
rows in this way and then refits their coefficients by maximum likelihood. It needs only a few rows, and its
log-loss is about as low as that of kernel logistic regression with all rows. In the plots, the rows that a
model keeps, its points, are circled.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from sparseklr import SKLR, SparseKLR

X, y = make_moons(200, noise=0.3, random_state=1)
X_test, y_test = make_moons(4000, noise=0.3, random_state=2)
grid = np.meshgrid(np.linspace(-2, 3, 150), np.linspace(-1.6, 2.1, 110))
cells = np.column_stack([axis.ravel() for axis in grid])

models = {
    "lam = 0: logistic regression": SKLR(10, lam=0, gamma=1, calibration=None),
    "lam = 10": SKLR(100, lam=10, gamma=1, calibration=None),
    "lam = 1000: almost an SVM": SKLR(1e4, lam=1000, gamma=1, calibration=None),
    "SparseKLR": SparseKLR(gamma=1),
}
kept, losses = [], []
figure, axes = plt.subplots(2, 2, figsize=(7, 6.4), sharex=True, sharey=True, layout="constrained")
for axis, (title, model) in zip(axes.flat, models.items(), strict=True):
    model.fit(X, y)
    kept.append(len(model.support_))
    losses.append(log_loss(y_test, model.predict_proba(X_test)))
    p = model.predict_proba(cells)[:, 1].reshape(grid[0].shape)
    shades = axis.contourf(*grid, p, levels=np.linspace(0, 1, 11), cmap="RdBu", alpha=0.75)
    axis.contour(*grid, p, levels=[0.5], colors="black", linewidths=1.5)
    axis.scatter(*X.T, c=np.where(y == 1, "#08306b", "#67000d"), s=7, alpha=0.5)
    axis.scatter(*X[model.support_].T, facecolors="none", edgecolors="black", s=42, linewidths=0.9)
    axis.set_title(f"{title}\n{kept[-1]} points, log-loss {losses[-1]:.2f}", fontsize=13)
    axis.set(xticks=[], yticks=[])
figure.colorbar(shades, ax=axes, orientation="horizontal", aspect=40, label="P(y = 1)")

svc = SVC(C=10, gamma=1).fit(X, y)
assert kept[0] == 200 > kept[1] > kept[2] > kept[3]
assert kept[2] <= 1.1 * len(svc.support_)
assert losses[3] < 1.2 * losses[0] < losses[1] < losses[2]
plt.show()
