"""The training set of a model whose kernel, or its width, is chosen by leave-one-out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..data import DistinctPoints, TrainingSet
from ..probability.width import Candidate, choose_kernel, laplacian_like
from .parameters import has_gamma
from .training import GivenData, training_set


def searches(kernel: Any, gamma: Any) -> bool:
    """Whether these parameters leave something to be chosen."""
    return has_gamma(kernel) and "loo" in (kernel, gamma)


def searched_training_set(
    given: GivenData, *, kernel: Any, gamma: Any, seed: int, n_jobs: int | None, **parameters: Any
) -> tuple[TrainingSet, list[Candidate]]:
    """The training set with the kernel that was chosen, and all kernels that were tried.

    The widths around which the search goes are those of ``gamma="scale"``; where ``gamma`` is given only the
    kinds of kernels are compared.
    """
    climb = gamma == "loo"
    middle, name = "scale" if climb else gamma, "rbf" if kernel == "loo" else kernel
    rows = training_set(given, kernel=name, gamma=middle, **parameters)
    first, n_features = rows.kernel, rows.X.shape[1]
    kernels = [first]
    if climb and name == "laplacian":
        kernels = [laplacian_like(first, n_features)]
    elif kernel == "loo":
        kernels.append(laplacian_like(first, n_features) if climb else replace(first, name="laplacian"))
    points = DistinctPoints.of(rows, n_jobs).relative()
    chosen, tried = choose_kernel(points, kernels, climb=climb, seed=seed, n_jobs=n_jobs)
    return replace(rows, kernel=chosen), tried


def width_path(tried: list[Candidate]) -> dict[str, np.ndarray]:
    """The kernels that were tried, as columns of a table."""
    return {
        "kernel": np.array([one.kernel.name for one in tried]),
        "gamma": np.array([one.kernel.gamma for one in tried]),
        "C": np.array([float(np.median(one.C)) for one in tried]),
        "loss": np.array([one.loss for one in tried]),
        "standard_error": np.array([one.error for one in tried]),
        "seconds": np.array([one.seconds for one in tried]),
    }
