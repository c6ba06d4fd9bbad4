"""The solutions for a whole grid of (C, lam) from data and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ..dual.path import KLRPath, LamScale, check_grid, solve_grid
from ..dual.solver import Settings, WorkingSet
from ..progress import GridProgressBar
from .parameters import (
    KERNEL_CONSTRAINTS,
    SOLVER_CONSTRAINTS,
    check_parameters,
    unused_by_kernel,
    warn_of_unused,
)
from .training import check_data, naming_rows, training_set


def klr_path(
    X: Any,
    y: Any,
    *,
    Cs: Any,
    lams: Any,
    lam_scale: LamScale = "absolute",
    sample_weight: Any = None,
    kernel: str | Callable[..., Any] = "rbf",
    gamma: float | Literal["scale", "auto"] = "scale",
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

    For each point of the grid the dual of

    .. math:: \min_f \tfrac12\|f\|^2 + C \sum_i c_i \log(1 + e^{\lambda - y_i f(x_i)})

    is solved to the same tolerance as by :class:`~sparseklr.SparseKLR`, on one kernel matrix and
    from warm starts.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training points; the kernel matrix if ``kernel="precomputed"``.
    y : array-like of shape (n_samples,)
        Class labels of any type; more than two classes are one-vs-rest.
    Cs : array-like of shape (n_Cs,)
        Weights of the loss, > 0.
    lams : array-like of shape (n_lams,)
        Margins, >= 0.
    lam_scale : {"absolute", "ratio"}, default="absolute"
        With ``"ratio"`` the margins are ``lams * C``: the paper's grid is ``np.linspace(0, 1, 10)``.
    sample_weight : array-like of shape (n_samples,), default=None
        As in :meth:`SparseKLR.fit`.
    kernel, gamma, degree, coef0, working_set, tol, max_iter, bound, class_weight
        As in :class:`~sparseklr.SparseKLR`, with the same defaults.
    cache_size : float or "auto", default="auto"
        As in :class:`~sparseklr.SparseKLR`. The kernel matrix is kept if this allows it; if not, its rows are
        computed as they are needed.
    n_jobs : int or None, default=None
        Values of C solved at the same time, in threads on the same kernel matrix; -1 for all cores.
        Results do not depend on it.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    KLRPath

    Raises
    ------
    PathInterrupted
        On Ctrl-C; its attribute ``path`` holds what was finished.

    References
    ----------
    Consolo, Manno and Amaldi (2025), Computers & Operations Research 188, 107363.

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
    kernel_parameters: dict[str, Any] = {
        "kernel": kernel,
        "gamma": gamma,
        "degree": degree,
        "coef0": coef0,
        "class_weight": class_weight,
    }
    given = kernel_parameters | {
        "working_set": working_set,
        "tol": tol,
        "max_iter": max_iter,
        "bound": bound,
        "cache_size": cache_size,
        "n_jobs": n_jobs,
    }
    check_parameters(KERNEL_CONSTRAINTS | SOLVER_CONSTRAINTS, given, "klr_path")
    warn_of_unused(klr_path, given, unused_by_kernel(kernel))
    checked = check_data(X, y, sample_weight, precomputed=kernel == "precomputed")
    data = training_set(checked, **kernel_parameters)
    settings = Settings(working_set, tol, max_iter, bound)
    bar = GridProgressBar("klr_path", lams.size * len(data.signs()), bool(verbose))
    with bar as progress, naming_rows(checked, **kernel_parameters):
        return solve_grid(
            data, Cs, lams, settings, cache_size=cache_size, n_jobs=n_jobs, done=progress.advance
        )
