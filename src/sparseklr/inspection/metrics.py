"""Calibration errors of predicted probabilities, which ``sklearn.metrics`` does not provide.

The log-loss and the Brier score are in scikit-learn: :func:`sklearn.metrics.log_loss` and
:func:`sklearn.metrics.brier_score_loss`.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import brentq
from scipy.special import ndtri
from sklearn.utils import check_array, check_scalar, column_or_1d
from sklearn.utils.validation import check_is_fitted

from ..weights import check_weight

__all__ = ["expected_calibration_error", "smooth_calibration_error"]

# Number of equal cells into which [0, 1] is divided before the residuals are smoothed.
_CELLS = 2000
Strategy = Literal["quantile", "uniform"]


def expected_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    n_bins: int = 15,
    strategy: Strategy = "quantile",
    sample_weight: Any = None,
    pos_label: Any = None,
    labels: Any = None,
) -> float:
    r"""Return the expected calibration error (ECE): the mean gap between predicted and observed frequencies.

    The samples are grouped into B bins by their predicted probability. Then

    .. math::

        \mathrm{ECE} = \sum_{b=1}^{B} \frac{W_b}{W} \, \left| \bar y_b - \bar p_b \right| ,

    where :math:`W_b` is the total weight of the samples in bin b, W the total weight of all samples,
    :math:`\bar p_b` the mean predicted probability in the bin, and :math:`\bar y_b` the fraction of its
    samples for which the event occurred. If ``y_prob`` has one probability per sample, the event is that the
    sample belongs to the positive class. If ``y_prob`` has a column for each class, the event is that the
    class with the highest probability is the true class (top-label ECE).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_prob : array-like of shape (n_samples,) or (n_samples, n_classes)
        Predicted probabilities of the positive class, or of every class.
    n_bins : int, default=15
        Number of bins; empty bins are omitted.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal total weight (``"quantile"``) or of equal width (``"uniform"``). Samples with the same
        probability are always in the same bin. With ``"quantile"``, a probability that is frequent enough to
        fill a bin has its own bin.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights; a weight of 2 has the same effect as a second copy of the sample.
    pos_label : int, float, bool or str, default=None
        The positive class, if ``y_prob`` has one probability per sample. It is optional if the labels are 0
        and 1, or -1 and 1.
    labels : array-like of shape (n_classes,), default=None
        The classes of the columns, if ``y_prob`` has a column for each class. None means the sorted distinct
        values of ``y_true``.

    Returns
    -------
    float
        Value between 0 and 1; smaller is better.

    Notes
    -----
    Because of sampling error, even a perfectly calibrated model has an ECE of up to about
    :math:`0.4 \sqrt{B / n}`. A model that predicts the prevalence for every sample has an ECE of 0, so always
    report the ECE together with the log-loss.

    References
    ----------
    Naeini, Cooper and Hauskrecht (2015), "Obtaining well calibrated probabilities using Bayesian binning",
    AAAI, 2901-2907. Guo, Pleiss, Sun and Weinberger (2017), "On calibration of modern neural networks",
    ICML, 1321-1330 (bins of equal width, top label).

    Examples
    --------
    >>> from sparseklr.inspection.metrics import expected_calibration_error
    >>> y, p = [0, 0, 0, 1, 1, 1, 1, 1], [0.25, 0.25, 0.25, 0.25, 0.75, 0.75, 0.75, 0.75]
    >>> expected_calibration_error(y, p, n_bins=2)
    0.125
    >>> p = [[0.75, 0.25, 0], [0.25, 0.75, 0], [0.25, 0.25, 0.5], [1, 0, 0]]
    >>> expected_calibration_error(["a", "b", "c", "c"], p, n_bins=3)
    0.5
    """
    event, prob = as_events(y_true, y_prob, pos_label=pos_label, labels=labels)
    bins = Bins.of(event, prob, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight)
    return float(np.average(np.abs(bins.prob_true - bins.prob_pred), weights=bins.weight))


def smooth_calibration_error(
    y_true: Any, y_prob: Any, *, sample_weight: Any = None, pos_label: Any = None, labels: Any = None
) -> float:
    r"""Return the smooth calibration error, which replaces the bins of the ECE with kernel smoothing.

    Let :math:`y_i - p_i` be the residuals, :math:`w_i` their weights, which sum to one, and :math:`K_s` a
    Gaussian kernel with standard deviation s that is reflected at 0 and 1. For a given s, the residuals are
    smoothed along the predicted probability, and the error is

    .. math:: \mathrm{smECE}_s = \int_0^1 \Bigl| \sum_i w_i (y_i - p_i) K_s(t, p_i) \Bigr| dt .

    The function returns the solution of :math:`\mathrm{smECE}_s = s`. Unlike the expected calibration error,
    this value is continuous in the predicted probabilities and does not depend on a number of bins.

    Parameters
    ----------
    y_true, y_prob, sample_weight, pos_label, labels
        As in :func:`expected_calibration_error`.

    Returns
    -------
    float
        Value between 0 and 1; smaller is better.

    References
    ----------
    Blasiok and Nakkiran (2024), "Smooth ECE: principled reliability diagrams via kernel smoothing", ICLR,
    arXiv:2309.12236.

    Examples
    --------
    >>> import numpy as np
    >>> from sparseklr.inspection import smooth_calibration_error
    >>> p = np.full(1000, 0.3)
    >>> round(smooth_calibration_error(np.arange(1000) < 500, p), 3)
    0.2
    """
    event, prob = as_events(y_true, y_prob, pos_label=pos_label, labels=labels)
    weight = check_weight(sample_weight, len(prob))
    residual = weight / weight.sum() * (event - prob)
    cells = np.minimum((prob * _CELLS).astype(np.intp), _CELLS - 1)
    mass = np.bincount(cells, residual, minlength=_CELLS)

    def excess(width: float) -> float:
        # mode="reflect" reflects the kernel at 0 and 1, the edges of the first and last cells
        smooth = gaussian_filter1d(mass, width * _CELLS, mode="reflect", truncate=6.0)
        return float(np.abs(smooth).sum() - width)

    least = 1 / _CELLS
    return float(brentq(excess, least, 1.0, xtol=1e-6)) if excess(least) > 0 else excess(least) + least


def as_events(
    y_true: Any, y_prob: Any, *, pos_label: Any = None, labels: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each sample whether the event occurred, and the predicted probability of the event.

    The parameters and the event are those of :func:`expected_calibration_error`.
    """
    y_true = column_or_1d(y_true)
    y_prob = check_array(y_prob, ensure_2d=False, dtype=np.float64, input_name="y_prob")
    if len(y_true) != len(y_prob):
        raise ValueError(
            f"y_prob must have one row for each label: y_true has {len(y_true)} labels, y_prob has "
            f"{len(y_prob)} rows."
        )
    if y_prob.min() < -1e-8 or y_prob.max() > 1 + 1e-8:  # allow for rounding errors in sums of probabilities
        raise ValueError(
            f"y_prob must be within [0, 1]; got values from {y_prob.min():g} to {y_prob.max():g}."
        )
    y_prob, present = y_prob.clip(0, 1), np.unique(y_true)
    if y_prob.ndim == 1:
        if len(present) > 2:
            raise ValueError(
                f"y_true has {len(present)} classes, so y_prob must have shape (n_samples, n_classes); "
                f"got {y_prob.shape}."
            )
        if pos_label is None:
            if not any(set(present.tolist()) <= pair for pair in ({0, 1}, {-1, 1})):
                raise ValueError(
                    "pos_label is required unless the labels are 0 and 1, or -1 and 1: y_true has the labels "
                    f"{present.tolist()}, and y_prob could be the probability of either."
                )
            pos_label = 1
        if len(present) == 2 and pos_label not in present:
            raise ValueError(f"pos_label={pos_label!r} is not a label of y_true: {present.tolist()}.")
        return y_true == pos_label, y_prob
    if pos_label is not None:
        raise ValueError(
            "pos_label must be None if y_prob has a column for each class; give labels= if the columns are "
            "not in sorted order."
        )
    columns = present if labels is None else np.asarray(labels)
    if y_prob.shape[1] != len(columns) or len(columns) < 2:
        raise ValueError(
            f"y_prob must have one column for each of at least two classes: it has {y_prob.shape[1]} columns "
            f"for the {len(columns)} classes {columns.tolist()}. Give labels= if y_true does not contain all "
            "classes."
        )
    if not np.isin(present, columns).all():
        raise ValueError(
            f"y_true has labels {present.tolist()}, some of which are not in labels={columns.tolist()}."
        )
    if not np.allclose(y_prob.sum(axis=1), 1, atol=1e-3):
        raise ValueError("each row of y_prob must sum to 1.")
    return columns[y_prob.argmax(axis=1)] == y_true, y_prob.max(axis=1)


