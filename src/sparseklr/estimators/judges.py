"""How the candidates of a search are judged: by leave-one-out, or on the folds of a cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from ..data import DistinctPoints
from ..equal_rows import shuffled_keys
from ..probability.calibration import log_probabilities
from ..probability.copies import with_copies_marked
from .confirmation import validation_losses
from .folds import MEASURES, Fold, Known, Scoring, score_fits, score_path, weight_share
from .kernel_choice import KernelOption, searches
from .sparse_klr import SparseKLR
from .training import GivenData, training_set

# Parts of the rows that are left out in turn, for the standard error of any score.
_PARTS = 10


def scoring_or_default(scoring: Any, estimator: Any) -> Any:
    """The score that candidates are judged by: the given one, or else the log-loss.

    The paper's probabilities, those of ``calibration=None``, are of little use where models are sparse; there
    it is the accuracy.
    """
    if scoring is not None:
        return scoring
    return "accuracy" if getattr(estimator, "calibration", "refit") is None else "neg_log_loss"


@dataclass(frozen=True, eq=False)
class Judged:
    """A candidate: its parameters, what was measured of it, and the model if it was fitted on all rows."""

    params: dict[str, Any]
    measured: np.ndarray  # (n_splits, len(MEASURES))
    error: float  # standard error of the mean score
    model: SparseKLR | None = None

    @property
    def score(self) -> float:
        return float(self.measured[:, 0].mean())


@dataclass(frozen=True, eq=False)
class Grid:
    """Values of C and of lam (len(Cs), n_lams) that are candidates; none where an estimator keeps its own."""

    Cs: np.ndarray
    lams: np.ndarray

    def cells(self) -> list[dict[str, float]]:
        """The parameters of every candidate."""
        return [
            {"C": float(C), "lam": float(lam)}
            for C, row in zip(self.Cs, self.lams, strict=True)
            for lam in row
        ]


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Judges a kernel by the leave-one-out outputs of the model fitted on all rows.

    Of the log-loss, which is a mean over the rows, the standard error is that of a mean. For other scores it
    is that of the jackknife, parts of the rows left out in turn; equal rows are in one part.
    """

    given: GivenData
    scoring: Scoring
    by_log_loss: bool
    n_splits = 1

    def __call__(
        self, template: SparseKLR, option: KernelOption, grid: Grid | None, done: Callable[[], None]
    ) -> list[Judged]:
        """One candidate: C and lam are the estimator's own, leave-one-out knows nothing of them."""
        assert grid is None
        start = time.perf_counter()
        model = option.applied(template, self.given)._fit_checked(self.given)
        fit_time = time.perf_counter() - start
        start = time.perf_counter()
        score, error = self._scores(model)
        score_time = time.perf_counter() - start
        share = weight_share(self.given, model.support_)
        measured = np.array([[score, len(model.support_), share, fit_time, score_time]])
        done()
        return [Judged({}, measured, error, model)]

    def confirmed(
        self, template: SparseKLR, options: Sequence[KernelOption], chosen: int
    ) -> tuple[int, float | None]:
        """The chosen candidate if it is better than the first on validation folds, else the first; its score.

        The score is None where a class is too small for folds; the first candidate is then taken.
        """
        models = [options[index].applied(template, self.given) for index in (0, chosen)]
        scores = None
        if self.by_log_loss:
            rows = training_set(self.given, **{**models[0]._kernel_parameters(), "gamma": 1.0})
            copies = with_copies_marked(DistinctPoints.of(rows), seed=0).copies
            losses = validation_losses(models, self.given, rows, copies)
            scores = None if losses is None else -losses
        elif (n_splits := min(5, np.unique(self.given.y, return_counts=True)[1].min())) > 1:
            measured = []
            for train, test in StratifiedKFold(n_splits).split(np.zeros(len(self.given.y)), self.given.y):
                fold = Fold.of(self.given, train, test, self.scoring)
                measured.append(score_fits(models, fold, lambda: None)[:, 0])
            scores = np.mean(measured, axis=0)
        if scores is None:
            return 0, None
        return (chosen, float(scores[1])) if scores[1] > scores[0] else (0, float(scores[0]))

    def _scores(self, model: SparseKLR) -> tuple[float, float]:
        """The score of the leave-one-out outputs, and its standard error."""
        n = len(self.given.y)
        outputs = model.loo_decision_function_.reshape(n, -1)
        rows = np.flatnonzero(np.isfinite(outputs).all(axis=1))  # those of positive weight
        points = np.unique(shuffled_keys(self.given.X[rows], seed=0), return_inverse=True)[1]

        def score(part: np.ndarray) -> float:
            known = Known(outputs[part], model.classes_)
            return self.scoring.part(part, n)(known, self.given.X[part], self.given.y[part])

        if self.by_log_loss:
            codes = np.searchsorted(model.classes_, self.given.y[rows])
            losses = -log_probabilities(outputs[rows])[np.arange(len(rows)), codes]
            weight = self.scoring.part(rows, n).metadata.get("sample_weight", np.ones(len(rows)))
            return score(rows), _error_of_mean(losses, weight, points)
        keys, n_classes = points % _PARTS, len(model.classes_)
        rests = [rows[keys != k] for k in range(_PARTS) if (keys == k).any()]
        # without one of the classes many scores are not defined
        without = [score(rest) for rest in rests if len(np.unique(self.given.y[rest])) == n_classes]
        error = np.sqrt((len(without) - 1) * np.var(without)) if len(without) > 1 else 0.0
        return score(rows), float(error)


