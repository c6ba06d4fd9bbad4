"""The search for the number of points: which sizes are tried, and which one is chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sparseklr.compact.rows import LabelledRows
from sparseklr.compact.size_search import (
    SEARCH,
    CompactSettings,
    Stage,
    Validation,
    choose,
    search_sizes,
    sizes,
)

pytestmark = pytest.mark.numerical

MANY = SEARCH.many_points


def stages(*sizes_and_losses: tuple[int, float], spread: float = 1e-6) -> tuple[list[Stage], Validation]:
    """Return stages with given mean losses on 1000 rows; their differences have the given spread."""
    found = []
    for n_points, loss in sizes_and_losses:
        noise = np.random.default_rng(n_points).normal(size=1000)
        losses = loss + spread * (noise - noise.mean())
        found.append(Stage(n_points, 10.0, (), (), np.empty(0), losses, loss, 0.0, np.nan, 0.0))
    return found, Validation.of(LabelledRows(np.empty((1000, 0)), np.zeros(1000), np.ones(1000), 2))


@pytest.mark.parametrize(
    ("losses", "spread", "chosen"),
    [
        ([(0, 0.6), (2, 0.3), (4, 0.299), (8, 0.31)], 1e-6, 4),  # better beyond doubt
        ([(0, 0.6), (2, 0.3), (4, 0.299), (8, 0.31)], 1.0, 2),  # within the error
        ([(0, 0.6), (2, 0.306), (4, 0.299), (8, 0.31)], 0.1, 4),  # beyond it
        ([(0, 0.6), (2, 0.6), (4, 0.6)], 1.0, 0),  # noise
        ([(0, 0.6), (MANY, 0.3), (2 * MANY, 0.298)], 1e-6, MANY),  # a large model that hardly pays
        ([(0, 0.6), (MANY, 0.3), (2 * MANY, 0.29)], 1e-6, 2 * MANY),
        ([(0, 0.6), (2, 0.3), (4, 0.2998)], 1e-6, 2),  # less than 0.2% for twice the points
        ([(0, 0.6), (2, 0.3), (4, 0.301), (8, 0.299)], 1e-6, 2),  # 0.33% for two doublings
        ([(0, 0.6), (2, 0.3), (32, 0.2978)], 1e-6, 2),  # 0.74% for four
        ([(0, 0.3), (2, 0.2998)], 1e-6, 2),  # the doubling rule does not apply to no points at all
    ],
)
def test_choose_takes_the_smallest_nearly_best_size(losses, spread, chosen) -> None:
    assert choose(*stages(*losses, spread=spread)).n_points == chosen


def test_a_smaller_and_better_model_is_never_passed_over() -> None:
    """It is chosen even if the larger, worse model is within a standard error of the best and it is not."""
    found, validation = stages((0, 0.6), (2, 0.3), (4, 0.31), (8, 0.29))
    noise = np.random.default_rng(0).normal(size=1000)
    found[2] = replace(found[2], losses=found[2].losses + noise - noise.mean())
    assert choose(found, validation).n_points == 8


@pytest.mark.parametrize(
    ("losses", "last"),
    [
        ([(0, 0.6), (2, 0.3), (4, 0.3), (8, 0.3), (16, 0.3), (32, 0.3)], 16),  # small sizes are always tried
        ([(0, 0.6), (16, 0.3), (32, 0.3), (64, 0.29), (MANY, 0.29), (2 * MANY, 0.2)], 2 * MANY),
        ([(0, 0.6), (16, 0.3), (32, 0.2998), (64, 0.2996), (MANY, 0.2)], 64),  # two gains of 0.07%
        ([(0, 0.6), (64, 0.3), (MANY, 0.28), (2 * MANY, 0.279), (4 * MANY, 0.2)], 2 * MANY),  # too little
        ([(0, 0.6), (64, 0.3), (MANY, 0.28), (2 * MANY, 0.27), (4 * MANY, 0.2)], 4 * MANY),
        ([(0, 0.6), (16, 3e-4), (32, 2e-4), (64, 1e-4), (MANY, 1e-5)], 64),  # nothing left to gain
    ],
)
def test_search_ends_when_gains_are_too_small(losses, last) -> None:
    without, *others = stages(*losses)[0]
    by_size = {stage.n_points: stage for stage in others}
    tried = search_sizes(without, list(by_size), lambda size, before: by_size[size])
    assert tried[-1].n_points == last


def test_sizes_double_from_the_number_of_classes() -> None:
    assert sizes(CompactSettings(max_points=30), 3, 1000) == [3, 6, 12, 24]
    assert sizes(CompactSettings(max_points=30), 3, 7) == [3, 6]
    assert sizes(CompactSettings(max_points=2), 3, 7) == [2]
    assert sizes(CompactSettings(n_points=5), 3, 0) == [5]


def test_search_ends_at_a_size_that_is_not_fitted() -> None:
    without, small, large = stages((0, 0.6), (16, 0.3), (32, 0.2))[0]
    tried = search_sizes(without, [16, 32], lambda size, before: small if size == 16 else None)
    assert tried == [without, small]
    assert large not in tried
