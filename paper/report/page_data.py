"""Data of the report page except its tables, computed from the stored cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparseklr.inspection.metrics import wilson_interval

from .. import published
from ..datasets import BENCHMARKS
from ..protocol import CS, METHODS, N_FOLDS, RATIOS, RULES, Cell, plan
from ..store import StoredCell
from .comparison import MIN_SETS, Comparison, compare
from .summary import Summary, standard_error
from .tables import TABLE_2, by_ties, theirs

ACCURACY_LIMIT, SHARE_LIMIT = 0.01, 0.05  # larger differences from the paper need an explanation


# -- what was run -----------------------------------------------------------------------------


def missing(summary: Summary) -> list[Cell]:
    """Return the cells of the paper's whole grid that are not stored, for every seed that occurs."""
    stored = {record.cell for record in summary.records}
    seeds = sorted({cell.seed for cell in stored})
    return [cell for cell in plan(mode=summary.mode, seeds=seeds) if cell not in stored]


def in_words(cells: list[Cell], n_seeds: int) -> list[str]:
    """Return a description of missing cells: whole sets first, then methods with missing sets or folds."""
    count: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        count.setdefault((cell.dataset, cell.method), []).append(cell)
    whole = {key for key, found in count.items() if len(found) == N_FOLDS * n_seeds}
    words = [name for name in BENCHMARKS if all((name, method) in whole for method in METHODS)]
    for method in METHODS:
        sets = [name for name in BENCHMARKS if (name, method) in whole and name not in words]
        others = [name for name in BENCHMARKS if name not in sets and name not in words]
        if sets and len(others) < len(sets):
            words.append(f"{method} on every set" + (f" but {', '.join(others)}" if others else ""))
        elif sets:
            words.append(f"{method} on {', '.join(sets)}")
    for (dataset, method), found in count.items():
        if (dataset, method) not in whole:
            folds = ", ".join(str(fold + 1) for fold in sorted({cell.fold for cell in found}))
            words.append(f"{method} on {dataset}, fold {folds}")
    return words


# -- figures ----------------------------------------------------------------------------------


def charts(summary: Summary) -> dict[str, Any]:
    """Return the numbers for the interactive figures of one mode."""
    return {
        "sets": summary.datasets,
        "methods": summary.methods,
        "points": {rule: _points(summary, rule) for rule in RULES},
        "ratios": RATIOS.tolist(),
        "Cs": CS.tolist(),
        "grid": {d: _grid(summary, d) for d in summary.datasets if summary.of(d, "S-KLR")},
        "reliability": _reliability(summary),
        "seconds": {d: {m: summary.seconds(d, m) for m in summary.methods} for d in summary.datasets},
        "paperSeconds": {d: published.TABLE_4[d] for d in summary.datasets},
        "ranks": _ranks(comparison(summary)),
    }


def _points(summary: Summary, rule: str) -> dict[str, dict[str, Any]]:
    """Return our results and those of the paper, by set and method, for the scatter plot."""
    found: dict[str, dict[str, Any]] = {"mean": {}}
    for method in summary.methods:
        rows, printed = [], []
        for dataset in summary.datasets:
            if not summary.of(dataset, method):
                continue
            row = [summary.value(dataset, method, rule, m) for m in ("accuracy", "share", "log_loss")]
            error = standard_error(summary.folds(dataset, method, rule, "accuracy"))
            pair = theirs(method, rule, dataset)
            found.setdefault(dataset, {})[method] = [*row, error, *(pair or (None, None)), 1]
            rows.append(row)
            printed.append(pair)
        pairs = [pair for pair in printed if pair]
        mean = np.mean(pairs, axis=0).tolist() if pairs else [None, None]
        found["mean"][method] = [*np.mean(rows, axis=0).tolist(), None, *mean, len(rows)]
    return found


def _grid(summary: Summary, dataset: str) -> dict[str, Any]:
    """Return the results of S-KLR on its grid, with one row for each C and one column for each lam / C."""
    return {
        metric: summary.grid(dataset, "S-KLR", metric).reshape(len(CS), len(RATIOS)).tolist()
        for metric in ("accuracy", "share")
    }


