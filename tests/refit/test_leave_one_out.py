"""Leave-one-out values of the penalised likelihood, compared with refitted models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from support.problems import moons_points
from support.standins import available

from sparseklr import SparseKLR
from sparseklr._utils.threads import ordered_threads
from sparseklr.kernels import Kernel
from sparseklr.refit import leave_one_out as module
from sparseklr.refit import regularisation
from sparseklr.refit.basis import Basis, LabelFreeBases
from sparseklr.refit.labels import Labels
from sparseklr.refit.leave_one_out import leave_one_out
from sparseklr.refit.newton import fit_likelihood
from sparseklr.samples import DistinctPoints, Samples

pytestmark = pytest.mark.numerical


@pytest.mark.slow
@pytest.mark.parametrize("name", available("sonar", "ionosphere", "diabetes"))
def test_approximate_leave_one_out(name: str, benchmark) -> None:
    """The loss is within 2% of the exact one, for which the model is refitted without each row."""
    X, y = benchmark(name)
    X, y = (a[:: 1 + len(y) // 150] for a in (X, y))  # a hundred refits are enough
    n = len(y)
    data = Samples(X, (y > 0).astype(int), np.array([0, 1]), np.ones(n), np.arange(n), n, Kernel("rbf", 0.5))
    points = DistinctPoints.of(data)
    labels, basis = Labels.of(points.weight), LabelFreeBases(points, np.random.default_rng(0))[-1]
    fit = fit_likelihood(basis, labels, C=10.0)
    approximate = labels.observations.mean(labels.losses(leave_one_out(basis, labels, fit)))[0]
    exact = labels.observations.mean(labels.losses(exact_leave_one_out(basis, labels, C=10.0)))[0]
    assert abs(approximate - exact) <= 0.02 * exact


def exact_leave_one_out(basis: Basis, labels: Labels, C: float, rows: np.ndarray | None = None) -> np.ndarray:
    """Outputs of some rows (all by default) by models fitted without them; 0 for the others."""
    f = np.zeros(len(labels.target))
    with ordered_threads(1):  # as in a refit: linear algebra on one thread
        fit = fit_likelihood(basis, labels, C)
        for i in np.arange(len(f)) if rows is None else rows:
            weight = labels.weight.copy()
            weight[i] = 0
            f[i] = fit_likelihood(basis, Labels(labels.target, weight), C, fit.v, tol=1e-8).f[i]
    return f


def test_approximate_leave_one_out_of_heavy_points() -> None:
    """If ten of a hundred rows weigh twelve times as much, the loss is within 6% of the exact one."""
    X, codes = make_classification(200, n_features=5, weights=[0.9], random_state=0)
    weight = np.where(codes == 1, 12.0, 1.0)
    data = Samples(X, codes, np.array([0, 1]), weight, np.arange(200), 200, Kernel("rbf", 0.2))
    points = DistinctPoints.of(data).relative()
    labels, basis = Labels.of(points.weight), LabelFreeBases(points, np.random.default_rng(0))[-1]
    fit = fit_likelihood(basis, labels, C=10.0)
    approximate = labels.observations.mean(labels.losses(leave_one_out(basis, labels, fit)))[0]
    exact = labels.observations.mean(labels.losses(exact_leave_one_out(basis, labels, C=10.0)))[0]
    assert abs(approximate - exact) <= 0.06 * exact


@pytest.mark.parametrize("positive", [1, 0])
@pytest.mark.parametrize("C", [1.0, 10.0, 100.0])
def test_approximate_leave_one_out_of_a_rare_class(C: float, positive: int) -> None:
    """With 5 positive labels among 500 rows of noise, their loss is within 10% of the exact one."""
    n, rows = 500, np.arange(5)
    X = np.random.default_rng(0).normal(size=(n, 4))
    codes = np.where(np.arange(n) < 5, positive, 1 - positive)
    weight = np.stack([1.0 - codes, codes], axis=1)
    points = DistinctPoints(X, np.arange(n), np.arange(n), weight, Kernel("rbf", 0.25), None)
    labels, basis = Labels.of(weight), LabelFreeBases(points, np.random.default_rng(0))[-1]
    approximate = leave_one_out(basis, labels, fit_likelihood(basis, labels, C))
    exact = exact_leave_one_out(basis, labels, C, rows)
    losses = labels.losses(approximate)[rows], labels.losses(exact)[rows]
    assert losses[0].mean() == pytest.approx(losses[1].mean(), rel=0.1)


def test_rare_class_points_are_left_out_in_blocks(monkeypatch) -> None:
    points = moons_points(200)
    few = points.weight[:, 1] * (np.cumsum(points.weight[:, 1]) <= 5)
    labels, basis = Labels(few, np.ones(200)), LabelFreeBases(points, np.random.default_rng(0))[-1]
    fit = fit_likelihood(basis, labels, C=10.0)
    steps = replace(module.SETTINGS, further_tol=0.0)  # those of one part do not end with those of another
    monkeypatch.setattr(module, "SETTINGS", steps)
    together = leave_one_out(basis, labels, fit)
    monkeypatch.setattr(module, "SETTINGS", replace(steps, block_values=400))
    np.testing.assert_allclose(leave_one_out(basis, labels, fit), together, atol=1e-6)


def test_a_heavy_point_that_is_fitted_well_needs_no_second_step() -> None:
    points = moons_points(100)
    labels, basis = Labels.of(points.weight), LabelFreeBases(points, np.random.default_rng(0))[-1]
    fit = fit_likelihood(basis, labels, C=10.0)
    best = np.argmin(labels.losses(fit.f))
    weight = labels.weight.copy()
    weight[best] = 3.0
    heavy = Labels(labels.target, weight)
    loo = leave_one_out(basis, heavy, fit_likelihood(basis, heavy, C=10.0))
    assert heavy.losses(loo)[best] == pytest.approx(heavy.losses(fit.f)[best], abs=0.05)


@pytest.mark.parametrize("seed", [78, 121, 152, 172])
@pytest.mark.filterwarnings("ignore")
def test_further_steps_that_overflow_are_not_taken(seed: int, monkeypatch) -> None:
    """The kernel values are 1e200, and the weights range from 1e-40 to 1e40."""
    rng = np.random.default_rng(seed)
    X = np.zeros((13, 2))
    X[:, 0] = rng.choice([0, 0, 1], 13) * 10.0 ** rng.uniform(0, 40)
    X[:, 1] = rng.choice([0, 0, 0, 1], 13)
    y, weight = np.repeat([0, 1], [10, 3]), 10.0 ** rng.uniform(-40, 40, 13)
    taken, kept, steps = [], [], module._further_left_out
    monkeypatch.setattr(module, "_further_left_out", lambda *given: taken.append(steps(*given)) or taken[-1])
    monkeypatch.setattr(
        regularisation, "leave_one_out", lambda *given: kept.append(leave_one_out(*given)) or kept[-1]
    )
    model = SparseKLR(box=1.0, kernel="poly", degree=6, coef0=0.3, gamma=0.2, scale=None)
    model.fit(X, y, sample_weight=weight)
    assert not np.isfinite(np.concatenate(taken)).all()
    assert np.isfinite(np.concatenate(kept)).all()
    assert np.isfinite(model.loo_log_loss_)
    assert np.isfinite(model.loo_decision_function_).all()
