"""The Import Vector Machine: kernel logistic regression on greedily chosen points."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._sklearn import StrOptions
from .._warn import warn
from ..data import DistinctPoints, loss_weights
from ..estimators.base import KernelClassifier
from ..estimators.parameters import COUNT, NON_NEGATIVE, POSITIVE
from ..estimators.training import GivenData
from ..probability.loss import Derivatives, LogisticLoss
from ..progress import Iteration, ProgressBar
from ..threads import one_thread

Array = np.ndarray

# Candidates scored at once: N times this many numbers are in memory.
_BLOCK = 512
# The best candidates of the quadratic model are followed on the objective itself. In 180 steps on five small
# problems with C up to 1e4, the quadratic model alone found the candidate of the lowest minimum 147 times;
# with ten candidates followed for one step it was found 163 times, for three steps 171 times, for six 171
# times.
SHORTLIST = 10
ROUNDS = 3
EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


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


class Machine:
    """A model on chosen points in whitened coordinates, and the moves of the greedy search.

    Attributes
    ----------
    A : array (n, q)
        A column of ones (with an intercept), then ``K_NS L^-T``.
    w : array (n_outputs, q)
        Weights; F = w A' are the outputs on all points, (n_outputs, n). Those of several outputs sum to
        zero in each column, as they do at the minimum, see :func:`_centred`.
    penalty : array (q,)
        0 for the intercept, else 1.
    W, AWA, ridge, inverse : arrays (n_outputs, n), (n_outputs, q, q), (n_outputs, q), (n_outputs, q, q)
        Where it was last taken: curvature of the loss, A'WA, the penalty with a little for the intercept, and
        the inverse of the Hessian's blocks ``A'WA + diag(ridge)``.

    Kernel values are divided by ``unit``. With the weights of the loss multiplied by it, the objective is
    ``unit`` times that of the kernel itself, and nothing overflows.
    """

    def __init__(
        self, points: DistinctPoints, loss: LogisticLoss, intercept: bool, floor: float, unit: float = 1.0
    ) -> None:
        self.points, self.loss, self.floor, self.unit = points, loss, floor, unit
        self.chosen: list[int] = []
        self.first = int(intercept)  # first column of A that is a point's
        self._columns = np.ones((len(points), 16), order="F")
        self.w = np.zeros((len(loss.target), self.first))
        self.F = np.zeros((len(loss.target), len(points)))
        self.objective = float(loss.value(self.F))
        self.n_steps, self.worst = 0, 0.0
        self.curve()

    @property
    def A(self) -> Array:
        return self._columns[:, : self.w.shape[1]]

    @property
    def penalty(self) -> Array:
        return (np.arange(self.w.shape[1]) >= self.first).astype(float)

    @property
    def factor(self) -> Array:
        """L: at the chosen points the whitened columns are their own Cholesky factor."""
        return np.tril(self.A[self.chosen, self.first :])

    def coefficients(self) -> tuple[Array, Array]:
        """beta and intercepts; those of several classes are made to sum to zero."""
        beta = np.zeros((len(self.w), 0))
        if self.chosen:
            beta = (
                solve_triangular(self.factor, self.w[:, self.first :].T, lower=True, trans="T").T / self.unit
            )
        intercept = self.w[:, 0] if self.first else np.zeros(len(self.w))
        return beta, intercept - (intercept.mean() if len(intercept) > 1 else 0.0)

    def curve(self) -> None:
        """Take the curvature at the present outputs. Sets W, AWA, ridge and inverse."""
        here = self.loss.at(self.F)
        self.W = here.curvature
        # The intercept has no curvature of its own. A share of that of the loss keeps its row apart from the
        # others; a share of the weights would hide what is left to gain where all rows are saturated. There
        # the slopes are as small as the curvature, unless rows are on the wrong side: then a share of the
        # slopes keeps the step of the intercept below 1e10. The slopes of all outputs are rounded alike, and
        # that must not be a step of an output whose rows are all saturated. The loss is at least half of
        # all sizes, so that a share EPS of them hides nothing.
        size = (self.W + np.abs(here.slope)).sum(axis=1, keepdims=True)
        alone = 1e-10 * size + EPS * size.max() + TINY
        self.ridge = np.where(self.penalty > 0, 1.0, alone)
        roots = (np.sqrt(weights)[:, None] * self.A for weights in self.W)
        self.AWA = np.array([B.T @ B for B in roots])
        self.inverse = _inverse(self.AWA + self.ridge[:, :, None] * np.eye(self.ridge.shape[1]))

    def gradient(self) -> Array:
        return self.loss.at(self.F).slope @ self.A + self.penalty * self.w

    def _kernel(self, candidates: Array) -> Array:
        return self.points.columns(candidates) / self.unit

    def whiten(self, candidates: Array) -> tuple[Array, Array]:
        """The columns that candidates would add to A, zero for those that A spans, and which."""
        Z = self.A[:, self.first :]
        R = self._kernel(candidates)
        diagonal = R[candidates, np.arange(len(candidates))]
        R -= Z @ Z[candidates].T
        left = R[candidates, np.arange(len(candidates))]
        spanned = ~(left > self.floor * diagonal)
        R *= np.where(spanned, 0.0, 1 / np.sqrt(np.where(spanned, 1.0, left)))
        return R, spanned

    def bordered(self, phi: Array) -> tuple[Array, Array]:
        """H^-1 u (n_outputs, q, c) and Schur complements (n_outputs, c) of new columns phi (n, c)."""
        curved = self.W[:, :, None] * phi
        U = self.A.T @ curved
        HU = self.inverse @ U
        schur = 1 + np.einsum("nc,knc->kc", phi, curved) - np.einsum("kqc,kqc->kc", U, HU)
        return HU, np.maximum(schur, 1.0)  # it is at least the penalty, up to rounding

    def gains(self, candidates: Array) -> Array:
        """Fall of the quadratic model for each candidate; -1 for those that A spans.

        Let R = K_J - Z Z_J', where Z is the part of A that belongs to points. Every product with R follows
        from the one with K_J and from A'WA, so that one large matrix product suffices. Digits cancel in it
        only for nearly spanned candidates, and the short list is followed on exact columns.
        """
        gain = np.empty(len(candidates))
        residual, gradient = self.loss.at(self.F).slope, self.gradient()
        Z = self.A[:, self.first :]
        rZ = residual @ Z
        for start in range(0, len(candidates), _BLOCK):
            block = candidates[start : start + _BLOCK]
            K, ZJ = self._kernel(block), Z[block].T
            diagonal = K[block, np.arange(len(block))]
            left = diagonal - (ZJ**2).sum(axis=0)
            spanned = ~(left > 2 * self.floor * diagonal)  # twice the floor: the exact column is above it
            WK = self.W[:, :, None] * K
            AWK = self.A.T @ WK
            U = AWK - self.AWA[:, :, self.first :] @ ZJ
            square = np.einsum("nc,knc->kc", K, WK)
            square -= np.einsum("mc,kmc->kc", ZJ, AWK[:, self.first :] + U[:, self.first :])
            HU = self.inverse @ U
            left = np.where(spanned, 1.0, left)
            schur = np.maximum(1 + (square - np.einsum("kqc,kqc->kc", U, HU)) / left, 1.0)
            slope = residual @ K - rZ @ ZJ - np.einsum("kq,kqc->kc", gradient, HU)
            gain[start : start + _BLOCK] = np.where(
                spanned, -1.0, 0.5 * (slope**2 / schur).sum(axis=0) / left
            )
        return gain

    def join(self, candidates: Array, rounds: int) -> None:
        """Add the candidate whose objective is lowest after some steps from the present model.

        All candidates are followed at once, each with weights w (n_outputs, q, c) and a weight v
        (n_outputs, c) of its own column, in the metric of the bordered Hessian.
        """
        phi, _ = self.whiten(candidates)
        HU, schur = self.bordered(phi)
        shape = (*self.w.shape, len(candidates))
        w = np.broadcast_to(self.w[:, :, None], shape)
        F = np.broadcast_to(self.F[:, :, None], (*self.F.shape, len(candidates)))
        v, penalty = np.zeros((len(w), len(candidates))), self.penalty[:, None]
        for step in range(rounds):
            residual = self.loss.at(F).slope
            G = self.A.T @ residual + penalty * w
            Gv = np.einsum("knc,nc->kc", residual, phi) + v
            dv = -(Gv - np.einsum("kqc,kqc->kc", HU, G)) / schur
            dw = -(self.inverse @ G) - HU * dv[:, None, :]
            dw, dv = _centred(dw), _centred(dv)
            slope = np.einsum("kqc,kqc->c", G, dw) + (Gv * dv).sum(axis=0)
            if step == 0:
                first_slope = np.abs(slope).max()
            elif np.abs(slope).max() <= 1e-3 * first_slope:  # the ranking will not change
                break
            D = self.A @ dw + phi * dv[:, None, :]
            linear = (penalty * w * dw).sum(axis=(0, 1)) + (v * dv).sum(axis=0)
            square = (penalty * dw**2).sum(axis=(0, 1)) + (dv**2).sum(axis=0)
            t = _line_search(self.loss, F, D, linear, square, slope)
            w, v, F = w + t * dw, v + t * dv, F + t * D
        objective = 0.5 * (penalty * w**2).sum(axis=(0, 1)) + 0.5 * (v**2).sum(axis=0) + self.loss.value(F)
        best = int(np.argmin(objective))
        if objective[best] > self.objective:  # the line search was too inexact: join with weight 0
            w, v, F = w * 0 + self.w[:, :, None], v * 0, F * 0 + self.F[:, :, None]
            objective[best] = self.objective

        q = self.w.shape[1]
        if q == self._columns.shape[1]:
            self._columns = np.concatenate([self._columns, np.empty_like(self._columns)], axis=1)
        self._columns[:, q] = phi[:, best]
        self.chosen.append(int(candidates[best]))
        self.w = np.concatenate([w[:, :, best], v[:, best, None]], axis=1)
        self.F, self.objective = F[:, :, best].copy(), float(objective[best])
        self.n_steps += rounds
        self.curve()

    def minimise(self, tol: float, max_iter: int) -> None:
        """Newton's method on the chosen points, preconditioned by the curvature taken before.

        Sets w, F, objective; takes the curvature anew if the model has moved. Ends where less than ``tol`` of
        the objective is left to gain, by half of Newton's decrement. Along a step that changes outputs by r
        the curvature may fall by a factor exp(-r) (Bach, 2010, "Self-concordant analysis for logistic
        regression", Electronic Journal of Statistics 4), and as much more be left: a single row of size 1e9
        was enough for a decrement of 1e-10 where 2% were left.
        """
        for step in range(max_iter + 1):
            here = self.loss.at(self.F)
            G = here.slope @ self.A + self.penalty * self.w
            left = 0.5 * float((G * self._precondition(G)).sum()) / max(self.objective, TINY)
            # Blocks between outputs lower the curvature, so that more may be left than without them.
            dw = self._newton_direction(here, G)
            left = max(left, -0.5 * float((G * dw).sum()) / max(self.objective, TINY))
            D = dw @ self.A.T
            most = left * float(np.exp(min(np.abs(D).max(initial=0.0), 100.0)))
            if most <= tol or step == max_iter:
                left = most
                break
            linear, square = (self.penalty * self.w * dw).sum(), (self.penalty * dw**2).sum()
            t = float(
                _line_search(self.loss, self.F[..., None], D[..., None], linear, square, (G * dw).sum())[0]
            )
            for _ in range(50):
                w, F = self.w + t * dw, self.F + t * D
                objective = self._value(w, F)
                if objective <= self.objective:
                    self.w, self.F, self.objective = w, F, objective
                    break
                t /= 2
            else:  # lower objectives are indistinguishable from rounding: what is left stays left
                break
            if step > 0:
                self.curve()
        self.n_steps += step
        self.worst = max(self.worst, left)

    def _value(self, w: Array, F: Array) -> float:
        return float(self.loss.value(F)) + 0.5 * float((self.penalty * w**2).sum())

    def _precondition(self, G: Array) -> Array:
        return _centred((self.inverse @ _centred(G)[:, :, None])[:, :, 0])

    def _newton_direction(self, here: Derivatives, G: Array) -> Array:
        """Conjugate gradients on the Newton system; one output and fresh curvature need a single step."""
        x, r = np.zeros_like(G), -G
        z = self._precondition(r)
        p, rz = z, float((r * z).sum())
        enough = 1e-8 * rz
        for _ in range(50):
            Hp = here.curved(p @ self.A.T) @ self.A + self.ridge * p
            curvature = float((p * Hp).sum())
            if not curvature > 0:  # saturated: no curvature is left along the intercepts
                return x if x.any() else z
            alpha = rz / curvature
            x, r = x + alpha * p, r - alpha * Hp
            z = self._precondition(r)
            rz, before = float((r * z).sum()), rz
            if rz <= enough:
                break
            p = z + rz / before * p
        return x

    def cheapest(self) -> int:
        """Position of the point, except the last, whose removal raises the quadratic model least."""
        L = self.factor
        beta = solve_triangular(L, self.w[:, self.first :].T, lower=True, trans="T").T
        T = solve_triangular(L, np.eye(len(L)), lower=True)
        variance = np.einsum(
            "sj,kst,tj->kj", T, self.inverse[:, self.first :, self.first :], T, optimize=True
        )
        return int(np.argmin((beta**2 / variance).sum(axis=0)[:-1]))

    def without(self, position: int, tol: float, max_iter: int) -> Machine:
        """The machine without the point at a position of ``chosen``."""
        other = copy.copy(self)
        other.chosen = self.chosen[:position] + self.chosen[position + 1 :]
        # L without the row of the point is R'Q', so K_NS L^-T becomes (K_NS L^-T) Q.
        Q, _ = qr(np.delete(self.factor, position, axis=0).T, mode="economic")
        other._columns = np.ones((len(self.points), self._columns.shape[1]), order="F")
        other.w = np.concatenate([self.w[:, : self.first], self.w[:, self.first :] @ Q], axis=1)
        other.A[:, self.first :] = self.A[:, self.first :] @ Q
        other.F = other.w @ other.A.T
        other.objective = other._value(other.w, other.F)
        other.curve()
        other.minimise(tol, max_iter)
        return other


def _centred(step: Array) -> Array:
    """A step of the weights (n_outputs, ...) without what all of several outputs have in common.

    The softmax does not change when the same is added to all outputs, and the penalty is least where the
    weights of a column sum to zero. Only the penalty is curved along such a common step. The blocks of the
    Hessian, which leave out what is between outputs, add the curvature of the loss to it, and with it a gain
    of 3e-4 of the objective was taken for one of 7e-9.
    """
    return step if len(step) == 1 else step - step.mean(axis=0)


def _inverse(H: Array) -> Array:
    """Inverses of positive definite matrices (k, q, q), computed with a diagonal of ones.

    So that a column of large weights does not drown the others. The addition is of the size of the errors of
    H.
    """
    scale = 1 / np.sqrt(np.einsum("kqq->kq", H))
    scale = scale[:, :, None] * scale[:, None, :]
    return np.linalg.inv(H * scale + 10 * EPS * H.shape[1] * np.eye(H.shape[1])) * scale


def _line_search(loss: LogisticLoss, F: Array, D: Array, linear: Any, square: Any, slope: Any) -> Array:
    """Steps t (c,) that nearly minimise ``loss(F + t D) + linear t + square t**2 / 2`` of c problems.

    ``slope`` is the derivative at 0. The function is convex in t; Newton's method starts at t = 1.
    """
    t = np.ones(F.shape[-1])
    for _ in range(8):
        here = loss.at(F + t * D)
        first = np.einsum("knc,knc->c", here.slope, D) + linear + square * t
        if (np.abs(first) <= 0.1 * np.abs(slope)).all():
            break
        second = np.einsum("knc,knc->c", here.curved(D), D) + square
        with np.errstate(over="ignore"):  # an infinite step is cut
            t = np.clip(t - first / np.maximum(second, TINY), t / 4, 4 * t)
    return t
