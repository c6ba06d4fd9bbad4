"""Choice of a model by cross-validation, for ``sparseklr fit`` without ``--model``.

The candidates are a constant prediction of the class fractions, a logistic regression, CompactKLR and, unless
the table is large, SparseKLR. All of them predict the same validation rows. To prevent the choice from
biasing the estimate of the log-loss, the validation rows are split into two halves, and the candidate that is
chosen on one half is evaluated on the other half.
"""

from __future__ import annotations

import time
import warnings
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.class_weight import compute_sample_weight

from .._utils.progress import StageProgressBar
from ..samples import weighted_mean
from ..tables.features import TableFeatures
from .options import make_estimator
from .reading import Dataset

#: Names of the candidates.
NAMES = {
    "fractions": "class fractions",
    "linear": "logistic regression",
    "compact": "CompactKLR",
    "sparse": "SparseKLR",
}


@dataclass(frozen=True)
class ComparisonSettings:
    """Sizes that bound the computing time of the comparison."""

    n_folds: int = 4  # number of folds of the cross-validation
    n_validation: int = 500  # further folds are skipped once this number of rows has been predicted
    max_rows: int = 8_000  # maximum number of rows; from a larger table, a random sample is drawn
    max_sparse: int = 20_000  # maximum number of rows for SparseKLR, whose fit to more rows may take minutes
    min_rows: int = 40  # with fewer rows, the differences are noise; SparseKLR is fitted without comparison


SETTINGS = ComparisonSettings()


@dataclass(frozen=True, eq=False)
class Candidate:
    """A candidate model, with its predictions and losses on the validation rows."""

    model: str  # a key of NAMES
    log_proba: np.ndarray  # logarithms of the predicted probabilities, (n_validation, n_classes)
    losses: np.ndarray  # log-loss of each validation row
    n_points: int | None  # median over the folds of the number of points; None if the model has no points
    seconds: float  # total time of the fits


@dataclass(frozen=True, eq=False)
class Comparison:
    """The candidates, with the classes and weights of the validation rows."""

    candidates: list[Candidate]  # sorted by their number of points; models without points come first
    code: np.ndarray  # true class of each validation row, as an index
    weight: np.ndarray  # weight of each validation row
    half: np.ndarray  # whether each validation row belongs to the second of two random halves
    n_rows: int  # number of rows used in the comparison
    n_all: int  # number of rows of the table

    def chosen(self, rows: Any = slice(None)) -> Candidate:
        """Return the candidate with the fewest points among those whose log-loss ties with the lowest.

        A candidate ties if its mean log-loss on ``rows``, a subset of the validation rows, exceeds the lowest
        by at most one standard error of the paired difference.
        """
        means = [weighted_mean(one.losses[rows], self.weight[rows])[0] for one in self.candidates]
        best = self.candidates[int(np.argmin(means))]
        for one in self.candidates:
            mean, error = weighted_mean((one.losses - best.losses)[rows], self.weight[rows])
            if mean <= error:
                return one
        return best

    def expected(self) -> tuple[float, float]:
        """Return an estimate of the log-loss of the chosen model, and the standard error of the estimate.

        Choosing on the same rows would bias the estimate. Therefore, on each half of the validation rows, the
        losses are those of the candidate that was chosen on the other half.
        """
        losses = np.empty(len(self.weight))
        for half in (False, True):
            evaluated = self.half == half
            losses[evaluated] = self.chosen(~evaluated).losses[evaluated]
        return weighted_mean(losses, self.weight)

    def held_out(self) -> dict[str, np.ndarray]:
        """Return the chosen candidate's validation predictions, with which prediction sets are calibrated."""
        return {"log_proba": self.chosen().log_proba, "code": self.code, "weight": self.weight}

    def summary(self) -> dict[str, Any]:
        """Return the comparison as a dictionary, which is printed and stored in the model file."""
        chosen, (loss, error) = self.chosen(), self.expected()
        rows = []
        for one in self.candidates:
            mean, spread = weighted_mean(one.losses, self.weight)
            rows.append(
                {
                    "model": NAMES[one.model],
                    "log_loss": mean,
                    "standard_error": spread,
                    "n_points": one.n_points,
                    "seconds": one.seconds,
                    "chosen": one is chosen,
                }
            )
        counts = {"n_rows": self.n_rows, "n_all": self.n_all, "n_validation": len(self.weight)}
        return {"log_loss": loss, "standard_error": error, **counts, "candidates": rows}


