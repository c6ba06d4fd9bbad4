"""Scaling of the features as part of a model: clipped standardisation, rank transformation, or ramps.

Ramps are a piecewise linear encoding of features with few distinct values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from .kernels import rounded


@dataclass(frozen=True)
class ScalingSettings:
    """Settings of the scaling of features."""

    # A feature is mapped by rank if its absolute skewness exceeds this value and it has values beyond
    # ``clip`` standard deviations.
    skewness: float = 1.5
    clip: float = 4.0  # limit of standardised features, in standard deviations
    clip_rank: float = 3.0  # limit of features mapped by rank, in standard deviations
    equal: float = 1e-7  # values of a feature that differ by at most this fraction have equal ranks
    n_knots: int = 257  # number of knots of the piecewise linear map by rank
    few_values: int = 10  # a feature with three to this number of values is mapped to ramps


SCALING = ScalingSettings()


@dataclass(frozen=True, eq=False)
class Scaling:
    """Monotone maps from each non-constant feature x to one or more scaled columns z.

    A feature is standardised, ``z = (x - centre) / spread``, and clipped. A skewed feature is mapped by rank
    instead: z is a piecewise linear function of x. The spread of a feature with two values may be their
    difference instead of the standard deviation. A feature with few values may become several columns, one
    *ramp* for each pair of neighbouring values: z is -1 up to the smaller value, 1 from the larger value on,
    and linear in between.
    """

    kept: np.ndarray  # position of the feature of each scaled column; only features that vary have columns
    centre: np.ndarray
    spread: np.ndarray
    clip: float  # limit on the absolute value of z; may be infinite
    # For each column that is a ramp or mapped by rank: its position in ``kept``, and x and z at the knots
    knots: dict[int, tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(
        cls, X: Any, weight: np.ndarray, *, auto: bool = True, ranges: bool = False, ramps: bool = False
    ) -> Scaling:
        """Return the scaling for weighted rows.

        With ``ramps``, a feature with three to ten distinct values becomes ramps. The logit can then have a
        kink at each value.

        With ``ranges``, a feature with only two values, such as the indicator of a category, is divided by
        the difference of these values. Two rows of different categories then have the same distance whether
        the categories are rare or frequent.

        Without ``auto``, the features are only shifted by their medians. An outlier could shift a mean far
        from the other rows, and their differences would then be lost in float32.
        """
        fraction = weight / weight.sum()
        varies: list[int] = []
        centre: list[float] = []
        spread: list[float] = []
        knots: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for j, x in enumerate(columns(X)):
            low, high = float(x.min()), float(x.max())
            if low == high:
                continue
            if ranges and ((x == low) | (x == high)).all():
                varies.append(j)
                centre.append(low / 2 + high / 2)
                spread.append(min(high - low, 2.0**1023))  # the difference may overflow
                continue
            if ramps and 3 <= len(values := _distinct(x)[0]) <= SCALING.few_values:
                for pair in pairwise(values):
                    knots[len(varies)] = np.array(pair), np.array([-1.0, 1.0])
                    varies.append(j)
                    centre.append(_median(x, fraction))
                    spread.append(1.0)
                continue
            size = float(np.abs(x).max())  # in this unit, squares neither overflow nor underflow
            unit = x / size
            mean = float(fraction @ unit)
            scale = float(np.sqrt(fraction @ (unit - mean) ** 2)) if auto else 0.0
            if scale > 0:
                z = (unit - mean) / scale
                # The mean of z^3. The cube root prevents overflow: z may be 1e110 in a row of tiny weight.
                skewness = float(((np.cbrt(fraction) * z) ** 3).sum())
                if abs(skewness) > SCALING.skewness and np.abs(z).max() > SCALING.clip:
                    knots[len(varies)] = rank_knots(x, weight)
            varies.append(j)
            centre.append(mean * size if auto else _median(x, fraction))
            spread.append(scale * size if scale * size > 0 else 1.0)
        return cls(
            np.array(varies, dtype=np.intp),
            np.array(centre),
            np.array(spread),
            SCALING.clip if auto else np.inf,
            knots,
        )

    @classmethod
    def identity(cls, n_features: int) -> Scaling:
        """Return a scaling that leaves the features unchanged."""
        return cls(np.arange(n_features), np.zeros(n_features), np.ones(n_features), np.inf, {})

    @classmethod
    def uncentred(cls, X: Any, weight: np.ndarray) -> Scaling:
        """Return a scaling that divides the features of a sparse matrix by their standard deviations.

        Zeros stay zero.
        """
        fraction, squares = weight / weight.sum(), X.multiply(X)
        mean, mean_square = fraction @ X, fraction @ squares
        spread = np.sqrt(np.maximum(mean_square - mean**2, 0.0))
        varies = spread > 1e-5 * np.sqrt(mean_square)  # otherwise the spread consists of rounding errors
        n = X.shape[1]
        return cls(np.arange(n), np.zeros(n), np.where(varies, rounded(spread, 32), 1.0), np.inf, {})

    def without_rounding_errors(self) -> Scaling:
        """Return the scaling rounded to 32 bits, so that the order of the rows does not affect it."""
        spread = rounded(self.spread, 32)
        centre = np.round(self.centre / spread * 2.0**32) / 2.0**32 * spread
        knots = {j: (x, np.round(z * 2.0**32) / 2.0**32) for j, (x, z) in self.knots.items()}
        return Scaling(self.kept, centre, spread, self.clip, knots)

    def transform(self, X: Any) -> Any:
        """Return the scaled values of the kept features in float64.

        Sparse rows stay sparse if the scaling keeps zeros.
        """
        if not np.array_equal(self.kept, np.arange(X.shape[1])):
            X = X[:, self.kept]
        if sparse.issparse(X) and not self.centre.any() and np.isinf(self.clip) and not self.knots:
            scaled = sparse.csr_array(X, dtype=np.float64, copy=True)
            scaled.data /= self.spread[scaled.indices]  # bit-identical to dense rows
            return scaled
        X = np.ascontiguousarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        with np.errstate(over="ignore"):
            scaled = X - self.centre
            scaled /= self.spread
        np.clip(scaled, -self.clip, self.clip, out=scaled)
        for j, (x, z) in self.knots.items():
            scaled[:, j] = np.interp(X[:, j], x, z)
        return scaled

    def transform_single(self, X: Any) -> np.ndarray:
        """Return the scaled values in float32.

        An error is raised if they overflow, which can happen only with ``scale=None``.
        """
        scaled = self.transform(X)
        if (size := np.abs(scaled).max(initial=0.0)) > np.finfo(np.float32).max:
            raise ValueError(
                f"scale=None supports values of X up to 3.4e+38; the distance of a value from the median is "
                f'{size:.3g}. Use scale="auto".'
            )
        return scaled.astype(np.float32)

    def slopes(self, X: Any) -> np.ndarray:
        """Return the derivative of each scaled value with respect to its feature; zero for clipped values.

        At a knot, the derivative is the mean of the two one-sided derivatives.
        """
        X = X[:, self.kept]
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        slopes = np.where(np.abs((X - self.centre) / self.spread) < self.clip, 1 / self.spread, 0.0)
        for j, (x, z) in self.knots.items():
            steps = np.concatenate([[0.0], np.diff(z) / np.diff(x), [0.0]])
            left, right = (steps[np.searchsorted(x, X[:, j], side)] for side in ("left", "right"))
            slopes[:, j] = (left + right) / 2
        return slopes

    def inverse(self, scaled: np.ndarray) -> np.ndarray:
        """Return the value of the feature of each column for given scaled values, or the nearest value.

        The steps of all ramps of a feature are added up.
        """
        with np.errstate(over="ignore"):
            X = scaled * self.spread + self.centre
        largest = np.finfo(np.float64).max
        np.clip(X, -largest, largest, out=X)
        for j, (x, z) in self.knots.items():
            X[:, j] = np.interp(scaled[:, j], z, x)
        for feature in np.flatnonzero(np.bincount(self.kept) > 1):
            ramps = np.flatnonzero(self.kept == feature)
            starts = np.array([self.knots[j][0][0] for j in ramps.tolist()])
            X[:, ramps] = (starts.min() + (X[:, ramps] - starts).sum(axis=1))[:, None]
        return X

    def restricted(self, features: np.ndarray) -> Scaling:
        """Return the scaling of a subset of the features, given by positions in ``kept``."""
        knots = {new: self.knots[old] for new, old in enumerate(features.tolist()) if old in self.knots}
        return Scaling(self.kept[features], self.centre[features], self.spread[features], self.clip, knots)


def _median(x: np.ndarray, fraction: np.ndarray) -> float:
    """Return the lower weighted median.

    A tolerance allows for rounding errors in the sum of half of the weights.
    """
    order = np.argsort(x, kind="stable")
    return float(x[order[np.searchsorted(np.cumsum(fraction[order]), 0.5 - 1e-9)]])


def columns(X: Any) -> Iterator[np.ndarray]:
    """Return an iterator over the columns of X as dense float64 arrays."""
    if sparse.issparse(X):
        X = sparse.csc_array(X)
        return (X[:, [j]].toarray().ravel().astype(np.float64) for j in range(X.shape[1]))
    return (np.asarray(X[:, j], dtype=np.float64) for j in range(X.shape[1]))


def _distinct(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values in ascending order, and the index of the value of each element.

    Values that differ only by rounding errors count as equal.
    """
    values, code = np.unique(x, return_inverse=True)
    size = np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    new = np.append(True, values[1:] - values[:-1] > SCALING.equal * size)
    return values[new], (np.cumsum(new) - 1)[code]


def rank_knots(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most 257 distinct values of x, and the normal quantiles of their mid-ranks.

    Values that differ only by rounding errors have the same rank. Otherwise such noise would be spread over
    many ranks.
    """
    values, code = _distinct(x)
    if len(values) == 1:
        values, code = np.unique(x, return_inverse=True)
    mass = np.bincount(code, weight)
    until = np.cumsum(mass)
    rank = (until - mass / 2) / until[-1]  # dividing by another sum could give ranks above 1
    if len(values) > SCALING.n_knots:
        chosen = np.unique(np.searchsorted(rank, np.linspace(rank[0], rank[-1], SCALING.n_knots)))
        values, rank = values[chosen], rank[chosen]
    return values, np.clip(ndtri(rank), -SCALING.clip_rank, SCALING.clip_rank)
