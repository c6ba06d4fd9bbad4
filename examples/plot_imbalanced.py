"""
Rare classes: thresholds instead of weights
===========================================

In this example, one row in twenty belongs to the class of interest. ``class_weight="balanced"`` makes a
classifier predict as if both classes were equally frequent. The predicted probabilities of the rare class are
then several times too large. A calibrated model needs no weights. If a missed row of the rare class costs as
much as ``c`` false alarms, predict the rare class whenever its probability exceeds ``1 / (1 + c)``. If only a
weighted model is available, you can correct its probabilities with the known class fractions.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss

from sparseklr import ReliabilityDisplay, SparseKLR
from sparseklr.datasets import make_ringnorm


def rare(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw two overlapping classes, and keep one in nineteen rows of class 1."""
    X, y = make_ringnorm(2 * n_rows, n_features=4, random_state=seed)
    kept = (y == 0) | (np.random.default_rng(seed).random(len(y)) < 1 / 19)
    return X[kept], y[kept]


X, y = rare(2000, seed=0)
X_test, y_test = rare(20000, seed=1)
plain = SparseKLR().fit(X, y)
weighted = SparseKLR(class_weight="balanced").fit(X, y)
fraction = y.mean()
print(f"{len(y)} rows, {fraction:.1%} of class 1")

# Weights w1 and w0 add log(w1 / w0) to the log-odds; balanced weights are 1 / (2 fraction) and 1 / (2 (1 -
# fraction)).
corrected = expit(weighted.decision_function(X_test) - np.log((1 - fraction) / fraction))
predicted = {
    "no weights": plain.predict_proba(X_test)[:, 1],
    "balanced weights": weighted.predict_proba(X_test)[:, 1],
    "balanced, corrected": corrected,
}

# %%
# The reliability diagram compares predicted probabilities with observed frequencies. Among rows for which
# the weighted model predicts a probability of 50%, only about 5% belong to class 1.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
colors = ["C0", "C1", "C2"]
for (name, prob), color in zip(predicted.items(), colors, strict=True):
    ReliabilityDisplay.from_predictions(y_test, prob, name=name, ax=left, histogram=False, color=color)
    print(f"{name:20s} mean probability {prob.mean():.3f}, log-loss {log_loss(y_test, prob):.3f}")
left.set_title("Reliability diagram")

# %%
# Suppose that a missed row of class 1 costs as much as c false alarms. The right plot shows the cost per
# row at the threshold 1 / (1 + c).
costs = np.geomspace(1, 100, 30)
cost = {}
for (name, prob), color in zip(predicted.items(), colors, strict=True):
    called = prob > 1 / (1 + costs[:, None])
    missed, alarms = np.mean((y_test == 1) & ~called, axis=1), np.mean((y_test == 0) & called, axis=1)
    cost[name] = costs * missed + alarms
    right.plot(costs, cost[name], color=color, label=name)
right.plot(
    costs, np.minimum(costs * y_test.mean(), 1 - y_test.mean()), "k:", label="best constant prediction"
)
right.set(
    xscale="log", yscale="log", xlabel="Cost c of a missed row (a false alarm costs 1)", ylabel="Cost per row"
)
right.set_title("Cost of the decisions")
right.legend()
plt.show()

assert log_loss(y_test, predicted["balanced weights"]) > 1.5 * log_loss(y_test, predicted["no weights"])
assert predicted["balanced weights"].mean() > 2 * y_test.mean()
assert abs(predicted["no weights"].mean() / y_test.mean() - 1) < 0.15
middle = (costs > 3) & (costs < 30)
assert (cost["no weights"][middle] < cost["balanced weights"][middle]).all()
