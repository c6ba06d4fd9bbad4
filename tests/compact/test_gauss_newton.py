"""Levenberg-Marquardt steps: derivatives against finite differences, optima against other solvers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from sparseklr.compact.model import RHO, TAU, CompactModel, Objective
from sparseklr.compact.rows import LabelledRows
from sparseklr.datasets import make_ringnorm, make_waveform
from sparseklr.streaming import ArraySource, gauss_newton
from sparseklr.streaming.gauss_newton import (
    Descent,
    Parameters,
    RowsObjective,
    descend,
    fisher_information,
    kernel_matrix,
)
from sparseklr.streaming.passes import LocalBlocks


def problem(n_classes, n=3000, k=3, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).astype(np.float32)
    label = rng.integers(n_classes, size=n).astype(np.int32)
    rows = LabelledRows(X, label, rng.uniform(0.5, 2, size=n), n_classes)
    m = rows.n_outputs
    model = CompactModel(rng.normal(size=(k, p)), rng.normal(-1.0, 0.3, size=p), rng.normal(size=(m, k + 1)))
    return rows, model


def blocks_of(rows, n_jobs=1):
    return LocalBlocks(ArraySource(rows.X, rows.label, rows.weight), n_jobs)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_gradient_against_finite_differences(n_classes, shared):
    """Slopes along random directions agree; float32 kernel values give differences an error of 1e-4."""
    rows, model = problem(n_classes)
    objective, parameters = (
        RowsObjective(blocks_of(rows), n_classes, 2.0, shared),
        Parameters.of(model, shared),
    )
    _, gradient = objective(model)
    assert gradient.shape == (parameters.size,)
    for seed in range(5):
        direction = np.random.default_rng(seed).normal(size=parameters.size)
        step = 1e-2 * direction
        ahead, behind = (objective(parameters.moved(model, sign * step))[0] for sign in (1, -1))
        np.testing.assert_allclose((ahead - behind) / 2e-2, gradient @ direction, rtol=2e-3, atol=0.5)


def outputs_of(model, X):
    distance = ((X[:, None, :] - model.points) ** 2 * np.exp(model.log_gamma)).sum(axis=2)
    return np.exp(-distance) @ model.coef[:, :-1].T + model.coef[:, -1]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_information_agrees_with_its_definition(n_classes, shared):
    """The derivatives of the outputs are computed by differences, for each column of the root."""
    rows, model = problem(n_classes, n=40)
    m, C = rows.n_outputs, 3.0
    again = rows.take(np.repeat(np.arange(40), m))  # row i gives column i modulo m
    parameters = Parameters.of(model, shared)
    found = fisher_information(
        again, model, C, np.arange(3), np.arange(rows.X.shape[1]), shared=shared, n_jobs=1
    )
    X, step = rows.X.astype(np.float64), 1e-5
    slopes = np.stack(
        [
            (outputs_of(parameters.moved(model, e), X) - outputs_of(parameters.moved(model, -e), X))
            / (2 * step)
            for e in step * np.eye(parameters.size)
        ],
        axis=2,
    )  # rows, outputs, parameters
    f = outputs_of(model, X)
    if m == 1:
        p = 1 / (1 + np.exp(-f[:, 0]))
        curvature = (p * (1 - p))[:, None, None]
    else:
        p = softmax(f, axis=1)
        curvature = p[:, :, None] * np.eye(m) - p[:, :, None] * p[:, None, :]
    expected = m * np.einsum("i,iop,ioq,iqr->pr", rows.weight, slopes, curvature, slopes)
    a = model.points.size
    b = a + parameters.n_widths
    expected[a:b, a:b] += RHO if shared else TAU * (np.eye(4) - 0.25) + RHO / 16
    for o in range(m):
        part = slice(b + o * 4, b + o * 4 + 3)
        expected[part, part] += kernel_matrix(model.points, model.gamma) / C
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_information_of_some_points_is_a_submatrix():
    rows, model = problem(2)
    all_, some = (
        fisher_information(rows, model, 1.0, points, features, shared=False, n_jobs=1)
        for points, features in (
            (np.arange(3), np.arange(rows.X.shape[1])),
            (np.array([0, 2]), np.array([1])),
        )
    )
    where = Parameters.of(model, False).together(np.array([0, 2]), np.array([1]))
    np.testing.assert_allclose(some, all_[np.ix_(where, where)], rtol=1e-5, atol=1e-3)


def start_and_rows(n=4000):
    X, y = make_ringnorm(n, 5, random_state=0)
    rows = LabelledRows((X / X.std()).astype(np.float32), y.astype(np.int32), np.ones(n), 2)
    model = CompactModel(np.array([[0.5] * 5, [-1.0] * 5]), np.full(5, -1.5), np.zeros((1, 3)))
    return rows, Objective(rows.compiled()).solve(model, 10.0)[0]


@pytest.mark.numerical
def test_optimum_agrees_with_lbfgs():
    """With curvature from a quarter of the rows, both end at the same J, and the gradient vanishes."""
    rows, start = start_and_rows()
    sample = rows.take(np.arange(1000))
    sample = replace(sample, weight=4 * sample.weight)
    objective = RowsObjective(blocks_of(rows), 2, 10.0)
    found = descend(objective, sample, Descent(start), max_steps=60, tol=1e-8)
    other = Objective(rows.compiled()).move(start, 10.0, max_iter=400, tol=1e-12)
    assert found.value == pytest.approx(other.value, rel=1e-4)
    first = np.abs(objective(start)[1]).max()
    assert found.gradient_norm < 1e-3 * first
    assert found.n_steps < 60


@pytest.mark.numerical
def test_moving_points_in_groups_reaches_nearly_the_same_value(monkeypatch):
    """Steps in groups converge linearly; no point is lost although one coefficient vanishes."""
    rows, start = start_and_rows()
    objective = RowsObjective(blocks_of(rows), 2, 10.0)
    value, gradient = objective(start)
    together = descend(objective, rows, Descent(start), max_steps=60, tol=1e-8)
    one_point = replace(gauss_newton.STEPS, most_together=14)
    monkeypatch.setattr(gauss_newton, "STEPS", one_point)
    apart = descend(objective, rows, Descent(start), max_steps=60, tol=1e-8)
    assert apart.value - together.value < 0.02 * (value - together.value)
    assert apart.gradient_norm < 0.05 * np.abs(gradient).max()
    assert np.abs(apart.model.points).max() < 10


def test_steps_do_not_depend_on_threads_and_resume():
    X, y = make_waveform(40_000, random_state=0)
    rows = LabelledRows((X / 3).astype(np.float32), y.astype(np.int32), np.ones(len(y)), 3)
    model = CompactModel(X[:4] / 3, np.full(21, -3.0), np.zeros((3, 5)))
    sample = rows.take(np.arange(3000))
    runs = [
        descend(
            RowsObjective(blocks_of(rows, n), 3, 10.0), sample, Descent(model), max_steps=4, tol=0.0, n_jobs=n
        )
        for n in (1, 2)
    ]
    objective = RowsObjective(blocks_of(rows, 2), 3, 10.0)
    half = descend(objective, sample, Descent(model), max_steps=2, tol=0.0)
    runs.append(descend(objective, sample, half, max_steps=4, tol=0.0))
    for other in runs[1:]:
        for part in ("points", "log_gamma", "coef"):
            np.testing.assert_array_equal(getattr(runs[0].model, part), getattr(other.model, part))
    assert runs[0].value < RowsObjective(blocks_of(rows), 3, 10.0)(model)[0]
