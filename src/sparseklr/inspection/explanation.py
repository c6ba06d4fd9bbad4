"""The picture of an explanation: the points that speak for and against the prediction of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from .._sklearn import safe_indexing
from ._drawing import last_step, pyplot

# The same colours for every class: for it, against it, the intercept, the sum.
_FOR, _AGAINST, _INTERCEPT, _SUM = "#1f5fbf", "#b4541a", "#8a929c", "#1f2328"


class ExplanationDisplay:
    """What speaks for and against a class in one row: a bar for each of the strongest points.

    The bars add up to the log-odds of the class, which the lowest one shows: those of the points that have no
    bar of their own are summed, and the intercept has one.

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    names : sequence of str
        What each bar stands for.
    contributions : array (n_bars,)
        Contributions to the log-odds.
    label : object
        The class.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : BarContainer
        The contributions, and their sum last.

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

    def __init__(self, *, names: Sequence[str], contributions: np.ndarray, label: Any) -> None:
        self.names = names
        self.contributions = contributions
        self.label = label

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, row: int = 0, label: Any = None, n_points: int = 10, ax: Any = None
    ) -> Self:
        """Draw the explanation of a row.

        Parameters
        ----------
        estimator : object
            A fitted classifier with ``explain``, or a pipeline that ends in one.
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
        row : int, default=0
            The position of the row in X.
        label : object, default=None
            The class; None is the one that is predicted.
        n_points : int, default=10
            Bars of points at most.
        ax : matplotlib Axes, default=None
            Where to draw; None is a new figure.

        Returns
        -------
        ExplanationDisplay
        """
        model, X, _ = last_step(estimator, X)
        explanation = model.explain(safe_indexing(X, [row]))
        of_row = explanation.of_row(0, label)
        shown = of_row.strongest(n_points)
        points = np.arange(len(of_row.contributions)) if explanation.support is None else explanation.support
        kind = "point" if explanation.support is None else "row"
        names = [
            f"{kind} {points[k]}"
            + ("" if of_row.distance is None else f", distance {of_row.distance[k]:.3g}")
            for k in shown
        ]
        values = [*of_row.contributions[shown]]
        if n_others := len(points) - len(shown):
            names.append(f"{n_others} other points")
            values.append(np.delete(of_row.contributions, shown).sum())
        names.append("intercept")
        values.append(of_row.intercept)
        return cls(names=names, contributions=np.array(values), label=of_row.label).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None is a new figure.

        Returns
        -------
        self
        """
        n = len(self.names)
        if ax is None:
            _, ax = pyplot().subplots(figsize=(6.4, 1.2 + 0.28 * (n + 1)), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        total = float(self.contributions.sum())
        colors = [_FOR if value > 0 else _AGAINST for value in self.contributions]
        if n:
            colors[-1] = _INTERCEPT
        self.bars_ = ax.barh(
            np.arange(n + 1), [*self.contributions, total], color=[*colors, _SUM], height=0.7
        )
        ax.bar_label(self.bars_, fmt="%+.2f", padding=3, fontsize="small")
        ax.axvline(0, color=_SUM, linewidth=0.8)
        ax.axhline(n - 0.5, color=_INTERCEPT, linewidth=0.8)
        ax.set_yticks(np.arange(n + 1), [*self.names, "log-odds"], fontsize="small")
        ax.invert_yaxis()
        ax.margins(x=0.15)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(f"contribution to the log-odds of class {self.label}")
        return self
