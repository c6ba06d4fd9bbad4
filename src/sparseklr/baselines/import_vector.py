"""Import Vector Machine: kernel logistic regression on a greedily selected subset of the training rows."""

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
from ..samples import DistinctPoints
from ..weights import loss_weights
from .loss import Derivatives, LogisticLoss

Array = np.ndarray


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the greedy search."""

    block: int = 512  # number of candidates scored at once, which bounds the memory
    shortlist: int = 10  # number of candidates that are compared by the objective after a few Newton steps
    rounds: int = 3  # number of these Newton steps; six steps do not lead to lower minima


SETTINGS = SearchSettings()
EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


class ImportVectorMachine(KernelClassifier):
    r"""Import Vector Machine: kernel logistic regression on a few greedily selected training rows.

    The selected rows are called import vectors. The estimator minimises over their coefficients
    :math:`\beta` and the intercept b, and greedily over the set S of import vectors, the objective

    .. math:: \tfrac12 \beta^\top K_{SS}\, \beta + C \sum_i c_i \log(1 + e^{-y_i f(x_i)}),
              \qquad f(x) = \sum_{s\in S} \beta_s k(x_s, x) + b

    where the sum is over all training rows, with sample weights :math:`c_i`. Starting with the empty set, it
    adds in each step the candidate that lowers the objective most, until the objective hardly falls. With
    more than two classes, each class has its own function f on the same import vectors; the loss is the
    softmax loss, and the penalty is summed over the classes.

    Parameters
    ----------
    C : float, default=10
        Weight of the loss. The parameter :math:`\lambda` of Zhu and Hastie, who minimise the mean loss plus
        :math:`\tfrac\lambda2\|f\|^2`, is ``1 / (C * n_samples)``. The :math:`\lambda` of Roscher et al., who
        use two functions for two classes, is ``2 / (C * n_samples)`` for two classes.
    kernel : {"rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed"} or callable, default="rbf"
    gamma : "scale" or float, default="scale"
    degree, coef0 : float, default=3, 0
        See :class:`~sparseklr.SparseKLR`.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised. Roscher's software has no intercept.
    epsilon : float, default=1e-3
        The search stops when the last ``delta_k`` import vectors lowered the objective by less than the
        fraction ``epsilon``. With 0, it continues to ``max_points``, or until the import vectors span all
        training rows in the feature space of the kernel.
    delta_k : int, default=3
        Number of import vectors in the stopping rule; 1 in Zhu and Hastie (2005).
    max_points : int or None, default=None
        Maximum number of import vectors.
    n_candidates : "all" or int, default=150
        Number of random candidates in each step; Roscher's software draws 150. With ``"all"``, a step takes
        ``O(N**2 |S|)`` operations.
    update : {"converged", "one-step"}, default="converged"
        After a point is added, ``"converged"`` minimises the objective for the new set, and ``"one-step"``
        takes a single Newton step, as in the published algorithm.
    tol : float, default=1e-8
        The minimisation for a given set stops when half the squared Newton decrement, an estimate of the
        remaining decrease, is at most ``tol`` times the objective.
    max_iter : int, default=100
        Maximum number of Newton steps for a given set.
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
    support_vectors_ : array or CSR (n_import, n_features)
        The import vectors; for ``kernel="precomputed"``, the kernel matrix among them.
    selection_ : array (n_import,)
        Indices of the import vectors in the order in which they were added.
    dual_coef_ : array (n_outputs, n_import)
        Coefficients beta: one row for two classes, otherwise one row per class.
    intercept_ : array (n_outputs,)
        Intercepts b.
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
    Let :math:`K_{SS} = LL^\top` be the Cholesky factorisation, and N the set of all training points. Then
    :math:`f = \Phi w + b` with :math:`\Phi = K_{NS}L^{-\top}`, and the penalty is
    :math:`\tfrac12\|w\|^2`. A candidate j appends to :math:`\Phi` the column
    :math:`\varphi_j = (K_{Nj} - \Phi\Phi_j^\top) / (K_{jj} - \|\Phi_j\|^2)^{1/2}` and leaves all other
    columns unchanged. With this column, a Newton step lowers the objective by :math:`\tfrac12 r_j^2 / s_j`
    more than without it, where :math:`s_j` is the Schur complement of the candidate in the bordered Hessian,
    and :math:`r_j` the derivative with respect to its weight after all other weights are eliminated. This
    score takes ``O(N |S|)`` operations per candidate, in matrix products. With several classes, the blocks of
    the Hessian between classes are ignored. The ten candidates with the best scores are then compared by the
    objective after three Newton steps (one step if ``update="one-step"``) with a line search.

    The result does not depend on the order of the rows, and repeating a row is equivalent to a weight of 2.
    The exception is a precomputed kernel with random candidates, whose draw depends on the order of the rows.
    A point that the import vectors span numerically is never added.

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
    >>> len(model.support_) < 30
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

    def _fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, names: Any = None) -> dict[str, Any]:
        data = make_samples(X, y, weight, class_weight=self.class_weight, **kernel_parameters(self))
        points = DistinctPoints.of(data, self.n_jobs).with_gram()
        # Rescaling the kernel is equivalent to changing C.
        unit = points.kernel_unit()
        loss = LogisticLoss.of(loss_weights(float(self.C), points.weight.T, unit))
        # Predictions in float32 have a relative error of 1e-7, so coefficients must not be too large.
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
                f"A minimisation stopped after max_iter={self.max_iter} Newton steps, although the objective "
                f"can be lowered by a fraction of {machine.worst:.3g} (tol={self.tol:.3g}). Raise max_iter "
                "or tol, or lower C.",
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
        """Add import vectors until the stopping rule is met; return the objectives for 0, 1, ... of them."""
        random = check_random_state(self.random_state)
        converged = self.update == "converged"
        limit = min(self.max_points or len(machine.points), len(machine.points))
        start = time.perf_counter()
        machine.minimise(self.tol, self.max_iter)
        path = [machine.objective]
        spanned = np.zeros(len(machine.points), dtype=bool)
        while len(machine.chosen) < limit:
            # 1. Draw the candidates among the points that the import vectors do not span.
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
    """The current model of the greedy search, and the operations that extend it.

    There are n distinct training rows; ``chosen`` lists the indices of those that are import vectors. The
    model has q weights per output. Kernel values are divided by ``unit``, and the weights of the loss are
    multiplied by it. This multiplies the objective by ``unit`` and avoids overflow.

    Attributes
    ----------
    A : array (n, q)
        Design matrix: a column of ones if there is an intercept, followed by ``K_NS L^-T``.
    w : array (n_outputs, q)
        Weights. The outputs on all points are ``F = w A'``, an array (n_outputs, n). With several outputs,
        each column of w sums to zero, as at the minimum; see :func:`_centred`.
    penalty : array (q,)
        0 for the intercept, 1 for all other columns.
    W : array (n_outputs, n)
        Second derivatives of the loss at the last call to :meth:`curve`.
    AWA, ridge, inverse : arrays (n_outputs, q, q), (n_outputs, q), (n_outputs, q, q)
        ``A'WA``, the penalty with a small positive value for the intercept, and the inverses of the diagonal
        blocks ``A'WA + diag(ridge)`` of the Hessian.
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
        """Cholesky factor L of the kernel matrix of the import vectors; it consists of rows of A."""
        return np.tril(self.A[self.chosen, self.first :])

    def coefficients(self) -> tuple[Array, Array]:
        """Return the coefficients beta and the intercepts; the intercepts of several classes sum to zero."""
        beta = np.zeros((len(self.w), 0))
        if self.chosen:
            beta = (
                solve_triangular(self.factor, self.w[:, self.first :].T, lower=True, trans="T").T / self.unit
            )
        intercept = self.w[:, 0] if self.first else np.zeros(len(self.w))
        return beta, intercept - (intercept.mean() if len(intercept) > 1 else 0.0)

    def curve(self) -> None:
        """Recompute W, AWA, ridge and inverse at the current outputs F."""
        here = self.loss.at(self.F)
        self.W = here.curvature
        # The intercept has no penalty, so the Hessian may be singular. It gets a small ridge from two terms.
        # The first is a fraction of the curvature of the loss; a fraction of the sample weights would be too
        # large if all probabilities are close to 0 or 1. The second is a fraction of the absolute slopes,
        # which bounds the step of the intercept by 1e10 if misclassified points have vanishing curvature. The
        # term with EPS covers rounding errors; it is negligible because the loss is at least half of
        # ``size``.
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
        """Return the columns that candidates would append to A, and which candidates A already spans."""
        Z = self.A[:, self.first :]
        R = self._kernel(candidates)
        diagonal = R[candidates, np.arange(len(candidates))]
        R -= Z @ Z[candidates].T
        left = R[candidates, np.arange(len(candidates))]
        spanned = ~(left > self.floor * diagonal)
        R *= np.where(spanned, 0.0, 1 / np.sqrt(np.where(spanned, 1.0, left)))
        return R, spanned

    def bordered(self, phi: Array) -> tuple[Array, Array]:
        """Return the border ``H^-1 A'W phi`` and the Schur complements of c additional columns phi (n, c).

        Their shapes are (n_outputs, q, c) and (n_outputs, c).
        """
        curved = self.W[:, :, None] * phi
        U = self.A.T @ curved
        HU = self.inverse @ U
        schur = 1 + np.einsum("nc,knc->kc", phi, curved) - np.einsum("kqc,kqc->kc", U, HU)
        return HU, np.maximum(schur, 1.0)  # without rounding errors, at least the penalty 1

    def gains(self, candidates: Array) -> Array:
        """Return the decrease of the quadratic model for each candidate, or -1 if A spans the candidate.

        Let Z be A without the column of ones, and ``R = K_J - Z Z_J'`` the columns of the candidates J before
        normalisation. All products with R are computed from products with ``K_J`` and from ``A'WA``, so that
        one large matrix product suffices. Cancellation affects only candidates that A nearly spans, and the
        final comparison of the best candidates uses exact columns.
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
            spanned = ~(left > 2 * self.floor * diagonal)  # a factor of 2 allows for rounding errors
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
        """Add the candidate with the lowest objective after ``rounds`` Newton steps from the current model.

        The steps of all c candidates are computed together. ``w`` (n_outputs, q, c) contains the weights of
        the q current columns for each candidate, and ``v`` (n_outputs, c) the weight of its additional
        column. The Hessian is that of the current model, bordered by the additional column.
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
            elif np.abs(slope).max() <= 1e-3 * first_slope:  # further steps would not change the ranking
                break
            D = self.A @ dw + phi * dv[:, None, :]
            linear = (penalty * w * dw).sum(axis=(0, 1)) + (v * dv).sum(axis=0)
            square = (penalty * dw**2).sum(axis=(0, 1)) + (dv**2).sum(axis=0)
            t = _line_search(self.loss, F, D, linear, square, slope)
            w, v, F = w + t * dw, v + t * dv, F + t * D
        objective = 0.5 * (penalty * w**2).sum(axis=(0, 1)) + 0.5 * (v**2).sum(axis=0) + self.loss.value(F)
        best = int(np.argmin(objective))
        if objective[best] > self.objective:  # the line search was too inexact, so the weight starts at 0
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
        """Minimise the objective for the current import vectors by Newton's method, in place.

        The iteration stops when the remaining decrease, estimated by half the squared Newton decrement, is at
        most ``tol`` times the objective. A step that changes outputs by at most r can reduce the curvature by
        a factor of exp(-r), so the estimate is multiplied by exp(r) (Bach, 2010, "Self-concordant analysis
        for logistic regression", Electronic Journal of Statistics 4).
        """
        for step in range(max_iter + 1):
            here = self.loss.at(self.F)
            G = here.slope @ self.A + self.penalty * self.w
            left = 0.5 * float((G * self._precondition(G)).sum()) / max(self.objective, TINY)
            # The blocks of the Hessian between outputs reduce the curvature, so that the decrease with the
            # full Hessian can be larger than with the diagonal blocks.
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
            else:  # the remaining decrease is smaller than rounding errors
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
        """Return the Newton direction for the gradient G, by preconditioned conjugate gradients.

        The preconditioner is the inverse of the diagonal blocks of the Hessian at the last call of
        :meth:`curve`. With one output and up-to-date blocks, a single iteration suffices.
        """
        x, r = np.zeros_like(G), -G
        z = self._precondition(r)
        p, rz = z, float((r * z).sum())
        enough = 1e-8 * rz
        for _ in range(50):
            Hp = here.curved(p @ self.A.T) @ self.A + self.ridge * p
            curvature = float((p * Hp).sum())
            if not curvature > 0:  # all probabilities are 0 or 1 up to rounding, so the loss has no curvature
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
    """Return a step in the weights (n_outputs, ...) without the component that all outputs share.

    The softmax loss does not depend on this component, and the penalty is smallest without it. The diagonal
    blocks of the Hessian overestimate the curvature along this component, because the loss is constant along
    it.
    """
    return step if len(step) == 1 else step - step.mean(axis=0)


def _inverse(H: Array) -> Array:
    """Return the inverses of positive definite matrices (k, q, q).

    The matrices are scaled to a unit diagonal for accuracy. A ridge of the size of the rounding errors is
    added, so that they are numerically invertible.
    """
    scale = 1 / np.sqrt(np.einsum("kqq->kq", H))
    scale = scale[:, :, None] * scale[:, None, :]
    return np.linalg.inv(H * scale + 10 * EPS * H.shape[1] * np.eye(H.shape[1])) * scale


def _line_search(loss: LogisticLoss, F: Array, D: Array, linear: Any, square: Any, slope: Any) -> Array:
    """Return steps t (c,) that roughly minimise ``loss(F + t D) + linear t + square t**2 / 2``.

    The function is convex in t, and ``slope`` is its derivative at t = 0. Newton's method starts at t = 1.
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
