"""A first look: few points, honest probabilities, and how it compares with SVC."""

from __future__ import annotations

import time

from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sparseklr import SparseKLR

SETS = {
    "breast cancer (scikit-learn), 569 x 30": load_breast_cancer(return_X_y=True),
    "two moons, noisy, 6000 x 2": make_moons(6000, noise=0.3, random_state=0),
}


def main() -> None:
    for title, (X, y) in SETS.items():
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
        models = {
            "SparseKLR": SparseKLR(verbose=1),
            "SVC, calibrated": CalibratedClassifierCV(SVC(), ensemble=False),
        }
        print(f"\n{title}: {len(y_train)} rows to train on, {len(y_test)} to test")
        lines = []
        for name, model in models.items():
            start = time.perf_counter()
            fitted = make_pipeline(StandardScaler(), model).fit(X_train, y_train)
            seconds = time.perf_counter() - start
            if isinstance(model, SparseKLR):
                kept, share = len(model.support_), len(model.support_) / len(y_train)
            else:
                kept = len(model.calibrated_classifiers_[0].estimator.support_)
                share = kept / len(y_train)
            p = fitted.predict_proba(X_test)
            accuracy, loss = accuracy_score(y_test, fitted.predict(X_test)), log_loss(y_test, p)
            lines.append(f"{name:16s} {kept:5d} ({share:5.1%}) {accuracy:9.3f} {loss:9.3f} {seconds:8.2f} s")
        print(f"{'':16s} {'points kept':>13s} {'accuracy':>9s} {'log-loss':>9s} {'time':>10s}")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