def _reliability(summary: Summary) -> dict[str, dict[str, Any]]:
    """Return the bins (n, predicted, observed, low, high) of reliability diagrams by set and method.

    The rows of all folds are pooled; the set "all" pools all sets.
    """
    found: dict[str, dict[str, Any]] = {}
    for dataset in ("all", *summary.datasets):
        for method in summary.methods:
            records = [r for d in summary.datasets if dataset in ("all", d) for r in summary.of(d, method)]
            if rows := _pooled(records):
                found.setdefault(dataset, {})[method] = rows
    return found


def _pooled(records: list[StoredCell]) -> list[list[float]]:
    bins = [record.result["reliability"].get("best") for record in records]
    if not bins or None in bins:
        return []
    n, p, y = (np.sum([found[key] for found in bins], axis=0) for key in ("n", "p", "y"))
    seeds = len({record.cell.seed for record in records})  # each seed contains every row once
    some = n > 0
    n, p, y = n[some], p[some], y[some]
    low, high = wilson_interval(y / n, n / seeds, 0.95)
    return np.transpose([n / seeds, p / n, y / n, low, high]).tolist()


# -- comparison, convergence, differences -----------------------------------------------------


def comparison(summary: Summary) -> Comparison | str:
    """Return ranks and tests of the accuracies in Table 2, or the reason why they cannot be computed."""
    methods = [method for method, rule in TABLE_2 if rule == "best" and method in summary.methods]
    scores = np.array([[summary.value(d, m, "best", "accuracy") for m in methods] for d in summary.datasets])
    complete = scores[np.isfinite(scores).all(axis=1)]
    try:
        return compare(tuple(methods), complete)
    except ValueError:
        return (
            f"{len(complete)} data sets with all of {len(methods)} methods are too few for the tests; "
            f"at least {MIN_SETS} sets and 3 methods are needed."
        )


def _ranks(found: Comparison | str) -> dict[str, Any] | None:
    if isinstance(found, str):
        return None
    return {
        "names": found.names,
        "ranks": found.ranks.tolist(),
        "cd": found.critical_difference,
        "groups": found.groups,
    }


def converged(summary: Summary, dataset: str, method: str) -> float:
    """Return the fraction of the solves that reached their tolerance."""
    records = summary.of(dataset, method)
    found = [v for record in records for v in record.result["grid"]["converged"] if v is not None]
    return float(np.mean(found)) if found else np.nan


@dataclass(frozen=True)
class Difference:
    """A data set on which our results of S-KLR differ from the paper, with possible explanations."""

    dataset: str
    rule: str
    ours: tuple[float, float]  # accuracy, share
    paper: tuple[float, float]
    error: float  # standard error of the accuracy over the folds
    ties: dict[str, tuple[float, float]]
    shares: list[float]  # by fold
    converged: float

    def within_ties(self, k: int) -> bool:
        """Return whether the number of the paper is between our numbers for the three rules for ties."""
        found = [pair[k] for pair in self.ties.values()]
        return round(min(found), 3) <= self.paper[k] <= round(max(found), 3)


def differences(summary: Summary) -> list[Difference]:
    """Return differences from Table 2 of more than 0.01 in accuracy or 0.05 in the fraction of rows kept."""
    found = []
    for dataset in summary.datasets:
        for rule in ("best", "sparsest-of-3"):
            if not summary.of(dataset, "S-KLR"):
                continue
            accuracy, share = (summary.value(dataset, "S-KLR", rule, m) for m in ("accuracy", "share"))
            printed = published.TABLE_2["S-KLR", rule][dataset]
            if abs(accuracy - printed[0]) <= ACCURACY_LIMIT and abs(share - printed[1]) <= SHARE_LIMIT:
                continue
            found.append(
                Difference(
                    dataset,
                    rule,
                    (accuracy, share),
                    printed,
                    standard_error(summary.folds(dataset, "S-KLR", rule, "accuracy")),
                    by_ties(summary, dataset, rule),
                    sorted(summary.folds(dataset, "S-KLR", rule, "share")),
                    converged(summary, dataset, "S-KLR"),
                )
            )
    return found
