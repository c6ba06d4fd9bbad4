"""Base classes of the classifiers: prediction, explanation, familiarity and the skeleton of ``fit``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.linalg import LinAlgError
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

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
from .conformal import HeldOut, HeldOutProbabilities
from .dual.one_vs_rest import BinarySolutions
from .dual.smo import Settings
from .dual.softmax import SoftmaxSolution
from .kernels import Kernel, summed_duplicates
from .refit.calibration import ONE_VS_REST, Link, log_probabilities
from .refit.posterior import Span, rank, reference_quantiles, representatives
from .samples import DistinctPoints, Samples, check_indices
from .shapley import (
    Background,
    Groups,
    ProductExpansion,
    ShapleyValues,
    as_interactions,
    column_positions,
)
from .streaming.dask import is_dask, lazily

ALL = slice(None)


@dataclass(frozen=True, eq=False)
class RowExplanation:
    """The log-odds of one class for one row; positive contributions support the class.

    Attributes
    ----------
    label : object
        The class.
    contributions : array (n_points,)
    intercept : float
        The log-odds before any point contributes.
    distance : array (n_points,) or None
    """

    label: Any
    contributions: np.ndarray
    intercept: float
    distance: np.ndarray | None

    @property
    def log_odds(self) -> float:
        """Log-odds of the class against the others: the sum of all contributions and the intercept."""
        return float(self.contributions.sum() + self.intercept)

    def strongest(self, n_points: int = 10) -> np.ndarray:
        """Positions of the points with the largest absolute contributions, largest first."""
        return np.argsort(-np.abs(self.contributions), kind="stable")[:n_points]

    def nearest(self, n_points: int = 10) -> np.ndarray:
        """Positions of the nearest points, or :meth:`strongest` if distances are unknown."""
        if self.distance is None:
            return self.strongest(n_points)
        return np.argsort(self.distance, kind="stable")[:n_points]


@dataclass(frozen=True, eq=False)
class Explanation:
    r"""Contribution of every point of a model to the decision values of some rows.

    A decision value is a sum over the points of the model, :math:`f(x) = \sum_b \beta_b k(x_b, x) + c`, so
    the explanation is exact: ``contributions.sum(axis=-1) + intercept`` is ``decision_function(X)``.

    Attributes
    ----------
    contributions : array (n_samples, n_points) or (n_samples, n_classes, n_points)
        :math:`\beta_b k(x_b, x)`. With two classes the middle axis is absent and positive values support the
        second class. With a calibration they are multiplied by the ratio of the calibrated output to f.
    intercept : array (n_samples,) or (n_samples, n_classes)
    distance : array (n_samples, n_points) or None
        Euclidean distance of each row from each point. :class:`~sparseklr.SparseKLR` and
        :class:`~sparseklr.CompactKLR` measure it in features that are scaled and weighted by relevance. None
        for a precomputed kernel.
    support : array (n_points,) or None
        Indices of the points among the training rows; None if the points are not training rows.
    classes : array (n_classes,)
    """

    contributions: np.ndarray
    intercept: np.ndarray
    distance: np.ndarray | None
    support: np.ndarray | None
    classes: np.ndarray

    def of_row(self, row: int = 0, label: Any = None) -> RowExplanation:
        """The log-odds of a class for one row.

        Parameters
        ----------
        row : int, default=0
            Position among the explained rows.
        label : object, default=None
            The class; None means the most probable class of the row.

        Returns
        -------
        RowExplanation
        """
        contributions, intercept = self.contributions[row], self.intercept[row]
        value = contributions.sum(axis=-1) + intercept
        if label is None:
            code = int(value > 0) if value.ndim == 0 else int(np.argmax(value))
        else:
            known = np.flatnonzero(self.classes == label)
            if not len(known):
                raise ValueError(f"label must be one of {self.classes.tolist()}; got {label!r}.")
            code = int(known[0])
        if value.ndim == 0:
            sign = 1.0 if code == 1 else -1.0
            contributions, intercept = sign * contributions, sign * intercept
        else:
            contributions, intercept = contributions[code], intercept[code]
        distance = None if self.distance is None else self.distance[row]
        return RowExplanation(self.classes[code], contributions, float(intercept), distance)


def set_fitted(estimator: Any, attributes: Mapping[str, Any]) -> Any:
    """Replace all fitted attributes. No other function writes them.

    ``fit`` calls it last, so a fit that fails leaves the estimator unchanged.
    """
    for name in [name for name in vars(estimator) if name.endswith("_") and not name.startswith("__")]:
        delattr(estimator, name)
    for name, value in attributes.items():
        setattr(estimator, name, value)
    return estimator


class SVCParameters:
    """Raises an informative error for parameters that users of :class:`~sklearn.svm.SVC` expect.

    ``__init__`` cannot do this: scikit-learn reads the parameters from its signature.
    """

    _INSTEAD = {
        "probability": "predict_proba is always available. Leave it out.",
        "shrinking": "the solver decides by itself which variables to skip. Leave it out.",
        "break_ties": "predict always returns the class with the largest predict_proba. Leave it out.",
        "decision_function_shape": "decision_function has one column for each class, as with 'ovr'. Leave "
        "it out.",
    }

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        for name, instead in cls._INSTEAD.items():
            if name in kwargs:
                raise TypeError(f"{cls.__name__} has no parameter {name}: {instead}")
        return super().__new__(cls)


class PointClassifier(SVCParameters, ClassifierMixin, BaseEstimator):
    """Base of classifiers whose outputs are ``dual_coef_ @ k(points, x) + intercept_``.

    Two classes have one output, the logit of the second class; more classes have one output each.
    Predictions on Dask arrays and data frames are lazy: they are computed chunk by chunk.
    A subclass implements the methods that raise TypeError here.
    """

    classes_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: np.ndarray
    link_: Link = ONE_VS_REST  # map from the outputs of more than two classes to probabilities

    # -- for subclasses -------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def _checked(self, X: Any) -> Any:
        """Validated rows; raises if the model is not fitted."""
        raise TypeError(f"{type(self).__name__} must implement _checked")

    def _validated(self, X: Any) -> Any:
        """Validated rows in the columns of X."""
        return self._checked(X)

    def _outputs(self, X: Any) -> np.ndarray:
        """Outputs f(x), (n_queries, n_outputs)."""
        raise TypeError(f"{type(self).__name__} must implement _outputs")

    def _kernel_to_points(self, rows: Any, some: Any = ALL) -> np.ndarray:
        """Kernel values between validated rows and the points at the indices ``some``."""
        raise TypeError(f"{type(self).__name__} must implement _kernel_to_points")

    def _distance_to_points(self, rows: Any) -> np.ndarray | None:
        """Distances between validated rows and the points; None if unknown."""
        raise TypeError(f"{type(self).__name__} must implement _distance_to_points")

    def _kernel_of_points(self, some: Any = ALL) -> np.ndarray:
        """Kernel matrix of the points at the indices ``some``."""
        raise TypeError(f"{type(self).__name__} must implement _kernel_of_points")

    def _diagonal(self, rows: Any) -> np.ndarray | None:
        """k(x, x) of each validated row; None if unknown."""
        raise TypeError(f"{type(self).__name__} must implement _diagonal")

    def _log_proba(self, outputs: np.ndarray) -> np.ndarray:
        return log_probabilities(outputs, self.link_)

    def _affine_calibration(self, outputs: np.ndarray) -> tuple[Any, Any]:
        """Slope and offset of the calibrated output ``slope * outputs + offset``."""
        return 1.0, 0.0

    def _product_expansion(self) -> ProductExpansion:
        """The outputs as a sum of products over features; raises if the kernel is not such a product."""
        raise TypeError(f"{type(self).__name__} must implement _product_expansion")

    def _default_background(self) -> Background | None:
        """Rows that represent the training rows; None if the model does not have them."""
        return None

    # -- prediction -----------------------------------------------------------------------------

    def decision_function(self, X: Any) -> np.ndarray:
        """Logit of the probability of the second class; for more than two classes, the output of each class.

        Far from all points, a model with the rbf or the Laplacian kernel predicts a constant.

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
        """Most probable class of each row.

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
        # Outputs may differ by rounding in the opposite direction to the probabilities.
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

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, which sum to one.

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
        """Lazy result of a prediction method on a Dask collection."""
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
        """Contribution of each point of the model, or of each feature, to the decision values of the rows.

        By points, the contributions are the terms of the sum over points. By features, they are Shapley
        values: the mean change of the decision value when the value of the feature replaces that of a
        background row, over all orders in which features are replaced (interventional Shapley values). Both
        are exact and add up to the decision values.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to explain. The result has one number for each pair of row and point, or of row and feature.
        by : {"points", "features"}, default="points"
            ``"features"`` needs the kernel "rbf" or "laplacian", whose values are products over features.
        background : {array-like, sparse matrix} of shape (n_background, n_features), default=None
            Rows that the rows of X are compared with; None means up to 100 weighted rows that represent the
            training rows.
        groups : mapping of str to sequence of column names or positions, default=None
            Columns that count as one feature, such as a one-hot encoded category.
        interactions : bool, default=False
            Whether to compute the interactions of all pairs of features.

        Returns
        -------
        Explanation or ShapleyValues

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
        self._outputs(X)  # raises if a value overflows
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
        """Mean decision value of the background rows with some columns set to given values.

        Parameters
        ----------
        columns : str, int, or sequence of these
            Columns of X, by name or position.
        grid : array-like of shape (n_grid,) or (n_grid, n_columns)
            Values of the columns.
        background : {array-like, sparse matrix} of shape (n_background, n_features), default=None
            As in :meth:`explain`.

        Returns
        -------
        array (n_grid,) or (n_grid, n_classes)
        """
        check_is_fitted(self)
        expansion = self._product_expansion()
        names = self._column_names()
        chosen = [columns] if isinstance(columns, str | int | np.integer) else list(columns)
        values = check_array(np.asarray(grid).reshape(len(grid), -1), input_name="grid")
        if values.shape[1] != len(chosen):
            raise ValueError(f"grid must have {len(chosen)} columns, like columns; got {values.shape[1]}.")
        others = self._background(expansion, background)
        mean = expansion.partial_dependence(column_positions(chosen, names), values, others, len(names))
        return mean[:, 0] if len(self.classes_) == 2 else mean

    def gradient(self, X: Any) -> np.ndarray:
        """Derivatives of the decision values with respect to the features of each row.

        The Laplacian kernel is not differentiable at the points of the model; there the mean of both
        one-sided derivatives is returned. The derivative is zero where the model clips a feature.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples, n_features) or (n_samples, n_classes, n_features)
        """
        rows = self._validated(X)
        slopes = self._product_expansion().gradient(rows, self.n_features_in_)
        return slopes[:, 0] if len(self.classes_) == 2 else slopes

    def _column_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return (
            [f"x{j}" for j in range(self.n_features_in_)] if names is None else [str(name) for name in names]
        )

    def _background(self, expansion: ProductExpansion, given: Any) -> Background:
        """The given rows with equal weights, or the rows that represent the training rows."""
        if given is not None:
            features = expansion.features(self._validated(given))
            return Background(features, np.full(features.shape[0], 1.0 / features.shape[0]))
        background = self._default_background()
        if background is None:
            raise ValueError(f"this {type(self).__name__} does not keep training rows: give background=.")
        return background


