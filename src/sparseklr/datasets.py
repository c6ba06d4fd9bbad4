"""Synthetic classification data from distributions whose true class probabilities are known.

The functions ``make_...`` draw samples of any size. :func:`true_log_proba` computes the true class
probabilities.
Twonorm and ringnorm were defined by Breiman (1996), "Bias, variance, and arcing classifiers"; waveform was
defined by Breiman, Friedman, Olshen and Stone (1984), "Classification and Regression Trees".
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp
from sklearn.utils import check_array, check_random_state, check_scalar

__all__ = [
    "expected_log_loss",
    "make_clusters",
    "make_ringnorm",
    "make_twonorm",
    "make_waveform",
    "true_log_proba",
]

RandomState = int | np.random.RandomState | None
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def make_twonorm(
    n_samples: int = 7400, n_features: int = 20, random_state: RandomState = None
) -> tuple[Floats, Ints]:
    """Draw a sample from Breiman's twonorm: two equally likely normal distributions with unit covariance.

    Class 0 has the mean ``(a, ..., a)`` and class 1 the mean ``(-a, ..., -a)`` with
    ``a = 2 / sqrt(n_features)``. The optimal classifier predicts class 1 if ``sum(x) < 0``. Its accuracy is
    ``Phi(2) = 0.977`` for any number of features.

    Parameters
    ----------
    n_samples, n_features : int
        Size of the sample.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), 0 or 1

    Examples
    --------
    >>> X, y = make_twonorm(1000, random_state=0)
    >>> bool(((X.sum(axis=1) < 0) == y).mean() > 0.96)
    True
    """
    rng = _check_arguments(random_state, n_samples=n_samples, n_features=n_features)
    y = rng.randint(2, size=n_samples).astype(np.int64)
    a = 2.0 / np.sqrt(n_features)
    return rng.standard_normal((n_samples, n_features)) + a * (1 - 2 * y)[:, None], y


def make_ringnorm(
    n_samples: int = 7400, n_features: int = 20, random_state: RandomState = None, *, shift: float = 1.0
) -> tuple[Floats, Ints]:
    """Draw a sample from Breiman's ringnorm: a normal distribution inside a wider one, equally likely.

    Class 0 has mean 0 and covariance ``4 I``; class 1 has the mean ``(a, ..., a)`` and covariance ``I``, with
    ``a = shift / sqrt(n_features)``. With 20 features, the accuracy of the optimal classifier is 0.985 for
    ``shift=1``, and 0.988 for ``shift=2``.

    Parameters
    ----------
    n_samples, n_features : int
        Size of the sample.
    random_state : int, RandomState or None
        Seed.
    shift : float, default=1.0
        Norm of the mean of class 1. It is 1 in the R package mlbench, and 2 in the DELVE sample, from which
        the benchmark set ``ring`` was derived.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), 0 or 1

    Examples
    --------
    >>> X, y = make_ringnorm(1000, random_state=0)
    >>> bool(X[y == 0].std() > 1.9 * X[y == 1].std())
    True
    """
    rng = _check_arguments(random_state, n_samples=n_samples, n_features=n_features)
    y = rng.randint(2, size=n_samples).astype(np.int64)
    mean, scale = y * shift / np.sqrt(n_features), 2.0 - y
    return mean[:, None] + scale[:, None] * rng.standard_normal((n_samples, n_features)), y


def make_waveform(n_samples: int = 5000, random_state: RandomState = None) -> tuple[Floats, Ints]:
    """Draw a sample from Breiman's waveform: random mixtures of two of three triangular waves, plus noise.

    The waves are ``h_k(i) = max(6 - |i - c_k|, 0)`` for ``i = 1, ..., 21`` with the centres ``c = 7, 15,
    11``. A row is ``u h_j + (1 - u) h_k`` plus standard normal noise in every feature, where ``u`` is uniform
    on [0, 1]. The pair ``(j, k)`` is (1, 2) in class 0, (1, 3) in class 1 and (2, 3) in class 2. The three
    classes are equally likely.

    Parameters
    ----------
    n_samples : int
        Size of the sample.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 21)
    y : ndarray of shape (n_samples,)
        0, 1 or 2. The binary problem in the paper of Consolo, Manno and Amaldi (2025) is ``y == 1``.

    Examples
    --------
    >>> X, y = make_waveform(6, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((6, 21), [0, 1, 2])
    """
    rng = _check_arguments(random_state, n_samples=n_samples)
    y = rng.randint(3, size=n_samples).astype(np.int64)
    first, second = waveform_ends()
    u = rng.uniform(size=(n_samples, 1))
    return u * first[y] + (1 - u) * second[y] + rng.standard_normal((n_samples, 21)), y


def waveform_ends() -> tuple[Floats, Floats]:
    """Return both ends of the segment on which the noise-free rows of each class lie; two (3, 21) arrays."""
    waves = np.maximum(6.0 - np.abs(np.arange(1, 22) - np.array([[7], [15], [11]])), 0.0)
    return waves[[0, 0, 1]], waves[[1, 2, 2]]


def make_clusters(
    n_samples: int = 10_000,
    n_features: int = 20,
    random_state: RandomState = None,
    *,
    n_clusters: int = 24,
    n_classes: int = 2,
) -> tuple[Floats, Ints]:
    """Draw a sample from a mixture of normal clusters with different centres and standard deviations.

    The clusters are equally likely, and are assigned to the classes in turn. In the first six features, the
    coordinates of their centres were drawn from a normal distribution with standard deviation 2; in all other
    features, every centre is 0. The standard deviations of a cluster along the features were drawn from a
    log-normal distribution with parameters 0 and 0.1. The mixture depends only on the numbers of features and
    clusters, so samples with different seeds come from the same distribution. With 20 features, 24 clusters
    and two classes, the log-loss of the true probabilities is 0.170.

    Parameters
    ----------
    n_samples, n_features : int
        Size of the sample.
    random_state : int, RandomState or None
        Seed of the sample; the mixture does not depend on it.
    n_clusters : int, default=24
        Number of clusters.
    n_classes : int, default=2
        Number of classes.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), 0, ..., n_classes - 1

    Examples
    --------
    >>> X, y = make_clusters(1000, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 20), [0, 1])
    """
    rng = _check_arguments(random_state, n_samples=n_samples, n_features=n_features)
    check_scalar(n_classes, "n_classes", Integral, min_val=2)
    check_scalar(n_clusters, "n_clusters", Integral, min_val=n_classes)
    centres, scales = cluster_mixture(n_features, n_clusters)
    cluster = rng.randint(n_clusters, size=n_samples)
    X = centres[cluster] + scales[cluster] * rng.standard_normal((n_samples, n_features))
    return X, (cluster % n_classes).astype(np.int64)


def cluster_mixture(n_features: int, n_clusters: int) -> tuple[Floats, Floats]:
    """Return the centres and the standard deviations of the clusters, two (n_clusters, n_features) arrays."""
    rng = np.random.RandomState(24)
    centres = np.zeros((n_clusters, n_features))
    informative = min(6, n_features)
    centres[:, :informative] = 2.0 * rng.standard_normal((n_clusters, informative))
    return centres, np.exp(0.1 * rng.standard_normal((n_clusters, n_features)))


def _check_arguments(random_state: RandomState, **sizes: int) -> np.random.RandomState:
    for name, size in sizes.items():
        check_scalar(size, name, Integral, min_val=1)
    rng: np.random.RandomState = check_random_state(random_state)
    return rng


# -- densities ------------------------------------------------------------------------------------------


def true_log_proba(name: str, X: Any, **parameters: Any) -> Floats:
    """Return the logarithms of the true class probabilities at given rows, from the density of each class.

    No prediction has a smaller expected log-loss than the true probabilities.

    Parameters
    ----------
    name : {"twonorm", "ringnorm", "waveform", "clusters"}
        The distribution, named after the function that draws from it, such as :func:`make_twonorm`.
    X : array-like of shape (n_samples, n_features)
        The rows.
    **parameters
        Parameters of the distribution: ``shift`` for ringnorm; ``n_clusters`` and ``n_classes`` for clusters.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Logarithms of the class probabilities.

    Examples
    --------
    The smallest possible expected log-loss on twonorm is 0.060:

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
    """Return the expected log-loss of the predicted probabilities for each row.

    The expectation is over the class of the row, which has the given true probabilities. The mean of this
    expected loss over many rows estimates the log-loss of a model, without the sampling error due to random
    classes.
    """
    return -(np.exp(true_log_proba) * log_proba).sum(axis=1)


