"""Prediction sets, p-values and probability intervals from held-out predictions of the training rows.

A held-out prediction of a training row comes from a model that was fitted without this row: by leave-one-out,
or on the validation rows of a fold. A fit provides such predictions for all or some of the training rows, so
no rows need to be set aside. If a new row comes from the same distribution as the training rows, the rank of
its prediction among the held-out predictions has a known distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv

from .samples import Observations

# Maximum number of held-out predictions that a model stores.
MOST_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out decision values of training rows, with the classes and weights of the rows."""

    outputs: np.ndarray  # (n_rows, n_outputs), in full precision so that equal predictions compare as equal
    code: np.ndarray  # class code of each row
    weight: np.ndarray  # weight of each row, relative to the mean weight of an observation, float32

    @classmethod
    def of(cls, outputs: np.ndarray, code: np.ndarray, weight: np.ndarray, n_observations: float) -> HeldOut:
        """Return the held-out decision values of at most 10,000 rows, evenly spaced among the given rows."""
        chosen = np.unique(np.linspace(0, len(code) - 1, min(len(code), MOST_ROWS)).astype(np.intp))
        relative = weight[chosen] * (n_observations / weight.sum())
        # Leaving out the only observation of a class gives infinite decision values.
        finite = np.clip(outputs[chosen], -1e30, 1e30)
        return cls(finite, code[chosen].astype(np.int32), relative.astype(np.float32))

    @classmethod
    def of_observations(cls, outputs: np.ndarray, observations: Observations) -> HeldOut:
        """Return the held-out decision values, given the leave-one-out values of groups of observations.

        All observations of a group have the same class, unless equal rows count as copies of one observation.
        A group may then have several classes.
        """
        row, code = np.nonzero(observations.weight)
        n_observations = float(observations.count.sum())
        return cls.of(outputs[row], code, observations.weight[row, code], n_observations)


@dataclass(frozen=True, eq=False)
class HeldOutProbabilities:
    """Held-out class probabilities of training rows, with the true classes and weights of the rows."""

    log_proba: np.ndarray  # logarithms of the probabilities, (n_rows, n_classes)
    code: np.ndarray  # code of the true class of each row
    weight: np.ndarray

    def p_values(self, log_proba: np.ndarray, by_class: bool) -> np.ndarray:
        r"""Return the p-values (n_samples, n_classes) of the classes for new rows.

        The p-value of class k for a new row x is
        :math:`(1 + \sum_i w_i [p_i \le p_k(x)]) / (1 + \sum_i w_i)`, where :math:`p_i` is the held-out
        probability of the true class of row i. With ``by_class``, the sums include only rows of class k.
        """
        true = self.log_proba[np.arange(len(self.code)), self.code]
        columns = []
        for k in range(log_proba.shape[1]):
            some = self.code == k if by_class else np.ones(len(self.code), dtype=bool)
            order = np.argsort(true[some], kind="stable")
            below = np.append(0.0, np.cumsum(self.weight[some][order], dtype=np.float64))
            place = np.searchsorted(true[some][order], log_proba[:, k], side="right")
            columns.append((1 + below[place]) / (1 + below[-1]))
        return np.column_stack(columns)

    def intervals(
        self, log_proba: np.ndarray, confidence: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper ends of Venn-Abers intervals of the class probabilities of new rows.

        Each class is compared with all other classes together. With ``confidence``, the intervals are
        extended to confidence intervals of the frequency of the class among rows with the same probability.
        """
        lower, upper = np.empty(log_proba.shape), np.empty(log_proba.shape)
        for k, new in enumerate(log_proba.T):
            score, event = self.log_proba[:, k], (self.code == k).astype(float)
            upper[:, k] = upper_probability(score, event, self.weight, new)
            lower[:, k] = 1 - upper_probability(-score, 1 - event, self.weight, -new)
            if confidence is not None:
                least = lower_limit(score, event, self.weight, new, confidence)
                most = 1 - lower_limit(-score, 1 - event, self.weight, -new, confidence)
                lower[:, k] = np.minimum(lower[:, k], least)
                upper[:, k] = np.maximum(upper[:, k], most)
        return lower, upper


def upper_probability(
    score: np.ndarray, event: np.ndarray, weight: np.ndarray, new: np.ndarray
) -> np.ndarray:
    """Return the isotonic regression of events on scores at each new score, which is added with the event 1.

    Isotonic regression can pool the added event only with rows of larger scores. Its value at the new score
    therefore depends only on the smallest score that is not below it, and one scan gives the values for all
    scores (Vovk, Petej and Fedorova 2015, algorithms 1 and 2). Let :math:`P_i` be the cumulative sums of
    weights and events up to the i-th distinct score. The regression is the slope of the greatest convex
    minorant of the points :math:`P_i`. An event that is added before the j-th score shifts the earlier points
    by (-1, -1).
    """
    scores, place = np.unique(score, return_inverse=True)
    P = np.zeros((len(scores) + 1, 2))
    P[1:, 0] = np.cumsum(np.bincount(place, weight))
    P[1:, 1] = np.cumsum(np.bincount(place, weight * event))
    values = np.ones(len(scores) + 1)
    corners: list[Any] = []  # corners of the minorant to the right of the added event, the leftmost one last
    for point in [*P[::-1].tolist(), [-1.0, -1.0]]:
        _add_corner(corners, point)
    for j in range(len(scores)):
        (w, e), (right_w, right_e) = corners[-1], corners[-2]
        values[j] = (right_e - e) / (right_w - w)
        before = P[j + 1] - 1
        if (before[1] - e) * (right_w - w) < (right_e - e) * (before[0] - w):  # below the line
            corners.pop()
            _add_corner(corners, before.tolist())
    return values[np.searchsorted(scores, new)]


def lower_limit(
    score: np.ndarray, event: np.ndarray, weight: np.ndarray, new: np.ndarray, confidence: float
) -> np.ndarray:
    """Return the lower end of a two-sided confidence interval for the frequency of the event at new scores.

    The frequency is assumed to increase with the score. Consider the m rows with the largest scores that do
    not exceed the new score. The frequency among them is at most the frequency at the new score, so their
    Clopper-Pearson limit is valid. The result is the largest limit for m = 1, 2, 4, ..., with the error
    probability divided among these limits.
    """
    order = np.argsort(score, kind="stable")
    rows, events = (np.append(0.0, np.cumsum(w[order], dtype=float)) for w in (weight, weight * event))
    # the result depends only on the number of rows with smaller scores
    place, of = np.unique(np.searchsorted(score[order], new, side="right"), return_inverse=True)
    sizes = 2.0 ** np.arange(np.ceil(np.log2(max(rows[-1], 1.0))) + 1)
    error = (1 - confidence) / 2 / len(sizes)
    limits = np.zeros(len(place))
    for size in sizes:
        first = np.searchsorted(rows, rows[place] - size * (1 + 1e-9))
        n, k = rows[place] - rows[first], events[place] - events[first]
        some = k > 0
        limits[some] = np.maximum(limits[some], betaincinv(k[some], (n - k)[some] + 1, error))
    return limits[of]


def _add_corner(corners: list[Any], point: list[float]) -> None:
    """Add a point to the left of the minorant, and remove corners that are no longer convex."""
    while len(corners) > 1:
        (w, e), (right_w, right_e) = corners[-1], corners[-2]
        if (e - point[1]) * (right_w - w) < (right_e - e) * (w - point[0]):
            break
        corners.pop()
    corners.append(point)
