"""Displays of the parts of a sparse kernel model: its points, and the features that it uses."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from ._drawing import class_colors, feature_labels, last_step, pyplot

Kind = Literal["auto", "table", "images", "plane"]
_GRID = 121  # number of grid cells along each axis of the probability surface


@dataclass(eq=False, repr=False)
class PrototypesDisplay:
    r"""The points of a sparse kernel model, and the class that each supports.

    In :math:`f(x) = \sum_b \beta_b k(x, z_b) + c` a point :math:`z_b` supports the second of two classes if
    :math:`\beta_b > 0` and the first if it is negative, with weight :math:`|\beta_b|`. With more classes it
    supports the class with the largest coefficient, and its weight is that coefficient minus the mean over
    the classes. A point need not be an example of the class it supports: many points only correct the
    effect of others.

    Create the display with :meth:`from_estimator`.

    Parameters
    ----------
    points : array (n_points, n_features)
    codes : array of int (n_points,)
        The class that each point supports, as an index into ``classes``.
    weight : array (n_points,)
        How strongly each point supports its class.
    classes : array (n_classes,)
    feature_names : array of str (n_features,)
    importance : array (n_features,)
        Importance of the features, which determines the columns of the table.
    model : estimator
        The model whose ``predict_proba`` is shown as a surface on the plane.
    X : array (n_rows, n_features) or None, default=None
        Rows to compare the points with.
    y : array (n_rows,) or None, default=None
        Their classes.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
        The first image if the points are images.
    axes_ : array of Axes
        One per image; otherwise only ``ax_``.
    shown_ : array of int
        The points shown, sorted by class and decreasing weight.
    columns_ : array of int
        The features shown: columns of the table, axes of the plane, all pixels.

    See Also
    --------
    RelevanceDisplay : The features of the same model.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_wine
    >>> from sparseklr import CompactKLR, PrototypesDisplay
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = CompactKLR(3, C=100).fit(X, y)
    >>> display = PrototypesDisplay.from_estimator(model, X, max_features=4)
    >>> sorted(display.classes[display.codes].tolist())
    [0, 1, 2]
    """

    points: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    classes: np.ndarray
    feature_names: np.ndarray
    importance: np.ndarray
    model: Any
    X: np.ndarray | None = None
    y: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        kind: Kind = "auto",
        image_shape: tuple[int, int] | None = None,
        features: tuple[int | str, int | str] | None = None,
        max_points: int = 20,
        max_features: int = 8,
        feature_names: Any = None,
        ax: Any = None,
    ) -> PrototypesDisplay:
        """Draw the points of a fitted model.

        Parameters
        ----------
        estimator : CompactKLR, SparseKLR, a baseline of the package, or a Pipeline that ends with one
            The fitted model. The points and rows of a pipeline are shown as the input of its last step.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows to compare with, such as the training data: the table is shaded by the fraction of rows with
            smaller values, and the plane shows them.
        y : array-like of shape (n_samples,), default=None
            Classes of the rows, which colour them on the plane.
        feature_names : sequence of str, default=None
            None means the columns of the data frame used in ``fit``, or x0, x1, ... without one.
        kind, image_shape, features, max_points, max_features, ax
            As in :meth:`plot`.

        Returns
        -------
        PrototypesDisplay
        """
        check_is_fitted(estimator)
        model, X, known = last_step(estimator, X)
        points = getattr(model, "points_", getattr(model, "support_vectors_", None))
        if points is None or len(model.dual_coef_) not in (1, len(model.classes_)):
            raise TypeError(
                f"estimator: expected a CompactKLR or another kernel model of this package; got {model!r}."
            )
        points = _dense(points)
        names = feature_labels(feature_names, known, points.shape[1])
        if X is not None:
            X = _dense(X)
            if X.ndim != 2 or X.shape[1] != points.shape[1]:
                raise ValueError(f"X: expected {points.shape[1]} features; got the shape {X.shape}.")
        if y is not None:
            y = np.asarray(y)
            if X is None or len(y) != len(X):
                rows = "no rows" if X is None else f"{len(X)} rows"
                raise ValueError(f"y: expected one class for each row of X; got {len(y)} for {rows}.")
        codes, weight = _supported_class(np.asarray(model.dual_coef_))
        importance = getattr(model, "feature_importances_", np.ones(points.shape[1]))
        display = cls(points, codes, weight, model.classes_, names, importance, model, X, y)
        return display.plot(
            ax,
            kind=kind,
            image_shape=image_shape,
            features=features,
            max_points=max_points,
            max_features=max_features,
        )

    def plot(
        self,
        ax: Any = None,
        *,
        kind: Kind = "auto",
        image_shape: tuple[int, int] | None = None,
        features: tuple[int | str, int | str] | None = None,
        max_points: int = 20,
        max_features: int = 8,
    ) -> PrototypesDisplay:
        """Draw the points.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None creates a new figure. Images replace the axes.
        kind : {"auto", "table", "images", "plane"}, default="auto"
            ``"table"``: a row for each point, a column for each of the most important features.
            ``"images"``: an image for each point, with features as pixels.
            ``"plane"``: marks on the plane of two features, with the probabilities of the model.
            ``"auto"``: images if ``image_shape`` is given, the plane if ``features`` is given or there are
            only two features, else a table.
        image_shape : tuple (height, width), default=None
            Shape of the images.
        features : tuple of two features, default=None
            Axes of the plane, as indices or names; required if there are more than two features. The others
            are fixed at the median of X, or at the mean of the points without X.
        max_points : int, default=20
            Largest number of points shown, those with the largest weight.
        max_features : int, default=8
            Number of columns of the table.

        Returns
        -------
        self : PrototypesDisplay
        """
        n_features = len(self.feature_names)
        if kind == "auto":
            on_plane = features is not None or n_features == 2
            kind = "images" if image_shape is not None else "plane" if on_plane else "table"
        heaviest = np.argsort(-self.weight, kind="stable")[:max_points]
        self.shown_ = heaviest[np.lexsort((-self.weight[heaviest], self.codes[heaviest]))]
        if kind == "table":
            self.columns_ = np.argsort(-self.importance, kind="stable")[:max_features]
            return self._plot_table(ax)
        if kind == "images":
            if image_shape is None or image_shape[0] * image_shape[1] != n_features:
                raise ValueError(
                    f"image_shape: expected (height, width) of {n_features} pixels; got {image_shape}."
                )
            self.columns_ = np.arange(n_features)
            return self._plot_images(ax, image_shape)
        if kind == "plane":
            if features is None and n_features != 2:
                raise ValueError(f"features: expected two of the {n_features} features; got None.")
            self.columns_ = np.array([self._index(feature) for feature in features or (0, 1)])
            return self._plot_plane(ax)
        raise ValueError(f"kind: expected 'auto', 'table', 'images' or 'plane'; got {kind!r}.")

    def _index(self, feature: int | str) -> int:
        """Position of a feature given by its position or name."""
        if isinstance(feature, str):
            found = np.flatnonzero(self.feature_names == feature)
            if not len(found):
                raise ValueError(f"features: there is no feature {feature!r}.")
            return int(found[0])
        return range(len(self.feature_names))[feature]

    def _title(self) -> str:
        total, shown = len(self.points), len(self.shown_)
        if not total:
            return "The model has no points: it predicts the class fractions"
        return f"{shown} of {total} points" if shown < total else f"{total} point{'s'[: total > 1]}"

    # -- a table ------------------------------------------------------------------------------

    def _plot_table(self, ax: Any) -> PrototypesDisplay:
        plt = pyplot()
        values = self.points[np.ix_(self.shown_, self.columns_)]
        n_rows, n_columns = values.shape
        if ax is None:
            size = (2.6 + 0.95 * n_columns, 2.2 + 0.33 * max(n_rows, 2))
            _, ax = plt.subplots(figsize=size, layout="constrained")
        self._set_axes(ax)
        ax.set_title(self._title())
        if not n_rows:
            ax.set_axis_off()
            return self
        shades = ax.imshow(
            self._positions(values), cmap="PuOr_r", vmin=-0.25, vmax=1.25, aspect="auto", origin="upper"
        )
        for (row, column), value in np.ndenumerate(values):
            ax.text(column, row, _short(value), ha="center", va="center", fontsize="small")
        ax.set_xticks(range(n_columns), self.feature_names[self.columns_], rotation=30, ha="left")
        ax.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
        ax.set_yticks(range(n_rows), [self._label(b) for b in self.shown_])
        colors = class_colors(len(self.classes))
        for tick, b in zip(ax.get_yticklabels(), self.shown_, strict=True):
            tick.set_color(colors[self.codes[b]])
        ax.spines[:].set_visible(False)
        compared = (
            "between the smallest and the largest point" if self.X is None else "fraction of rows of X below"
        )
        place: dict[str, Any] = {"location": "bottom", "shrink": 0.5, "aspect": 40, "pad": 0.02}
        bar = self.figure_.colorbar(shades, ax=ax, label=compared, boundaries=np.linspace(0, 1, 101), **place)
        bar.set_ticks([0, 0.5, 1])
        return self

    def _positions(self, values: np.ndarray) -> np.ndarray:
        """Position of each value from 0 to 1: among the rows of X, or between the extremes of the points."""
        if self.X is None:
            low, high = values.min(axis=0), values.max(axis=0)
            return np.where(high > low, (values - low) / np.where(high > low, high - low, 1), 0.5)
        columns = self.X[:, self.columns_]
        below = [
            [
                np.mean(column < v) + 0.5 * np.mean(column == v)
                for v, column in zip(row, columns.T, strict=True)
            ]
            for row in values
        ]
        return np.array(below)

    def _label(self, b: int) -> str:
        return f"{self.classes[self.codes[b]]}  {_short(self.weight[b])}"

    # -- images -------------------------------------------------------------------------------

    def _plot_images(self, ax: Any, shape: tuple[int, int]) -> PrototypesDisplay:
        plt = pyplot()
        images = self.points[self.shown_].reshape(-1, *shape)
        n_columns = min(max(len(images), 1), 10)
        n_rows = -(-max(len(images), 1) // n_columns)
        if ax is None:
            size = (max(1.1 * n_columns, 3.0), 0.5 + 1.35 * n_rows)
            figure, ax = plt.subplots(figsize=size, layout="constrained")
            figure.suptitle(self._title())
        ax.set_axis_off()
        grid = ax.get_subplotspec().subgridspec(n_rows, n_columns)
        colors = class_colors(len(self.classes))
        axes = []
        for k, (b, image) in enumerate(zip(self.shown_, images, strict=True)):
            small = ax.figure.add_subplot(grid[divmod(k, n_columns)], xticks=[], yticks=[])
            small.imshow(image, cmap="gray_r", vmin=images.min(), vmax=images.max())
            small.set_title(self._label(b), fontsize="small", color=colors[self.codes[b]])
            axes.append(small)
        self._set_axes(*axes or [ax])
        return self

    # -- the plane of two features ------------------------------------------------------------

    def _plot_plane(self, ax: Any) -> PrototypesDisplay:
        plt = pyplot()
        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        self._set_axes(ax)
        marks = self.points[np.ix_(self.shown_, self.columns_)]
        rows = np.empty((0, 2)) if self.X is None else self.X[:, self.columns_]
        together = np.vstack([marks, rows]) if len(marks) + len(rows) else np.array([[-1.0, -1], [1, 1]])
        low, high = together.min(axis=0), together.max(axis=0)
        margin = np.where(high > low, 0.08 * (high - low), 1.0)
        axes = [np.linspace(a, b, _GRID) for a, b in zip(low - margin, high + margin, strict=True)]
        self._surface(ax, *axes)
        colors = class_colors(len(self.classes))
        if len(rows):
            code = np.searchsorted(self.classes, self.y) if self.y is not None else None
            shade = "0.35" if code is None else [colors[k] for k in code]
            ax.scatter(*rows.T, c=shade, s=8, alpha=0.45, linewidths=0, zorder=2)
        size = 40 + 160 * self.weight[self.shown_] / self.weight.max(initial=np.finfo(float).tiny)
        for k, label in enumerate(self.classes):
            members = self.codes[self.shown_] == k
            ax.scatter(
                *marks[members].T, s=size[members], color=colors[k], edgecolors="black", linewidths=1.4,
                zorder=3, label=f"point for {label}",
            )  # fmt: skip
        ax.legend(fontsize="small")
        ax.set(xlabel=self.feature_names[self.columns_[0]], ylabel=self.feature_names[self.columns_[1]])
        level = "mean over the points" if self.X is None else "median"
        rest = f"\nother features at their {level}" if len(self.feature_names) > 2 else ""
        ax.set_title(self._title() + rest)
        return self

    def _surface(self, ax: Any, across: np.ndarray, up: np.ndarray) -> None:
        """Draw the probabilities on a grid of two features, with the other features fixed."""
        plt = pyplot()
        centre = self.points if self.X is None else np.median(self.X, axis=0)[None]
        fixed = centre.mean(axis=0) if len(centre) else np.zeros(len(self.feature_names))
        cells = np.tile(fixed, (_GRID**2, 1))
        cells[:, self.columns_] = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            p = self.model.predict_proba(cells).reshape(_GRID, _GRID, -1)
        if p.shape[2] == 2:
            levels = np.linspace(0, 1, 11)
            shades = ax.contourf(across, up, p[..., 1], levels=levels, cmap="RdBu", alpha=0.6, zorder=0)
            ax.contour(across, up, p[..., 1], levels=[0.5], colors="black", linewidths=1, zorder=1)
            self.figure_.colorbar(shades, ax=ax, label=f"P({self.classes[1]})")
        else:  # pale colours mixed by the probabilities: three equally likely classes give grey
            rgb = np.array([plt.matplotlib.colors.to_rgb(color) for color in class_colors(p.shape[2])])
            extent = (across[0], across[-1], up[0], up[-1])
            ax.imshow(1 - 0.55 * (1 - p @ rgb), extent=extent, origin="lower", aspect="auto", zorder=0)

    def _set_axes(self, *axes: Any) -> None:
        self.axes_ = np.array(axes, dtype=object)
        self.ax_, self.figure_ = axes[0], axes[0].figure


def _short(value: float) -> str:
    """A number with about three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def _supported_class(coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The index of the class that each point supports, and its weight."""
    if len(coef) == 1:
        return (coef[0] > 0).astype(int), np.abs(coef[0])
    centred = coef - coef.mean(axis=0)  # softmax ignores a constant added to all classes
    return centred.argmax(axis=0), centred.max(axis=0, initial=0.0)


# -- features -----------------------------------------------------------------------------------------

_LABELS = {"importance": "Feature importance", "relevance": "Relevance (gamma of the scaled feature)"}


@dataclass(eq=False, repr=False)
class RelevanceDisplay:
    r"""Bar chart of the importance of each feature of a compact model; dropped features are marked.

    A feature with :math:`\gamma_j = 0` in :math:`k(x, z) = \exp(-\sum_j \gamma_j (x_j - z_j)^2)` does not
    enter the model: :class:`~sparseklr.CompactKLR` with ``relevance="sparse"`` drops such features. Create
    the display with :meth:`from_estimator`.

    Parameters
    ----------
    importance : array (n_features,)
        ``feature_importances_`` of the model.
    relevance : array (n_features,)
        ``relevance_`` of the model, the kernel coefficients gamma; 0 for a dropped feature.
    feature_names : array of str (n_features,)

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : BarContainer
        One bar for each feature shown, the largest at the top.
    shown_ : array of int
        The features shown: kept ones by decreasing value, then dropped ones.

    See Also
    --------
    PrototypesDisplay : The points of the same model.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from sparseklr import CompactKLR, RelevanceDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> display = RelevanceDisplay.from_estimator(CompactKLR(4, C=100).fit(X, y))
    >>> display.ax_.get_title()
    '4 of 4 features kept'
    """

    importance: np.ndarray
    relevance: np.ndarray
    feature_names: np.ndarray

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        values: Literal["importance", "relevance"] = "importance",
        max_features: int = 20,
        feature_names: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> RelevanceDisplay:
        """Draw the features of a fitted model.

        Parameters
        ----------
        estimator : CompactKLR or Pipeline
            Fitted. The features of a pipeline are those of its last step.
        feature_names : sequence of str, default=None
            None means the columns of the data frame used in ``fit``, or x0, x1, ... without one.
        values, max_features, ax, **kwargs
            As in :meth:`plot`.

        Returns
        -------
        RelevanceDisplay
        """
        check_is_fitted(estimator)
        model, _, known = last_step(estimator)
        if not hasattr(model, "relevance_"):
            raise TypeError(f"estimator: expected a CompactKLR, which has relevance_; got {model!r}.")
        names = feature_labels(feature_names, known, model.n_features_in_)
        display = cls(model.feature_importances_, model.relevance_, names)
        return display.plot(ax, values=values, max_features=max_features, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        values: Literal["importance", "relevance"] = "importance",
        max_features: int = 20,
        **kwargs: Any,
    ) -> RelevanceDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None creates a new figure.
        values : {"importance", "relevance"}, default="importance"
            Length of the bars. The importance is the mean squared derivative of the outputs and sums to one;
            the relevance is gamma of the scaled feature.
        max_features : int, default=20
            Largest number of features shown, the largest values first and dropped features last.
        **kwargs
            Arguments of :meth:`matplotlib.axes.Axes.barh`.

        Returns
        -------
        self : RelevanceDisplay
        """
        if values not in _LABELS:
            raise ValueError(f"values: expected 'importance' or 'relevance'; got {values!r}.")
        kept = self.relevance > 0
        length = self.importance if values == "importance" else self.relevance
        self.shown_ = shown = np.lexsort((-length, ~kept))[:max_features]
        if ax is None:
            _, ax = pyplot().subplots(figsize=(6.0, 1.2 + 0.28 * len(shown)), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        place = np.arange(len(shown))
        self.bars_ = ax.barh(place, length[shown], **{"color": "#2166ac", "label": "kept", **kwargs})
        dropped = place[~kept[shown]]
        if len(dropped):
            zero = np.zeros(len(dropped))
            ax.plot(zero, dropped, "x", color="0.45", clip_on=False, zorder=3, label="dropped")
            ax.legend(loc="lower right")
        ax.set_yticks(place, self.feature_names[shown])
        for tick, feature in zip(ax.get_yticklabels(), shown, strict=True):
            tick.set_color("black" if kept[feature] else "0.45")
        ax.tick_params(axis="y", length=0, pad=8)  # space for the crosses
        ax.invert_yaxis()
        ax.set_xlim(left=0)
        ax.set_xlabel(_LABELS[values])
        part = f", {len(shown)} shown" if len(shown) < len(kept) else ""
        ax.set_title(f"{kept.sum()} of {len(kept)} features kept{part}")
        return self
