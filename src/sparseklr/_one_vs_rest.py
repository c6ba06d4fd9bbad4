"""Prediction from the outputs of a kernel classifier: one-vs-rest, or two classes and one output."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_expit, logsumexp

from ._base import KernelClassifier


class PredictionMixin(KernelClassifier):
    """decision_function, predict and probabilities from the outputs of a kernel classifier."""

    def decision_function(self, X: Any) -> np.ndarray:
        """The logit of the class probabilities: positive for the second class.

        For more than two classes, the output of each class. A point far from all training points
        gets the intercept of the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples,) or (n_samples, n_classes)
        """
        outputs = self._outputs(X)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples,)
        """
        outputs = self._outputs(X)
        codes = (outputs[:, 0] > 0).astype(int) if len(self.classes_) == 2 else outputs.argmax(axis=1)
        return self.classes_[codes]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities, exact also where these round to 0 or 1.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples, n_classes)
        """
        outputs = self._outputs(X)
        if len(self.classes_) == 2:
            return log_expit(np.hstack([-outputs, outputs]))
        return self._log_proba(outputs)

    def _log_proba(self, outputs: np.ndarray) -> np.ndarray:
        """One-vs-rest: log sigmoid(f_k), made to sum to one."""
        log_positive = log_expit(outputs)
        return log_positive - logsumexp(log_positive, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities; they sum to one, and ``predict`` is the most probable class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples, n_classes)
        """
        return np.exp(self.predict_log_proba(X))
