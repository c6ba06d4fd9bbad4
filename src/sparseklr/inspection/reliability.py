"""Reliability diagram of a classifier, and a report on its predicted probabilities."""

from __future__ import annotations

import io
import json
import re
from dataclasses import KW_ONLY, dataclass, field
from html import escape
from numbers import Real
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from sklearn.pipeline import Pipeline
from sklearn.utils import check_scalar

from ..weights import check_weight
from ._drawing import pyplot
from .metrics import (
    Bins,
    Strategy,
    as_events,
    expected_calibration_error,
    predicted_probabilities,
    smooth_calibration_error,
    wilson_interval,
)

__all__ = ["ProbabilityReport", "ReliabilityDisplay", "probability_report"]

#: Labels of the entries of a report's summary, and formats of their values.
LABELS = {
    "n_rows": ("Rows", "d"),
    "n_classes": ("Classes", "d"),
    "prevalence": ("Prevalence", ".1%"),
    "accuracy": ("Accuracy", ".1%"),
    "log_loss": ("Log-loss", ".4f"),
    "brier": ("Brier score", ".4f"),
    "ece": ("Calibration error (ECE)", ".4f"),
    "smooth_ece": ("Smooth calibration error", ".4f"),
    "n_points": ("Points", "d"),
    "points_fraction": ("Fraction of training rows kept", ".1%"),
}


