"""Kernel logistic regression with the l1/2 penalty, by iterative half thresholding."""

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
from ..samples import DistinctPoints, Samples, loss_weights
from ._half_solver import Convergence, Gram, HalfSolver, half_threshold
from .loss import LogisticLoss

__all__ = ["HalfKLR", "half_klr_path", "half_threshold"]


class HalfKLR(KernelClassifier):
    r"""Kernel logistic regression with the l1/2 penalty on its coefficients.

    The estimator finds a local minimum of

    .. math:: C \sum_i c_i \log(1 + e^{-y_i f(x_i)}) + \sum_j |\beta_j|^{1/2},
              \qquad f(x) = \sum_j \beta_j k(x_j, x) + b

    by iterative half thresholding: a gradient step followed by :func:`half_threshold`, which sets
    small coefficients to zero. The penalty is not convex and favours sparsity more strongly than
    the l1 norm. More than two classes are handled one-vs-rest with a common kernel.

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
        Whether to fit the unpenalised b.
    algorithm : {"coordinate", "published"}, default="coordinate"
        ``"published"`` thresholds all coefficients at once, with the inverse of the largest curvature as the
        common step size. ``"coordinate"`` gives each coefficient its own step size, updates the most
        promising ones first, and takes Newton steps on the non-zero ones; see Notes.
    tol : float, default=1e-6
        Stop when half thresholding moves no coefficient by more than this, relative to the largest (at least
        1, in units in which kernel values are about 1). For ``"coordinate"``, the decrease predicted for a
        Newton step on the non-zero coefficients must also be less than this fraction of the objective.
    max_iter : int, default=1000
        Maximum number of iterations for each binary problem.
    cache_size : float or "auto", default="auto"
        Memory for the kernel matrix in MB; ``"auto"`` is at most half of the free memory. If the matrix does
        not fit, its values are recomputed at each iteration.
    class_weight : dict, "balanced" or None, default=None
    n_jobs : int or None, default=None
        Number of threads for kernel values; -1 for all cores.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : array (n_classes,)
    support_ : array (n_kept,)
        Indices of the training points with a non-zero coefficient.
    support_vectors_ : array or CSR (n_kept, n_features)
        These points; for ``kernel="precomputed"``, the kernel matrix among them.
    dual_coef_ : array (n_outputs, n_kept)
        beta; one row for two classes, otherwise one per class.
    intercept_ : array (n_outputs,)
    n_support_ : array (n_classes,)
        Number of kept points of each class.
    n_iter_ : int
    objective_path_ : list of n_outputs arrays
        The objective after each iteration.
    fixed_point_residual_ : float
        Largest move of a coefficient under half thresholding, with the inverse of the bound on its curvature
        as step size, relative to the largest coefficient (at least to 1 over the magnitude of kernel values).
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : array
        Only when X has column names.

    Notes
    -----
    With smaller steps, half thresholding has more poor fixed points. The published step size, the inverse of
    the largest curvature :math:`\tfrac C4\|K\|^2`, is thousands of times smaller than the inverse curvature
    along a single coefficient, because kernel columns are similar. Started from zero, the iteration often
    stays there. The default algorithm therefore moves single coefficients by their own curvature (while the
    intercept and the non-zero coefficients adapt), and accepts a move only if the objective falls. Its result
    is also a fixed point of the published iteration, at a lower objective (``benchmarks/baselines.py``).

    Equal rows are merged, and the order of rows does not matter: repeating a row is equivalent to a weight
    of 2.

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
        """One solver for each class (a single one for two classes), with a common kernel matrix."""
        points = DistinctPoints.of(data, self.n_jobs).with_gram()
        unit = points.kernel_unit() if points.kernel.precomputed else 1.0
        if unit != 1:  # scale the kernel to avoid overflow
            points = replace(points, X=points.X / points.X.dtype.type(unit))
        try:
            gram = Gram(points, self.cache_size)
        except MemoryError as error:
            raise MemoryError(
                f"cache_size={self.cache_size!r} exceeds the available memory; use a smaller number of MB."
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
        """Solve every binary problem from the current state of its solver; returns the fitted attributes."""
        runs = []
        coef, intercept = np.zeros((len(solvers), len(data.codes))), np.zeros(len(solvers))
        for k, solver in enumerate(solvers):
            title = type(self).__name__ if len(solvers) == 1 else f"class {data.classes[k]!s}"
            with one_thread, ProgressBar(title, self.tol, bool(self.verbose)) as progress:
                runs.append(self._solve_one(solver, progress))
            with np.errstate(over="ignore"):  # expansion raises on non-finite coefficients
                coef[k, solver.points.first[solver.support]] = solver.x / solver.unit
            intercept[k] = solver.b
        model = expansion(data, coef, intercept)
        residual = max(run.residual for run in runs)
        if not (converged := all(run.converged for run in runs)):
            n_iter = max(run.n_iter for run in runs)
            warn(
                f"Half thresholding stopped after {n_iter} iterations (max_iter={self.max_iter}) "
                f"with {len(model['support_'])} points; it would still move a coefficient by "
                f"{residual:.3g} of the largest (tol={self.tol:.3g}). Raise max_iter or tol, or lower C.",
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
        """Solve for a kernel divided by u: coefficients times u and C times sqrt(u) scale the objective by
        sqrt(u)."""
        root, callback = float(np.sqrt(solver.unit)), progress if self.verbose else None
        loss_weights(float(self.C), solver.points.weight, root)  # raises if out of range
        solve = solver.iterate if self.algorithm == "published" else solver.solve
        run = solve(float(self.C) * root, self.tol, self.max_iter, callback)
        return replace(run, history=run.history / root)


def half_klr_path(
    X: Any, y: Any, Cs: Sequence[float], *, sample_weight: Any = None, **params: Any
) -> list[HalfKLR]:
    """Fit models for several values of C with a common kernel matrix, each started from the previous one.

    The values are visited in ascending order. The penalty is not convex, so a model on the path and that of a
    single fit may be different local minima.

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
