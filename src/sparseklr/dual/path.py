r"""Solution paths: S-KLR for a grid of (C, lam).

All problems share one kernel matrix. For each C, the margins lam are visited in descending order. Since
:math:`\alpha(\lambda)` is smooth, a polynomial through the last few solutions predicts the next one. The
corresponding ``F = K (alpha * y)`` is linear in alpha, so it is predicted without a product with K. With tol
= 1e-5 on the grid of the paper, this takes about half as many pair steps as starting from zero. The following
alternatives were not faster: visiting the margins in ascending or bisecting order, starting from the
solutions for the previous C, extrapolating f, and taking Newton steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from threading import Event
from typing import Any, Literal, get_args

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from .._utils.arrays import check_indices
from .._utils.messages import warn
from .._utils.threads import ThreadPool, n_threads
from ..kernels import RowSource, cache_bytes, gram_row_source
from ..samples import Samples
from .margins import saturation_bound
from .problem import DualProblem, boxes
from .smo import Settings, Solution, Status, solve_above_bound

LamScale = Literal["absolute", "ratio"]

# Degree of the polynomials. With higher degrees, the errors of approximate solutions outweigh the gain.
_DEGREE = 4


@dataclass(frozen=True, eq=False, repr=False)
class KLRPath:
    """Solutions of S-KLR on a grid of (C, lam).

    Attributes
    ----------
    Cs : array (n_Cs,)
        The values of C.
    lams : array (n_Cs, n_lams)
        The margins lam, also if ``lam_scale="ratio"``.
    solutions : array (n_Cs, n_lams, n_outputs) of Solution
        There is one output for two classes, and otherwise one output for each class.
    training : Samples
        The training rows with positive weight. ``alpha`` and ``support`` of a solution refer to these rows;
        ``training.positions`` contains their positions in the data passed by the user.
    """

    Cs: np.ndarray
    lams: np.ndarray
    solutions: np.ndarray
    training: Samples

    def __repr__(self) -> str:
        """Return a summary of the grid and of its models."""
        kept = self.n_support
        return (
            f"KLRPath of {len(self.Cs)} values of C ({self.Cs.min():g} to {self.Cs.max():g}) and "
            f"{self.lams.shape[1]} of lam ({self.lams.min():g} to {self.lams.max():g}) on "
            f"{len(self.training.codes)} training rows, {len(self.training.classes)} classes\n"
            f" points: {kept.min()} to {kept.max()}\n"
            f"  relative duality gap: at most {self.gap.max():.2g}"
        )

    @property
    def n_support(self) -> np.ndarray:
        """Number of points of each model, as an array of shape (n_Cs, n_lams)."""
        return self._each(lambda cell: len(np.unique(np.concatenate([s.support for s in cell]))))

    @property
    def n_iter(self) -> np.ndarray:
        """Number of pair steps (n_Cs, n_lams), summed over the outputs."""
        return self._each(lambda cell: sum(s.n_iter for s in cell))

    @property
    def gap(self) -> np.ndarray:
        """Largest relative duality gap over the outputs, as an array of shape (n_Cs, n_lams)."""
        return self._each(lambda cell: max(s.relative_gap for s in cell))

    @property
    def dual_objective(self) -> np.ndarray:
        """Dual objective (n_Cs, n_lams), summed over the outputs."""
        return self._each(lambda cell: sum(s.dual_objective for s in cell))

    @property
    def coef(self) -> np.ndarray:
        """Coefficients ``alpha * y`` as an array of shape (n_Cs, n_lams, n_outputs, n_training_rows)."""
        alpha = np.array([solution.alpha for solution in self.solutions.flat])
        return alpha.reshape(*self.solutions.shape, -1) * self.training.signs()

    @property
    def intercept(self) -> np.ndarray:
        """Intercepts as an array of shape (n_Cs, n_lams, n_outputs)."""
        return np.reshape([solution.intercept for solution in self.solutions.flat], self.solutions.shape)

    def decision_function(self, X: Any, *, n_jobs: int | None = None) -> np.ndarray:
        """Return the decision values f(x) of every model on the path.

        Each kernel value is computed only once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to evaluate. For a precomputed kernel, the kernel values of these rows with all training
            rows, (n_samples, n_training_samples).
        n_jobs : int or None, default=None
            Number of threads for kernel values.

        Returns
        -------
        array (n_Cs, n_lams, n_samples, n_outputs)
        """
        data = self.training
        check_indices(X)
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        width = data.n_samples if data.kernel.precomputed else data.X.shape[1]
        if X.shape[1] != width:
            raise ValueError(f"X has {X.shape[1]} columns; expected {width}, as in the training data.")
        coef = self.coef.reshape(-1, len(data.codes))
        used = np.flatnonzero(coef.any(axis=0))
        queries = X[:, data.positions[used]] if data.kernel.precomputed else X
        f = data.kernel.sum(queries, data.X[used], coef[:, used], n_jobs=n_jobs)
        by_model = f.T.reshape(*self.solutions.shape, len(f)) + self.intercept[..., None]
        return np.moveaxis(by_model, -2, -1)

    def _each(self, value: Callable[[Any], Any]) -> np.ndarray:
        """Return ``value(solutions)`` for each (C, lam)."""
        return np.array([[value(cell) for cell in row] for row in self.solutions])


def check_grid(Cs: Any, lams: Any, lam_scale: str) -> tuple[np.ndarray, np.ndarray]:
    """Validate the grid, and return C (n_Cs,) and the margins lam (n_Cs, n_lams).

    With ``lam_scale="ratio"``, ``lams`` contains the ratios lam / C.
    """
    if lam_scale not in get_args(LamScale):
        raise ValueError(f"lam_scale must be one of {get_args(LamScale)}; got {lam_scale!r}.")
    C, lam = _numbers("Cs", Cs, "positive"), _numbers("lams", lams, "non-negative")
    return C, C[:, None] * lam if lam_scale == "ratio" else np.tile(lam, (len(C), 1))


def _numbers(name: str, given: Any, sign: Literal["positive", "non-negative"]) -> np.ndarray:
    """Return ``given`` as an array of finite numbers of the required sign, or raise an error."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    allowed = values > 0 if sign == "positive" else values >= 0
    if values.ndim != 1 or not values.size or not (allowed & np.isfinite(values)).all():
        raise ValueError(f"{name} must be a non-empty list of {sign} numbers; got {given!r}.")
    return values


