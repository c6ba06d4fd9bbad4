"""What a search does with the model that it has chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .explanation import Explanation
from .sparse_klr import SparseKLR


class PredictsByChosen:
    """Mixin of searches: predictions and points are those of ``best_estimator_``."""

    best_estimator_: SparseKLR

    def predict(self, X: Any) -> np.ndarray:
        """Classes predicted by the chosen model; see :meth:`SparseKLR.predict`."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def predict_proba(self, X: Any, moderated: bool = False) -> np.ndarray:
        """Class probabilities of the chosen model; see :meth:`SparseKLR.predict_proba`."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X, moderated)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Their logarithms; see :meth:`SparseKLR.predict_log_proba`."""
        check_is_fitted(self)
        return self.best_estimator_.predict_log_proba(X)

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Decision values of the chosen model; see :meth:`SparseKLR.decision_function`."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X, return_std)

    def explain(self, X: Any) -> Explanation:
        """Explanations by the chosen model; see :meth:`SparseKLR.explain`."""
        check_is_fitted(self)
        return self.best_estimator_.explain(X)

    def familiarity(self, X: Any) -> np.ndarray:
        """How familiar rows are to the chosen model; see :meth:`SparseKLR.familiarity`."""
        check_is_fitted(self)
        return self.best_estimator_.familiarity(X)

    @property
    def support_(self) -> np.ndarray:
        return self.best_estimator_.support_

    @property
    def support_vectors_(self) -> Any:
        return self.best_estimator_.support_vectors_

    @property
    def dual_coef_(self) -> np.ndarray:
        return self.best_estimator_.dual_coef_

    @property
    def intercept_(self) -> np.ndarray:
        return self.best_estimator_.intercept_

    @property
    def n_support_(self) -> np.ndarray:
        return self.best_estimator_.n_support_
