"""Why a model predicts what it does: what each of its points adds to the log-odds of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .points import PredictsFromPoints


@dataclass(frozen=True, eq=False)
class RowExplanation:
    """Why one row gets its log-odds of one class; positive contributions speak for the class.

    Attributes
    ----------
    label : object
        The class.
    contributions : array (n_points,)
    intercept : float
        What is there without any point.
    distance : array (n_points,) or None
    """

    label: Any
    contributions: np.ndarray
    intercept: float
    distance: np.ndarray | None

    @property
    def log_odds(self) -> float:
        """Of the class against the others: the sum of all contributions and the intercept."""
        return float(self.contributions.sum() + self.intercept)

    def strongest(self, n_points: int = 10) -> np.ndarray:
        """Positions of the points of the largest contributions, for or against, strongest first."""
        return np.argsort(-np.abs(self.contributions), kind="stable")[:n_points]

    def nearest(self, n_points: int = 10) -> np.ndarray:
        """Positions of the nearest points; of the strongest where there is no distance."""
        if self.distance is None:
            return self.strongest(n_points)
        return np.argsort(self.distance, kind="stable")[:n_points]


@dataclass(frozen=True, eq=False)
class Explanation:
    r"""What every point of a model adds to the decision values of some rows.

    A decision value is a sum over the points of the model, :math:`f(x) = \sum_b \beta_b k(x_b, x) + c`, and
    so its explanation is exact: ``contributions.sum(axis=-1) + intercept`` is ``decision_function(X)``.

    Attributes
    ----------
    contributions : array (n_samples, n_points) or (n_samples, n_classes, n_points)
        :math:`\beta_b k(x_b, x)`; the first form for two classes, where a positive one speaks for the second.
        With ``calibration="sigmoid"`` and ``"link"`` they are multiplied by the ratio of the calibrated value
        and f.
    intercept : array (n_samples,) or (n_samples, n_classes)
    distance : array (n_samples, n_points) or None
        Euclidean distance of each row from each point, in the features that the estimator is given. For
        :class:`~sparseklr.CompactKLR` in its scaled features, each multiplied by the root of its relevance.
        None for a precomputed kernel, which does not tell.
    support : array (n_points,) or None
        Indices of the points among the training rows; None where points are not rows.
    classes : array (n_classes,)
    """

    contributions: np.ndarray
    intercept: np.ndarray
    distance: np.ndarray | None
    support: np.ndarray | None
    classes: np.ndarray

    def of_row(self, row: int = 0, label: Any = None) -> RowExplanation:
        """Why a row gets its log-odds of a class.

        Parameters
        ----------
        row : int, default=0
            Its position among the rows explained.
        label : object, default=None
            The class; None is the most probable one of the row.

        Returns
        -------
        RowExplanation
        """
        contributions, intercept = self.contributions[row], self.intercept[row]
        value = contributions.sum(axis=-1) + intercept
        if label is None:
            code = int(value > 0) if value.ndim == 0 else int(np.argmax(value))
        else:
            known = np.flatnonzero(self.classes == label)
            if not len(known):
                raise ValueError(f"label must be one of {self.classes.tolist()}; got {label!r}.")
            code = int(known[0])
        if value.ndim == 0:
            sign = 1.0 if code == 1 else -1.0
            contributions, intercept = sign * contributions, sign * intercept
        else:
            contributions, intercept = contributions[code], intercept[code]
        distance = None if self.distance is None else self.distance[row]
        return RowExplanation(self.classes[code], contributions, float(intercept), distance)


class ExplainsByPoints(PredictsFromPoints):
    """Mixin of classifiers that predict from points: what each of them adds."""

    def _line(self, outputs: np.ndarray) -> tuple[Any, Any]:
        """Slope and offset of the calibration at each output: it is ``slope * outputs + offset``."""
        return 1.0, 0.0

    def explain(self, X: Any) -> Explanation:
        """What each point of the model adds to the decision values of some rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Few rows: the result has a number for each pair of row and point.

        Returns
        -------
        Explanation

        See Also
        --------
        sparseklr.ExplanationDisplay : The picture of one row.
        """
        self._outputs(X)  # checks that no value overflows
        rows = self._checked(X)
        contributions = self._kernel_to_points(rows)[:, None, :] * self.dual_coef_
        outputs = contributions.sum(axis=2) + self.intercept_
        slope, offset = self._line(outputs)
        intercept = self.intercept_ * slope + np.zeros_like(outputs) + offset
        contributions *= np.broadcast_to(slope, outputs.shape)[:, :, None]
        if len(self.classes_) == 2:
            contributions, intercept = contributions[:, 0], intercept[:, 0]
        support = getattr(self, "support_", None)
        return Explanation(contributions, intercept, self._distance_to_points(rows), support, self.classes_)
