r"""A test of whether equal rows are copies of one observation or independent observations.

In tables with few categories, equal rows are independent draws: when leave-one-out removes one of them, the
others may stay. Rows that were duplicated or oversampled repeat their label as well: a copy that stays in the
training set reveals the label of the one left out.

The test compares the labels of equal rows. Let :math:`n_{ik}` of the :math:`n_i` observations on point i
belong to class k. If they are independent with class probabilities :math:`p_{ik}`, the expected number of
pairs with different labels is :math:`\sum_i n_i (n_i - 1) (1 - \sum_k p_{ik}^2) / 2`; copies never differ.
Equal rows are treated as copies if the number of differing pairs is less than half of the expected number,
and more than three standard deviations below it. If labels are almost certain, the test cannot decide and
independence is assumed, which then makes little difference.

The probabilities come from a penalised likelihood with a moderate C. With
:math:`(n)_m = n (n-1) \cdots (n-m+1)`, the number of pairs between class k and the others has the variance

.. math:: (n)_4 p^2 q^2 + (n)_3 p q + (n)_2 p q - ((n)_2 p q)^2, \qquad q = 1 - p,

by the factorial moments of the binomial distribution. The number of differing pairs is half of the sum over
the classes, so its standard deviation is at most half of the sum of theirs (with equality for two classes).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..samples import DistinctPoints
from .basis import LabelFreeBases
from .calibration import SOFTMAX, log_probabilities
from .labels import Labels
from .newton import fit_likelihood
from .regularisation import SETTINGS


def with_copies_marked(points: DistinctPoints, seed: int) -> DistinctPoints:
    """The points with relative weights, and with ``copies`` set by :func:`rows_are_copies`."""
    return replace(points, copies=rows_are_copies(points, seed)).relative()


def rows_are_copies(points: DistinctPoints, seed: int = 0) -> bool:
    """Whether labels of equal rows agree significantly more often than independent labels would."""
    if points.count is None or points.count.sum(axis=1).max() <= 1:
        return False
    unweighted = replace(points, weight=points.count.astype(np.float64), copies=False)
    return labels_agree(points.count, _probabilities(unweighted, seed))


def labels_agree(count: np.ndarray, P: np.ndarray) -> bool:
    """Whether labels within points differ significantly less often than the probabilities P predict.

    Both arrays have the shape (n_points, n_classes).

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
    return differ < 0.5 * expected and expected - differ > 3 * float(np.linalg.norm(deviation))


def _probabilities(points: DistinctPoints, seed: int) -> np.ndarray:
    """Class probabilities of all points from a likelihood on a label-free basis."""
    basis, labels = LabelFreeBases(points, np.random.default_rng(seed))[0], Labels.of(points.weight)
    fit = fit_likelihood(basis, labels, SETTINGS.start, near=labels.guess(), tol=1e-4, fresh=False)
    return np.exp(log_probabilities(fit.f.reshape(len(points), -1), SOFTMAX))
