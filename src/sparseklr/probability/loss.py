r"""The logistic loss, everywhere in the package where labels are counts of classes on points.

A point of weight m, of which t belongs to the positive class, has the loss

.. math:: \ell(f) = t \log(1 + e^{-f}) + (m - t) \log(1 + e^{f}), \qquad
          \ell' = (m - t) p - t q, \qquad \ell'' = m p q,

p the sigmoid of f and q = 1 - p that of -f. In this form nothing cancels where p is close to 0 or 1, and
exchanging the classes exchanges p and q exactly. :class:`LogisticLoss` has it for all points at once, and the
softmax for more than two classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp, softmax

Array = np.ndarray


def cross_entropies(target: Any, f: Array, weight: Any = 1.0) -> Array:
    """The loss of each point; ``target`` is the part of ``weight`` that belongs to the positive class.

    Examples
    --------
    >>> cross_entropies(np.array([0.0, 1.0]), np.array([0.0, 800.0]))
    array([0.69314718, 0.        ])
    """
    both = np.log1p(np.exp(-np.abs(f)))  # of f and -f; about twice as fast as logaddexp
    return target * (both + np.maximum(-f, 0)) + (weight - target) * (both + np.maximum(f, 0))


def derivatives(target: Any, f: Array, weight: Any = 1.0) -> tuple[Array, Array]:
    """First and second derivative of the loss of each point.

    Examples
    --------
    >>> derivatives(1.0, np.array([0.0]))
    (array([-0.5]), array([0.25]))
    """
    here = Derivatives(expit(f), expit(-f), target, weight)
    return here.slope, here.curvature


@dataclass(frozen=True, eq=False)
class LogisticLoss:
    r"""Weighted negative log-likelihood of outputs F, an array (n_outputs, n, ...).

    .. math:: \sum_i m_i A(F_i) - \sum_i t_i^\top F_i

    with one output :math:`A(f) = \log(1+e^f)` (logistic), with several
    :math:`A(F) = \log\sum_k e^{F_k}` (softmax). Trailing axes are independent problems.

    Attributes
    ----------
    target : array (n_outputs, n)
        Weight of the class of each output on each point, t.
    total : array (n,)
        Weight of each point, m.
    """

    target: Array
    total: Array

    def value(self, F: Array) -> Any:
        """The loss; an array over the trailing axes of F."""
        if len(F) == 1:
            return cross_entropies(self._target(F)[0], F[0], self._total(F)).sum(axis=0)
        linear = np.tensordot(self.target, F, axes=([0, 1], [0, 1]))
        return np.tensordot(self.total, logsumexp(F, axis=0), axes=(0, 0)) - linear

    def at(self, F: Array) -> Derivatives:
        """The derivatives with respect to F."""
        P = expit(F) if len(F) == 1 else softmax(F, axis=0)
        Q = expit(-F) if len(F) == 1 else 1 - P
        return Derivatives(P, Q, self._target(F), self._total(F))

    def _target(self, F: Array) -> Array:
        return self.target.reshape(self.target.shape + (1,) * (F.ndim - 2))

    def _total(self, F: Array) -> Array:
        return self.total.reshape((-1,) + (1,) * (F.ndim - 2))


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives of a :class:`LogisticLoss` at outputs with probabilities P = 1 - Q."""

    P: Array
    Q: Array
    target: Array
    total: Array

    @property
    def slope(self) -> Array:
        """First derivatives, of the shape of the outputs."""
        return (self.total - self.target) * self.P - self.target * self.Q

    @property
    def curvature(self) -> Array:
        """Diagonal of the second derivatives."""
        return self.total * self.P * self.Q

    def curved(self, D: Array) -> Array:
        """Second derivatives times D."""
        if len(D) == 1:
            return self.curvature * D
        return self.total * self.P * (D - (self.P * D).sum(axis=0))