def _twonorm(X: Floats) -> Floats:
    """Return the log-density of each class at the rows of X, as the following functions do."""
    a = 2.0 / np.sqrt(X.shape[1])
    return np.column_stack([_log_normal(X - mean, 1.0) for mean in (a, -a)])


def _ringnorm(X: Floats, shift: float = 1.0) -> Floats:
    a = shift / np.sqrt(X.shape[1])
    return np.column_stack([_log_normal(X, 2.0), _log_normal(X - a, 1.0)])


def _waveform(X: Floats) -> Floats:
    r"""Return the log-densities of waveform, whose rows are points on a segment plus standard normal noise.

    Let h be one end of the segment between two waves, h + d the other end, and r = x - h. The density is

    .. math:: \int_0^1 \varphi(r - u d)\,du
        = \varphi_{20}(r_\perp) \, \frac{\Phi((1 - m)|d|) - \Phi(-m|d|)}{|d|}, \quad m = r'd / |d|^2,

    the product of the density in the 20 directions orthogonal to the segment and an integral along the
    segment.
    """
    columns = []
    for first, second in zip(*waveform_ends(), strict=True):
        R, d = X - second, first - second
        length = np.sqrt(d @ d)
        along = R @ d / length  # coordinate along the segment
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
    """Return log(Phi(high) - Phi(low)), computed without cancellation even far in the tails."""
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)  # by symmetry
    top = log_ndtr(high)
    return top + np.log1p(-np.exp(log_ndtr(low) - top))


_LOG_DENSITIES = {"twonorm": _twonorm, "ringnorm": _ringnorm, "waveform": _waveform, "clusters": _clusters}
