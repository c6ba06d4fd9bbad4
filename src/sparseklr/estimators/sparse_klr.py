"""The estimator: sparse kernel logistic regression behind scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from .._sklearn import CallbackSupportMixin, StrOptions, fit_task
from ..data import DistinctPoints, TrainingSet
from ..dual.binary import BinarySolutions, BinarySolver
from ..dual.problem import DualProblem
from ..dual.solver import Settings, SolveInterrupted, WorkingSet
from ..kernels import NAMED_KERNELS, Kernel
from ..probability.calibration import link
from ..probability.copies import with_copies_marked
from ..probability.cross_fit import fit_sigmoids
from .base import KernelClassifier
from .confirmation import validation_losses
from .dual_model import DualModel, HasDualModel
from .expectation import say_what_to_expect
from .kernel_choice import SearchedKernel, search_kernel, searches, width_path
from .notices import warn_of_solutions
from .parameters import NON_NEGATIVE, POSITIVE, SOLVER_CONSTRAINTS, has_gamma
from .refitted import Refits
from .training import GivenData


class SparseKLR(Refits, CallbackSupportMixin, HasDualModel):
    r"""Sparse kernel logistic regression.

    Minimises :math:`\tfrac12\|f\|^2 + C \sum_i c_i \log(1 + e^{\lambda - y_i f(x_i)})`: logistic
    regression in the kernel's feature space whose loss has a margin :math:`\lambda`. With
    ``lam=0`` it is kernel logistic regression, which keeps every training point; as ``lam`` grows
    it becomes a support vector machine of box ``C / lam``, which keeps few. More than two classes
    are handled one-vs-rest over one kernel; the time grows with their number, and ``n_jobs`` refits several.

    Parameters
    ----------
    C : float, default=10000
        Weight of the loss against the norm of f.
    lam : float or "auto", default="auto"
        The margin, >= 0. ``"auto"`` is ``C / 10``, the paper's rule. It is close to a support vector machine
        of box 10; the smaller C is, the smoother is its loss.
    nu : float or None, default=None
        May be given instead of ``lam``: the sum that the dual variables of each binary problem should have
        (within ``tol * nu``), from which the margin is found by a root search. It must be below
        ``2 * C * n_min``, where n_min is the size of the smaller class. Small values give kernel logistic
        regression.
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed", "loo"} or callable
        ``"rbf"`` by default. A callable takes two arrays of rows and returns the matrix of kernel values.
        ``"loo"`` is rbf or Laplacian: the latter where its leave-one-out log-loss is clearly lower.
    gamma : {"scale", "auto", "loo"} or float, default="scale"
        Kernel coefficient; ``"scale"`` is ``1 / (n_features * X.var())``, rows counted by their weights,
        ``"auto"`` ``1 / n_features``. ``"loo"`` chooses it by leave-one-out log-loss, see Notes.
    degree, coef0 : float, default=3, 0
        Parameters of the polynomial kernel, and ``coef0`` also of the sigmoid kernel.
    working_set : {"mixed", "second-order", "first-order"}, default="mixed"
        How the solver picks its pairs, see :class:`Settings`.
    tol : float, default=1e-3
        Stop when the KKT violation is at most ``tol * max(1, lam)``: in units of the margin, as in
        :class:`~sklearn.svm.SVC`. With ``calibration="sigmoid"`` a tenth of it, with ``"link"`` only
        ``tol``: probabilities would depend on the path of the solver otherwise.
    max_iter : int, default=-1
        Largest number of pair steps for each binary problem; -1 for no limit.
    bound : float or None, default=None
        A point whose dual variable would be below this number is not kept; None is
        ``1e-9 * C * weight``.
    cache_size : float or "auto", default="auto"
        Memory for kernel rows in MB, of any size; ``"auto"`` is half of the available memory, at most
        256 MB, or 2 GB for sparse data and for more than 64 features.
    calibration : {"refit", "sigmoid", "link"} or None, default="refit"
        Where probabilities come from. ``"refit"``: the coefficients of the kept points are fitted
        again, to the plain penalised likelihood of all rows. ``"sigmoid"``: Platt's sigmoid of
        cross-fitted values of f. ``"link"``: the link function that belongs to the margin loss.
        None: ``sigmoid(f)``, the paper's equation 3, which is of little use where the model is sparse.
    C_refit : float or "alo", default="alo"
        Weight of the likelihood in the refit; ``"alo"`` chooses it by approximate leave-one-out log-loss,
        together with a factor on the outputs that undoes their shrinkage, see Notes.
    prune : float, default=0.05
        After the refit, drop points while the predicted probabilities stay the same: within
        ``prune`` standard errors of the leave-one-out loss in mean Kullback-Leibler distance. 0 and False
        keep all, True stands for 0.05.
    class_weight : dict, "balanced" or None, default=None
        Factors on C by class; ``"balanced"`` makes the classes weigh the same.
    warm_start : bool, default=False
        Start the next fit from the present solution if the number of samples is the same. A fit that was
        stopped by Ctrl-C is continued by the next one; until then the model cannot predict.
    n_jobs : int or None, default=None
        Threads; -1 for all. Worth it from thousands of rows on; results do not depend on it.
    random_state : int, RandomState instance or None, default=0
        Draws basis points of the refit from more than 300 distinct rows.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : array (n_classes,)
    support_ : array (n_kept,)
        Indices of the kept training points.
    support_vectors_ : array or CSR (n_kept, n_features)
        The kept points; for ``kernel="precomputed"`` the kernel matrix between them. Prediction
        needs nothing else: a precomputed kernel may also be given as k(x, kept points).
    dual_coef_ : array (n_outputs, n_kept)
        Coefficients of the kernel functions, ``alpha_j y_j`` unless refitted; one row for two classes.
    intercept_ : array (n_outputs,)
    kernel_ : str or callable
        The kernel used: ``kernel``, or the one that was chosen.
    gamma_ : float
        Its coefficient as a number; only for kernels that have one.
    width_path_ : dict of arrays
        With ``"loo"``, the kernels that were tried, in this order: ``kernel``, ``gamma``, ``C`` (the strength
        that was best for it, or with which it was clearly worse than the width before; the median of several
        outputs), ``loss`` (leave-one-out log-loss), ``standard_error`` and ``seconds``. A kernel that failed
        is not among them; a warning names it.
    validation_log_loss_ : float or None
        Only where the search has chosen another kernel than it started from: the log-loss of the better of
        the two on validation folds, which is the one to report. None where a class is too small for folds.
    n_support_ : array (n_classes,)
        Kept points of each class.
    n_selected_ : int
        Points kept by S-KLR, before refit and pruning; ``len(support_)`` are left after.
    C_refit_ : array (n_outputs,)
        Strength used in the refit. If the first three of many classes choose the same, it is that of all.
    slope_refit_ : array (n_outputs,)
        Factor on the outputs of the likelihood; 1 where ``C_refit`` is a number or a class has few points.
    loo_decision_function_ : array (n_samples,) or (n_samples, n_classes)
        Approximate leave-one-out outputs: of every row by the likelihood fitted without it, and without its
        copies if equal rows are copies (NaN for rows of weight 0). See Notes for the model that they belong
        to.
    loo_log_loss_ : float
        Weighted mean log-loss of the class probabilities that these outputs stand for, combined as in
        ``predict_proba``: an estimate of the log-loss on new rows.
    n_observations_ : int
        Independent observations: rows of positive weight, a row of weight 2 counted twice where all weights
        are whole multiples of a unit; distinct rows if the labels of equal rows show that these are copies.
    n_iter_ : array (n_outputs,)
        Pair steps.
    converged_ : bool
    kkt_violation_ : float
        Largest violation of the optimality conditions (absolute).
    dual_gap_ : float
        Largest relative duality gap: how far the objective can at most be from its optimum.
    lam_ : float or array (n_classes,)
        The margin used; equals the paper's slack rho at the optimum. One for each class where it was
        found from ``nu`` for more than two.
    n_features_in_ : int
    feature_names_in_ : array
        Only when X has column names.

    Notes
    -----
    The defaults were chosen on the 12 sets of the paper (features in [0, 1], 5 folds,
    ``benchmarks/defaults.py``): on the ten smaller ones the mean accuracy is 0.929 with 26% of the points
    kept, where ``SVC()`` has 0.929 with 31% and ``SVC(C=10)`` 0.929 with 25%. A smaller C is smoother
    and keeps more: C=1000 0.929 with 33%, C=100 0.930 with 77%.

    With ``calibration="refit"`` only the ratios of the weights matter: they are divided by the mean weight of
    an observation, and ``C``, ``bound``, ``nu`` and ``C_refit`` are in units of it. Rows are independent
    observations. Equal rows are copies of one observation if their labels agree significantly more often than
    those of independent rows would (``sparseklr.probability.copies``). The model is the same, to the last
    digit, for repeated and for weighted rows, in any order of the rows (for a precomputed kernel, in the
    order of their first appearance). With other values of ``calibration`` multiplying all weights is the same
    as multiplying C.

    At the end of a fit with ``calibration="refit"`` three losses are compared. If the leave-one-out loss is
    not below that of the class fractions, the model is replaced by the class fractions, with a warning. If
    the loss on the training rows exceeds the leave-one-out loss beyond its noise, the refit is repeated
    without line and pruning, and a warning is issued if that does not help.

    ``gamma="loo"`` tries widths around ``"scale"`` (for the Laplacian kernel ``1 / (n_features * X.std())``)
    in factors of three: smoother ones while the leave-one-out loss falls, or else narrower ones, each with
    the C that is best for it, unless a narrower one is clearly worse with the C of the width before. At most
    1500 points are considered, and a loss below 0.001 ends the search. The kernel of least loss replaces
    ``"scale"`` if its log-loss is lower on validation folds too. All classes share the width.

    The refit is :math:`a f + b`, where f has the least :math:`\tfrac12\|f\|^2 + C \sum_i w_i
    \log(1 + e^{-y_i f(x_i)})`. The penalty makes f smooth, but also too small; a (``slope_refit_``) and b are
    fitted to leave-one-out values, as in Platt's sigmoid (Copas 1983), and C is the best with its line. The
    intercept b is then such that the fitted probabilities add up to the labels.

    The leave-one-out values belong to this likelihood on a basis that no label had a part in choosing: all of
    up to 300 distinct points, 120 of up to 1500, and of more 100, or 300 if the loss is smaller there. The
    final model has the same C and a on the points that S-KLR selected; leave-one-out on those would be far
    too optimistic. Its log-loss on held-out rows is the estimate's within 10% on average
    (``benchmarks/leave_one_out.py``).

    Kernel values are computed and kept in float64, except that training uses float32 (an error of about
    1e-7, see :meth:`sparseklr.kernels.Kernel.row_source`) for float32 input, and for the rbf and Laplacian
    kernels of more than 2000 rows; prediction uses it if training and query rows are float32. Where a row
    lies more than 11 widths of the kernel from most others, or where norms or kernel values beyond 1e30 come
    too near the largest float32, float64 is used after all. A kernel value that is not finite is an error.

    References
    ----------
    Copas (1983), "Regression, prediction and shrinkage", J. R. Statist. Soc. B 45, 311-354.

    Consolo, Manno and Amaldi (2025), "Binary kernel logistic regression: a sparsity-inducing
    formulation and a convergent decomposition training algorithm", Computers & Operations
    Research 188, 107363, doi:10.1016/j.cor.2025.107363.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SparseKLR
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = SparseKLR().fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _parameter_constraints: dict = {
        **KernelClassifier._parameter_constraints,
        **SOLVER_CONSTRAINTS,
        "kernel": [StrOptions({*NAMED_KERNELS, "precomputed", "loo"}), callable],
        "gamma": [StrOptions({"scale", "auto", "loo"}), POSITIVE],
        "C": [POSITIVE],
        "lam": [StrOptions({"auto"}), NON_NEGATIVE],
        "nu": [NON_NEGATIVE, None],
        "calibration": [StrOptions({"refit", "sigmoid", "link"}), None],
        "C_refit": [StrOptions({"alo"}), POSITIVE],
        "prune": ["boolean", NON_NEGATIVE],
        "random_state": ["random_state"],
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
        gamma: float | Literal["scale", "auto", "loo"] = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        working_set: WorkingSet = "mixed",
        tol: float = 1e-3,
        max_iter: int = -1,
        bound: float | None = None,
        calibration: Literal["refit", "sigmoid", "link"] | None = "refit",
        C_refit: float | Literal["alo"] = "alo",
        prune: float = 0.05,
        cache_size: float | Literal["auto"] = "auto",
        class_weight: dict | Literal["balanced"] | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
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
        self.C_refit = C_refit
        self.prune = prune
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- fitting ------------------------------------------------------------------------------

    def _unused_parameters(self) -> dict[str, str]:
        refit_only = () if self.calibration == "refit" else ("C_refit", "prune")
        return super()._unused_parameters() | dict.fromkeys(
            refit_only, f"with calibration={self.calibration!r}"
        )

    _unfinished: DualModel | None  # where an interrupted fit stood, or where this one starts

    def _blank_copy(self) -> Self:
        blank = super()._blank_copy()
        if self.warm_start:
            blank._unfinished = getattr(self, "_unfinished", getattr(self, "dual_model_", None))
        return blank

    def _fit_data(self, given: GivenData) -> None:
        say_what_to_expect(self, given.X, given.y)
        self._calibration = self.calibration  # by which the model predicts, whatever is set later
        seed = check_random_state(self.random_state).randint(2**31)
        searched = self._search(given, seed) if searches(self.kernel, self.gamma) else None
        rows = data = searched.rows if searched else super()._training_set(given)
        if self.calibration == "refit":  # S-KLR selects among distinct points, by relative weights
            points = searched.points if searched else with_copies_marked(DistinctPoints.of(rows), seed)
            data, point_of_row = points.labelled(rows)
        solver = BinarySolver(data, self._settings, self.cache_size, self.n_jobs, bool(self.verbose))
        problems = solver.problems(float(self.C), self._margin())
        with fit_task(getattr(self, "_original", self), given.X, given.y, len(problems)) as part:
            solved = self._solve(solver, problems, part)
            self._set_solutions(data, solved)
            if self.calibration == "refit":
                with np.errstate(over="ignore", invalid="ignore"):  # _set_model refuses what is not finite
                    strengths = searched.strengths if searched else None
                    self._refit(rows, data, points, point_of_row, solved.solutions, strengths, seed)
            elif self.calibration == "sigmoid":
                self._platt = fit_sigmoids(solver, solved)
        del self._unfinished

    def _training_set(self, given: GivenData) -> TrainingSet:
        return self._search(given).rows if searches(self.kernel, self.gamma) else super()._training_set(given)

    def _search(self, given: GivenData, seed: int = 0) -> SearchedKernel:
        names = "kernel", "gamma", "n_jobs", "coef0", "degree", "class_weight"
        searched = search_kernel(given, seed=seed, **{name: getattr(self, name) for name in names})
        self.width_path_ = width_path(searched.tried)
        if not searched.is_first:
            kernels = searched.first.kernel, searched.chosen.kernel
            models = [self._with_kernel(kernel) for kernel in kernels]
            losses = validation_losses(models, given, searched.rows, searched.points.copies)
            if losses is None or losses[0] <= losses[1]:
                searched = searched.back_to_first()
            self.validation_log_loss_ = None if losses is None else float(losses.min())
        return searched

    def _with_kernel(self, kernel: Kernel) -> SparseKLR:
        """An unfitted, silent estimator with this kernel and the refit, by which kernels are compared."""
        plain = {"calibration": "refit", "verbose": 0, "warm_start": False}
        return clone(self).set_params(kernel=kernel.name, gamma=kernel.gamma, **plain)

    def _solve(self, solver: BinarySolver, problems: list[DualProblem], part: Any) -> BinarySolutions:
        """Solve all problems; an interrupt leaves in ``_unfinished`` what was reached."""
        model, data = getattr(self, "_unfinished", None), solver.data
        solved = BinarySolutions(problems, [])
        try:
            for k, problem in enumerate(problems):
                with part("binary problem"):
                    title = type(self).__name__ if len(problems) == 1 else f"class {data.classes[k]!s}"
                    start, lam = (None, 0.0) if model is None else model.start(k, data)
                    if self.nu is None:
                        solution = solver.solve(problem, start, title)
                    else:
                        problems[k], solution = solver.solve_nu(problem, float(self.nu), start, lam, title)
                    solved.solutions.append(solution)
        except SolveInterrupted as interrupted:
            if interrupted.lam is not None:
                problems[k] = replace(problem, lam=interrupted.lam)
            solved.solutions.append(interrupted.solution)
            self._unfinished = DualModel.of(data, solved)
            raise
        self._unfinished = self.dual_model_ = DualModel.of(data, solved)
        return solved

    def _margin(self) -> float:
        """``lam`` as a number; the root search for ``nu`` replaces it."""
        if self.nu is not None and self.lam != "auto":
            raise ValueError(f"give lam or nu, not both; got lam={self.lam!r} and nu={self.nu!r}.")
        return float(self.C) / 10 if self.lam == "auto" else float(self.lam)

    @property
    def _settings(self) -> Settings:
        tol = self.tol / 10 if self.calibration == "sigmoid" else self.tol
        return Settings(
            self.working_set, tol, self.max_iter, self.bound, scale_tol=self.calibration != "link"
        )

    def _set_solutions(self, data: TrainingSet, solved: BinarySolutions) -> None:
        self._set_model(data, solved.coef, solved.intercept)
        self.n_selected_ = len(self.support_)
        margins = solved.margins
        self.lam_: Any = margins if np.ptp(margins) else float(margins[0])
        self._n_samples, self.kernel_ = data.n_samples, data.kernel.name
        if has_gamma(self.kernel_):
            self.gamma_ = data.kernel.gamma
        self.n_iter_ = np.array([solution.n_iter for solution in solved.solutions])
        self.converged_ = solved.converged
        self.kkt_violation_, self.dual_gap_ = solved.kkt_violation, solved.relative_gap
        warn_of_solutions(solved, self._settings, kernel=self.kernel, nu=self.nu)

    # -- probabilities ------------------------------------------------------------------------

    def _outputs(self, X: Any) -> np.ndarray:
        """Logits of the one-vs-rest probabilities, (n_queries, n_outputs)."""
        f = super()._outputs(X)
        if self._calibration == "link":
            return link(f, self.lam_)
        return self._line(f)[0] * f + self._line(f)[1]

    def _line(self, outputs: np.ndarray) -> tuple[Any, Any]:
        if self._calibration == "link":
            away = np.where(outputs == 0, 1e-9, outputs)  # at zero the ratio has a limit
            return link(away, self.lam_) / away, 0.0
        return (self._platt[:, 0], self._platt[:, 1]) if self._calibration == "sigmoid" else (1.0, 0.0)
