"""Independent observations: what a weight counts, which rows are held out together, discrete data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseklr.data import MOST_COPIES, observation_counts

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize(
    ("weight", "counts"),
    [
        ([1.0, 1.0, 1.0], [1, 1, 1]),
        ([10.0, 10.0], [1, 1]),
        ([1.0, 2.0, 3.0], [1, 2, 3]),
        ([0.0, 2.0, 4.0], [0, 1, 2]),
        ([2.0, 3.0], [2, 3]),
        ([0.1, 0.2, 0.1 + 0.2], [1, 2, 3]),
        ([1 / 3, 2 / 3, 1.0], [1, 2, 3]),
        ([16.0, 17.0], [16, 17]),
        ([17.0, 18.0], [1, 1]),  # a common unit, but too small a part of the weights
        ([1.0, np.pi], [1, 1]),
        ([1.0, 2.0, 2.000001], [1, 1, 1]),
        ([1.0, 1e6], [1, MOST_COPIES]),
        ([1.0, 1e18], [1, 1]),
        ([1e-300, 1e150], [1, 1]),
        ([5e-324, 1e150, 0.0], [1, 1, 0]),
        ([0.0, 7.0], [0, 1]),
        ([], []),
    ],
)
def test_weights_that_are_whole_multiples_of_a_unit_are_counts(weight, counts) -> None:
    found = observation_counts(np.array(weight))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, counts)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.floats(1e-100, 1e100))
def test_a_factor_on_all_weights_does_not_change_the_counts(weight: list[int], factor: float) -> None:
    once = observation_counts(np.array(weight, dtype=float))
    np.testing.assert_array_equal(observation_counts(factor * np.array(weight, dtype=float)), once)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30))
def test_with_a_weight_of_one_counts_are_the_weights(weight: list[int]) -> None:
    np.testing.assert_array_equal(observation_counts(np.array([1.0, *weight])), [1, *weight])
