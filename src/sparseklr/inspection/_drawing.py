"""Helpers for the displays: loading matplotlib on first use, colours, and the last step of a pipeline."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

#: Colours of contributions, the same for every class: support, opposition, intercept, sum.
FOR, AGAINST, NEUTRAL, TOTAL = "#1f5fbf", "#b4541a", "#8a929c", "#1f2328"
#: Colours of two classes; more classes use matplotlib's ``tab10``.
TWO_CLASSES = ("#b2182b", "#2166ac")


def pyplot() -> Any:
    """``matplotlib.pyplot``, loaded on first use."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'sparseklr[plots]'") from error
    return plt


def class_colors(n_classes: int) -> list[Any]:
    """A colour for each class."""
    if n_classes == 2:
        return list(TWO_CLASSES)
    tab10 = pyplot().get_cmap("tab10").colors
    return [tab10[k % len(tab10)] for k in range(n_classes)]


def last_step(estimator: Any, X: Any = None) -> tuple[Any, Any, Any]:
    """The last step of a pipeline, its input, and the names of its features if known."""
    if not isinstance(estimator, Pipeline):
        return estimator, X, getattr(estimator, "feature_names_in_", None)
    model, before, names = estimator[-1], estimator[:-1], None
    with suppress(AttributeError):  # a step may lack names for its output
        names = before.get_feature_names_out()
    return model, X if X is None else before.transform(X), names


def feature_labels(given: Any, known: Any, n_features: int) -> np.ndarray:
    """The feature names: those given by the user, otherwise the known ones, otherwise x0, x1, ... ."""
    if given is None:
        given = [f"x{j}" for j in range(n_features)] if known is None else known
    labels = np.array([str(name) for name in given], dtype=object)
    if len(labels) != n_features:
        raise ValueError(f"feature_names has {len(labels)} names; the model has {n_features} features.")
    return labels
