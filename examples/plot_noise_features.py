"""
Removing noise features
=======================

If a kernel has the same width for all features, every irrelevant feature adds noise to the distances between
rows. :class:`~sparseklr.CompactKLR` learns a width for each feature. With ``relevance="sparse"``, it also
removes features that hardly lower the validation loss. In this example, two features determine the class (two
moons), and the other ten are noise.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sparseklr import CompactKLR


def moons_and_noise(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_moons(n_rows, noise=0.25, random_state=seed)
    return np.hstack([X, np.random.default_rng(seed).normal(size=(n_rows, 10))]), y


X, y = moons_and_noise(500, seed=0)
X_test, y_test = moons_and_noise(4000, seed=1)
names = ["moon x", "moon y", *(f"noise {k}" for k in range(1, 11))]

models = {
    "SVC, sigmoid": make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False)),
    "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
    "CompactKLR, shared width": CompactKLR(relevance="shared"),
    "CompactKLR, one width per feature": CompactKLR(relevance="features"),
    "CompactKLR, sparse": CompactKLR(relevance="sparse"),
}
losses = {name: log_loss(y_test, model.fit(X, y).predict_proba(X_test)) for name, model in models.items()}
sparse = models["CompactKLR, sparse"]
losses["CompactKLR without noise features"] = log_loss(
    y_test, CompactKLR().fit(X[:, :2], y).predict_proba(X_test[:, :2])
)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained", width_ratios=[1.1, 1])
left.barh(names, sparse.feature_importances_)
left.invert_yaxis()
left.set(xlabel="Feature importance", title=f"{sparse.get_support().sum()} of {len(names)} features kept")
colors = ["0.6", "0.6", "#92c5de", "#4393c3", "#2166ac", "black"]
bars = right.barh(list(losses), list(losses.values()), color=colors)
right.bar_label(bars, fmt="%.3f", padding=3)
right.invert_yaxis()
right.set(xlabel="Test log-loss (lower is better)", title="Two moons with 10 noise features")
right.margins(x=0.15)
plt.show()

# %%
# Predictions do not depend on the dropped features.
changed = X_test.copy()
changed[:, ~sparse.get_support()] = 1e6
np.testing.assert_array_equal(sparse.predict_proba(changed), sparse.predict_proba(X_test))
print("kept:", ", ".join(np.array(names)[sparse.get_support()]))
assert sparse.get_support()[:2].all()
assert sparse.get_support()[2:].sum() <= 2
assert losses["CompactKLR, sparse"] < losses["HistGradientBoosting"] < losses["SVC, sigmoid"]
assert losses["CompactKLR, sparse"] < 1.1 * losses["CompactKLR without noise features"]
