"""Helpers that the plots share: import of matplotlib, colours, pipelines and feature names."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

#: Colours of contributions to a prediction: for the class, against the class, the intercept, the sum.
FOR, AGAINST, NEUTRAL, TOTAL = "#1f5fbf", "#b4541a", "#8a929c", "#1f2328"
#: Colours of the classes in a two-class problem. With more classes the colours come from ``tab10``.
TWO_CLASSES = ("#b2182b", "#2166ac")


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``, which is imported at the first call."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'sparseklr[plots]'") from error
    return plt


def class_colors(n_classes: int) -> list[Any]:
    """Return one colour per class; the colours repeat after ten classes."""
    if n_classes == 2:
        return list(TWO_CLASSES)
    tab10 = pyplot().get_cmap("tab10").colors
    return [tab10[k % len(tab10)] for k in range(n_classes)]


def last_step(estimator: Any, X: Any = None) -> tuple[Any, Any, Any]:
    """Return the last step of a pipeline, X as this step receives it, and the names of its features.

    An estimator that is not a pipeline is its own last step. The names are None if they are unknown.
    """
    if not isinstance(estimator, Pipeline):
        return estimator, X, getattr(estimator, "feature_names_in_", None)
    model, before, names = estimator[-1], estimator[:-1], None
    with suppress(AttributeError):  # some transformers have no get_feature_names_out
        names = before.get_feature_names_out()
    return model, X if X is None else before.transform(X), names


def feature_labels(given: Any, known: Any, n_features: int) -> np.ndarray:
    """Return feature names: ``given`` by the user, else ``known`` from the data, else x0, x1, ..."""
    if given is None:
        given = [f"x{j}" for j in range(n_features)] if known is None else known
    labels = np.array([str(name) for name in given], dtype=object)
    if len(labels) != n_features:
        raise ValueError(f"feature_names has {len(labels)} names; the model has {n_features} features.")
    return labels
