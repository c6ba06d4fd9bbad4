"""The S-KLR solution that stays behind a refitted model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels import Kernel


@dataclass(frozen=True, eq=False)
class DualModel:
    """The S-KLR function f(x) = coef @ k(points, x) + intercept, for a warm start and for its own values."""

    support: np.ndarray  # indices of the points in what the user gave
    points: Any
    coef: np.ndarray
    intercept: np.ndarray

    def alphas(self, n_samples: int) -> np.ndarray:
        """The dual variable of every row the user gave, one row for each output."""
        alphas = np.zeros((len(self.coef), n_samples))
        alphas[:, self.support] = np.abs(self.coef)
        return alphas

    def outputs(self, kernel: Kernel, queries: Any, n_jobs: int | None = None) -> np.ndarray:
        """f of checked queries, (n_queries, n_outputs)."""
        return kernel.sum(queries, self.points, self.coef, n_jobs=n_jobs) + self.intercept
