"""The reliability diagram: observed frequency against predicted probability, with confidence bands."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from html import escape
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_scalar

from ..data import check_weight
from ._drawing import pyplot
from .metrics import Bins, Strategy, as_events, predicted_probabilities, wilson_interval

__all__ = ["ReliabilityDisplay"]


@dataclass(eq=False, repr=False)
class ReliabilityDisplay:
    r"""Reliability diagram with confidence bands and a histogram of the probabilities.

    Samples are grouped by predicted probability; each group is a point, its mean probability against the
    share in which the event came true. The band is the Wilson interval of that share,

    .. math::

        \frac{1}{1 + z^2/n} \left( \bar y + \frac{z^2}{2n}
        \pm z \sqrt{\frac{\bar y (1 - \bar y)}{n} + \frac{z^2}{4 n^2}} \right),

    bin by bin: a calibrated model has the diagonal inside its band in about 95 of 100 bins. Make one with
    :meth:`from_estimator` or :meth:`from_predictions`. :class:`sklearn.calibration.CalibrationDisplay` is
    the same curve without bands, weights and more than two classes.

    Parameters
    ----------
    prob_true, prob_pred : array (n_bins,)
        Share in which the event came true, and mean predicted probability; bins that are not empty.
    lower, upper : array (n_bins,)
        Ends of the Wilson interval of ``prob_true``. With sample weights, n is Kish's effective sample size
        :math:`(\sum w)^2 / \sum w^2`.
    weight : array (n_bins,)
        Weight of the samples of each bin: their number, without sample weights.
    y_prob : array (n_samples,)
        Predicted probabilities of the event.
    sample_weight : array (n_samples,), default=None
    confidence : float, default=0.95
        Level of the intervals.
    estimator_name : str, default=None
        Label of the curve.
    pos_label : int, float, bool or str, default=None
        The class whose probability is shown; None: the most probable class of each sample.

    Attributes
    ----------
    ax_, hist_ax_, figure_ : matplotlib Axes and Figure
        The diagram and the histogram below it (None without).
    line_, band_ : matplotlib Artist

    References
    ----------
    Wilson (1927), "Probable inference, the law of succession, and statistical inference", Journal of the
    American Statistical Association 22, 209-212. Brown, Cai and DasGupta (2001), "Interval estimation for a
    binomial proportion", Statistical Science 16, 101-133.

    Examples
    --------
    >>> import numpy as np
    >>> from sparseklr.inspection.reliability import ReliabilityDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)
    >>> display = ReliabilityDisplay.from_predictions(rng.uniform(size=2000) < p, p)
    >>> int(display.covered.sum()), len(display.covered)
    (10, 10)
    """

    prob_true: np.ndarray
    prob_pred: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    weight: np.ndarray
    y_prob: np.ndarray
    _: KW_ONLY
    sample_weight: np.ndarray | None = None
    confidence: float = 0.95
    estimator_name: str | None = None
    pos_label: Any = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_bins: int = 10,
        strategy: Strategy = "quantile",
        confidence: float = 0.95,
        sample_weight: Any = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ReliabilityDisplay:
        """Plot the diagram of a fitted classifier on data it was not fitted to.

        Parameters
        ----------
        estimator : object
            A fitted classifier with ``predict_proba``.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels.
        pos_label : int, float, bool or str, default=None
            The positive class of two; None: ``estimator.classes_[1]``. More than two classes have none:
            there the event is that the most probable class is the true one.
        name : str, default=None
            Label of the curve; None: the class name of the estimator.
        n_bins, strategy, confidence, sample_weight, ax, **kwargs
            As in :meth:`from_predictions`.

        Returns
        -------
        ReliabilityDisplay
        """
        y, y_prob, classes = predicted_probabilities(estimator, X, y)
        if len(classes) == 2:
            pos_label = classes[1] if pos_label is None else pos_label
            if pos_label not in classes:
                raise ValueError(
                    f"pos_label={pos_label!r} is not a class of the estimator: {classes.tolist()}."
                )
            y_prob = y_prob[:, list(classes).index(pos_label)]
        return cls.from_predictions(
            y,
            y_prob,
            n_bins=n_bins,
            strategy=strategy,
            confidence=confidence,
            sample_weight=sample_weight,
            pos_label=pos_label,
            labels=classes,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        n_bins: int = 10,
        strategy: Strategy = "quantile",
        confidence: float = 0.95,
        sample_weight: Any = None,
        pos_label: Any = None,
        labels: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ReliabilityDisplay:
        """Plot the diagram of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_prob : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities of the positive class; or of all classes, and the event is then that the most
            probable class is the true one.
        n_bins, strategy, sample_weight, pos_label, labels
            As in :func:`~sparseklr.inspection.metrics.expected_calibration_error`.
        confidence : float, default=0.95
            Level of the intervals, between 0 and 1.
        name : str, default=None
            Label of the curve.
        ax, **kwargs
            As in :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay
        """
        how = (n_bins, strategy, confidence, sample_weight, pos_label, labels, name)
        return cls._of(y_true, y_prob, *how).plot(ax=ax, **kwargs)

    @classmethod
    def _of(
        cls,
        y_true: Any,
        y_prob: Any,
        n_bins: int = 10,
        strategy: Strategy = "quantile",
        confidence: float = 0.95,
        sample_weight: Any = None,
        pos_label: Any = None,
        labels: Any = None,
        name: str | None = None,
    ) -> ReliabilityDisplay:
        """The numbers, without a picture."""
        check_scalar(confidence, "confidence", Real, min_val=0, max_val=1, include_boundaries="neither")
        event, prob = as_events(y_true, y_prob, pos_label=pos_label, labels=labels)
        if sample_weight is not None:
            sample_weight = check_weight(sample_weight, len(prob))
        bins = Bins.of(event, prob, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight)
        lower, upper = wilson_interval(bins.prob_true, bins.n_effective, confidence)
        return cls(
            bins.prob_true,
            bins.prob_pred,
            lower,
            upper,
            bins.weight,
            prob,
            sample_weight=sample_weight,
            confidence=confidence,
            estimator_name=name,
            pos_label=(1 if pos_label is None else pos_label) if np.ndim(y_prob) == 1 else None,
        )

    @property
    def covered(self) -> np.ndarray:
        """Where the predicted probability is inside the band, (n_bins,)."""
        return (self.lower <= self.prob_pred) & (self.prob_pred <= self.upper)

    @property
    def xlabel(self) -> str:
        """The event that the probabilities belong to, in words."""
        event = "the top class" if self.pos_label is None else f"class {self.pos_label}"
        return f"Predicted probability of {event}"

    @property
    def histogram(self) -> tuple[np.ndarray, np.ndarray]:
        """Shares of the predicted probabilities in 20 bins of equal width, and the edges of these."""
        weight = np.ones(len(self.y_prob)) if self.sample_weight is None else self.sample_weight
        return np.histogram(self.y_prob, np.linspace(0, 1, 21), weights=weight / weight.sum())

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        histogram: bool = True,
        **kwargs: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None: a new figure. Several displays may share one.
        name : str, default=None
            Label of the curve; None: ``estimator_name``.
        ref_line : bool, default=True
            Draw the diagonal of perfect calibration.
        histogram : bool, default=True
            Draw the histogram of predicted probabilities below the diagram (not in axes placed by hand).
        **kwargs
            For :meth:`matplotlib.axes.Axes.plot`: the look of the curve.

        Returns
        -------
        self : ReliabilityDisplay
        """
        if ax is None:
            _, ax = pyplot().subplots(figsize=(4.8, 5.6), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        label = self.estimator_name if name is None else name
        diagonal = "perfectly calibrated"
        if ref_line and diagonal not in ax.get_legend_handles_labels()[1]:
            ax.plot([0, 1], [0, 1], ":", color="gray", label=diagonal)
        style = {"marker": "o", "markersize": 4, **({} if label is None else {"label": label}), **kwargs}
        (self.line_,) = ax.plot(self.prob_pred, self.prob_true, **style)
        color = self.line_.get_color()
        self.band_ = ax.fill_between(self.prob_pred, self.lower, self.upper, color=color, alpha=0.15, lw=0)
        ax.vlines(self.prob_pred, self.lower, self.upper, color=color, alpha=0.6, lw=1)
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        ax.set_ylabel(f"Observed frequency ({100 * self.confidence:g}% interval)")
        self.hist_ax_ = self._plot_histogram(color) if histogram else None
        (self.hist_ax_ or ax).set_xlabel(self.xlabel)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="upper left")
        return self

    def _plot_histogram(self, color: Any) -> Any:
        """Draw it below the diagram, in axes that all displays on the same diagram share."""
        own, place, figure = "reliability histogram", self.ax_.get_subplotspec(), self.ax_.figure
        if place is None:  # axes placed by hand have no room to split
            return None
        grid, others = place.get_gridspec(), (axes for axes in figure.axes if axes.get_label() == own)
        hist_ax = next((axes for axes in others if axes.get_subplotspec().get_gridspec() is grid), None)
        if hist_ax is None:
            both = place.subgridspec(2, 1, height_ratios=[5, 1], hspace=0.08)
            self.ax_.set_subplotspec(both[0])
            self.ax_.tick_params(labelbottom=False)
            hist_ax = figure.add_subplot(both[1], sharex=self.ax_, label=own, ylabel="Share")
        hist_ax.stairs(*self.histogram, fill=True, facecolor=(color, 0.25), edgecolor=color)
        return hist_ax

    def to_svg(self) -> str:
        """The diagram as a picture to be put into a page, without matplotlib.

        Its colours are the CSS variables ``--line``, ``--faint`` and ``--curve`` of the page, so that it
        follows light and dark mode; the numbers of a point appear when the pointer is on it.
        """

        # The picture is 400 wide, the diagram 320 x 320 at (62, 8); the histogram below it is 44 high.
        def at(x: np.ndarray, y: np.ndarray) -> list[str]:
            return [f"{62 + 320 * u:.1f},{328 - 320 * v:.1f}" for u, v in zip(x, y, strict=True)]

        x, low, high = self.prob_pred, self.lower, self.upper
        share, edges = self.histogram
        heights = 44 * share / share.max()
        xlabel, ylabel = escape(self.xlabel), "Observed frequency"
        frame = 'fill="none" stroke="var(--line)"'
        curve = 'fill="none" stroke="var(--curve)"'
        parts = [f'<rect x="62" y="8" width="320" height="320" {frame}/>', f'<path d="M62 388h320" {frame}/>']
        for tick in np.linspace(0, 1, 6):
            parts.append(f'<text x="56" y="{332.5 - 320 * tick:g}" text-anchor="end">{tick:.1f}</text>')
            parts.append(f'<text x="{62 + 320 * tick:g}" y="404" text-anchor="middle">{tick:.1f}</text>')
        band = " ".join(at(x, low) + at(x, high)[::-1])
        parts += [
            f'<text x="222" y="426" text-anchor="middle">{xlabel}</text>',
            f'<text transform="translate(18 168) rotate(-90)" text-anchor="middle">{ylabel}</text>',
            '<path d="M62 328L382 8" stroke="var(--faint)" stroke-dasharray="2 4"/>',
            f'<polygon points="{band}" fill="var(--curve)" opacity=".16"/>',
            f'<polyline points="{" ".join(at(x, self.prob_true))}" {curve} stroke-width="1.8"/>',
        ]
        for start, end in zip(at(x, low), at(x, high), strict=True):
            parts.append(f'<path d="M{start}L{end}" {curve} opacity=".6"/>')
        for p, o, a, b, centre in zip(x, self.prob_true, low, high, at(x, self.prob_true), strict=True):
            cx, cy = centre.split(",")
            hint = f"<title>predicted {p:.3f}, observed {o:.3f} ({a:.3f} to {b:.3f})</title>"
            parts.append(f'<circle cx="{cx}" cy="{cy}" r="4" fill="var(--curve)">{hint}</circle>')
        for left, height in zip(edges, heights, strict=False):
            box = f'x="{62.5 + 320 * left:.1f}" y="{388 - height:.1f}" width="15" height="{height:.1f}"'
            parts.append(f'<rect {box} fill="var(--curve)" opacity=".45"/>')
        label = f"Reliability diagram: observed frequency against {xlabel.lower()}"
        return f'<svg viewBox="0 0 400 434" role="img" aria-label="{label}">{"".join(parts)}</svg>'
