"""
Rare classes: move the threshold, not the weights
=================================================

One row in twenty is of the class that matters. ``class_weight="balanced"`` makes a classifier call it
more often, by pretending that both classes are equally frequent; the probabilities are then those of a
world that does not exist, ten times too large. A calibrated model needs no weights: one call is worth
``c`` false alarms, and the threshold ``1 / (1 + c)`` finds as many of the rare class at the same price.
Where weighted probabilities are all one has, they can be put right by the known shares of the classes.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss

from sparseklr import ReliabilityDisplay, SparseKLR
from sparseklr.datasets import make_ringnorm


def rare(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping classes, of which class 1 is kept in one of nineteen cases."""
    X, y = make_ringnorm(2 * n_rows, n_features=4, random_state=seed)
    kept = (y == 0) | (np.random.default_rng(seed).random(len(y)) < 1 / 19)
    return X[kept], y[kept]


X, y = rare(2000, seed=0)
X_test, y_test = rare(20000, seed=1)
plain = SparseKLR().fit(X, y)
weighted = SparseKLR(class_weight="balanced").fit(X, y)
share = y.mean()
print(f"{len(y)} rows, {share:.1%} of class 1")

# Weights w1 and w0 add log(w1 / w0) to the log-odds; balanced ones are 1 / (2 share) and 1 / (2 (1 - share)).
put_right = expit(weighted.decision_function(X_test) - np.log((1 - share) / share))
predicted = {
    "no weights": plain.predict_proba(X_test)[:, 1],
    "balanced weights": weighted.predict_proba(X_test)[:, 1],
    "balanced, put right": put_right,
}

# %%
# The weighted model says 50% where 5% come true.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
colors = ["C0", "C1", "C2"]
for (name, prob), color in zip(predicted.items(), colors, strict=True):
    ReliabilityDisplay.from_predictions(y_test, prob, name=name, ax=left, histogram=False, color=color)
    print(f"{name:20s} mean probability {prob.mean():.3f}, log-loss {log_loss(y_test, prob):.3f}")
left.set_title("Weights spoil the probabilities ...")

# %%
# The cost per row where a missed row of class 1 is as bad as c false alarms, at the threshold 1 / (1 +
# c).
costs = np.geomspace(1, 100, 30)
cost = {}
for (name, prob), color in zip(predicted.items(), colors, strict=True):
    called = prob > 1 / (1 + costs[:, None])
    missed, alarms = np.mean((y_test == 1) & ~called, axis=1), np.mean((y_test == 0) & called, axis=1)
    cost[name] = costs * missed + alarms
    right.plot(costs, cost[name], color=color, label=name)
right.plot(costs, np.minimum(costs * y_test.mean(), 1 - y_test.mean()), "k:", label="call none, or all")
right.set(
    xscale="log", yscale="log", xlabel="Cost c of a missed row (a false alarm costs 1)", ylabel="Cost per row"
)
right.set_title("... and with them the decisions")
right.legend()
plt.show()

assert log_loss(y_test, predicted["balanced weights"]) > 1.5 * log_loss(y_test, predicted["no weights"])
assert predicted["balanced weights"].mean() > 2 * y_test.mean()
assert abs(predicted["no weights"].mean() / y_test.mean() - 1) < 0.15
middle = (costs > 3) & (costs < 30)
assert (cost["no weights"][middle] < cost["balanced weights"][middle]).all()
