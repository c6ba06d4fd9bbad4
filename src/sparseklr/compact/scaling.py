"""Scaling of features as part of a model: standardised and clipped, skewed ones mapped by rank to a normal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

# Beyond this skewness a feature is mapped by rank; clips are in standard deviations.
SKEWED, CLIP, CLIP_RANK = 1.5, 4.0, 3.0
_KNOTS = 257


@dataclass(frozen=True, eq=False)
class Scaling:
    """A monotone map of every feature; constant ones are left out.

    Attributes
    ----------
    kept : array of int
        The features that vary.
    centre, spread : arrays
        Of the kept features: z = (x - centre) / spread.
    clip : float
        Standardised values are clipped to +-clip.
    knots : dict
        For a feature mapped by rank (position among the kept): values of x and of z between which z is linear.
    """

    kept: np.ndarray
    centre: np.ndarray
    spread: np.ndarray
    clip: float
    knots: dict[int, tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, X: np.ndarray, weight: np.ndarray, *, auto: bool = True) -> Scaling:
        """The scaling for rows of given weights; without ``auto`` features are only shifted."""
        X = np.asarray(X, dtype=np.float64)
        total = weight.sum()
        kept = np.flatnonzero(X.max(axis=0) > X.min(axis=0))
        X = X[:, kept]
        centre = weight @ X / total
        if not auto:
            return cls(kept, centre, np.ones(len(kept)), np.inf, {})
        deviation = X - centre
        spread = np.sqrt(weight @ deviation**2 / total)
        spread[spread == 0] = 1.0
        standard = deviation / spread
        skewness = weight @ standard**3 / total
        knots = {int(j): _rank_knots(X[:, j], weight) for j in np.flatnonzero(np.abs(skewness) > SKEWED)}
        return cls(kept, centre, spread, CLIP, knots)

    def transform(self, X: Any) -> np.ndarray:
        """Scaled values of the kept features, float64."""
        X = np.asarray(X, dtype=np.float64)[:, self.kept]
        scaled = (X - self.centre) / self.spread
        np.clip(scaled, -self.clip, self.clip, out=scaled)
        for j, (x, z) in self.knots.items():
            scaled[:, j] = np.interp(X[:, j], x, z)
        return scaled

    def inverse(self, scaled: np.ndarray) -> np.ndarray:
        """Values of the kept features that have the given scaled values, as far as there are any."""
        X = scaled * self.spread + self.centre
        for j, (x, z) in self.knots.items():
            X[:, j] = np.interp(scaled[:, j], z, x)
        return X


def _rank_knots(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values of x (at most 257 of them) and the normal quantile of the middle of their rank."""
    values, code = np.unique(x, return_inverse=True)
    mass = np.bincount(code, weight)
    rank = (np.cumsum(mass) - mass / 2) / mass.sum()
    if len(values) > _KNOTS:
        chosen = np.unique(np.searchsorted(rank, np.linspace(rank[0], rank[-1], _KNOTS)))
        values, rank = values[chosen], rank[chosen]
    return values, np.clip(ndtri(rank), -CLIP_RANK, CLIP_RANK)