def rare_classes(rows: Dataset) -> list[Any]:
    """Return the classes that have too few rows for a comparison."""
    assert rows.y is not None
    classes, counts = np.unique(rows.y, return_counts=True)
    return list(classes[counts < SETTINGS.n_folds].tolist())


def compare(args: Namespace, rows: Dataset, show: bool) -> Comparison:
    """Cross-validate all candidates on the rows of a table and return the comparison.

    The rows have positive weights, and their columns have been converted by a fitted
    :class:`~sparseklr.TableReader`. With ``show``, a progress bar is printed.
    """
    assert rows.y is not None
    rng = np.random.default_rng(args.seed)
    n_all = len(rows)
    if n_all > SETTINGS.max_rows:
        rows = rows.take(_stratified(rows.y, SETTINGS.max_rows, rng))
    n, y = len(rows), rows.y
    assert y is not None
    weight = np.ones(n) if rows.weight is None else rows.weight
    names = [name for name in NAMES if name != "sparse" or n_all <= SETTINGS.max_sparse]
    n_parts = min(SETTINGS.n_folds, -(-SETTINGS.n_validation * SETTINGS.n_folds // n))
    folds = StratifiedKFold(SETTINGS.n_folds, shuffle=True, random_state=args.seed).split(np.zeros(n), y)
    classes, code = np.unique(y, return_inverse=True)
    log_proba = {name: np.full((n, len(classes)), np.nan) for name in names}
    points: dict[str, list[int | None]] = {name: [] for name in names}
    seconds = dict.fromkeys(names, 0.0)
    with StageProgressBar("comparing models", show) as progress:
        for part, (fitted, held_out) in zip(range(n_parts), folds, strict=False):
            features, fit_weight = TableFeatures(), None if rows.weight is None else weight[fitted]
            X = features.fit_transform(rows.X.iloc[fitted], y[fitted], sample_weight=fit_weight)
            X_held_out = features.transform(rows.X.iloc[held_out])
            for k, name in enumerate(names):
                done = (part + k / len(names)) / n_parts
                progress.stage(f"{NAMES[name]}, fold {part + 1} of {n_parts}", done)
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the final fit to all rows repeats relevant warnings
                    model = fit_candidate(args, name, X, y[fitted], fit_weight)
                seconds[name] += time.perf_counter() - start
                points[name].append(n_points(model))
                log_proba[name][held_out] = np.log(np.maximum(model.predict_proba(X_held_out), 1e-300))
    validated = np.flatnonzero(~np.isnan(log_proba["fractions"][:, 0]))
    code = code[validated]
    candidates = []
    for name in names:
        found = log_proba[name][validated]
        losses = -found[np.arange(len(code)), code]
        candidates.append(Candidate(name, found, losses, _median(points[name]), seconds[name]))
    candidates.sort(key=lambda one: one.n_points or 0)  # stable: models without points stay first
    weights = (weight * compute_sample_weight(args.class_weight, y))[validated]
    half = rng.permutation(len(validated)) % 2 == 0
    return Comparison(candidates, code, weights, half, n, n_all)


def fit_candidate(
    args: Namespace, name: str, X: Any, y: np.ndarray, weight: np.ndarray | None, **more: Any
) -> Any:
    """Return the fitted estimator of a candidate; ``name`` is a key of ``NAMES``."""
    if name == "fractions":
        balanced = compute_sample_weight(args.class_weight, y)
        prior = DummyClassifier(strategy="prior")
        return prior.fit(X, y, sample_weight=balanced if weight is None else weight * balanced)
    if name == "linear":
        estimator: Any = LogisticRegression(class_weight=args.class_weight, max_iter=1000)
    else:
        estimator = make_estimator(args, name, **more)
    return estimator.fit(X, y, sample_weight=weight)


def n_points(model: Any) -> int | None:
    """Return the number of points of a model; None for models without points."""
    return len(model.dual_coef_[0]) if hasattr(model, "dual_coef_") else None


def _stratified(y: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the sorted indices of about n random rows, preserving the class fractions.

    Each class contributes at least one row per fold, or all its rows if it has fewer.
    """
    kept = [np.arange(0)]
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        wanted = max(round(n * len(rows) / len(y)), min(len(rows), SETTINGS.n_folds))
        kept.append(rng.permutation(rows)[:wanted])
    return np.sort(np.concatenate(kept))


def _median(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return int(np.median(known)) if known else None
