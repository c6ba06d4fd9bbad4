"""CompactKLR: kernel logistic regression on a few points whose positions are fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _core
from ._base import ALL, SVCParameters, set_fitted
from ._mixins import FamiliarityMixin, HeldOutMixin
from ._utils.arrays import check_indices
from ._utils.messages import warn
from ._utils.progress import StageProgressBar
from ._utils.sklearn_compat import Interval, StrOptions
from ._utils.threads import n_threads
from ._validation import COUNT, POSITIVE, ROWS, check_data, check_parameters, pointing_to_tables
from .compact.fit import CompactFit, fit_compact, refit_compact
from .compact.model import CompactModel
from .compact.rows import LabelledRows, by_point, relative_weights, scaled_rows
from .compact.size_search import CompactSettings
from .conformal import HeldOut
from .kernels import Kernel
from .refit.calibration import SOFTMAX
from .refit.copies import rows_are_copies
from .refit.posterior import Span, reference_quantiles, representatives
from .samples import DistinctPoints
from .scaling import Scaling
from .shapley import Background, ProductExpansion
from .streaming import ArraySource, Source
from .streaming.dask import is_dask
from .streaming.fit import StreamRows, as_source, fit_stream, is_streamed, whole
from .weights import observation_counts, weighted_classes


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted model with its classes and the scaling of the features."""

    classes: np.ndarray
    scaling: Scaling
    row: np.ndarray  # a training row (1, n_features), from which the values of constant features are taken
    rows: LabelledRows  # all training rows or a sample of them, scaled and in random order
    fit: CompactFit


