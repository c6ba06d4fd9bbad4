"""The Import Vector Machine: kernel logistic regression on greedily selected points."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._base import KernelClassifier, expansion
from .._utils.messages import warn
from .._utils.progress import Iteration, ProgressBar
from .._utils.sklearn_compat import StrOptions
from .._utils.threads import one_thread
from .._validation import COUNT, NON_NEGATIVE, POSITIVE, kernel_parameters, make_samples
from ..refit.calibration import SOFTMAX
from ..samples import DistinctPoints, loss_weights
from .loss import Derivatives, LogisticLoss

Array = np.ndarray


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the greedy search."""

    block: int = 512  # candidates scored at once, which bounds the memory
    shortlist: int = 10  # best candidates of the quadratic model, which are compared by the objective itself
    rounds: int = 3  # steps of this comparison; six steps do not find lower minima


SETTINGS = SearchSettings()
EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


class ImportVectorMachine(KernelClassifier):
    r"""Import Vector Machine: kernel logistic regression on few, greedily selected points.

    Minimises over the coefficients, and greedily over the set S of import vectors,

    .. math:: \tfrac12 \beta^\top K_{SS}\, \beta + C \sum_i c_i \log(1 + e^{-y_i f(x_i)}),
              \qquad f(x) = \sum_{s\in S} \beta_s k(x_s, x) + b

    on all rows. Starting from the empty set, the candidate that lowers the objective most is added
    until the objective hardly falls. More than two classes share the import vectors: one f for each
    class, the softmax likelihood, and the penalty summed over classes.

    Parameters
    ----------
    C : float, default=10
        Weight of the loss. Zhu and Hastie's :math:`\lambda` (mean loss plus
        :math:`\tfrac\lambda2\|f\|^2`) is ``1 / (C * n_samples)``; Roscher's, whose two-class model
        has two outputs, is ``2 / (C * n_samples)`` for two classes.
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed"} or callable, default="rbf"
    gamma : "scale" or float, default="scale"
    degree, coef0 : float, default=3, 0
        See :class:`~sparseklr.SparseKLR`.
    fit_intercept : bool, default=True
        Whether to fit the unpenalised b; Roscher's software does not.
    epsilon : float, default=1e-3
        Stop when the objective has fallen by less than this fraction over the last ``delta_k``
        points. 0 continues to ``max_points`` or until the chosen points span all others.
    delta_k : int, default=3
        See ``epsilon``; 1 in Zhu and Hastie (2005).
    max_points : int or None, default=None
        Maximum number of import vectors.
    n_candidates : "all" or int, default=150
        Number of random candidates at each step (Roscher's software draws 150). ``"all"`` costs
        ``O(N**2 |S|)`` operations per step.
    update : {"converged", "one-step"}, default="converged"
        After an addition, minimise on the new set, or take a single Newton step as in the published
        algorithm.
    tol : float, default=1e-8
        Newton's method on the chosen points stops when half its squared decrement, an estimate of the
        remaining decrease, is at most this fraction of the objective.
    max_iter : int, default=100
        Maximum number of Newton steps after one addition.
    class_weight : dict, "balanced" or None, default=None
    random_state : int, RandomState instance or None, default=0
        Seed of the random candidates.
    n_jobs : int or None, default=None
        Number of threads for kernel values; -1 for all cores.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : array (n_classes,)
    support_ : array (n_import,)
        Indices of the import vectors, ascending.
    support_vectors_, import_vectors_ : array or CSR (n_import, n_features)
        The import vectors; for ``kernel="precomputed"``, the kernel matrix among them.
    selection_ : array (n_import,)
        Indices of the import vectors in the order in which they were imported.
    dual_coef_ : array (n_outputs, n_import)
        beta; one row for two classes, otherwise one per class.
    intercept_ : array (n_outputs,)
    n_support_ : array (n_classes,)
        Number of import vectors of each class.
    objective_path_ : array (n_import + 1,)
        The objective with 0, 1, 2, ... import vectors.
    n_iter_ : int
        Total number of Newton steps.
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
    :math:`\varphi_j = (K_{Nj} - \Phi\Phi_j^\top) / (K_{jj} - \|\Phi_j\|^2)^{1/2}` and leaves the others
    unchanged, so a Newton step lowers the objective by :math:`\tfrac12 r_j^2 / s_j` more than without it,
    where s is the Schur complement of the bordered Hessian and r that of its gradient. This takes
    ``O(N |S|)`` operations for each candidate, in matrix products; with several classes the blocks of the
    Hessian between classes are omitted. The ten best candidates are then compared by the objective itself
    after one (``update="one-step"``) or three steps in the metric of that Hessian with an exact line search.

    Equal rows are merged, and the order of rows does not matter, so repeating a row is equivalent to a weight
    of 2 (for a precomputed kernel, unless candidates are drawn from rows in another order). Points that the
    chosen ones span numerically are never imported.

    References
    ----------
    Zhu and Hastie (2005), "Kernel logistic regression and the import vector machine", Journal of
    Computational and Graphical Statistics 14(1), 185-205, doi:10.1198/106186005X25619.

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

    link_ = SOFTMAX
    _parameter_constraints: dict = {
        **KernelClassifier._parameter_constraints,
        "C": [POSITIVE],
        "fit_intercept": ["boolean"],
        "epsilon": [NON_NEGATIVE],
        "delta_k": [COUNT],
        "max_points": [COUNT, None],
        "n_candidates": [StrOptions({"all"}), COUNT],
        "update": [StrOptions({"converged", "one-step"})],
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
        gamma: float | Literal["scale"] = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        fit_intercept: bool = True,
        epsilon: float = 1e-3,
        delta_k: int = 3,
        max_points: int | None = None,
        n_candidates: int | Literal["all"] = 150,
        update: Literal["converged", "one-step"] = "converged",
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
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def import_vectors_(self) -> Any:
        return self.support_vectors_

    def _fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, names: Any = None) -> dict[str, Any]:
        data = make_samples(X, y, weight, class_weight=self.class_weight, **kernel_parameters(self))
        points = DistinctPoints.of(data, self.n_jobs).with_gram()
        # Rescaling the kernel is equivalent to changing C.
        unit = points.kernel_unit()
        loss = LogisticLoss.of(loss_weights(float(self.C), points.weight.T, unit))
        # Predictions in float32 have an error of 1e-7 times the coefficients, which must therefore be small.
        floor = max(1e-10, 100 * float(np.finfo(data.X.dtype).eps))
        title, goal = type(self).__name__, max(self.epsilon, 1e-10)
        with one_thread, ProgressBar(title, goal, bool(self.verbose)) as progress:
            machine = Machine(points, loss, self.fit_intercept, floor, unit)
            path = self._search(machine, progress)

        chosen = points.first[machine.chosen]
        coef = np.zeros((len(loss.target), len(data.codes)))
        coef[:, chosen], intercept = machine.coefficients()
        converged = machine.worst <= self.tol or self.update == "one-step"
        if not converged:
            warn(
                f"A minimisation stopped after max_iter={self.max_iter} Newton steps with "
                f"{machine.worst:.3g} of the objective left to gain (required: {self.tol:.3g}). Raise "
                "max_iter or tol, or lower C.",
                ConvergenceWarning,
            )
        return {
            **expansion(data, coef, intercept),
            "selection_": data.positions[chosen],
            "objective_path_": np.array(path) / unit,
            "n_iter_": machine.n_steps,
            "converged_": converged,
        }

    def _search(self, machine: Machine, progress: ProgressBar) -> list[float]:
        """Import points until the stopping rule holds; return the objective for each number of points."""
        random = check_random_state(self.random_state)
        converged = self.update == "converged"
        limit = min(self.max_points or len(machine.points), len(machine.points))
        start = time.perf_counter()
        machine.minimise(self.tol, self.max_iter)
        path = [machine.objective]
        spanned = np.zeros(len(machine.points), dtype=bool)
        while len(machine.chosen) < limit:
            # 1. Find the candidates: points that the chosen ones do not span.
            pool = np.flatnonzero(~spanned)
            pool = pool[~np.isin(pool, machine.chosen)]
            if len(pool) == 0:
                break
            if self.n_candidates != "all" and self.n_candidates < len(pool):
                pool = np.sort(random.choice(pool, self.n_candidates, replace=False))
            # 2. Add the best candidate.
            gains = machine.gains(pool)
            spanned[pool[gains < 0]] = True
            best = pool[np.argsort(-gains, kind="stable")[: SETTINGS.shortlist]]
            best = best[~spanned[best]]
            if len(best) == 0:
                continue
            machine.join(best, SETTINGS.rounds if converged else 1)
            if converged:
                machine.minimise(self.tol, self.max_iter)
            n = len(machine.chosen)
            path.append(machine.objective)
            # 3. Stop if the objective hardly falls.
            before = path[max(0, n - self.delta_k)]
            fall = max(abs(before - path[n]), TINY) / max(path[n], TINY)
            progress(Iteration(n, fall, time.perf_counter() - start))
            if n >= self.delta_k and fall < self.epsilon:
                break
        return path


class Machine:
    """A model on chosen points in whitened coordinates, with the operations of the greedy search.

    Attributes
    ----------
    A : array (n, q)
        A column of ones (with an intercept), then ``K_NS L^-T``.
    w : array (n_outputs, q)
        Weights; F = w A' are the outputs on all points, (n_outputs, n). Weights of several outputs sum to
        zero in each column, as they do at the minimum, see :func:`_centred`.
    penalty : array (q,)
        0 for the intercept, else 1.
    W, AWA, ridge, inverse : arrays (n_outputs, n), (n_outputs, q, q), (n_outputs, q), (n_outputs, q, q)
        At the last update: the curvature of the loss, A'WA, the penalty (with a small positive value for the
        intercept), and the inverse of the blocks ``A'WA + diag(ridge)`` of the Hessian.

    Kernel values are divided by ``unit`` and the weights of the loss multiplied by it, which multiplies the
    objective by ``unit`` and avoids overflow.
    """

    def __init__(
        self, points: DistinctPoints, loss: LogisticLoss, intercept: bool, floor: float, unit: float = 1.0
    ) -> None:
        self.points, self.loss, self.floor, self.unit = points, loss, floor, unit
        self.chosen: list[int] = []
        self.first = int(intercept)  # first column of A that belongs to a point
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
        """Cholesky factor L of the kernel matrix of the chosen points: their rows of ``K_NS L^-T``."""
        return np.tril(self.A[self.chosen, self.first :])

    def coefficients(self) -> tuple[Array, Array]:
        """The coefficients beta and the intercepts; the intercepts of several classes are centred."""
        beta = np.zeros((len(self.w), 0))
        if self.chosen:
            beta = (
                solve_triangular(self.factor, self.w[:, self.first :].T, lower=True, trans="T").T / self.unit
            )
        intercept = self.w[:, 0] if self.first else np.zeros(len(self.w))
        return beta, intercept - (intercept.mean() if len(intercept) > 1 else 0.0)

    def curve(self) -> None:
        """Update W, AWA, ridge and inverse at the current outputs."""
        here = self.loss.at(self.F)
        self.W = here.curvature
        # The intercept has no penalty. A fraction of the curvature of the loss separates its row from the
        # others (a fraction of the weights would hide the remaining decrease if all rows are saturated). A
        # fraction of the slopes bounds its step by 1e10 if saturated rows are on the wrong side. The fraction
        # EPS of the largest output covers rounding errors that all outputs share; it is negligible because
        # the loss is at least half of ``size``.
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
        """Return the columns that candidates would add to A, and which candidates A already spans."""
        Z = self.A[:, self.first :]
        R = self._kernel(candidates)
        diagonal = R[candidates, np.arange(len(candidates))]
        R -= Z @ Z[candidates].T
        left = R[candidates, np.arange(len(candidates))]
        spanned = ~(left > self.floor * diagonal)
        R *= np.where(spanned, 0.0, 1 / np.sqrt(np.where(spanned, 1.0, left)))
        return R, spanned

    def bordered(self, phi: Array) -> tuple[Array, Array]:
        """Return H^-1 u (n_outputs, q, c) and Schur complements (n_outputs, c) for columns phi (n, c)."""
        curved = self.W[:, :, None] * phi
        U = self.A.T @ curved
        HU = self.inverse @ U
        schur = 1 + np.einsum("nc,knc->kc", phi, curved) - np.einsum("kqc,kqc->kc", U, HU)
        return HU, np.maximum(schur, 1.0)  # at least the penalty, up to rounding

    def gains(self, candidates: Array) -> Array:
        """The decrease of the quadratic model for each candidate; -1 for those that A spans.

        Let R = K_J - Z Z_J', where Z is the part of A that belongs to points. Every product with R follows
        from that with K_J and from A'WA, so one large matrix product suffices. Digits cancel only for nearly
        spanned candidates, and the short list is compared with exact columns.
        """
        gain = np.empty(len(candidates))
        residual, gradient = self.loss.at(self.F).slope, self.gradient()
        Z = self.A[:, self.first :]
        rZ = residual @ Z
        for start in range(0, len(candidates), SETTINGS.block):
            block = candidates[start : start + SETTINGS.block]
            K, ZJ = self._kernel(block), Z[block].T
            diagonal = K[block, np.arange(len(block))]
            left = diagonal - (ZJ**2).sum(axis=0)
            spanned = ~(left > 2 * self.floor * diagonal)  # twice, so that the exact column exceeds the floor
            WK = self.W[:, :, None] * K
            AWK = self.A.T @ WK
            U = AWK - self.AWA[:, :, self.first :] @ ZJ
            square = np.einsum("nc,knc->kc", K, WK)
            square -= np.einsum("mc,kmc->kc", ZJ, AWK[:, self.first :] + U[:, self.first :])
            HU = self.inverse @ U
            left = np.where(spanned, 1.0, left)
            schur = np.maximum(1 + (square - np.einsum("kqc,kqc->kc", U, HU)) / left, 1.0)
            slope = residual @ K - rZ @ ZJ - np.einsum("kq,kqc->kc", gradient, HU)
            gain[start : start + SETTINGS.block] = np.where(
                spanned, -1.0, 0.5 * (slope**2 / schur).sum(axis=0) / left
            )
        return gain

    def join(self, candidates: Array, rounds: int) -> None:
        """Add the candidate whose objective is lowest after some steps from the current model.

        All candidates advance together, each with weights w (n_outputs, q, c) and a weight v (n_outputs, c)
        of its own column, in the metric of the bordered Hessian.
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
            elif np.abs(slope).max() <= 1e-3 * first_slope:  # the ranking will not change any more
                break
            D = self.A @ dw + phi * dv[:, None, :]
            linear = (penalty * w * dw).sum(axis=(0, 1)) + (v * dv).sum(axis=0)
            square = (penalty * dw**2).sum(axis=(0, 1)) + (dv**2).sum(axis=0)
            t = _line_search(self.loss, F, D, linear, square, slope)
            w, v, F = w + t * dw, v + t * dv, F + t * D
        objective = 0.5 * (penalty * w**2).sum(axis=(0, 1)) + 0.5 * (v**2).sum(axis=0) + self.loss.value(F)
        best = int(np.argmin(objective))
        if objective[best] > self.objective:  # the line search was too inexact: add it with weight 0
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
        """Minimise the objective on the chosen points by Newton's method.

        Sets w, F, objective, and updates the curvature. Stops when the remaining decrease, estimated by half
        the Newton decrement, is below ``tol`` times the objective. A step that changes outputs by r may lower
        the curvature by exp(-r), so the estimate is multiplied by exp(r) (Bach, 2010, "Self-concordant
        analysis for logistic regression", Electronic Journal of Statistics 4).
        """
        for step in range(max_iter + 1):
            here = self.loss.at(self.F)
            G = here.slope @ self.A + self.penalty * self.w
            left = 0.5 * float((G * self._precondition(G)).sum()) / max(self.objective, TINY)
            # Blocks between outputs lower the curvature, so the decrease may be larger than without them.
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
            else:  # the remaining decrease is below rounding
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
        """Conjugate gradients on the Newton system; one step for one output and up-to-date curvature."""
        x, r = np.zeros_like(G), -G
        z = self._precondition(r)
        p, rz = z, float((r * z).sum())
        enough = 1e-8 * rz
        for _ in range(50):
            Hp = here.curved(p @ self.A.T) @ self.A + self.ridge * p
            curvature = float((p * Hp).sum())
            if not curvature > 0:  # saturated: the intercepts have no curvature
                return x if x.any() else z
            alpha = rz / curvature
            x, r = x + alpha * p, r - alpha * Hp
            z = self._precondition(r)
            rz, before = float((r * z).sum()), rz
            if rz <= enough:
                break
            p = z + rz / before * p
        return x


