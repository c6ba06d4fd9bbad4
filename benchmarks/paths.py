"""The paper's 9 x 10 grid as one path, against as many fits from scratch.

The training part (80%) of ring, features in [0, 1], ``exp(-||x - x'||^2 / 2)``, tol 1e-5. Times are wall
clock of the same run; what counts is their ratio. Bar: at most 1/3 of the time, and every dual
objective the same to 1e-6.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.model_selection import StratifiedKFold

from sparseklr import SparseKLR
from sparseklr.paths import klr_path
from sparseklr.problem import DualProblem

from .common import load, show

BAR = 1 / 3


def cold_fits(
    X: np.ndarray, y: np.ndarray, Cs: np.ndarray, ratios: np.ndarray, options: dict
) -> tuple[float, int, np.ndarray]:
    """Seconds, pair steps and dual objectives of a fit for each point of the grid."""
    seconds, steps, objectives = 0.0, 0, np.empty((len(Cs), len(ratios)))
    signs = np.where(y == 1, 1.0, -1.0)
    for c, k in np.ndindex(*objectives.shape):
        model = SparseKLR(C=Cs[c], lam=Cs[c] * ratios[k], calibration=None, **options)
        start = time.perf_counter()
        model.fit(X, y)
        seconds += time.perf_counter() - start
        steps += int(model.n_iter_.sum())
        alpha = np.zeros(len(y))
        alpha[model.support_] = np.abs(model.dual_coef_[0])
        box = np.full(len(y), Cs[c])
        problem = DualProblem(signs, box, model._settings.bounds(box), model.rho_)
        objectives[c, k] = problem.dual_objective(alpha, model.decision_function(X) - model.intercept_)
    return seconds, steps, objectives


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="ring", help="data set")
    parser.add_argument("--tol", type=float, default=1e-5)
    parser.add_argument("--n-jobs", type=int, nargs="*", default=[1, -1], help="for path and fits alike")
    arguments = parser.parse_args()
    X, y = load(arguments.set)
    train, _ = next(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    X, y = X[train], y[train]
    Cs, ratios = 10.0 ** np.arange(-4, 5), np.linspace(0, 1, 10)
    rows = []
    for n_jobs in arguments.n_jobs:
        options = {"gamma": 0.5, "tol": arguments.tol, "n_jobs": n_jobs}
        path_seconds = []

        def follow(seconds: list[float] = path_seconds, options: dict = options) -> np.ndarray:
            start = time.perf_counter()
            path = klr_path(X, y, Cs=Cs, lams=ratios, lam_scale="ratio", **options)
            seconds.append(time.perf_counter() - start)
            return path

        follow()  # before and after the fits: what else the machine does weighs on both
        cold_seconds, cold_steps, cold = cold_fits(X, y, Cs, ratios, options)
        path = follow()
        seconds = float(np.mean(path_seconds))
        difference = float(np.max(np.abs(path.dual_objective - cold) / np.abs(cold)))
        ratio = seconds / cold_seconds
        met = "yes" if ratio <= BAR and difference <= 1e-6 else "no"
        steps = path.n_iter.sum() / cold_steps
        rows.append([n_jobs, cold_seconds, seconds, ratio, float(steps), difference, met])
    columns = [
        "n_jobs",
        "90 fits, s",
        "path, s",
        "ratio",
        "ratio of steps",
        "objective differs by",
        "bar 1/3 met",
    ]
    show(f"{arguments.set}, {len(y)} rows, tol {arguments.tol:g}", columns, rows)


if __name__ == "__main__":
    main()
