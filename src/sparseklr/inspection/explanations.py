"""Plots of explanations: contributions of the points of a model, and Shapley values of the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._utils.sklearn_compat import safe_indexing
from ..explanations import ShapleyValues, decision_name
from ._drawing import AGAINST, FOR, NEUTRAL, TOTAL, last_step, pyplot

# The range of the contributions is divided into this number of bins; dots in one bin are stacked vertically.
_BINS = 100
# Number of characters of a feature name; longer names would leave no space for the plot.
_LONGEST_NAME = 36


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
        label, unit = row_explanation.label, decision_name(model.classes_)
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


@dataclass(eq=False, repr=False, kw_only=True)
class ShapleyDisplay:
    """Plot of Shapley values: the contribution of each feature to the log-odds of a class.

    The contributions of a row add up to the difference between its log-odds and the mean log-odds of a set of
    background rows, which represent the training data. With more than two classes, the decision value of the
    class takes the place of the log-odds. For one row, the plot is a waterfall chart that leads from this
    mean to the log-odds of the row. For many rows, each feature has a line of dots, one for each row, whose
    colours show the values of the feature; missing values are grey. Features are sorted by their mean
    absolute contribution.

    Create the display with :meth:`from_estimator` or :meth:`from_values`.

    Parameters
    ----------
    values : array (n_samples, n_features)
        Shapley values.
    base_value : float
        Mean log-odds or output of the background rows.
    data : array (n_samples, n_features)
        Values of the features.
    feature_names : list of str
        Names of the features.
    label : object
        The class whose log-odds are explained.
    max_features : int
        Maximum number of features shown separately; the contributions of all other features are summed.
    unit : str
        Name of the quantity to which the contributions add up, for the label of the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : BarContainer
        Only for one row: the bars of the base value, the features and the log-odds.
    points_ : list of PathCollection
        Only for many rows: the dots of each feature.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from sparseklr import ShapleyDisplay, SparseKLR
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = SparseKLR().fit(X, y)
    >>> display = ShapleyDisplay.from_estimator(model, X, label=2)
    >>> display.feature_names[display.order[0]]
    'petal length (cm)'
    """

    values: np.ndarray
    base_value: float
    data: np.ndarray
    feature_names: list[str]
    label: Any
    max_features: int = 10
    unit: str = "log-odds"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        row: int | None = None,
        label: Any = None,
        max_features: int = 10,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the Shapley values of one or all rows of X.

        Parameters
        ----------
        estimator : object
            A fitted classifier with a method ``explain``, or a pipeline whose last step is such a classifier.
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Rows to explain.
        row : int or None, default=None
            Position in X of the only row to explain; None explains all rows.
        label : object, default=None
            The class whose log-odds are explained. None means, for one row, the class with the largest
            log-odds, and for many rows, the last class.
        max_features : int, default=10
            Maximum number of features shown separately.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        **kwargs
            The arguments ``background`` and ``groups`` of ``explain``.

        Returns
        -------
        ShapleyDisplay
        """
        check_is_fitted(estimator)
        names = None
        if not hasattr(estimator, "explain"):
            estimator, X, names = last_step(estimator, X)
        found = estimator.explain(X, by="features", **kwargs)
        if names is not None and len(names) == len(found.feature_names) and "groups" not in kwargs:
            found.feature_names[:] = [str(name) for name in names]
        return cls.from_values(found, row=row, label=label, max_features=max_features, ax=ax)

    @classmethod
    def from_values(
        cls,
        shapley_values: ShapleyValues,
        *,
        row: int | None = None,
        label: Any = None,
        max_features: int = 10,
        ax: Any = None,
    ) -> Self:
        """Plot Shapley values that ``explain(X, by="features")`` returned.

        The other parameters are those of :meth:`from_estimator`.
        """
        n = len(shapley_values.values)
        if row is None and n == 1:
            row = 0
        if row is None:
            label = shapley_values.classes[-1] if label is None else label
            parts = [shapley_values.of_row(k, label) for k in range(n)]
            values, base, data = np.array([part[1] for part in parts]), parts[0][2], shapley_values.data
        else:
            label, one, base = shapley_values.of_row(row, label)
            values, data = one[None], shapley_values.data[[row]]
        names = shapley_values.feature_names
        display = cls(
            values=values,
            base_value=base,
            data=data,
            feature_names=names,
            label=label,
            max_features=max_features,
            unit=decision_name(shapley_values.classes),
        )
        return display.plot(ax)

    @property
    def order(self) -> np.ndarray:
        """Indices of the features, sorted by decreasing mean absolute contribution."""
        return np.argsort(-np.abs(self.values).mean(axis=0), kind="stable")

    def plot(self, ax: Any = None) -> Self:
        """Draw the Shapley values on ``ax``, or in a new figure if ``ax`` is None."""
        shown, others = self.order[: self.max_features], self.order[self.max_features :]
        one = len(self.values) == 1
        n_lines = len(shown) + bool(len(others)) + (2 if one else 0)
        if ax is None:
            _, ax = pyplot().subplots(figsize=(6.4, 1.2 + 0.32 * n_lines), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        values = [self.values[:, j] for j in shown]
        names = [_cut(self.feature_names[j], _LONGEST_NAME) for j in shown]
        if one:
            # NaN is a missing value in a table, otherwise a group of columns
            missing = " is missing" if self.data.dtype == object else ""
            values_of = [_value(self.data[0, j], missing) for j in shown]
            names = [name + value for name, value in zip(names, values_of, strict=True)]
        if len(others):
            values.append(self.values[:, others].sum(axis=1))
            names.append(f"{len(others)} other features")
        (self._plot_row if one else self._plot_rows)(values, names, shown)
        ax.invert_yaxis()
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        what = self.unit if one else f"contribution to the {self.unit}"
        ax.set_xlabel(f"{what} of class {self.label}".replace("$", r"\$"))
        return self

    def _plot_row(self, values: list[np.ndarray], names: list[str], shown: np.ndarray) -> None:
        """Draw the waterfall chart of one row: each bar begins where the previous bar ended."""
        ax, steps = self.ax_, np.array([value[0] for value in values])
        ends = self.base_value + np.cumsum(steps)
        starts = np.concatenate([[0.0], [self.base_value], ends[:-1], [0.0]])
        lengths = np.concatenate([[self.base_value], steps, [ends[-1] if len(ends) else self.base_value]])
        colors = [NEUTRAL, *(FOR if step > 0 else AGAINST for step in steps), TOTAL]
        y = np.arange(len(lengths))
        self.bars_ = ax.barh(y, lengths, left=starts, color=colors, height=0.7)
        numbers = [f"{length:+.2f}".replace("-", "\N{MINUS SIGN}") for length in lengths]
        ax.bar_label(self.bars_, numbers, padding=3, fontsize="small")
        edges = starts + lengths
        ax.vlines(edges[:-1], y[:-1] - 0.35, y[:-1] + 1.35, color=NEUTRAL, linewidth=0.8)
        ax.axvline(0, color=TOTAL, linewidth=0.8)
        labels = ["mean of the background rows", *names, "this row"]
        ax.set_yticks(y, [label.replace("$", r"\$") for label in labels], fontsize="small")
        ends = np.array([0.0, *starts, *edges])
        margin = 0.15 * float(np.ptp(ends)) or 1.0  # space for the numbers beside the bars
        ax.set_xlim(ends.min() - margin, ends.max() + margin)

    def _plot_rows(self, values: list[np.ndarray], names: list[str], shown: np.ndarray) -> None:
        """Draw a line of dots for each feature; dots at similar positions are separated vertically."""
        ax, self.points_ = self.ax_, []
        span = max(float(np.ptp(np.concatenate(values))), 1e-12)
        colours = pyplot().get_cmap("coolwarm").with_extremes(bad=NEUTRAL)  # grey for missing values
        for k, value in enumerate(values):
            shade = _ranks(self.data[:, shown[k]]) if k < len(shown) else None
            style: dict[str, Any] = {"color": NEUTRAL}
            if shade is not None:
                style = {"c": shade, "cmap": colours, "vmin": 0, "vmax": 1, "plotnonfinite": True}
            self.points_.append(
                ax.scatter(value, k + _spread(value, span / _BINS), s=9, linewidths=0, **style)
            )
        ax.axvline(0, color=NEUTRAL, linewidth=0.8, zorder=0)
        ax.set_yticks(np.arange(len(names)), [name.replace("$", r"\$") for name in names], fontsize="small")
        ax.set_ylim(-0.6, len(names) - 0.4)
        coloured = [points for points in self.points_ if points.get_array() is not None]
        if coloured:
            bar = ax.figure.colorbar(coloured[0], ax=ax, ticks=[0, 1], aspect=40, pad=0.02)
            bar.ax.set_yticklabels(["low", "high"], fontsize="small")
            bar.set_label("value of the feature", fontsize="small", labelpad=-10)
            bar.outline.set_visible(False)


def _value(value: Any, missing: str) -> str:
    """Return the value of a feature as text after its name; ``missing`` if it is NaN."""
    if isinstance(value, float | np.floating):
        return missing if np.isnan(value) else f" = {value:.4g}"
    return " = " + _cut(str(value).removesuffix(" 00:00:00"), 20)


def _cut(text: str, most: int) -> str:
    """Return the text, without its middle if it has more than ``most`` characters."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def _ranks(values: np.ndarray) -> np.ndarray | None:
    """Return the ranks of values, scaled to [0, 1]; None if some are not numbers or all are equal.

    Missing values keep NaN.
    """
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    missing = np.isnan(numbers)
    known, rank = np.unique(numbers[~missing], return_inverse=True)
    if len(known) < 2:
        return None
    ranks = np.full(len(numbers), np.nan)
    ranks[~missing] = rank / (len(known) - 1)
    return ranks


def _spread(values: np.ndarray, width: float) -> np.ndarray:
    """Return vertical offsets, at most 0.4 in size, that separate dots in the same bin of width ``width``."""
    bins = np.floor(values / width).astype(np.int64)
    order = np.lexsort((values, bins))
    first = np.append(True, np.diff(bins[order]) > 0)
    position = np.arange(len(values)) - np.maximum.accumulate(np.where(first, np.arange(len(values)), 0))
    offset = np.empty(len(values))
    offset[order] = np.where(position % 2, 1, -1) * ((position + 1) // 2)
    return 0.4 * offset / max(4.0, float(np.abs(offset).max(initial=1.0)))
