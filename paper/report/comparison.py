"""Comparison of methods over several data sets by mean ranks and the tests of Friedman, Nemenyi and Wilcoxon.

Demsar (2006), "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning
Research 7, 1-30. Scores are arrays (n_sets, n_methods); larger scores are better.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

MIN_SETS = 5  # with fewer sets the tests are meaningless


@dataclass(frozen=True, eq=False)
class Comparison:
    """Mean ranks (1 is best) and the results of the tests.

    ``groups`` are the sets of methods whose mean ranks differ by less than the critical difference. ``pairs``
    contains (i, j, p, p after Holm's correction) of the signed-rank test of methods i and j.
    """

    names: tuple[str, ...]
    n_sets: int
    ranks: np.ndarray
    statistic: float
    p_value: float
    critical_difference: float
    groups: list[list[int]]
    pairs: list[tuple[int, int, float, float]]


def compare(names: tuple[str, ...], scores: np.ndarray, alpha: float = 0.05) -> Comparison:
    """Return the results of all tests; an error is raised if there are fewer than 5 sets or 3 methods."""
    n, k = np.shape(scores)
    if n < MIN_SETS or k < 3:
        raise ValueError(
            f"{n} sets and {k} methods are too few; at least {MIN_SETS} sets and 3 methods are needed."
        )
    ranks = mean_ranks(scores)
    statistic, p_value = friedman(scores)
    width = critical_difference(k, n, alpha)
    return Comparison(
        names, n, ranks, statistic, p_value, width, groups(ranks, width), signed_rank_pairs(scores)
    )


def mean_ranks(scores: np.ndarray) -> np.ndarray:
    """Return the rank of each method, averaged over the sets; tied methods share their mean rank.

    Examples
    --------
    >>> mean_ranks(np.array([[0.9, 0.8, 0.7], [0.5, 0.6, 0.5]]))
    array([1.75, 1.5 , 2.75])
    """
    return stats.rankdata(-_rounded(scores), axis=1).mean(axis=0)


def friedman(scores: np.ndarray) -> tuple[float, float]:
    """Return the statistic and the p-value of Friedman's test that all methods are equal."""
    scores = _rounded(scores)
    if np.all(scores == scores[:, :1]):
        return 0.0, 1.0
    found = stats.friedmanchisquare(*scores.T)
    return float(found.statistic), float(found.pvalue)


def critical_difference(n_methods: int, n_sets: int, alpha: float = 0.05) -> float:
    """Return the critical difference of Nemenyi's test; mean ranks that differ by more differ significantly.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)  # Demsar gives 1.25
    1.25
    """
    q = stats.studentized_range.ppf(1 - alpha, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))


def groups(ranks: np.ndarray, width: float) -> list[list[int]]:
    """Return the largest groups of two or more methods whose mean ranks differ by at most ``width``."""
    order = np.argsort(ranks, kind="stable")
    found: list[list[int]] = []
    for start in range(len(order)):
        group = [int(k) for k in order[start:] if ranks[k] - ranks[order[start]] < width]
        if len(group) > 1 and not (found and set(group) <= set(found[-1])):
            found.append(group)
    return found


def signed_rank_pairs(scores: np.ndarray) -> list[tuple[int, int, float, float]]:
    """Return (i, j, p, p after Holm's correction) of Wilcoxon's signed-rank test for every pair of methods.

    A set on which two methods are equal counts half for each method, as Demsar recommends.
    """
    scores = _rounded(scores)
    pairs = list(combinations(range(scores.shape[1]), 2))
    p = np.array([_signed_rank(scores[:, i] - scores[:, j]) for i, j in pairs])
    return [(i, j, float(a), float(b)) for (i, j), a, b in zip(pairs, p, holm(p), strict=True)]


def _signed_rank(differences: np.ndarray) -> float:
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="zsplit").pvalue)


def holm(p: np.ndarray) -> np.ndarray:
    """Return p-values corrected for multiple testing by Holm's step-down method.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)
    steps = p[order] * (len(p) - np.arange(len(p)))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1, np.maximum.accumulate(steps))
    return corrected


def _rounded(scores: np.ndarray) -> np.ndarray:
    """Return rounded scores, so that ties are recognised."""
    return np.round(np.asarray(scores, dtype=float), 9)
