r"""A test of whether equal rows are copies of one observation or independent observations.

In a table with few categories, equal rows are usually independent observations. When leave-one-out removes
one of them, the other rows may stay. If rows were duplicated or oversampled, however, each copy repeats the
label as well. A copy that stays in the training set then reveals the label of the removed row.

The test compares the labels of equal rows. Let :math:`n_i` be the number of observations with the features
:math:`x_i`. If their labels are independent with class probabilities :math:`p_{ik}`, the expected number of
pairs with equal features and different labels is :math:`\sum_i n_i (n_i - 1) (1 - \sum_k p_{ik}^2) / 2`.
Copies never have different labels. Equal rows are treated as copies if the observed number of such pairs is
less than half of the expected number and more than three standard deviations below it. If labels are almost
certain given the features, the test has no power, and the rows are treated as independent. The two
treatments then hardly differ.

The probabilities are estimated by penalised maximum likelihood with a moderate C. Consider n observations
with equal features, and let p be the probability of class k and :math:`q = 1 - p`. With :math:`(n)_m = n
(n-1) \cdots (n-m+1)`, the number of pairs with exactly one member in class k has the variance

.. math:: (n)_4 p^2 q^2 + (n)_3 p q + (n)_2 p q - ((n)_2 p q)^2,

by the factorial moments of the binomial distribution. The number of pairs with different labels is half of
the sum of these numbers over the classes. Its standard deviation is therefore at most half of the sum of
their standard deviations, with equality for two classes.
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
    """Return the points with ``copies`` set by :func:`rows_are_copies`.

    Their weights are divided by the mean weight of an observation.
    """
    return replace(points, copies=rows_are_copies(points, seed)).relative()


def rows_are_copies(points: DistinctPoints, seed: int = 0) -> bool:
    """Return whether labels of equal rows agree significantly more often than independent labels would."""
    if points.count is None or points.count.sum(axis=1).max() <= 1:
        return False
    unweighted = replace(points, weight=points.count.astype(np.float64), copies=False)
    return labels_agree(points.count, _probabilities(unweighted, seed))


def labels_agree(count: np.ndarray, P: np.ndarray) -> bool:
    """Return whether labels of equal rows differ significantly less often than the probabilities P predict.

    ``count`` contains the number of observations of each class for each distinct row, and P contains the
    class probabilities. Both arrays have the shape (n_points, n_classes).

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
    deviation = 0.5 * np.sqrt(np.maximum(variance, 0.0)).sum(axis=1)  # for each point
    return differ < 0.5 * expected and expected - differ > 3 * float(np.linalg.norm(deviation))


def _probabilities(points: DistinctPoints, seed: int) -> np.ndarray:
    """Return class probabilities of all points, estimated by penalised maximum likelihood."""
    basis, labels = LabelFreeBases(points, np.random.default_rng(seed))[0], Labels.of(points.weight)
    fit = fit_likelihood(basis, labels, SETTINGS.start, near=labels.guess(), tol=1e-4, fresh=False)
    return np.exp(log_probabilities(fit.f.reshape(len(points), -1), SOFTMAX))
