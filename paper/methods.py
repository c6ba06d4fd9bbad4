"""Methods that the paper compares; each is evaluated with all parameters of its grid on a fold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from sparseklr import CompactKLR, SparseKLR, klr_path
from sparseklr.baselines import HalfKLR, ImportVectorMachine, half_klr_path
from sparseklr.dual.problem import DualProblem
from sparseklr.dual.smo import Settings, Status, WorkingSet, solve_above_bound
from sparseklr.inspection.metrics import Bins
from sparseklr.kernels import gram_row_source

from .protocol import CS, GAMMAS, RATIOS, RULES, Cell, Split, choose

# A first-order solve to tolerance can take millions of pair steps (1.4 million on magic at C=100, lam=10).
FIRST_ORDER_STEPS = 100_000
IMPORT_LIMIT = 400  # with a larger C, the IVM would add thousands of points and overfit
PUBLISHED_ITERATIONS = 200  # published half thresholding does not converge in thousands of iterations either
KERNEL_MB = 4096.0


@dataclass(frozen=True, eq=False)
class Fitted:
    """Results of the candidates of one method, fitted to one part of a fold and evaluated on another part.

    ``f`` contains the decision values (n_models, n_queries), and ``share`` the fraction of the training rows
    that each model keeps.
    """

    f: np.ndarray
    share: np.ndarray
    converged: np.ndarray
    n_iter: np.ndarray
    seconds: np.ndarray


Candidates = list[tuple[float, float]]  # pairs (C, lam); NaN if the method chooses the parameters itself
FitCandidates = Callable[[np.ndarray, np.ndarray, np.ndarray, Candidates], Fitted]


@dataclass(frozen=True)
class Method:
    """A method; with ``whole_grid``, fitting all candidates takes little more time than fitting one."""

    candidates: Candidates
    fit: FitCandidates
    whole_grid: bool = False
    logits: bool = True  # whether the decision values are logits of probabilities


# -- the paper's methods --------------------------------------------------------------------------


def along_paths(settings: Settings, gamma: float) -> FitCandidates:
    """Return S-KLR models solved to tolerance, by warm-started paths over lam with one kernel matrix."""

    def fit(X: np.ndarray, y: np.ndarray, queries: np.ndarray, candidates: Candidates) -> Fitted:
        grid = np.array(candidates)
        Cs = np.unique(grid[:, 0])
        ratios = grid[grid[:, 0] == Cs[0], 1] / Cs[0]
        path = klr_path(
            X,
            y,
            Cs=Cs,
            lams=ratios,
            lam_scale="ratio",
            gamma=gamma,
            tol=settings.tol,
            max_iter=settings.max_iter,
            working_set=settings.working_set,
            cache_size=KERNEL_MB,
            n_jobs=1,
        )
        solutions = path.solutions[..., 0].ravel()
        return Fitted(
            path.decision_function(queries, n_jobs=1)[..., 0].reshape(len(candidates), -1),
            path.n_support.ravel() / len(y),
            np.array([s.status is Status.OPTIMAL for s in solutions]),
            path.n_iter.ravel(),
            np.array([s.history["seconds"][-1] for s in solutions]),
        )

    return fit


def as_printed(settings: Settings, gamma: float) -> FitCandidates:
    """Return S-KLR models with the iteration limit, bound and tolerance printed in the paper.

    Every solve begins at the paper's starting point on the box [gamma, C - gamma], and rows at gamma are
    dropped from the model. Section 4.2 of the paper gives two starting points. The experiments must have used
    the second one, which sets the larger class to gamma and the other such that y'alpha = 0. On coil2000 the
    iterations end before every variable has moved: with the first starting point (1/m1, 1/m2) 69% of the rows
    would count as selected, and with the second 27%, as in the paper.
    """

    def fit(X: np.ndarray, y: np.ndarray, queries: np.ndarray, candidates: Candidates) -> Fitted:
        K = rbf_kernel(X, gamma=gamma)
        n_positive, n_negative = (y > 0).sum(), (y < 0).sum()
        weight = np.maximum(1.0, np.where(y > 0, n_negative / n_positive, n_positive / n_negative))
        coef, measured = np.zeros((len(candidates), len(y))), []
        for k, (C, lam) in enumerate(candidates):
            box = np.full(len(y), C)
            problem = DualProblem(y, box, settings.bounds(box), lam)
            if not problem.feasible:  # the bound must shrink with C (see the errata)
                problem = DualProblem(y, box, Settings().bounds(box), lam)
            alpha = problem.project(weight * problem.bound)
            solution = solve_above_bound(
                gram_row_source(K),
                problem,
                settings,
                above=alpha - problem.bound,
                F=K @ (alpha * y),
                bound_counts=True,
                n_jobs=1,
            )
            coef[k, solution.support] = (solution.alpha * y)[solution.support]
            measured.append(
                (
                    solution.intercept,
                    len(solution.support) / len(y),
                    solution.status is Status.OPTIMAL,
                    solution.n_iter,
                    solution.history["seconds"][-1],
                )
            )
        intercept, share, converged, n_iter, seconds = map(np.array, zip(*measured, strict=True))
        f = coef @ rbf_kernel(X, queries, gamma=gamma) + intercept[:, None]
        return Fitted(f, share, converged, n_iter, seconds)

    return fit


# -- estimators, one by one -------------------------------------------------------------------


def one_by_one(make: Callable[[float, float], Any]) -> FitCandidates:
    """Return models that are fitted separately for every candidate."""

    def fit(X: np.ndarray, y: np.ndarray, queries: np.ndarray, candidates: Candidates) -> Fitted:
        models, seconds = [], []
        for C, lam in candidates:
            start = time.perf_counter()
            models.append(make(C, lam).fit(X, y))
            seconds.append(time.perf_counter() - start)
        return _fitted(models, queries, len(y), seconds)

    return fit


def half_path(gamma: float) -> FitCandidates:
    """Return l1/2-KLR models at fixed points, warm-started over C."""

    def fit(X: np.ndarray, y: np.ndarray, queries: np.ndarray, candidates: Candidates) -> Fitted:
        start = time.perf_counter()
        models = half_klr_path(X, y, [C for C, _ in candidates], gamma=gamma, cache_size=KERNEL_MB)
        each = (time.perf_counter() - start) / len(models)
        return _fitted(models, queries, len(y), [each] * len(models))

    return fit


def _fitted(models: Sequence[Any], queries: np.ndarray, n: int, seconds: list[float]) -> Fitted:
    return Fitted(
        np.array([model.decision_function(queries) for model in models]),
        np.array([_n_points(model) / n for model in models]),
        np.array([getattr(model, "converged_", getattr(model, "fit_status_", 0) == 0) for model in models]),
        np.array([int(np.sum(model.n_iter_)) for model in models]),
        np.array(seconds),
    )


def _n_points(model: Any) -> int:
    return model.n_points_ if isinstance(model, CompactKLR) else len(model.support_)


def method(name: str, mode: str) -> Method:
    """Return the method with the given name in the given mode.

    Examples
    --------
    >>> len(method("S-KLR", "converged").candidates), len(method("SVM", "converged").candidates)
    (90, 9)
    """
    printed, gamma = mode != "converged", GAMMAS[mode]
    order: WorkingSet = "first-order" if name.endswith("1ord") else "second-order"
    if name in ("S-KLR", "S-KLR-1ord", "lam-choice", "KLR-2ord", "KLR-1ord"):
        ratios = {"lam-choice": np.array([0.1]), "KLR-1ord": np.zeros(1), "KLR-2ord": np.zeros(1)}
        grid = [(float(C), float(C * ratio)) for C in CS for ratio in ratios.get(name, RATIOS)]
        if printed:
            return Method(grid, as_printed(replace(Settings.paper(), working_set=order), gamma), True)
        if order == "first-order":
            return Method(
                grid, along_paths(Settings(order, tol=1e-4, max_iter=FIRST_ORDER_STEPS), gamma), True
            )
        return Method(grid, along_paths(Settings(tol=1e-4), gamma), True)
    by_C = [(float(C), 0.0) for C in CS]
    if name == "S-KLR refit":
        # The refit of SparseKLR with the paper's kernel, for the C and lam with which SparseKLR selects
        # points.
        paper_kernel: dict[str, Any] = {"kernel": "rbf", "gamma": gamma, "scale": None, "relevance": "shared"}
        return Method([(1e4, 1e3)], one_by_one(lambda *_: SparseKLR(**paper_kernel, n_jobs=1)))
    if name in ("SparseKLR", "CompactKLR"):  # the defaults, which choose everything on the training rows
        estimator = {"SparseKLR": SparseKLR, "CompactKLR": CompactKLR}[name]
        return Method([(np.nan, np.nan)], one_by_one(lambda *_: estimator(n_jobs=1)))
    if name == "SVM":
        return Method(by_C, one_by_one(lambda C, _: SVC(C=C, gamma=gamma, cache_size=2000)), logits=False)
    if name == "IVM":
        options: dict[str, Any] = {"gamma": gamma, "max_points": IMPORT_LIMIT, "n_jobs": 1}
        if printed:
            options |= {"update": "one-step", "fit_intercept": False}
        return Method(by_C, one_by_one(lambda C, _: ImportVectorMachine(C, **options)))
    if name == "l1/2-KLR":
        if not printed:
            return Method(by_C, half_path(gamma))
        published = HalfKLR(
            gamma=gamma, algorithm="published", max_iter=PUBLISHED_ITERATIONS, cache_size=KERNEL_MB
        )
        return Method(by_C, one_by_one(lambda C, _: clone(published).set_params(C=C)))
    raise ValueError(f"unknown method {name!r}.")


# -- one cell ---------------------------------------------------------------------------------


def compute(cell: Cell, data: Split) -> dict[str, Any]:
    """Return everything that is stored for a cell: results on the grid, choices and their reliability.

    ``grid`` contains lists over the candidates: C and lam; ``val_accuracy`` and ``val_share`` of the models
    fitted without the validation rows; and for the models fitted to the whole training part ``accuracy``,
    ``log_loss`` and ``brier`` on the test part, ``share``, ``converged``, ``n_iter`` and ``seconds`` (None
    if not fitted).
    """
    chosen_method = method(cell.method, cell.mode)
    candidates, n = chosen_method.candidates, len(chosen_method.candidates)
    with warnings.catch_warnings():
        # Convergence is recorded, and the paper's grid extends to margins at which all points are saturated.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        if n > 1:
            trial = chosen_method.fit(data.X_fit, data.y_fit, data.X_val, candidates)
            val_accuracy = _accuracy(trial.f, data.y_val)
            val_share = trial.share
        else:
            val_accuracy, val_share = np.zeros(n), np.zeros(n)
        chosen = {rule: choose(rule, val_accuracy, val_share) for rule in RULES}
        index = np.arange(n) if chosen_method.whole_grid else np.unique(list(chosen.values()))
        final = chosen_method.fit(data.X_train, data.y_train, data.X_test, [candidates[k] for k in index])
    columns = {
        "accuracy": _accuracy(final.f, data.y_test),
        "share": final.share,
        "converged": final.converged.astype(float),
        "n_iter": final.n_iter.astype(float),
        "seconds": final.seconds,
    }
    if chosen_method.logits:
        columns["log_loss"] = np.mean(np.logaddexp(0, -data.y_test * final.f), axis=1)
        columns["brier"] = np.mean((expit(final.f) - (data.y_test > 0)) ** 2, axis=1)
    grid: dict[str, list[Any]] = {
        "C": [None if np.isnan(C) else C for C, _ in candidates],
        "lam": [None if np.isnan(lam) else lam for _, lam in candidates],
        "val_accuracy": val_accuracy.tolist() if n > 1 else [None] * n,
        "val_share": val_share.tolist() if n > 1 else [None] * n,
    }
    for name in ("accuracy", "share", "log_loss", "brier", "converged", "n_iter", "seconds"):
        grid[name] = [None] * n
        if name in columns:
            for k, value in zip(index, columns[name], strict=True):
                grid[name][k] = float(value)
    reliability = {}
    if chosen_method.logits:
        for rule, k in chosen.items():
            p = expit(final.f[np.flatnonzero(index == k)[0]])
            bins = Bins.of(data.y_test > 0, p, n_bins=10, strategy="uniform", keep_empty=True)
            sums = {"n": bins.weight, "p": bins.prob_sum, "y": bins.event_sum}
            reliability[rule] = {name: values.tolist() for name, values in sums.items()}
    return {
        "grid": grid,
        "chosen": chosen,
        "reliability": reliability,
        "source": data.source,
        "n_train": len(data.y_train),
        "n_val": len(data.y_val),
        "n_test": len(data.y_test),
    }


def _accuracy(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.mean((f > 0) == (y > 0), axis=1)