def _error_of_mean(losses: np.ndarray, weight: np.ndarray, points: np.ndarray) -> float:
    r"""Standard error of a weighted mean over rows, where those of the same point belong together.

    With the mean m and points j: :math:`\sqrt{\sum_j (\sum_{i \in j} w_i (l_i - m))^2} / \sum_i w_i`.
    """
    total = weight.sum()
    off = np.bincount(points, weight * (losses - weight @ losses / total))
    return float(np.sqrt(off @ off) / total)


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Judges a candidate by its scores on folds, each by models fitted on the rest."""

    folds: Sequence[Fold]
    by_path: bool  # S-KLR predicts the same as the whole model: solve the grid as one path

    @property
    def n_splits(self) -> int:
        return len(self.folds)

    def __call__(
        self, template: SparseKLR, option: KernelOption, grid: Grid | None, done: Callable[[], None]
    ) -> list[Judged]:
        """All candidates of a grid with one kernel; one candidate without a grid."""
        cells: list[dict[str, Any]] = [{}] if grid is None else grid.cells()
        measured = np.empty((len(cells), len(self.folds), len(MEASURES)))
        for k, fold in enumerate(self.folds):
            model = option.applied(template, fold.train)
            if searches(model.kernel, model.gamma):  # once for all C and lam, which have no part in it
                kernel = model._training_set(fold.train).kernel
                model.set_params(kernel=kernel.name, gamma=kernel.gamma)
            if grid is not None and self.by_path:
                path = score_path(model, fold, grid.Cs, grid.lams, done, check_saturation=k == 0)
                measured[:, k] = path.reshape(len(cells), -1)
            else:
                measured[:, k] = score_fits([clone(model).set_params(**cell) for cell in cells], fold, done)
        scores = measured[:, :, 0]
        n = len(self.folds)
        errors = scores.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(cells))
        return [Judged(*one) for one in zip(cells, measured, errors.tolist(), strict=True)]


def judge_all(
    judge: LeaveOneOut | CrossValidation,
    template: SparseKLR,
    kinds: Sequence[Sequence[KernelOption]],
    grid: Grid | None,
    given: GivenData,
    done: Callable[[], None],
) -> tuple[list[KernelOption], list[Judged]]:
    """All candidates with their kernels: the given widths of every kind, and more while the last is best.

    There are no more of a kind that is not as good as those before. ``given`` are all rows, to which the
    widths in the table belong.
    """
    kernel_is_searched = sum(map(len, kinds)) > 1 or kinds[0][0].factor is not None
    options: list[KernelOption] = []
    judged: list[Judged] = []

    def consider(option: KernelOption) -> float:
        params = {"kernel": option.kernel} if len(kinds) > 1 else {}
        if kernel_is_searched:
            params["gamma"] = option.applied(template, given).gamma
        found = judge(template, option, grid, done)
        options.extend([option] * len(found))
        judged.extend(replace(one, params={**one.params, **params}) for one in found)
        return max(one.score for one in found)

    for widths in kinds:
        best_before = max((one.score for one in judged), default=-np.inf)
        scores = {option: consider(option) for option in widths}
        if max(scores.values()) < best_before:
            continue
        for direction, end in ((-1, widths[0]), (1, widths[-1])):
            while end.may_go_on and max(scores, key=lambda option: scores[option]) == end:
                end = end.next(direction)
                scores[end] = consider(end)
    return options, judged
