"""klr_path: agreement with single fits, and interruption."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from sparseklr import SKLR, klr_path
from sparseklr.dual import KLRPath, solve_dual
from sparseklr.dual import path as paths
from sparseklr.dual.path import extrapolate
from sparseklr.dual.problem import DualProblem
from sparseklr.dual.smo import Status

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(150, noise=0.25, random_state=0)


CS, RATIOS = np.array([0.01, 1.0, 30.0, 1000.0]), np.array([0.5, 0.0, 1.0, 0.1, 0.2, 0.1])


@pytest.fixture(scope="module")
def path(moons) -> KLRPath:
    return klr_path(*moons, Cs=CS, lams=RATIOS, lam_scale="ratio", gamma=1.0, tol=1e-7)


def test_each_solution_is_that_of_a_cold_solve(moons, path) -> None:
    X, y = moons
    K, signs = rbf_kernel(X, gamma=1.0), np.where(y == 1, 1, -1)
    f = path.decision_function(X)
    assert f.shape == (4, 6, 150, 1)
    for c, C in enumerate(CS):
        for k, ratio in enumerate(RATIOS):
            assert path.lams[c, k] == ratio * C
            cold = solve_dual(K, signs, C=C, lam=ratio * C, tol=1e-7)
            assert path.dual_objective[c, k] == pytest.approx(cold.dual_objective, rel=1e-6)
            scale = max(1.0, ratio * C)
            np.testing.assert_allclose(f[c, k, :, 0], cold.decision, atol=1e-5 * scale)
            assert path.solutions[c, k, 0].kkt_violation <= 1e-7 * scale
    assert np.all(path.gap < 1e-6)


def test_summary_agrees_with_single_fits(moons, path) -> None:
    X, y = moons
    for c, k in ((3, 3), (2, 0), (0, 1)):
        options = {"C": CS[c], "lam": path.lams[c, k], "gamma": 1.0, "tol": 1e-7, "calibration": None}
        model = SKLR(**options).fit(X, y)
        assert path.n_support[c, k] == len(model.support_)
        np.testing.assert_allclose(
            path.intercept[c, k], model.intercept_, atol=1e-6 * max(1, path.lams[c, k])
        )
        kept = path.coef[c, k][:, model.support_]
        np.testing.assert_allclose(kept, model.dual_coef_, atol=1e-5 * CS[c])


def test_warm_starts_save_steps(moons, path) -> None:
    X, y = moons
    cold = sum(
        int(SKLR(C=C, lam=r * C, gamma=1.0, tol=1e-7, calibration=None).fit(X, y).n_iter_)
        for C in CS
        for r in RATIOS
    )
    assert path.n_iter.sum() < cold


def test_results_do_not_depend_on_n_jobs_nor_on_the_order_of_the_grid(moons, path) -> None:
    options = {"lam_scale": "ratio", "gamma": 1.0, "tol": 1e-7}
    parallel = klr_path(*moons, Cs=CS, lams=RATIOS, n_jobs=3, **options)
    np.testing.assert_array_equal(parallel.coef, path.coef)
    shuffled = klr_path(*moons, Cs=CS[::-1], lams=RATIOS[::-1], **options)
    np.testing.assert_array_equal(shuffled.coef[::-1, ::-1], path.coef)


def test_absolute_margins(moons) -> None:
    path = klr_path(*moons, Cs=[1, 10], lams=[0, 2.5])
    np.testing.assert_array_equal(path.lams, [[0, 2.5], [0, 2.5]])


def test_kernel_rows_where_the_matrix_does_not_fit(moons, path) -> None:
    small = klr_path(
        *moons, Cs=CS[2:], lams=RATIOS, lam_scale="ratio", gamma=1.0, tol=1e-7, cache_size=0.05, n_jobs=2
    )
    np.testing.assert_allclose(small.dual_objective, path.dual_objective[2:], rtol=1e-9)


@pytest.mark.parametrize("kind", ["csr", "precomputed", "callable"])
def test_other_inputs(moons, kind) -> None:
    X, y = moons
    options = {"Cs": [1, 100], "lams": [0, 1], "tol": 1e-6}
    expected = klr_path(X, y, gamma=1.0, **options)
    if kind == "csr":
        other = klr_path(sparse.csr_array(X), y, gamma=1.0, **options)
        f = other.decision_function(sparse.csr_array(X[:7]))
    elif kind == "precomputed":
        other = klr_path(rbf_kernel(X, gamma=1.0), y, kernel="precomputed", **options)
        f = other.decision_function(rbf_kernel(X[:7], X, gamma=1.0))
    else:
        other = klr_path(X, y, kernel=lambda A, B: rbf_kernel(A, B, gamma=1.0), **options)
        f = other.decision_function(X[:7])
    np.testing.assert_allclose(f, expected.decision_function(X[:7]), atol=1e-4)


def test_float32_matrix_of_many_points() -> None:
    """Values far from the origin keep their digits: the matrix is computed around the mean."""
    X, y = make_moons(2100, noise=0.25, random_state=0)
    options = {"Cs": [1.0], "lams": [1.0], "gamma": 1.0}
    near, far = klr_path(X, y, **options), klr_path(X + 1000, y, **options)
    assert far.dual_objective == pytest.approx(near.dual_objective, rel=1e-6)


def test_weights_and_classes() -> None:
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    path = klr_path(X, y, Cs=[10.0], lams=[0.0, 1.0], sample_weight=weight, tol=1e-8)
    assert path.solutions.shape == (1, 2, 3)
    model = SKLR(C=10, lam=1, tol=1e-8, calibration=None).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(path.decision_function(X)[0, 1], model.decision_function(X), atol=1e-6)
    assert path.n_support[0, 1] == len(model.support_)


def test_start_lies_in_the_box_and_keeps_the_balance(moons) -> None:
    X, y = moons
    K, y = rbf_kernel(X, gamma=1.0), np.where(y == 1, 1.0, -1.0)
    box = np.full(len(y), 50.0)
    known = [(lam, solve_dual(K, y, C=50.0, lam=lam)) for lam in (8.0, 7.0, 6.0)]
    problem = DualProblem(y, box, 1e-9 * box, 5.0)
    alpha, F = extrapolate(known, problem)
    assert np.all((alpha >= 0) & (alpha <= box - 2 * problem.bound))
    assert abs(y @ alpha) < 1e-8
    np.testing.assert_allclose(F, K @ (alpha * y), atol=1e-8)
    last = known[-1][1]
    assert problem.dual_objective(alpha, F) < problem.dual_objective(last.alpha, last.F)


def test_ctrl_c_stops_all_threads(moons, monkeypatch) -> None:
    first, original = threading.Lock(), paths.solve_above_bound

    def interrupted_after_the_first(*args, callback, **options):
        if first.acquire(blocking=False):
            solution = original(*args, callback=callback, **options)
            os.kill(os.getpid(), signal.SIGINT)
            return solution
        end = time.monotonic() + 60
        while not callback(None):
            time.sleep(0.01)
            assert time.monotonic() < end, "the path does not ask to stop"
        return replace(original(*args, callback=callback, **options), status=Status.INTERRUPTED)

    monkeypatch.setattr(paths, "solve_above_bound", interrupted_after_the_first)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            klr_path(*moons, Cs=np.logspace(0, 3, 4), lams=np.linspace(0, 1, 10), lam_scale="ratio", n_jobs=2)
    finally:
        signal.signal(signal.SIGINT, before)


def test_progress_is_shown(moons, capsys) -> None:
    klr_path(*moons, Cs=[1], lams=[0, 1], verbose=1)
    assert "klr_path" in capsys.readouterr().err


def test_unconverged_solves_warn(moons) -> None:
    with pytest.warns(
        ConvergenceWarning, match="2 of 2 problems were not solved to the tolerance.* max_iter=3"
    ):
        klr_path(*moons, Cs=[100], lams=[0, 1], max_iter=3)


def test_saturating_margin_warns(moons) -> None:
    with pytest.warns(UserWarning, match="lam=5000 at C=1 exceeds the saturation bound"):
        klr_path(*moons, Cs=[1, 2], lams=[1, 5000])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"Cs": []}, r"Cs must be a non-empty list of positive numbers; got \[\]"),
        ({"Cs": [1, 0]}, "Cs must be"),
        ({"Cs": 3.0}, "Cs must be"),
        ({"Cs": [1, np.inf]}, "Cs must be"),
        ({"lams": [0.1, -1]}, r"lams must be a non-empty list of non-negative numbers; got \[0.1, -1\]"),
        ({"lams": [np.nan]}, "lams must be"),
        ({"lams": "auto"}, "lams must be"),
        ({"lam_scale": "C"}, "lam_scale must be one of .* got 'C'"),
        ({"kernel": "cosine"}, "'kernel' parameter"),
        ({"tol": -1}, "'tol' parameter"),
    ],
)
def test_invalid_grids_raise(moons, arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        klr_path(*moons, **({"Cs": [1], "lams": [0]} | arguments))


def test_single_values_of_the_grid_raise(moons) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'C'"):
        klr_path(*moons, Cs=[1], lams=[0], C=1, lam=3)
    with pytest.raises(ValueError, match="X has 5 columns; expected 2"):
        klr_path(*moons, Cs=[1], lams=[0]).decision_function(np.ones((2, 5)))