class CompactKLR(FamiliarityMixin, HeldOutMixin):
    r"""Kernel logistic regression on a few points whose positions are fitted.

    The model is :math:`f(x) = \sum_b \beta_b \exp(-\sum_j \gamma_j (x_j - z_{bj})^2) + c`. For two classes,
    f(x) is the logit of the second class. The points :math:`z_b`, a kernel coefficient :math:`\gamma_j` for
    every feature, the coefficients :math:`\beta_b` and the intercept c minimise

    .. math:: \sum_i w_i \log(1 + e^{-y_i f(x_i)}) + \tfrac1{2C} \beta^\top K_{zz} \beta

    plus a weak quadratic penalty on :math:`\log\gamma_j`, where :math:`w_i` are the sample weights divided by
    their mean (with more than 20,000 rows, the sample weights themselves). The number of points and C are
    chosen by cross-validation, and the model is then fitted to all rows. Cross-validation also determines
    when the optimisation stops (``tol``) and the factor by which f is finally multiplied (``shrinkage_``).
    The points need not be training rows, so a handful of points can replace hundreds of support vectors. With
    more than two classes, all classes share the points and :math:`\gamma`, each class has its own function f,
    and the probabilities are the softmax of the functions.

    Parameters
    ----------
    n_points : int or "auto", default="auto"
        Number of points. ``"auto"`` starts with the number of classes and doubles it repeatedly. The search
        ends when two doublings in a row, of which the second gives at least 16 points, each lower the
        validation log-loss by less than 0.2% plus 0.0003, or when a doubling to more than 128 points lowers
        it by less than 2%. ``"auto"`` then chooses the smallest number whose log-loss exceeds the lowest one
        by at most one standard error of the difference, or by at most 0.2% for each doubling between the two
        numbers.
    max_points : int, default=512
        Largest number of points that ``"auto"`` tries.
    relevance : {"features", "shared", "sparse"}, default="features"
        ``"features"`` fits a separate kernel coefficient :math:`\gamma_j` for each feature, ``"shared"`` a
        single one for all features. With more than ten times as many features as rows, ``"features"`` means
        ``"shared"``. ``"sparse"`` fits a separate coefficient for each feature, and drops features that the
        model hardly uses, as long as the validation log-loss stays within one standard error of the lowest
        one.
    C : float or "auto", default="auto"
        Weight of the log-likelihood relative to the penalty on :math:`\beta`. A smaller C means stronger
        regularisation. ``"auto"`` chooses C together with the number of points: up to 20,000 rows, a power of
        ten from 0.1 to 100,000.
    scale : "auto" or None, default="auto"
        ``"auto"`` standardises features and clips them at four standard deviations from their means. A
        feature with values beyond this limit and a skewness above 1.5 is mapped by rank to a normal
        distribution. With up to 20,000 rows, a feature with three to ten distinct values becomes several
        columns, one for each pair of neighbouring values. Such a column, a *ramp*, is -1 up to the smaller
        value, 1 from the larger value on, and linear in between. The scaling is part of the model. None uses
        the features unchanged.
    tol : float, default=1e-4
        Tolerance for early stopping. For each number of points, the points are optimised in a run of 25
        iterations. Up to 128 points, a second run of 25 iterations follows. Its result is used only if the
        run lowers the validation log-loss by at least the fraction ``tol``.
    class_weight : dict, "balanced" or None, default=None
        Factor by which the sample weights of each class are multiplied. ``"balanced"`` gives all classes the
        same total weight.
    warm_start : bool, default=False
        Whether the next fit starts from the current points, kernel coefficients and C, without a search.
    n_jobs : int or None, default=None
        Number of threads; -1 for all cores. Results do not depend on this number.
    random_state : int, RandomState instance or None, default=0
        Seed of the samples of rows, which are drawn if there are more than 20,000 rows. With fewer rows,
        nothing is random: a hash of the contents of the rows determines the validation folds.
    verbose : int, default=0
        If 1, a progress bar is shown.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The class labels.
    points_ : array (n_points, n_features)
        The points in the units of X. Features that the model does not use are set to their mean. Features
        that ``scale`` maps by rank or to ramps stay within the range of the training data. A point may lie
        between two values in several ramps of a feature; the steps of all ramps are then added up.
    dual_coef_ : array (n_outputs, n_points)
        Coefficients :math:`\beta_b` of the points. There is one output for two classes, and otherwise one
        output for each class.
    intercept_ : array (n_outputs,)
        The intercepts c.
    relevance_ : array (n_features,)
        The kernel coefficient :math:`\gamma_j` of each scaled feature, summed over the ramps of a feature; 0
        for an unused feature.
    feature_importances_ : array (n_features,)
        Mean squared derivative of f with respect to each scaled feature, normalised to sum to one.
    n_points_ : int
        Number of points of the model.
    C_ : float
        The C of the model.
    search_results_ : dict of arrays
        Table of the models that were evaluated, with the columns ``n_points``, ``n_features`` (number of
        scaled columns), ``C``, ``log_loss`` (in cross-validation), ``standard_error``, ``fold_error`` and
        ``seconds``. The fold error is the standard error of the mean loss over repetitions of the
        cross-validation with other folds. It shows how much the loss varies with the division into folds, and
        is absent without repetitions. The table is empty if both the number of points and C are given.
    validation_log_loss_ : float or None
        Log-loss of the chosen model in cross-validation; None without a search.
    shrinkage_ : float
        Factor between 0.5 and 1 by which the coefficients and the intercept were multiplied. It minimises the
        validation log-loss.
    gradient_norm_ : float
        Largest absolute derivative of the objective with respect to a coordinate of a point or to
        :math:`\log\gamma_j`, divided by the total weight. It is zero at a stationary point. Early stopping
        (see ``tol``) may leave it positive.
    n_iter_ : int
        Number of L-BFGS iterations on all rows, or of Levenberg-Marquardt steps with more than 20,000 rows.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : array
        Names of the features; absent if X has no column names.

    See Also
    --------
    SparseKLR : Selects its points among the training rows by a convex problem.

    Notes
    -----
    For given points and :math:`\gamma`, the optimal coefficients solve a convex problem, and Newton's method
    finds them. L-BFGS minimises the value of this optimum over points and :math:`\log\gamma` (variable
    projection). The penalty on :math:`\log\gamma` is :math:`0.05\, a^2 + 0.5 \sum_j r_j^2`, where :math:`a -
    \log p` is the mean of :math:`\log\gamma_j` over the p features, and :math:`r_j` are the deviations from
    this mean. Equal rows are merged and sorted by a hash of their contents. Among rows of weight 1, a row of
    weight 2 is therefore equivalent to a repeated row (the models are identical). With up to 20,000 rows,
    multiplying all weights by a common factor has no effect. With more rows, larger weights make the penalty
    relatively weaker. If the validation log-loss of the best model is not lower than that of the class
    fractions by more than a standard error of the difference, ``n_points="auto"`` gives a model without
    points, which predicts the class fractions.

    Cross-validation uses ten folds with up to 500 rows, five folds with up to 1500 rows, and otherwise three
    of five folds. With few rows, the rows are divided into folds up to three times, until 3000 rows in total
    have been used for validation (with K > 2 classes, 3000 / K rows, but at least 600). With many rows,
    further folds are omitted once this number is reached. The points stay at cluster centres, where the
    optimisation starts, if the validation log-loss is lowest there.

    With more than 20,000 rows, the rows are read block by block, and a single set of at most 65,536
    validation rows replaces cross-validation. To choose the number of points, models are fitted to a sample
    of at least 262,144 of the other rows, or to all of them if there are fewer. The chosen model is then
    refined by Levenberg-Marquardt steps, each of which computes the gradient in one pass over all rows. The
    samples are drawn by a hash of row numbers and the seed. The result therefore does not depend on the
    number of threads, on the cluster, or on the type of container of the rows. ``relevance="sparse"`` chooses
    the features on a sample of 20,000 rows.

    References
    ----------
    E. Snelson and Z. Ghahramani, "Sparse Gaussian processes using pseudo-inputs", NIPS 2005 (fitted inducing
    points for regression).
    G. Golub and V. Pereyra, "Separable nonlinear least squares: the variable projection method and its
    applications", Inverse Problems 19, 2003, doi:10.1088/0266-5611/19/2/201.

    Examples
    --------
    >>> from sparseklr import CompactKLR
    >>> from sparseklr.datasets import make_ringnorm
    >>> X, y = make_ringnorm(1000, random_state=0)
    >>> model = CompactKLR().fit(X, y)
    >>> model.n_points_
    2
    >>> model.score(*make_ringnorm(1000, random_state=1)) > 0.97
    True
    """

    link_ = SOFTMAX
    _INSTEAD = {
        **SVCParameters._INSTEAD,
        **dict.fromkeys(
            ("kernel", "gamma", "degree", "coef0"),
            "the kernel is Gaussian, and the fit learns its widths. Omit this parameter, or use SparseKLR.",
        ),
        "cache_size": "the fit needs no kernel matrix. Omit this parameter.",
    }
    _parameter_constraints: dict = {
        "n_points": [StrOptions({"auto"}), COUNT],
        "max_points": [COUNT],
        "relevance": [StrOptions({"features", "shared", "sparse"})],
        "C": [StrOptions({"auto"}), POSITIVE],
        "scale": [StrOptions({"auto"}), None],
        "tol": [Interval(Real, 0.0, 1.0, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_points: int | Literal["auto"] = "auto",
        *,
        max_points: int = 512,
        relevance: Literal["features", "shared", "sparse"] = "features",
        C: float | Literal["auto"] = "auto",
        scale: Literal["auto"] | None = "auto",
        tol: float = 1e-4,
        class_weight: dict | Literal["balanced"] | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.n_points = n_points
        self.max_points = max_points
        self.relevance = relevance
        self.C = C
        self.scale = scale
        self.tol = tol
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to the training data.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)
            Training rows. Sparse rows are converted to dense rows. Dask collections are processed by the
            active Dask client, if there is one.
        y : array-like or Dask collection of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like or Dask collection of shape (n_samples,), default=None
            Non-negative weights. Among rows of weight 1, a weight of 2 is equivalent to repeating the row,
            and a weight of 0 to removing it.

        Returns
        -------
        self : object
        """
        if isinstance(X, (Source, str, PathLike)):
            raise TypeError(f"X must be array-like; got {type(X).__name__}. Use fit_source for files.")
        if any(map(is_dask, (X, y, sample_weight))):
            return self.fit_source(X, y, sample_weight)
        self._check_parameters()
        X, y, weight, columns = check_data(X, y, sample_weight, estimator=self)
        if is_streamed(len(y)):
            result = self._fit_stream(ArraySource(X, y, weight))
        else:
            result = self._fit_in_memory(X, y, weight)
        return set_fitted(self, columns | self._attributes(result))

    def fit_source(
        self,
        source: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        memory: float = 1e9,
        checkpoint: str | PathLike | None = None,
    ) -> Self:
        """Fit the model to rows that are read block by block and need not fit into memory.

        Parameters
        ----------
        source : path, Source, callable or Dask collection
            One of the following: a path to a file or folder, or a pattern such as ``"part-*.parquet"``; a
            :class:`~sparseklr.streaming.Source`; a function that returns a new iterator over tuples
            ``(X, y)`` or ``(X, y, sample_weight)`` in each call; a Dask collection.
        y : str, path, Dask collection or None
            Name of the label column, or a .npy file if ``source`` is a .npy file. None for a Source or a
            function, which provide the labels themselves.
        sample_weight : str, path, Dask collection or None
            The weights, in the same form as ``y``.
        memory : float, default=1e9
            Approximate memory limit in bytes, for more than 20,000 rows.
        checkpoint : path or None, default=None
            File in which the state of the fit is stored, for more than 20,000 rows. If the fit is
            interrupted, the same call resumes it and returns the same model. The file is removed at the end.

        Returns
        -------
        self : object
        """
        self._check_parameters()
        rules: dict[str, list[Any]] = {"memory": [POSITIVE], "checkpoint": [str, PathLike, None]}
        check_parameters(rules, {"memory": memory, "checkpoint": checkpoint}, type(self).__name__)
        source = as_source(source, y, sample_weight)
        if is_streamed(source.n_rows):
            result = self._fit_stream(source, float(memory), checkpoint)
        else:
            block = whole(source)
            X, labels, weight, _ = check_data(block.X, block.y, block.weight, estimator=self)
            result = self._fit_in_memory(X, labels, weight)
        columns: dict[str, Any] = {"n_features_in_": result.row.shape[1]}
        if source.feature_names is not None:
            columns["feature_names_in_"] = np.array(source.feature_names, dtype=object)
        return set_fitted(self, columns | self._attributes(result))

    def _check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""
        check_parameters(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)

    def _fit_in_memory(self, X: Any, y: np.ndarray, sample_weight: np.ndarray | None) -> FitResult:
        """Fit a model to rows in memory; equal rows are merged."""
        kept, codes, classes, weight = weighted_classes(y, sample_weight, self.class_weight)
        continues = self._continues(classes, X.shape[1])
        count = observation_counts(np.ones(len(kept)) if sample_weight is None else sample_weight[kept])
        rows, observations, scaling = scaled_rows(
            X[kept],
            codes,
            weight,
            count,
            len(classes),
            scale=self.scaling_ if continues else self.scale == "auto",
        )
        observations = replace(observations, copies=_are_copies(*by_point(rows, observations)))
        rows = replace(rows, weight=relative_weights(rows.weight, observations))
        settings = self._settings()
        with StageProgressBar(type(self).__name__, bool(self.verbose)) as progress:
            if continues:
                fit = refit_compact(rows, settings, self.model_, settings.C or self.C_, self.shrinkage_)
            else:
                fit = fit_compact(rows, settings, observations, progress.stage)
        if settings.n_points and fit.model.n_points < settings.n_points and len(scaling.kept):
            warn(
                f"n_points={settings.n_points} exceeds the number of distinct rows of X with positive "
                f"weight, {len(rows)}. The model has {fit.model.n_points} points."
            )
        _warn_of_fit(fit, settings, len(scaling.kept))
        row = X[kept[:1]]
        row = np.asarray(row.toarray() if sparse.issparse(row) else row, dtype=np.float64)
        return FitResult(classes, scaling, row, rows, fit)

    def _fit_stream(
        self, source: Source, memory: float = 1e9, checkpoint: str | PathLike | None = None
    ) -> FitResult:
        """Fit a model in several passes over rows that are read block by block."""
        settings, start = self._settings(), None
        with StageProgressBar(type(self).__name__, bool(self.verbose)) as progress:
            progress.stage("summary of the rows", 0.0)
            rows = StreamRows.of(
                source,
                class_weight=self.class_weight,
                scale=self.scale == "auto",
                seed=self._seed(),
                memory=memory,
                n_jobs=self.n_jobs,
            )
            if self._continues(rows.classes, source.n_features):
                rows = replace(rows, scaling=self.scaling_)
                start = self.model_, settings.C or self.C_
            sample, fit = fit_stream(
                rows, settings, memory=memory, checkpoint=checkpoint, start=start, report=progress.stage
            )
        return FitResult(rows.classes, rows.scaling, rows.summary.least[None], sample, fit)

    def _settings(self) -> CompactSettings:
        """Return the settings of the fit for the current parameters."""
        return CompactSettings(
            n_points=None if self.n_points == "auto" else int(self.n_points),
            max_points=int(self.max_points),
            C=None if self.C == "auto" else float(self.C),
            shared=self.relevance == "shared",
            sparse=self.relevance == "sparse",
            tol=float(self.tol),
            threads=n_threads(self.n_jobs),
            seed=self._seed(),
        )

    def _seed(self) -> int:
        """Return a random seed determined by ``random_state``."""
        return int(check_random_state(self.random_state).randint(2**31))

    def _continues(self, classes: np.ndarray, n_features: int) -> bool:
        """Return whether parameters, classes and features allow a warm start from the current model."""
        return (
            self.warm_start
            and getattr(self, "n_points_", 0) > 0
            and self.n_features_in_ == n_features
            and np.array_equal(self.classes_, classes)
            and self.n_points in ("auto", self.n_points_)
            and self._kind_ == (self.scale, self.relevance)
        )

    def _attributes(self, result: FitResult) -> dict[str, Any]:
        """Return the fitted attributes for a fit result."""
        fit, model = result.fit, result.fit.model
        n_features = result.row.shape[1]
        scaling = result.scaling.restricted(fit.features)
        points = np.repeat(result.row, model.n_points, axis=0)  # the values of constant features
        points[:, result.scaling.kept] = result.scaling.centre
        points[:, scaling.kept] = scaling.inverse(model.points)
        relevance, importances = np.zeros(n_features), np.zeros(n_features)
        if model.n_points:
            np.add.at(relevance, scaling.kept, model.gamma)
            use = model.squared_derivatives(result.rows.X[:4096, fit.features])
            np.add.at(importances, scaling.kept, use / max(use.sum(), np.finfo(float).tiny))
        return {
            "classes_": result.classes,
            "points_": points,
            "n_points_": model.n_points,
            "dual_coef_": model.coef[:, :-1].copy(),
            "intercept_": model.coef[:, -1].copy(),
            "relevance_": relevance,
            "feature_importances_": importances,
            "C_": fit.plan.C,
            "shrinkage_": fit.plan.shrinkage,
            "gradient_norm_": fit.gradient_norm,
            "n_iter_": fit.n_iter,
            "validation_log_loss_": fit.validation_loss,
            "search_results_": fit.search_results(),
            "model_": model,
            "scaling_": scaling,
            "_kind_": (self.scale, self.relevance),
            "_reference_": _familiarity_reference(model, result.rows, fit.features),
            "_held_out_": _held_out(fit),
            "_background_": Background.representing(
                result.rows.X[:2000, fit.features], result.rows.weight[:2000], model.gamma
            ),
        }

    # -- prediction ---------------------------------------------------------------------------

    def _outputs(self, X: Any) -> np.ndarray:
        """Return the decision values as an array of shape (n_queries, n_outputs)."""
        X = self._checked(X)
        n, threads = X.shape[0], n_threads(self.n_jobs)
        points, gamma, coef, intercept = self.model_.parts()
        out = np.empty((n, len(self.intercept_)))
        block = 4096  # number of rows whose intermediate results fit into the processor cache
        for start in range(0, n, block):
            scaled = self.scaling_.transform(X[start : start + block])
            size = len(scaled)
            no_label, weight = np.zeros(size, dtype=np.int32), np.ones(size)
            rows = _core.compact_rows(scaled, no_label, weight, len(self.classes_), X.dtype == np.float32)
            out[start : start + size] = rows.decision(points, gamma, coef, intercept, threads)
        return out

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        check_indices(X)
        with pointing_to_tables(X, self):
            return validate_data(self, X, reset=False, **ROWS)

    def _kernel_to_points(self, rows: Any, some: Any = ALL) -> np.ndarray:
        return np.exp(-(self._distance_to_points(rows)[:, some] ** 2))

    def _distance_to_points(self, rows: Any) -> np.ndarray:
        return self.model_.distances(self.scaling_.transform(rows))

    def _kernel_of_points(self, some: Any = ALL) -> np.ndarray:
        return np.exp(-(self.model_.distances(self.model_.points[some])[:, some] ** 2))

    def _diagonal(self, rows: Any) -> np.ndarray:
        return np.ones(rows.shape[0])

    def _product_expansion(self) -> ProductExpansion:
        points, gamma, coef, intercept = self.model_.parts()
        scaling = self.scaling_
        return ProductExpansion(
            True, points, gamma, coef, intercept, scaling.kept, scaling.transform, scaling.slopes
        )

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Return the features that the model uses, as a boolean mask or as indices."""
        check_is_fitted(self)
        mask = self.relevance_ > 0
        return np.flatnonzero(mask) if indices else mask

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _are_copies(X: np.ndarray, weight: np.ndarray, count: np.ndarray) -> bool:
    """Return whether equal rows are copies of one observation.

    ``weight`` and ``count`` have the shape (n_points, n_classes).
    """
    n, p = X.shape
    rows = np.arange(n)
    kernel = Kernel("rbf", 1 / max(p, 1))
    return rows_are_copies(DistinctPoints(X.astype(np.float64), rows, rows, weight, kernel, None, count))


def _held_out(fit: CompactFit) -> HeldOut | None:
    """Return the decision values of the validation rows from the models of the folds.

    Only the first repetition of the folds is used. The result is None without validation.
    """
    if fit.chosen is None or fit.validation is None:
        return None
    some = np.flatnonzero(fit.validation.repeat == 0)
    rows, n_observations = fit.validation.rows.take(some), float(fit.validation.count[some].sum())
    outputs = fit.plan.shrinkage * fit.chosen.outputs[some]
    if fit.model.n_points == 0:  # use the class fractions of all rows, not of the folds
        outputs = np.tile(fit.model.coef[:, -1], (len(rows), 1))
    return HeldOut.of(outputs, rows.label, rows.weight, n_observations)


def _familiarity_reference(model: CompactModel, rows: LabelledRows, features: np.ndarray) -> np.ndarray:
    """Return quantiles of the similarities (see ``familiarity``) of the first 2000 rows, a random sample."""
    chosen = representatives(model.n_points)
    span = Span(np.exp(-(model.distances(model.points[chosen])[:, chosen] ** 2)))
    K = np.exp(-(model.distances(rows.X[:2000, features])[:, chosen] ** 2))
    return reference_quantiles(span.explained(K, np.ones(len(K))), rows.weight[:2000])


def _warn_of_fit(fit: CompactFit, settings: CompactSettings, n_varying: int) -> None:
    """Warn if the fit found no signal, or if the training loss exceeds the validation loss.

    There is no signal if the model has no points and therefore predicts the class fractions, or if its
    validation loss is not below that of the class fractions.
    """
    baseline, validation = fit.baseline_loss, fit.validation_loss
    if fit.model.n_points == 0:
        if n_varying == 0:
            reason = "all features are constant. Add features that vary"
        else:
            reason = (
                f"no model lowered their validation log-loss, {baseline:.3g}, by more than a standard "
                "error. Check that rows and labels belong together, add features or rows, or set n_points "
                "to a number"
            )
        warn(f"No signal found; the model predicts the class fractions: {reason}.")
        return
    if validation is None or baseline is None:
        return
    if validation >= baseline:  # this can happen only if the number of points is given
        warn(
            f"No signal found: with n_points={settings.n_points}, the validation log-loss is "
            f"{validation:.3g}, which is not below that of the class fractions, {baseline:.3g}. "
            'With n_points="auto", the model predicts the class fractions in this case.'
        )
    elif fit.in_poor_optimum:
        warn(
            f"The training log-loss, {fit.training_loss:.3g}, exceeds the validation log-loss, "
            f"{validation:.3g}, by more than two standard errors, so the fit has probably ended in "
            "a poor local optimum. Try another n_points."
        )
