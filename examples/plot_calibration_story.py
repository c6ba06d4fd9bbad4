"""
One sigmoid cannot repair the scores of a support vector machine
================================================================

A support vector machine fits a boundary, not probabilities. Beyond the margin its score carries no
information about them, because the hinge loss is zero for all points that are far enough on their side. The
usual remedy, Platt's sigmoid (``CalibratedClassifierCV``), maps equal scores to equal probabilities. Sparse
kernel logistic regression keeps a few of the same points and fits their coefficients *again*, by maximum
likelihood, so that the function itself changes and not just its scale.

The data are drawn from known densities, so every prediction can be compared with the true probability.
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
refit = SparseKLR(kernel="rbf", relevance="shared").fit(X, y)  # the kernel of the SVC
predicted = {
    "SVC, sigmoid": sigmoid.predict_proba(X_test)[:, 1],
    "SparseKLR, refit": refit.predict_proba(X_test)[:, 1],
}

# %%
# Rows with the same score have different probabilities
# -----------------------------------------------------
# Left: the score of the support vector machine against the true log-odds. If the points lay on a line, one
# sigmoid would suffice. Right: the log-odds of the refit, which needs a tenth of the points.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", sharey=True)
scores = {
    "Score of the SVC": svc.decision_function(X_test),
    "Log-odds of the refit": refit.decision_function(X_test),
}
for axis, (name, score), points in zip(
    axes, scores.items(), (len(svc.support_), len(refit.support_)), strict=True
):
    axis.scatter(score, logit(true_prob), s=4, alpha=0.25, color="C0", linewidths=0)
    spread = np.corrcoef(score, logit(true_prob))[0, 1]
    axis.set(xlabel=name, title=f"{points} points: correlation {spread:.2f}", ylim=(-4, 4))
    axis.axhline(0, color="0.7", lw=0.8)
    axis.axvline(0, color="0.7", lw=0.8)
axes[1].axline((0, 0), slope=1, color="black", ls=":", label="equal")
axes[1].legend(loc="upper left")
axes[0].set_ylabel("True log-odds")
plt.show()

# %%
# Calibrated on average is not right everywhere
# ---------------------------------------------
# The reliability diagram of the sigmoid is good: among rows with the same predicted probability, this
# fraction belongs to the class. The diagram does not show, however, whether rows that deserve different
# probabilities get the same one. The log-loss does, and so does the distance from the true probabilities,
# which are unknown in practice.
figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for axis, (name, prob) in zip(axes, predicted.items(), strict=True):
    ReliabilityDisplay.from_predictions(y_test, prob, n_bins=12, ax=axis)
    own = np.clip(np.column_stack([1 - prob, prob]), 1e-15, 1)
    loss = expected_log_loss(truth, np.log(own)).mean()
    error = np.sqrt(np.mean((prob - true_prob) ** 2))
    axis.set_title(f"{name}\nlog-loss {loss:.3f}, error {error:.3f}", fontsize=11)
    print(f"{name:27s} log-loss {loss:.3f}, root mean squared error of the probability {error:.3f}")
print(f"{'true densities':27s} log-loss {expected_log_loss(truth, truth).mean():.3f}")
plt.show()

errors = {name: np.sqrt(np.mean((prob - true_prob) ** 2)) for name, prob in predicted.items()}
assert errors["SparseKLR, refit"] < 0.85 * errors["SVC, sigmoid"]
assert 5 * len(refit.support_) < len(svc.support_)
