"""
Twenty prototypes for ten handwritten digits
============================================

A kernel classifier usually contains hundreds of training rows. :class:`~sparseklr.CompactKLR` contains
prototypes instead, whose positions are optimised and which all classes share. On handwritten digits of 8 x 8
pixels, a model with twenty prototypes is about as accurate as a support vector machine with several hundred
support vectors. Twenty prototypes are few enough to inspect one by one.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from sparseklr import CompactKLR, PrototypesDisplay

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
model = CompactKLR(n_points=20).fit(X, y)
svc = SVC().fit(X, y)
print(f"CompactKLR: {model.n_points_:3d} points, accuracy {model.score(X_test, y_test):.3f}, ", end="")
print(f"log-loss {log_loss(y_test, model.predict_proba(X_test)):.3f}")
print(f"SVC:        {len(svc.support_):3d} points, accuracy {svc.score(X_test, y_test):.3f}")

# %%
# Prototypes as images
# --------------------
# The title of each image shows the digit that the prototype supports most, and a weight: the prototype's
# coefficient for this digit minus the mean of its coefficients for all digits. Prototypes are not training
# images, so the values of their pixels may lie outside the range of grey values. A digit that is written in
# two ways may have two prototypes.
display = PrototypesDisplay.from_estimator(model, image_shape=(8, 8))
plt.show()

# %%
# For comparison, the following figure shows the test image that is nearest to each prototype in the distance
# that the model's kernel uses.
nearest = model.explain(X_test).distance.argmin(axis=0)[display.shown_]
figure, axes = plt.subplots(2, 10, figsize=(11, 2.9), layout="constrained")
for axis, row in zip(axes.flat, nearest, strict=True):
    axis.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    axis.set(xticks=[], yticks=[])
    axis.set_title(f"digit {y_test[row]}", fontsize="small")
figure.suptitle("Test image nearest to each prototype")
plt.show()

assert len(set(display.codes)) == 10  # every digit is supported by a prototype
assert model.score(X_test, y_test) > 0.95
assert 20 * model.n_points_ < len(svc.support_)
