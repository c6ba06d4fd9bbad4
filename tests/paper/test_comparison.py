"""Comparison of methods over data sets: against numbers worked out by hand, by Demsar and by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from paper.report.comparison import (
    compare,
    critical_difference,
    friedman,
    groups,
    holm,
    mean_ranks,
    signed_rank_pairs,
)

# Demsar (2006), Table 6: AUC of C4.5, C4.5+m, C4.5+cf, C4.5+m+cf on 14 sets.
DEMSAR = np.loadtxt(
    """
    .763 .768 .771 .798
    .599 .591 .590 .569
    .954 .971 .968 .967
    .628 .661 .654 .657
    .882 .888 .886 .898
    .936 .931 .916 .931
    .661 .668 .609 .685
    .583 .583 .563 .625
    .775 .838 .866 .875
    1.00 1.00 1.00 1.00
    .940 .962 .965 .962
    .619 .666 .614 .669
    .972 .981 .975 .975
    .957 .978 .946 .970
    """.splitlines()
)
DEMSAR[12, 2] += 1e-5  # his ranks distinguish the two values 0.975, his digits do not


def test_demsars_own_example() -> None:
    np.testing.assert_allclose(mean_ranks(DEMSAR), [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=5e-3)
    assert critical_difference(4, 14, alpha=0.10) == pytest.approx(1.12, abs=5e-3)
    statistic, p = friedman(DEMSAR)
    assert statistic == pytest.approx(stats.friedmanchisquare(*DEMSAR.T).statistic)
    without_ties = 12 * 14 / 20 * (np.sum(mean_ranks(DEMSAR) ** 2) - 25)
    assert without_ties == pytest.approx(9.28, abs=5e-3)  # Demsar's; SciPy corrects for ties
    assert statistic > without_ties
    assert p < 0.05


def test_groups_are_the_longest_runs() -> None:
    assert groups(np.array([3.0, 1.0, 1.8, 4.5]), 1.3) == [[1, 2], [2, 0]]
    assert groups(np.array([1.0, 2.0, 3.0]), 5.0) == [[0, 1, 2]]
    assert groups(np.array([1.0, 2.0, 3.0]), 1.0) == []


def test_holm_by_hand() -> None:
    np.testing.assert_allclose(holm(np.array([0.01, 0.02, 0.03, 0.5])), [0.04, 0.06, 0.06, 0.5])
    np.testing.assert_allclose(holm(np.array([0.6, 0.7])), [1, 1])


def test_pairs_are_those_of_scipy() -> None:
    scores = np.random.default_rng(0).normal([0.0, 0.5, 2.0], size=(9, 3))
    pairs = signed_rank_pairs(scores)
    assert [(i, j) for i, j, *_ in pairs] == [(0, 1), (0, 2), (1, 2)]
    for i, j, p, _ in pairs:
        assert p == stats.wilcoxon(scores[:, i], scores[:, j]).pvalue
    np.testing.assert_allclose([q for *_, q in pairs], holm(np.array([p for *_, p, _ in pairs])))


def test_equal_methods_and_too_few_sets() -> None:
    result = compare(("a", "b", "c"), np.full((6, 3), 0.9))
    assert (result.p_value, result.ranks.tolist(), result.groups) == (1, [2, 2, 2], [[0, 1, 2]])
    assert all(p == 1 for *_, p, _ in result.pairs)
    with pytest.raises(ValueError, match="4 sets and 3 methods are too few"):
        compare(("a", "b", "c"), np.zeros((4, 3)))
