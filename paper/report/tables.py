"""Tables of the paper with our numbers and the differences, and further tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .. import published
from ..datasets import BENCHMARKS
from ..protocol import TIES, choose
from ..published import Column
from .summary import Summary, standard_error

OURS = "SparseKLR"  # the default model of the package, which the report highlights
UNTUNED = (
    "S-KLR refit",
    OURS,
    "CompactKLR",
)  # nothing is chosen on the validation rows, so all rules give the same model
TABLE_2 = (
    *published.TABLE_2,
    ("IVM", "sparsest-of-3"),
    *((method, "best") for method in UNTUNED),
)
NAMES = {"best": "best", "sparsest-of-3": "sparsest of 3"}


@dataclass(frozen=True)
class Value:
    """One of our numbers, with the number of the paper if there is one."""

    ours: float
    paper: float | None = None
    digits: int = 3
    best: bool = False

    @property
    def difference(self) -> float | None:
        return None if self.paper is None else self.ours - self.paper


@dataclass(frozen=True)
class Table:
    """A table with a caption; ``name`` is its file name or anchor."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Value]]]
    note: str = ""


def column_name(column: Column) -> str:
    method, rule = column
    return method if method in UNTUNED else f"{method}, {NAMES[rule]}"


def all_tables(summary: Summary) -> list[Table]:
    """Return all tables for which there are stored cells."""
    made = [
        table_1(summary),
        *_pair("table-2", "Table 2", summary, TABLE_2, published.TABLE_2),
        *additions(summary),
        *_pair("table-3", "Table 3", summary, tuple(published.TABLE_3), published.TABLE_3),
        table_4(summary),
        *table_5(summary),
        table_ties(summary),
    ]
    return [table for table in made if table.rows and table.columns]


def theirs(method: str, rule: str, dataset: str) -> tuple[float, float] | None:
    """Return the paper's accuracy and fraction of rows kept, from its Table 2 or 3."""
    for printed in (published.TABLE_2, published.TABLE_3):
        if (method, rule) in printed:
            return printed[method, rule][dataset]
    return None


def findings(summary: Summary, columns: tuple[Column, ...] = TABLE_2) -> Table:
    """Return the means of each column, and of the numbers of the paper, over the sets that all columns have.

    If there is no such set, each mean is over the sets of its column, and no mean is marked as best.
    """
    has = {column: [d for d in summary.datasets if summary.of(d, column[0])] for column in columns}
    has = {column: sets for column, sets in has.items() if sets}
    common = [dataset for dataset in summary.datasets if all(dataset in sets for sets in has.values())]
    rows: list[tuple[str, list[Value]]] = []
    for column, own in has.items():
        sets = common or own
        printed = [pair for dataset in sets if (pair := theirs(*column, dataset))]
        values = [Value(len(sets), None, 0)]
        for k, metric in enumerate(("accuracy", "share", "log_loss")):
            ours = float(np.mean([summary.value(dataset, *column, metric) for dataset in sets]))
            values.append(Value(ours, float(np.mean(printed, axis=0)[k]) if printed and k < 2 else None))
        rows.append((column_name(column), values))
    for k, best in ((1, max), (2, min), (3, min)):
        found = [round(values[k].ours, 3) for _, values in rows if np.isfinite(values[k].ours)]
        for _, values in rows:
            marked = bool(common and found) and round(values[k].ours, 3) == best(found)
            values[k] = replace(values[k], best=marked)
    over = (
        ", ".join(common) if common else "the data sets of each column, which differ and cannot be compared"
    )
    note = f"Means over {over}. The paper's means are over the same data sets."
    heads = ("sets", "accuracy", "rows kept", "log-loss")
    return Table("findings", "Means over the data sets", heads, rows, note)


