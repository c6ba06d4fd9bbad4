"""
Prediction sets with a given coverage
=====================================

A prediction set contains the true class with a given frequency, the coverage. With two classes, the set
contains one class where the model is certain. Where the classes overlap, it contains both classes if the
coverage is high, and is empty if the coverage is low. An empty set means that even the more probable class
has a low probability: in at least the fraction ``coverage`` of the training rows, the true class had a higher
one. The coverage is guaranteed only on average over training samples. For a single sample of 300 rows, the
actual coverage may differ from the nominal coverage by a few percentage points.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.datasets import make_moons

from sparseklr import SparseKLR

X, y = make_moons(300, noise=0.3, random_state=0)
X_test, y_test = make_moons(5000, noise=0.3, random_state=1)
model = SparseKLR().fit(X, y)

# %%
# Regions of empty, one-class and two-class sets
# ----------------------------------------------
# A larger coverage needs larger sets: between the classes, the sets are empty at a coverage of 80%, and
# contain both classes at 95%.
grid = np.stack(np.meshgrid(np.linspace(-2, 3, 200), np.linspace(-1.5, 2, 140)), axis=-1)
colors = ListedColormap(["#dddddd", "#e6a5a0", "#9dbfe0", "#f2dc8c"])  # empty, class 0, class 1, both
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
for axis, coverage in zip(axes, (0.8, 0.95), strict=True):
    sets = model.predict_set(grid.reshape(-1, 2), coverage) @ [1, 2]
    image = axis.pcolormesh(
        grid[..., 0], grid[..., 1], sets.reshape(grid.shape[:2]), cmap=colors, vmin=-0.5, vmax=3.5
    )
    axis.scatter(*X.T, c=y, cmap=ListedColormap(["#b2182b", "#2166ac"]), s=12)
    inside = model.predict_set(X_test, coverage)[np.arange(len(y_test)), y_test].mean()
    axis.set_title(f"Nominal coverage {coverage:.0%}, on new rows {inside:.1%}")
bar = figure.colorbar(image, ax=axes, ticks=range(4))
bar.ax.set_yticklabels(["empty", "class 0", "class 1", "both"])
plt.show()

# %%
# Mean coverage over training samples
# -----------------------------------
found = [
    SparseKLR().fit(*make_moons(300, noise=0.3, random_state=seed)).predict_set(X_test, 0.9)
    for seed in range(10)
]
coverage = [sets[np.arange(len(y_test)), y_test].mean() for sets in found]
print(f"coverage of 90% sets: mean {np.mean(coverage):.3f}, from {min(coverage):.3f} to {max(coverage):.3f}")
assert abs(np.mean(coverage) - 0.9) < 0.03
