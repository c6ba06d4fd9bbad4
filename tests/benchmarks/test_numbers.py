"""``benchmarks/numbers.py``: one format for all numbers of a column."""

from __future__ import annotations

import pytest
from benchmarks.numbers import aligned, column


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([0.4382, 1.21, 26.4], ["0.44", "1.21", "26.40"]),
        ([0.39, 0.4441, 1.1], ["0.390", "0.444", "1.100"]),
        ([166.75, 18.2, 974.0], ["167", "18", "974"]),
        ([1000, 50_000, 7], ["1,000", "50,000", "7"]),
        ([0.133, 30.2, 125.0, None], ["0.133", "30.2", "125", ""]),
        ([0, 2e-5, 0.004], ["0.00", "2.00e-05", "0.00400"]),
        (["**0.5**", "a"], ["**0.5**", "a"]),
    ],
)
def test_numbers_of_a_column_have_one_format(cells: list, expected: list[str]) -> None:
    assert column(cells) == expected


def test_columns_are_independent() -> None:
    assert aligned([["a", 1, 0.5], ["b", 2000, 12.25]]) == [["a", "1", "0.50"], ["b", "2,000", "12.25"]]
