r"""Base classes of the classifiers: ``fit``, prediction and explanation.

A *point* of a model is one of the vectors :math:`x_b` in the decision function
:math:`f(x) = \sum_b \beta_b k(x_b, x) + c`. Points are training rows, except in
:class:`~sparseklr.CompactKLR`. An *output* is a value of f; with more than two classes, each class has its
own f and its own output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from inspect import signature
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from ._utils.arrays import check_indices
from ._utils.messages import warn
from ._validation import (
    KERNEL_CONSTRAINTS,
    ROWS,
    check_data,
    check_parameters,
    kernel_parameters,
    naming_rows,
    pointing_to_tables,
    unused_by_kernel,
    warn_of_unused,
)
from .dual.one_vs_rest import BinarySolutions
from .dual.smo import Settings
from .dual.softmax import SoftmaxSolution
from .explanations import Explanation, ShapleyValues
from .kernels import Kernel, summed_duplicates
from .refit.calibration import ONE_VS_REST, Link, log_probabilities
from .samples import Samples
from .shapley import Background, Groups, ProductExpansion, as_interactions, column_positions
from .streaming.dask import is_dask, lazily

ALL = slice(None)


def set_fitted(estimator: Any, attributes: Mapping[str, Any]) -> Any:
    """Replace all fitted attributes of an estimator and return the estimator.

    No other function writes fitted attributes. ``fit`` calls this function last, so a fit that fails leaves
    the estimator unchanged.
    """
    for name in [name for name in vars(estimator) if name.endswith("_") and not name.startswith("__")]:
        delattr(estimator, name)
    for name, value in attributes.items():
        setattr(estimator, name, value)
    return estimator


class SVCParameters:
    """Mixin that explains unknown parameters in an error message, such as the parameters of SVC.

    ``__new__`` raises the error, because scikit-learn reads the parameters from the signature of
    ``__init__``.
    """

    _INSTEAD = {
        "probability": "predict_proba is always available. Omit this parameter.",
        "shrinking": "the solver decides which variables to skip. Omit this parameter.",
        "break_ties": "predict always returns the class with the largest predict_proba. Omit this parameter.",
        "decision_function_shape": "decision_function has one column for each class, as with 'ovr'. Omit "
        "this parameter.",
        "random_state": "the fit uses no random numbers. Omit this parameter.",
        "max_iter": "the fit iterates until it meets the tolerance tol. Omit this parameter.",
    }

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        known = list(signature(cls.__init__).parameters)[1:]
        for name in kwargs:
            if name not in known:
                close = get_close_matches(name, known, n=1, cutoff=0.65)
                other = f"did you mean {close[0]}?" if close else f"its parameters are {', '.join(known)}."
                raise TypeError(f"{cls.__name__} has no parameter '{name}': {cls._INSTEAD.get(name, other)}")
        return super().__new__(cls)


class PointClassifier(SVCParameters, ClassifierMixin, BaseEstimator):
    """Base class for classifiers whose outputs are ``dual_coef_ @ k(points, x) + intercept_``.

    With two classes there is one output, the logit of the second class. With more classes there is one output
    for each class. Predictions on Dask arrays and data frames are lazy: they are computed chunk by chunk. A
    subclass implements the methods that raise TypeError here.
    """

    classes_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: np.ndarray
    link_: Link = ONE_VS_REST  # function that maps the outputs of more than two classes to probabilities

    # -- for subclasses -------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def _checked(self, X: Any) -> Any:
        """Return validated rows as arguments of the kernel; raise an error if the model is not fitted."""
        raise TypeError(f"{type(self).__name__} must implement _checked")

    def _validated(self, X: Any) -> Any:
        """Return validated rows with the columns of X."""
        return self._checked(X)

    def _outputs(self, X: Any) -> np.ndarray:
        """Return the outputs f(x) as an array of shape (n_queries, n_outputs)."""
        raise TypeError(f"{type(self).__name__} must implement _outputs")

    def _kernel_to_points(self, rows: Any, some: Any = ALL) -> np.ndarray:
        """Return kernel values between validated rows and the points at the indices ``some``."""
        raise TypeError(f"{type(self).__name__} must implement _kernel_to_points")

    def _distance_to_points(self, rows: Any) -> np.ndarray | None:
        """Return distances between validated rows and the points; None if unknown."""
        raise TypeError(f"{type(self).__name__} must implement _distance_to_points")

    def _kernel_of_points(self, some: Any = ALL) -> np.ndarray:
        """Return the kernel matrix of the points at the indices ``some``."""
        raise TypeError(f"{type(self).__name__} must implement _kernel_of_points")

    def _diagonal(self, rows: Any) -> np.ndarray | None:
        """Return k(x, x) of each validated row; None if unknown."""
        raise TypeError(f"{type(self).__name__} must implement _diagonal")

    def _log_proba(self, outputs: np.ndarray) -> np.ndarray:
        """Return the logarithms of the class probabilities for given outputs."""
        return log_probabilities(outputs, self.link_)

    def _affine_calibration(self, outputs: np.ndarray) -> tuple[Any, Any]:
        """Return slope and offset of the calibrated outputs ``slope * outputs + offset``."""
        return 1.0, 0.0

    def _product_expansion(self) -> ProductExpansion:
        """Return the outputs as a sum of products over features.

        An error is raised if the kernel is not a product over features.
        """
        raise TypeError(f"{type(self).__name__} must implement _product_expansion")

    # -- prediction -----------------------------------------------------------------------------

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the decision values of the rows: logits of the second class, or one score for each class.

        The probabilities are computed from these values. The values of the rbf and Laplacian kernels fall to
        0 far from all points of the model. If the model does not scale the features, the decision values
        before calibration therefore tend to the intercept there. If it clips scaled features, they are
        constant beyond the limits, but the constants differ between directions.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,) or (n_samples, n_classes)
            Decision values.
        """
        if is_dask(X):
            return self._lazily(X, "decision_function")
        outputs = self._outputs(X)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,)
            Class labels.
        """
        if is_dask(X):
            return self._lazily(X, "predict")
        outputs = self._outputs(X)
        if len(self.classes_) == 2:
            return self.classes_[(outputs[:, 0] > 0).astype(int)]
        # Rounding errors may order two outputs differently from their probabilities.
        log_proba = self._log_proba(outputs)
        most = np.exp(log_proba) == np.exp(log_proba.max(axis=1, keepdims=True))
        return self.classes_[np.where(most, outputs, -np.inf).argmax(axis=1)]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the class probabilities.

        The logarithms are accurate even if the probabilities themselves round to 0 or 1.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples, n_classes)
            Logarithms of probabilities in the order of ``classes_``.
        """
        if is_dask(X):
            return self._lazily(X, "predict_log_proba")
        return self._log_proba(self._outputs(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples, n_classes)
            Probabilities in the order of ``classes_``.
        """
        if is_dask(X):
            return self._lazily(X, "predict_proba")
        return np.exp(self.predict_log_proba(X))

    def _lazily(self, X: Any, method: str) -> Any:
        """Return the lazy result of a prediction method on a Dask collection."""
        check_is_fitted(self)
        n_classes = len(self.classes_)
        columns = {"predict": None, "decision_function": None if n_classes == 2 else n_classes}
        dtype = self.classes_.dtype if method == "predict" else np.float64
        return lazily(X, getattr(self, method), columns.get(method, n_classes), dtype)

    # -- explanation ----------------------------------------------------------------------------

    def explain(
        self,
        X: Any,
        by: Literal["points", "features"] = "points",
        *,
        background: Any = None,
        groups: Mapping[str, Sequence[Any]] | None = None,
        interactions: bool = False,
    ) -> Any:
        """Return the contribution of each point of the model, or of each feature, to the decision values.

        With ``by="points"``, the contributions are the terms of the sum over points. With ``by="features"``,
        they are interventional Shapley values: the features of a background row are replaced one after the
        other by those of the explained row, and the Shapley value of a feature is the mean change of the
        decision value when this feature is replaced, averaged over all orders of the features and all
        background rows. Both kinds of contributions are computed without approximation. Together with a
        constant, they add up to the decision value.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to explain. The result has one number for each pair of row and point, or of row and feature.
        by : {"points", "features"}, default="points"
            Whether to explain by points or by features. ``"features"`` needs the kernel "rbf" or "laplacian",
            whose values are products over features.
        background : {array-like, sparse matrix} of shape (n_background, n_features), default=None
            Rows with which the rows of X are compared. None means up to 100 weighted rows that represent the
            training rows.
        groups : mapping of str to sequence of column names or positions, default=None
            Columns that count as one feature, such as a one-hot encoded category.
        interactions : bool, default=False
            Whether to compute the interactions of all pairs of features.

        Returns
        -------
        Explanation or ShapleyValues
            Contributions of the points, or of the features.

        See Also
        --------
        sparseklr.ExplanationDisplay : Plot of the points that contribute to one row.
        sparseklr.ShapleyDisplay : Plot of the Shapley values of one row or of many.
        """
        if by == "features":
            return self._shapley_values(X, background, groups, interactions)
        if by != "points":
            raise ValueError(f"by must be 'points' or 'features'; got {by!r}.")
        if background is not None or groups is not None or interactions:
            raise ValueError("background, groups and interactions need by='features'.")
        self._outputs(X)  # raises an error if a value overflows
        rows = self._checked(X)
        contributions = self._kernel_to_points(rows)[:, None, :] * self.dual_coef_
        outputs = contributions.sum(axis=2) + self.intercept_
        slope, offset = self._affine_calibration(outputs)
        intercept = self.intercept_ * slope + np.zeros_like(outputs) + offset
        contributions *= np.broadcast_to(slope, outputs.shape)[:, :, None]
        if len(self.classes_) == 2:
            contributions, intercept = contributions[:, 0], intercept[:, 0]
        support = getattr(self, "support_", None)
        return Explanation(contributions, intercept, self._distance_to_points(rows), support, self.classes_)

    def _shapley_values(
        self, X: Any, background: Any, groups: Mapping[str, Sequence[Any]] | None, interactions: bool
    ) -> ShapleyValues:
        """Return the Shapley values of the features for the rows of X."""
        rows = self._validated(X)
        expansion = self._product_expansion()
        others = self._background(expansion, background)
        columns = Groups.of(groups, self._column_names())
        n_jobs = getattr(self, "n_jobs", None)
        values, pairs = expansion.shapley(
            expansion.features(rows), others, columns.of_column, bool(interactions), n_jobs
        )
        both = None if pairs is None else as_interactions(pairs, values)
        base = np.tile(others.weight @ expansion.outputs(others.features), (len(values), 1))
        values = values.swapaxes(1, 2)
        both = None if both is None else np.moveaxis(both, 1, 3)
        if len(self.classes_) == 2:
            values, base, both = values[..., 0], base[:, 0], None if both is None else both[..., 0]
        return ShapleyValues(values, base, columns.data(rows), columns.names, self.classes_, both)

    def partial_dependence(self, columns: Any, grid: Any, *, background: Any = None) -> np.ndarray:
        """Return the mean decision value of the background rows with ``columns`` set to given values.

        Parameters
        ----------
        columns : str, int, or sequence of these
            Names or positions of columns of X.
        grid : array-like of shape (n_grid,) or (n_grid, n_columns)
            Values of the columns.
        background : {array-like, sparse matrix} of shape (n_background, n_features), default=None
            Background rows, as in :meth:`explain`.

        Returns
        -------
        array (n_grid,) or (n_grid, n_classes)
            Mean decision value for each row of the grid.
        """
        check_is_fitted(self)
        expansion = self._product_expansion()
        names = self._column_names()
        chosen = [columns] if isinstance(columns, str | int | np.integer) else list(columns)
        grid = np.atleast_1d(grid)
        values = check_array(grid[:, None] if grid.ndim == 1 else grid, input_name="grid")
        if values.shape[1] != len(chosen):
            raise ValueError(
                f"grid must have {len(chosen)} columns, one for each entry of columns; got {values.shape[1]}."
            )
        others = self._background(expansion, background)
        mean = expansion.partial_dependence(column_positions(chosen, names), values, others, len(names))
        return mean[:, 0] if len(self.classes_) == 2 else mean

    def gradient(self, X: Any) -> np.ndarray:
        """Return the derivatives of the decision values with respect to the features of each row.

        The Laplacian kernel is not differentiable where a feature of the row has the same value as in a point
        of the model. A skewed feature, which the model maps by rank, may cause a kink at the values of the
        training rows. In both cases, the mean of the two one-sided derivatives is returned. The derivative is
        zero where the model clips a feature.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows at which the derivatives are computed.

        Returns
        -------
        array (n_samples, n_features) or (n_samples, n_classes, n_features)
            Derivatives.
        """
        rows = self._validated(X)
        slopes = self._product_expansion().gradient(rows, self.n_features_in_)
        return slopes[:, 0] if len(self.classes_) == 2 else slopes

    def _column_names(self) -> list[str]:
        """Return the names of the columns of X; without names, x0, x1, and so on."""
        names = getattr(self, "feature_names_in_", None)
        return (
            [f"x{j}" for j in range(self.n_features_in_)] if names is None else [str(name) for name in names]
        )

    def _background(self, expansion: ProductExpansion, given: Any) -> Background:
        """Return the given rows with equal weights, or the stored rows that represent the training rows."""
        if given is not None:
            features = expansion.features(self._validated(given))
            return Background(features, np.full(features.shape[0], 1.0 / features.shape[0]))
        background = getattr(self, "_background_", None)
        if background is None:
            raise ValueError(f"this {type(self).__name__} stores no training rows; pass background.")
        return background


# -- solutions of the dual ------------------------------------------------------------------------


def certificate(solved: BinarySolutions | SoftmaxSolution) -> dict[str, Any]:
    """Return the fitted attributes that describe the convergence of the solver."""
    return {
        "n_iter_": solved.n_iter,
        "converged_": solved.converged,
        "kkt_violation_": solved.kkt_violation,
        "dual_gap_": solved.relative_gap,
    }


def warn_of_solutions(
    solved: BinarySolutions | SoftmaxSolution, settings: Settings, kernel: Any, nu: float | None = None
) -> None:
    """Warn if nu is too small, if the kernel is indefinite, or if the solver did not converge."""
    if nu is not None and isinstance(solved, BinarySolutions):
        solved.warn_about_small_nu(float(nu), settings.tol)
    if solved.indefinite:
        advice = ""
        if kernel == "precomputed":
            advice = " X must contain similarities, such as exp(-gamma * distance**2), not distances."
        warn(
            f"kernel={kernel!r} is not positive semidefinite on these data, so the solution is a stationary "
            f"point but may not be the optimum.{advice}"
        )
    if not solved.converged:
        required = settings.tolerance(float(solved.margins.max()))
        advice = "Raise tol or scale the features."
        if settings.max_iter != -1:
            advice = "Raise max_iter or tol, scale the features, or fit again with warm_start=True to resume."
        warn(
            f"The solver stopped after {solved.n_iter} pair steps with a KKT violation of "
            f"{solved.kkt_violation:.3g} (required: {required:.3g}). {advice}",
            ConvergenceWarning,
        )


# -- classifiers whose points are training rows -------------------------------------------------

# Models with float32 points predict in single precision if the rounding error of the outputs is at most
# _SINGLE_ERROR. The error is estimated at about _CHECKED_POINTS points of the model.
_CHECKED_POINTS, _SINGLE_ERROR = 50, 1e-3


class KernelClassifier(PointClassifier):
    """Base class for classifiers with ``f(x) = dual_coef_ @ k(support_vectors_, x) + intercept_``.

    A subclass implements ``_fit``, which takes validated data and returns the fitted attributes.
    """

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    class_weight: Any
    n_jobs: Any
    kernel_: Kernel

    _parameter_constraints: dict = {**KERNEL_CONSTRAINTS}

    # -- fitting ----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to the training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; the kernel matrix (n_samples, n_samples) if ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. Among rows of weight 1, a weight of 2 is equivalent to repeating the row,
            and a weight of 0 to removing it.

        Returns
        -------
        self : object
        """
        self._check_parameters()
        precomputed = self.kernel == "precomputed"
        X, y, weight, columns = check_data(X, y, sample_weight, precomputed=precomputed, estimator=self)
        with naming_rows(X, weight, **kernel_parameters(self)):
            attributes = self._fit(X, y, weight, columns.get("feature_names_in_"))
        return set_fitted(self, columns | attributes)

    def _fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, names: Any = None) -> dict[str, Any]:
        """Return the fitted attributes for validated data; ``names`` contains the feature names."""
        raise TypeError(f"{type(self).__name__} must implement _fit")

    def _check_parameters(self) -> None:
        """Raise an error if a parameter is invalid, and warn about parameters that have no effect."""
        given = {name: getattr(self, name) for name in self._parameter_constraints}
        check_parameters(self._parameter_constraints, given, type(self).__name__)
        warn_of_unused(type(self).__init__, given, self._unused_parameters())

    def _unused_parameters(self) -> dict[str, str]:
        """Return the parameters that have no effect given the other parameters, each with the reason."""
        return unused_by_kernel(self.kernel)

    # -- prediction -------------------------------------------------------------------------------

    def _checked(self, X: Any) -> Any:
        return self._features(self._validated(X))

    def _validated(self, X: Any) -> Any:
        """Return validated rows; for a precomputed kernel, their kernel values with the kept points."""
        check_is_fitted(self)
        check_indices(X)
        if not self.kernel_.precomputed:
            with pointing_to_tables(X, self):
                return validate_data(self, X, reset=False, **ROWS)
        if np.ndim(X) == 2 and np.shape(X)[1] == len(self.support_) != self.n_features_in_:
            return check_array(X, dtype=ROWS["dtype"])
        X = validate_data(self, X, reset=False, **ROWS)
        X = X.toarray() if sparse.issparse(X) else X
        return X[:, self.support_]

    def _features(self, rows: Any) -> Any:
        """Return the arguments of the kernel for validated rows."""
        return rows

    @property
    def _points_(self) -> Any:
        """The kept points as arguments of the kernel."""
        return self.support_vectors_

    def _outputs(self, X: Any) -> np.ndarray:
        X = self._checked(X)
        sums = self.kernel_.sum(X, self._points_, self.dual_coef_, n_jobs=self.n_jobs)
        return sums + self.intercept_

    def _kernel_to_points(self, rows: Any, some: Any = ALL) -> np.ndarray:
        if self.kernel_.precomputed:
            return np.asarray(rows, dtype=np.float64)[:, some]
        if not len(self.support_):
            return np.zeros((rows.shape[0], 0))
        points = self._points_[some]
        return self.kernel_.matrix(rows, points, n_jobs=self.n_jobs).astype(np.float64, copy=False)

    def _distance_to_points(self, rows: Any) -> np.ndarray | None:
        if self.kernel_.precomputed:
            return None
        if not len(self.support_):
            return np.zeros((rows.shape[0], 0))
        return euclidean_distances(*(summed_duplicates(A) for A in (rows, self._points_)))

    def _kernel_of_points(self, some: Any = ALL) -> np.ndarray:
        return self._kernel_to_points(self._points_[some].astype(np.float64), some)

    def _diagonal(self, rows: Any) -> np.ndarray | None:
        return None if self.kernel_.precomputed else self.kernel_.diagonal(rows)

    def _product_expansion(self) -> ProductExpansion:
        kernel = self.kernel_
        if kernel.name not in ("rbf", "laplacian"):
            raise ValueError(
                "explain(X, by='features'), partial_dependence and gradient need kernel='rbf' or "
                "'laplacian', whose values are products over features; this model has "
                f"kernel={kernel.name!r}. explain(X, by='points') accepts every kernel."
            )
        return ProductExpansion(
            squared=kernel.name == "rbf",
            points=self._points_.astype(np.float64),
            width=np.full(self._points_.shape[1], kernel.gamma),
            coef=self.dual_coef_,
            intercept=self.intercept_,
            column=np.arange(self.n_features_in_),
            features=lambda rows: rows.astype(np.float64),
            slopes=lambda rows: 1.0,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def expansion(samples: Samples, coef: np.ndarray, intercept: np.ndarray) -> dict[str, Any]:
    """Return the fitted attributes that describe the points with a non-zero coefficient.

    ``coef`` has the shape (n_outputs, n_rows).
    """
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError(
            f"the coefficients overflow: values of kernel={samples.kernel.name!r} or C times sample_weight "
            "are too large or too small. Scale the features, the weights or C."
        )
    support = samples.in_given_order(np.flatnonzero(coef.any(axis=0)))
    points, coef = samples.points(support), coef[:, support]
    if points.dtype == np.float32 and not _single_suffices(samples.kernel, points, coef):
        points = points.astype(np.float64)  # predict in double precision
    return {
        "classes_": samples.classes,
        "support_": samples.positions[support],
        "support_vectors_": points,
        "dual_coef_": coef,
        "intercept_": np.asarray(intercept, dtype=np.float64),
        "n_support_": np.bincount(samples.codes[support], minlength=len(samples.classes)),
        "kernel_": samples.kernel,
        "n_samples_fit_": samples.n_samples,
    }


def _single_suffices(kernel: Kernel, points: Any, coef: np.ndarray) -> bool:
    r"""Return whether outputs in single precision are accurate enough at some of the points of the model.

    The rounding error is about the unit roundoff times :math:`\sum_b |\beta_b k(x, x_b)|`. It is large if
    large terms cancel. A precomputed kernel is as accurate as the matrix passed by the user.
    """
    if kernel.precomputed or not points.shape[0]:
        return True
    some = points[:: 1 + points.shape[0] // _CHECKED_POINTS]
    terms = np.abs(kernel.matrix(some, points.astype(np.float64))) @ np.abs(coef).T
    return bool((terms * np.finfo(np.float32).eps <= _SINGLE_ERROR).all())
