"""
Decision thresholds from costs
==============================

How should a decision threshold reflect costs? Suppose that a missed malignant tumour costs ``c`` times as
much as a false alarm. The expected cost is lowest if every tumour whose probability of being malignant
exceeds ``1 / (1 + c)`` is classified as malignant. If the probabilities are calibrated, this threshold needs
no tuning.

The uncalibrated probability of ``SKLR``, ``sigmoid(f)``, is close to 0 or 1 for nearly all patients, so the
threshold changes hardly any decision. For large ``c``, these decisions cost more than classifying every
tumour as malignant. With the calibrated probabilities of ``SparseKLR``, a larger ``c`` leads to fewer missed
tumours and more false alarms, as it should.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from sparseklr import SKLR, SparseKLR

data = load_breast_cancer()
X, y = data.data, data.target_names[data.target]
malignant = y == "malignant"
costs = np.geomspace(1, 100, 25)  # costs of a missed malignant tumour; a false alarm costs 1

# Five-fold cross-validation, repeated with five partitions: each patient is classified by models that were
# fitted to other patients.
folds = [StratifiedKFold(5, shuffle=True, random_state=seed) for seed in range(5)]
probability = {}  # probability of a malignant tumour, shape (n_partitions, n_patients)
for name, classifier in [("SKLR", SKLR(calibration=None)), ("SparseKLR", SparseKLR())]:
    model = make_pipeline(MinMaxScaler(), classifier)
    predictions = [cross_val_predict(model, X, y, cv=cv, method="predict_proba") for cv in folds]
    probability[name] = np.array(predictions)[:, :, 1]

# Fractions of missed tumours and false alarms at each threshold: arrays of shape (n_costs, n_partitions).
policies = {
    "SKLR, threshold 1 / (1 + c)": ("SKLR", 1 / (1 + costs), "C1"),
    "SparseKLR, threshold 1/2": ("SparseKLR", np.full(len(costs), 0.5), "C2"),
    "SparseKLR, threshold 1 / (1 + c)": ("SparseKLR", 1 / (1 + costs), "C0"),
}
missed, alarms, cost = {}, {}, {}
for policy, (name, thresholds, _) in policies.items():
    called = probability[name] > thresholds[:, None, None]
    missed[policy] = np.mean(malignant & ~called, axis=2)
    alarms[policy] = np.mean(~malignant & called, axis=2)
    cost[policy] = costs[:, None] * missed[policy] + alarms[policy]

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), sharex=True, layout="constrained")
for policy, (name, _, color) in policies.items():
    if policy.endswith("c)"):
        left.plot(costs, 100 * missed[policy].mean(axis=1), color=color, label=f"{name}: missed tumours")
        left.plot(costs, 100 * alarms[policy].mean(axis=1), "--", color=color, label=f"{name}: false alarms")
    mean, spread = cost[policy].mean(axis=1), cost[policy].std(axis=1)
    right.plot(costs, mean, color=color, label=policy)
    right.fill_between(costs, mean - spread, mean + spread, color=color, alpha=0.15, lw=0)
right.axhline(np.mean(~malignant), color="gray", ls=":", label="classify every tumour as malignant")
left.set(ylabel="Errors per 100 test patients", yscale="log", ylim=(0.1, 40))
left.set(yticks=[0.1, 1, 10], yticklabels=["0.1", "1", "10"])
left.set_title("The threshold 1 / (1 + c) needs calibrated probabilities")
right.set(
    ylabel="Cost per test patient",
    title="Decisions from calibrated probabilities cost less",
    ylim=(0, 1.2),
    xscale="log",
)
for axis in (left, right):
    axis.set(xticks=[1, 3, 10, 30, 100], xticklabels=["1", "3", "10", "30", "100"])
    axis.set_xlabel("Cost c of a missed tumour (a false alarm costs 1)")
    axis.legend(loc="upper left")

raw, half, refit = (cost[policy].mean(axis=1) for policy in policies)
k = int(np.argmin(np.abs(costs - 20)))
print(f"cost per patient if a missed tumour costs {costs[k]:.1f}: SKLR {raw[k]:.3f}, ", end="")
print(f"SparseKLR at threshold 1/2 {half[k]:.3f}, SparseKLR at threshold 1 / (1 + c) {refit[k]:.3f}")
saturated = [np.mean(np.abs(p - 0.5) > 0.499) for p in probability.values()]
print(f"probabilities within 0.001 of 0 or 1: SKLR {saturated[0]:.0%}, SparseKLR {saturated[1]:.0%}")
expensive = costs >= 20
assert (refit[expensive] < 0.75 * raw[expensive]).all()
assert (refit[expensive] < 0.8 * half[expensive]).all()
assert (refit < np.mean(~malignant)).all()  # always better than classifying every tumour as malignant
assert raw[-1] > np.mean(~malignant)  # for the largest cost, SKLR is worse than this rule
assert saturated[0] > 0.9
plt.show()
