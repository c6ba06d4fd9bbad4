"""Breiman's three generators: fresh samples of any size."""

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
    waves = np.maximum(6.0 - np.abs(np.arange(1, 22) - np.array([[7], [15], [11]])), 0.0)
    first, second = waves[[0, 0, 1]], waves[[1, 2, 2]]
    u = rng.uniform(size=(n_samples, 1))
    return u * first[y] + (1 - u) * second[y] + rng.standard_normal((n_samples, 21)), y


def _check_arguments(random_state: RandomState, **sizes: int) -> np.random.RandomState:
    for name, size in sizes.items():
        check_scalar(size, name, Integral, min_val=1)
    rng: np.random.RandomState = check_random_state(random_state)
    return rng
