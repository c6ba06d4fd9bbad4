"""The half-thresholding operator and the coordinate step that it gives."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray

# Zero is the minimiser up to |z| = THRESHOLD t^(2/3).
THRESHOLD = 54 ** (1 / 3) / 4


def half_threshold(z: Any, t: Any) -> Any:
    r"""The minimiser of :math:`(x - z)^2 + t|x|^{1/2}` over x, elementwise.

    .. math:: x = \tfrac23 z\left(1 + \cos\left(\tfrac{2\pi}3 -
              \tfrac23\arccos\left(\tfrac t8 (|z|/3)^{-3/2}\right)\right)\right)
              \text{ if } |z| > \tfrac{54^{1/3}}4 t^{2/3}, \text{ else } 0.

    Parameters
    ----------
    z : array-like
    t : array-like
        Positive weight of the penalty; broadcast against ``z``.

    Returns
    -------
    array

    Notes
    -----
    The threshold is often printed as :math:`\tfrac34 t^{2/3}`; there the minimum at 0 is still
    the lower one. Between the two thresholds the formula gives the other, local minimum.

    References
    ----------
    Xu, Chang, Xu and Zhang (2012), "L1/2 regularization: a thresholding representation theory and
    a fast solver", IEEE Transactions on Neural Networks and Learning Systems 23(7), 1013-1027,
    doi:10.1109/TNNLS.2012.2197412.

    Examples
    --------
    >>> half_threshold([0.9, 1.0, 3.0], 1.0).round(4)
    array([0.    , 0.7015, 2.852 ])
    """
    z, t = np.broadcast_arrays(np.asarray(z, dtype=np.float64), np.asarray(t, dtype=np.float64))
    x = np.zeros(z.shape)
    on = np.abs(z) > THRESHOLD * t ** (2 / 3)
    angle = np.arccos(t[on] / 8 * (np.abs(z[on]) / 3) ** -1.5)
    x[on] = 2 / 3 * z[on] * (1 + np.cos(2 * np.pi / 3 - 2 / 3 * angle))
    return x[()]


def step_of(slope: Array, curvature: Array, at: Array | float = 0.0) -> tuple[Array, Array]:
    """Minimisers x of ``slope (x - at) + curvature (x - at)^2 / 2 + |x|^(1/2)``, and the decrease."""
    x = half_threshold(at - slope / curvature, 2 / curvature)
    move = x - at
    return x, np.sqrt(np.abs(at)) - np.sqrt(np.abs(x)) - slope * move - curvature * move**2 / 2
