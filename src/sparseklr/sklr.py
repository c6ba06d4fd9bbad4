"""The model of the paper (SKLR), and its solutions on a grid (klr_path).

The paper is Consolo, Manno and Amaldi (2025), Computers & Operations Research 188, 107363.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ._base import (
    KernelClassifier,
    certificate,
    expansion,
    warn_of_solutions,
)
from ._utils.progress import GridProgressBar
from ._utils.sklearn_compat import StrOptions
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
from .dual.smo import Settings, WorkingSet
from .dual.softmax import SoftmaxSolution, SoftmaxSolver
from .refit.calibration import ONE_VS_REST, SOFTMAX, fit_sigmoids, link
from .refit.softmax_calibration import fit_vector_scaling, softmax_link
from .samples import Samples
from .shapley import ProductExpansion


class SKLR(KernelClassifier):
    r"""Sparse kernel logistic regression (S-KLR), the model of Consolo, Manno and Amaldi (2025).

    S-KLR is a classifier with a decision function :math:`f(x) = \sum_j \alpha_j y_j k(x_j, x) + b` that
    minimises

    .. math:: \tfrac12\|f\|^2 + C \sum_i w_i \log(1 + e^{\lambda - y_i f(x_i)}),

    where :math:`y_i = \pm 1` are the labels and :math:`w_i` the sample weights. The margin :math:`\lambda`
    (``lam``) makes the model sparse: if :math:`y_i f(x_i)` is well above :math:`\lambda`, row i has a
    negligible coefficient, and the model drops it (see ``bound``). The other training rows are called the
    (kept) points of the model. With ``lam=0`` the model is kernel logistic regression, which usually keeps
    every row. If C and ``lam`` grow at a fixed ratio, f / lam approaches the decision function of a support
    vector machine with parameter ``C / lam``. If C is fixed and ``lam`` grows, the number of kept points
    typically falls at first, and rises again when ``C / lam`` is small. With more than two classes, either
    one binary problem is solved for each class against the other classes, or a single problem with the
    softmax loss.

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
        Lower bound of the dual variables. A dual variable at this bound counts as zero, and the model drops
        its training row. None means ``1e-9 * C * weight``.
    calibration : {"sigmoid", "link"} or None, default="sigmoid"
        Method that converts values f(x) into probabilities.

        - ``"sigmoid"``: the probability is ``sigmoid(slope * f + intercept)`` (Platt scaling). Slope and
          intercept are fitted to values of f from stratified cross-validation with at most five folds: the
          value of each training row comes from a model that was fitted without its fold. If a class has fewer
          than two distinct rows, cross-validation is impossible; a warning is then issued, and the values of
          the final f on the training rows are used instead. The final f is fitted to all rows.
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
        the model has fewer points than with ``"ovr"``.
    cache_size : float or "auto", default="auto"
        Memory for rows of the kernel matrix in MB. ``"auto"`` means 8 MB for each feature, but at least 64 MB
        and at most 256 MB. With sparse data or more than 64 features, ``"auto"`` means 2 GB. Above 64 MB, the
        cache never takes more than half of the available memory.
    class_weight : dict, "balanced" or None, default=None
        Factor by which C is multiplied for the rows of each class. ``"balanced"`` gives all classes the same
        total weight.
    warm_start : bool, default=False
        Whether the next fit starts from the current solution. If the number of samples has changed, the fit
        starts from zero.
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
    SparseKLR : Selects points by S-KLR and refits their coefficients by penalised maximum likelihood.
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
        solved, sigmoid = solve(samples, self._settings(), self._margin(joint))
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
        start, problems, solutions = self._start(samples), solver.problems(float(self.C), margin), []
        for k, problem in enumerate(problems):
            title = type(self).__name__ if len(problems) == 1 else f"class {samples.classes[k]!s}"
            alpha, lam = None, 0.0
            if start is not None and k < len(start):
                alpha, lam = np.abs(start[k]), float(self.lam_[k])
            if self.nu is None:
                solution = solver.solve(problem, alpha, title)
            else:
                problems[k], solution = solver.solve_nu(problem, float(self.nu), alpha, lam, title)
            solutions.append(solution)
        solved = BinarySolutions(problems, solutions)
        warn_of_solutions(solved, settings, self.kernel, self.nu)
        return solved, fit_sigmoids(solver, solved) if self.calibration == "sigmoid" else None

    def _solve_jointly(
        self, samples: Samples, settings: Settings, margin: float
    ) -> tuple[SoftmaxSolution, np.ndarray | None]:
        """Return the softmax solution and, with ``calibration="sigmoid"``, the vector scaling."""
        solver = SoftmaxSolver(samples, settings, self.cache_size, self.n_jobs, bool(self.verbose))
        start = self._start(samples)
        if start is not None and len(start) != len(samples.classes):
            start = None
        solved = solver.solve(solver.problem(float(self.C), margin), start, type(self).__name__)
        warn_of_solutions(solved, settings, self.kernel)
        return solved, fit_vector_scaling(solver, solved) if self.calibration == "sigmoid" else None

    def _start(self, samples: Samples) -> np.ndarray | None:
        """Return the last fit's coefficients (n_outputs, n) for ``samples``; None for a cold start."""
        if not self.warm_start or getattr(self, "n_samples_fit_", None) != samples.n_samples:
            return None
        coef = np.zeros((len(self.dual_coef_), samples.n_samples))
        coef[:, self.support_] = self.dual_coef_
        return coef[:, samples.positions]

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

    def _settings(self) -> Settings:
        """Return the settings of the solver for the current parameters."""
        tol = self.tol / 10 if self.calibration == "sigmoid" else self.tol
        scale_tol = self.calibration != "link"
        return Settings(self.working_set, tol, self.max_iter, self.bound, scale_tol=scale_tol)

    # -- probabilities ----------------------------------------------------------------------------

    def _outputs(self, X: Any) -> np.ndarray:
        """Return an array (n_queries, n_outputs): logits of one-vs-rest probabilities, or softmax scores."""
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
                "explain(X, by='features'), partial_dependence and gradient need decision values that are "
                "sums over the kept points; with calibration='link' they are not. Use calibration='sigmoid' "
                "or SparseKLR."
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