def table_1(summary: Summary) -> Table:
    """Return Table 1: the sizes of the data sets."""
    rows = []
    for name in summary.datasets:
        spec = BENCHMARKS[name]
        n, p = spec.paper_shape
        positive = spec.class_counts[spec.positive] / spec.n_samples
        values = [Value(spec.n_samples, n, 0), Value(spec.n_features, p, 0), Value(positive)]
        rows.append((name, values))
    return Table("table-1", "Table 1: data sets", ("N", "p", "fraction of class 1"), rows)


def _columns(summary: Summary, columns: Iterable[Column]) -> list[Column]:
    """Return the columns for which there are stored cells."""
    return [column for column in columns if column[0] in summary.methods]


def _with_mean(rows: list[tuple[str, list[Value]]]) -> list[tuple[str, list[Value]]]:
    """Return the rows, followed by their mean; the mean of the paper is over the same sets."""
    if not rows:
        return rows
    means = []
    for column in zip(*(values for _, values in rows), strict=True):
        known = [v for v in column if np.isfinite(v.ours)]
        theirs = [v.paper for v in known if v.paper is not None]
        ours = float(np.mean([v.ours for v in known])) if known else np.nan
        means.append(
            Value(ours, float(np.mean(theirs)) if len(theirs) == len(known) > 0 else None, column[0].digits)
        )
    return [*rows, ("mean", means)]


def _mark(rows: list[tuple[str, list[Value]]], largest: bool) -> list[tuple[str, list[Value]]]:
    """Mark the best value of each row after rounding; means are marked only if no column lacks a value."""
    gaps = any(not np.isfinite(value.ours) for _, values in rows for value in values)
    marked = []
    for name, values in rows:
        if name == "mean" and gaps:
            marked.append((name, values))
            continue
        shown = [round(v.ours, v.digits) if np.isfinite(v.ours) else None for v in values]
        known = [s for s in shown if s is not None]
        best = (max(known) if largest else min(known)) if known else None
        marked.append(
            (
                name,
                [
                    Value(v.ours, v.paper, v.digits, s is not None and s == best)
                    for v, s in zip(values, shown, strict=True)
                ],
            )
        )
    return marked


def _pair(
    name: str,
    title: str,
    summary: Summary,
    columns: tuple[Column, ...],
    theirs: dict[Column, dict[str, tuple[float, float]]],
) -> list[Table]:
    """Return a table of accuracies and one of fractions of rows kept."""
    chosen = _columns(summary, columns)
    made = []
    for k, (metric, words) in enumerate((("accuracy", "test accuracy"), ("share", "fraction of rows kept"))):
        rows = [
            (
                dataset,
                [
                    Value(
                        summary.value(dataset, *column, metric),
                        theirs[column][dataset][k] if column in theirs else None,
                    )
                    for column in chosen
                ],
            )
            for dataset in summary.datasets
        ]
        heads = [column_name(column) for column in chosen]
        rows = _mark(_with_mean(rows), largest=metric == "accuracy")
        made.append(Table(f"{name}-{metric}", f"{title}: {words}", heads, rows))
    return made


def additions(summary: Summary) -> list[Table]:
    """Return tables that the paper does not contain: quality of the probabilities, and convergence."""
    chosen = _columns(summary, TABLE_2)
    made = []
    for metric, words, note in (
        (
            "log_loss",
            "test log-loss",
            "Log-loss of sigmoid(f). The support vector machine is missing, because it has no probabilities.",
        ),
        ("brier", "Brier score", ""),
        ("converged", "fraction of folds whose chosen model converged", ""),
    ):
        columns = [c for c in chosen if metric == "converged" or c[0] != "SVM"]
        rows = [
            (dataset, [Value(summary.value(dataset, *column, metric)) for column in columns])
            for dataset in summary.datasets
        ]
        rows = _with_mean(rows)
        if metric != "converged":
            rows = _mark(rows, largest=False)
        heads = [column_name(column) for column in columns]
        made.append(
            Table(
                f"table-2-{metric.replace('_', '-')}", f"In addition to Table 2: {words}", heads, rows, note
            )
        )
    return made


