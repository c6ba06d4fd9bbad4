r"""Labels and weights of the training points, and the log-loss of decision values.

With two classes, a row has one output f, the logit of the second class. With more classes, it has one output
for each class, and the softmax of the outputs gives the class probabilities p.

The second derivative of the softmax loss of a row with weight w is :math:`w(\mathrm{diag}(p) - pp^\top)`. It
couples the classes, so a Newton matrix of all classes together would have millions of entries. Posterior
variances and preconditioners therefore use a separate Newton matrix for each class k, in which the second
derivative of the loss of a row is replaced by the number

.. math:: h_k = w\, p_k (1 - p_k) (1 + q_k), \qquad q_k = \sum_{l \ne k} p_l^2 / (1 - p_k)^2 .

For vectors that sum to zero, :math:`\mathrm{diag}(h)` equals the second derivative in two cases: if only two
probabilities are positive (then :math:`q = 1`), and if all K probabilities are equal (then
:math:`q = 1/(K-1)`). The code calls :math:`h_k` the information of class k.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit, softmax

from .. import _core
from ..samples import DistinctPoints, Observations, weighted_mean


@dataclass(frozen=True)
class FoldSettings:
    """Settings of the number of folds for cross-fitted decision values of more than two classes."""

    few: int = 500  # up to this number of observations, ``folds_of_few`` folds are used
    folds_of_few: int = 10
    folds: int = 5  # number of folds with more observations


SETTINGS = FoldSettings()


class LossAt(NamedTuple):
    """Log-loss at given outputs, with derivatives, for two classes."""

    value: float  # weighted sum of the losses of all points
    losses: np.ndarray  # loss of each point, without its weight
    slope: np.ndarray  # first derivative of the weighted loss of each point
    information: np.ndarray  # second derivative of the weighted loss of each point

    def times(self, change: np.ndarray) -> np.ndarray:
        """Return the product of the second derivatives and a change in the outputs."""
        return self.information * change

    @property
    def by_output(self) -> np.ndarray:
        """Information of every output, as an array of shape (n, n_outputs)."""
        return self.information[:, None]


@dataclass(frozen=True, eq=False)
class SoftmaxLossAt:
    """Log-loss at given outputs, with derivatives, for more than two classes.

    The last axis of the arrays runs over the classes. The fields have the same meaning as in :class:`LossAt`,
    but ``information`` approximates the matrix of second derivatives of a point by one number for each class.
    """

    value: float
    losses: np.ndarray
    slope: np.ndarray
    weight: np.ndarray  # weight of each point
    probabilities: np.ndarray
    weighted: np.ndarray  # probabilities multiplied by the weight of the point

    def times(self, change: np.ndarray) -> np.ndarray:
        """Return the product of the second derivatives and a change in the outputs."""
        product = self.weighted * change
        product -= self.probabilities * np.einsum("...k->...", product)[..., None]
        return product

    @property
    def by_output(self) -> np.ndarray:
        """Information :math:`h_k` of every class (see the module docstring), in the shape of the outputs."""
        P = self.probabilities
        others = np.einsum("...k,...k->...", P, P)[..., None] - P**2
        with np.errstate(divide="ignore", invalid="ignore"):
            coupling = np.clip(np.nan_to_num(P * others / (1 - P)), 0.0, P * (1 - P))
        return self.weight[..., None] * (P * (1 - P) + coupling)

    @cached_property
    def information(self) -> np.ndarray:
        """Information (n, n_classes) of each class, averaged over simultaneous problems."""
        n, *_, n_classes = self.slope.shape
        mean: np.ndarray = self.by_output.reshape(n, -1, n_classes).mean(axis=1)
        return mean

    def rounded_to(self, precision: type) -> SoftmaxLossAt:
        """Return the loss with second derivatives of the given data type, float32 or float64."""
        return replace(
            self,
            probabilities=self.probabilities.astype(precision, copy=False),
            weighted=self.weighted.astype(precision, copy=False),
        )


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels and weights of the training points.

    Parameters
    ----------
    target : array (n,) or (n, n_classes)
        With two classes, the fraction of the weight of each point that belongs to the second class. With more
        classes, the fraction of each class. Outputs have the same shape.
    weight : array (n,)
        Total weight of each point.
    left_out : LeftOut, optional
        Labels of groups of observations. Leave-one-out removes a single observation of a group, not a whole
        point. By default every point is one observation.
    """

    target: np.ndarray
    weight: np.ndarray
    left_out: LeftOut | None = None

    @classmethod
    def of(cls, weight: np.ndarray) -> Labels:
        """Return the labels of points, given the weights (n, n_classes) of the classes on the points."""
        total = weight.sum(axis=1)
        return cls(weight[:, 1] / total if weight.shape[1] == 2 else weight / total[:, None], total)

    @classmethod
    def of_points(cls, points: DistinctPoints) -> Labels:
        """Return the labels of points, with ``left_out`` set to the labels of their observations."""
        groups = points.observations
        if points.weight.shape[1] > 2:
            return replace(cls.of(points.weight), left_out=in_folds(groups))
        labels = cls.of(groups.weight)
        left_out = LeftOut(labels.target, labels.weight, point=groups.point, count=groups.count)
        return replace(cls.of(points.weight), left_out=left_out)

    @property
    def several(self) -> bool:
        """Whether there are more than two classes."""
        return self.target.ndim > 1

    def guess(self) -> np.ndarray:
        """Return initial outputs: the log-odds of the class fractions, shifted by 2 towards the label."""
        target, weight = self.target, self.weight[..., None] if self.several else self.weight
        fraction = (weight * target).sum(axis=0) / weight.sum(axis=0)
        odds = np.log(np.maximum(fraction, 1e-9))
        if not self.several:
            odds -= np.log(np.maximum(1 - fraction, 1e-9))
        return 4 * target - 2 + odds

    def by_class(self) -> np.ndarray:
        """Return the weights (n_classes, n) of the classes on the points."""
        if self.several:
            return (self.weight[:, None] * self.target).T
        return np.array([self.weight * (1 - self.target), self.weight * self.target])

    @cached_property
    def observations(self) -> LeftOut:
        """Labels of the groups of observations; leave-one-out removes one observation of a group."""
        if self.left_out is not None:
            return self.left_out
        n = len(self.weight)
        return LeftOut(self.target, self.weight, point=np.arange(n), count=np.ones(n))

    def without(self, held_out: np.ndarray) -> Labels:
        """Return the labels without the groups of observations in the boolean mask ``held_out``."""
        groups, by_class = self.observations, self.by_class().T
        weight = by_class.copy()
        np.subtract.at(weight, groups.point[held_out], groups.by_class().T[held_out])
        weight[weight < 1e-9 * by_class] = 0.0  # rounding errors
        total = weight.sum(axis=1)
        target = weight / np.where(total > 0, total, 1.0)[:, None]
        return Labels(target if self.several else target[:, 1], total)

    def losses(self, f: np.ndarray) -> np.ndarray:
        """Return the log-loss of each point: the mean of -log p over its labels.

        The weight of the point is not included.
        """
        return self.at(f).losses

    def probabilities(self, f: np.ndarray) -> np.ndarray:
        """Return probabilities at the outputs f, in the shape of the target."""
        return np.asarray(softmax(f, axis=1) if self.several else expit(f))

    def at(self, f: np.ndarray) -> LossAt | SoftmaxLossAt:
        """Return the weighted log-loss at the outputs f, with its derivatives."""
        if self.several:
            return _softmax_loss(self, f)
        out = np.empty((3, len(f)))
        return LossAt(_core.cross_entropy(f, self.target, self.weight, out), *out)

    @cached_property
    def cross_fits(self) -> Labels:
        """Labels of the F + 1 simultaneous problems of a cross-fit with F folds and more than two classes.

        Each of the first F problems lacks the observations of one fold; the last problem has all
        observations. Weights have the shape (n, F + 1), targets (n, F + 1, n_classes).
        """
        fold = self.observations.fold
        assert fold is not None
        parts = [*(self.without(np.asarray(fold == k)) for k in range(int(fold.max()) + 1)), self]
        return Labels(
            np.stack([p.target for p in parts], axis=1), np.stack([p.weight for p in parts], axis=1)
        )

    def problems(self, chosen: slice) -> Labels:
        """Return the labels of some of the problems in ``cross_fits``, given by a slice."""
        return Labels(self.target[:, chosen], self.weight[:, chosen])


