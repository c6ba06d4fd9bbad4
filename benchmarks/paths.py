"""Time of a warm-started path over the 9 x 10 grid of the paper, compared with separate fits.

The data are 80% of the rows of ring, with features in [0, 1]. The kernel is ``exp(-||x - x'||^2 / 2)``, and the tolerance
is 1e-5. Times are wall-clock times of one run, of which only the ratio is meaningful. The path must take at most 1/3 of
the time of separate fits (goal: 1/8). Every dual objective, computed with the kernel in float64, must agree to a relative
1e-6.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold

from sparseklr import SKLR, klr_path
from sparseklr.dual import DualProblem, KLRPath

from .common import load, show

BAR = 1 / 3
CS, RATIOS = 10.0 ** np.arange(-4, 5), np.linspace(0, 1, 10)
Objective = Callable[[int, int, np.ndarray], float]


def objective_of(X: np.ndarray, y: np.ndarray) -> Objective:
    """Return the dual objective at a point of the grid, from ``alpha * y``."""
    K, signs = rbf_kernel(X, gamma=0.5), np.where(y == 1, 1.0, -1.0)

    def value(c: int, k: int, coef: np.ndarray) -> float:
        box = np.full(len(y), CS[c])
        problem = DualProblem(signs, box, 1e-9 * box, CS[c] * RATIOS[k])
        return problem.dual_objective(np.abs(coef), K @ coef)

    return value


def cold_fits(
    X: np.ndarray, y: np.ndarray, objective: Objective, options: dict
) -> tuple[float, int, np.ndarray]:
    """Return the seconds, pair steps and objectives of separate fits for all points of the grid."""
    seconds, steps, values = 0.0, 0, np.empty((len(CS), len(RATIOS)))
    for c, k in np.ndindex(*values.shape):
        model = SKLR(C=CS[c], lam=CS[c] * RATIOS[k], calibration=None, **options)
        start = time.perf_counter()
        model.fit(X, y)
        seconds += time.perf_counter() - start
        steps += model.n_iter_
        coef = np.zeros(len(y))
        coef[model.support_] = model.dual_coef_[0]
        values[c, k] = objective(c, k, coef)
    return seconds, steps, values


def follow(X: np.ndarray, y: np.ndarray, options: dict) -> tuple[float, KLRPath]:
    start = time.perf_counter()
    path = klr_path(X, y, Cs=CS, lams=RATIOS, lam_scale="ratio", **options)
    return time.perf_counter() - start, path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="ring", help="data set")
    parser.add_argument("--tol", type=float, default=1e-5)
    parser.add_argument(
        "--n-jobs",
        type=int,
        nargs="*",
        default=[1, -1],
        help="number of threads, of the path and of the separate fits",
    )
    arguments = parser.parse_args()
    X, y = load(arguments.set)
    train, _ = next(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    X, y = X[train], y[train]
    objective = objective_of(X, y)
    rows = []
    for n_jobs in arguments.n_jobs:
        options = {"gamma": 0.5, "tol": arguments.tol, "n_jobs": n_jobs}
        before, _ = follow(
            X, y, options
        )  # the path is timed again afterwards, because other programs may slow down a run
        cold_seconds, cold_steps, cold = cold_fits(X, y, objective, options)
        after, path = follow(X, y, options)
        seconds = (before + after) / 2
        coef = path.coef
        values = np.array([objective(c, k, coef[c, k, 0]) for c, k in np.ndindex(*cold.shape)])
        difference = float(np.max(np.abs(values.reshape(cold.shape) / cold - 1)))
        ratio = seconds / cold_seconds
        steps = float(path.n_iter.sum() / cold_steps)
        met = "yes" if ratio <= BAR and difference <= 1e-6 else "no"
        rows.append([n_jobs, cold_seconds, seconds, ratio, steps, difference, met])
    columns = ["n_jobs", "90 fits, s", "path, s", "ratio", "ratio of steps", "objective differs", "bars met"]
    show(f"{arguments.set}, {len(y)} rows, tol {arguments.tol:g}", columns, rows)


if __name__ == "__main__":
    main()
