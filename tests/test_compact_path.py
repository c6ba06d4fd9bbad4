"""How many points a compact model gets."""

from __future__ import annotations

import numpy as np
import pytest

from sparseklr.compact.large import _still_pays
from sparseklr.compact.path import MANY_POINTS, Stage, Validation, choose

pytestmark = pytest.mark.numerical


def stages(*sizes_and_losses: tuple[int, float], spread: float = 1e-6) -> tuple[list[Stage], Validation]:
    """Stages of given mean loss on 1000 rows; ``spread`` is that of the differences between two of them."""
    found = []
    for n_points, loss in sizes_and_losses:
        noise = np.random.default_rng(n_points).normal(size=1000)
        losses = loss + spread * (noise - noise.mean())
        found.append(Stage(n_points, 10.0, (), (), (), np.empty(0), losses, loss, 0.0, 0.0))
    return found, Validation(np.ones(1000))


@pytest.mark.parametrize(
    ("losses", "spread", "chosen"),
    [
        ([(0, 0.6), (2, 0.3), (4, 0.299), (8, 0.31)], 1e-6, 4),  # better beyond doubt
        ([(0, 0.6), (2, 0.3), (4, 0.299), (8, 0.31)], 1.0, 2),  # within the error
        ([(0, 0.6), (2, 0.306), (4, 0.299), (8, 0.31)], 1.0, 4),  # within the error, but more than 2%
        ([(0, 0.6), (2, 0.6), (4, 0.6)], 1.0, 0),  # noise
        (
            [(0, 0.6), (MANY_POINTS, 0.3), (2 * MANY_POINTS, 0.298)],
            1e-6,
            MANY_POINTS,
        ),  # a large model that hardly pays
        ([(0, 0.6), (MANY_POINTS, 0.3), (2 * MANY_POINTS, 0.29)], 1e-6, 2 * MANY_POINTS),
    ],
)
def test_the_smallest_that_is_nearly_as_good(losses, spread, chosen) -> None:
    assert choose(*stages(*losses, spread=spread)).n_points == chosen


@pytest.mark.parametrize(
    ("losses", "chosen"),
    [
        ([(0, 0.6), (2, 0.3), (4, 0.2998)], 2),  # less than 0.2% for twice the points
        ([(0, 0.6), (2, 0.3), (4, 0.299)], 4),  # more than that
        ([(0, 0.6), (2, 0.3), (4, 0.301), (8, 0.299)], 2),  # 0.33% for two doublings
        ([(0, 0.6), (2, 0.3), (32, 0.2978)], 2),  # 0.74% for four
        ([(0, 0.6), (2, 0.3), (4096, 0.29)], 4096),  # never more than 2%, whatever the number of points
        ([(0, 0.3), (2, 0.2998)], 2),  # no points at all is another matter: they say something
    ],
)
def test_with_many_rows_twice_the_points_must_pay(losses, chosen) -> None:
    assert choose(*stages(*losses), doubling_gain=2e-3).n_points == chosen


@pytest.mark.parametrize(
    ("losses", "another"),
    [
        ([(0, 0.6), (16, 0.300), (32, 0.298), (64, 0.297)], False),  # 1% in two doublings
        ([(0, 0.6), (16, 0.300), (32, 0.301), (64, 0.290)], True),  # 3.3%, though one gained nothing
        ([(0, 0.6), (64, 0.300), (128, 0.298), (256, 0.290)], False),  # the same is too little for so many
        ([(0, 0.6), (50, 0.3)], True),  # the first size of a problem with 50 classes
    ],
)
def test_two_doublings_must_have_paid_for_another(losses, another) -> None:
    assert _still_pays(stages(*losses)[0]) is another
