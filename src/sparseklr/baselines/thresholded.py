"""Kernel logistic regression that is made sparse by thresholding the dual variables after training."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._base import KernelClassifier, expansion
from .._utils.messages import warn
from .._utils.sklearn_compat import Options, StrOptions
from .._validation import COUNT, NON_NEGATIVE, POSITIVE, kernel_parameters, make_samples
from ..dual.one_vs_rest import BinarySolutions, BinarySolver
from ..dual.smo import Settings
from ..samples import DistinctPoints, Samples

# The paper's illustrations treat smaller dual variables as zero.
PAPER_THRESHOLD = 1e-5


class ThresholdedKLR(KernelClassifier):
    r"""Kernel logistic regression that is made sparse after training, by thresholding the dual variables.

    The estimator implements two heuristics from the section "Differences with respect to thresholding
    heuristics" of Consolo, Manno and Amaldi (2025). It solves the kernel logistic regression problem

    .. math:: \min_f \tfrac12\|f\|^2 + C \sum_i c_i \log(1 + e^{-y_i f(x_i)}),
              \qquad f(x) = \sum_j \alpha_j y_j k(x_j, x) + b

    with sample weights :math:`c_i` and keeps only the rows with the largest dual variables :math:`\alpha_j`,
    which lie near the decision boundary or on its wrong side. The coefficients of these rows and b stay
    unchanged. With ``retrain=True``, they are fitted again to the kept rows alone.

    Parameters
    ----------
    C : float, default=100
        Weight of the loss.
    n_points : int or None, default=None
        Number of training rows to keep.
    threshold : float or None, default=None
        Alternative to ``n_points``: rows whose dual variable is larger than the threshold are kept. If both
        parameters are None, the threshold is 1e-5; the paper treats smaller dual variables as zero.
    retrain : bool, default=False
        Whether to fit the model again to the kept rows.
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed"} or callable, default="rbf"
    gamma : "scale" or float, default="scale"
    degree, coef0 : float, default=3, 0
        See :class:`~sparseklr.SparseKLR`.
    tol : float, default=1e-5
        The solver stops when the violation of the KKT conditions is at most ``tol``.
    max_iter : int, default=-1
        Maximum number of steps of the solver for each binary problem; -1 means no limit, and a fit to
        features of very different scales may then take hours.
    cache_size : float or "auto", default="auto"
        Memory for rows of the kernel matrix in MB; ``"auto"`` means at most half of the free memory.
    class_weight : dict, "balanced" or None, default=None
    n_jobs : int or None, default=None
        Number of threads for kernel values; -1 for all cores.

    Attributes
    ----------
    classes_ : array (n_classes,)
    support_ : array (n_kept,)
        Indices of the kept training rows.
    support_vectors_ : array or CSR (n_kept, n_features)
        The kept training rows.
    dual_coef_ : array (n_outputs, n_kept)
        Coefficients :math:`\alpha_j y_j`: one row for two classes, otherwise one row per class.
    intercept_ : array (n_outputs,)
        Intercepts b.
    n_support_ : array (n_classes,)
        Number of kept rows of each class.
    threshold_ : float
        Largest dual variable of a dropped row; 0 if no row was dropped.
    converged_ : bool
        Whether every binary problem was solved to ``tol``; otherwise a ConvergenceWarning is issued.
    n_iter_ : int
        Number of steps of the solver in the last fit.
    n_features_in_ : int
    feature_names_in_ : array
        Only when X has column names.

    Notes
    -----
    Equal rows of the same class are merged into one point, so repeating a row is exactly equivalent to a
    weight of 2, and the result does not depend on the order of the rows. With more than two classes, points
    are ranked by their largest dual variable in the one-vs-rest problems.

    References
    ----------
    Consolo, Manno and Amaldi (2025), Computers & Operations Research 188, 107363.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = ThresholdedKLR(n_points=20).fit(X, y)
    >>> len(model.support_)
    20
    """

    _parameter_constraints: dict = {
        **KernelClassifier._parameter_constraints,
        "C": [POSITIVE],
        "n_points": [COUNT, None],
        "threshold": [NON_NEGATIVE, None],
        "retrain": ["boolean"],
        "tol": [POSITIVE],
        "max_iter": [COUNT, Options(Integral, {-1})],
        "cache_size": [StrOptions({"auto"}), POSITIVE],
    }

    def __init__(
        self,
        C: float = 100.0,
        *,
        n_points: int | None = None,
        threshold: float | None = None,
        retrain: bool = False,
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | Literal["scale"] = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        tol: float = 1e-5,
        max_iter: int = -1,
        cache_size: float | Literal["auto"] = "auto",
        class_weight: dict | Literal["balanced"] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.n_points = n_points
        self.threshold = threshold
        self.retrain = retrain
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    def _fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, names: Any = None) -> dict[str, Any]:
        rows = make_samples(X, y, weight, class_weight=self.class_weight, **kernel_parameters(self))
        # Equal rows of a class are merged into one point, whose dual variable is the sum over these rows.
        data, _ = DistinctPoints.of(rows).labelled(rows)
        if self.n_points is not None and self.threshold is not None:
            raise ValueError(
                f"n_points and threshold must not both be given; got n_points={self.n_points!r} and "
                f"threshold={self.threshold!r}."
            )
        first = solved = self._logistic(data)
        coef, intercept = solved.coef, solved.intercept
        importance = np.abs(coef).max(axis=0)
        kept = self._kept(importance)
        if self.retrain:
            part = data.part(kept)
            missing = np.setdiff1d(np.arange(len(data.classes)), part.codes)
            if len(missing):
                raise ValueError(
                    f"retrain=True requires kept points of every class, but none of the {len(kept)} kept "
                    f"points belongs to class {', '.join(str(data.classes[code]) for code in missing)}. Keep "
                    "more points: raise n_points, or lower threshold."
                )
            coef = np.zeros_like(coef)
            solved = self._logistic(part)
            coef[:, kept], intercept = solved.coef, solved.intercept
        else:
            coef[:, np.setdiff1d(np.arange(coef.shape[1]), kept)] = 0.0
        converged = first.converged and solved.converged
        if not converged:
            violation = max(first.kkt_violation, solved.kkt_violation)
            warn(
                f"The solver stopped with a KKT violation of {violation:.3g} (required: "
                f"{self.tol:.3g}). Raise max_iter or tol, or scale the features.",
                ConvergenceWarning,
            )
        return {
            **expansion(data, coef, intercept),
            "threshold_": float(np.delete(importance, kept).max(initial=0.0)),
            "n_iter_": sum(solution.n_iter for solution in solved.solutions),
            "converged_": converged,
        }

    def _kept(self, importance: np.ndarray) -> np.ndarray:
        """Return the sorted indices of the rows to keep; the first of equally important rows are kept."""
        if self.n_points is not None:
            return np.sort(np.argsort(-importance, kind="stable")[: self.n_points])
        threshold = PAPER_THRESHOLD if self.threshold is None else self.threshold
        kept = np.flatnonzero(importance > threshold)
        if not len(kept):
            raise ValueError(
                f"threshold={threshold:g} drops all points: the largest dual variable is "
                f"{importance.max():g}. Use a smaller threshold, or give n_points."
            )
        return kept

    def _logistic(self, data: Samples) -> BinarySolutions:
        """Return the solutions of kernel logistic regression without sparsity."""
        settings = Settings(tol=self.tol, max_iter=self.max_iter)
        solver = BinarySolver(data, settings, self.cache_size, self.n_jobs)
        problems = solver.problems(float(self.C), lam=0.0)
        return BinarySolutions(problems, [solver.solve(problem) for problem in problems])
