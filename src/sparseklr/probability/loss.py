"""The logistic loss of weighted classes on points, and its derivatives; softmax for more than two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp, softmax


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

    target: np.ndarray
    total: np.ndarray

    def value(self, F: np.ndarray) -> Any:
        """The loss; an array over the trailing axes of F."""
        if len(F) == 1:  # max(f, 0) - log(sigmoid(|f|)) is softplus, twice as fast as logaddexp
            size = np.abs(F[0])
            cumulant = (size + F[0]) / 2 - np.log(expit(size))
        else:
            cumulant = logsumexp(F, axis=0)
        linear = np.tensordot(self.target, F, axes=([0, 1], [0, 1]))
        return np.tensordot(self.total, cumulant, axes=(0, 0)) - linear

    def mean(self, F: np.ndarray) -> np.ndarray:
        """Probabilities, the derivative of A."""
        return expit(F) if len(F) == 1 else softmax(F, axis=0)

    def residual(self, P: np.ndarray) -> np.ndarray:
        """Derivative of the loss with respect to F, given probabilities P."""
        return self._total(P) * P - self.target.reshape(self.target.shape + (1,) * (P.ndim - 2))

    def weights(self, P: np.ndarray) -> np.ndarray:
        """Diagonal of the second derivative: m p (1 - p)."""
        return self._total(P) * P * (1 - P)

    def curved(self, P: np.ndarray, D: np.ndarray) -> np.ndarray:
        """Second derivative times D."""
        if len(P) == 1:
            return self.weights(P) * D
        return self._total(P) * P * (D - (P * D).sum(axis=0))

    def _total(self, P: np.ndarray) -> np.ndarray:
        return self.total.reshape((-1,) + (1,) * (P.ndim - 2))
