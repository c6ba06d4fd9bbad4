"""Kernel logistic regression with the l1/2 penalty, by iterative half thresholding."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._sklearn import StrOptions
from .._warn import warn
from ..data import DistinctPoints, TrainingSet, loss_weights
from ..estimators.base import KernelClassifier
from ..estimators.parameters import COUNT, POSITIVE
from ..estimators.training import GivenData, check_data, naming_rows
from ..probability.loss import LogisticLoss
from ..progress import ProgressBar
from ..threads import one_thread
from ._half_solver import Convergence, Gram, HalfSolver, half_threshold

__all__ = ["HalfKLR", "half_klr_path", "half_threshold"]


class HalfKLR(KernelClassifier):
    r"""Kernel logistic regression whose coefficients carry the l1/2 penalty.

    Finds a minimum of

    .. math:: C \sum_i c_i \log(1 + e^{-y_i f(x_i)}) + \sum_j |\beta_j|^{1/2},
              \qquad f(x) = \sum_j \beta_j k(x_j, x) + b

    by iterative half thresholding: a gradient step followed by :func:`half_threshold`, which sets
    small coefficients to zero. The penalty is not convex and favours few points more strongly than
    the l1 norm. More than two classes are handled one-vs-rest over one kernel.

    Parameters
    ----------
    C : float, default=1
        Weight of the loss. Xu et al.'s :math:`\lambda` (mean loss plus
        :math:`\lambda\|\beta\|_{1/2}^{1/2}`) is ``1 / (C * n_samples)``.
    n_nonzero : int or None, default=None
        May be given instead of C: the number of points to keep (for each class if there are more than two).
        C becomes the one at which the next point would pass the threshold, which is the sparsity-driven
        rule of Xu et al. (2012); see ``C_``.
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed"} or callable, default="rbf"
        A callable takes two arrays of rows and returns the matrix of kernel values.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient; ``"scale"`` is ``1 / (n_features * X.var())``, rows counted by their weights,
        ``"auto"`` ``1 / n_features``.
    degree, coef0 : float, default=3, 0
        Parameters of the polynomial kernel, and ``coef0`` also of the sigmoid kernel.
    fit_intercept : bool, default=True
        Whether to fit the unpenalised b.
    algorithm : {"coordinate", "published"}, default="coordinate"
        ``"published"`` thresholds all coefficients at once with one step size for all, the inverse of the
        largest curvature. ``"coordinate"`` gives each coefficient a step size of its own, treats the most
        urgent ones first, and takes Newton steps on the non-zero ones; see the notes.
    tol : float, default=1e-6
        Stop when half thresholding moves no coefficient by more than this, relative to the
        largest (at least 1, in units in which kernel values are about 1), and (``"coordinate"``) a Newton
        step on the non-zero ones promises less than this share of the objective.
    max_iter : int, default=1000
        Largest number of iterations for each binary problem.
    cache_size : float or "auto", default="auto"
        Memory for the kernel matrix in MB; ``"auto"`` is at most half of the free memory. If the matrix does
        not fit, its values are computed again at each iteration.
    class_weight : dict, "balanced" or None, default=None
        Factors on C by class; ``"balanced"`` makes the classes weigh the same.
    n_jobs : int or None, default=None
        Threads for kernel values; -1 for all.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : array (n_classes,)
    support_ : array (n_kept,)
        Indices of the training points with a non-zero coefficient.
    support_vectors_ : array or CSR (n_kept, n_features)
        These points; for ``kernel="precomputed"`` the kernel matrix between them.
    dual_coef_ : array (n_outputs, n_kept)
        beta; one row for two classes, one per class otherwise.
    intercept_ : array (n_outputs,)
    n_support_ : array (n_classes,)
        Kept points of each class.
    C_ : array (n_outputs,)
        C, or what ``n_nonzero`` led to.
    n_iter_ : array (n_outputs,)
    objective_path_ : list of n_outputs arrays
        The objective after each iteration (for each C tried with ``n_nonzero``).
    fixed_point_residual_ : float
        Largest move of a coefficient under half thresholding, relative to the largest (at least to 1 over the
        size of kernel values). Its step is as long as the bound of the curvature allows,
        ``sum_i C_i (K_ij - mean_j)^2 / 4``, in which a share of 1e-9 of a nearly constant column counts as
        varying.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : array
        Only when X has column names.

    Notes
    -----
    A coefficient of zero is a fixed point of half thresholding with step :math:`\mu` if its slope is
    at most :math:`\tfrac{54^{1/3}}4 2^{2/3}\mu^{-1/3}`: the smaller the step, the more poor fixed
    points there are. The published step, the inverse of the largest curvature
    :math:`\tfrac C4\|K\|^2`, is thousands of times smaller than the inverse curvature along a single
    coefficient, because kernel columns are alike; started from zero it often stays there. The
    default therefore moves single coefficients, by their own curvature (with the intercept and the
    non-zero coefficients moving along), and accepts a move only if the objective falls. What it
    returns is a fixed point of the published iteration too, at a lower objective. On ring (5920
    rows, rbf gamma=0.5, C=1) it ends at 352 with 7 points after 11 iterations; a thousand
    published ones, which take ten times as long, arrive at 835 with 2109 points
    (``benchmarks/baselines.py``).

    Equal rows are merged and the order of rows does not matter: a repeated row and one of weight 2
    give the same model.

    References
    ----------
    Xu, Peng and Jing (2013), "Sparse kernel logistic regression based on L1/2 regularization",
    Science China Information Sciences 56, 1-16, doi:10.1007/s11432-012-4679-3.

    Xu, Chang, Xu and Zhang (2012), "L1/2 regularization: a thresholding representation theory and
    a fast solver", IEEE Transactions on Neural Networks and Learning Systems 23(7), 1013-1027,
    doi:10.1109/TNNLS.2012.2197412.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = HalfKLR().fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> len(model.support_) < 20
    True
    >>> len(HalfKLR(n_nonzero=4).fit(X, y).support_)
    4
    """

    _parameter_constraints: dict = {
        **KernelClassifier._parameter_constraints,
        "C": [POSITIVE],
        "n_nonzero": [COUNT, None],
        "fit_intercept": ["boolean"],
        "algorithm": [StrOptions({"coordinate", "published"})],
        "tol": [POSITIVE],
        "max_iter": [COUNT],
        "cache_size": [StrOptions({"auto"}), POSITIVE],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        n_nonzero: int | None = None,
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | Literal["scale", "auto"] = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        fit_intercept: bool = True,
        algorithm: Literal["coordinate", "published"] = "coordinate",
        tol: float = 1e-6,
        max_iter: int = 1000,
        cache_size: float | Literal["auto"] = "auto",
        class_weight: dict | Literal["balanced"] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.n_nonzero = n_nonzero
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _unused_parameters(self) -> dict[str, str]:
        unused = super()._unused_parameters()
        return unused if self.n_nonzero is None else unused | {"C": "with n_nonzero, which determines it"}

    def _fit_data(self, given: GivenData) -> None:
        data = self._training_set(given)
        self._solve(data, self._solvers(data))

    def _solvers(self, data: TrainingSet) -> list[HalfSolver]:
        """One solver for each class (one in all for two classes), over one kernel matrix."""
        points = DistinctPoints.of(data, self.n_jobs).with_gram()
        unit = points.kernel_unit() if points.kernel.precomputed else 1.0
        if unit != 1:  # nothing overflows
            points = replace(points, X=points.X / points.X.dtype.type(unit))
        if self.n_nonzero is not None and self.n_nonzero >= len(points):
            raise ValueError(
                f"n_nonzero={self.n_nonzero} must be less than the number of distinct training rows, "
                f"{len(points)}; lower it, or give C instead."
            )
        try:
            gram = Gram(points, self.cache_size)
        except MemoryError as error:
            raise MemoryError(
                f"cache_size={self.cache_size!r} asks for more memory than there is; give fewer MB."
            ) from error
        total = points.weight.sum(axis=1)
        spread = gram.spread(total, centred=self.fit_intercept)
        all_classes = LogisticLoss.of(points.weight.T)
        return [
            HalfSolver(
                points, gram, LogisticLoss(target[None], other[None]), spread, self.fit_intercept, unit
            )
            for target, other in zip(all_classes.target, all_classes.other, strict=True)
        ]

    def _solve(self, data: TrainingSet, solvers: list[HalfSolver]) -> None:
        """Solve every binary problem, from where its solver stands, and set the fitted attributes."""
        runs, constants = [], []
        coef, intercept = np.zeros((len(solvers), len(data.codes))), np.zeros(len(solvers))
        for k, solver in enumerate(solvers):
            title = type(self).__name__ if len(solvers) == 1 else f"class {data.classes[k]!s}"
            with one_thread, ProgressBar(title, self.tol, bool(self.verbose)) as progress:
                run, C = self._solve_one(solver, progress)
            runs.append(run)
            constants.append(C)
            with np.errstate(over="ignore"):  # _set_model refuses what is not finite
                coef[k, solver.points.first[solver.support]] = solver.x / solver.unit
            intercept[k] = solver.b
        self._set_model(data, coef, intercept)
        self.C_ = np.array(constants)
        self.n_iter_ = np.array([run.n_iter for run in runs])
        self.objective_path_ = [run.history for run in runs]
        self.fixed_point_residual_ = max(run.residual for run in runs)
        self.converged_ = all(run.converged for run in runs)
        if not self.converged_:
            remedy = "Raise max_iter or tol, or lower C."
            if self.n_nonzero is not None:
                remedy = "Raise max_iter or tol, or lower n_nonzero."
            warn(
                f"Half thresholding stopped after {self.n_iter_.max()} iterations (max_iter={self.max_iter}) "
                f"with {len(self.support_)} points; it would still move a coefficient by "
                f"{self.fixed_point_residual_:.3g} of the largest (tol={self.tol:.3g}). {remedy}",
                ConvergenceWarning,
            )

    def _solve_one(self, solver: HalfSolver, progress: ProgressBar) -> tuple[Convergence, float]:
        """The run and its C. With a kernel over u, coefficients times u and C times the root of u, the
        objective is that root times what it was."""
        root, callback = float(np.sqrt(solver.unit)), progress if self.verbose else None
        C = float(self.C) * root
        if self.n_nonzero is None:
            loss_weights(float(self.C), solver.points.weight, root)
        if self.algorithm == "published":
            run, C = solver.iterate(C, self.tol, self.max_iter, callback, self.n_nonzero)
        elif self.n_nonzero is not None:
            run, C = solver.solve_sparse(self.n_nonzero, self.tol, self.max_iter, callback)
        else:
            run = solver.solve(C, self.tol, self.max_iter, callback)
        return replace(run, history=run.history / root), C / root


def half_klr_path(
    X: Any, y: Any, Cs: Sequence[float], *, sample_weight: Any = None, **params: Any
) -> list[HalfKLR]:
    """Models for several values of C over one kernel matrix, each started from the one before.

    The values are taken in ascending order. The penalty is not convex: a model of the path may be
    another minimum than the one a single fit finds.

    Parameters
    ----------
    X, y, sample_weight
        As in :meth:`HalfKLR.fit`.
    Cs : sequence of float
        Values of C.
    **params
        Other parameters of :class:`HalfKLR`, but ``n_nonzero``.

    Returns
    -------
    list of HalfKLR
        Fitted models in the order of ``Cs``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> [len(model.support_) for model in half_klr_path(X, y, [0.01, 1.0])]
    [0, 4]
    """
    values = np.asarray(Cs, dtype=np.float64)
    if values.ndim != 1 or not (values > 0).all() or not np.isfinite(values).all():
        raise ValueError(f"Cs must be a sequence of positive numbers; got {Cs!r}.")
    if params.get("n_nonzero") is not None:
        raise ValueError("n_nonzero is an alternative to C and cannot be given to half_klr_path.")
    template = HalfKLR(**params)
    template._check_parameters()
    precomputed = template.kernel == "precomputed"
    given = check_data(X, y, sample_weight, precomputed=precomputed, estimator=template)
    data = template._training_set(given)
    models = {}
    with naming_rows(given, **template._kernel_parameters()):
        solvers = template._solvers(data)
        for C in np.unique(values):
            model = models[C] = copy.copy(template).set_params(C=float(C))
            model._solve(data, solvers)
            model._set_reference(given.X, given.weight)
    return [copy.copy(models[C]) for C in values]
