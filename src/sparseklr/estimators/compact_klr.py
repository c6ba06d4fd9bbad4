"""CompactKLR: kernel logistic regression on a handful of points that are fitted."""

from __future__ import annotations

import copy
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import _core
from .._sklearn import Interval, StrOptions
from .._warn import warn
from ..compact.fit import CompactFit, fit_compact, refit_compact
from ..compact.path import PathSettings
from ..compact.rows import LabelledRows, by_point, relative_weights, scaled_rows
from ..compact.scaling import Scaling
from ..data import check_indices, observation_counts
from ..kernels import n_threads
from ..progress import StageProgressBar
from ..sources import ArraySource, Source, as_source
from .compact_checks import are_copies, warn_of_fit
from .compact_large import MANY_ROWS, first_look, fit_large, is_stream, whole
from .explanation import ExplainsByPoints
from .familiarity import TellsFamiliarity
from .parameters import COUNT, POSITIVE, check_parameters
from .points import ALL
from .training import ROWS, GivenData, check_data, weighted_classes

# Rows predicted at once: what is computed for them stays in the processor's cache.
_BLOCK = 4096


class CompactKLR(ExplainsByPoints, TellsFamiliarity, ClassifierMixin, BaseEstimator):
    r"""Kernel logistic regression on a few points that move.

    The model is :math:`f(x) = \sum_b \beta_b \exp(-\sum_j \gamma_j (x_j - z_{bj})^2) + c`. Points
    :math:`z_b`, a width :math:`\gamma_j` for every feature and the coefficients are all fitted to the
    penalised likelihood

    .. math:: \sum_i w_i \log(1 + e^{-y_i f(x_i)}) + \tfrac1{2C} \beta^\top K_{zz} \beta,

    with a weak prior on the widths; their number and C are chosen on held-out rows. Where a support vector
    machine keeps hundreds of training rows, a handful of points that are free to move say the same. For more
    than two classes points and widths are shared, and each class has its coefficients (softmax).

    Parameters
    ----------
    n_points : int or "auto", default="auto"
        Number of points. ``"auto"``: the smallest whose held-out log-loss is within one standard error and 2%
        of the best, along a path that doubles the number until that does not pay any more; more than 128
        points only for 1% of the log-loss. Beyond 20 000 rows any doubling has to lower it by 0.2%.
    max_points : int, default=512
        Largest number that ``"auto"`` tries.
    relevance : {"features", "shared", "sparse"}, default="features"
        A width for each feature, or one for all. ``"sparse"``: a width for each, and the features that the
        model hardly uses are dropped one after the other, as far as the held-out log-loss stays within one
        standard error of the best.
    C : float or "auto", default="auto"
        Weight of the likelihood against the penalty; ``"auto"`` chooses it along the path.
    scale : "auto" or None, default="auto"
        ``"auto"`` standardises features and clips them at four standard deviations; features that have values
        beyond these and a skewness above 1.5 are mapped by rank to a normal distribution. The scaling is part
        of the model. None leaves features as they are.
    tol : float, default=1e-4
        Points stop moving when 25 iterations lower the held-out log-loss by less than this share of it.
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the rows by class.
    warm_start : bool, default=False
        Go on from the present points, widths and C in the next fit, whose choice of size is not repeated.
    n_jobs : int or None, default=None
        Threads; -1 for all. Results do not depend on it.
    random_state : int, RandomState instance or None, default=0
        Decides which rows are held out.
    memory : float, default=1e9
        Bytes that a fit of more than 20 000 rows takes for itself at most, about; the rows may be many more.
    checkpoint : path or None, default=None
        File in which a fit of more than 20 000 rows writes down whatever it has decided. A fit that was
        interrupted or killed goes on from there when it is started again with the same rows and parameters,
        and ends with the same model. The file is removed at the end.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : array (n_classes,)
    points_ : array (n_points, n_features)
        The points, in the units of X; the mean of a feature that is not looked at. A feature that was mapped
        by rank is given within the range of the training data.
    dual_coef_ : array (n_outputs, n_points)
        Coefficients of the kernel functions; one output for two classes, else one for each. (Not ``coef_``:
        that name stands for a coefficient per feature, and :class:`~sklearn.feature_selection.RFE` would take
        it for one.)
    intercept_ : array (n_outputs,)
    relevance_ : array (n_features,)
        The widths gamma, for features scaled as ``scale`` says; 0 for a feature that is not looked at.
    feature_importances_ : array (n_features,)
        Mean squared derivative of the outputs in each scaled feature, made to sum to one.
    n_points_ : int
    C_ : float
    path_ : dict of arrays
        A row for each stage: ``n_points``, ``n_features``, ``C``, ``held_out_log_loss``, ``standard_error``
        and ``seconds``. Empty where number of points and C were given.
    held_out_log_loss_ : float or None
        Of the chosen stage; None where nothing was held out.
    shrinkage_ : float
        Factor on coefficients and intercept, chosen on held-out rows.
    gradient_norm_ : float
        Largest derivative of the objective in a point or log-width, per unit of weight. Zero where it is
        stationary; moving ends earlier where the held-out loss stops falling.
    n_iter_ : int
        Iterations of L-BFGS on all rows.
    n_features_in_ : int
    feature_names_in_ : array
        Only when X has column names.

    See Also
    --------
    SparseKLR : Keeps training rows, chosen by a convex problem.

    Notes
    -----
    For given points and widths the coefficients are a convex problem, solved by Newton's method; L-BFGS moves
    points and widths on its minimum (variable projection). Rows that are equal are merged and put in the
    order of a hash of their contents, so that a weight of 2 among weights of 1 is the same as a repetition,
    to the last bit. A factor on all weights changes nothing. Equal rows are independent observations.

    Beyond 20 000 rows, sizes are fitted to a sample of at least 262 144 rows, 450 for each parameter if that
    is more, and judged on 65 536 rows that are held out; the size that is chosen moves on with the gradients
    of all rows. Points, widths and coefficients then take steps of Levenberg and Marquardt together, one pass
    over the rows each. Which rows are held out or drawn depends on a hash of their numbers and the seed. The
    result is the same on threads and on a cluster, and in whatever container the same rows come in the same
    order. ``relevance="sparse"`` chooses the features on a sample of 20 000 rows.

    References
    ----------
    E. Snelson and Z. Ghahramani, "Sparse Gaussian processes using pseudo-inputs", NIPS 2005: inducing points
    that are fitted, there for regression.
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
        "memory": [POSITIVE],
        "checkpoint": [str, PathLike, None],
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
        memory: float = 1e9,
        checkpoint: str | PathLike | None = None,
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
        self.memory = memory
        self.checkpoint = checkpoint
        self.verbose = verbose

    # -- fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model to the training data.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features), Source or
        path
            Rows of a sparse matrix are made dense. A :class:`~sparseklr.sources.Source` is read block by
            block, as are files: a path, a folder or a pattern such as ``"part-*.parquet"``. Dask collections
            are worked on by the running client, if there is one.
        y : array-like or Dask collection of shape (n_samples,), or str
            Class labels of any type. The column that holds them where X is a path; None for a source, which
            holds them itself.
        sample_weight : array-like or Dask collection of shape (n_samples,), or str, default=None
            Non-negative weights; a weight of 2 equals repeating the row, 0 equals leaving it out.

        Returns
        -------
        self : object
        """
        fitted = copy.copy(self)  # a failed or interrupted fit leaves the estimator as it was
        check_parameters(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)
        if is_stream(X, y, sample_weight):
            fitted._fit_source(as_source(X, y, sample_weight))
        else:
            given = check_data(X, y, sample_weight, precomputed=False, estimator=fitted)
            if len(given.y) > MANY_ROWS:
                fitted._fit_large(ArraySource(given.X, given.y, given.weight))
            else:
                fitted._fit_rows(given)
        self.__dict__ = fitted.__dict__
        return self

    def _fit_source(self, source: Source) -> None:
        """Fit the rows of a source, as a stream if there are many."""
        if source.n_rows > MANY_ROWS:
            self.n_features_in_ = source.n_features
            self._fit_large(source)
        else:
            block = whole(source)
            self._fit_rows(check_data(block.X, block.y, block.weight, precomputed=False, estimator=self))
        if source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _fit_rows(self, given: GivenData) -> None:
        """Fit rows in memory, equal ones merged."""
        kept, codes, classes, weight = weighted_classes(given, self.class_weight)
        goes_on = self._goes_on(classes, given.X.shape[1])
        count = observation_counts(np.ones(len(kept)) if given.weight is None else given.weight[kept])
        rows, observations, scaling = scaled_rows(
            given.X[kept],
            codes,
            weight,
            count,
            len(classes),
            scale=self._scaling if goes_on else self.scale == "auto",
            seed=self._seed(),
        )
        observations = replace(observations, copies=are_copies(*by_point(rows, observations)))
        rows = replace(rows, weight=relative_weights(rows.weight, observations))
        settings = self._settings()
        with StageProgressBar(type(self).__name__, bool(self.verbose)) as progress:
            if goes_on:
                found = refit_compact(rows, settings, self._model, settings.C or self.C_, self.shrinkage_)
            else:
                found = fit_compact(rows, settings, observations, progress.stage)
        if settings.n_points and found.model.n_points < settings.n_points and len(scaling.kept):
            warn(
                f"n_points={settings.n_points} is more than the {len(rows)} distinct rows of X with positive "
                f"weight: the model has {found.model.n_points} points."
            )
        warn_of_fit(found, settings, len(scaling.kept))
        self.classes_ = classes
        self._set_fit(given.X[kept[:1]], scaling, rows, found)

    def _fit_large(self, source: Source) -> None:
        """Fit many rows, in passes over all of them."""
        settings, memory = self._settings(), float(self.memory)
        with StageProgressBar(type(self).__name__, bool(self.verbose)) as progress:
            progress.stage("first look at the rows", 0.0)
            rows = first_look(
                source,
                class_weight=self.class_weight,
                scale=self.scale == "auto",
                seed=self._seed(),
                memory=memory,
                n_jobs=self.n_jobs,
            )
            start = None
            if self._goes_on(rows.classes, source.n_features):
                rows, start = rows.rescaled(self._scaling), (self._model, settings.C or self.C_)
            sample, found = fit_large(rows, settings, memory, self.checkpoint, start, progress.stage)
        self.classes_ = rows.classes
        self._set_fit(rows.summary.least[None], rows.scaling, sample, found)

    def _settings(self) -> PathSettings:
        return PathSettings(
            n_points=None if self.n_points == "auto" else int(self.n_points),
            max_points=int(self.max_points),
            C=None if self.C == "auto" else float(self.C),
            shared=self.relevance == "shared",
            sparse=self.relevance == "sparse",
            tol=float(self.tol),
            threads=n_threads(self.n_jobs),
        )

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31))

    def _goes_on(self, classes: np.ndarray, n_features: int) -> bool:
        """Whether there is a model to start from, of the same kind, classes and features."""
        return (
            (self.warm_start and getattr(self, "n_points_", 0) > 0)
            and len(self.relevance_) == n_features  # n_features_in_ is that of this fit already
            and np.array_equal(self.classes_, classes)
            and self.n_points in ("auto", self.n_points_)
            and self._kind == (self.scale, self.relevance)
        )

    def _set_fit(self, row: Any, scaling: Scaling, rows: LabelledRows, found: CompactFit) -> None:
        model, self._kind = found.model, (self.scale, self.relevance)
        row = np.asarray(row.toarray() if sparse.issparse(row) else row, dtype=np.float64)
        self.points_ = np.repeat(row, model.n_points, axis=0)  # right for the features that do not vary
        self.points_[:, scaling.kept] = scaling.centre
        self._scaling, self._model = scaling.restricted(found.features), model
        looked_at = self._scaling.kept
        self.points_[:, looked_at] = self._scaling.inverse(model.points)
        self.dual_coef_, self.intercept_ = model.coef[:, :-1].copy(), model.coef[:, -1].copy()
        self.relevance_ = np.zeros(self.n_features_in_)
        self.feature_importances_ = np.zeros(self.n_features_in_)
        if model.n_points:
            self.relevance_[looked_at] = model.gamma
            worth = model.squared_derivatives(rows.X[:4096, found.features])
            self.feature_importances_[looked_at] = worth / max(worth.sum(), np.finfo(float).tiny)
        self.n_points_ = model.n_points
        distances = model.distances(rows.X[:2000, found.features])
        self._set_reference_of(np.exp(-(distances**2)), rows.weight[:2000])
        self.C_, self.shrinkage_ = found.plan.C, found.plan.shrinkage
        self.gradient_norm_, self.n_iter_ = found.gradient_norm, found.n_iter
        self.held_out_log_loss_ = found.held_out_loss
        self.path_ = found.path()

    # -- prediction ---------------------------------------------------------------------------

    def _outputs(self, X: Any) -> np.ndarray:
        """f(x) of every output, shape (n_queries, n_outputs)."""
        X = self._checked(X)
        n, parts, threads = X.shape[0], self._model.parts(), n_threads(self.n_jobs)
        out = np.empty((n, len(self.intercept_)))
        for start in range(0, n, _BLOCK):
            scaled = self._scaling.transform(X[start : start + _BLOCK])
            size = len(scaled)
            nobody, same = np.zeros(size, dtype=np.int32), np.ones(size)
            rows = _core.compact_rows(scaled, nobody, same, len(self.classes_), X.dtype == np.float32)
            out[start : start + size] = rows.decision(*parts, threads)
        return out

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        check_indices(X)
        return validate_data(self, X, reset=False, **ROWS)

    def _kernel_to_points(self, rows: Any, some: Any = ALL) -> np.ndarray:
        return np.exp(-(self._distance_to_points(rows)[:, some] ** 2))

    def _distance_to_points(self, rows: Any) -> np.ndarray:
        return self._model.distances(self._scaling.transform(rows))

    def _kernel_of_points(self, some: Any = ALL) -> np.ndarray:
        return np.exp(-(self._model.distances(self._model.points[some])[:, some] ** 2))

    def _diagonal(self, rows: Any) -> np.ndarray:
        return np.ones(rows.shape[0])

    def _log_proba(self, outputs: np.ndarray) -> np.ndarray:
        if len(self.classes_) > 2:  # one model of all classes: softmax
            return np.asarray(log_softmax(outputs, axis=1))
        return super()._log_proba(outputs)

    def get_support(self, indices: bool = False) -> np.ndarray:
        """The features that the model looks at, as a mask or as indices."""
        check_is_fitted(self)
        mask = self.relevance_ > 0
        return np.flatnonzero(mask) if indices else mask

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
