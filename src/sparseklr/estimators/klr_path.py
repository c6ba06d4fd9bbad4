"""The solutions for a whole grid of (C, lam) from data and labels."""

from __future__ import annotations

from typing import Any

from ..dual.path import KLRPath, LamScale, check_grid, solve_grid
from ..progress import GridProgress
from .sparse_klr import SparseKLR


def klr_path(
    X: Any,
    y: Any,
    *,
    Cs: Any,
    lams: Any,
    lam_scale: LamScale = "absolute",
    sample_weight: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **params: Any,
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
    n_jobs : int or None, default=None
        Values of C solved at the same time, in threads on the same kernel matrix; -1 for all cores.
        Results do not depend on it.
    verbose : int, default=0
        1 shows progress.
    **params
        Further parameters of :class:`~sparseklr.SparseKLR`: kernel, gamma, tol, bound, cache_size, ...
        The kernel matrix is kept if ``cache_size`` allows; if not, rows are computed as needed.

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
    if unwanted := sorted({"C", "lam", "nu"} & set(params)):
        raise TypeError(f"klr_path takes Cs and lams, not {', '.join(unwanted)}.")
    model = SparseKLR(n_jobs=n_jobs, **params)
    data = model._check_training(X, y, sample_weight)
    with GridProgress("klr_path", lams.size * len(data.signs()), bool(verbose)) as progress:
        return solve_grid(
            data, Cs, lams, model._settings, cache_size=model.cache_size, n_jobs=n_jobs, done=progress.advance
        )
