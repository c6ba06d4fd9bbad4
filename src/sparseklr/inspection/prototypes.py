"""Plot of the points of a sparse kernel model."""

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
    r"""Plot of the points of a sparse kernel model, and of the class that each point supports.

    The points of a model with two classes are the :math:`z_b` in the log-odds
    :math:`f(x) = \sum_b \beta_b k(x, z_b) + c` of the second class. The point :math:`z_b` supports the second
    class if :math:`\beta_b > 0`, and the first class if :math:`\beta_b < 0`. Its weight is
    :math:`|\beta_b|`. With more than two classes, a point has one coefficient per class. It supports the
    class with the largest coefficient, and its weight is this coefficient minus the mean of its coefficients.
    A point need not lie among the samples of the class that it supports, since it may only correct the effect
    of other points.

    Create the display with :meth:`from_estimator`.

    Parameters
    ----------
    points : array (n_points, n_features)
        The points :math:`z_b`.
    codes : array of int (n_points,)
        The class that each point supports, as an index into ``classes``.
    weight : array (n_points,)
        The weight of each point, as defined above.
    classes : array (n_classes,)
        The classes of the model.
    feature_names : array of str (n_features,)
        Names of the features.
    importance : array (n_features,)
        Importance of the features; a table of points shows the most important features.
    model : estimator
        The model; its ``predict_proba`` colours the background if the points are shown on a plane.
    X : array (n_rows, n_features) or None, default=None
        Data with which the points are compared.
    y : array (n_rows,) or None, default=None
        Classes of the rows of X.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
        Axes of the plot; the axes of the first image if the points are shown as images.
    axes_ : array of Axes
        Axes of all images if the points are shown as images; otherwise only ``ax_``.
    shown_ : array of int
        Indices of the points shown, sorted by the class that they support and by decreasing weight.
    columns_ : array of int
        Indices of the features shown: the columns of the table, the axes of the plane, or all pixels.

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
        feature_names: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> PrototypesDisplay:
        """Plot the points of a fitted model.

        Parameters
        ----------
        estimator : object
            A fitted CompactKLR, SparseKLR or other kernel model of this package, or a pipeline whose last
            step is such a model. For a pipeline, points and rows are shown as the last step receives them.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Data with which the points are compared, such as the training data. In the table, the colour of a
            cell is the fraction of the rows of X with a smaller value. On the plane, the rows are drawn as
            dots.
        y : array-like of shape (n_samples,), default=None
            Classes of the rows of X, which determine the colours of the dots.
        feature_names : sequence of str, default=None
            Names of the features. None means the column names of the data frame passed to ``fit``, or x0,
            x1, ... if the model was not fitted to a data frame.
        ax, **kwargs
            As in :meth:`plot`: ``kind``, ``image_shape``, ``features``, ``max_points`` and ``max_features``.

        Returns
        -------
        PrototypesDisplay
        """
        check_is_fitted(estimator)
        model, X, known = last_step(estimator, X)
        points = getattr(model, "points_", getattr(model, "support_vectors_", None))
        if points is None or len(model.dual_coef_) not in (1, len(model.classes_)):
            raise TypeError(
                "estimator: expected a CompactKLR, a SparseKLR or another kernel model of this package; got "
                f"{model!r}."
            )
        points = _dense(points)
        names = feature_labels(feature_names, known, points.shape[1])
        if X is not None:
            X = _dense(X)
            if X.ndim != 2 or X.shape[1] != points.shape[1]:
                raise ValueError(
                    f"X: expected an array with {points.shape[1]} features; got an array of shape {X.shape}."
                )
        if y is not None:
            y = np.asarray(y)
            if X is None or len(y) != len(X):
                rows = "no rows" if X is None else f"{len(X)} rows"
                raise ValueError(f"y must have one label for each row of X; got {len(y)} labels for {rows}.")
        codes, weight = _supported_class(np.asarray(model.dual_coef_))
        importance = getattr(model, "feature_importances_", np.ones(points.shape[1]))
        return cls(points, codes, weight, model.classes_, names, importance, model, X, y).plot(ax, **kwargs)

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
        """Draw the points as a table, as images or on a plane.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure. Images are drawn in new axes in the place of ``ax``.
        kind : {"auto", "table", "images", "plane"}, default="auto"
            ``"table"``: one row per point, and one column for each of the most important features.
            ``"images"``: one image per point, whose pixels are the features.
            ``"plane"``: one mark per point on the plane of two features; the background shows the predicted
            probabilities.
            ``"auto"``: images if ``image_shape`` is given; else the plane if ``features`` is given or there
            are exactly two features; else the table.
        image_shape : tuple (height, width), default=None
            Shape of the images.
        features : tuple of two features, default=None
            The two features on the axes of the plane, as indices or names; required if there are more than
            two features. The predicted probabilities are computed with all other features fixed at the median
            of X, or at the mean of the points if X is None.
        max_points : int, default=20
            Maximum number of points shown; the points with the largest weights are shown.
        max_features : int, default=8
            Maximum number of columns of the table.

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
                    f"image_shape: expected (height, width) with a product of {n_features}, the number of "
                    f"features; got {image_shape}."
                )
            self.columns_ = np.arange(n_features)
            return self._plot_images(ax, image_shape)
        if kind == "plane":
            if features is None and n_features != 2:
                raise ValueError(
                    f"features: expected the names or indices of two of the {n_features} features; got None."
                )
            self.columns_ = np.array([self._index(feature) for feature in features or (0, 1)])
            return self._plot_plane(ax)
        raise ValueError(f"kind: expected 'auto', 'table', 'images' or 'plane'; got {kind!r}.")

    def _index(self, feature: int | str) -> int:
        """Return the index of a feature, which is given by its name or its index."""
        if isinstance(feature, str):
            found = np.flatnonzero(self.feature_names == feature)
            if not len(found):
                raise ValueError(
                    f"features: there is no feature {feature!r}; the features are "
                    f"{', '.join(self.feature_names)}."
                )
            return int(found[0])
        return range(len(self.feature_names))[feature]

    def _title(self) -> str:
        total, shown = len(self.points), len(self.shown_)
        if not total:
            return "The model has no points and predicts the same probabilities everywhere"
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
            "position between the smallest and largest value among the points"
            if self.X is None
            else "fraction of the rows of X with a smaller value"
        )
        place: dict[str, Any] = {"location": "bottom", "shrink": 0.5, "aspect": 40, "pad": 0.02}
        bar = self.figure_.colorbar(shades, ax=ax, label=compared, boundaries=np.linspace(0, 1, 101), **place)
        bar.set_ticks([0, 0.5, 1])
        return self

    def _positions(self, values: np.ndarray) -> np.ndarray:
        """Return a number from 0 to 1 for each value, which determines its colour in the table.

        It is the fraction of the rows of X with a smaller value, where ties count one half. Without X, it is
        the position of the value between the smallest and the largest value among the points.
        """
        if self.X is None:
            low, high = values.min(axis=0), values.max(axis=0)
            return np.where(high > low, (values - low) / np.where(high > low, high - low, 1), 0.5)
        columns = self.X[:, self.columns_]
        below = np.mean(columns < values[:, None], axis=1)
        return below + 0.5 * np.mean(columns == values[:, None], axis=1)

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
                zorder=3, label=f"point that supports {label}",
            )  # fmt: skip
        ax.legend(fontsize="small")
        ax.set(xlabel=self.feature_names[self.columns_[0]], ylabel=self.feature_names[self.columns_[1]])
        level = "mean over the points" if self.X is None else "median"
        rest = f"\nother features at their {level}" if len(self.feature_names) > 2 else ""
        ax.set_title(self._title() + rest)
        return self

    def _surface(self, ax: Any, across: np.ndarray, up: np.ndarray) -> None:
        """Draw the predicted probabilities on a grid of two features; all other features are fixed."""
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
        else:  # a pale mixture of the colours of the classes, weighted by their probabilities
            rgb = np.array([plt.matplotlib.colors.to_rgb(color) for color in class_colors(p.shape[2])])
            extent = (across[0], across[-1], up[0], up[-1])
            ax.imshow(1 - 0.55 * (1 - p @ rgb), extent=extent, origin="lower", aspect="auto", zorder=0)

    def _set_axes(self, *axes: Any) -> None:
        self.axes_ = np.array(axes, dtype=object)
        self.ax_, self.figure_ = axes[0], axes[0].figure


def _short(value: float) -> str:
    """Return a number as text with about three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def _supported_class(coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the class that each point supports, and the weight of each point."""
    if len(coef) == 1:
        return (coef[0] > 0).astype(int), np.abs(coef[0])
    centred = coef - coef.mean(axis=0)  # a constant added to all classes does not change the softmax
    return centred.argmax(axis=0), centred.max(axis=0, initial=0.0)
