"""The S-KLR solution that stays behind a refitted model, or that an interrupted fit has reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import TrainingSet
from ..dual.binary import BinarySolutions
from ..kernels import Kernel


@dataclass(frozen=True, eq=False)
class DualModel:
    """The S-KLR function f(x) = coef @ k(points, x) + intercept, for a warm start and for its own values."""

    support: np.ndarray  # indices of the points in what the user gave
    points: Any
    coef: np.ndarray
    intercept: np.ndarray
    margins: np.ndarray  # lam of every output
    n_samples: int  # rows that the user gave

    @classmethod
    def of(cls, data: TrainingSet, solved: BinarySolutions) -> DualModel:
        """The points of all problems together."""
        coef = solved.coef
        support = data.in_given_order(np.flatnonzero(coef.any(axis=0)))
        return cls(
            data.positions[support],
            data.points(support),
            coef[:, support],
            solved.intercept,
            solved.margins,
            data.n_samples,
        )

    def start(self, k: int, data: TrainingSet) -> tuple[np.ndarray | None, float]:
        """Dual variables of output k for the rows of ``data``, and its margin; None, 0 for other data."""
        if k >= len(self.coef) or self.n_samples != data.n_samples:
            return None, 0.0
        alpha = np.zeros(self.n_samples)
        alpha[self.support] = np.abs(self.coef[k])
        return alpha[data.positions], float(self.margins[k])

    def outputs(self, kernel: Kernel, queries: Any, n_jobs: int | None = None) -> np.ndarray:
        """f of checked queries, (n_queries, n_outputs)."""
        return kernel.sum(queries, self.points, self.coef, n_jobs=n_jobs) + self.intercept
