"""Decision curve: the net benefit of decisions based on predicted probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..weights import check_weight
from ._drawing import pyplot
from .metrics import as_events, predicted_probabilities


@dataclass(eq=False, repr=False, kw_only=True)
class DecisionCurveDisplay:
    r"""Decision curve: the net benefit of acting on the rows whose predicted probability reaches a threshold.

    A row of the positive class on which you act is a hit; a row of another class on which you act is a false
    alarm. If you choose the threshold t, you assume that a false alarm costs :math:`t / (1 - t)` times the
    gain from a hit. The net benefit per row, divided by the gain from a hit, is

    .. math:: \frac{\text{hits}}{n} - \frac{\text{false alarms}}{n} \cdot \frac{t}{1 - t}.

    Two reference lines show the net benefit of acting on all rows, and of acting on no row, which is zero.
    The model is worth using at the thresholds where its curve lies above both lines.

    Create the display with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    thresholds : array (n_thresholds,)
        Thresholds of the probability.
    net_benefit : array (n_thresholds,)
        Net benefit of the model at each threshold.
    act_on_all : array (n_thresholds,)
        Net benefit of acting on all rows, at each threshold.
    estimator_name : str or None, default=None
        Label of the curve; None means "model".
    pos_label : object, default=None
        Name of the positive class on the horizontal axis.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_ : matplotlib Line2D
        The curve of the model.

    References
    ----------
    Vickers and Elkin (2006), "Decision curve analysis: a novel method for evaluating prediction models",
    Medical Decision Making 26, 565-574.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sparseklr import DecisionCurveDisplay
    >>> y, p = [0, 0, 1, 1], [0.1, 0.6, 0.7, 0.9]
    >>> display = DecisionCurveDisplay.from_predictions(y, p, thresholds=[0.2, 0.5])
    >>> display.net_benefit.tolist()  # two hits and one false alarm among four rows
    [0.4375, 0.25]
    """

    thresholds: np.ndarray
    net_benefit: np.ndarray
    act_on_all: np.ndarray
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
    ) -> Self:
        """Plot the decision curve of a fitted classifier on test data.

        Parameters
        ----------
        estimator : object
            A fitted classifier with ``predict_proba``.
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Test rows that were not used to fit the classifier.
        y : array-like of shape (n_samples,)
            True classes of the test rows.
        pos_label : object, default=None
            The positive class, whose rows call for action. None means the second of two classes; with more
            than two classes, ``pos_label`` is required.
        name : str, default=None
            Label of the curve; None means the class name of the estimator.
        **kwargs
            Further arguments of :meth:`from_predictions`: ``thresholds``, ``sample_weight``, ``ax``, and
            arguments of the curve.

        Returns
        -------
        DecisionCurveDisplay
        """
        y, y_prob, classes = predicted_probabilities(estimator, X, y)
        if pos_label is None:
            if len(classes) > 2:
                raise ValueError(
                    f"pos_label is required for more than two classes: give one of {classes.tolist()}."
                )
            pos_label = classes[1]
        column = np.flatnonzero(classes == pos_label)
        if not len(column):
            raise ValueError(f"pos_label must be one of {classes.tolist()}; got {pos_label!r}.")
        last = estimator[-1] if hasattr(estimator, "steps") else estimator
        name = type(last).__name__ if name is None else name
        event = (y == pos_label).astype(int)
        return cls.from_predictions(event, y_prob[:, column[0]], name=name, label=pos_label, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        pos_label: Any = None,
        thresholds: Any = None,
        sample_weight: Any = None,
        name: str | None = None,
        label: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the decision curve of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_prob : array-like of shape (n_samples,)
            Predicted probabilities of the positive class.
        pos_label : object, default=None
            The positive class; optional if the labels are 0 and 1, or -1 and 1.
        thresholds : array-like, default=None
            Probabilities strictly between 0 and 1; None means 0.01, 0.02, ..., 0.99.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows.
        name : str, default=None
            Label of the curve; None means "model".
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure. Several curves can be drawn on the same axes.
        label : object, default=None
            Name of the positive class on the horizontal axis; None means ``pos_label``.
        **kwargs
            Arguments that are passed on to :meth:`matplotlib.axes.Axes.plot` for the curve.

        Returns
        -------
        DecisionCurveDisplay
        """
        if np.ndim(y_prob) != 1:
            raise ValueError(
                "y_prob must have shape (n_samples,): the predicted probabilities of the positive class; "
                f"got shape {np.shape(y_prob)}."
            )
        event, prob = as_events(y_true, y_prob, pos_label=pos_label)
        weight = check_weight(sample_weight, len(prob))
        t = np.arange(1, 100) / 100 if thresholds is None else np.asarray(thresholds, dtype=np.float64)
        if t.ndim != 1 or not ((t > 0) & (t < 1)).all():
            raise ValueError(
                f"thresholds must be a list of numbers strictly between 0 and 1; got {thresholds!r}."
            )
        fraction, odds = weight / weight.sum(), t / (1 - t)
        order = np.argsort(prob)
        place = np.searchsorted(prob[order], t)  # act if the probability is at least t
        hits, alarms = (
            np.append(np.cumsum((fraction * part)[order][::-1])[::-1], 0.0)[place] for part in (event, ~event)
        )
        act_on_all = fraction @ event - (fraction @ ~event) * odds
        shown = pos_label if label is None else label
        display = cls(
            thresholds=t,
            net_benefit=hits - alarms * odds,
            act_on_all=act_on_all,
            estimator_name=name,
            pos_label=1 if shown is None else shown,
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the curves on ``ax``, or in a new figure if ``ax`` is None.

        ``kwargs`` are passed on to :meth:`matplotlib.axes.Axes.plot` for the curve of the model.
        """
        if ax is None:
            _, ax = pyplot().subplots(figsize=(5.6, 4.2), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        if "act on all rows" not in ax.get_legend_handles_labels()[1]:
            ax.plot(self.thresholds, self.act_on_all, "--", color="gray", lw=1, label="act on all rows")
            ax.axhline(0, color="gray", lw=1, ls=":", label="act on no row")
        style = {"label": self.estimator_name or "model", **kwargs}
        (self.line_,) = ax.plot(self.thresholds, self.net_benefit, **style)
        top = max(line.get_ydata()[0] for line in ax.lines if len(line.get_xdata()) == len(self.thresholds))
        ax.set(xlim=(0, 1), ylim=(-0.1 * max(top, 0.05), 1.1 * max(top, 0.05)))
        label = f"Threshold for the probability of class {self.pos_label}"
        ax.set(xlabel=label.replace("$", r"\$"), ylabel="Net benefit per row")
        ax.legend()
        return self
