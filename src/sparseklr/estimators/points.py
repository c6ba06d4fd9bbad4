"""What a classifier that predicts from points must tell about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .prediction import PredictsFromOutputs

ALL = slice(None)


class PredictsFromPoints(PredictsFromOutputs):
    """Mixin of classifiers whose outputs are ``dual_coef_ @ k(points, x) + intercept_``.

    A classifier implements these methods; all but the first take rows that were checked.
    """

    dual_coef_: np.ndarray
    intercept_: np.ndarray

    def _checked(self, X: Any) -> Any:
        """The rows, if the model is fitted and can predict them."""
        raise TypeError(f"{type(self).__name__} must implement _checked")

    def _kernel_to_points(self, rows: Any, some: Any = ALL) -> np.ndarray:
        """Kernel values between rows and points, or some of the points, float64 (n_rows, n_points)."""
        raise TypeError(f"{type(self).__name__} must implement _kernel_to_points")

    def _distance_to_points(self, rows: Any) -> np.ndarray | None:
        """Their distances; None where they are not known."""
        raise TypeError(f"{type(self).__name__} must implement _distance_to_points")

    def _kernel_of_points(self, some: Any = ALL) -> np.ndarray:
        """Kernel values among the points, or some of them."""
        raise TypeError(f"{type(self).__name__} must implement _kernel_of_points")

    def _diagonal(self, rows: Any) -> np.ndarray | None:
        """k(x, x) of each row; None where it is not known."""
        raise TypeError(f"{type(self).__name__} must implement _diagonal")