@dataclass(frozen=True, eq=False)
class Bins:
    """Weighted sums over the samples in each bin, where the bins are intervals of the predicted probability.

    The sums over different samples can be added if the bins are the same.
    """

    weight: np.ndarray  # total weight of the samples
    prob_sum: np.ndarray  # weighted sum of the predicted probabilities
    event_sum: np.ndarray  # total weight of the samples for which the event occurred
    square_sum: np.ndarray  # sum of the squared weights

    @classmethod
    def of(
        cls,
        event: np.ndarray,
        prob: np.ndarray,
        *,
        n_bins: int,
        strategy: Strategy,
        sample_weight: Any = None,
        keep_empty: bool = False,
    ) -> Bins:
        """Group the samples into bins; samples of weight zero are ignored.

        Empty bins are omitted unless ``keep_empty`` is set.
        """
        check_scalar(n_bins, "n_bins", Integral, min_val=1)
        weight = check_weight(sample_weight, len(prob))
        event, prob, weight = event[weight > 0], prob[weight > 0], weight[weight > 0]
        if strategy == "quantile":
            order = np.argsort(prob)
            below = np.cumsum(weight[order])
            # weighted quantiles at 1 / n_bins, 2 / n_bins, ..., 1
            quantiles = prob[order][np.searchsorted(below, below[-1] * np.arange(1, n_bins + 1) / n_bins)]
            # A probability that fills a bin gets its own bin, because some models predict exactly 1 for many
            # samples.
            filling = quantiles[1:][np.diff(quantiles) == 0]
            edges = np.union1d(quantiles[:-1], np.nextafter(filling, -1))
        elif strategy == "uniform":
            edges = np.linspace(0, 1, n_bins + 1)[1:-1]
        else:
            raise ValueError(f"strategy must be 'quantile' or 'uniform'; got {strategy!r}.")
        member = np.searchsorted(edges, prob)
        terms = (weight, weight * prob, weight * event, weight**2)
        sums = np.array([np.bincount(member, term, len(edges) + 1) for term in terms])
        return cls(*(sums if keep_empty else sums[:, sums[0] > 0]))

    @property
    def prob_true(self) -> np.ndarray:
        """The weighted fraction of the samples in each bin for which the event occurred."""
        return self.event_sum / self.weight

    @property
    def prob_pred(self) -> np.ndarray:
        """The weighted mean of the predicted probabilities in each bin."""
        return self.prob_sum / self.weight

    @property
    def n_effective(self) -> np.ndarray:
        """Kish's effective sample size of each bin, ``(sum w)^2 / sum w^2``."""
        return self.weight**2 / self.square_sum