def solve_grid(
    data: Samples,
    Cs: np.ndarray,
    lams: np.ndarray,
    settings: Settings,
    *,
    cache_size: float | str = "auto",
    n_jobs: int | None = None,
    check_saturation: bool = True,
    done: Callable[[], None] = lambda: None,
) -> KLRPath:
    """Return the solutions on a grid for validated data.

    ``done`` is called after each problem. ``check_saturation`` enables a warning about margins at which all
    dual variables of a class are at their upper bounds.
    """
    signs = data.signs()
    path = KLRPath(Cs, lams, np.full((*lams.shape, len(signs)), None, dtype=object), data)
    chains = [(c, output) for c in np.argsort(-Cs) for output in range(len(signs))]
    workers = min(n_threads(n_jobs), len(chains))
    K = data.kernel.gram(data.X, cache_size=cache_size, n_jobs=n_jobs)
    if check_saturation and K is not None:
        _warn_about_saturation(K, data, Cs, lams)
    stop = Event()

    def follow(c: int, output: int) -> None:
        if K is not None:
            row_source = gram_row_source(K)
        else:  # threads cannot share a cache of kernel rows, so each thread gets an equal part of the memory
            megabytes = cache_bytes(cache_size, data.X) / workers / 2**20
            row_source = data.kernel.row_source(data.X, cache_size=megabytes)
        order = np.argsort(-lams[c])
        chain = solve_along(
            row_source, signs[output], boxes(Cs[c], data.weight), lams[c, order], settings, stop
        )
        for index, solution in zip(order, chain, strict=False):  # an interrupted chain is shorter
            path.solutions[c, index, output] = solution
            done()

    with ThreadPool(workers) as pool:
        try:
            pending = {pool.submit(follow, *chain) for chain in chains}
            while pending:  # the timeout bounds the reaction time if Ctrl-C arrives just before the wait
                ended, pending = wait(pending, timeout=1, return_when=FIRST_COMPLETED)
                for future in ended:
                    future.result()
        except BaseException:  # also Ctrl-C
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    if unsolved := sum(solution.status is not Status.OPTIMAL for solution in path.solutions.flat):
        reached = f"the solver reached max_iter={settings.max_iter}, or " if settings.max_iter > 0 else ""
        raised = "max_iter or tol" if settings.max_iter > 0 else "tol"
        warn(
            f"{unsolved} of {path.solutions.size} problems were not solved to the tolerance: {reached}"
            f"rounding errors prevent progress. Raise {raised}, or scale the features.",
            ConvergenceWarning,
        )
    return path


