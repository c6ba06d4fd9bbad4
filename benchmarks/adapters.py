"""Adapters that give all compared models the same interface: creation, convergence and number of points."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from sparseklr import SKLR, SparseKLR

try:
    import daal4py
    from sklearnex.svm import SVC as IntelSVC

    daal4py.daalinit(1)  # one thread
except ImportError:
    IntelSVC = None
try:
    from thundersvm import SVC as ThunderSVC
except (ImportError, OSError):  # OSError is raised if its compiled library cannot be loaded
    ThunderSVC = None


@dataclass(frozen=True)
class Adapter:
    """A compared model; ``make(C, lam)`` creates the model that corresponds to ``SKLR(C, lam=lam)``."""

    name: str
    make: Callable[[float, float], Any]


def points(model: Any) -> int:
    """Return the number of training points that a fitted model keeps."""
    if hasattr(model, "calibrated_classifiers_"):
        return sum(points(part.estimator) for part in model.calibrated_classifiers_)
    if hasattr(model, "steps"):
        return len(model[0].components_)
    return len(model.support_)


def fit(adapter: Adapter, C: float, lam: float, X: Any, y: Any) -> tuple[Any, bool]:
    """Fit a model, and return the model and whether it converged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model = adapter.make(C, lam).fit(X, y)
    return model, not any(issubclass(w.category, ConvergenceWarning) for w in caught)


def box(C: float, lam: float) -> float:
    """Return the C of the SVC that S-KLR with margin lam approaches."""
    return C / lam if lam > 0 else C


def adapters(gamma: float = 0.5) -> list[Adapter]:
    """Return the adapters of all installed models, beginning with those of this package."""
    found = [
        Adapter("SKLR", lambda C, lam: SKLR(C, lam=lam, gamma=gamma, calibration=None, n_jobs=1)),
        Adapter("SparseKLR", lambda C, lam: SparseKLR()),
        Adapter("SVC", lambda C, lam: SVC(C=box(C, lam), gamma=gamma, cache_size=4000)),
        Adapter(
            "SVC calibrated",
            lambda C, lam: CalibratedClassifierCV(
                SVC(C=box(C, lam), gamma=gamma, cache_size=4000), ensemble=False
            ),
        ),
        Adapter(
            "Nystroem 600 + logistic",
            lambda C, lam: make_pipeline(
                Nystroem(gamma=gamma, n_components=600, random_state=0),
                LogisticRegression(C=box(C, lam), max_iter=1000),
            ),
        ),
    ]
    if IntelSVC is not None:
        found.insert(
            3,
            Adapter("SVC intelex", lambda C, lam: IntelSVC(C=box(C, lam), gamma=gamma, cache_size=4000)),
        )
    if ThunderSVC is not None:
        found.insert(3, Adapter("ThunderSVM", lambda C, lam: ThunderSVC(C=box(C, lam), gamma=gamma)))
    return found
