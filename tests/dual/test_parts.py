"""Selection on parts of the rows: chunking converges to the solution for all rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_moons

from sparseklr.dual import parts
from sparseklr.dual.one_vs_rest import BinarySolutions, BinarySolver
from sparseklr.dual.smo import Settings
from sparseklr.kernels import Kernel
from sparseklr.samples import Samples


def moons(noise: float, n: int = 1500) -> Samples:
    X, y = make_moons(n, noise=noise, random_state=0)
    kernel = Kernel("rbf", gamma=1.0)
    return Samples(X, y, np.array([0, 1]), np.ones(n), np.arange(n), n, kernel)


def solve(rows: Samples) -> BinarySolutions:
    solver = BinarySolver(rows, Settings(tol=1e-4))
    problems = solver.problems(1e4, 1e3)
    return BinarySolutions(problems, [solver.solve(problem) for problem in problems])


def outputs(rows: Samples, selected: np.ndarray, found: BinarySolutions) -> np.ndarray:
    coef = found.coef[:, found.coef.any(axis=0)]
    return (rows.kernel.sum(rows.X, rows.X[selected], coef) + found.intercept)[:, 0]


@pytest.mark.parametrize("noise", [0.1, 0.2])
def test_parts_converge_to_the_solution_for_all_rows(noise: float, monkeypatch) -> None:
    """When no other row has a margin below lam, the solution of the part solves the problem of all rows up
    to the tolerance: the objectives are strictly convex in f, and rows beyond the margin hardly count."""
    rows = moons(noise)
    monkeypatch.setattr(parts, "SETTINGS", replace(parts.SETTINGS, rows=200, least_of_class=10, rounds=30))
    selected, found = parts.select_on_parts(rows, solve, enough=10**9)
    whole = solve(rows)
    everything = np.flatnonzero(whole.coef.any(axis=0))
    assert len(found.problems[0].y) < 0.7 * len(rows.codes)
    f, g = outputs(rows, selected, found), outputs(rows, everything, whole)
    np.testing.assert_allclose(f, g, atol=0.02 * np.abs(g).max())


def test_few_rows_are_one_part_and_enough_points_end_the_search(monkeypatch) -> None:
    rows, sizes = moons(0.3, 600), []

    def counted(some: Samples) -> BinarySolutions:
        sizes.append(len(some.codes))
        return solve(some)

    selected, found = parts.select_on_parts(rows, counted, enough=1)
    assert sizes == [600]
    assert len(selected) == np.count_nonzero(found.coef.any(axis=0))
    monkeypatch.setattr(parts, "SETTINGS", replace(parts.SETTINGS, rows=100, least_of_class=5))
    parts.select_on_parts(rows, counted, enough=1)
    assert sizes[1:] == [100]
    parts.select_on_parts(rows, counted, enough=10**9)
    assert len(sizes) == 2 + parts.SETTINGS.rounds


def test_a_rare_class_is_in_the_first_part(monkeypatch) -> None:
    rows = moons(0.3, 600)
    codes = np.zeros(600, dtype=int)
    codes[-3:] = 1
    monkeypatch.setattr(parts, "SETTINGS", replace(parts.SETTINGS, rows=100, least_of_class=5))
    selected, _ = parts.select_on_parts(replace(rows, codes=codes), solve, enough=1)
    assert set(selected) >= {597, 598, 599}
