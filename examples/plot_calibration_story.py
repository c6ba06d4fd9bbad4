"""
Limits of Platt's sigmoid for support vector machines
=====================================================

This example shows why a sigmoid is not enough to turn the decision values (scores) of a support vector
machine into probabilities. The hinge loss is zero for all rows that are classified with a sufficient margin,
so the scores of these rows contain hardly any information about probabilities. The usual remedy, Platt
scaling (``CalibratedClassifierCV``), maps equal scores to equal probabilities and cannot restore this
information. :class:`~sparseklr.SparseKLR` selects a few training rows in a similar way, but then fits their
coefficients by maximum likelihood. This refit changes the decision function itself, not just its scale.

The data are drawn from known densities, so we can compare every prediction with the true probability.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import SVC

from sparseklr import ReliabilityDisplay, SparseKLR
from sparseklr.datasets import expected_log_loss, make_clusters, true_log_proba

KIND = {"n_features": 2, "n_clusters": 6}
X, y = make_clusters(600, random_state=0, **KIND)
X_test, y_test = make_clusters(6000, random_state=1, **KIND)
truth = true_log_proba("clusters", X_test, n_clusters=6)
true_prob = np.exp(truth[:, 1])

svc = SVC(C=10).fit(X, y)
sigmoid = CalibratedClassifierCV(SVC(C=10), ensemble=False).fit(X, y)
refit = SparseKLR(kernel="rbf", relevance="shared").fit(X, y)  # the same kernel as the SVC
predicted = {
    "SVC, sigmoid": sigmoid.predict_proba(X_test)[:, 1],
    "SparseKLR": refit.predict_proba(X_test)[:, 1],
}

# %%
# Scores and true log-odds
# ------------------------
# The left plot shows the scores of the support vector machine and the true log-odds. If the dots lay on a
# line, a sigmoid would suffice. The right plot shows the log-odds predicted by ``SparseKLR``, which keeps a
# tenth of the training rows.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", sharey=True)
scores = {
    "Score of the SVC": svc.decision_function(X_test),
    "Log-odds predicted by SparseKLR": refit.decision_function(X_test),
}
for axis, (name, score), points in zip(
    axes, scores.items(), (len(svc.support_), len(refit.support_)), strict=True
):
    axis.scatter(score, logit(true_prob), s=4, alpha=0.25, color="C0", linewidths=0)
    spread = np.corrcoef(score, logit(true_prob))[0, 1]
    axis.set(xlabel=name, title=f"{points} points, correlation {spread:.2f}", ylim=(-4, 4))
    axis.axhline(0, color="0.7", lw=0.8)
    axis.axvline(0, color="0.7", lw=0.8)
axes[1].axline((0, 0), slope=1, color="black", ls=":", label="equal log-odds")
axes[1].legend(loc="upper left")
axes[0].set_ylabel("True log-odds")
plt.show()

# %%
# Calibration on average and errors of individual probabilities
# -------------------------------------------------------------
# The reliability diagram of the support vector machine with a sigmoid looks good: among rows with a predicted
# probability of, say, 30%, about 30% belong to class 1. But the diagram does not show whether rows with
# different true probabilities receive the same predicted probability. The log-loss reveals this, and so does
# the root mean squared error of the predicted probabilities, which can be computed here because the true
# probabilities are known.
figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for axis, (name, prob) in zip(axes, predicted.items(), strict=True):
    ReliabilityDisplay.from_predictions(y_test, prob, n_bins=12, ax=axis)
    own = np.clip(np.column_stack([1 - prob, prob]), 1e-15, 1)
    loss = expected_log_loss(truth, np.log(own)).mean()
    error = np.sqrt(np.mean((prob - true_prob) ** 2))
    axis.set_title(f"{name}\nlog-loss {loss:.3f}, RMS error {error:.3f}", fontsize=11)
    print(f"{name:27s} log-loss {loss:.3f}, root mean squared error of the probability {error:.3f}")
print(f"{'true densities':27s} log-loss {expected_log_loss(truth, truth).mean():.3f}")
plt.show()

errors = {name: np.sqrt(np.mean((prob - true_prob) ** 2)) for name, prob in predicted.items()}
assert errors["SparseKLR"] < 0.85 * errors["SVC, sigmoid"]
assert 5 * len(refit.support_) < len(svc.support_)
