"""Breiman's three generators and a mixture of clusters: fresh samples of any size."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state, check_scalar

RandomState = int | np.random.RandomState | None
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def make_twonorm(
    n_samples: int = 7400, n_features: int = 20, random_state: RandomState = None
) -> tuple[Floats, Ints]:
    """Draw Breiman's twonorm: two Gaussians with unit covariance, equally likely.

    Class 0 has mean ``(a, ..., a)`` and class 1 mean ``(-a, ..., -a)`` with
    ``a = 2 / sqrt(n_features)``. The best classifier is the sign of ``-sum(x)``; its accuracy is
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
    y : ndarray of shape (n_samples,)
        0 or 1.

    References
    ----------
    L. Breiman, "Bias, variance, and arcing classifiers", Technical Report 460, Statistics
    Department, University of California, Berkeley, 1996.

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
    """Draw Breiman's ringnorm: a Gaussian inside a wider one, equally likely.

    Class 0 has mean 0 and covariance ``4 I``; class 1 has mean ``(a, ..., a)`` and covariance
    ``I``, with ``a = shift / sqrt(n_features)``. With 20 features the best accuracy is 0.985, and
    0.988 for ``shift=2``.

    Parameters
    ----------
    n_samples, n_features : int
        Size of the sample.
    random_state : int, RandomState or None
        Seed.
    shift : float, default=1.0
        Length of the mean of class 1. Sources differ: 1 in R's mlbench, 2 in the DELVE sample from
        which the benchmark set ``ring`` comes.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        0 or 1.

    References
    ----------
    L. Breiman, "Bias, variance, and arcing classifiers", Technical Report 460, Statistics
    Department, University of California, Berkeley, 1996.

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
    """Draw Breiman's waveform: random mixtures of two of three triangular waves, plus noise.

    The waves are ``h_k(i) = max(6 - |i - c_k|, 0)`` for ``i = 1, ..., 21`` with centres
    ``c = 7, 15, 11``. A sample is ``u h_j + (1 - u) h_k`` with ``u`` uniform on [0, 1], plus
    standard normal noise on every feature; ``(j, k)`` is (1, 2), (1, 3), (2, 3) for the classes
    0, 1, 2, which are equally likely.

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
        0, 1 or 2. The paper's binary task is ``y == 1``.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen and C. Stone, "Classification and Regression Trees",
    Wadsworth, 1984.

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
    """The two waves that the rows of each class of the waveform data lie between, (3, 21) each."""
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
    """Draw a mixture of Gaussian clusters, each with its own centre and its own widths.

    The clusters are equally likely and belong to the classes in turn. Their centres differ in the first six
    features only, where they are normal with standard deviation 2; the others are noise. Standard deviations
    along the features are log-normal around 1 with standard deviation 0.1. The mixture itself depends on the
    numbers of features and clusters alone, so that samples of any seed come from the same distribution. With
    20 features and 24 clusters no classifier has a log-loss below 0.170.

    Parameters
    ----------
    n_samples, n_features : int
        Size of the sample.
    random_state : int, RandomState or None
        Seed of the rows.
    n_clusters : int, default=24
    n_classes : int, default=2

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        0, ..., n_classes - 1.

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
    """Centres and standard deviations of the clusters, (n_clusters, n_features) each."""
    rng = np.random.RandomState(24)
    centres = np.zeros((n_clusters, n_features))
    telling = min(6, n_features)
    centres[:, :telling] = 2.0 * rng.standard_normal((n_clusters, telling))
    return centres, np.exp(0.1 * rng.standard_normal((n_clusters, n_features)))


def _check_arguments(random_state: RandomState, **sizes: int) -> np.random.RandomState:
    for name, size in sizes.items():
        check_scalar(size, name, Integral, min_val=1)
    rng: np.random.RandomState = check_random_state(random_state)
    return rng