# -- familiarity --------------------------------------------------------------------------------

# Number of distinct training rows kept as a sample of all of them.
_TRAINING_ROWS = 2000
_BLOCK = 8192


class TrainingRows(NamedTuple):
    """A sample of the distinct training rows, and the positions of the model's points among them."""

    X: Any
    weight: np.ndarray
    point_rows: np.ndarray  # row of each point; at least len(X) for points outside the sample

    @classmethod
    def of(cls, points: DistinctPoints, kept: np.ndarray) -> TrainingRows:
        """The first distinct points (in pseudo-random order); those of the model are at ``kept``."""
        sample = slice(0, _TRAINING_ROWS)
        return cls(points.X[sample].copy(), points.weight[sample].sum(axis=1), kept)


class FamiliarityMixin(PointClassifier):
    """Adds ``familiarity``. A fit sets ``_training_rows_``, or ``_reference_`` directly."""

    _training_rows_: TrainingRows | None

    def familiarity(self, X: Any) -> np.ndarray:
        r"""Similarity of each row of X to the training data, as a rank among the training rows.

        The projection of the kernel function :math:`k(x, \cdot)` onto those of the model's points z has the
        fraction :math:`k_{xz} K_{zz}^{-1} k_{zx} / k(x, x)` of its squared norm: 1 at a point, near 0 far
        from all points. The familiarity of a row is the proportion of the training rows whose fraction is no
        larger (for a training row that is a point of the model, the fraction explained by the other points).
        So a familiarity of 0.05 means that 95% of the training rows have a larger fraction. A familiarity
        near zero means that the training data contain nothing similar to the row, and that its predicted
        probability is an extrapolation.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples,)
            In [0, 1]; approximately uniform for rows drawn like the training rows.

        Notes
        -----
        With a kernel of low rank, such as the linear one, a few points explain every row and all rows are
        equally familiar. A precomputed kernel, for which k(x, x) is unknown, and a kernel that is not
        positive semidefinite raise an error.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from sparseklr import SparseKLR
        >>> X, y = make_moons(200, noise=0.2, random_state=0)
        >>> SparseKLR().fit(X, y).familiarity([[0.5, 0.25], [4.0, 4.0]]) > 0.05
        array([ True, False])
        """
        rows = self._checked(X)
        if self._diagonal(rows[:0]) is None:
            raise ValueError("familiarity(X) needs k(x, x), which kernel='precomputed' does not provide.")
        if self._reference_ is None:
            raise ValueError(
                "familiarity is undefined: the kernel is not positive semidefinite on the points."
            )
        span, chosen = self._span()
        blocks = [rows[start : start + _BLOCK] for start in range(0, rows.shape[0], _BLOCK)]
        explained = [self._explained(span, chosen, block) for block in blocks]
        return rank(np.concatenate(explained), self._reference_)

    def _span(self) -> tuple[Span, np.ndarray]:
        """The span of the points, or of a sample of them, and their indices."""
        chosen = representatives(self.dual_coef_.shape[1])
        return Span(self._kernel_of_points(chosen)), chosen

    def _explained(self, span: Span, chosen: np.ndarray, rows: Any) -> np.ndarray:
        rows = rows.astype(np.float64)
        diagonal = self._diagonal(rows)
        assert diagonal is not None
        return span.explained(self._kernel_to_points(rows, chosen), diagonal)

    @cached_property
    def _reference_(self) -> np.ndarray | None:
        """Quantiles of the explained fractions of the training rows; None for an indefinite kernel.

        Computed on first use, because it takes a noticeable part of the time of a fit.
        """
        if self._training_rows_ is None:
            return None
        X, weight, point_rows = self._training_rows_
        if not weight.any():
            return None
        try:
            span, chosen = self._span()
        except LinAlgError:
            return None
        explained = self._explained(span, chosen, X)
        places = point_rows[chosen]
        sampled = places < len(explained)
        explained[places[sampled]] = span.explained_by_others()[sampled]
        return reference_quantiles(explained, weight)

    def _default_background(self) -> Background | None:
        return self._background_

    @cached_property
    def _background_(self) -> Background | None:
        """Rows that represent the training rows; None if the kernel is not a product over features."""
        rows = getattr(self, "_training_rows_", None)
        if rows is None or not rows.weight.any():
            return None
        try:
            expansion = self._product_expansion()
        except ValueError:
            return None
        return Background.representing(rows.X.astype(np.float64), rows.weight, expansion.width)


