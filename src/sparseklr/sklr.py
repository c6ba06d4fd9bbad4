"""The model of the paper (SKLR), its solutions on a grid (klr_path), and its cross-validation (SKLRCV).

The paper is Consolo, Manno and Amaldi (2025), Computers & Operations Research 188, 107363.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import signature
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.stats import rankdata
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from ._base import (
    Explanation,
    KernelClassifier,
    SVCParameters,
    certificate,
    expansion,
    set_fitted,
    warn_of_solutions,
)
from ._utils.progress import GridProgressBar
from ._utils.sklearn_compat import HasMethods, StrOptions, response_of, takes_weights
from ._validation import (
    KERNEL_CONSTRAINTS,
    NON_NEGATIVE,
    POSITIVE,
    SOLVER_CONSTRAINTS,
    check_data,
    check_parameters,
    has_gamma,
    kernel_parameters,
    make_samples,
    naming_rows,
    unused_by_kernel,
    warn_of_unused,
)
from .dual.one_vs_rest import BinarySolutions, BinarySolver
from .dual.path import KLRPath, LamScale, check_grid, solve_grid
from .dual.smo import Settings, SolveInterrupted, WorkingSet
from .dual.softmax import SoftmaxSolution, SoftmaxSolver
from .refit.calibration import ONE_VS_REST, SOFTMAX, fit_sigmoids, link
from .refit.softmax_calibration import fit_vector_scaling, softmax_link
from .samples import Samples, weighted_classes
from .shapley import ProductExpansion


class WarmStart(NamedTuple):
    """Coefficients of an earlier fit, from which the next fit starts."""

    support: np.ndarray  # indices of the training rows with a non-zero coefficient
    coef: np.ndarray  # coefficients of these rows, (n_outputs, n_support)
    margins: np.ndarray  # margin lam of each output
    n_samples: int  # number of rows passed to the earlier fit

    @classmethod
    def of(cls, solved: BinarySolutions | SoftmaxSolution, samples: Samples) -> WarmStart:
        """Return a warm start from the solutions of some of the problems, or of all of them."""
        coef = solved.coef
        kept = np.flatnonzero(coef.any(axis=0))
        return cls(samples.positions[kept], coef[:, kept], solved.margins, samples.n_samples)

    def start_of(self, k: int, samples: Samples) -> tuple[np.ndarray | None, float]:
        """Return the dual variables and the margin of output k for ``samples``.

        The result is None and 0 if the number of samples or of outputs has changed.
        """
        if k >= len(self.coef) or self.n_samples != samples.n_samples:
            return None, 0.0
        return np.abs(self._all_coef()[k, samples.positions]), float(self.margins[k])

    def coef_of(self, samples: Samples) -> np.ndarray | None:
        """Return the coefficients, (n_classes, n), for ``samples``.

        The result is None if the number of samples or of classes has changed.
        """
        if len(self.coef) != len(samples.classes) or self.n_samples != samples.n_samples:
            return None
        return self._all_coef()[:, samples.positions]

    def _all_coef(self) -> np.ndarray:
        """Return the coefficients of all rows passed to the earlier fit."""
        coef = np.zeros((len(self.coef), self.n_samples))
        coef[:, self.support] = self.coef
        return coef


class SKLR(KernelClassifier):
    r"""Sparse kernel logistic regression (S-KLR), the model of Consolo, Manno and Amaldi (2025).

    S-KLR is a classifier with a decision function :math:`f(x) = \sum_j \alpha_j y_j k(x_j, x) + b` that
    minimises

    .. math:: \tfrac12\|f\|^2 + C \sum_i w_i \log(1 + e^{\lambda - y_i f(x_i)}),

    where :math:`y_i = \pm 1` are the labels and :math:`w_i` the sample weights. The margin :math:`\lambda`
    (``lam``) makes the model sparse: if :math:`y_i f(x_i)` is well above :math:`\lambda`, row i has a
    negligible coefficient, and the model drops it (see ``bound``). The other training rows are called the
    kept points. With ``lam=0`` the model is kernel logistic regression, which usually keeps every row. If C
    and ``lam`` grow at a fixed ratio, f / lam approaches the decision function of a support vector machine
    with parameter ``C / lam``. If C is fixed and ``lam`` grows, the number of kept points typically falls at
    first, and rises again when ``C / lam`` is small. With more than two classes, either one binary problem is
    solved for each class against the other classes, or a single problem with the softmax loss.

    The values f(x) are not logits. ``calibration`` determines how they are converted into probabilities.
    ``decision_function`` returns calibrated values instead of f(x): with two classes the logit of the
    probability of the second class, which is f(x) itself only for ``calibration=None``; with more classes one
    score for each class. :class:`SparseKLR` usually gives more accurate probabilities; SKLR is for users who
    need the model of the paper.

    Parameters
    ----------
    C : float, default=10000
        Weight of the loss relative to the squared norm of f. A smaller C means stronger regularisation.
    lam : float or "auto", default="auto"
        The margin, >= 0. ``"auto"`` means ``C / 10``, the rule of the paper; the model is then close to a
        support vector machine with C = 10. If the ratio ``lam / C`` is fixed, a smaller C makes the loss
        smoother.
    nu : float or None, default=None
        Alternative to ``lam``: the required sum of the dual variables of each binary problem. A root search
        finds the margin for which the sum equals ``nu`` up to ``tol * nu``. ``nu`` must be below
        ``2 * C * n_min``, where n_min is the size of the smaller class. If the sum exceeds ``nu`` even with
        margin 0, a warning is issued and the margin is 0, as in kernel logistic regression.
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed"} or callable, default="rbf"
        A callable takes two arrays of rows and returns the matrix of kernel values.
    gamma : "scale" or float, default="scale"
        Kernel coefficient. ``"scale"`` means ``1 / (n_features * X.var())``, with the weighted variance.
    degree, coef0 : float, default=3, 0
        Parameters of the polynomial kernel. The sigmoid kernel also uses ``coef0``.
    working_set : {"mixed", "second-order", "first-order"}, default="mixed"
        Rule by which the solver selects pairs of variables; see :class:`sparseklr.dual.Settings`.
    tol : float, default=1e-3
        The solver stops when the KKT violation is at most ``tol * max(1, lam)``. The tolerance is relative to
        the margin, as in :class:`~sklearn.svm.SVC`, where the margin is 1. Probabilities need more accurate
        solutions. With ``calibration="sigmoid"``, ``tol / 10`` replaces ``tol``. With ``calibration="link"``,
        the limit is ``tol`` itself, without the factor ``max(1, lam)``. With ``multi_class="softmax"``, the
        solver also stops when the relative duality gap is at most ``tol / 10``.
    max_iter : int, default=-1
        Maximum number of pair steps for each binary problem; -1 for no limit. A pair step updates two dual
        variables.
    bound : float or None, default=None
        Lower bound of the dual variables, below which they count as zero. The model drops the training rows
        whose dual variable is at the lower bound. None means ``1e-9 * C * weight``.
    calibration : {"sigmoid", "link"} or None, default="sigmoid"
        Method that converts values f(x) into probabilities.

        - ``"sigmoid"``: the probability is ``sigmoid(slope * f + intercept)`` (Platt scaling). Slope and
          intercept are fitted to values of f from stratified cross-validation with at most five folds: the
          value of each training row comes from a model that was fitted without its fold. The final f is
          fitted to all rows.
        - ``"link"``: the probability :math:`p = \sigma(\lambda + f) / (\sigma(\lambda + f) + \sigma(\lambda -
          f))` of the second class, where :math:`\sigma` is the sigmoid. This is the probability for which f
          minimises the expected loss, so nothing is fitted. It is close to 1/2 wherever :math:`|f|` is well
          below :math:`\lambda`, so it hardly distinguishes rows inside the margin.
        - None: the probability is ``sigmoid(f)``, equation 3 of the paper. It is far too confident for
          sparse models.

        With ``multi_class="ovr"`` and more than two classes, such a probability is computed for each class
        against the other classes, and the probabilities are divided by their sum. With
        ``multi_class="softmax"``, ``"sigmoid"`` fits a slope and an offset for each class before the softmax,
        ``"link"`` gives the class probabilities for which f minimises the expected softmax margin loss, and
        None means the softmax of f.
    multi_class : {"ovr", "softmax"}, default="ovr"
        Treatment of more than two classes. ``"ovr"`` solves one binary problem for each class against the
        other classes. ``"softmax"`` minimises :math:`\tfrac12\sum_k\|f_k\|^2 + C\sum_i w_i\log\sum_k
        e^{\lambda[k\ne y_i] + f_k(x_i) - f_{y_i}(x_i)}` in one problem. All classes share the kept points, so
        the model keeps fewer points than with ``"ovr"``.
    cache_size : float or "auto", default="auto"
        Memory for rows of the kernel matrix in MB. ``"auto"`` means 8 MB for each feature, but at least 64 MB
        and at most 256 MB. With sparse data or more than 64 features, ``"auto"`` means 2 GB. Above 64 MB, the
        cache never takes more than half of the available memory.
    class_weight : dict, "balanced" or None, default=None
        Factor by which C is multiplied for the rows of each class. ``"balanced"`` gives all classes the same
        total weight.
    warm_start : bool, default=False
        Whether the next fit starts from the current solution. If the number of samples has changed, the fit
        starts from zero. If Ctrl-C interrupts a fit, the next fit resumes it; until then the model cannot
        predict.
    n_jobs : int or None, default=None
        Number of threads; -1 for all cores. Results do not depend on this number.
    verbose : int, default=0
        If 1, a progress bar is shown.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The class labels.
    support_ : array (n_kept,)
        Indices of the kept points in the training data.
    support_vectors_ : array or CSR (n_kept, n_features)
        The kept points. For ``kernel="precomputed"``, the kernel matrix of the kept points; prediction then
        accepts kernel values with all training rows or with the kept points only.
    dual_coef_ : array (n_outputs, n_kept)
        Coefficients :math:`\alpha_j y_j` of the kept points, where :math:`\alpha_j` is the amount by which
        the dual variable exceeds ``bound``. There is one output for two classes, and otherwise one output for
        each class.
    intercept_ : array (n_outputs,)
        The intercepts b.
    n_support_ : array (n_classes,)
        Number of kept points of each class.
    lam_ : array (n_outputs,)
        The margin of each output. The primal problem in the paper has a variable rho, which equals this
        margin at the optimum.
    sigmoid_ : array (n_outputs, 2) or None
        With ``calibration="sigmoid"``, the slope and the intercept for each output; otherwise None.
    calibration_ : str or None
        The calibration of the fitted model.
    link_ : {"one-vs-rest", "softmax"}
        With more than two classes, the probabilities are proportional to the sigmoids of the decision values
        (``"one-vs-rest"``), or they are the softmax of the decision values (``"softmax"``). This attribute
        does not depend on ``calibration``.
    kernel_ : :class:`~sparseklr.kernels.Kernel`
        The kernel with numeric parameters.
    gamma_ : float
        The kernel coefficient; absent for kernels without this parameter.
    n_iter_ : int
        Number of pair steps.
    converged_ : bool
        Whether the solver reached the tolerance.
    kkt_violation_ : float
        Largest absolute violation of the optimality conditions.
    dual_gap_ : float
        Largest relative duality gap, an upper bound on the relative error of the objective.
    n_samples_fit_ : int
        Number of rows passed to ``fit``.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : array
        Names of the features; absent if X has no column names.

    See Also
    --------
    SparseKLR : Selects points by S-KLR and fits their coefficients by penalised likelihood.
    SKLRCV : Chooses C and lam by cross-validation.

    Notes
    -----
    Multiplying all weights by a factor is equivalent to multiplying C by this factor. Kernel values are
    computed in float64, with two exceptions. Training uses float32 for float32 input, and for the rbf and
    Laplacian kernels with more than 2000 rows (:meth:`sparseklr.kernels.Kernel.row_source`). Prediction uses
    float32 if both the training rows and the rows to predict are float32. A kernel value that is not finite
    raises an error.

    References
    ----------
    Consolo, Manno and Amaldi (2025), "Binary kernel logistic regression: a sparsity-inducing
    formulation and a convergent decomposition training algorithm", Computers & Operations
    Research 188, 107363, doi:10.1016/j.cor.2025.107363.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SKLR
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = SKLR(C=100, lam=10).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.dual_gap_ < 1e-3
    True
    """

    _parameter_constraints: dict = {
        **KernelClassifier._parameter_constraints,
        **SOLVER_CONSTRAINTS,
        "C": [POSITIVE],
        "lam": [StrOptions({"auto"}), NON_NEGATIVE],
        "nu": [NON_NEGATIVE, None],
        "calibration": [StrOptions({"sigmoid", "link"}), None],
        "multi_class": [StrOptions({"ovr", "softmax"})],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C: float = 1e4,
        *,
        lam: float | Literal["auto"] = "auto",
        nu: float | None = None,
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | Literal["scale"] = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        working_set: WorkingSet = "mixed",
        tol: float = 1e-3,
        max_iter: int = -1,
        bound: float | None = None,
        calibration: Literal["sigmoid", "link"] | None = "sigmoid",
        multi_class: Literal["ovr", "softmax"] = "ovr",
        cache_size: float | Literal["auto"] = "auto",
        class_weight: dict | Literal["balanced"] | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.lam = lam
        self.nu = nu
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.working_set = working_set
        self.tol = tol
        self.max_iter = max_iter
        self.bound = bound
        self.calibration = calibration
        self.multi_class = multi_class
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- fitting ----------------------------------------------------------------------------------

    def _fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, names: Any = None) -> dict[str, Any]:
        """Solve the dual problems, fit the calibration, and return the fitted attributes."""
        samples = make_samples(X, y, weight, class_weight=self.class_weight, **kernel_parameters(self))
        joint = self.multi_class == "softmax" and len(samples.classes) > 2
        solve = self._solve_jointly if joint else self._solve_one_vs_rest
        solved, sigmoid = solve(samples, self.solver_settings(), self._margin(joint))
        return {
            **expansion(samples, solved.coef, solved.intercept),
            **({"gamma_": samples.kernel.gamma} if has_gamma(samples.kernel.name) else {}),
            **certificate(solved),
            "lam_": solved.margins,
            "calibration_": self.calibration,
            "link_": SOFTMAX if joint else ONE_VS_REST,
            "sigmoid_": sigmoid,
        }

    def _solve_one_vs_rest(
        self, samples: Samples, settings: Settings, margin: float
    ) -> tuple[BinarySolutions, np.ndarray | None]:
        """Return the solutions of all binary problems and, with ``calibration="sigmoid"``, the sigmoids."""
        solver = BinarySolver(samples, settings, self.cache_size, self.n_jobs, bool(self.verbose))
        solved = BinarySolutions(solver.problems(float(self.C), margin), [])
        try:
            self._solve(solver, solved)
            warn_of_solutions(solved, settings, self.kernel, self.nu)
            return solved, fit_sigmoids(solver, solved) if self.calibration == "sigmoid" else None
        except KeyboardInterrupt:
            if self.warm_start and solved.solutions:
                set_fitted(self, {"interrupted_": WarmStart.of(solved, samples)})
            raise

    def _solve_jointly(
        self, samples: Samples, settings: Settings, margin: float
    ) -> tuple[SoftmaxSolution, np.ndarray | None]:
        """Return the softmax solution and, with ``calibration="sigmoid"``, the vector scaling."""
        solver = SoftmaxSolver(samples, settings, self.cache_size, self.n_jobs, bool(self.verbose))
        start, solved = self._start(), None
        try:
            coef = None if start is None else start.coef_of(samples)
            solved = solver.solve(solver.problem(float(self.C), margin), coef, type(self).__name__)
            warn_of_solutions(solved, settings, self.kernel)
            return solved, fit_vector_scaling(solver, solved) if self.calibration == "sigmoid" else None
        except KeyboardInterrupt as interrupted:
            if isinstance(interrupted, SolveInterrupted) and solved is None:
                solved = interrupted.solution
            if self.warm_start and solved is not None:
                set_fitted(self, {"interrupted_": WarmStart.of(solved, samples)})
            raise

    def _solve(self, solver: BinarySolver, solved: BinarySolutions) -> None:
        """Solve every binary problem and append its solution to ``solved``.

        After an interruption, the last solution is an unfinished iterate.
        """
        samples, start, problems = solver.data, self._start(), solved.problems
        try:
            for k, problem in enumerate(problems):
                title = type(self).__name__ if len(problems) == 1 else f"class {samples.classes[k]!s}"
                alpha, lam = (None, 0.0) if start is None else start.start_of(k, samples)
                if self.nu is None:
                    solution = solver.solve(problem, alpha, title)
                else:
                    problems[k], solution = solver.solve_nu(problem, float(self.nu), alpha, lam, title)
                solved.solutions.append(solution)
        except SolveInterrupted as interrupted:
            if interrupted.lam is not None:
                problems[k] = replace(problem, lam=interrupted.lam)
            solved.solutions.append(interrupted.solution)
            raise

    def _start(self) -> WarmStart | None:
        """Return the warm start of this fit; None for a cold start."""
        if not self.warm_start:
            return None
        if hasattr(self, "interrupted_"):
            return self.interrupted_
        if not self.__sklearn_is_fitted__():
            return None
        return WarmStart(self.support_, self.dual_coef_, self.lam_, self.n_samples_fit_)

    def _margin(self, joint: bool) -> float:
        """Return ``lam`` as a number; with ``nu``, a root search replaces this number."""
        if self.nu is not None and joint:
            raise ValueError(
                f"nu={self.nu!r} fixes the sum of the dual variables of each binary problem, so it needs "
                "multi_class='ovr'. Use lam with multi_class='softmax'."
            )
        if self.nu is not None and self.lam != "auto":
            raise ValueError(f"lam and nu cannot both be given; got lam={self.lam!r} and nu={self.nu!r}.")
        return float(self.C) / 10 if self.lam == "auto" else float(self.lam)

    def solver_settings(self) -> Settings:
        """Return the settings of the solver for the current parameters.

        Returns
        -------
        sparseklr.dual.Settings
        """
        tol = self.tol / 10 if self.calibration == "sigmoid" else self.tol
        scale_tol = self.calibration != "link"
        return Settings(self.working_set, tol, self.max_iter, self.bound, scale_tol=scale_tol)

    # -- probabilities ----------------------------------------------------------------------------

    def _outputs(self, X: Any) -> np.ndarray:
        """Return the logits of the one-vs-rest probabilities, or softmax scores, (n_queries, n_outputs)."""
        f = super()._outputs(X)
        if self.calibration_ == "link" and self.link_ == ONE_VS_REST:
            return link(f, self.lam_)
        slope, offset = self._affine_calibration(f)
        return slope * f + offset

    def _affine_calibration(self, outputs: np.ndarray) -> tuple[Any, Any]:
        """Return slope and offset such that ``slope * outputs + offset`` are the calibrated outputs."""
        if self.calibration_ == "link" and self.link_ == SOFTMAX:
            return 1.0, softmax_link(outputs, float(self.lam_[0])) - outputs
        if self.calibration_ == "link":
            away = np.where(outputs == 0, 1e-9, outputs)  # at zero, use the limit of the ratio
            return link(away, self.lam_) / away, 0.0
        return (self.sigmoid_[:, 0], self.sigmoid_[:, 1]) if self.calibration_ == "sigmoid" else (1.0, 0.0)

    def _product_expansion(self) -> ProductExpansion:
        """Return the calibrated outputs as a sum of products over features."""
        expansion = super()._product_expansion()
        if self.calibration_ == "link":
            raise ValueError(
                "explanations by features need decision values that are sums over the kept points; with "
                "calibration='link' they are not. Use calibration='sigmoid' or SparseKLR."
            )
        slope, offset = self._affine_calibration(self.intercept_[None])
        coef = self.dual_coef_ * np.reshape(slope, (-1, 1))
        return replace(expansion, coef=coef, intercept=self.intercept_ * slope + offset)


# -- the grid --------------------------------------------------------------------------------------


def klr_path(
    X: Any,
    y: Any,
    *,
    Cs: Any,
    lams: Any,
    lam_scale: LamScale = "absolute",
    sample_weight: Any = None,
    kernel: str | Callable[..., Any] = "rbf",
    gamma: float | Literal["scale"] = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    working_set: WorkingSet = "mixed",
    tol: float = 1e-3,
    max_iter: int = -1,
    bound: float | None = None,
    cache_size: float | Literal["auto"] = "auto",
    class_weight: dict | Literal["balanced"] | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> KLRPath:
    r"""Solve sparse kernel logistic regression for every (C, lam) of a grid.

    Each solution minimises

    .. math:: \tfrac12\|f\|^2 + C \sum_i w_i \log(1 + e^{\lambda - y_i f(x_i)})

    to the same tolerance as :class:`~sparseklr.SKLR`. For each C, the problems are solved in descending order
    of ``lam``, and each one usually starts from an extrapolation of the previous solutions. All problems
    share one kernel matrix.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training rows; the kernel matrix if ``kernel="precomputed"``.
    y : array-like of shape (n_samples,)
        Class labels of any type. With more than two classes, each class is separated from the other classes.
    Cs : array-like of shape (n_Cs,)
        Weights of the loss, > 0.
    lams : array-like of shape (n_lams,)
        Margins, >= 0.
    lam_scale : {"absolute", "ratio"}, default="absolute"
        With ``"ratio"``, the margins are ``lams * C``. The paper uses the ratios ``np.linspace(0, 1, 10)``.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, as in :meth:`SKLR.fit`.
    kernel, gamma, degree, coef0, working_set, tol, max_iter, bound, class_weight
        The same parameters, with the same defaults, as in :class:`~sparseklr.SKLR`.
    cache_size : float or "auto", default="auto"
        Memory for the kernel matrix, as in :class:`~sparseklr.SKLR`. If the matrix is larger, its rows are
        computed as needed.
    n_jobs : int or None, default=None
        Number of threads; -1 for all cores. Each thread solves the problems of one value of C. Results do not
        depend on this number.
    verbose : int, default=0
        If 1, a progress bar is shown.

    Returns
    -------
    KLRPath

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> path = klr_path(X, y, Cs=[1, 1000], lams=[0, 0.1, 1], lam_scale="ratio")
    >>> path.n_support.shape
    (2, 3)
    >>> bool(path.n_support[1, 1] < path.n_support[1, 0])
    True
    """
    Cs, lams = check_grid(Cs, lams, lam_scale)
    kernel_given: dict[str, Any] = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
    solver_given = {"working_set": working_set, "tol": tol, "max_iter": max_iter, "bound": bound}
    others = {"cache_size": cache_size, "class_weight": class_weight, "n_jobs": n_jobs}
    check_parameters(
        KERNEL_CONSTRAINTS | SOLVER_CONSTRAINTS, kernel_given | solver_given | others, "klr_path"
    )
    warn_of_unused(klr_path, kernel_given, unused_by_kernel(kernel))
    X, y, weight, _ = check_data(X, y, sample_weight, precomputed=kernel == "precomputed")
    samples = make_samples(X, y, weight, class_weight=class_weight, **kernel_given)
    settings = Settings(working_set, tol, max_iter, bound)
    bar = GridProgressBar("klr_path", lams.size * len(samples.signs()), bool(verbose))
    with bar as progress, naming_rows(X, weight, **kernel_given):
        return solve_grid(
            samples, Cs, lams, settings, cache_size=cache_size, n_jobs=n_jobs, done=progress.advance
        )


# -- cross-validation -----------------------------------------------------------------------------

# Scores that differ by less than this number count as equal.
_SAME_SCORE = 1e-12
# Quantities measured for each candidate on each fold
_MEASURES = ("test_score", "n_support", "support_fraction", "fit_time", "score_time")


def select_best(results: Mapping[str, Any]) -> int:
    """Return the index of the model with the highest mean score; among ties, the sparsest model."""
    score = results["mean_test_score"]
    return _sparsest(results, np.flatnonzero(score >= score.max() - _SAME_SCORE))


def select_sparsest_of_3(results: Mapping[str, Any]) -> int:
    """Return the index of the sparsest of the three models with the highest scores, as in the paper."""
    score, fraction = results["mean_test_score"], results["mean_support_fraction"]
    ranked = np.lexsort((fraction, -np.round(score / _SAME_SCORE) * _SAME_SCORE))
    return _sparsest(results, ranked[:3])


def select_one_se(results: Mapping[str, Any]) -> int:
    """Return the index of the sparsest model within one standard error of the best (Breiman et al. 1984)."""
    score = results["mean_test_score"]
    best = int(score.argmax())
    error = results["standard_error"][best]
    return _sparsest(results, np.flatnonzero(score >= score[best] - error - _SAME_SCORE))


def _sparsest(results: Mapping[str, Any], among: np.ndarray) -> int:
    """Return the index of the sparsest candidate in ``among``.

    Among equally sparse candidates, it has the highest score; among equal scores, the smallest index.
    """
    fraction, score = results["mean_support_fraction"][among], results["mean_test_score"][among]
    return int(among[np.lexsort((among, -score, fraction))[0]])


SELECTION_RULES: dict[str, Callable[[Mapping[str, Any]], int]] = {
    "best": select_best,
    "sparsest-of-3": select_sparsest_of_3,
    "one-se": select_one_se,
}


class SKLRCV(SVCParameters, ClassifierMixin, BaseEstimator):
    r"""S-KLR (:class:`SKLR`) with C and lam chosen by cross-validation.

    Every pair of C and lam (a *candidate*) is evaluated on every fold, and the chosen model is fitted to all
    rows. If the calibration cannot change the score, the candidates are fitted together on each fold, as one
    warm-started path (:func:`~sparseklr.klr_path`). This requires ``calibration=None`` or ``"link"``,
    ``multi_class="ovr"``, and a scorer based on ``predict`` or ``decision_function``. Otherwise every
    candidate is fitted separately.

    Parameters
    ----------
    Cs : array-like, default=(1e3, 1e4, 1e5)
        Weights of the loss, > 0. If the ratio ``lam / C`` is fixed, a smaller C gives a smoother and less
        sparse model.
    lams : array-like, default=(0.01, 0.1, 1)
        Margins, by default as multiples of C. The value ``0.1`` is the rule ``lam = C / 10`` of the paper.
        With the value ``r``, the model is close to a support vector machine with C = ``1 / r``.
    lam_scale : {"ratio", "absolute"}, default="ratio"
        Whether ``lams`` are multiples of C or the margins themselves.
    estimator : SKLR or None, default=None
        Estimator that provides all other parameters, such as the kernel and the calibration. None means
        ``SKLR()``.
    cv : int, cross-validation generator, iterable or None, default=None
        Splits, as in :class:`~sklearn.model_selection.GridSearchCV`; None means 5 stratified folds.
    scoring : str, callable or None, default=None
        A scorer; None means accuracy.
    selection : {"best", "sparsest-of-3", "one-se"} or callable, default="best"
        ``"best"`` chooses the model with the highest mean score; among ties, the sparsest.
        ``"sparsest-of-3"`` chooses the sparsest of the three models with the highest scores, as in the paper.
        ``"one-se"`` chooses the sparsest model within one standard error of the highest score. A callable
        takes ``cv_results_`` and returns an index.
    n_jobs : int or None, default=None
        Number of threads; -1 for all cores. Results do not depend on this number.
    verbose : int, default=0
        If 1, a progress bar is shown.

    Attributes
    ----------
    best_estimator_ : SKLR
        The chosen model, fitted to all rows.
    best_params_ : dict
        C and lam of the chosen model.
    best_index_ : int
        Index of the chosen model in ``cv_results_``.
    best_score_ : float
        Mean score of the chosen model. It is optimistic, because the model was chosen by this score. For an
        unbiased estimate use nested cross-validation, ``cross_val_score(SKLRCV(), X, y)``.
    cv_results_ : dict of arrays
        Table of the candidates, as in :class:`~sklearn.model_selection.GridSearchCV`. Additional columns are
        ``standard_error``, the standard error of the mean score; ``mean_n_support`` and ``std_n_support``,
        the mean and standard deviation of the number of kept points; and ``mean_support_fraction``, the
        (weighted) fraction of the training rows that is kept.
    n_splits_ : int
        Number of splits.
    scorer_ : callable
        The scorer.
    refit_time_ : float
        Time in seconds to fit the chosen model to all rows.
    classes_ : array (n_classes,)
        The class labels.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : array
        Names of the features; absent if X has no column names.

    References
    ----------
    Breiman, Friedman, Olshen and Stone (1984), "Classification and Regression Trees", section 3.4.3.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SKLRCV
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = SKLRCV(selection="one-se").fit(X, y)
    >>> sorted(model.best_params_)
    ['C', 'lam']
    >>> model.best_estimator_.score(X, y) > 0.95
    True
    """

    _INSTEAD = {
        **SVCParameters._INSTEAD,
        **dict.fromkeys(signature(SKLR).parameters, "it is a parameter of SKLR. Use estimator=SKLR(...)."),
    }
    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit"]), None],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "selection": [StrOptions(set(SELECTION_RULES)), callable],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        Cs: Any = (1e3, 1e4, 1e5),
        *,
        lams: Any = (0.01, 0.1, 1.0),
        lam_scale: LamScale = "ratio",
        estimator: SKLR | None = None,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        selection: Literal["best", "sparsest-of-3", "one-se"] | Callable[..., int] = "best",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.lams = lams
        self.lam_scale = lam_scale
        self.estimator = estimator
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- fitting ----------------------------------------------------------------------------------

    __metadata_request__fit: ClassVar[dict] = {"groups": UNUSED}  # only the splitter uses groups

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, **metadata: Any) -> Self:
        """Evaluate all candidates and fit the chosen one to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; the kernel matrix (n_samples, n_samples) for a precomputed kernel.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, used in fitting and in scoring.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for splitters such as :class:`~sklearn.model_selection.GroupKFold`.
        **metadata
            Metadata requested by the splitter and the scorer, if scikit-learn's metadata routing is enabled.
            The scorer then receives the weights only if it requests them.

        Returns
        -------
        self : object
        """
        check_parameters(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)
        template = self._template()
        Cs, lams = check_grid(self.Cs, self.lams, self.lam_scale)
        precomputed = template.kernel == "precomputed"
        X, y, weight, columns = check_data(X, y, sample_weight, precomputed=precomputed, estimator=self)
        _, _, classes, _ = weighted_classes(y, weight, template.class_weight)
        scorer = self._make_scorer()
        for_splitter, for_scorer = self._routed(
            scorer, "fit", sample_weight=weight, groups=groups, **metadata
        )
        splits = _checked_splits(self.cv, X, y, weight, classes, for_splitter)
        params = [{"C": float(C), "lam": float(lam)} for C, row in zip(Cs, lams, strict=True) for lam in row]
        bar = GridProgressBar(type(self).__name__, len(splits) * lams.size, bool(self.verbose))
        with naming_rows(X, weight, **kernel_parameters(template)):
            measured = []
            with bar as progress:
                evaluate = _Evaluation(template, Cs, lams, scorer, progress.advance)
                for k, split in enumerate(splits):
                    fold = _Fold.of(X, y, weight, *split, for_scorer, precomputed=precomputed)
                    measured.append(evaluate(fold, check_saturation=k == 0))
            results = _results_table(params, np.swapaxes(measured, 0, 1))
            if not np.isfinite(results["mean_test_score"]).all():
                raise ValueError(
                    f"scoring={self.scoring!r} returned NaN or infinite scores; expected finite scores."
                )
            best = self._selected(results)
            start = time.perf_counter()
            model = clone(template).set_params(**params[best])
            set_fitted(model, columns | model._fit(X, y, weight))
        attributes = {
            "best_estimator_": model,
            "best_params_": params[best],
            "best_index_": best,
            "best_score_": float(results["mean_test_score"][best]),
            "cv_results_": results,
            "n_splits_": len(splits),
            "scorer_": scorer,
            "refit_time_": time.perf_counter() - start,
            "classes_": model.classes_,
            **columns,
        }
        return set_fitted(self, attributes)

    def _template(self) -> SKLR:
        """Return the estimator that provides all parameters of the candidates except C and lam."""
        template = SKLR() if self.estimator is None else self.estimator
        if not isinstance(template, SKLR):
            raise TypeError(f"estimator must be an SKLR or None; got {self.estimator!r}.")
        if template.nu is not None:
            raise ValueError(
                f"estimator.nu must be None, because SKLRCV chooses lam; got nu={template.nu!r}."
            )
        replaced = dict.fromkeys(("C", "lam"), "in the estimator of SKLRCV, which chooses it")
        warn_of_unused(SKLR.__init__, template.get_params(deep=False), replaced)
        template = clone(template).set_params(warm_start=False)
        if self.n_jobs is not None:
            template.set_params(n_jobs=self.n_jobs)
        template._check_parameters()
        return template

    def _make_scorer(self) -> Any:
        """Return the scorer, accuracy by default."""
        return check_scoring(SKLR(), "accuracy" if self.scoring is None else self.scoring)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata requested by the splitter and the scorer; see scikit-learn's metadata routing.

        Returns
        -------
        MetadataRouter
        """
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        if hasattr(self.cv, "get_metadata_routing"):  # an int or a list of splits has no routing
            router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        to_score = MethodMapping().add(caller="fit", callee="score").add(caller="score", callee="score")
        return router.add(scorer=self._make_scorer(), method_mapping=to_score)

    def _routed(self, scorer: Any, method: str, **metadata: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the metadata for the splitter and for the scorer."""
        if get_config()["enable_metadata_routing"]:
            given = {name: value for name, value in metadata.items() if value is not None}
            routed = process_routing(self, method, sample_weight=given.pop("sample_weight", None), **given)
            splitter = routed.get("splitter", {}).get("split", {})
            return splitter, routed["scorer"]["score"]
        groups, weight = metadata.pop("groups", None), metadata.pop("sample_weight")
        if metadata:
            raise TypeError(
                f"{type(self).__name__}.{method} got {', '.join(metadata)}, which scikit-learn passes on "
                "only with metadata routing: sklearn.set_config(enable_metadata_routing=True)."
            )
        weighted = weight is not None and takes_weights(scorer)
        return {"groups": groups}, {"sample_weight": weight} if weighted else {}

    def _selected(self, results: Mapping[str, Any]) -> int:
        """Return the validated index that the selection rule returns."""
        rule = self.selection if callable(self.selection) else SELECTION_RULES[self.selection]
        index, n = rule(results), len(results["params"])
        if not isinstance(index, Integral) or not 0 <= index < n:
            raise ValueError(
                f"selection must return the index of a candidate, 0 to {n - 1}; it returned {index!r}."
            )
        return int(index)

    # -- methods of the chosen model --------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Return the classes predicted by the chosen model; see :meth:`SKLR.predict`."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities of the chosen model; see :meth:`SKLR.predict_proba`."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the class probabilities; see :meth:`SKLR.predict_log_proba`."""
        check_is_fitted(self)
        return self.best_estimator_.predict_log_proba(X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the decision values of the chosen model; see :meth:`SKLR.decision_function`."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def explain(self, X: Any) -> Explanation:
        """Return the explanation by the chosen model; see :meth:`SKLR.explain`."""
        check_is_fitted(self)
        return self.best_estimator_.explain(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None, **metadata: Any) -> float:
        """Return the score of the chosen model according to ``scoring``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to evaluate.
        y : array-like of shape (n_samples,)
            Class labels of the rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for scorers that accept weights.
        **metadata
            Metadata requested by the scorer, as in :meth:`fit`.

        Returns
        -------
        float
            The score.
        """
        check_is_fitted(self)
        _, for_scorer = self._routed(self.scorer_, "score", sample_weight=sample_weight, **metadata)
        return float(self.scorer_(self.best_estimator_, X, y, **for_scorer))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = getattr(self.estimator, "kernel", None) == "precomputed"
        return tags


def _checked_splits(
    cv: Any, X: Any, y: np.ndarray, weight: np.ndarray | None, classes: np.ndarray, metadata: dict[str, Any]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the splits of ``cv``.

    An error is raised unless every training set contains all classes, and every test set contains a row of
    positive weight.
    """
    splits = list(check_cv(cv, y, classifier=True).split(X, y, **metadata))
    if not splits:
        raise ValueError(f"cv={cv!r} yields no splits; at least one is required.")
    counted = np.ones(len(y), dtype=bool) if weight is None else weight > 0
    for k, (train, test) in enumerate(splits):
        missing = np.setdiff1d(classes, y[train][counted[train]])
        if len(missing):
            names = ", ".join(map(str, missing))
            raise ValueError(
                f"cv={cv!r}: the training set of split {k} has no row of class {names}; every class "
                "must be in every training set. Use stratified splits, or fewer splits."
            )
        if not counted[test].any():
            raise ValueError(f"cv={cv!r}: split {k} has no test row of positive weight.")
    return splits


class _Fold(NamedTuple):
    """Training rows (X, y, weight), test rows (X, y), and metadata of the test rows for the scorer."""

    train: tuple[Any, np.ndarray, np.ndarray | None]
    test: tuple[Any, np.ndarray]
    metadata: dict[str, Any]

    @classmethod
    def of(
        cls,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray | None,
        train: np.ndarray,
        test: np.ndarray,
        metadata: dict[str, Any],
        *,
        precomputed: bool = False,
    ) -> _Fold:
        """Return the fold with the given training and test indices."""

        def test_part(value: Any) -> Any:
            return np.asarray(value)[test] if np.ndim(value) and len(value) == len(y) else value

        if precomputed:
            X_train, X_test = X[np.ix_(train, train)], X[np.ix_(test, train)]
        else:
            X_train, X_test = X[train], X[test]
        part = X_train, y[train], None if weight is None else weight[train]
        return cls(part, (X_test, y[test]), {name: test_part(value) for name, value in metadata.items()})

    def weight_fraction(self, kept: np.ndarray) -> float:
        """Return the fraction of the total weight of the training rows that belongs to the kept rows."""
        _, y, weight = self.train
        weight = np.ones(len(y)) if weight is None else weight
        return float(weight[kept].sum() / weight.sum())


class _Evaluation(NamedTuple):
    """Evaluation of every candidate on a fold."""

    template: SKLR
    Cs: np.ndarray
    lams: np.ndarray
    scorer: Any
    done: Callable[[], None]  # called after each candidate

    def __call__(self, fold: _Fold, *, check_saturation: bool) -> np.ndarray:
        """Return the measurements of all candidates, (n_candidates, len(_MEASURES))."""
        by_sign = response_of(self.scorer) in ("predict", "decision_function")
        template = self.template
        if by_sign and template.calibration in (None, "link") and template.multi_class == "ovr":
            # These calibrations preserve the order and the sign of the decision values.
            return self._along_path(fold, check_saturation)
        return self._by_fits(fold)

    def _along_path(self, fold: _Fold, check_saturation: bool) -> np.ndarray:
        """Measure all candidates on one warm-started path."""
        model, (X, y) = self.template, fold.test
        samples = make_samples(*fold.train, class_weight=model.class_weight, **kernel_parameters(model))
        path = solve_grid(
            samples,
            self.Cs,
            self.lams,
            model.solver_settings(),
            cache_size=model.cache_size,
            n_jobs=model.n_jobs,
            check_saturation=check_saturation,
            done=self.done,
        )
        start = time.perf_counter()
        outputs = path.outputs(X, n_jobs=model.n_jobs)
        shared_time = (time.perf_counter() - start) / self.lams.size
        measured = []
        for cell in np.ndindex(*self.lams.shape):
            start = time.perf_counter()
            score = self.scorer(_KnownOutputs(outputs[cell], samples.classes), X, y, **fold.metadata)
            score_time = shared_time + time.perf_counter() - start
            solutions = path.solutions[cell]
            kept = samples.positions[np.unique(np.concatenate([s.support for s in solutions]))]
            fit_time = sum(float(s.history["seconds"][-1]) for s in solutions)
            measured.append((float(score), len(kept), fold.weight_fraction(kept), fit_time, score_time))
        return np.array(measured)

    def _by_fits(self, fold: _Fold) -> np.ndarray:
        """Measure the candidates by separate fits."""
        (X, y), measured = fold.test, []
        for C, lam in ((C, lam) for C, row in zip(self.Cs, self.lams, strict=True) for lam in row):
            start = time.perf_counter()
            model = clone(self.template).set_params(C=float(C), lam=float(lam))
            X_train = fold.train[0]
            set_fitted(model, {"n_features_in_": X_train.shape[1]} | model._fit(*fold.train))
            fit_time = time.perf_counter() - start
            start = time.perf_counter()
            score = float(self.scorer(model, X, y, **fold.metadata))
            score_time, kept = time.perf_counter() - start, model.support_
            measured.append((score, len(kept), fold.weight_fraction(kept), fit_time, score_time))
            self.done()
        return np.array(measured)


class _KnownOutputs(KernelClassifier):
    """A classifier whose decision values for the rows of the test fold are already known."""

    kernel = "rbf"

    def __init__(self, outputs: np.ndarray, classes: np.ndarray) -> None:
        self.outputs = outputs
        self.classes_ = classes

    def _outputs(self, X: Any) -> np.ndarray:
        return self.outputs


def _results_table(params: list[dict[str, float]], measured: np.ndarray) -> dict[str, Any]:
    """Return ``cv_results_``; ``measured`` has the shape (n_candidates, n_splits, len(_MEASURES))."""
    by_name = dict(zip(_MEASURES, np.moveaxis(measured, -1, 0), strict=True))
    scores = by_name["test_score"]
    results: dict[str, Any] = {"params": params}
    for name in params[0]:
        values = [candidate[name] for candidate in params]
        results[f"param_{name}"] = np.ma.MaskedArray(values, mask=np.zeros(len(values), dtype=bool))
    for k, split_scores in enumerate(scores.T):
        results[f"split{k}_test_score"] = split_scores
    for name, values in by_name.items():
        results[f"mean_{name}"], results[f"std_{name}"] = values.mean(axis=1), values.std(axis=1)
    n = scores.shape[1]
    results["standard_error"] = scores.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(params))
    if np.isfinite(scores).all():  # otherwise the search raises an error
        ranks = rankdata(-np.round(results["mean_test_score"] / _SAME_SCORE), method="min")
        results["rank_test_score"] = ranks.astype(np.int32)
    return results
