"""
Replacing SVC(probability=True)
===============================

scikit-learn 1.9 deprecates ``SVC(probability=True)``, whose ``predict`` may contradict its ``predict_proba``.
scikit-learn recommends ``CalibratedClassifierCV(SVC(), ensemble=False)`` instead, which needs six fits,
applies a sigmoid to the decision values, and keeps all support vectors. You can also replace the ``SVC`` in a
pipeline with :class:`~sparseklr.SparseKLR`, without changing the rest of the pipeline. ``SparseKLR`` needs
one fit and fewer points, and its ``predict`` always returns the most probable class.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_moons
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sparseklr import SparseKLR

before = make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False))
after = make_pipeline(StandardScaler(), SparseKLR())

# %%
# We divide each of four data sets at random into equal halves for training and testing, and repeat this five
# times.
sets = {
    "breast cancer": load_breast_cancer(return_X_y=True),
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "two moons": make_moons(800, noise=0.3, random_state=0),
}
loss = np.zeros((2, len(sets), 5))  # axes: models, data sets, draws
points = np.zeros_like(loss)
for j, (X, y) in enumerate(sets.values()):
    for draw in range(5):
        X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=draw)
        for k, model in enumerate((before, after)):
            p = model.fit(X_fit, y_fit).predict_proba(X_test)
            last = model[-1]
            inner = last if isinstance(last, SparseKLR) else last.calibrated_classifiers_[0].estimator
            loss[k, j, draw] = log_loss(y_test, p)
            points[k, j, draw] = len(inner.support_)
            assert np.array_equal(model.predict(X_test), model.classes_[p.argmax(axis=1)])

print(f"{'':14s} {'log-loss':>20s} {'points':>16s}")
print(f"{'':14s} {'SVC':>10s} {'SparseKLR':>9s} {'SVC':>6s} {'SparseKLR':>9s}")
for j, name in enumerate(sets):
    numbers = [values[k, j].mean() for values in (loss, points) for k in range(2)]
    print("{:14s} {:10.3f} {:9.3f} {:6.0f} {:9.0f}".format(name, *numbers))

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
place = np.arange(len(sets))
for axis, values, label in zip(
    axes, (loss, points), ("Test log-loss", "Training rows kept by the model"), strict=True
):
    for k, (name, color) in enumerate([("SVC, sigmoid", "0.6"), ("SparseKLR", "C0")]):
        bars = axis.bar(place + 0.4 * k - 0.2, values[k].mean(axis=1), 0.4, color=color, label=name)
        axis.bar_label(bars, fmt="%.3f" if values is loss else "%.0f", fontsize="small")
    axis.set_xticks(place, sets)
    axis.set_ylabel(label)
axes[0].legend()
figure.suptitle("Means over five random splits into training and test halves")
plt.show()

assert (points[1].mean(axis=1) < points[0].mean(axis=1)).all()
assert loss[1].mean() < loss[0].mean()
