"""Kernel logistic regression with the l1/2 penalty, fitted by iterative half thresholding."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .._base import KernelClassifier, expansion, set_fitted
from .._utils.messages import warn
from .._utils.progress import ProgressBar
from .._utils.sklearn_compat import StrOptions
from .._utils.threads import one_thread
from .._validation import (
    COUNT,
    POSITIVE,
    check_data,
    check_parameters,
    kernel_parameters,
    make_samples,
    naming_rows,
)
from ..samples import DistinctPoints, Samples
from ..weights import loss_weights
from ._half_solver import Convergence, Gram, HalfSolver, half_threshold
from .loss import LogisticLoss

__all__ = ["HalfKLR", "half_klr_path", "half_threshold"]


class HalfKLR(KernelClassifier):
    r"""Kernel logistic regression with an l1/2 penalty on the coefficients.

    The estimator finds a local minimum over :math:`\beta` and b of

    .. math:: C \sum_i c_i \log(1 + e^{-y_i f(x_i)}) + \sum_j |\beta_j|^{1/2},
              \qquad f(x) = \sum_j \beta_j k(x_j, x) + b

    by iterative half thresholding, where :math:`c_i` are the sample weights. Each iteration is a gradient
    step followed by :func:`half_threshold`, which sets small coefficients to zero. The penalty is not convex
    and favours sparsity more strongly than the l1 norm. With more than two classes, a one-vs-rest problem is
    solved for each class.

    Parameters
    ----------
    C : float, default=1
        Weight of the loss. Xu et al.'s :math:`\lambda` (mean loss plus
        :math:`\lambda\|\beta\|_{1/2}^{1/2}`) is ``1 / (C * n_samples)``.
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed"} or callable, default="rbf"
    gamma : "scale" or float, default="scale"
    degree, coef0 : float, default=3, 0
        See :class:`~sparseklr.SparseKLR`.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised.
    algorithm : {"coordinate", "published"}, default="coordinate"
        ``"published"`` updates all coefficients at once, with the inverse of the largest curvature as their
        common step size. ``"coordinate"`` has a step size for each coefficient, updates first the
        coefficients with the largest predicted decrease, and takes Newton steps on the non-zero coefficients;
        see Notes.
    tol : float, default=1e-6
        The fit stops when half thresholding changes every coefficient by at most ``tol`` times the largest
        absolute coefficient, or at most ``tol`` if that is smaller than 1. With ``algorithm="coordinate"``,
        the predicted decrease of a Newton step must also be at most ``tol`` times the objective. Kernel
        matrices with large or small values are first divided by a constant.
    max_iter : int, default=1000
        Maximum number of iterations for each binary problem.
    cache_size : float or "auto", default="auto"
        Memory for the kernel matrix in MB; ``"auto"`` means at most half of the free memory. If the matrix
        does not fit, its values are recomputed in each iteration.
    class_weight : dict, "balanced" or None, default=None
    n_jobs : int or None, default=None
        Number of threads for kernel values; -1 for all cores.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : array (n_classes,)
    support_ : array (n_kept,)
        Indices of the training rows with a non-zero coefficient.
    support_vectors_ : array or CSR (n_kept, n_features)
        Training rows with a non-zero coefficient; for ``kernel="precomputed"``, the kernel matrix among
        them.
    dual_coef_ : array (n_outputs, n_kept)
        Non-zero coefficients beta: one row for two classes, otherwise one row per class.
    intercept_ : array (n_outputs,)
        Intercepts b.
    n_support_ : array (n_classes,)
        Number of training rows of each class with a non-zero coefficient.
    n_iter_ : int
        Total number of iterations.
    objective_path_ : list of n_outputs arrays
        The objective after each iteration, for each binary problem.
    fixed_point_residual_ : float
        The largest change of a coefficient by another half-thresholding step, relative as in ``tol``. The
        step size of each coefficient is the inverse of an upper bound on its curvature.
    converged_ : bool
        Whether every binary problem was solved to ``tol``.
    n_features_in_ : int
    feature_names_in_ : array
        Only when X has column names.

    Notes
    -----
    With a smaller step size, half thresholding has more fixed points at which the objective is high. The step
    size of the published algorithm is the inverse of the largest curvature, :math:`\tfrac C4\|K\|^2`. Because
    the columns of a kernel matrix are similar, it is thousands of times smaller than the inverse of the
    curvature along a single coefficient. The published algorithm therefore often stays at zero, where it
    starts. The default algorithm moves one coefficient at a time, with a step size from its own curvature,
    while the intercept and the non-zero coefficients adapt. It accepts a move only if it lowers the
    objective. Its result is also a fixed point of the published iteration, with a lower objective
    (``benchmarks/baselines.py``).

    The result does not depend on the order of the rows, and repeating a row is equivalent to a weight of 2.

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
    """

    _parameter_constraints: dict = {
        **KernelClassifier._parameter_constraints,
        "C": [POSITIVE],
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
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | Literal["scale"] = "scale",
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

    def _fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, names: Any = None) -> dict[str, Any]:
        data = make_samples(X, y, weight, class_weight=self.class_weight, **kernel_parameters(self))
        return self._solve(data, self._solvers(data))

    def _solvers(self, data: Samples) -> list[HalfSolver]:
        """Return one solver per class, or a single solver for two classes; all use the same kernel matrix."""
        points = DistinctPoints.of(data, self.n_jobs).with_gram()
        unit = points.kernel_unit() if points.kernel.precomputed else 1.0
        if unit != 1:  # scale the kernel to avoid overflow
            points = replace(points, X=points.X / points.X.dtype.type(unit))
        try:
            gram = Gram(points, self.cache_size)
        except MemoryError as error:
            raise MemoryError(
                f"the kernel matrix does not fit into memory with cache_size={self.cache_size!r}; use a "
                "smaller cache_size (in MB)."
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

    def _solve(self, data: Samples, solvers: list[HalfSolver]) -> dict[str, Any]:
        """Solve every binary problem from the current state of its solver; return the fitted attributes."""
        runs = []
        coef, intercept = np.zeros((len(solvers), len(data.codes))), np.zeros(len(solvers))
        for k, solver in enumerate(solvers):
            title = type(self).__name__ if len(solvers) == 1 else f"class {data.classes[k]!s}"
            with one_thread, ProgressBar(title, self.tol, bool(self.verbose)) as progress:
                runs.append(self._solve_one(solver, progress))
            with np.errstate(over="ignore"):  # expansion() raises an error if a coefficient is not finite
                coef[k, solver.points.first[solver.support]] = solver.x / solver.unit
            intercept[k] = solver.b
        model = expansion(data, coef, intercept)
        residual = max(run.residual for run in runs)
        if not (converged := all(run.converged for run in runs)):
            n_iter = max(run.n_iter for run in runs)
            warn(
                f"Half thresholding stopped after {n_iter} iterations (max_iter={self.max_iter}) "
                f"with {len(model['support_'])} non-zero coefficients; another step would change a "
                f"coefficient by {residual:.3g} relative to the largest (tol={self.tol:.3g}). Raise max_iter "
                "or tol, or lower C.",
                ConvergenceWarning,
            )
        return {
            **model,
            "n_iter_": sum(run.n_iter for run in runs),
            "objective_path_": [run.history for run in runs],
            "fixed_point_residual_": residual,
            "converged_": converged,
        }

    def _solve_one(self, solver: HalfSolver, progress: ProgressBar) -> Convergence:
        """Solve one binary problem; the objective in the result is in the original units.

        The solver divides the kernel by u = ``solver.unit``. With coefficients multiplied by u and C
        multiplied by sqrt(u), the objective is multiplied by sqrt(u), so the minimiser is the same.
        """
        root, callback = float(np.sqrt(solver.unit)), progress if self.verbose else None
        loss_weights(float(self.C), solver.points.weight, root)  # raises if out of range
        solve = solver.iterate if self.algorithm == "published" else solver.solve
        run = solve(float(self.C) * root, self.tol, self.max_iter, callback)
        return replace(run, history=run.history / root)


def half_klr_path(
    X: Any, y: Any, Cs: Sequence[float], *, sample_weight: Any = None, **params: Any
) -> list[HalfKLR]:
    """Return models for several values of C, each fitted from the solution for the next smaller value.

    All fits use the same kernel matrix, which is computed only once. Since the penalty is not convex, a model
    on the path and a single fit with the same C may be different local minima.

    Parameters
    ----------
    X, y, sample_weight
        As in :meth:`HalfKLR.fit`.
    Cs : sequence of float
        Values of C.
    **params
        Other parameters of :class:`HalfKLR`.

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
    template = HalfKLR(**params)
    check_parameters(template._parameter_constraints, template.get_params(deep=False), "half_klr_path")
    precomputed, kernel_given = template.kernel == "precomputed", kernel_parameters(template)
    X, y, weight, columns = check_data(X, y, sample_weight, precomputed=precomputed, estimator=template)
    models = {}
    with naming_rows(X, weight, **kernel_given):
        data = make_samples(X, y, weight, class_weight=template.class_weight, **kernel_given)
        solvers = template._solvers(data)
        for C in np.unique(values):
            model = models[C] = clone(template).set_params(C=float(C))
            set_fitted(model, columns | model._solve(data, solvers))
    return [copy.copy(models[C]) for C in values]
