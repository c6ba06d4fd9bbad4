"""What happens to the features of an exported model before its kernel sees them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

Scaler = StandardScaler | MinMaxScaler | MaxAbsScaler | RobustScaler


@dataclass(frozen=True, eq=False)
class FeatureScaling:
    r"""Features chosen from the columns of X, each mapped by a monotone function.

    Feature j is :math:`u_j = (x_{c_j} - a_j) s_j`, cut off at :math:`\pm` ``clip``, or, where there are
    knots, the function that is linear between them and constant outside.

    Attributes
    ----------
    n_inputs : int
        Columns of X.
    columns : array of int (n_features,)
        c, the columns that are used.
    shift, scale : arrays (n_features,)
        a and s.
    clip : float
        Infinity for no cut.
    knots : dict of int to pair of arrays
        For some features, values of x, ascending, and of u.
    """

    n_inputs: int
    columns: np.ndarray
    shift: np.ndarray
    scale: np.ndarray
    clip: float
    knots: dict[int, tuple[np.ndarray, np.ndarray]]

    @classmethod
    def identity(cls, n_inputs: int) -> FeatureScaling:
        return cls(n_inputs, np.arange(n_inputs), np.zeros(n_inputs), np.ones(n_inputs), np.inf, {})

    @property
    def selects(self) -> bool:
        """Whether some column is not used, or not in its place."""
        return not np.array_equal(self.columns, np.arange(self.n_inputs))

    @property
    def scales(self) -> bool:
        """Whether the chosen columns are changed at all."""
        moved = self.shift.any() or (self.scale != 1).any()
        return bool(moved or np.isfinite(self.clip) or self.knots)

    def after(self, shift: np.ndarray, scale: np.ndarray) -> FeatureScaling:
        """The scaling of columns that are first mapped to ``(x - shift) * scale``."""
        shift, scale = shift[self.columns], scale[self.columns]
        knots = {j: (x / scale[j] + shift[j], u) for j, (x, u) in self.knots.items()}
        return replace(self, shift=shift + self.shift / scale, scale=scale * self.scale, knots=knots)

    def apply(self, X: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """The features, every number and operation in the given dtype."""
        x = X.astype(dtype)[:, self.columns]
        u: np.ndarray = (x - self.shift.astype(dtype)) * self.scale.astype(dtype)
        u = np.clip(u, dtype(-self.clip), dtype(self.clip))
        for j, (knots, values) in self.knots.items():
            u[:, j] = np.interp(x[:, j], knots.astype(dtype), values.astype(dtype))
        return u

    def undo(self, u: np.ndarray) -> np.ndarray:
        """Rows of X that have the given features, or the nearest that there are; columns not used are 0."""
        X = np.zeros((len(u), self.n_inputs))
        X[:, self.columns] = u / self.scale + self.shift
        for j, (knots, values) in self.knots.items():
            X[:, self.columns[j]] = np.interp(u[:, j], values, knots)
        return X


def affine(scaler: Any) -> tuple[np.ndarray, np.ndarray]:
    """``shift`` and ``scale`` of a fitted scaler that maps x to ``(x - shift) * scale``."""
    if type(scaler).__name__ == "TableFeatures" and scaler.encoder_ is None and not scaler.holes_:
        return affine(scaler.scaler_)  # nothing but numbers, none of them missing
    if not isinstance(scaler, Scaler) or getattr(scaler, "clip", False):
        raise ValueError(
            f"the pipeline's step {scaler!r} cannot be written in this format; expected a StandardScaler, "
            "MinMaxScaler, MaxAbsScaler or RobustScaler that does not clip. to_onnx knows more of them."
        )
    zeros, ones = np.zeros(scaler.n_features_in_), np.ones(scaler.n_features_in_)
    if isinstance(scaler, MinMaxScaler):
        return -scaler.min_ / scaler.scale_, scaler.scale_
    shift = getattr(scaler, "mean_" if isinstance(scaler, StandardScaler) else "center_", None)
    if isinstance(scaler, StandardScaler) and not scaler.with_mean:
        shift = None
    return zeros if shift is None else shift, ones if scaler.scale_ is None else 1 / scaler.scale_
