"""
Three prototypes for three kinds of wine
========================================

With more than two classes, :class:`~sparseklr.CompactKLR` fits a single model whose points are shared by all
classes. The data are chemical analyses of 178 wines from three growers. A fit to all 178 wines needs only
three points. Each point is a prototype that represents the wines of one grower: it raises the probability of
this grower for wines near it. Its coordinates have the units of the data.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sparseklr import CompactKLR, PrototypesDisplay

data = load_wine(as_frame=True)
X, y = data.data, data.target.map({0: "grower A", 1: "grower B", 2: "grower C"})
model = CompactKLR().fit(X, y)
print(f"{model.n_points_} points, validation log-loss {model.validation_log_loss_:.3f}")

# %%
# Prototypes as a table
# ---------------------
# Each row of the table is a prototype, and the columns are the most important features
# (``feature_importances_``). The colour of a cell shows the rank of its value among the values of this
# feature for all wines. Beside each prototype is the grower that it supports, and the weight of the
# prototype: its coefficient for this grower minus the mean of its coefficients for all growers.
table = PrototypesDisplay.from_estimator(model, X)
plt.show()

# %%
# Probabilities in the plane of two features
# ------------------------------------------
# The background mixes the colours of the growers in proportion to their probabilities, which are computed
# with all other features at their medians. The dots are the wines.
plane = PrototypesDisplay.from_estimator(model, X, y, features=("flavanoids", "color_intensity"))
plt.show()

# %%
# Finally, we compare the model with a calibrated support vector machine by three-fold cross-validation.
folds = StratifiedKFold(3, shuffle=True, random_state=0)
svc = make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False))
losses = {
    name: -cross_val_score(estimator, X, y, cv=folds, scoring="neg_log_loss").mean()
    for name, estimator in {"CompactKLR": CompactKLR(), "SVC, sigmoid": svc}.items()
}
print(
    "log-loss in three-fold cross-validation:",
    ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items()),
)
assert model.n_points_ <= 6
assert set(table.classes[table.codes]) == set(y)
assert losses["CompactKLR"] < losses["SVC, sigmoid"]