@dataclass(eq=False, repr=False)
class ReliabilityDisplay:
    r"""Reliability diagram with confidence bands, above a histogram of the predicted probabilities.

    Samples are grouped into bins by their predicted probability of an event, such as the event that a sample
    belongs to the positive class. For each bin, the diagram shows the fraction of the samples for which the
    event occurred, against the mean predicted probability. The band is Wilson's confidence interval for this
    fraction, computed for each bin separately:

    .. math::

        \frac{1}{1 + z^2/n} \left( \bar y + \frac{z^2}{2n}
        \pm z \sqrt{\frac{\bar y (1 - \bar y)}{n} + \frac{z^2}{4 n^2}} \right),

    where :math:`\bar y` is the fraction, n the number of samples in the bin, and z the quantile of the normal
    distribution for the confidence level. If the model is calibrated, about 95 of 100 intervals of level 95%
    contain the mean predicted probability of their bin. :class:`sklearn.calibration.CalibrationDisplay` draws
    the same curve, but without a band, without sample weights, and only for two classes.

    Create the display with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    prob_true, prob_pred : array (n_bins,)
        For each non-empty bin, the fraction of samples for which the event occurred, and the mean predicted
        probability.
    lower, upper : array (n_bins,)
        Limits of Wilson's interval for ``prob_true``. With sample weights, n is Kish's effective sample size
        :math:`(\sum w)^2 / \sum w^2`.
    weight : array (n_bins,)
        Total weight of the samples in each bin, or their number if there are no sample weights.
    y_prob : array (n_samples,)
        Predicted probabilities of the event.
    sample_weight : array (n_samples,), default=None
        Weights of the samples.
    confidence : float, default=0.95
        Confidence level of the intervals.
    estimator_name : str, default=None
        Label of the curve.
    pos_label : int, float, bool or str, default=None
        The positive class; the event is that a sample belongs to it. If None, the event is that the most
        probable class is the true class.

    Attributes
    ----------
    ax_, hist_ax_, figure_ : matplotlib Axes and Figure
        Axes of the diagram, axes of the histogram (None if there is no histogram), and the figure.
    line_, band_ : matplotlib Artist
        The curve and the confidence band.

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
        pos_label: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> ReliabilityDisplay:
        """Plot the reliability diagram of a fitted classifier on test data.

        Parameters
        ----------
        estimator : object
            A fitted classifier with ``predict_proba``.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Test data that were not used to fit the classifier.
        y : array-like of shape (n_samples,)
            True labels.
        pos_label : int, float, bool or str, default=None
            The positive class if there are two classes; None means ``estimator.classes_[1]``. With more than
            two classes, it must be None; the diagram then shows how often the most probable class is the true
            class.
        name : str, default=None
            Label of the curve; None means the class name of the estimator.
        **kwargs
            Further arguments of :meth:`from_predictions`, such as ``sample_weight``, ``n_bins`` and ``ax``.

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
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, y_prob, pos_label=pos_label, labels=classes, name=name, **kwargs)

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
        """Plot the reliability diagram of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_prob : array-like of shape (n_samples,) or (n_samples, n_classes)
            Predicted probabilities of the positive class, or of every class. If there is a column for each
            class, the event is that the most probable class is the true class.
        n_bins, strategy, sample_weight, pos_label, labels
            As in :func:`~sparseklr.inspection.metrics.expected_calibration_error`.
        confidence : float, default=0.95
            Confidence level of the intervals, between 0 and 1.
        name : str, default=None
            Label of the curve.
        ax, **kwargs
            As in :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay
        """
        options = (n_bins, strategy, confidence, sample_weight, pos_label, labels, name)
        return cls.compute(y_true, y_prob, *options).plot(ax=ax, **kwargs)

    @classmethod
    def compute(
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
        """Return the display without drawing it; the parameters are those of :meth:`from_predictions`."""
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
        """For each bin, whether the confidence interval contains the mean predicted probability."""
        return (self.lower <= self.prob_pred) & (self.prob_pred <= self.upper)

    @property
    def xlabel(self) -> str:
        """Label of the horizontal axis, which names the event."""
        event = "the top class" if self.pos_label is None else f"class {self.pos_label}"
        return f"Predicted probability of {event}"

    @property
    def histogram(self) -> tuple[np.ndarray, np.ndarray]:
        """The fractions of the samples in 20 bins of equal width, and the edges of these bins."""
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
        """Draw the reliability diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure. Several diagrams can be drawn on the same axes.
        name : str, default=None
            Label of the curve; None means ``estimator_name``.
        ref_line : bool, default=True
            Draw the diagonal of perfect calibration.
        histogram : bool, default=True
            Draw the histogram of the predicted probabilities below the diagram. There is no histogram if
            ``ax`` was placed manually, outside a grid of subplots.
        **kwargs
            Arguments that are passed on to :meth:`matplotlib.axes.Axes.plot` for the curve.

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
        (self.hist_ax_ or ax).set_xlabel(
            self.xlabel.replace("$", r"\$")
        )  # a class name must not be read as a formula
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="upper left")
        return self

    def _plot_histogram(self, color: Any) -> Any:
        """Draw the histogram below the diagram and return its axes, or None if there is no space for it.

        Displays that are drawn on the same axes also share the axes of the histogram.
        """
        label, place, figure = "reliability histogram", self.ax_.get_subplotspec(), self.ax_.figure
        if place is None:  # axes that were placed manually cannot be split in two
            return None
        grid, others = place.get_gridspec(), (axes for axes in figure.axes if axes.get_label() == label)
        hist_ax = next((axes for axes in others if axes.get_subplotspec().get_gridspec() is grid), None)
        if hist_ax is None:
            both = place.subgridspec(2, 1, height_ratios=[5, 1], hspace=0.08)
            self.ax_.set_subplotspec(both[0])
            self.ax_.tick_params(labelbottom=False)
            hist_ax = figure.add_subplot(both[1], sharex=self.ax_, label=label, ylabel="Fraction")
        hist_ax.stairs(*self.histogram, fill=True, facecolor=(color, 0.25), edgecolor=color)
        return hist_ax


# -- the report ------------------------------------------------------------------------------------


def probability_report(estimator: Any, X: Any, y: Any, *, sample_weight: Any = None) -> ProbabilityReport:
    """Return a report on the predicted probabilities of a fitted classifier on test data.

    Parameters
    ----------
    estimator : object
        A fitted classifier with ``predict_proba``.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Test data that were not used to fit the classifier.
    y : array-like of shape (n_samples,)
        True labels of the rows of X.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the rows.

    Returns
    -------
    ProbabilityReport
        Metrics and a reliability diagram.

    See Also
    --------
    ReliabilityDisplay : The reliability diagram alone.
    sparseklr.inspection.expected_calibration_error : The metric ``summary["ece"]``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SparseKLR, probability_report
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> model = SparseKLR().fit(X[:300], y[:300])
    >>> report = probability_report(model, X[300:], y[300:])
    >>> report.summary["n_rows"], report.summary["log_loss"] < 0.3
    (300, True)
    """
    y, y_prob, classes = predicted_probabilities(estimator, X, y)
    weight = None if sample_weight is None else check_weight(sample_weight, len(y))
    last = estimator
    while isinstance(last, Pipeline) or hasattr(last, "best_estimator_"):
        last = last[-1] if isinstance(last, Pipeline) else last.best_estimator_
    n_points, points_fraction = kept_points(last)
    event_prob, event = _event(y_prob, classes)
    summary = {
        **prediction_summary(y, y_prob, estimator.predict(X), classes, weight),
        "n_points": n_points,
        "points_fraction": points_fraction,
    }
    display = ReliabilityDisplay.compute(
        y, event_prob, sample_weight=weight, name=type(last).__name__, **event
    )
    return ProbabilityReport(summary, display)


def prediction_summary(
    y: np.ndarray, y_prob: np.ndarray, predicted: np.ndarray, classes: np.ndarray, weight: Any = None
) -> dict[str, Any]:
    """Return the entries of :attr:`ProbabilityReport.summary` that are computed from predictions alone."""
    weight = None if weight is None else check_weight(weight, len(y))
    fractions = np.array([np.average(y == label, weights=weight) for label in classes])
    event_prob, event = _event(y_prob, classes)
    return {
        "n_rows": len(y),
        "n_classes": len(classes),
        "prevalence": float(fractions[1] if len(classes) == 2 else fractions.max()),
        "accuracy": float(accuracy_score(y, predicted, sample_weight=weight)),
        "log_loss": float(log_loss(y, y_prob, labels=classes, sample_weight=weight)),
        "brier": float(brier_score_loss(y, y_prob, labels=classes, sample_weight=weight)),
        "ece": expected_calibration_error(y, event_prob, sample_weight=weight, **event),
        "smooth_ece": smooth_calibration_error(y, event_prob, sample_weight=weight, **event),
    }


def _event(y_prob: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the probabilities of the second class or of all classes, and the arguments that name them."""
    return (y_prob[:, 1], {"pos_label": classes[1]}) if len(classes) == 2 else (y_prob, {"labels": classes})


def kept_points(estimator: Any) -> tuple[int | None, float | None]:
    """Return the number of points of a kernel model, and the fraction of the training rows that it keeps.

    Both are None for other models. The fraction is also None if the points are not training rows, or if the
    number of training rows is unknown.
    """
    if hasattr(estimator, "points_"):  # a CompactKLR, whose points are not training rows
        return len(estimator.points_), None
    if not hasattr(estimator, "support_") or not hasattr(estimator, "support_vectors_"):
        return None, None
    kept = len(estimator.support_)
    n = getattr(estimator, "n_samples_fit_", None) or getattr(estimator, "shape_fit_", [None])[0]
    return kept, kept / n if n else None


@dataclass(frozen=True, eq=False)
class ProbabilityReport:
    """Result of :func:`probability_report`. Notebooks show it as a table and a reliability diagram.

    Attributes
    ----------
    summary : dict
        Metrics of the predictions, with these keys:

        - ``n_rows`` and ``n_classes``: numbers of rows and classes
        - ``prevalence``: fraction of the positive class ``classes_[1]``; with more than two classes, fraction
          of the most frequent class
        - ``accuracy``: accuracy of ``predict``
        - ``log_loss``: as in scikit-learn, which replaces a probability of 0 with 2e-16, so that the loss of
          a row is at most 36
        - ``brier``: Brier score as in scikit-learn; with more than two classes, it can be as large as 2
        - ``ece``: expected calibration error with 15 bins of equal weight; with more than two classes, of the
          most probable class
        - ``smooth_ece``: smooth calibration error
        - ``n_points``: number of points of a kernel model, None for other models
        - ``points_fraction``: fraction of the training rows that are points; None if it is unknown, and for
          :class:`~sparseklr.CompactKLR`, whose points are not training rows
    display : ReliabilityDisplay
        The reliability diagram, not yet drawn.
    """

    summary: dict[str, Any]
    display: ReliabilityDisplay = field(repr=False)

    def figure(self) -> Any:
        """Draw the reliability diagram and return it as a matplotlib figure (needs ``sparseklr[plots]``)."""
        return self.display.plot().figure_

    def to_json(self) -> str:
        """Return the summary and the curve of the reliability diagram as JSON text."""
        names = ("prob_pred", "prob_true", "lower", "upper", "weight")
        curve = {name: getattr(self.display, name).tolist() for name in names}
        content = {"estimator": self.display.estimator_name, "summary": self.summary}
        return json.dumps({**content, "confidence": self.display.confidence, "curve": curve}, indent=2)

    def to_markdown(self) -> str:
        """Return the summary as a Markdown table."""
        rows = [(_plain(label), value) for label, value in self._rows()]
        lines = [f"| {_plain(str(self.display.estimator_name))} | |", "|---|---:|"]
        return "\n".join(lines + [f"| {label} | {value} |" for label, value in rows]) + "\n"

    def _repr_html_(self) -> str:
        """Return HTML with the summary and, if matplotlib is installed, the reliability diagram."""
        display, name = self.display, escape(str(self.display.estimator_name))
        verdict = (
            f"Rows with similar predictions were grouped into {len(display.covered)} bins. In "
            f"{display.covered.sum()} of them, the mean predicted probability is inside the "
            f"{100 * display.confidence:g}% confidence interval for the observed frequency."
        )
        rows = "".join(f"<tr><th>{escape(label)}</th><td>{value}</td></tr>" for label, value in self._rows())
        return f"<h3>Probabilities of {name}</h3><p>{verdict}</p><table>{rows}</table>{self._picture()}"

    def _picture(self) -> str:
        try:
            plt = pyplot()
        except ImportError:
            return ""
        buffer, figure = io.StringIO(), self.figure()
        figure.savefig(buffer, format="svg")
        plt.close(figure)
        return "".join(buffer.getvalue().partition("<svg")[1:])

    def _rows(self) -> list[tuple[str, str]]:
        """Return the labels and formatted values of the entries of the summary that are not None."""
        names = {key: label for key, (label, _) in LABELS.items()}
        two = self.display.pos_label is not None
        names["prevalence"] = f"Fraction of class {self.display.pos_label}" if two else "Largest class"
        known = {key: value for key, value in self.summary.items() if value is not None}
        return [(names[key], format(value, LABELS[key][1])) for key, value in known.items()]


def _plain(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    return re.sub(r"[\\`*|<\[\]]|&(?=#?\w+;)", r"\\\g<0>", " ".join(text.split()))
