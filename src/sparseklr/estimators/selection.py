"""Rules that choose among the candidates of a cross-validation, and the table that they look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from .folds import MEASURES
from .judges import Judged

# Scores of models that differ in nothing but rounding count as equal.
_SAME_SCORE = 1e-12


def _sparsest(results: Mapping[str, Any], among: np.ndarray) -> int:
    """The candidate that keeps the smallest share of points; ties go to the better, then to the first."""
    keys = (among, -results["mean_test_score"][among], results["mean_support_share"][among])
    return int(among[np.lexsort(keys)[0]])


def select_best(results: Mapping[str, Any]) -> int:
    """Index of the highest mean score; ties go to the sparsest."""
    score = results["mean_test_score"]
    return _sparsest(results, np.flatnonzero(score >= score.max() - _SAME_SCORE))


def select_sparsest_of_3(results: Mapping[str, Any]) -> int:
    """Index of the sparsest of the three most accurate models (the rule of the paper's tables)."""
    score, share = results["mean_test_score"], results["mean_support_share"]
    ranked = np.lexsort((share, -np.round(score / _SAME_SCORE) * _SAME_SCORE))
    return _sparsest(results, ranked[:3])


def select_one_se(results: Mapping[str, Any]) -> int:
    """Index of the sparsest model within one standard error of the best (Breiman et al. 1984)."""
    score = results["mean_test_score"]
    best = int(score.argmax())
    error = results["standard_error"][best]
    return _sparsest(results, np.flatnonzero(score >= score[best] - error - _SAME_SCORE))


SELECTION_RULES: dict[str, Callable[[Mapping[str, Any]], int]] = {
    "best": select_best,
    "sparsest-of-3": select_sparsest_of_3,
    "one-se": select_one_se,
}


def results_table(judged: Sequence[Judged]) -> dict[str, Any]:
    """``cv_results_`` of the candidates."""
    measured = np.array([one.measured for one in judged])  # (n_candidates, n_splits, len(MEASURES))
    by_name = dict(zip(MEASURES, np.moveaxis(measured, -1, 0), strict=True))
    results: dict[str, Any] = {"params": [one.params for one in judged]}
    for name in judged[0].params:
        values = [one.params[name] for one in judged]
        results[f"param_{name}"] = np.ma.MaskedArray(values, mask=np.zeros(len(values), dtype=bool))
    for k, scores in enumerate(by_name["test_score"].T):
        results[f"split{k}_test_score"] = scores
    for name, values in by_name.items():
        results[f"mean_{name}"], results[f"std_{name}"] = values.mean(axis=1), values.std(axis=1)
    results["standard_error"] = np.array([one.error for one in judged])
    ranks = rankdata(-np.round(results["mean_test_score"] / _SAME_SCORE), method="min")
    results["rank_test_score"] = ranks.astype(np.int32)
    return results