def table_4(summary: Summary) -> Table:
    """Return Table 4: the mean time of a fit over the grid, by working-set rule."""
    rows = []
    for dataset in summary.datasets:
        first, second = (summary.seconds(dataset, method) for method in ("S-KLR-1ord", "S-KLR"))
        theirs = published.TABLE_4[dataset]
        values = [
            Value(first, theirs[0], 4),
            Value(second, theirs[1], 4),
            Value(second / first, theirs[1] / theirs[0]),
        ]
        if np.isfinite(first) and np.isfinite(second):
            rows.append((dataset, values))
    note = "Times of the solver in seconds, averaged over the grid and the folds."
    return Table(
        "table-4",
        "Table 4: training time, first- and second-order working set",
        ("S-KLR-1ord, s", "S-KLR-2ord, s", "ratio"),
        _with_mean(rows),
        note,
    )


def table_5(summary: Summary) -> list[Table]:
    """Return Table 5: the rule lam = C / 10 and the whole grid, chosen on the test folds as in the paper."""
    columns = _columns(summary, published.TABLE_5)
    made = []
    for k, (metric, words) in enumerate((("accuracy", "test accuracy"), ("share", "fraction of rows kept"))):
        rows = []
        for dataset in summary.datasets:
            values = []
            for method, rule in columns:
                accuracy, share = (summary.grid(dataset, method, m) for m in ("accuracy", "share"))
                best = choose(rule, accuracy, share) if len(accuracy) else None
                ours = np.nan if best is None else float((accuracy, share)[k][best])
                values.append(Value(ours, published.TABLE_5[method, rule][dataset][k]))
            rows.append((dataset, values))
        note = (
            "These models were chosen by their accuracy on the test folds, as in the paper's appendix, so "
            "the numbers are optimistic."
        )
        made.append(
            Table(
                f"table-5-{metric}",
                f"Table 5: {words}",
                [column_name(column) for column in columns],
                _mark(_with_mean(rows), largest=metric == "accuracy"),
                note,
            )
        )
    return made


def by_ties(summary: Summary, dataset: str, rule: str) -> dict[str, tuple[float, float]]:
    """Return the mean accuracy and fraction of rows kept of S-KLR for each rule for ties."""
    found: dict[str, tuple[float, float]] = {}
    for ties in TIES:
        grids = [record.result["grid"] for record in summary.of(dataset, "S-KLR")]
        best = [choose(rule, grid["val_accuracy"], grid["val_share"], ties) for grid in grids]
        accuracy, share = (
            float(np.mean([grid[metric][k] for grid, k in zip(grids, best, strict=True)]))
            for metric in ("accuracy", "share")
        )
        found[ties] = accuracy, share
    return found


def table_ties(summary: Summary) -> Table:
    """Return a table of the effects of chance and of the rule for ties on the results of S-KLR."""
    heads = (
        "equals",
        "standard error",
        *(f"{what}, {ties}" for ties in TIES for what in ("accuracy", "fraction")),
    )
    rows = []
    for dataset in summary.datasets:
        if not (records := summary.of(dataset, "S-KLR")):
            continue
        equals = []
        for record in records:
            scores = np.array(record.result["grid"]["val_accuracy"])
            equals.append(np.sum(scores == scores.max()))
        error = standard_error(summary.folds(dataset, "S-KLR", "best", "accuracy"))
        theirs = published.TABLE_2["S-KLR", "best"][dataset]
        values = [Value(float(np.mean(equals)), None, 1), Value(error)]
        for accuracy, share in by_ties(summary, dataset, "best").values():
            values += [Value(accuracy, theirs[0]), Value(share, theirs[1])]
        rows.append((dataset, values))
    return Table(
        "ties",
        "S-KLR, best: effect of the choice among equally accurate models",
        heads,
        _with_mean(rows),
        "The column 'equals' contains the number of candidates, out of 90, that have the highest accuracy "
        "on the validation rows, averaged over the folds. The paper does not state which of them it chooses. "
        "The other columns show the results of choosing the first in the grid, the last, or the sparsest.",
    )
