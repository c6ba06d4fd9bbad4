r"""Invariants of a fitted model: what must hold between three log-losses that every fit knows.

With :math:`L_0` the log-loss of the class fractions, :math:`L_e` an estimate of the loss on new rows and
:math:`L_t` the loss on the training rows, a sound model has

.. math:: L_t \le L_e \text{ up to the noise of } L_e, \qquad L_e < L_0 \text{ or the model is constant.}

A fit that violates the first has gone wrong after its estimate was made; one that violates the second has
found nothing that holds for new rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

# Features whose standard deviations differ by this factor hide each other in a kernel of one width.
_UNSCALED = 100.0


class Losses(NamedTuple):
    """Mean log-losses, with the standard error of the estimate."""

    fractions: float
    estimate: float
    error: float
    training: float

    @property
    def training_is_worse(self) -> bool:
        """Whether the model is worse on its training rows than it should be on new ones."""
        return not self.training <= self.estimate + self.error + 1e-9

    @property
    def nothing_found(self) -> bool:
        """Whether the class fractions are expected to do as well."""
        return not self.estimate < self.fractions


def entropy(weight: np.ndarray) -> float:
    """Log-loss of the class fractions, from the weight of each class.

    Examples
    --------
    >>> round(entropy(np.array([5.0, 5.0])), 4)
    0.6931
    """
    fraction = weight / weight.sum()
    positive = fraction[fraction > 0]
    return float(-positive @ np.log(positive))


def remedy(X: Any, names: Any) -> str:
    """What to do where nothing was found in rows X: scale the features if their scales differ widely.

    X is None where the kernel matrix was given.
    """
    advice = "If you expect one, try other values of gamma and kernel, or other features."
    if X is None or sparse.issparse(X) or X.shape[1] < 2:
        return advice
    spread = X.std(axis=0, dtype=np.float64)
    spread[~(spread > 0)] = np.nan
    if not np.nanmax(spread, initial=0) > _UNSCALED * np.nanmin(spread, initial=np.inf):
        return advice
    largest, smallest = int(np.nanargmax(spread)), int(np.nanargmin(spread))
    name = [f"{i}" if names is None else repr(str(names[i])) for i in (largest, smallest)]
    return (
        f"Feature {name[0]} varies {spread[largest] / spread[smallest]:.0f} times as much as feature "
        f"{name[1]}: standardise the features (sklearn.preprocessing.StandardScaler)."
    )
