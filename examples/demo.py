"""A first look: few points, honest probabilities, and how it compares with SVC."""

from __future__ import annotations

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sparseklr import SparseKLR

SETS = {
    "breast cancer (scikit-learn), 569 x 30": load_breast_cancer(return_X_y=True),
    "two moons, noisy, 6000 x 2": make_moons(6000, noise=0.3, random_state=0),
}


def kept(model: SparseKLR | CalibratedClassifierCV) -> int:
    if isinstance(model, SparseKLR):
        return len(model.support_)
    return len(model.calibrated_classifiers_[0].estimator.support_)


def main() -> None:
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for title, (X, y) in SETS.items():
        print(f"\n{title}: means over the test parts of 5 folds")
        lines = []
        for name, model in {
            "SparseKLR": SparseKLR(verbose=1),
            "SVC, calibrated": CalibratedClassifierCV(SVC(), ensemble=False),
        }.items():
            result = cross_validate(
                make_pipeline(StandardScaler(), model),
                X,
                y,
                cv=folds,
                scoring=["accuracy", "neg_log_loss"],
                return_estimator=True,
            )
            points = np.mean([kept(fit[-1]) for fit in result["estimator"]])
            accuracy, loss = result["test_accuracy"].mean(), -result["test_neg_log_loss"].mean()
            seconds = result["fit_time"].mean()
            share = points / (0.8 * len(y))
            size = f"{points:5.0f} ({share:5.1%})"
            lines.append(f"{name:16s} {size} {accuracy:9.3f} {loss:9.3f} {seconds:8.2f} s")
        print(f"{'':16s} {'points kept':>13s} {'accuracy':>9s} {'log-loss':>9s} {'fit time':>10s}")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
