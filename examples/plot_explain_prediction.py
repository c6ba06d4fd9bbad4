"""
Explaining a diagnosis with similar patients
============================================

The log-odds of a kernel model are a sum over its points, ``f(x) = sum_b beta_b k(x, z_b) + c``. The points
``z_b`` of :class:`~sparseklr.SparseKLR` are patients in the training data. The model keeps fewer than a fifth
of the patients, so you can see which of them support the diagnosis, which oppose it, and how similar they are
to the patient in question. The contributions and the intercept add up exactly to the log-odds.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparseklr import ExplanationDisplay, SparseKLR

data = load_breast_cancer()
X, X_test, y, y_test = train_test_split(
    data.data, data.target_names[data.target], stratify=data.target, random_state=0
)
model = make_pipeline(StandardScaler(), SparseKLR()).fit(X, y)
prob = model.predict_proba(X_test)[:, 1]
accuracy = model.score(X_test, y_test)
print(f"{len(model[-1].support_)} of {len(y)} training patients kept, test accuracy {accuracy:.3f}")

# %%
# A clear and a doubtful diagnosis
# --------------------------------
# The points nearest to the doubtful case belong to both classes, and they are closer to it than any point is
# to the clear case. Their contributions are large and largely cancel each other out.
clear, doubtful = int(np.argmax(prob)), int(np.argmin(np.abs(prob - 0.5)))
figure, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
for axis, row, word in zip(axes, (clear, doubtful), ("Clear case", "Doubtful case"), strict=True):
    ExplanationDisplay.from_estimator(model, X_test, row=row, label="malignant", n_points=8, ax=axis)
    axis.set_title(f"{word}: {prob[row]:.1%} malignant; true diagnosis: {y_test[row]}")
plt.show()

# %%
# The table compares the doubtful case with the nearest patients that the model keeps, on the five features in
# which the classes differ most.
explanation = model[-1].explain(model[:-1].transform(X_test[[doubtful]]))
of_row = explanation.of_row(0, "malignant")
nearest = of_row.nearest(4)
spread = np.abs(X[y == "malignant"].mean(axis=0) - X[y == "benign"].mean(axis=0)) / X.std(axis=0)
features = np.argsort(-spread)[:5]
rows = explanation.support[nearest]
print(f"{'':24s} {'in question':>12s}" + "".join(f"{f'patient {row}':>14s}" for row in rows))
print(f"{'diagnosis':24s} {'?':>12s}" + "".join(f"{y[row]:>14s}" for row in rows))
print(
    f"{'contribution to log-odds':24s} {'':>12s}"
    + "".join(f"{of_row.contributions[k]:>+14.2f}" for k in nearest)
)
for j in features:
    values = "".join(f"{X[row, j]:>14.4g}" for row in rows)
    print(f"{data.feature_names[j]:24s} {X_test[doubtful, j]:>12.4g}{values}")

total = of_row.contributions.sum() + of_row.intercept
np.testing.assert_allclose(1 / (1 + np.exp(-total)), prob[doubtful], rtol=1e-9)
assert len(model[-1].support_) < 0.2 * len(y)
