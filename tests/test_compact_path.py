"""How many points a compact model gets."""

from __future__ import annotations

import numpy as np
import pytest

from sparseklr.compact.path import LARGE, Stage, choose


def stages(*sizes_and_losses: tuple[int, float], spread: float = 1e-6) -> tuple[list[Stage], np.ndarray]:
    """Stages of given mean loss on 1000 rows; ``spread`` is that of the differences between two of them."""
    found = []
    for n_points, loss in sizes_and_losses:
        noise = np.random.default_rng(n_points).normal(size=1000)
        losses = loss + spread * (noise - noise.mean())
        found.append(Stage(n_points, 10.0, (), (), (), np.empty(0), losses, loss, 0.0, 0.0))
    return found, np.ones(1000)


@pytest.mark.parametrize(
    ("losses", "spread", "chosen"),
    [
        ([(0, 0.6), (2, 0.3), (4, 0.299), (8, 0.31)], 1e-6, 4),  # better beyond doubt
        ([(0, 0.6), (2, 0.3), (4, 0.299), (8, 0.31)], 1.0, 2),  # within the error
        ([(0, 0.6), (2, 0.306), (4, 0.299), (8, 0.31)], 1.0, 4),  # within the error, but more than 2%
        ([(0, 0.6), (2, 0.6), (4, 0.6)], 1.0, 0),  # noise
        ([(0, 0.6), (LARGE, 0.3), (2 * LARGE, 0.298)], 1e-6, LARGE),  # a large model that hardly pays
        ([(0, 0.6), (LARGE, 0.3), (2 * LARGE, 0.29)], 1e-6, 2 * LARGE),
    ],
)
def test_the_smallest_that_is_nearly_as_good(losses, spread, chosen) -> None:
    assert choose(*stages(*losses, spread=spread)).n_points == chosen
