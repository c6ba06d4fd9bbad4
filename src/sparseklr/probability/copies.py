r"""Whether equal rows are copies of one observation, or observations that happen to be equal.

Tables of few categories repeat rows because rows are independent draws from few values: leaving out one of
them leaves the others, which is what new rows will meet. Rows that were repeated or oversampled repeat their
label as well: a copy that stays in the training set gives away the label of the one that is left out.

The labels decide. Let :math:`n_{ik}` observations of class k lie on point i, :math:`n_i` in all. If they are
independent and class k has the probability :math:`p_{ik}`, the expected number of pairs that differ is
:math:`\sum_i n_i (n_i - 1) (1 - \sum_k p_{ik}^2) / 2`; copies never differ. Equal rows are copies if fewer
than half of the expected pairs differ, and if this is more than three standard deviations below the
expectation. If labels can be predicted almost with certainty, the two cannot be told apart; independence is
then the harmless answer, since leaving out a copy or not makes little difference.

The probabilities are those of a penalised likelihood of moderate strength. The variance of the number of
pairs between class k and the others, for :math:`(n)_m = n (n-1) \cdots (n-m+1)`, follows from the factorial
moments of the binomial distribution:

.. math:: (n)_4 p^2 q^2 + (n)_3 p q + (n)_2 p q - ((n)_2 p q)^2, \qquad q = 1 - p.

The number of pairs that differ is half of the sum over the classes; its standard deviation is at most half of
the sum of theirs, and equal to that for two classes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..data import DistinctPoints
from .calibration import log_probabilities
from .likelihood import Labels, fit_likelihood
from .pivots import LabelFreeBases

# The weight of the likelihood: the first that the refit tries.
_C = 10.0
# Standard deviations that count as significant.
_SIGNIFICANT = 3.0


def with_copies_marked(points: DistinctPoints, seed: int) -> DistinctPoints:
    """The points with relative weights, and ``copies`` set if the labels of equal rows show it."""
    return replace(points, copies=rows_are_copies(points, seed)).relative()


def rows_are_copies(points: DistinctPoints, seed: int = 0) -> bool:
    """Whether labels of equal rows agree significantly more often than independent ones would."""
    if points.count is None or points.count.sum(axis=1).max() <= 1:
        return False
    unweighted = replace(points, weight=points.count.astype(np.float64), copies=False)
    return labels_agree(points.count, _probabilities(unweighted, seed))


def labels_agree(count: np.ndarray, P: np.ndarray) -> bool:
    """Whether labels differ significantly less within points than probabilities P predict.

    Both are arrays (n_points, n_classes).

    Examples
    --------
    >>> even = np.full((20, 2), 0.5)
    >>> labels_agree(np.tile([10, 0], (20, 1)), even), labels_agree(np.tile([4, 6], (20, 1)), even)
    (True, False)
    """
    n = count.sum(axis=1, keepdims=True).astype(np.float64)
    pq, pairs = P * (1 - P), n * (n - 1)
    differ, expected = 0.5 * float((count * (n - count)).sum()), 0.5 * float((pairs * pq).sum())
    variance = pairs * pq * (1 + (n - 2) * (1 + (n - 3) * pq) - pairs * pq)
    deviation = 0.5 * np.sqrt(np.maximum(variance, 0.0)).sum(axis=1)  # of each point
    return differ < 0.5 * expected and expected - differ > _SIGNIFICANT * float(np.linalg.norm(deviation))


def _probabilities(points: DistinctPoints, seed: int) -> np.ndarray:
    """Class probabilities of all points by a likelihood on a basis that does not depend on the labels."""
    basis, n_classes = LabelFreeBases(points, np.random.default_rng(seed))[0], points.weight.shape[1]
    outputs = [
        fit_likelihood(basis, Labels.of(points.weight, k), _C, tol=1e-4, fresh=False).f
        for k in (range(n_classes) if n_classes > 2 else [1])
    ]
    return np.exp(log_probabilities(np.column_stack(outputs)))
