"""What the kernel classifiers of this package share: input checks and prediction."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data import TrainingSet, check_indices
from ..kernels import summed_duplicates
from .explanation import ExplainsByPoints
from .familiarity import TellsFamiliarity
from .parameters import KERNEL_CONSTRAINTS, check_parameters, unused_by_kernel, warn_of_unused
from .points import ALL
from .training import ROWS, GivenData, check_data, naming_rows, training_set

# Attributes that a fit sets, besides those that end in an underscore.
_SET_BY_FIT = {
    "_calibration",
    "_kernel",
    "_n_samples",
    "_original",
    "_platt",
    "_posteriors",
    "_reference",
    "_unfinished",
    "_waiting",
}


# Predictions are in single precision if their error, estimated on this many points, is at most this.
_CHECKED_POINTS, _SINGLE_ERROR = 50, 1e-3


def blank_copy(estimator: Any) -> Any:
    """An estimator with its parameters and without anything that a fit has set."""
    cls: Any = type(estimator)
    blank = cls.__new__(cls)  # copy.copy would compute what waits for its first use
    vars(blank).update(vars(estimator))
    for name in [name for name in vars(blank) if name in _SET_BY_FIT or name.endswith("_")]:
        if not name.startswith("__"):
            del blank.__dict__[name]
    return blank


class KernelClassifier(ExplainsByPoints, TellsFamiliarity, ClassifierMixin, BaseEstimator):
    """Base of classifiers of the form ``f(x) = dual_coef_ @ k(support_vectors_, x) + intercept_``.

    A subclass implements ``_fit_data``, which calls :meth:`_training_set` first and :meth:`_set_model` last.
    ``fit`` works on a copy, so a failed fit leaves the estimator as it was.
    """

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    class_weight: Any
    n_jobs: Any
    _original: Any  # while fit works on a copy: the estimator that the user has, which callbacks get

    _parameter_constraints: dict = {**KERNEL_CONSTRAINTS}

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Explain the parameter that users of :class:`~sklearn.svm.SVC` expect.

        It stands here and not in ``__init__``, whose signature is the list of parameters for scikit-learn.
        """
        if "probability" in kwargs:
            raise TypeError(f"{cls.__name__} has no parameter probability: predict_proba is always there.")
        return super().__new__(cls)

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
        fitted = self._blank_copy()
        fitted._original = self
        try:
            fitted._check_parameters()
            precomputed = self.kernel == "precomputed"
            given = check_data(X, y, sample_weight, precomputed=precomputed, estimator=fitted)
            with naming_rows(given, **self._kernel_parameters()):
                fitted._fit_data(given)
                fitted._set_reference(given.X, given.weight)
        except KeyboardInterrupt:
            if getattr(self, "warm_start", False):  # the next fit continues from here, and nothing else
                self.__dict__ = fitted._blank_copy().__dict__
            raise
        del fitted._original
        self.__dict__ = fitted.__dict__
        return self

    def _blank_copy(self) -> Self:
        return blank_copy(self)

    def _fit_checked(self, given: GivenData) -> Self:
        """Fit to data that were checked already, with parameters that were."""
        self.n_features_in_ = given.X.shape[1]
        if given.feature_names is not None:
            self.feature_names_in_ = given.feature_names
        self._fit_data(given)
        self._set_reference(given.X, given.weight)
        return self

    def _fit_data(self, given: GivenData) -> None:
        raise TypeError(f"{type(self).__name__} must implement _fit_data")

    def _check_parameters(self) -> None:
        """Raise if a parameter is invalid; warn if one has no effect."""
        given = self.get_params(deep=False)
        check_parameters(self._parameter_constraints, given, type(self).__name__)
        warn_of_unused(type(self).__init__, given, self._unused_parameters())

    def _unused_parameters(self) -> dict[str, str]:
        """Parameters that have no effect with the others as they are, each with the reason."""
        return unused_by_kernel(self.kernel)

    def _training_set(self, given: GivenData) -> TrainingSet:
        """The data with the classes, weights and kernel that the parameters ask for."""
        return training_set(given, **self._kernel_parameters())

    def _kernel_parameters(self) -> dict[str, Any]:
        names = "kernel", "gamma", "coef0", "degree", "class_weight"
        return {name: getattr(self, name) for name in names}

    def _set_model(self, data: TrainingSet, coef: np.ndarray, intercept: np.ndarray) -> None:
        """Keep the points with a non-zero coefficient; ``coef`` is (n_outputs, n rows of data)."""
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise ValueError(
                f"the coefficients overflow: values of kernel={self.kernel!r} or C times sample_weight are "
                "too large or too small. Scale the features, the weights or C."
            )
        support = data.in_given_order(np.flatnonzero(coef.any(axis=0)))
        self.classes_ = data.classes
        self.support_ = data.positions[support]
        self.support_vectors_ = data.points(support)
        self.dual_coef_ = coef[:, support]
        if self.support_vectors_.dtype == np.float32 and not self._single_suffices(data):
            self.support_vectors_ = self.support_vectors_.astype(np.float64)  # predictions then are in it
        self.intercept_ = np.asarray(intercept, dtype=np.float64)
        self.n_support_ = np.bincount(data.codes[support], minlength=len(data.classes))
        self._kernel = data.kernel

    def _single_suffices(self, data: TrainingSet) -> bool:
        r"""Whether outputs in single precision are accurate enough, by some of the points of the model.

        Their rounding error is about the unit roundoff times :math:`\sum_b |\beta_b k(x, x_b)|`, which is
        large where large terms cancel. A precomputed kernel is as accurate as it was given.
        """
        if data.kernel.precomputed or not self.support_vectors_.shape[0]:
            return True
        some = self.support_vectors_[:: 1 + self.support_vectors_.shape[0] // _CHECKED_POINTS]
        points = self.support_vectors_.astype(np.float64)
        terms = np.abs(data.kernel.matrix(some, points)) @ np.abs(self.dual_coef_).T
        return bool((terms * np.finfo(np.float32).eps <= _SINGLE_ERROR).all())

    # -- prediction ---------------------------------------------------------------------------

    def _check_is_fitted(self) -> None:
        """Raise unless the last fit was finished."""
        if "_unfinished" in vars(self):
            raise NotFittedError(
                f"The last fit of this {type(self).__name__} was interrupted, so it cannot predict. Call fit "
                "again; with warm_start=True it goes on from where it stopped."
            )
        check_is_fitted(self)

    def _check_queries(self, X: Any, support: np.ndarray) -> Any:
        """Checked rows to predict; for a precomputed kernel, k(x, support)."""
        self._check_is_fitted()
        check_indices(X)
        n_support = len(support)
        if self._kernel.precomputed:
            if np.ndim(X) == 2 and np.shape(X)[1] == n_support != self.n_features_in_:
                return check_array(X, dtype=ROWS["dtype"])
            X = validate_data(self, X, reset=False, **ROWS)
            X = X.toarray() if sparse.issparse(X) else X
            return X[:, support]
        return validate_data(self, X, reset=False, **ROWS)

    def _outputs(self, X: Any) -> np.ndarray:
        """f(x) of every output, shape (n_queries, n_outputs)."""
        X = self._checked(X)
        return (
            self._kernel.sum(X, self.support_vectors_, self.dual_coef_, n_jobs=self.n_jobs) + self.intercept_
        )

    def _checked(self, X: Any) -> Any:
        self._check_is_fitted()
        return self._check_queries(X, self.support_)

    def _kernel_to_points(self, rows: Any, some: Any = ALL) -> np.ndarray:
        if self._kernel.precomputed:
            return np.asarray(rows, dtype=np.float64)[:, some]
        if not len(self.support_):
            return np.zeros((rows.shape[0], 0))
        points = self.support_vectors_[some]
        return self._kernel.matrix(rows, points, n_jobs=self.n_jobs).astype(np.float64, copy=False)

    def _distance_to_points(self, rows: Any) -> np.ndarray | None:
        if self._kernel.precomputed:
            return None
        if not len(self.support_):
            return np.zeros((rows.shape[0], 0))
        return euclidean_distances(*(summed_duplicates(A) for A in (rows, self.support_vectors_)))

    def _kernel_of_points(self, some: Any = ALL) -> np.ndarray:
        return self._kernel_to_points(self.support_vectors_[some].astype(np.float64), some)

    def _diagonal(self, rows: Any) -> np.ndarray | None:
        return None if self._kernel.precomputed else self._kernel.diagonal(rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
