r"""The logistic loss of points with a weight for each class.

A point of total weight m, of which the weight t belongs to the positive class, has the loss

.. math:: \ell(f) = t \log(1 + e^{-f}) + (m - t) \log(1 + e^{f}), \qquad
          \ell' = (m - t) p - t q, \qquad \ell'' = m p q,

where p is the sigmoid of f, and q = 1 - p is the sigmoid of -f. This form avoids cancellation for p close
to 0 or 1, and exchanging the classes exchanges p and q exactly. More than two classes have the softmax
loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax

Array = np.ndarray


def cross_entropies(target: Any, f: Array, other: Any = None) -> Array:
    """The loss of points with weights ``target`` (positive class) and ``other`` (default: 1 - target)."""
    both = np.log1p(np.exp(-np.abs(f)))  # the term common to f and -f; about twice as fast as logaddexp
    other = 1 - target if other is None else other
    return target * (both + np.maximum(-f, 0)) + other * (both + np.maximum(f, 0))


@dataclass(frozen=True, eq=False)
class LogisticLoss:
    r"""Weighted negative log-likelihood of outputs F, an array (n_outputs, n, ...).

    .. math:: \sum_i m_i A(F_i) - \sum_i t_i^\top F_i

    with one output :math:`A(f) = \log(1+e^f)` (logistic), with several
    :math:`A(F) = \log\sum_k e^{F_k}` (softmax). All summed terms are non-negative. The weights of the
    classes are stored separately, because rounding in their sum m may lose the smaller one. Trailing axes
    are independent problems.

    Attributes
    ----------
    target : array (n_outputs, n)
        Weight of the class of each output on each point, t.
    other : array (n_outputs, n)
        Weight of all other classes.
    """

    target: Array
    other: Array

    @classmethod
    def of(cls, weight: Array) -> LogisticLoss:
        """The loss for weights (n_classes, n); two classes have one output, for the second class."""
        if len(weight) == 2:
            return cls(weight[1:], weight[:1])
        return cls(weight, _sum_over_others(weight))

    @property
    def total(self) -> Array:
        """The weight m of each point, an array (n,)."""
        return self.target[0] + self.other[0]

    def value(self, F: Array) -> Any:
        """The loss, as an array over the trailing axes of F."""
        if len(F) == 1:
            target, other = (_alongside(F, weight)[0] for weight in (self.target, self.other))
            return cross_entropies(target, F[0], other).sum(axis=0)
        P = softmax(F, axis=0)
        nearly_one = np.log1p(-np.minimum(_sum_over_others(P), 0.5))
        log_P = np.where(P > 0.5, nearly_one, log_softmax(F, axis=0))
        return -np.tensordot(self.target, log_P, axes=([0, 1], [0, 1]))

    def at(self, F: Array) -> Derivatives:
        """The derivatives with respect to F."""
        P = expit(F) if len(F) == 1 else softmax(F, axis=0)
        Q = expit(-F) if len(F) == 1 else _sum_over_others(P)
        target, other = _alongside(F, self.target), _alongside(F, self.other)
        return Derivatives(P, Q, target, other, target[0] + other[0])


def _sum_over_others(values: Array) -> Array:
    """For each class, compute the sum over all other classes without subtraction."""
    summed: Array = _all_but_one(len(values)) @ values.reshape(len(values), -1)
    return summed.reshape(values.shape)


@cache
def _all_but_one(n: int) -> Array:
    return 1 - np.eye(n)


def _alongside(F: Array, weight: Array) -> Array:
    """Append trailing axes to weights, as many as the outputs F have."""
    return weight.reshape(weight.shape + (1,) * (F.ndim - 2))


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives of a :class:`LogisticLoss` at outputs with probabilities P = 1 - Q."""

    P: Array
    Q: Array
    target: Array
    other: Array
    total: Any

    @property
    def slope(self) -> Array:
        """The first derivatives, in the shape of the outputs."""
        return self.other * self.P - self.target * self.Q

    @property
    def curvature(self) -> Array:
        """The diagonal of the second derivatives."""
        return self.total * self.P * self.Q

    def curved(self, D: Array) -> Array:
        """The product of the second derivatives and D."""
        if len(D) == 1:
            return self.curvature * D
        return self.total * self.P * (self.Q * D - _sum_over_others(self.P * D))
