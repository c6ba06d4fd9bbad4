"""SparseKLR: S-KLR selects training rows; their coefficients are refitted by penalised maximum likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ._base import (
    KernelClassifier,
    certificate,
    expansion,
    warn_of_solutions,
)
from ._mixins import FamiliarityMixin, HeldOutMixin, TrainingRows
from ._utils.messages import warn
from ._utils.progress import Report, StageProgressBar, between, silent
from ._utils.sklearn_compat import StrOptions
from ._validation import (
    COUNT,
    NON_NEGATIVE,
    POSITIVE,
    SOLVER_CONSTRAINTS,
    has_gamma,
    kernel_parameters,
    make_samples,
)
from .conformal import HeldOut
from .dual.one_vs_rest import BinarySolutions, BinarySolver
from .dual.parts import select_on_parts
from .dual.smo import Settings
from .kernels import NAMED_KERNELS, Kernel
from .refit.calibration import SOFTMAX, log_probabilities
from .refit.copies import with_copies_marked
from .refit.kernel_search import SETTINGS as SEARCH
from .refit.kernel_search import ChosenKernel, choose_kernel, middle_kernels
from .refit.labels import Labels
from .refit.posterior import Posterior, moderation
from .refit.refit import SETTINGS as REFIT
from .refit.refit import (
    Losses,
    Refit,
    advice_without_signal,
    checked_refit,
    held_out_outputs,
    left_out_outputs,
    losses_of,
)
from .refit.sample import SampledPoints
from .samples import DistinctPoints, Samples
from .scaling import Scaling
from .shapley import ProductExpansion
from .weights import weighted_classes

# Margin lam of the S-KLR problem that selects points. With a margin this large, the loss is close to the
# hinge loss.
_MARGIN = 1000.0
# Maximum number of pair steps of the solver per row. The selection of points does not need an exact optimum.
# The solver usually takes 1 to 10 steps per row, but far more for unbounded kernels of unscaled features.
_STEPS_PER_ROW, _LEAST_ROWS = 100, 10_000


class SparseKLR(FamiliarityMixin, HeldOutMixin, KernelClassifier):
    r"""Sparse kernel logistic regression: class probabilities from a few training rows.

    The model is a kernel logistic regression :math:`f(x) = \sum_b \beta_b k(x_b, x) + c`, in which only a few
    training rows :math:`x_b`, the kept points, have a coefficient. For two classes, f(x) is the logit of the
    second class. A fit has four steps:

    1. Kernel: the features are scaled. The leave-one-out log-loss decides between the rbf and the Laplacian
       kernel, and whether the kernel is wider than the default. Each feature gets a separate kernel
       coefficient if this lowers the loss on validation folds.
    2. Selection: S-KLR (:class:`SKLR`) with a large margin, which is nearly a support vector machine, selects
       some of the training rows. With more than 5000 rows, up to three smaller problems are solved in turn,
       until one of them selects at least 700 rows. The first problem contains a random sample of 5000 rows.
       Each further problem contains the rows that the previous one selected, and up to 5000 other rows with
       :math:`y f(x) < \lambda`.
    3. Refit: the coefficients of the selected points minimise the penalised negative log-likelihood of all
       rows,

       .. math:: \tfrac12\|f\|^2 + C \sum_i w_i \log(1 + e^{-y_i f(x_i)}),

       where :math:`w_i` are the sample weights. C is chosen by the approximate leave-one-out log-loss of a
       model on other points: all distinct rows if there are at most 300, otherwise a random subset of them.
       Leave-one-out on the selected points would be far too optimistic, because the labels of all rows
       influence which points are selected. f is then multiplied by a factor (``slope_``) that corrects the
       shrinkage caused by the penalty, and the intercept is fitted again.
    4. Pruning: points are dropped as long as the predicted probabilities stay nearly the same, and the
       coefficients of the other points are fitted again.

    With more than 10,000 distinct rows, a sample of about this size determines C and the points. Scaling and
    coefficients use all rows.

    With more than two classes, each class has a function :math:`f_k` on the same points. The class
    probabilities are the softmax of the functions, the penalty is the sum of their squared norms, and the
    loss is the cross-entropy. S-KLR selects points for each class against the other classes. Pruning drops
    points for all classes together. Cross-validation replaces leave-one-out in all steps, also where the name
    of an attribute contains ``loo``.

    Besides the methods of every scikit-learn classifier, there are :meth:`familiarity` (is a row similar to
    the training rows?), :meth:`predict_set`, :meth:`predict_interval`, :meth:`explain`, and the options
    ``return_std`` of :meth:`decision_function` and ``moderated`` of :meth:`predict_proba`.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Weight of the log-likelihood of one observation relative to the squared norm of f. A smaller C means
        stronger regularisation. ``"auto"`` chooses a power of ten by the approximate leave-one-out log-loss.
        The loss is computed after a recalibration of f, whose factor becomes ``slope_``.
    kernel : {"auto", "rbf", "laplacian", "linear", "poly", "sigmoid", "precomputed"} or callable
        ``"auto"`` chooses the rbf or the Laplacian kernel by the leave-one-out log-loss. A callable takes two
        arrays of rows and returns the matrix of kernel values.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient for the scaled features. ``"scale"`` means ``1 / (n_features * v)``, where v is the
        weighted variance of the scaled features. With ``kernel="auto"``, ``"scale"`` means
        ``1 / (n_features * sqrt(v))`` for the Laplacian kernel, and gamma is divided by three while this
        reduces the leave-one-out log-loss by more than a standard error. ``"auto"`` searches in both
        directions and confirms the result on validation folds; in :class:`~sklearn.svm.SVC`, ``"auto"`` means
        ``1 / n_features`` instead.
    degree, coef0 : float, default=3, 0
        Parameters of the polynomial kernel. The sigmoid kernel also uses ``coef0``.
    scale : "auto" or None, default="auto"
        ``"auto"`` standardises the features and clips them at four standard deviations from their means. A
        feature with values beyond this limit and a skewness above 1.5 is mapped by rank to a normal
        distribution. A feature with only two values is divided by their difference instead. The columns of
        sparse matrices are only divided by their standard deviations, so that zeros stay zero. None uses the
        features unchanged. Precomputed and callable kernels always use X unchanged.
    relevance : {"features", "shared"}, default="features"
        ``"features"`` gives each feature a separate kernel coefficient if this reduces the log-loss on
        validation folds. The coefficients are computed from the mean squared derivatives of the decision
        function of a first model. ``"shared"`` uses ``gamma`` for all features. Sparse matrices, and kernels
        other than rbf and Laplacian, always use ``"shared"``.
    box : float, default=10
        Parameter of the selection step: the C of the support vector machine that the selection approximates.
        The selection solves S-KLR with ``lam=1000`` and ``C=1000 * box``, because S-KLR with a large margin
        is close to a support vector machine with parameter ``C / lam``. The name refers to the box
        constraints :math:`0 \le \alpha_i \le` ``box`` :math:`\cdot\, w_i` on the dual variables of the
        support vector machine, where :math:`w_i` are the sample weights divided by their mean. A larger value
        makes rows inside the margin more costly, so it usually selects fewer points. The refit of the
        coefficients does not use ``box``, so its effect on the probabilities is small.
    prune : float, default=0.05
        Tolerance of the pruning step. Backward elimination ranks the points by importance, the least
        important points are dropped, and the coefficients of the others are fitted again. Let p and q be the
        class probabilities of a training row before and after pruning. The mean Kullback-Leibler divergence
        KL(p || q) over the training rows must not exceed ``prune`` times the standard error of
        ``loo_log_loss_``. The divergence is computed without recalibration, with recalibration, and with
        recalibrated values of f that are shrunk until the training loss equals the leave-one-out loss; the
        largest of the three values counts. A larger ``prune`` leaves fewer points, up to a limit: if the
        training loss would exceed ``loo_log_loss_`` by more than one standard error, which may happen with
        values above 1, this step is undone. With 0, this step drops points only to satisfy ``max_points``.
        The model may still have fewer points than were selected (``n_selected_``), because the refit drops
        points whose kernel functions are linear combinations of others up to rounding, and usually draws 700
        points at random if more are selected.
    max_points : int or None, default=None
        Maximum number of points of the model; None for no limit. The limit holds even if the divergence then
        exceeds the tolerance (see ``prune``).
    tol : float, default=1e-3
        Tolerance of the selection step. The solver stops when the KKT violation, divided by the margin, is at
        most ``tol``. The accuracy of the refit does not depend on ``tol``.
    cache_size : float or "auto", default="auto"
        Memory for rows of the kernel matrix in MB. ``"auto"`` means 8 MB for each feature, but at least 64 MB
        and at most 256 MB. With sparse data or more than 64 features, ``"auto"`` means 2 GB. Above 64 MB, the
        cache never takes more than half of the available memory.
    class_weight : dict, "balanced" or None, default=None
        Factor by which the sample weights of each class are multiplied. ``"balanced"`` gives all classes the
        same total weight.
    n_jobs : int or None, default=None
        Number of threads; -1 for all cores. Several threads save time with thousands of rows or more. Results
        do not depend on this number.
    random_state : int, RandomState instance or None, default=0
        Seed of the samples of rows, and of the random points on which C is chosen (step 3).
    verbose : int, default=0
        If 1, the current step of the fit and the remaining time are shown.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The class labels.
    support_ : array (n_kept,)
        Indices of the kept points in the training data.
    support_vectors_ : array or CSR (n_kept, n_features)
        The kept points in the units of X. For ``kernel="precomputed"``, the kernel matrix of the kept points;
        prediction then accepts kernel values with all training rows or with the kept points only.
    dual_coef_ : array (n_outputs, n_kept)
        Coefficients :math:`\beta_b` of the kept points. There is one output for two classes, and otherwise
        one output for each class.
    intercept_ : array (n_outputs,)
        The intercepts c.
    n_support_ : array (n_classes,)
        Number of kept points of each class.
    n_selected_ : int
        Number of points selected by S-KLR, before refit and pruning.
    kernel_ : :class:`~sparseklr.kernels.Kernel`
        The kernel with numeric parameters.
    gamma_ : float
        The kernel coefficient common to all features; absent for kernels without this parameter.
    relevance_ : array (n_features,)
        The kernel coefficient :math:`\gamma_j` of each scaled feature: :math:`k(x, z) = \exp(-\sum_j \gamma_j
        (x_j - z_j)^2)` for the rbf kernel, with :math:`|x_j - z_j|` instead of the square for the Laplacian
        kernel; 0 for a constant feature.
    scaling_ : :class:`~sparseklr.scaling.Scaling` or None
        The scaling of the features; None for precomputed and callable kernels.
    C_, slope_ : array (1,)
        C of the likelihood, and the factor by which the recalibration multiplies f after the fit. Both are
        common to all classes. The intercept is then fitted again, so that the mean probability of each class
        on the training rows equals its frequency. The factor is at least 1. It is 1 if C was given, if fewer
        than 60 observations are outside the largest class, or if a larger factor does not lower the estimated
        loss.
    link_ : str
        ``"softmax"``: with more than two classes, the probabilities are the softmax of the decision values.
    search_results_ : dict of arrays
        Table of the evaluated kernels, in order of evaluation, with the columns ``kernel``, ``gamma``, ``C``,
        ``log_loss`` (leave-one-out), ``standard_error`` and ``seconds``. Without a search, the table contains
        only the kernel of the model.
    loo_log_loss_ : float
        Leave-one-out log-loss of the model with which C was chosen (step 3), which has other points than the
        fitted model. It estimates the log-loss of the fitted model on new rows. Cross-validation replaces
        leave-one-out in two cases. With more than two classes, there are ten folds with up to 500
        observations, and otherwise five. With up to 300 distinct rows whose features have separate kernel
        coefficients, there are five folds, and the coefficients for each fold are learned on the others.
    validation_log_loss_ : float or None
        Log-loss of models with the chosen kernel on validation folds. None unless ``gamma="auto"`` and the
        leave-one-out loss was smallest for a kernel or width other than the first one. Report this estimate
        instead of ``loo_log_loss_``, which is optimistic because the width was chosen to minimise it.
    loo_decision_function_ : array (n_samples,) or (n_samples, n_classes)
        Approximate leave-one-out decision values of the model with which C was chosen (step 3); with more
        than two classes, cross-validated decision values. Rows of weight 0 have NaN. With more than 10,000
        distinct rows, rows outside the sample have the decision values of the model fitted to the sample.
    n_observations_ : int
        Number of independent observations. This is usually the number of rows of positive weight. If all
        weights are integer multiples of a common unit, a weight of w units counts as w observations; the unit
        is as large as possible, so equal weights count as one observation each. If the labels of equal rows
        show that these rows are copies of one observation, it is the number of distinct rows.
    n_iter_ : int
        Number of pair steps of the solver in the last problem of the selection.
    converged_ : bool
        Whether the selection reached the tolerance.
    kkt_violation_ : float
        Largest absolute violation of the optimality conditions of the selection.
    dual_gap_ : float
        Largest relative duality gap of the selection, an upper bound on the relative error of its objective.
    n_samples_fit_ : int
        Number of rows passed to ``fit``.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : array
        Names of the features; absent if X has no column names.

    See Also
    --------
    SKLR : The model of the paper, which selects the points.
    CompactKLR : Kernel logistic regression on fewer points, which need not be training rows.

    Notes
    -----
    Multiplying all weights by a common factor has no effect. Among rows of weight 1, a row of weight 2 is
    equivalent to a repeated row (up to rounding). The order of the rows has no effect either. A warning is
    issued if the leave-one-out loss is not below the loss of the class fractions; with ``C="auto"`` and at
    least two observations of each class, the model then predicts the class fractions. If the training loss
    exceeds the leave-one-out loss by more than one standard error, the coefficients are also refitted without
    recalibration and pruning, and the model with the smaller training loss is kept. A warning is issued if
    the training loss of this model still exceeds the leave-one-out loss by more than one standard error. The
    pages "The refit" and "Choosing the kernel" of the documentation describe the choice of C, of the kernel
    and of the points on which C is chosen.

    References
    ----------
    Consolo, Manno and Amaldi (2025), "Binary kernel logistic regression: a sparsity-inducing
    formulation and a convergent decomposition training algorithm", Computers & Operations
    Research 188, 107363, doi:10.1016/j.cor.2025.107363.

    Radhakrishnan, Beaglehole, Pandit and Belkin (2024), "Mechanism for feature learning in neural networks
    and backpropagation-free machine learning models", Science 383, 1461-1467.

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
        "scale": [StrOptions({"auto"}), None],
        "relevance": [StrOptions({"features", "shared"})],
        "box": [POSITIVE],
        "prune": [NON_NEGATIVE],
        "max_points": [COUNT, None],
        "tol": SOLVER_CONSTRAINTS["tol"],
        "cache_size": SOLVER_CONSTRAINTS["cache_size"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C: float | Literal["auto"] = "auto",
        *,
        kernel: str | Callable[..., Any] = "auto",
        gamma: float | Literal["scale", "auto"] = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        scale: Literal["auto"] | None = "auto",
        relevance: Literal["features", "shared"] = "features",
        box: float = 10.0,
        prune: float = 0.05,
        max_points: int | None = None,
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
        self.scale = scale
        self.relevance = relevance
        self.box = box
        self.prune = prune
        self.max_points = max_points
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- fitting ----------------------------------------------------------------------------------

    def _fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, names: Any = None) -> dict[str, Any]:
        """Fit the model to validated data and return the fitted attributes."""
        with StageProgressBar(type(self).__name__, bool(self.verbose)) as progress:
            return self._fit_in_stages(X, y, weight, names, progress.stage)

    def _fit_in_stages(
        self, X: Any, y: np.ndarray, weight: np.ndarray | None, names: Any, report: Report
    ) -> dict[str, Any]:
        """Return the fitted attributes; ``report`` displays the progress."""
        report("scaling", 0.0)
        seed = check_random_state(self.random_state).randint(2**31)
        scaling = self._scale(X, y, weight)
        features = X if scaling is None else scaling.transform(X).astype(X.dtype, copy=False)
        samples = make_samples(features, y, weight, class_weight=self.class_weight, **self._first_kernel())
        points = with_copies_marked(DistinctPoints.of(samples, self.n_jobs), seed)
        chosen = self._choose_kernel(points, seed, between(report, 0.02, 0.2))
        if chosen is not None:
            samples, points = chosen.applied(samples), chosen.applied(points)
        sample = SampledPoints.of(points, seed)
        if chosen is not None and not sample.whole:
            chosen = replace(chosen, evaluated=None, worse=())  # they refer to all points, not to the sample
        rows, point_of_row = sample.points.labelled()
        report("selection of points", 0.2)
        selected, selection = self._select(rows, point_of_row)
        with np.errstate(over="ignore", invalid="ignore"):  # expansion() checks the coefficients
            model, losses = self._refit(sample.points, selected, chosen, seed, between(report, 0.3, 0.8))
            if not sample.whole:
                report("likelihood of all rows", 0.8)
                model = sample.refitted(model, self.n_jobs)
                losses = losses_of(points, model)
        unscaled = self.scale is None or callable(self.kernel)
        self._warn_of_losses(
            losses, points, X if unscaled and not samples.kernel.precomputed else None, names
        )
        attributes = self._attributes(samples, points, chosen, len(selected), selection, model)
        if not samples.kernel.precomputed:
            attributes["support_vectors_"] = X[attributes["support_"]]
        relevance = _relevance(samples.kernel, chosen, scaling, X.shape[1])
        vectors = attributes["support_vectors_"]
        return {
            **attributes,
            "scaling_": scaling,
            "relevance_": relevance,
            "_points_": _compared_features(vectors, scaling, relevance, samples.kernel),
        }

    def _scale(self, X: Any, y: np.ndarray, weight: np.ndarray | None) -> Scaling | None:
        """Return the scaling of the features; None for precomputed and callable kernels."""
        if self.kernel == "precomputed" or callable(self.kernel):
            return None
        if self.scale is None:
            return Scaling.identity(X.shape[1])
        rows, _, _, weight = weighted_classes(y, weight, self.class_weight)
        if sparse.issparse(X):
            return Scaling.uncentred(X[rows], weight)
        scaling = Scaling.of(X[rows], weight, ranges=True).without_rounding_errors()
        return scaling if len(scaling.kept) else Scaling.identity(X.shape[1])

    def _first_kernel(self) -> dict[str, Any]:
        """Return the parameters of the first kernel of a search."""
        parameters = kernel_parameters(self)
        if self.kernel == "auto":
            parameters["kernel"] = SEARCH.kinds[0]
        if self.gamma == "auto":
            parameters["gamma"] = "scale"
        return parameters

    def _choose_kernel(self, points: DistinctPoints, seed: int, report: Report) -> ChosenKernel | None:
        """Return the chosen kernel, with factors for the features; None if the parameters determine both."""
        by_distance = self.kernel in (*SEARCH.kinds, "auto") and not sparse.issparse(points.X)
        relevance = self.relevance == "features" and by_distance and points.X.shape[1] > 1
        search = has_gamma(self.kernel) and "auto" in (self.kernel, self.gamma)
        if not (search or relevance):
            return None
        kernels = middle_kernels(points.kernel, points.X.shape[1], self.kernel, self.gamma)

        def fit(part: DistinctPoints) -> _PartModel:
            selected, _ = self._select(*part.labelled())
            return _PartModel(part, self._refit(part, selected, None, seed)[0])

        climb = self.gamma == "auto"
        return choose_kernel(
            points,
            kernels,
            fit,
            climb=climb,
            widen=self.kernel == "auto" and self.gamma == "scale",
            relevance=relevance,
            seed=seed,
            report=report,
            n_jobs=self.n_jobs,
        )

    def _select(self, rows: Samples, point_of_row: np.ndarray) -> tuple[np.ndarray, BinarySolutions]:
        """Return the points that S-KLR with a large margin selects, and the solutions of the dual problems.

        With more than two classes, points are selected for each class against the other classes.
        """
        most = _STEPS_PER_ROW * max(len(rows.codes), _LEAST_ROWS)
        settings = Settings(tol=self.tol, max_iter=most)

        def solve(some: Samples) -> BinarySolutions:
            solver = BinarySolver(some, settings, self.cache_size, self.n_jobs)
            problems = solver.problems(_MARGIN * float(self.box), _MARGIN)
            return BinarySolutions(problems, [solver.solve(problem) for problem in problems])

        selected, found = select_on_parts(rows, solve, REFIT.usual_points, self.n_jobs)
        # max_iter is not a parameter of this class, so the warning must not mention it.
        warn_of_solutions(found, replace(settings, max_iter=-1), self.kernel)
        return np.unique(point_of_row[selected]), found

    def _refit(
        self,
        points: DistinctPoints,
        selected: np.ndarray,
        chosen: ChosenKernel | None,
        seed: int,
        report: Report = silent,
    ) -> tuple[Refit, Losses]:
        """Return the refitted model and its log-losses."""
        return checked_refit(
            points,
            selected,
            C=self.C,
            evaluated=None if chosen is None else chosen.evaluated,
            near_C=None if chosen is None else chosen.C,
            worse=() if chosen is None else chosen.worse,
            folds=None if chosen is None else chosen.folds,
            prune_within=float(self.prune),
            max_points=self.max_points,
            seed=seed,
            report=report,
            n_jobs=self.n_jobs,
        )

    def _warn_of_losses(self, losses: Losses, points: DistinctPoints, unscaled: Any, names: Any) -> None:
        """Warn if the model finds no signal, or if its training loss is too large.

        There is no signal if the leave-one-out loss is not below the loss of the class fractions. The
        training loss is too large if it exceeds the leave-one-out loss by more than one standard error.
        ``unscaled`` contains X if its features are not scaled; otherwise it is None.
        """
        if losses.no_signal:
            outcome = f"with C={self.C}; try C='auto'"
            if min(points.observations_by_class()) < 2:
                outcome = "but this estimate is unreliable because a class has a single observation"
            elif self.C == "auto":
                outcome = "so the model predicts the class fractions"
            warn(
                f"{type(self).__name__} found no signal: its leave-one-out log-loss of {losses.estimate:.4g} "
                f"is not below the log-loss of the class fractions, {losses.fractions:.4g}, {outcome}. "
                + advice_without_signal(unscaled, names, has_gamma(self.kernel))
            )
        elif losses.training_is_worse:
            remedies = ["another gamma"] * has_gamma(self.kernel) + ["a smaller box"]
            remedies += ["a larger max_points"] * (self.max_points is not None)
            warn(
                f"The log-loss on the training rows, {losses.training:.4g}, is above the leave-one-out "
                f"estimate, {losses.estimate:.4g}, so the model has too few points. Try "
                f"{' or '.join(remedies)}."
            )

    def _attributes(
        self,
        samples: Samples,
        points: DistinctPoints,
        chosen: ChosenKernel | None,
        n_selected: int,
        selection: BinarySolutions,
        model: Refit,
    ) -> dict[str, Any]:
        """Return the fitted attributes of a refitted model."""
        rows, point_of_row = points.labelled(samples)
        coef = np.zeros((len(model.coef), len(rows.codes)))
        coef[:, np.searchsorted(point_of_row, model.points)] = model.coef
        kept = point_of_row[rows.in_given_order(np.flatnonzero(coef.any(axis=0)))]
        losses, left_out = losses_of(points, model), left_out_outputs(points, model)
        kernel = samples.kernel
        single = {"kernel": str(kernel.name), "gamma": kernel.gamma, "C": model.C}
        single |= {"log_loss": losses.estimate, "standard_error": losses.error, "seconds": np.nan}
        return {
            **expansion(rows, coef, model.intercept),
            **({"gamma_": kernel.gamma} if has_gamma(kernel.name) else {}),
            **certificate(selection),
            "n_selected_": n_selected,
            "C_": np.array([model.C]),
            "slope_": np.array([model.slope]),
            "link_": SOFTMAX,
            "search_results_": chosen.table()
            if chosen
            else {key: np.array([v]) for key, v in single.items()},
            "loo_log_loss_": losses.estimate,
            "validation_log_loss_": chosen.validation_loss if chosen else None,
            "loo_decision_function_": samples.in_given_rows(
                left_out[points.observation_of_row(samples.codes)]
            ),
            "n_observations_": int(points.observations.count.sum()),
            "_held_out_": HeldOut.of_observations(held_out_outputs(points, model), points.observations),
            "_posteriors_": Posterior.of(points, model),
            "_training_rows_": None if kernel.precomputed else TrainingRows.of(points, kept),
        }

    # -- prediction -------------------------------------------------------------------------------

    @cached_property
    def _points_(self) -> Any:
        """Features of the kept points as arguments of the kernel; computed again after a model is loaded."""
        return self._features(self.support_vectors_)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_points_"}

    def _features(self, rows: Any) -> Any:
        """Return the arguments of the kernel for validated rows."""
        return _compared_features(rows, self.scaling_, self.relevance_, self.kernel_)

    def _product_expansion(self) -> ProductExpansion:
        """Return the decision function as a sum of products over features."""
        expansion = super()._product_expansion()
        if self.scaling_ is None:
            return expansion
        scaling, factors = self.scaling_, _factors(self.scaling_, self.relevance_, self.kernel_)
        return replace(
            expansion,
            column=scaling.kept,
            features=self._features,
            slopes=lambda rows: scaling.slopes(rows) * factors,
        )

    # -- uncertainty ------------------------------------------------------------------------------

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Return the decision values of the rows: logits of the second class, or one score for each class.

        With more than two classes, the probabilities are the softmax of the scores. The values of the rbf and
        Laplacian kernels fall to 0 far from all kept points. With ``scale=None``, the decision value
        therefore tends to ``intercept_`` there. With ``scale="auto"``, features are clipped, so the decision
        value is constant beyond the limits, but the constants differ between directions.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)
            Rows to predict.
        return_std : bool, default=False
            Whether to return posterior standard deviations too. They come from the Laplace approximation for
            a Gaussian process prior with covariance ``C_ * slope_**2 * k(x, x')``, and grow with the distance
            from the kept points.

        Returns
        -------
        decision : array (n_samples,) or (n_samples, n_classes)
            Decision values.
        std : array of the same shape
            Posterior standard deviations; only with ``return_std=True``.
        """
        decision = super().decision_function(X)
        if not return_std:
            return decision
        std = np.sqrt(self._variances(X))
        return decision, std[:, 0] if len(self.classes_) == 2 else std

    def predict_proba(self, X: Any, moderated: bool = False) -> np.ndarray:
        r"""Return the class probabilities of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)
            Rows to predict.
        moderated : bool, default=False
            Whether to average the probabilities over the posterior uncertainty of rows that are more
            uncertain than 90% of the training rows. Far from the data, this moves the probabilities towards
            ``1 / n_classes``. Let v be the posterior variance of the log-odds of a row; with more than two
            classes, v is twice the mean variance of the decision values. Let u be the 90% quantile of v on
            the training rows. If v > u, the decision values are multiplied by
            :math:`\sqrt{(1 + \pi u/8) / (1 + \pi v/8)}`. This factor does not change the order of the
            classes.

        Returns
        -------
        array (n_samples, n_classes)
            Probabilities in the order of ``classes_``.
        """
        if not moderated:
            return super().predict_proba(X)
        variance, usual = self._variances(X).mean(axis=1), float(np.mean(self._usual_variances_))
        if len(self.classes_) > 2:  # the log-odds of two classes are a difference of two outputs
            variance, usual = 2 * variance, 2 * usual
        return np.exp(self._log_proba(self._outputs(X) * moderation(variance, usual)[:, None]))

    def _variances(self, X: Any) -> np.ndarray:
        """Return the posterior variances of the outputs as an array of shape (n_queries, n_outputs)."""
        rows = self._checked(X)
        if not hasattr(self, "_posteriors_"):
            raise AttributeError("keep_prediction_only() dropped the posterior; fit the model again.")
        if self.kernel_.precomputed:
            raise ValueError(
                "the posterior variance needs k(x, x), which kernel='precomputed' does not provide."
            )
        rows = rows.astype(np.float64)
        return np.column_stack([posterior.variance(self.kernel_, rows) for posterior in self._posteriors_])

    @cached_property
    def _usual_variances_(self) -> list[float]:
        """The 90% quantile of the variance of each output over the training rows, computed on first use."""
        rows = self._training_rows_
        if rows is None:  # dir() of a scikit-learn estimator evaluates every property
            raise AttributeError("posterior variances are not available with kernel='precomputed'")
        X, weight, _ = rows
        outputs = self._kernel_to_points(X.astype(np.float64)) @ self.dual_coef_.T + self.intercept_
        f = outputs if outputs.shape[1] > 1 else outputs[:, 0]
        information = Labels(np.zeros_like(f), weight).at(f).by_output
        return [
            posterior.usual_variance(self.kernel_, X.astype(np.float64), weight, information[:, k])
            for k, posterior in enumerate(self._posteriors_)
        ]

    def keep_prediction_only(self) -> Self:
        """Drop the leave-one-out values and the posterior, which predictions do not need.

        The size of these attributes grows with the training data or with the square of the number of kept
        points. Standard deviations and moderated probabilities are no longer available afterwards.

        Returns
        -------
        self : object
        """
        check_is_fitted(self)
        _ = self._reference_, self._background_  # familiarity and explanations stay available
        for name in ("loo_decision_function_", "_posteriors_", "_training_rows_", "_usual_variances_"):
            self.__dict__.pop(name, None)
        return self


def _relevance(
    kernel: Kernel, chosen: ChosenKernel | None, scaling: Scaling | None, n_features: int
) -> np.ndarray:
    """Return the kernel coefficient of every feature; 0 for constant features, which the scaling drops."""
    factors: Any = 1.0 if chosen is None or chosen.factors is None else chosen.factors
    relevance = np.zeros(n_features)
    relevance[slice(None) if scaling is None else scaling.kept] = kernel.gamma * (
        factors**2 if kernel.name == "rbf" else factors
    )
    return relevance


def _factors(scaling: Scaling, relevance: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Return factors on the scaled features, which give each feature its ``relevance`` in the kernel."""
    widths = relevance[scaling.kept] / kernel.gamma
    return np.sqrt(widths) if kernel.name == "rbf" else widths


def _compared_features(rows: Any, scaling: Scaling | None, relevance: np.ndarray, kernel: Kernel) -> Any:
    """Return the arguments of the kernel: scaled features multiplied by the factors of their relevance."""
    if scaling is None:
        return rows
    scaled = scaling.transform(rows)
    if not sparse.issparse(scaled):
        scaled *= _factors(scaling, relevance, kernel)
    return scaled.astype(rows.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class _PartModel:
    """A model fitted to a subset of the points, used to compare kernels on validation folds."""

    points: DistinctPoints
    model: Refit

    def log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the class probabilities of rows X."""
        model, outputs = self.model, self.model.intercept + np.zeros((X.shape[0], 1))
        if len(model.points):
            basis = self.points.X[model.points].astype(np.float64)
            outputs = outputs + self.points.kernel.sum(X, basis, model.coef)
        return log_probabilities(outputs, SOFTMAX)
