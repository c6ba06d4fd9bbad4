r"""Logistic and softmax loss of points that have a weight for each class, with derivatives.

A point represents all equal training rows, which may belong to different classes. If its total weight is m,
and its rows of the positive class have the weight t, its logistic loss is

.. math:: \ell(f) = t \log(1 + e^{-f}) + (m - t) \log(1 + e^{f}), \qquad
          \ell' = (m - t) p - t q, \qquad \ell'' = m p q,

where p is the sigmoid of f, and q = 1 - p is the sigmoid of -f. This form avoids cancellation if p is close
to 0 or 1. It is also exactly symmetric: exchanging the classes exchanges p and q. With more than two classes,
the loss is the softmax loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax

Array = np.ndarray


def cross_entropies(target: Any, f: Array, other: Any = None) -> Array:
    """Return the logistic loss of each point at the outputs f.

    ``target`` is the weight of the positive class, and ``other`` the weight of the other class, by default
    ``1 - target``.
    """
    both = np.log1p(np.exp(-np.abs(f)))  # common term of both classes; about twice as fast as logaddexp
    other = 1 - target if other is None else other
    return target * (both + np.maximum(-f, 0)) + other * (both + np.maximum(f, 0))


@dataclass(frozen=True, eq=False)
class LogisticLoss:
    r"""Weighted negative log-likelihood as a function of the array F (n_outputs, n, ...) of outputs.

    .. math:: \sum_i m_i A(F_i) - \sum_i t_i^\top F_i

    Here :math:`A(f) = \log(1+e^f)` for one output (logistic loss), and :math:`A(F) = \log\sum_k e^{F_k}` for
    several outputs (softmax loss). The sum is computed from non-negative terms. The weights of the classes
    are stored separately, because the smaller weight could be lost by rounding in their sum m. Further axes
    of F are independent problems with the same weights.

    Attributes
    ----------
    target : array (n_outputs, n)
        Weight t of each point in the class of each output.
    other : array (n_outputs, n)
        Weight of each point in all other classes.
    """

    target: Array
    other: Array

    @classmethod
    def of(cls, weight: Array) -> LogisticLoss:
        """Return the loss for weights (n_classes, n); with two classes, the output is for the second."""
        if len(weight) == 2:
            return cls(weight[1:], weight[:1])
        return cls(weight, _sum_over_others(weight))

    @property
    def total(self) -> Array:
        """The weight m of each point, as an array of shape (n,)."""
        return self.target[0] + self.other[0]

    def value(self, F: Array) -> Any:
        """Return the loss at the outputs F, summed over the first two axes: a number or an array."""
        if len(F) == 1:
            target, other = (_alongside(F, weight)[0] for weight in (self.target, self.other))
            return cross_entropies(target, F[0], other).sum(axis=0)
        P = softmax(F, axis=0)
        nearly_one = np.log1p(-np.minimum(_sum_over_others(P), 0.5))
        log_P = np.where(P > 0.5, nearly_one, log_softmax(F, axis=0))
        return -np.tensordot(self.target, log_P, axes=([0, 1], [0, 1]))

    def at(self, F: Array) -> Derivatives:
        """Return the derivatives of the loss with respect to the outputs F."""
        P = expit(F) if len(F) == 1 else softmax(F, axis=0)
        Q = expit(-F) if len(F) == 1 else _sum_over_others(P)
        target, other = _alongside(F, self.target), _alongside(F, self.other)
        return Derivatives(P, Q, target, other, target[0] + other[0])


def _sum_over_others(values: Array) -> Array:
    """Return, for each class, the sum over all other classes, computed without subtraction."""
    summed: Array = _all_but_one(len(values)) @ values.reshape(len(values), -1)
    return summed.reshape(values.shape)


@cache
def _all_but_one(n: int) -> Array:
    return 1 - np.eye(n)


def _alongside(F: Array, weight: Array) -> Array:
    """Return weights (n_outputs, n) with trailing axes of length 1, so that they broadcast with F."""
    return weight.reshape(weight.shape + (1,) * (F.ndim - 2))


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives of a :class:`LogisticLoss` with respect to its outputs."""

    P: Array  # predicted probabilities
    Q: Array  # 1 - P
    target: Array  # as in LogisticLoss
    other: Array  # as in LogisticLoss
    total: Any  # total weight of each point

    @property
    def slope(self) -> Array:
        """The first derivatives, in the shape of the outputs."""
        return self.other * self.P - self.target * self.Q

    @property
    def curvature(self) -> Array:
        """The diagonal of the Hessian, in the shape of the outputs."""
        return self.total * self.P * self.Q

    def curved(self, D: Array) -> Array:
        """Return the product of the Hessian and D; D and the product have the shape of the outputs."""
        if len(D) == 1:
            return self.curvature * D
        return self.total * self.P * (self.Q * D - _sum_over_others(self.P * D))
