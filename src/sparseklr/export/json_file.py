"""Models as JSON: numbers that a program in any language can read and evaluate in a few lines."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .portable import PortableModel


def to_json(model: Any) -> str:
    """A fitted classifier as JSON text.

    Parameters
    ----------
    model : estimator or pipeline
        A fitted classifier of this package, a search over one, or a pipeline of scalers that ends in one.

    Returns
    -------
    str
        An object with the attributes of the model: ``format`` ("sparseklr"), ``version`` (1), ``kernel``,
        ``gamma``, ``coef0``, ``degree``, ``points``, ``coef``, ``intercept``, ``margin``, ``classes``,
        ``scores`` and ``scaling``. The page "Exporting a model" of the documentation says what
        they mean and has a reader in JavaScript. Every number is written with all its digits.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SparseKLR
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> text = to_json(SparseKLR().fit(X, y))
    >>> text[:60]
    '{"format": "sparseklr", "version": 1, "kernel": "rbf", "gamm'
    """
    portable = PortableModel.of(model)
    scaling = portable.scaling
    values = {
        **vars(portable),
        "scaling": {
            **vars(scaling),
            "clip": scaling.clip if np.isfinite(scaling.clip) else None,
            "knots": [scaling.knots.get(j) for j in range(len(scaling.columns))],
        },
    }
    content = {"format": "sparseklr", "version": 1, **values}
    return json.dumps(content, default=np.ndarray.tolist, allow_nan=False)
