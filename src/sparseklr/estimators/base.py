"""What the kernel classifiers of this package share: input checks and prediction."""

from __future__ import annotations

import copy
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import log_expit, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    check_non_negative,
    validate_data,
)

from ..data import TrainingSet
from ..kernels import NAMED_KERNELS, Kernel, check_gram


class KernelClassifier(ClassifierMixin, BaseEstimator):
    """Base of classifiers of the form ``f(x) = dual_coef_ @ k(support_vectors_, x) + intercept_``.

    A subclass implements ``_fit(X, y, sample_weight)`` and calls :meth:`_check_training` first and
    :meth:`_set_model` last. ``fit`` works on a copy, so a failed fit leaves the estimator as it was.
    """

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    class_weight: Any
    n_jobs: Any

    _parameter_constraints: dict = {
        "kernel": [StrOptions({*NAMED_KERNELS, "precomputed"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "degree": [Interval(Real, 0.0, None, closed="left")],
        "coef0": [Real],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "n_jobs": [Integral, None],
    }

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to the training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training points; the kernel matrix (n_samples, n_samples) if ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; a weight of 2 equals repeating the row, 0 equals leaving it out.

        Returns
        -------
        self : object
        """
        fitted = copy.copy(self)
        try:
            fitted._fit(X, y, sample_weight)
        except KeyboardInterrupt:
            if getattr(self, "warm_start", False):  # to be continued
                self.__dict__.update(fitted.__dict__)
            raise
        self.__dict__.update(fitted.__dict__)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        raise TypeError(f"{type(self).__name__} must implement _fit")

    def _check_training(self, X: Any, y: Any, sample_weight: Any) -> TrainingSet:
        self._validate_params()
        if self.n_jobs == 0:
            raise ValueError("n_jobs must not be 0; use None or 1 for one thread, -1 for all.")
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], accept_large_sparse=True
        )
        check_classification_targets(y)
        precomputed = self.kernel == "precomputed"
        if precomputed:
            X = X.toarray() if sparse.issparse(X) else X
            if X.shape[0] != X.shape[1]:
                raise ValueError(f"Precomputed matrix must be a square matrix; its shape is {X.shape}.")
            check_gram(X, "X (the precomputed kernel)")
        given = weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        check_non_negative(weight, "`sample_weight`")
        if not weight.any():
            raise ValueError("sample_weight must hold a positive value; all of them are zero.")
        if self.class_weight is not None:
            present = np.unique(y)
            by_class = compute_class_weight(self.class_weight, classes=present, y=y, sample_weight=weight)
            if (by_class < 0).any():
                raise ValueError(f"class_weight must be non-negative; got {self.class_weight!r}.")
            weight = weight * by_class[np.searchsorted(present, y)]
        rows = np.flatnonzero(weight > 0)
        classes, codes = np.unique(y[rows], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y must hold at least two classes (with positive weight); got only one class: {classes!r}."
            )
        if len(rows) < len(y):
            X = X[np.ix_(rows, rows)] if precomputed else X[rows]
        kernel = Kernel.resolve(
            self.kernel, X, gamma=self.gamma, coef0=self.coef0, degree=self.degree, weight=given[rows]
        )
        return TrainingSet(X, codes, classes, weight[rows], rows, len(y), kernel)

    def _set_model(self, data: TrainingSet, coef: np.ndarray, intercept: np.ndarray) -> None:
        """Keep the points with a non-zero coefficient; ``coef`` is (n_outputs, n rows of data)."""
        support = np.flatnonzero(coef.any(axis=0))
        self.classes_ = data.classes
        self.support_ = data.rows[support]
        self.support_vectors_ = data.points(support)
        self.dual_coef_ = coef[:, support]
        self.intercept_ = np.asarray(intercept, dtype=np.float64)
        self.n_support_ = np.bincount(data.codes[support], minlength=len(data.classes))
        self._kernel = data.kernel

    # -- prediction ---------------------------------------------------------------------------

    def _check_queries(self, X: Any, support: np.ndarray) -> Any:
        """Checked rows to predict; for a precomputed kernel, k(x, support)."""
        check_is_fitted(self)
        n_support = len(support)
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "accept_large_sparse": True}
        if self._kernel.precomputed:
            if np.ndim(X) == 2 and np.shape(X)[1] == n_support != self.n_features_in_:
                return check_array(X, dtype=options["dtype"])
            X = validate_data(self, X, reset=False, **options)
            X = X.toarray() if sparse.issparse(X) else X
            return X[:, support]
        return validate_data(self, X, reset=False, **options)

    def _outputs(self, X: Any) -> np.ndarray:
        """f(x) of every output, shape (n_queries, n_outputs)."""
        check_is_fitted(self)
        X = self._check_queries(X, self.support_)
        return (
            self._kernel.sum(X, self.support_vectors_, self.dual_coef_, n_jobs=self.n_jobs) + self.intercept_
        )

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