# -- prediction sets and intervals --------------------------------------------------------------


class HeldOutMixin(PointClassifier):
    """Adds prediction sets and probability intervals. A fit sets ``_held_out_``."""

    _held_out_: HeldOut | None

    def predict_set(self, X: Any, coverage: float = 0.9, *, by_class: bool = False) -> np.ndarray:
        """Sets of classes that contain the true class of new rows with a given frequency.

        A set contains the classes whose p-value exceeds ``1 - coverage`` (conformal prediction). For rows
        drawn like the training rows, the true class is in the set with a frequency of about ``coverage``,
        whether or not the probabilities of the model are right. A set of several classes means that the row
        is ambiguous. An empty set means that even the most probable class is less probable than those of
        nearly all training rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        coverage : float, default=0.9
            Frequency with which the sets contain the true class, between 0 and 1.
        by_class : bool, default=False
            Whether the frequency holds for the rows of every class rather than for all rows. Sets are larger,
            and a class with few training rows is in most of them.

        Returns
        -------
        array of bool (n_samples, n_classes)

        References
        ----------
        Vovk, Gammerman and Shafer (2022), "Algorithmic learning in a random world", second edition.
        Barber, Candes, Ramdas and Tibshirani (2021), "Predictive inference with the jackknife+", Annals of
        Statistics 49, 486-507.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from sparseklr import SparseKLR
        >>> X, y = make_moons(200, noise=0.3, random_state=0)
        >>> SparseKLR().fit(X, y).predict_set([[-1.0, 0.5], [0.5, 0.25]], coverage=0.95)
        array([[ True, False],
               [ True,  True]])
        """
        _check_fraction("coverage", coverage)
        return self.predict_p_values(X, by_class=by_class) > 1 - coverage

    def predict_p_values(self, X: Any, *, by_class: bool = False) -> np.ndarray:
        r"""p-value of each class: small if the class is less probable than those of most training rows.

        The p-value of class k is :math:`(1 + \sum_i w_i [p_i \le p_k(x)]) / (1 + \sum_i w_i)`, where
        :math:`p_i` is the probability of the true class of a training row in a model fitted without that row:
        by leave-one-out, or on the validation rows of the folds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        by_class : bool, default=False
            Whether to compare only with training rows of class k.

        Returns
        -------
        array (n_samples, n_classes)
        """
        log_proba = self.predict_log_proba(X)
        return self._held_out().p_values(log_proba, bool(by_class))

    def predict_interval(self, X: Any, confidence: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Intervals of the class probabilities.

        Isotonic regression of the classes of the training rows on their held-out probabilities, with the new
        row added, calibrates the probability of a class. The lower end is its value if the new row is added
        as a row of another class, the upper end if it is added as a row of this class (Venn-Abers). One of
        the two labels is right, and for it the value is calibrated, whatever the model. A wide interval means
        that few training rows have a similar prediction. With more than two classes, each class is compared
        with the rest.

        Venn-Abers intervals do not include the sampling error of the calibration. With ``confidence``, they
        are extended to confidence intervals.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence : float, default=None
            Probability, between 0 and 1, that the interval of a class contains the frequency of this class
            among rows with the same predicted probability. It is guaranteed if this frequency increases with
            the predicted probability. The true probability of a single row also depends on the error of the
            model and may lie outside more often. None returns Venn-Abers intervals.

        Returns
        -------
        lower, upper : arrays (n_samples, n_classes)
            As a single probability use ``predict_proba(X)``, or ``np.clip(predict_proba(X), lower, upper)``,
            which corrects it only where the interval contradicts it. The middle of the interval, and
            ``upper / (1 - lower + upper)``, are worse: they stay away from 0 and 1 by one training row.

        References
        ----------
        Vovk, Petej and Fedorova (2015), "Large-scale probabilistic predictors with and without guarantees of
        validity", NIPS, 892-900.

        Barber (2020), "Is distribution-free inference possible for binary regression?", Electronic Journal of
        Statistics 14, 3487-3524: no short interval can contain the true probability of a single row.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from sparseklr import SparseKLR
        >>> X, y = make_moons(200, noise=0.3, random_state=0)
        >>> model = SparseKLR().fit(X, y)
        >>> lower, upper = model.predict_interval([[-1.0, 0.5]], confidence=0.9)
        >>> print(lower.round(1), upper.round(1))
        [[0.8 0. ]] [[1.  0.2]]
        """
        if confidence is not None:
            _check_fraction("confidence", confidence)
        log_proba = self.predict_log_proba(X)
        return self._held_out().intervals(log_proba, confidence)

    def _held_out(self) -> HeldOutProbabilities:
        held_out = self._held_out_
        if held_out is None:
            raise ValueError(
                f"this {type(self).__name__} has no held-out predictions: its fit needed no validation. "
                "Fit it with C='auto' or n_points='auto', and with at least two rows of each class."
            )
        log_proba = self._log_proba(held_out.outputs.astype(np.float64))
        return HeldOutProbabilities(log_proba, held_out.code, held_out.weight)


def _check_fraction(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"{name} must be a number between 0 and 1; got {value!r}.")


# -- solutions of the dual ------------------------------------------------------------------------


def certificate(solved: BinarySolutions | SoftmaxSolution) -> dict[str, Any]:
    """Fitted attributes that describe the convergence of the solver."""
    return {
        "n_iter_": solved.n_iter,
        "converged_": solved.converged,
        "kkt_violation_": solved.kkt_violation,
        "dual_gap_": solved.relative_gap,
    }


def warn_of_solutions(
    solved: BinarySolutions | SoftmaxSolution, settings: Settings, kernel: Any, nu: float | None = None
) -> None:
    """Warn if nu is too small for a margin, the kernel is indefinite, or the solver did not converge."""
    if nu is not None and isinstance(solved, BinarySolutions):
        solved.warn_of_small_nu(float(nu), settings.tol)
    if solved.indefinite:
        warn(
            f"kernel={kernel!r} is not positive semidefinite on these data: the solution is a stationary "
            "point and need not be the optimum."
        )
    if not solved.converged:
        required = settings.tolerance(float(solved.margins.max()))
        remedy = "Raise tol or scale the features."
        if settings.max_iter != -1:
            remedy = "Raise max_iter or tol, scale the features, or fit again with warm_start=True to resume."
        warn(
            f"The solver stopped after {solved.n_iter} pair steps with a KKT violation of "
            f"{solved.kkt_violation:.3g} (required: {required:.3g}). {remedy}",
            ConvergenceWarning,
        )


# -- classifiers whose points are training rows -------------------------------------------------

# Predict in single precision if its error, estimated on _CHECKED_POINTS points, is at most _SINGLE_ERROR.
_CHECKED_POINTS, _SINGLE_ERROR = 50, 1e-3


class KernelClassifier(PointClassifier):
    """Base of classifiers of the form ``f(x) = dual_coef_ @ k(support_vectors_, x) + intercept_``.

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
            Non-negative weights; a weight of 2 is equivalent to repeating the row, 0 to removing it.

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
        """Fitted attributes for validated data; ``names`` are the feature names."""
        raise TypeError(f"{type(self).__name__} must implement _fit")

    def _check_parameters(self) -> None:
        """Raise if a parameter is invalid; warn if one has no effect."""
        given = self.get_params(deep=False)
        check_parameters(self._parameter_constraints, given, type(self).__name__)
        warn_of_unused(type(self).__init__, given, self._unused_parameters())

    def _unused_parameters(self) -> dict[str, str]:
        """Parameters that have no effect given the others, each with the reason."""
        return unused_by_kernel(self.kernel)

    # -- prediction -------------------------------------------------------------------------------

    def _check_is_fitted(self) -> None:
        if hasattr(self, "interrupted_"):
            raise NotFittedError(
                f"The last fit of this {type(self).__name__} was interrupted, so it cannot predict. Call fit "
                "again; with warm_start=True it resumes."
            )
        check_is_fitted(self)

    def _checked(self, X: Any) -> Any:
        return self._features(self._validated(X))

    def _validated(self, X: Any) -> Any:
        """Validated rows; for a precomputed kernel, k(x, kept points)."""
        self._check_is_fitted()
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
        """The arguments of the kernel for validated rows."""
        return rows

    @property
    def _points_(self) -> Any:
        """The arguments of the kernel for the points."""
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
                "explanations by features need kernel='rbf' or 'laplacian', whose values are products over "
                f"features; this model has kernel={kernel.name!r}. Use explain(X, by='points')."
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
    """Fitted attributes of the points with a non-zero coefficient; ``coef`` is (n_outputs, n_rows)."""
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
    r"""Whether outputs in single precision are accurate enough, checked on some points of the model.

    The rounding error is about the unit roundoff times :math:`\sum_b |\beta_b k(x, x_b)|`, which is large
    if large terms cancel. A precomputed kernel is as accurate as the user's matrix.
    """
    if kernel.precomputed or not points.shape[0]:
        return True
    some = points[:: 1 + points.shape[0] // _CHECKED_POINTS]
    terms = np.abs(kernel.matrix(some, points.astype(np.float64))) @ np.abs(coef).T
    return bool((terms * np.finfo(np.float32).eps <= _SINGLE_ERROR).all())