def solve_along(
    row_source: RowSource,
    y: np.ndarray,
    box: np.ndarray,
    lams: Iterable[float],
    settings: Settings,
    stop: Event,
) -> Iterator[Solution]:
    """Yield the solutions of one binary problem for the given descending margins, until ``stop`` is set."""
    bound = settings.bounds(box)
    known: list[tuple[float, Solution]] = []
    for lam in lams:
        problem = DualProblem(y, box, bound, float(lam))
        above, F = extrapolate(known, problem)
        solution = solve_above_bound(
            row_source, problem, settings, above=above, F=F, n_jobs=1, callback=lambda snapshot: stop.is_set()
        )
        if solution.status is Status.INTERRUPTED:
            return
        yield solution
        if solution.status is Status.STALLED:  # the rounding errors in F would persist
            known = []
            continue
        if known and known[-1][0] == lam:
            known.pop()
        known = [*known, (problem.lam, solution)][-_DEGREE - 1 :]


def extrapolate(known: list[tuple[float, Solution]], problem: DualProblem) -> tuple[np.ndarray, np.ndarray]:
    """Return a starting point for the solver at a new margin, extrapolated from other margins.

    The starting point consists of ``alpha - bound`` and F; ``known`` contains the other margins and their
    solutions. The candidates are zero, the latest solution, and polynomials of increasing degree through the
    latest solutions. The degree increases while the dual objective decreases. A polynomial is moved towards
    the latest solution until all dual variables lie between their bounds. The Lagrange weights of the
    solutions sum to one, so ``y'alpha = 0`` still holds.
    """
    top = problem.box - 2 * problem.bound
    best = 0.0, np.zeros_like(top), np.zeros_like(top)
    for degree in range(len(known)):
        lams, solutions = zip(*known[-degree - 1 :], strict=True)
        last = solutions[-1]
        differences = np.subtract.outer(lams, lams) + np.eye(degree + 1)
        factors = np.where(np.eye(degree + 1), 1.0, (problem.lam - np.array(lams)) / differences)
        weights = factors.prod(axis=1)
        move = weights @ np.array([s.alpha for s in solutions]) - last.alpha
        move_F = weights @ np.array([s.F for s in solutions]) - last.F
        distance = np.where(move > 0, top - last.alpha, last.alpha)
        moving = move != 0
        step = min(1.0, float((distance[moving] / np.abs(move[moving])).min(initial=1.0)))
        alpha, F = np.clip(last.alpha + step * move, 0.0, top), last.F + step * move_F
        value = problem.dual_objective(alpha, F)
        if value >= best[0]:
            break
        best = value, alpha, F
    return best[1], best[2]


def _warn_about_saturation(K: np.ndarray, data: Samples, Cs: np.ndarray, lams: np.ndarray) -> None:
    """Warn about margins at which all dual variables of a class are at their upper bounds."""
    ratio = lams.max(axis=1) / Cs
    c = max(range(len(Cs)), key=lambda k: (ratio[k], Cs[k]))
    # Margins below this limit are far below the saturation bound. The limit is cheaper to compute than the
    # bound.
    if ratio[c] <= K.diagonal().mean():
        return
    for y in data.signs():
        limit = saturation_bound(K, y, float(Cs[c]), sample_weight=data.weight)
        if lams[c].max() >= limit:
            warn(
                f"lam={lams[c].max():g} at C={Cs[c]:g} exceeds the saturation bound {limit:.4g}. Above this "
                "bound, every dual variable of the smaller class is at its upper bound, so the model keeps "
                f"every row of this class. Use values of lam below {limit / Cs[c]:.3g} * C.",
            )
            return
