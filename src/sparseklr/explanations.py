"""Explanations of predictions: contributions of the points of a model, and Shapley values of the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class RowExplanation:
    """Contribution of every point of a model to the log-odds of one class for one row.

    Attributes
    ----------
    label : object
        The class.
    contributions : array (n_points,)
        Contribution of each point to the log-odds. Positive values support the class.
    intercept : float
        The log-odds without any contribution.
    distance : array (n_points,) or None
        Distance of the row from each point; None for a precomputed kernel.
    """

    label: Any
    contributions: np.ndarray
    intercept: float
    distance: np.ndarray | None

    @property
    def log_odds(self) -> float:
        """Log-odds of the class against the other classes, the sum of all contributions and the intercept."""
        return float(self.contributions.sum() + self.intercept)

    def strongest(self, n_points: int = 10) -> np.ndarray:
        """Return the indices of the points with the largest absolute contributions, largest first."""
        return np.argsort(-np.abs(self.contributions), kind="stable")[:n_points]

    def nearest(self, n_points: int = 10) -> np.ndarray:
        """Return the indices of the nearest points, or :meth:`strongest` if distances are unknown."""
        if self.distance is None:
            return self.strongest(n_points)
        return np.argsort(self.distance, kind="stable")[:n_points]


@dataclass(frozen=True, eq=False)
class Explanation:
    r"""Contribution of every point of a model to the decision values of the explained rows.

    A decision value is a sum over the points :math:`x_b` of the model,
    :math:`f(x) = \sum_b \beta_b k(x_b, x) + c`. The explanation is therefore exact:
    ``contributions.sum(axis=-1) + intercept`` equals ``decision_function(X)``.

    Attributes
    ----------
    contributions : array (n_samples, n_points) or (n_samples, n_classes, n_points)
        The terms :math:`\beta_b k(x_b, x)`. With two classes, the middle axis is absent and positive values
        support the second class. If the model has a calibration, the terms are multiplied by its slope (with
        ``calibration="link"``, by the ratio of the calibrated decision value to f).
    intercept : array (n_samples,) or (n_samples, n_classes)
        The decision values without any contribution.
    distance : array (n_samples, n_points) or None
        Euclidean distance of each row from each point; None for a precomputed kernel.
        :class:`~sparseklr.SparseKLR` and :class:`~sparseklr.CompactKLR` measure the distance in features that
        are scaled and weighted by relevance.
    support : array (n_points,) or None
        Indices of the points among the training rows; None if the points are not training rows.
    classes : array (n_classes,)
        The class labels.
    """

    contributions: np.ndarray
    intercept: np.ndarray
    distance: np.ndarray | None
    support: np.ndarray | None
    classes: np.ndarray

    def of_row(self, row: int = 0, label: Any = None) -> RowExplanation:
        """Return the explanation of the log-odds of one class for one row.

        Parameters
        ----------
        row : int, default=0
            Position of the row among the explained rows.
        label : object, default=None
            The class; None means the most probable class of the row.

        Returns
        -------
        RowExplanation
        """
        contributions, intercept = self.contributions[row], self.intercept[row]
        code = class_code(self.classes, label, contributions.sum(axis=-1) + intercept)
        if contributions.ndim == 1:
            sign = 1.0 if code == 1 else -1.0
            contributions, intercept = sign * contributions, sign * intercept
        else:
            contributions, intercept = contributions[code], intercept[code]
        distance = None if self.distance is None else self.distance[row]
        return RowExplanation(self.classes[code], contributions, float(intercept), distance)


@dataclass(frozen=True, eq=False)
class ShapleyValues:
    r"""Shapley values of the features for the decision values of the explained rows.

    They add up to the decision values: ``values.sum(axis=1) + base_values`` equals ``decision_function(X)``.
    The arrays have the names and shapes of ``shap.Explanation``. For the plots of the package shap, use
    ``shap.Explanation(e.values, e.base_values, e.data, feature_names=e.feature_names)``.

    Attributes
    ----------
    values : array (n_samples, n_features) or (n_samples, n_features, n_classes)
        Shapley values of the decision values. A group of columns counts as one feature. With two classes, the
        last axis is absent and positive values support the second class.
    base_values : array (n_samples,) or (n_samples, n_classes)
        Mean decision value of the background rows.
    data : array (n_samples, n_features)
        The values of the features; NaN for a group of several columns.
    feature_names : list of str
        Names of the features.
    classes : array (n_classes,)
        The class labels.
    interactions : array (n_samples, n_features, n_features) or (n_samples, n_features, n_features, n_classes)
        Shapley interaction values, or None. The interaction of a pair of features is divided equally between
        the entries (i, j) and (j, i). The diagonal contains the main effects, defined so that each row sums
        to ``values``.
    """

    values: np.ndarray
    base_values: np.ndarray
    data: np.ndarray
    feature_names: list[str]
    classes: np.ndarray
    interactions: np.ndarray | None = None

    def of_row(self, row: int = 0, label: Any = None) -> tuple[Any, np.ndarray, float]:
        """Return the Shapley values of one row for one class.

        Parameters
        ----------
        row : int, default=0
            Position of the row among the explained rows.
        label : object, default=None
            The class; None means the class with the largest decision value.

        Returns
        -------
        label : object
            The class.
        values : array (n_features,)
            Shapley values. Positive values support the class.
        base_value : float
            Mean decision value of the background rows for the class.
        """
        values, base = self.values[row], self.base_values[row]
        code = class_code(self.classes, label, values.sum(axis=0) + base)
        if values.ndim == 2:
            return self.classes[code], values[:, code], float(base[code])
        sign = 1.0 if code == 1 else -1.0
        return self.classes[code], sign * values, sign * float(base)

    def to_frame(self) -> Any:
        """Return the values as a pandas data frame with a column for each (class and) feature."""
        import pandas as pd

        if self.values.ndim == 2:
            return pd.DataFrame(self.values, columns=self.feature_names)
        columns = pd.MultiIndex.from_product([self.classes, self.feature_names], names=["class", "feature"])
        return pd.DataFrame(self.values.transpose(0, 2, 1).reshape(len(self.values), -1), columns=columns)


def class_code(classes: np.ndarray, label: Any, decision: Any) -> int:
    """Return the index of the class ``label``; None means the class with the largest decision value."""
    if label is None:
        return int(np.argmax(decision)) if np.ndim(decision) else int(decision > 0)
    known = np.flatnonzero(classes == label)
    if not len(known):
        raise ValueError(f"label must be one of {classes.tolist()}; got {label!r}.")
    return int(known[0])
