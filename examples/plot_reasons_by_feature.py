"""
Explaining a prediction by its features
=======================================

Which features led to a prediction, and is it worth acting on the predictions? Shapley values answer the first
question, and decision curves answer the second. The Shapley values of a row add up to the difference between
its log-odds and the mean log-odds of a sample of training rows, the background. For the rbf and Laplacian
kernels, they can be computed exactly.
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
# The features are shown in their original units, because the model contains the scaling. The bars are the
# Shapley values of the eight features with the largest effects.
doubtful = int(np.argmin(np.abs(model.decision_function(X_test))))
ShapleyDisplay.from_values(values, row=doubtful, label=1, max_features=8)
plt.show()

# %%
# All patients
# ------------
# Each dot is the Shapley value of a feature for one patient.
ShapleyDisplay.from_values(values, label=1, max_features=8)
plt.show()

# %%
# Benefit of acting on the predictions
# ------------------------------------
# The decision curves show the net benefit of acting on all patients whose predicted probability exceeds a
# threshold. A logistic regression on a single feature has a positive net benefit at thresholds up to about
# 0.6. At higher thresholds, it is better not to act at all than to act on its predictions. The model with all
# features has a larger net benefit at every threshold.
one = LogisticRegression(max_iter=1000).fit(X[["mean texture"]], y)
display = DecisionCurveDisplay.from_estimator(model, X_test, y_test)
DecisionCurveDisplay.from_estimator(
    one, X_test[["mean texture"]], y_test, name="mean texture alone", ax=display.ax_
)
plt.show()
