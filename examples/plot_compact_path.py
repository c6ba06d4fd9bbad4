"""
Choice of the number of points in CompactKLR
============================================

How many points does a model need? :class:`~sparseklr.CompactKLR` tries 2, 4, 8, ... points for two classes,
and measures the log-loss on validation rows. It chooses the smallest number whose log-loss exceeds the
minimum by at most one standard error of the difference, or by at most 0.2% for each doubling. Models with
more points are not significantly better. ``search_results_`` lists all models that were evaluated. In this
example, a handful of points with optimised positions replace hundreds of support vectors.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from sparseklr import CompactKLR, SparseKLR

X, y = make_moons(1000, noise=0.25, random_state=2)
X_test, y_test = make_moons(5000, noise=0.25, random_state=1)

model = CompactKLR().fit(X, y)
sparse = SparseKLR().fit(X, y)
svc = SVC(C=10).fit(X, y)
path = model.search_results_
test_loss = {
    name: log_loss(y_test, fitted.predict_proba(X_test))
    for name, fitted in {"compact": model, "sparse": sparse}.items()
}

figure, axis = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
axis.errorbar(
    path["n_points"], path["log_loss"], path["standard_error"], marker="o", capsize=3,
    label="CompactKLR, validation rows (one standard error)",
)  # fmt: skip
axis.plot(
    model.n_points_, test_loss["compact"], "o", ms=13, mfc="none", mew=2, color="crimson",
    label=f"CompactKLR, test rows: {model.n_points_} points chosen",
)  # fmt: skip
axis.plot(
    len(sparse.support_), test_loss["sparse"], "s", ms=8, color="C2",
    label=f"SparseKLR, test rows: {len(sparse.support_)} rows kept",
)  # fmt: skip
axis.axvline(len(svc.support_), color="0.6", ls="--", label=f"SVC: {len(svc.support_)} support vectors")
axis.set_xscale("symlog", linthresh=2, base=2)
axis.xaxis.set_major_formatter("{x:g}")
axis.set(xlabel="Number of points", ylabel="Log-loss", title="The smallest model that is as good as the best")
axis.legend(fontsize="small")
plt.show()

# %%
# The following table lists the search results.
print("points      C   validation log-loss")
for n_points, C, loss, error in zip(
    path["n_points"], path["C"], path["log_loss"], path["standard_error"], strict=True
):
    chosen = "  chosen" if n_points == model.n_points_ else ""
    print(f"{n_points:6d} {C:6g}   {loss:.4f} +- {error:.4f}{chosen}")

assert model.n_points_ <= len(sparse.support_) < len(svc.support_)
assert test_loss["compact"] < 1.05 * test_loss["sparse"]
limit = path["log_loss"].min() + path["standard_error"][path["log_loss"].argmin()]
assert model.validation_log_loss_ <= limit