def wilson_interval(fraction: np.ndarray, n: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper limits of Wilson's confidence intervals for proportions.

    Unlike in ``scipy.stats.binomtest``, n need not be an integer, so it can be an effective sample size.
    """
    z = ndtri(0.5 + confidence / 2)
    centre = fraction + z**2 / (2 * n)
    half = z * np.sqrt(fraction * (1 - fraction) / n + (z / (2 * n)) ** 2)
    lower, upper = (centre - half) / (1 + z**2 / n), (centre + half) / (1 + z**2 / n)
    return np.where(fraction == 0, 0.0, lower), np.where(fraction == 1, 1.0, upper)


def predicted_probabilities(estimator: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the labels y, the predicted probabilities (n_samples, n_classes) and the classes.

    An error is raised if a label is not a class, or if the classifier cannot predict probabilities.
    """
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"estimator must have predict_proba; {type(estimator).__name__} does not have it. Wrap the "
            "estimator in sklearn.calibration.CalibratedClassifierCV, which adds predict_proba."
        )
    check_is_fitted(estimator)
    y, y_prob = column_or_1d(y), estimator.predict_proba(X)
    if not isinstance(y_prob, np.ndarray) or y_prob.ndim != 2:
        raise TypeError(
            "estimator must predict a single target: predict_proba must return one array of shape "
            "(n_samples, n_classes)."
        )
    classes = np.asarray(estimator.classes_)
    if len(y) != len(y_prob):
        raise ValueError(
            f"y must have one label for each row of X: X has {len(y_prob)} rows, y has {len(y)} labels."
        )
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y has the labels {unknown.tolist()}, which are not classes of the estimator; the classes are "
            f"{classes.tolist()}."
        )
    return y, y_prob, classes
