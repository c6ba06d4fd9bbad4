"""The picture of the features that a compact model looks at, and of those that it dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._drawing import feature_labels, last_step, pyplot

_LABELS = {"importance": "Feature importance", "relevance": "Relevance (gamma of the scaled feature)"}


@dataclass(eq=False, repr=False)
class RelevanceDisplay:
    r"""Bars of how much a compact model hangs on each feature; dropped features are set off.

    A feature with :math:`\gamma_j = 0` in :math:`k(x, z) = \exp(-\sum_j \gamma_j (x_j - z_j)^2)` does not
    enter the model at all: :class:`~sparseklr.CompactKLR` with ``relevance="sparse"`` drops features so.
    Create the display with :meth:`from_estimator`.

    Parameters
    ----------
    importance : array (n_features,)
        ``feature_importances_`` of the model.
    relevance : array (n_features,)
        ``relevance_`` of the model, the widths gamma; 0 for a dropped feature.
    feature_names : array of str (n_features,)

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : BarContainer
        One bar for each feature that is shown, the largest at the top.
    shown_ : array of int
        The features of the bars: kept ones by falling value, then dropped ones.

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
            Fitted. Of a pipeline, the features are those that its last step sees.
        feature_names : sequence of str, default=None
            Names to show; None: those of the data frame that the model was fitted to, else x0, x1, ...
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
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None is a new figure.
        values : {"importance", "relevance"}, default="importance"
            The length of the bars. The importance is the mean squared derivative of the outputs and sums to
            one; the relevance is the width gamma of the kernel in the scaled feature.
        max_features : int, default=20
            Show at most so many, the largest first and dropped ones last.
        **kwargs
            For :meth:`matplotlib.axes.Axes.barh`: the look of the bars.

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
        ax.tick_params(axis="y", length=0, pad=8)  # room for the crosses
        ax.invert_yaxis()
        ax.set_xlim(left=0)
        ax.set_xlabel(_LABELS[values])
        part = f", {len(shown)} shown" if len(shown) < len(kept) else ""
        ax.set_title(f"{kept.sum()} of {len(kept)} features kept{part}")
        return self
