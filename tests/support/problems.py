"""Small problems that several tests solve."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_moons

from sparseklr.kernels import Kernel
from sparseklr.samples import DistinctPoints, Samples


def hard_problem(n: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    """A problem whose labels do not depend on the rows."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 5)), rng.integers(0, 2, n)


def moons_points(n: int = 80, seed: int = 0, gamma: float = 1.0) -> DistinctPoints:
    """Two moons and their kernel."""
    X, codes = make_moons(n, noise=0.3, random_state=seed)
    data = Samples(X, codes, np.array([0, 1]), np.ones(n), np.arange(n), n, Kernel("rbf", gamma))
    return DistinctPoints.of(data)
