"""
Which columns led to this prediction?
=====================================

Contributions of training rows cancel each other. Shapley values attribute the log-odds to the features
instead: they lead from the mean of the training rows to the row in question. For the rbf and the Laplacian
kernel they are exact. Whether acting on the predictions pays is a second question, which a decision curve
answers.
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
# The most doubtful patient
# -------------------------
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
# One feature alone is worth using at thresholds up to about 0.6; beyond, acting on no row is better. The
# model gains more at every threshold.
one = LogisticRegression(max_iter=1000).fit(X[["mean texture"]], y)
display = DecisionCurveDisplay.from_estimator(model, X_test, y_test)
DecisionCurveDisplay.from_estimator(
    one, X_test[["mean texture"]], y_test, name="mean texture alone", ax=display.ax_
)
plt.show()
