"""The nu form: at the margin found, the dual variables sum to nu."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.reference import rho

from sparseklr import SKLR
from sparseklr.dual import solve_dual
from sparseklr.dual.margins import lam_for_nu, nu_bar, nu_limit, search_margin

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(120, noise=0.3, random_state=0)


# Weight equivalence compares two optima to 1e-7: it takes a solve to that accuracy. C is large because
# one check weighs a class by 1e-4, and nu must stay below its limit.
@pytest.mark.slow
@parametrize_with_checks([SKLR(C=1e4, nu=20, tol=1e-10, calibration=None)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks set max_iter
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


@pytest.mark.slow
@given(st.integers(0, 1000), st.sampled_from([0.5, 20.0]), st.floats(0.0, 0.98))
def test_sum_is_nu_at_the_margin_found(seed: int, C: float, fraction: float) -> None:
    X = np.random.default_rng(seed).normal(size=(20, 2))
    y = np.where(X[:, 0] + np.sin(seed + np.arange(20)) > 0, 1, -1)
    y[:2] = -1, 1
    K = rbf_kernel(X)
    least, limit = nu_bar(K, y, C=C, tol=1e-8), nu_limit(y, C=C)
    nu = least + fraction * (limit - least)
    lam = lam_for_nu(K, y, C=C, nu=nu, tol=1e-8)
    solution = solve_dual(K, y, C=C, lam=lam, tol=1e-8)
    assert solution.alpha.sum() == pytest.approx(nu, rel=1e-6)
    if lam > 0:
        assert rho(solution, y, C=C) == pytest.approx(lam, rel=1e-5, abs=1e-6)
    assert lam_for_nu(K, y, C=C, nu=0.9 * least) == 0.0


def test_nu_bar_is_the_sum_of_the_loss_slopes(moons) -> None:
    X, y = moons
    K, signs = rbf_kernel(X), np.where(y == 1, 1.0, -1.0)
    f = solve_dual(K, signs, C=5.0, lam=0.0, tol=1e-9).decision
    assert nu_bar(K, signs, C=5.0, tol=1e-9) == pytest.approx(5 * expit(-signs * f).sum(), rel=1e-6)


def test_estimator_finds_the_margin(moons) -> None:
    X, y = moons
    options = {"C": 20.0, "gamma": 1.0, "tol": 1e-7, "calibration": None}
    model = SKLR(nu=700.0, **options).fit(X, y)
    assert np.abs(model.dual_coef_).sum() == pytest.approx(700, rel=1e-6)
    expected = lam_for_nu(rbf_kernel(X, gamma=1.0), np.where(y == 1, 1, -1), C=20.0, nu=700.0)
    assert model.lam_ == pytest.approx(expected, rel=1e-4)
    same = SKLR(lam=model.lam_[0], **options).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), same.decision_function(X), atol=1e-3)


def test_small_nu_is_kernel_logistic_regression(moons) -> None:
    X, y = moons
    options = {"C": 20.0, "tol": 1e-8, "calibration": None}
    model, plain = SKLR(nu=1.0, **options).fit(X, y), SKLR(lam=0.0, **options).fit(X, y)
    assert model.lam_ == 0
    np.testing.assert_array_equal(model.dual_coef_, plain.dual_coef_)


def test_each_of_several_classes_has_its_own_margin() -> None:
    X, y = load_iris(return_X_y=True)
    model = SKLR(C=10, nu=300, calibration="link").fit(X, y)
    assert model.lam_.shape == (3,)
    assert model.score(X, y) > 0.95


def test_weights_are_equivalent_to_repetitions(moons) -> None:
    X, y = moons
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    options = {"C": 5.0, "nu": 200.0, "gamma": 1.0, "tol": 1e-8, "calibration": None}
    weighted = SKLR(**options).fit(X, y, sample_weight=weight)
    repeated = SKLR(**options).fit(X.repeat(weight, axis=0), y.repeat(weight))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("nu", [120 * 20.0, 1e6])
def test_infeasible_nu_names_its_limit(moons, nu) -> None:
    X, y = moons
    model = SKLR(C=20.0, nu=nu)
    with pytest.raises(ValueError, match=r"nu=.* is infeasible: the dual variables sum to less than 2400"):
        model.fit(X, y)
    assert not hasattr(model, "classes_")
    with pytest.raises(ValueError, match="is infeasible"):
        lam_for_nu(rbf_kernel(X), np.where(y == 1, 1, -1), C=20.0, nu=nu)


def test_nu_too_close_to_its_limit_raises(moons) -> None:
    X, y = moons
    K, signs = rbf_kernel(X), np.where(y == 1, 1, -1)
    with pytest.raises(ValueError, match="too close to its limit 2400 for tol=1e-12"):
        lam_for_nu(K, signs, C=20.0, nu=2400 * (1 - 1e-11), tol=1e-12)


def test_every_margin_is_solved_once() -> None:
    """The sum of an inexact solution depends on its start, so solving twice might lose the change of sign."""
    solved = {}

    def solve(lam, start):
        assert lam not in solved
        solved[lam] = SimpleNamespace(alpha=np.array([lam + (0.9 if len(solved) % 2 else -0.9)]))
        return solved[lam]

    lam, solution = search_margin(solve, 1.5, 10.0, 1e-6)
    assert solution is solved[lam]


def test_invalid_input_raises(moons) -> None:
    X, y = moons
    with pytest.raises(ValueError, match="lam and nu cannot both be given; got lam=1 and nu=5"):
        SKLR(lam=1, nu=5).fit(X, y)
    with pytest.raises(ValueError, match="'nu' parameter"):
        SKLR(nu=-1).fit(X, y)
    with pytest.raises(ValueError, match="nu must be a number >= 0; got nan"):
        lam_for_nu(rbf_kernel(X), np.where(y == 1, 1, -1), C=1.0, nu=np.nan)
