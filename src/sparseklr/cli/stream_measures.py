"""The measures of a model on rows that are read in blocks: sums, and histograms of bounded size."""

from __future__ import annotations

import copy
from argparse import Namespace
from typing import Any

import numpy as np
from scipy.special import logit

from ..inspection.probability_report import kept_points
from .data import Rows, check_known
from .measures import measure
from .stream import predicted_blocks

# Up to so many rows all probabilities are kept, and every measure is exact.
EXACT_ROWS = 1_000_000
# Beyond, ROC AUC and calibration error come from histograms of log-odds between these bounds.
N_BINS, MOST_LOG_ODDS = 16_384, 20.0
# Groups of equal weight of the calibration error, as in expected_calibration_error.
_GROUPS = 15


def measured(args: Namespace, model: Any, target: str) -> tuple[dict[str, Any], list[str]]:
    """The measures of a model on the rows of files, and what is to be said about them."""
    tally = Tally(model.classes_)
    kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] | None = []
    for prob, block in predicted_blocks(args, model, target, args.sample_weight_column):
        check_known(np.unique(block.labels), model.classes_.tolist(), f"{args.data}: --target {target}")
        tally.add(prob, block.labels, block.weights)
        if tally.n_rows > EXACT_ROWS:
            kept = None
        if kept is not None:
            kept.append((prob, block.labels, block.weights))
    if kept is None:
        note = (
            f"{tally.n_rows} rows: ROC AUC and calibration error are those of {N_BINS} bins of the log-odds"
        )
        n_points, points_share = kept_points(model)
        return {**tally.measures(), "n_points": n_points, "points_share": points_share}, [note]
    prob, y, weight = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    known = copy.copy(model)  # its rows are now the probabilities that it gave
    known.predict_proba = lambda X: X
    known.predict = lambda X: model.classes_[X.argmax(axis=1)]
    return measure(known, Rows(prob, y, weight if args.sample_weight_column else None)), []


class Tally:
    """Sums over rows from which the measures follow.

    Log-loss, Brier score, accuracy and confusion matrix are exact. ROC AUC takes rows of the same bin for
    ties; the calibration error puts whole bins into its groups.

    Parameters
    ----------
    classes : array (n_classes,)

    Examples
    --------
    >>> tally = Tally(np.array(["no", "yes"]))
    >>> tally.add(np.array([[0.8, 0.2], [0.4, 0.6]]), np.array(["no", "yes"]), np.ones(2))
    >>> found = tally.measures()
    >>> found["accuracy"], found["roc_auc"], round(float(found["brier"]), 3)
    (1.0, 1.0, 0.1)
    """

    def __init__(self, classes: np.ndarray) -> None:
        self.classes, k = classes, len(classes)
        self.n_rows, self.log_loss, self.brier = 0, 0.0, 0.0
        self.confusion = np.zeros((k, k))
        self.own, self.other = np.zeros((2, k, N_BINS))  # weight of rows of a class, and of the others
        self.weight, self.prob, self.event = np.zeros((3, N_BINS))  # by the probability of the event

    def add(self, prob: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
        """Rows with their probabilities, labels and weights."""
        k, row = len(self.classes), np.arange(len(y))
        code, predicted = np.searchsorted(self.classes, y), prob.argmax(axis=1)
        tiny = np.finfo(prob.dtype).eps  # as scikit-learn's log-loss
        self.n_rows += len(y)
        self.log_loss -= float(weight @ np.log(prob[row, code].clip(tiny, 1 - tiny)))
        squares = (prob - np.eye(k)[code]) ** 2
        self.brier += float(weight @ (squares[:, 1] if k == 2 else squares.sum(axis=1)))
        self.confusion += np.bincount(code * k + predicted, weight, k * k).reshape(k, k)
        bins = _bins(prob)
        for c in range(k):
            self.own[c] += np.bincount(bins[:, c], weight * (code == c), N_BINS)
            self.other[c] += np.bincount(bins[:, c], weight * (code != c), N_BINS)
        column = np.ones_like(code) if k == 2 else predicted  # the event: class 1, or a right prediction
        terms = (weight, weight * prob[row, column], weight * (code == column))
        for total, term in zip((self.weight, self.prob, self.event), terms, strict=True):
            total += np.bincount(bins[row, column], term, N_BINS)

    def measures(self) -> dict[str, Any]:
        """As :func:`.measures.measure`, without what is known of the model alone."""
        by_class, total = self.confusion.sum(axis=1), self.confusion.sum()
        binary = len(self.classes) == 2
        return {
            "n_rows": self.n_rows,
            "n_classes": len(self.classes),
            "prevalence": float((by_class[1] if binary else by_class.max()) / total),
            "accuracy": float(np.trace(self.confusion) / total),
            "log_loss": self.log_loss / total,
            "brier": self.brier / total,
            "ece": self._calibration_error(),
            "roc_auc": self._roc_auc(),
            "classes": self.classes.tolist(),
            "confusion": self.confusion.tolist(),
            "n_bins": N_BINS,
        }

    def _roc_auc(self) -> float | None:
        if not self.own.sum(axis=1).all() or not self.other.sum(axis=1).all():
            return None
        below = np.cumsum(self.other, axis=1) - self.other / 2
        areas = (self.own * below).sum(axis=1) / (self.own.sum(axis=1) * self.other.sum(axis=1))
        return float(areas[1] if len(areas) == 2 else areas.mean())

    def _calibration_error(self) -> float:
        middle = (np.cumsum(self.weight) - self.weight / 2) / self.weight.sum()
        group = np.minimum((_GROUPS * middle).astype(int), _GROUPS - 1)
        gap = np.bincount(group, self.event - self.prob, _GROUPS)
        return float(np.abs(gap).sum() / self.weight.sum())


def _bins(prob: np.ndarray) -> np.ndarray:
    """The bin of every probability."""
    place = (logit(prob.clip(0, 1)).clip(-MOST_LOG_ODDS, MOST_LOG_ODDS) + MOST_LOG_ODDS) / (2 * MOST_LOG_ODDS)
    return np.minimum((N_BINS * place).astype(np.int64), N_BINS - 1)
