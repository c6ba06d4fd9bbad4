"""Plot of the contributions of the points of a kernel model to the prediction for one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .._utils.sklearn_compat import safe_indexing
from ..shapley import decision_name
from ._drawing import AGAINST, FOR, NEUTRAL, TOTAL, last_step, pyplot


@dataclass(eq=False, repr=False, kw_only=True)
class ExplanationDisplay:
    """Bar chart of the contributions of the points of a kernel model to the log-odds of a class for one row.

    The log-odds are the sum of one contribution from each point and the intercept. With more than two
    classes, the output of the class takes the place of the log-odds. The points with the largest absolute
    contributions have a bar each. One further bar shows the sum over the remaining points, and one the
    intercept. The lowest bar is the sum of all bars above it: the log-odds.

    Create the display with :meth:`from_estimator`.

    Parameters
    ----------
    names : sequence of str
        Labels of the bars, without the lowest bar.
    contributions : array (n_bars,)
        Contributions to the log-odds; the intercept is the last one.
    label : object
        The class whose log-odds are shown.
    unit : str, default="log-odds"
        Name of the quantity to which the contributions add up, for the labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : BarContainer
        Bars of the contributions, followed by the bar of their sum.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import ExplanationDisplay, SparseKLR
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> model = SparseKLR().fit(X, y)
    >>> display = ExplanationDisplay.from_estimator(model, X[:1], n_points=5)
    >>> bool(abs(display.contributions.sum() - abs(model.decision_function(X[:1])[0])) < 1e-9)
    True
    """

    names: Sequence[str]
    contributions: np.ndarray
    label: Any
    unit: str = "log-odds"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, row: int = 0, label: Any = None, n_points: int = 10, ax: Any = None
    ) -> Self:
        """Plot the contributions to the prediction for one row.

        Parameters
        ----------
        estimator : object
            A fitted classifier with a method ``explain``, or a pipeline whose last step is such a classifier.
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Table that contains the row to explain.
        row : int, default=0
            Position of the row in X.
        label : object, default=None
            The class whose log-odds are explained; None means the predicted class.
        n_points : int, default=10
            Maximum number of points with their own bar.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        ExplanationDisplay
        """
        model, X, _ = last_step(estimator, X)
        explanation = model.explain(safe_indexing(X, [row]))
        row_explanation = explanation.of_row(0, label)
        contributions, distance = row_explanation.contributions, row_explanation.distance
        strongest = row_explanation.strongest(n_points)
        points = np.arange(len(contributions)) if explanation.support is None else explanation.support
        kind = "point" if explanation.support is None else "row"
        names = [
            f"{kind} {points[k]}" + ("" if distance is None else f", distance {distance[k]:.3g}")
            for k in strongest
        ]
        values = [*contributions[strongest]]
        if n_others := len(points) - len(strongest):
            names.append(f"{n_others} other points")
            values.append(np.delete(contributions, strongest).sum())
        names.append("intercept")
        values.append(row_explanation.intercept)
        unit = decision_name(model.classes_)
        label = row_explanation.label
        return cls(names=names, contributions=np.array(values), label=label, unit=unit).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the bars on ``ax``, or in a new figure if ``ax`` is None."""
        n = len(self.names)
        if ax is None:
            _, ax = pyplot().subplots(figsize=(6.4, 1.2 + 0.28 * (n + 1)), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        total = float(self.contributions.sum())
        colors = [FOR if value > 0 else AGAINST for value in self.contributions]
        if n:
            colors[-1] = NEUTRAL
        self.bars_ = ax.barh(
            np.arange(n + 1), [*self.contributions, total], color=[*colors, TOTAL], height=0.7
        )
        ax.bar_label(self.bars_, fmt="%+.2f", padding=3, fontsize="small")
        ax.axvline(0, color=TOTAL, linewidth=0.8)
        ax.axhline(n - 0.5, color=NEUTRAL, linewidth=0.8)
        ax.set_yticks(np.arange(n + 1), [*self.names, self.unit], fontsize="small")
        ax.invert_yaxis()
        ax.margins(x=0.15)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(f"contribution to the {self.unit} of class {self.label}")
        return self
