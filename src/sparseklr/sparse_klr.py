"""SparseKLR: S-KLR selects few training points, and a penalised likelihood refits their coefficients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import check_random_state

from ._base import (
    FamiliarityMixin,
    HeldOutMixin,
    KernelClassifier,
    TrainingRows,
    certificate,
    expansion,
    warn_of_solutions,
)
from ._utils.messages import warn
from ._utils.sklearn_compat import CallbackSupportMixin, StrOptions, fit_task
from ._validation import (
    NON_NEGATIVE,
    POSITIVE,
    SOLVER_CONSTRAINTS,
    has_gamma,
    kernel_parameters,
    make_samples,
)
from .conformal import HeldOut
from .dual.one_vs_rest import BinarySolutions, BinarySolver
from .dual.smo import Settings
from .kernels import NAMED_KERNELS
from .refit.calibration import log_probabilities
from .refit.copies import with_copies_marked
from .refit.kernel_search import SETTINGS as SEARCH
from .refit.kernel_search import ChosenKernel, choose_kernel, middle_kernels
from .refit.posterior import Posterior, moderation
from .refit.refit import Losses, Refit, left_out_outputs, losses_of, remedy, sound_refit
from .refit.regularisation import EvaluatedFit
from .samples import DistinctPoints, Samples

# Margin of the selection; with a margin this large the loss is close to the hinge loss.
_MARGIN = 1000.0
# Limit of the pair steps of the selection, which needs no exact optimum. A fit usually takes 1 to 10 per row;
# unbounded kernels of unscaled features may take any number.
_STEPS_PER_ROW, _LEAST_ROWS = 100, 10_000


class SparseKLR(FamiliarityMixin, HeldOutMixin, CallbackSupportMixin, KernelClassifier):
    r"""Sparse kernel logistic regression: class probabilities from few training points.

    A fit has three steps:

    1. Selection: S-KLR (:class:`SKLR`) with a large margin (nearly a support vector machine) selects points.
    2. Refit: the coefficients of these points minimise the penalised negative log-likelihood of all rows,

       .. math:: \tfrac12\|f\|^2 + C \sum_i w_i \log(1 + e^{-y_i f(x_i)}), \qquad
                 f(x) = \sum_b \beta_b k(x_b, x) + c,

       with C chosen by leave-one-out.
    3. Pruning: points are dropped while the predicted probabilities stay nearly the same.

    More than two classes are handled one-vs-rest with a common kernel.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Weight of the log-likelihood of one observation relative to the squared norm of f. ``"auto"`` chooses
        C by approximate leave-one-out log-loss, together with an affine recalibration of the outputs that
        undoes shrinkage.
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed", "auto"} or callable
        ``"rbf"`` by default. A callable takes two arrays of rows and returns the matrix of kernel values.
        ``"auto"`` chooses between rbf and Laplacian by leave-one-out.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient; ``"scale"`` is ``1 / (n_features * X.var())`` with weighted rows. ``"auto"``
        chooses it by leave-one-out (unlike in :class:`~sklearn.svm.SVC`, where it is ``1 / n_features``).
    degree, coef0 : float, default=3, 0
        Parameters of the polynomial kernel; the sigmoid kernel uses ``coef0`` too.
    box : float, default=10
        Upper bound of the dual variables of the selection, like C of a support vector machine: larger values
        select fewer points. The probabilities hardly depend on it.
    prune : float, default=0.05
        Drop points after the refit while the Kullback-Leibler divergence from the unpruned model is below
        ``prune`` standard errors of the leave-one-out loss. 0 keeps all points.
    tol : float, default=1e-3
        The selection stops when the KKT violation in units of the margin is at most ``tol``.
    cache_size : float or "auto", default="auto"
        Memory for kernel rows in MB; ``"auto"`` is half of the available memory, at most 256 MB, or 2 GB for
        sparse data and for more than 64 features.
    class_weight : dict, "balanced" or None, default=None
        Factors on the sample weights by class; ``"balanced"`` gives all classes the same total weight.
    n_jobs : int or None, default=None
        Number of threads; -1 for all cores. Useful from thousands of rows on. Results do not depend on it.
    random_state : int, RandomState instance or None, default=0
        Seed of the random basis of the refit, which is used for more than 300 distinct rows.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : array (n_classes,)
    support_ : array (n_kept,)
        Indices of the kept training points.
    support_vectors_ : array or CSR (n_kept, n_features)
        The kept points; for ``kernel="precomputed"``, the kernel matrix among them. Prediction with a
        precomputed kernel also accepts k(x, kept points).
    dual_coef_ : array (n_outputs, n_kept)
        Coefficients of the kernel functions; one row for two classes.
    intercept_ : array (n_outputs,)
    n_support_ : array (n_classes,)
        Kept points of each class.
    n_selected_ : int
        Number of points selected by S-KLR, before refit and pruning.
    kernel_ : :class:`~sparseklr.kernels.Kernel`
        The kernel with numeric parameters.
    gamma_ : float
        The kernel coefficient; absent for kernels without one.
    C_, slope_ : array (n_outputs,)
        C of each likelihood, and the factor on its outputs. The factor is 1 if C was given, or if a class has
        few observations.
    search_results_ : dict of arrays
        The kernels that were evaluated, in order: ``kernel``, ``gamma``, ``C`` (median over the outputs),
        ``log_loss`` (leave-one-out), ``standard_error`` and ``seconds``. A single row without a search.
    loo_log_loss_ : float
        Leave-one-out log-loss of the class probabilities, an estimate of the log-loss on new rows.
    validation_log_loss_ : float or None
        Log-loss of the chosen kernel on validation folds, if the search preferred another kernel than its
        first. Report this estimate in that case, because the kernel was chosen by the leave-one-out loss.
    loo_decision_function_ : array (n_samples,) or (n_samples, n_classes)
        Approximate leave-one-out outputs; NaN for rows of weight 0.
    n_observations_ : int
        Number of independent observations: rows of positive weight, where a row of integer weight w counts w
        times; or distinct rows, if the labels of equal rows show that these are copies.
    n_iter_ : int
        Pair steps of the selection.
    converged_ : bool
    kkt_violation_ : float
        Largest violation of the optimality conditions of the selection (absolute).
    dual_gap_ : float
        Largest relative duality gap of the selection: an upper bound on the suboptimality.
    n_samples_fit_ : int
        Number of rows passed to ``fit``.
    n_features_in_ : int
    feature_names_in_ : array
        Only when X has column names.

    See Also
    --------
    SKLR : The model of the paper, which selects the points.
    CompactKLR : Fewer points, which are fitted and need not be training rows.

    Notes
    -----
    Only ratios of weights matter. The model is the same (up to rounding) for repeated and weighted rows,
    and in any order of the rows. If the leave-one-out loss is not below that of the class fractions, these
    replace the model, with a warning. A training loss above the leave-one-out loss gives a warning too.
    See the documentation, "The refit" and "Choosing the kernel", for the choice of C, kernel and basis.

    References
    ----------
    Consolo, Manno and Amaldi (2025), "Binary kernel logistic regression: a sparsity-inducing
    formulation and a convergent decomposition training algorithm", Computers & Operations
    Research 188, 107363, doi:10.1016/j.cor.2025.107363.

    Cawley and Talbot (2008), "Efficient approximate leave-one-out cross-validation for kernel logistic
    regression", Machine Learning 71, 243-264.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SparseKLR
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = SparseKLR().fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> len(model.support_) < 50
    True
    """

    _parameter_constraints: dict = {
        **KernelClassifier._parameter_constraints,
        "kernel": [StrOptions({*NAMED_KERNELS, "precomputed", "auto"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), POSITIVE],
        "C": [StrOptions({"auto"}), POSITIVE],
        "box": [POSITIVE],
        "prune": [NON_NEGATIVE],
        "tol": SOLVER_CONSTRAINTS["tol"],
        "cache_size": SOLVER_CONSTRAINTS["cache_size"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C: float | Literal["auto"] = "auto",
        *,
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | Literal["scale", "auto"] = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        box: float = 10.0,
        prune: float = 0.05,
        tol: float = 1e-3,
        cache_size: float | Literal["auto"] = "auto",
        class_weight: dict | Literal["balanced"] | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.box = box
        self.prune = prune
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- fitting ----------------------------------------------------------------------------------

    def _fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, names: Any = None) -> dict[str, Any]:
        seed = check_random_state(self.random_state).randint(2**31)
        samples = make_samples(X, y, weight, class_weight=self.class_weight, **self._first_kernel())
        points = with_copies_marked(DistinctPoints.of(samples, self.n_jobs), seed)
        chosen = self._choose_kernel(points, seed)
        if chosen is not None:
            samples = replace(samples, kernel=chosen.kernel)
            points = replace(points, kernel=chosen.kernel)
        rows, point_of_row = points.labelled(samples)
        with fit_task(self, X, y, len(rows.signs())) as part:
            selection = self._select(rows, part)
        selected = [np.unique(point_of_row[solution.support]) for solution in selection.solutions]
        evaluated = None if chosen is None else chosen.evaluated
        with np.errstate(over="ignore", invalid="ignore"):  # expansion raises on non-finite coefficients
            models, losses = self._refit(points, selected, evaluated, seed)
        self._warn_of_losses(losses, points, samples, names)
        return self._attributes(samples, points, rows, point_of_row, chosen, selection, models)

    def _first_kernel(self) -> dict[str, Any]:
        """Parameters of the first kernel of a search."""
        parameters = kernel_parameters(self)
        if self.kernel == "auto":
            parameters["kernel"] = SEARCH.kinds[0]
        if self.gamma == "auto":
            parameters["gamma"] = "scale"
        return parameters

    def _choose_kernel(self, points: DistinctPoints, seed: int) -> ChosenKernel | None:
        """The kernel chosen by leave-one-out; None if the parameters determine it."""
        if not (has_gamma(self.kernel) and "auto" in (self.kernel, self.gamma)):
            return None
        kernels = middle_kernels(points.kernel, points.X.shape[1], self.kernel, self.gamma)

        def fit(part: DistinctPoints) -> _PartModel:
            rows, point_of_row = part.labelled()
            solutions = self._select(rows).solutions
            selected = [np.unique(point_of_row[solution.support]) for solution in solutions]
            return _PartModel(part, self._refit(part, selected, None, seed)[0])

        climb = self.gamma == "auto"
        return choose_kernel(points, kernels, fit, climb=climb, seed=seed, n_jobs=self.n_jobs)

    def _select(
        self, rows: Samples, part: Callable[[str], AbstractContextManager] = lambda name: nullcontext()
    ) -> BinarySolutions:
        """S-KLR with a large margin, for each class against the rest."""
        most = _STEPS_PER_ROW * max(len(rows.codes), _LEAST_ROWS)
        settings = Settings(tol=self.tol, max_iter=most)
        solver = BinarySolver(rows, settings, self.cache_size, self.n_jobs, bool(self.verbose))
        problems, solutions = solver.problems(_MARGIN * float(self.box), _MARGIN), []
        for k, problem in enumerate(problems):
            with part("binary problem"):
                title = "selection" if len(problems) == 1 else f"class {rows.classes[k]!s}"
                solutions.append(solver.solve(problem, None, title))
        found = BinarySolutions(problems, solutions)
        warn_of_solutions(found, replace(settings, max_iter=-1), self.kernel)  # no parameter of this class
        return found

    def _refit(
        self,
        points: DistinctPoints,
        selected: list[np.ndarray],
        evaluated: list[EvaluatedFit] | None,
        seed: int,
    ) -> tuple[list[Refit], Losses]:
        return sound_refit(
            points,
            selected,
            C=self.C,
            evaluated=evaluated,
            prune_within=float(self.prune),
            seed=seed,
            n_jobs=self.n_jobs,
            show=bool(self.verbose),
        )

    def _warn_of_losses(
        self, losses: Losses, points: DistinctPoints, samples: Samples, names: np.ndarray | None
    ) -> None:
        """Warn if the estimated loss is not below that of the class fractions, or below the training loss."""
        if losses.nothing_found:
            outcome = f"with C={self.C}"
            if min(points.observations_by_class()) < 2:
                outcome = "but a class with a single observation does not allow an estimate"
            elif self.C == "auto":
                outcome = "so the model predicts the class fractions"
            warn(
                f"{type(self).__name__} found no signal: its leave-one-out log-loss of {losses.estimate:.4g} "
                f"is not below that of the class fractions, {losses.fractions:.4g}, {outcome}. "
                + remedy(None if samples.kernel.precomputed else samples.X, names)
            )
        elif losses.training_is_worse:
            warn(
                f"The log-loss on the training rows, {losses.training:.4g}, is above the leave-one-out "
                f"estimate, {losses.estimate:.4g}: the selected points do not suffice. Try another gamma or "
                "a smaller box."
            )

    def _attributes(
        self,
        samples: Samples,
        points: DistinctPoints,
        rows: Samples,
        point_of_row: np.ndarray,
        chosen: ChosenKernel | None,
        selection: BinarySolutions,
        models: list[Refit],
    ) -> dict[str, Any]:
        """The fitted attributes; ``rows`` are the labelled points of ``samples``."""
        coef = np.zeros((len(models), len(rows.codes)))
        for k, model in enumerate(models):
            coef[k, np.searchsorted(point_of_row, model.points)] = model.coef
        kept = point_of_row[rows.in_given_order(np.flatnonzero(coef.any(axis=0)))]
        left_out = left_out_outputs(models)
        losses = losses_of(points, models)
        C = np.array([model.C for model in models])
        kernel = samples.kernel
        single = {"kernel": str(kernel.name), "gamma": kernel.gamma, "C": float(np.median(C))}
        single |= {"log_loss": losses.estimate, "standard_error": losses.error, "seconds": np.nan}
        return {
            **expansion(rows, coef, np.array([model.intercept for model in models])),
            **({"gamma_": kernel.gamma} if has_gamma(kernel.name) else {}),
            **certificate(selection),
            "n_selected_": int(np.count_nonzero(selection.coef.any(axis=0))),
            "C_": C,
            "slope_": np.array([model.slope for model in models]),
            "search_results_": chosen.table()
            if chosen
            else {key: np.array([v]) for key, v in single.items()},
            "loo_log_loss_": losses.estimate,
            "validation_log_loss_": chosen.validation_loss if chosen else None,
            "loo_decision_function_": samples.in_given_rows(
                left_out[points.observation_of_row(samples.codes)]
            ),
            "n_observations_": int(points.observations.count.sum()),
            "_held_out_": HeldOut.of_observations(left_out, points.observations),
            "_posteriors_": [Posterior.of(points, model) for model in models],
            "_training_rows_": None if kernel.precomputed else TrainingRows.of(points, kept),
        }

    # -- uncertainty ------------------------------------------------------------------------------

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Logit of the probability of the second class; for more than two classes, the output of each class.

        Far from all points of the model this is the intercept.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return standard deviations too: those of the Laplace approximation to the posterior
            whose prior has covariance ``C_ * slope_**2 * k(x, x')``. They grow with the distance from the
            kept points.

        Returns
        -------
        array (n_samples,) or (n_samples, n_classes)
            A pair of such arrays with ``return_std=True``.
        """
        decision = super().decision_function(X)
        if not return_std:
            return decision
        std = np.sqrt(self._variances(X))
        return decision, std[:, 0] if len(self.classes_) == 2 else std

    def predict_proba(self, X: Any, moderated: bool = False) -> np.ndarray:
        r"""Class probabilities, which sum to one.

        ``predict`` returns the class of the largest probability without moderation. With more than two
        classes this need not be the class of the largest moderated probability, because each class has its
        own uncertainty.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)
        moderated : bool, default=False
            Whether to average over the uncertainty of rows that are more uncertain than 90% of the training
            rows, which moves probabilities far from the data towards 1/2. Let v be the posterior variance of
            a row and u the 90% quantile on the training rows. If v > u, the log-odds are multiplied by
            :math:`\sqrt{(1 + \pi u/8) / (1 + \pi v/8)}`.

        Returns
        -------
        array (n_samples, n_classes)
        """
        if not moderated:
            return super().predict_proba(X)
        variances = self._variances(X)
        factors = [moderation(variances[:, k], usual) for k, usual in enumerate(self._usual_variances_)]
        return np.exp(self._log_proba(self._outputs(X) * np.column_stack(factors)))

    def _variances(self, X: Any) -> np.ndarray:
        """Posterior variance of every output, (n_queries, n_outputs)."""
        rows = self._checked(X)
        if not hasattr(self, "_posteriors_"):
            raise AttributeError("keep_prediction_only() dropped the posterior; fit again.")
        if self.kernel_.precomputed:
            raise ValueError(
                "the posterior variance needs k(x, x), which kernel='precomputed' does not provide."
            )
        rows = rows.astype(np.float64)
        return np.column_stack([posterior.variance(self.kernel_, rows) for posterior in self._posteriors_])

    @cached_property
    def _usual_variances_(self) -> list[float]:
        """The 90% quantile of the variance of each output on the training rows, computed on first use."""
        rows = self._training_rows_
        if rows is None:  # dir() of a scikit-learn estimator evaluates every property
            raise AttributeError("a precomputed kernel has no posterior variances")
        X, weight, _ = rows
        outputs = self._kernel_to_points(X.astype(np.float64)) @ self.dual_coef_.T + self.intercept_
        return [
            posterior.usual_variance(self.kernel_, X.astype(np.float64), weight, outputs[:, k])
            for k, posterior in enumerate(self._posteriors_)
        ]

    def keep_prediction_only(self) -> Self:
        """Drop leave-one-out values and the posterior, which prediction does not need.

        Their size grows with the training data or the square of the number of kept points. Standard
        deviations and moderated probabilities are then no longer available.

        Returns
        -------
        self : object
        """
        self._check_is_fitted()
        _ = self._reference_, self._background_  # familiarity and explanations stay available
        for name in ("loo_decision_function_", "_posteriors_", "_training_rows_", "_usual_variances_"):
            self.__dict__.pop(name, None)
        return self


@dataclass(frozen=True, eq=False)
class _PartModel:
    """A model fitted to some of the points, for the comparison of kernels."""

    points: DistinctPoints
    models: list[Refit]

    def log_proba(self, X: Any) -> np.ndarray:
        kernel, outputs = self.points.kernel, []
        for model in self.models:
            basis = self.points.X[model.points].astype(np.float64)
            f = kernel.sum(X, basis, model.coef[None])[:, 0] if len(model.points) else 0.0
            outputs.append(np.zeros(X.shape[0]) + f + model.intercept)
        return log_probabilities(np.column_stack(outputs))
