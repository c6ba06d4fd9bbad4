"""The Import Vector Machine: kernel logistic regression on greedily chosen points."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._sklearn import StrOptions
from .._warn import warn
from ..data import DistinctPoints, loss_weights
from ..estimators.base import KernelClassifier
from ..estimators.parameters import COUNT, NON_NEGATIVE, POSITIVE
from ..estimators.training import GivenData
from ..probability.loss import LogisticLoss
from ..progress import Iteration, ProgressBar
from ..threads import one_thread
from ._import_search import ROUNDS, SHORTLIST, TINY, Machine


class ImportVectorMachine(KernelClassifier):
    r"""Import Vector Machine: kernel logistic regression on few, greedily chosen points.

    Minimises over the coefficients, and greedily over the set S of import vectors,

    .. math:: \tfrac12 \beta^\top K_{SS}\, \beta + C \sum_i c_i \log(1 + e^{-y_i f(x_i)}),
              \qquad f(x) = \sum_{s\in S} \beta_s k(x_s, x) + b

    on all rows. Starting from the empty set, the candidate that lowers the objective most is added
    until the objective hardly falls. More than two classes share the import vectors: one f for
    each class, the softmax likelihood, and the penalty summed over classes.

    Parameters
    ----------
    C : float, default=10
        Weight of the loss. Zhu and Hastie's :math:`\lambda` (mean loss plus
        :math:`\tfrac\lambda2\|f\|^2`) is ``1 / (C * n_samples)``; Roscher's, whose two-class model
        has two outputs, is ``2 / (C * n_samples)`` for two classes.
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed"} or callable, default="rbf"
        A callable takes two arrays of rows and returns the matrix of kernel values.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient; ``"scale"`` is ``1 / (n_features * X.var())``, rows counted by their weights,
        ``"auto"`` ``1 / n_features``.
    degree, coef0 : float, default=3, 0
        Parameters of the polynomial kernel, and ``coef0`` also of the sigmoid kernel.
    fit_intercept : bool, default=True
        Whether to fit the unpenalised b; Roscher's software has none.
    epsilon : float, default=1e-3
        Stop when the objective has fallen by less than this share over the last ``delta_k``
        points. 0 goes on to ``max_points`` or until the chosen points span all others.
    delta_k : int, default=3
        See ``epsilon``; 1 in Zhu and Hastie (2005).
    max_points : int or None, default=None
        Largest number of import vectors.
    n_candidates : "all" or int, default=150
        How many points are scored at each step; they are drawn anew each time (Roscher's software draws
        150). ``"all"`` costs ``O(N**2 |S|)`` operations a step.
    update : {"converged", "one-step"}, default="converged"
        What follows an addition: the minimum on the new set, or a single Newton step, which is
        the published algorithm.
    backward : bool, default=False
        Whether points are dropped after an addition, as long as the smaller set is better than the best of
        its size so far (floating search, Pudil, Novovičová and Kittler, 1994). In all at most as many points
        are dropped as there are distinct rows. Roscher's software deletes points too.
    tol : float, default=1e-8
        Newton's method on the chosen points stops when half its squared decrement, an estimate of what
        is left to gain, is at most this share of the objective.
    max_iter : int, default=100
        Largest number of Newton steps after one addition.
    class_weight : dict, "balanced" or None, default=None
        Factors on C by class; ``"balanced"`` makes the classes weigh the same.
    random_state : int, RandomState instance or None, default=0
        Source of the random candidates; the default gives the same model every time.
    n_jobs : int or None, default=None
        Threads for kernel values; -1 for all.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : array (n_classes,)
    support_ : array (n_import,)
        Indices of the import vectors, ascending.
    support_vectors_, import_vectors_ : array or CSR (n_import, n_features)
        The import vectors; for ``kernel="precomputed"`` the kernel matrix between them.
    selection_ : array (n_import,)
        Indices of the import vectors in the order of their import.
    dual_coef_ : array (n_outputs, n_import)
        beta; one row for two classes, one per class otherwise.
    intercept_ : array (n_outputs,)
    n_support_ : array (n_classes,)
        Import vectors of each class.
    objective_path_ : array (n_import + 1,)
        The objective with 0, 1, 2, ... import vectors.
    n_iter_ : int
        Newton steps in all.
    converged_ : bool
        Whether every minimisation reached ``tol``.
    n_features_in_ : int
    feature_names_in_ : array
        Only when X has column names.

    Notes
    -----
    With the Cholesky factor :math:`K_{SS} = LL^\top` the model is
    :math:`f = \Phi w + b`, :math:`\Phi = K_{NS}L^{-\top}`, and the penalty
    :math:`\tfrac12\|w\|^2`. A candidate j adds the column
    :math:`\varphi_j = (K_{Nj} - \Phi\Phi_j^\top) / (K_{jj} - \|\Phi_j\|^2)^{1/2}` and leaves the rest
    as it is, so a Newton step from the present model lowers the objective by
    :math:`\tfrac12 r_j^2 / s_j` more than without it, where s is the Schur complement of the bordered
    Hessian and r that of its gradient. This takes ``O(N |S|)`` operations for each candidate, in matrix
    products over all of them; with several classes the Hessian's blocks between classes are left
    out. The ten best are then followed on the objective itself for one (``update="one-step"``) or
    three steps in the metric of that Hessian with an exact line search, and the lowest wins.

    Equal rows are merged and the order of rows does not matter, so the choice of points is the same
    for a repeated row as for one of weight 2 (for a precomputed kernel as long as candidates are
    not drawn from rows in another order). Points that the chosen ones span numerically are never
    imported.

    References
    ----------
    Zhu and Hastie (2005), "Kernel logistic regression and the import vector machine", Journal of
    Computational and Graphical Statistics 14(1), 185-205, doi:10.1198/106186005X25619.

    Pudil, Novovičová and Kittler (1994), "Floating search methods in feature selection", Pattern
    Recognition Letters 15(11), 1119-1125, doi:10.1016/0167-8655(94)90127-9.

    Roscher, Förstner and Waske (2012), "I2VM: Incremental import vector machines", Image and
    Vision Computing 30(4-5), 263-278, doi:10.1016/j.imavis.2012.04.004.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = ImportVectorMachine().fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> len(model.import_vectors_) < 30
    True
    """

    _parameter_constraints: dict = {
        **KernelClassifier._parameter_constraints,
        "C": [POSITIVE],
        "fit_intercept": ["boolean"],
        "epsilon": [NON_NEGATIVE],
        "delta_k": [COUNT],
        "max_points": [COUNT, None],
        "n_candidates": [StrOptions({"all"}), COUNT],
        "update": [StrOptions({"converged", "one-step"})],
        "backward": ["boolean"],
        "tol": [POSITIVE],
        "max_iter": [COUNT],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | Literal["scale", "auto"] = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        fit_intercept: bool = True,
        epsilon: float = 1e-3,
        delta_k: int = 3,
        max_points: int | None = None,
        n_candidates: int | Literal["all"] = 150,
        update: Literal["converged", "one-step"] = "converged",
        backward: bool = False,
        tol: float = 1e-8,
        max_iter: int = 100,
        class_weight: dict | Literal["balanced"] | None = None,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.epsilon = epsilon
        self.delta_k = delta_k
        self.max_points = max_points
        self.n_candidates = n_candidates
        self.update = update
        self.backward = backward
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def import_vectors_(self) -> Any:
        return self.support_vectors_

    def _log_proba(self, outputs: np.ndarray) -> np.ndarray:
        return (
            super()._log_proba(outputs) if outputs.shape[1] == 1 else np.asarray(log_softmax(outputs, axis=1))
        )

    def _fit_data(self, given: GivenData) -> None:
        data = self._training_set(given)
        points = DistinctPoints.of(data, self.n_jobs).with_gram()
        # A kernel in another unit is the same problem with another C.
        unit = points.kernel_unit()
        weight = loss_weights(float(self.C), points.weight.T, unit)
        loss = LogisticLoss.of(weight)
        # float32 kernels predict with an error of 1e-7 times the coefficients, which must therefore stay
        # small.
        floor = max(1e-10, 100 * float(np.finfo(data.X.dtype).eps))
        title, goal = type(self).__name__, max(self.epsilon, 1e-10)
        with one_thread, ProgressBar(title, goal, bool(self.verbose)) as progress:
            machine = Machine(points, loss, self.fit_intercept, floor, unit)
            path = self._search(machine, progress)

        chosen = points.first[machine.chosen]
        coef = np.zeros((len(loss.target), len(data.codes)))
        coef[:, chosen], intercept = machine.coefficients()
        self._set_model(data, coef, intercept)
        self.selection_ = data.positions[chosen]
        self.objective_path_ = np.array(path) / unit
        self.n_iter_ = machine.n_steps
        self.converged_ = machine.worst <= self.tol or self.update == "one-step"
        if not self.converged_:
            warn(
                f"A minimisation stopped after max_iter={self.max_iter} Newton steps with "
                f"{machine.worst:.3g} of the objective left to gain (asked for: {self.tol:.3g}). Raise "
                "max_iter or tol, or lower C.",
                ConvergenceWarning,
            )

    def _search(self, machine: Machine, progress: ProgressBar) -> list[float]:
        """Import points until the stopping rule holds; returns the objective by number of points."""
        random = check_random_state(self.random_state)
        converged = self.update == "converged"
        limit = min(self.max_points or len(machine.points), len(machine.points))
        start = time.perf_counter()
        machine.minimise(self.tol, self.max_iter)
        path = [machine.objective]
        record = np.full(limit + 1, np.inf)  # the lowest objective of each number of points so far
        n_dropped = 0
        spanned = np.zeros(len(machine.points), dtype=bool)
        while len(machine.chosen) < limit:
            # 1. The candidates: points that the chosen ones do not span.
            pool = np.flatnonzero(~spanned)
            pool = pool[~np.isin(pool, machine.chosen)]
            if len(pool) == 0:
                break
            if self.n_candidates != "all" and self.n_candidates < len(pool):
                pool = np.sort(random.choice(pool, self.n_candidates, replace=False))
            # 2. The best of them joins.
            gains = machine.gains(pool)
            spanned[pool[gains < 0]] = True
            best = pool[np.argsort(-gains, kind="stable")[:SHORTLIST]]
            best = best[~spanned[best]]
            if len(best) == 0:
                continue
            machine.join(best, ROUNDS if converged else 1)
            if converged:
                machine.minimise(self.tol, self.max_iter)
            n = len(machine.chosen)
            path[n:] = [machine.objective]
            record[n] = min(record[n], machine.objective)
            # 3. Floating search: drop points while that beats the best smaller set that was ever seen. The
            # records only fall, so no set comes back; the limit keeps small falls from taking forever.
            while self.backward and n > 2 and n_dropped < len(machine.points):
                smaller = machine.without(machine.cheapest(), self.tol, self.max_iter)
                if smaller.objective >= record[n - 1] * (1 - 1e-6):
                    break
                vars(machine).update(vars(smaller))
                n, n_dropped = n - 1, n_dropped + 1
                path[n:] = [machine.objective]
                record[n] = machine.objective
                spanned[:] = False
            # 4. Stop if the objective has hardly fallen.
            before = path[max(0, n - self.delta_k)]
            fall = max(abs(before - path[n]), TINY) / max(path[n], TINY)
            progress(Iteration(n, fall, time.perf_counter() - start))
            if n >= self.delta_k and fall < self.epsilon:
                break
        return path