def _softmax_loss(labels: Labels, f: np.ndarray) -> SoftmaxLossAt:
    """Return the log-loss of more than two classes at the outputs f, with its derivatives."""
    f = f - f.max(axis=-1, keepdims=True)
    P = np.exp(f)
    total = np.einsum("...k->...", P)
    P /= total[..., None]
    losses = np.log(total) - np.einsum("...k,...k->...", labels.target, f)
    value, weight = float(np.vdot(labels.weight, losses)), labels.weight[..., None]
    return SoftmaxLossAt(value, losses, weight * (P - labels.target), labels.weight, P, weight * P)


@dataclass(frozen=True, eq=False)
class LeftOut(Labels):
    """Labels of groups of observations; leave-one-out removes one observation of a group at a time.

    Observations with equal features and equal labels form a group. :func:`in_folds` divides each group
    further into the observations of each fold.
    """

    point: np.ndarray = field(kw_only=True)  # index of the point to which the group belongs
    count: np.ndarray = field(kw_only=True)  # number of observations in the group
    # After a division into folds: the index of the original group, and the fold.
    group: np.ndarray | None = None
    fold: np.ndarray | None = None

    @property
    def removed(self) -> np.ndarray:
        """Weight that each group loses if one of its observations is left out."""
        return self.weight / self.count

    def mean(self, values: np.ndarray) -> tuple[float, float]:
        """Return the weighted mean of one value per group, and its standard error."""
        return weighted_mean(values, self.weight, self.count)

    def class_sizes(self) -> list[float]:
        """Return Kish's effective number of observations of each class, (sum w)^2 / sum w^2."""
        sizes = []
        for weight in self.by_class():
            squares = float(weight @ (weight / self.count))
            sizes.append(float(weight.sum()) ** 2 / squares if squares > 0 else 0.0)
        return sizes


