"""Picture ``docs/front.png``: predicted probabilities and points of an SVC and of SparseKLR, legible on a phone."""

from __future__ import annotations

import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from sparseklr import SparseKLR

from .sources import at_start, record
from .store import ROOT

COLORS = np.array(["#9c2a00", "#00497a"])


def main() -> None:
    at_start("front")
    X, y = make_moons(1000, noise=0.3, random_state=0)
    X_new, y_new = make_moons(5000, noise=0.3, random_state=1)
    axis_values = np.linspace(-2, 3, 200), np.linspace(-1.6, 2.1, 150)
    grid = np.meshgrid(*axis_values)
    cells = np.column_stack([values.ravel() for values in grid])
    plt.rcParams["font.size"] = 14
    figure, axes = plt.subplots(1, 2, figsize=(6.5, 4), layout="constrained")
    for axis, model in zip(axes, (SVC(probability=True, random_state=0), SparseKLR()), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # SVC(probability=True) is deprecated
            model.fit(X, y)
        p = model.predict_proba(cells)[:, 1].reshape(grid[0].shape)
        shades = axis.contourf(*grid, p, levels=np.linspace(0, 1, 11), cmap="RdBu", alpha=0.7)
        axis.contour(*grid, p, levels=[0.5], colors="black", linewidths=2)
        axis.scatter(*X.T, c=COLORS[y], s=4, alpha=0.35, linewidths=0)
        kept = X[model.support_]
        axis.scatter(*kept.T, facecolors=COLORS[y[model.support_]], edgecolors="black", s=40, linewidths=1.2)
        loss = log_loss(y_new, model.predict_proba(X_new))
        name = type(model).__name__
        axis.set_title(f"{name}\n{len(kept)} points kept\nlog-loss {loss:.3f}", fontsize=15)
        axis.set(xticks=[], yticks=[])
    bar = figure.colorbar(shades, ax=axes, orientation="horizontal", aspect=40, ticks=[0, 0.5, 1])
    bar.ax.xaxis.set_major_formatter(PercentFormatter(1))
    bar.set_label("probability of the blue class")
    figure.savefig(ROOT / "docs" / "front.png", dpi=160)
    record("front")


if __name__ == "__main__":
    main()
