"""From decision values to logits of probabilities: the link of the margin loss, and Platt's sigmoid."""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, log_softmax
from sklearn.linear_model import LogisticRegression


def link(f: np.ndarray, lam: float | np.ndarray) -> np.ndarray:
    r"""Logit of the probability that belongs to f under the loss ``log(1 + exp(lam - y f))``.

    The loss is proper composite with :math:`\eta = s(\lambda+f) / (s(\lambda+f) + s(\lambda-f))`, where s is
    the sigmoid; its logit is :math:`\log(1 + e^{f-\lambda}) - \log(1 + e^{-f-\lambda})`.

    Well inside the margin this is zero up to rounding. A small multiple of f is added, so that values there
    keep their order.

    >>> round(float(link(np.array(0.3), 0.0)), 6)
    0.3
    """
    return np.logaddexp(0, f - lam) - np.logaddexp(0, -f - lam) + 1e-12 * f


def log_probabilities(outputs: np.ndarray) -> np.ndarray:
    """Logarithms of class probabilities from the outputs (n, n_outputs) of one-vs-rest problems.

    One output is the logit of the second of two classes. With several, the probabilities sigmoid(f_k) are
    made to sum to one.

    >>> np.exp(log_probabilities(np.array([[0.0]]))).tolist()
    [[0.5, 0.5]]
    """
    if outputs.shape[1] == 1:
        return log_expit(np.hstack([-outputs, outputs]))
    return np.asarray(log_softmax(log_expit(outputs), axis=1))


def platt(y: np.ndarray, f: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Slope and intercept of Platt's sigmoid for values f that were not fitted to their own labels.

    Targets are shrunk to (n+1)/(n+2) and 1/(n+2), where n is the weight of the class (Platt 2000); this keeps
    the slope finite.
    """
    positive = y > 0
    n = [weight[~positive].sum(), weight[positive].sum()]
    shrunk = [1 / (total + 2) for total in n]
    full = [(total + 1) / (total + 2) for total in n]
    ones, zeros = np.where(positive, full[1], shrunk[0]), np.where(positive, shrunk[1], full[0])
    # Values without spread say nothing of the classes; with it they are brought to [-1, 1] around zero.
    centre, spread = (f.max() + f.min()) / 2, (f.max() - f.min()) / 2
    if spread <= max(1e-10 * np.abs(f).max(), 1e-200):
        return 0.0, float(np.log(weight @ ones) - np.log(weight @ zeros))
    rows = np.tile((f - centre) / spread, 2)[:, None]
    labels = np.repeat([1, 0], len(f))
    # The penalty of 1e-14 decides where nearly all weight is on one value, of which no slope follows.
    relative = weight / weight.sum()
    model = LogisticRegression(C=1e14, solver="newton-cholesky", tol=1e-12)
    model.fit(rows, labels, sample_weight=np.concatenate([relative * ones, relative * zeros]))
    slope = model.coef_[0, 0] / spread
    return float(slope), float(model.intercept_[0] - slope * centre)
