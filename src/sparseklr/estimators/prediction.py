"""Classes and probabilities from the outputs of a model, the same for every classifier here."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..probability.calibration import log_probabilities
from ..sources import is_dask, lazily


class PredictsFromOutputs:
    """Mixin of classifiers that have ``classes_`` and implement :meth:`_outputs`.

    There is one output for two classes, the logit of the second; otherwise there is one for each class. Of a
    Dask array or data frame all predictions are lazy: a Dask array that is computed chunk by chunk.
    """

    classes_: np.ndarray

    def _outputs(self, X: Any) -> np.ndarray:
        """f(x) of every output, shape (n_queries, n_outputs)."""
        raise TypeError(f"{type(self).__name__} must implement _outputs")

    def decision_function(self, X: Any) -> np.ndarray:
        """The logit of the class probabilities, which is positive for the second class.

        For more than two classes it is the output of each class. A row far from all points of the model gets
        its intercept.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples,) or (n_samples, n_classes)
        """
        if is_dask(X):
            return self._lazily(X, "decision_function")
        outputs = self._outputs(X)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples,)
        """
        if is_dask(X):
            return self._lazily(X, "predict")
        outputs = self._outputs(X)
        if len(self.classes_) == 2:
            return self.classes_[(outputs[:, 0] > 0).astype(int)]
        # Outputs that differ in the last digit may have probabilities that differ the other way.
        log_proba = self._log_proba(outputs)
        most = np.exp(log_proba) == np.exp(log_proba.max(axis=1, keepdims=True))
        return self.classes_[np.where(most, outputs, -np.inf).argmax(axis=1)]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities, accurate even where these round to 0 or 1.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples, n_classes)
        """
        if is_dask(X):
            return self._lazily(X, "predict_log_proba")
        return self._log_proba(self._outputs(X))

    def _log_proba(self, outputs: np.ndarray) -> np.ndarray:
        return log_probabilities(outputs)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities; they sum to one, and ``predict`` is the most probable class.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples, n_classes)
        """
        if is_dask(X):
            return self._lazily(X, "predict_proba")
        return np.exp(self.predict_log_proba(X))

    def _lazily(self, X: Any, method: str) -> Any:
        """What a method makes of the rows of a Dask collection, as a Dask array."""
        check_is_fitted(self)
        n_classes = len(self.classes_)
        columns = {"predict": None, "decision_function": None if n_classes == 2 else n_classes}
        dtype = self.classes_.dtype if method == "predict" else np.float64
        return lazily(X, getattr(self, method), columns.get(method, n_classes), dtype)