def in_folds(groups: Observations, n_folds: int | None = None) -> LeftOut:
    """Return the labels of the observations, divided into folds.

    By default there are ten folds with up to 500 observations, and otherwise five. The observations of a
    group may be in different folds. The observations of each class are assigned to the folds in turn, and the
    next class starts with the fold after the last one used. Classes are ordered by their first observations,
    so their names have no influence.
    """
    count = groups.count.astype(np.int64)
    total = int(count.sum())
    usual = SETTINGS.folds_of_few if total <= SETTINGS.few else SETTINGS.folds
    n_folds = min(n_folds or usual, total)
    _, appearance, code = np.unique(groups.weight.argmax(axis=1), return_index=True, return_inverse=True)
    order = np.argsort(appearance[code], kind="stable")
    first = np.empty_like(count)
    first[order] = np.cumsum(count[order]) - count[order]
    # Among first, ..., first + count - 1, count the numbers that are congruent to the fold modulo n_folds.
    fold = np.arange(n_folds)
    last = first + count - 1
    held_out = (last[:, None] - fold) // n_folds - (first[:, None] - 1 - fold) // n_folds
    group, fold = np.nonzero(held_out)
    some = held_out[group, fold].astype(np.float64)
    labels = Labels.of(groups.weight[group] * (some / groups.count[group])[:, None])
    return LeftOut(
        labels.target, labels.weight, point=groups.point[group], count=some, group=group, fold=fold
    )