def _centred(step: Array) -> Array:
    """Remove the component shared by all outputs from a step in the weights (n_outputs, ...).

    The softmax does not depend on a common component, and the penalty is smallest without it. Along this
    component only the penalty has curvature, but the diagonal blocks of the Hessian would wrongly include
    that of the loss.
    """
    return step if len(step) == 1 else step - step.mean(axis=0)


def _inverse(H: Array) -> Array:
    """Invert positive definite matrices (k, q, q), scaled to a unit diagonal for accuracy.

    The added ridge has the size of the rounding errors of H.
    """
    scale = 1 / np.sqrt(np.einsum("kqq->kq", H))
    scale = scale[:, :, None] * scale[:, None, :]
    return np.linalg.inv(H * scale + 10 * EPS * H.shape[1] * np.eye(H.shape[1])) * scale


def _line_search(loss: LogisticLoss, F: Array, D: Array, linear: Any, square: Any, slope: Any) -> Array:
    """Find steps t (c,) that roughly minimise ``loss(F + t D) + linear t + square t**2 / 2`` of c problems.

    ``slope`` is the derivative at 0. The function is convex in t; Newton's method starts at t = 1.
    """
    t = np.ones(F.shape[-1])
    for _ in range(8):
        here = loss.at(F + t * D)
        first = np.einsum("knc,knc->c", here.slope, D) + linear + square * t
        if (np.abs(first) <= 0.1 * np.abs(slope)).all():
            break
        second = np.einsum("knc,knc->c", here.curved(D), D) + square
        with np.errstate(over="ignore"):  # infinite steps are clipped
            t = np.clip(t - first / np.maximum(second, TINY), t / 4, 4 * t)
    return t
