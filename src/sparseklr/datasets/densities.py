"""The true class probabilities of the generators, from their densities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_ndtr, logsumexp
from sklearn.utils import check_array

from .generators import Floats, cluster_mixture, waveform_ends


def true_log_proba(name: str, X: Any, **parameters: Any) -> Floats:
    """Log-probabilities of the classes at rows of a generator, from the densities it draws from.

    No model has a smaller expected log-loss than these have.

    Parameters
    ----------
    name : {"twonorm", "ringnorm", "waveform", "clusters"}
        The generator: :func:`make_twonorm` and so on.
    X : array-like of shape (n_samples, n_features)
        Rows.
    **parameters
        The parameters of the generator that are not the size of a sample: ``shift`` of
        ringnorm, ``n_clusters`` and ``n_classes`` of clusters.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)

    Examples
    --------
    The best log-loss on twonorm is 0.060:

    >>> from sparseklr.datasets import make_twonorm
    >>> X, y = make_twonorm(100_000, random_state=0)
    >>> log_proba = true_log_proba("twonorm", X)
    >>> round(float(expected_log_loss(log_proba, log_proba).mean()), 3)
    0.06
    """
    if name not in _LOG_DENSITIES:
        raise ValueError(f"name must be one of {', '.join(_LOG_DENSITIES)}; got {name!r}.")
    log_density = _LOG_DENSITIES[name](check_array(X, dtype=np.float64), **parameters)
    return log_density - logsumexp(log_density, axis=1, keepdims=True)


def expected_log_loss(true_log_proba: Floats, log_proba: Floats) -> Floats:
    """Expected log-loss, at each row, of predicted probabilities where the true ones are known.

    Its mean over many rows is the log-loss of a model without the noise of labels.
    """
    return -(np.exp(true_log_proba) * log_proba).sum(axis=1)


def _twonorm(X: Floats) -> Floats:
    """Log-densities of the classes at the rows, as of all generators below."""
    a = 2.0 / np.sqrt(X.shape[1])
    return np.column_stack([_log_normal(X - mean, 1.0) for mean in (a, -a)])


def _ringnorm(X: Floats, shift: float = 1.0) -> Floats:
    a = shift / np.sqrt(X.shape[1])
    return np.column_stack([_log_normal(X, 2.0), _log_normal(X - a, 1.0)])


def _waveform(X: Floats) -> Floats:
    r"""A row of a class is a point of the segment between two waves plus standard normal noise.

    With r = x - h the way from its end h, and d the segment, the density is

    .. math:: \int_0^1 \varphi(r - u d)\,du
        = \varphi_{20}(r_\perp) \, \frac{\Phi((1 - m)|d|) - \Phi(-m|d|)}{|d|}, \quad m = r'd / |d|^2,

    the density of the 20 directions across the segment times an integral along it.
    """
    columns = []
    for first, second in zip(*waveform_ends(), strict=True):
        R, d = X - second, first - second
        length = np.sqrt(d @ d)
        along = R @ d / length  # from the end, in units of the noise
        across = (R**2).sum(axis=1) - along**2
        integral = _log_normal_between(-along, length - along) - np.log(length)
        columns.append(integral - across / 2 - (X.shape[1] - 1) / 2 * np.log(2 * np.pi))
    return np.column_stack(columns)


def _clusters(X: Floats, n_clusters: int = 24, n_classes: int = 2) -> Floats:
    centres, scales = cluster_mixture(X.shape[1], n_clusters)
    by_cluster = np.column_stack(
        [
            _log_normal((X - centre) / scale, 1.0) - np.log(scale).sum()
            for centre, scale in zip(centres, scales, strict=True)
        ]
    )
    classes = np.arange(n_clusters) % n_classes
    return np.column_stack([logsumexp(by_cluster[:, classes == c], axis=1) for c in range(n_classes)])


def _log_normal(X: Floats, scale: float) -> Floats:
    p = X.shape[1]
    return -(X**2).sum(axis=1) / (2 * scale**2) - p * np.log(scale) - p / 2 * np.log(2 * np.pi)


def _log_normal_between(low: Floats, high: Floats) -> Floats:
    """log(Phi(high) - Phi(low)) without cancellation, also far out on either side."""
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)  # the mass is the same on the left
    top = log_ndtr(high)
    return top + np.log1p(-np.exp(log_ndtr(low) - top))


_LOG_DENSITIES = {"twonorm": _twonorm, "ringnorm": _ringnorm, "waveform": _waveform, "clusters": _clusters}
