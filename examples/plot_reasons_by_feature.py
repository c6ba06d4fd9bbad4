"""
Which columns led to this prediction?
=====================================

The contributions of the points of a kernel model often cancel each other. Shapley values attribute the
log-odds to the features instead: they sum to the difference between the log-odds of a row and the mean
log-odds of background rows, which represent the training rows. They are exact for the rbf and the Laplacian
kernel. A decision curve answers a second question: whether it is worth acting on the predictions.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from sparseklr import CompactKLR, DecisionCurveDisplay, ShapleyDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, X_test, y, y_test = train_test_split(X, 1 - y, stratify=y, random_state=0)  # 1 is malignant
model = CompactKLR().fit(X, y)
values = model.explain(X_test, by="features")
np.testing.assert_allclose(
    values.values.sum(axis=1) + values.base_values, model.decision_function(X_test), atol=1e-9
)

# %%
# The patient with the most uncertain prediction
# ----------------------------------------------
# The values of the features are in their original units: the model scales them itself.
doubtful = int(np.argmin(np.abs(model.decision_function(X_test))))
ShapleyDisplay.from_values(values, row=doubtful, label=1, max_features=8)
plt.show()

# %%
# All patients
# ------------
ShapleyDisplay.from_values(values, label=1, max_features=8)
plt.show()

# %%
# Is it worth acting?
# -------------------
# With one feature alone, acting on the predictions is worthwhile at thresholds up to about 0.6; above this,
# it is better to act on no patient. The model has a larger net benefit at every threshold.
one = LogisticRegression(max_iter=1000).fit(X[["mean texture"]], y)
display = DecisionCurveDisplay.from_estimator(model, X_test, y_test)
DecisionCurveDisplay.from_estimator(
    one, X_test[["mean texture"]], y_test, name="mean texture alone", ax=display.ax_
)
plt.show()
