"""Tables and figure of docs/reproduction.md, from the results of ``python -m paper``.

``docs/results/reproduction.csv`` contains, for each method and set, the mean over the folds and the date.
``python -m benchmarks.reproduction results.sqlite`` replaces the rows for which results.sqlite contains at least
``--folds`` folds (default: all five). Without a file, only the tables and the figure are written again.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterable

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from paper.protocol import MODES, N_FOLDS, RULES
from paper.published import TABLE_2, TABLE_3
from paper.report.summary import Summary
from paper.store import Results

from .common import NAMES
from .store import RESULTS, ROOT, store

FILE = RESULTS / "reproduction.csv"
FIGURE = ROOT / "docs" / "reproduction.png"
METRICS = {"accuracy": "accuracy", "fraction": "share", "log_loss": "log_loss"}  # column: name in the results
KEYS = ("mode", "set", "method", "rule")
UNTUNED = ("S-KLR refit", "SparseKLR", "CompactKLR")
COMMAND = "python -m benchmarks.reproduction results.sqlite"
# method, rule, label, colour, and the offset of its label in points
MARKS = (
    ("S-KLR", "best", "S-KLR", "#0072b2", (8, 4)),
    ("SVM", "best", "SVM", "#333333", (-34, -4)),
    ("IVM", "best", "IVM", "#009e73", (8, -4)),
    ("l1/2-KLR", "best", "l1/2-KLR", "#cc79a7", (6, 6)),
    ("KLR-2ord", "best", "plain KLR", "#b8860b", (-44, -24)),
    ("SparseKLR", "best", "SparseKLR", "#d55e00", (8, 4)),
    ("CompactKLR", "best", "CompactKLR", "#d55e00", (8, 4)),
)

Key = tuple[str, str, str, str]
Row = dict[str, str]


def stored() -> dict[Key, Row]:
    with FILE.open(newline="") as file:
        return {(row["mode"], row["set"], row["method"], row["rule"]): row for row in csv.DictReader(file)}


def renewed(path: str, folds: int) -> dict[Key, Row]:
    """Return the rows of all methods and sets of which a file of results has at least this number of folds."""
    with Results(path, readonly=True) as results:
        cells = results.cells(seed=0)
    rows = {}
    for mode in MODES:
        summary = Summary(cells, mode)
        for name in summary.datasets:
            for method in summary.methods:
                records = summary.of(name, method)
                if len(records) < folds:
                    continue
                for rule in RULES[:1] if method in UNTUNED else RULES:
                    values = {column: summary.value(name, method, rule, m) for column, m in METRICS.items()}
                    numbers = {c: f"{v:.4f}" if math.isfinite(v) else "" for c, v in values.items()}
                    day = max(record.finished for record in records)[:10]
                    key = (mode, name, method, rule)
                    rows[key] = {
                        **dict(zip(KEYS, key, strict=True)),
                        **numbers,
                        "folds": str(len(records)),
                        "measured": day,
                    }
    return rows


def write(rows: dict[Key, Row]) -> None:
    with FILE.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*KEYS, *METRICS, "folds", "measured"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def value(rows: dict[Key, Row], column: str, *key: str) -> float:
    row = rows.get((key[0], key[1], key[2], key[3]))
    return float(row[column]) if row and row[column] else math.nan


def paper(column: str, name: str, method: str, rule: str) -> float:
    for table in (TABLE_2, TABLE_3):
        if (method, rule) in table and column in ("accuracy", "fraction"):
            return table[method, rule][name][column == "fraction"]
    return math.nan


def mean(values: Iterable[float]) -> float | None:
    """Return the mean over the sets, or None if a set has no value."""
    result = float(np.mean(list(values)))
    return round(result, 3) if math.isfinite(result) else None


def number(value: float | None) -> str:
    """Return a number with three decimals, or a dash if there is no value."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.3f}"


def overview(rows: dict[Key, Row]) -> list[list[str]]:
    """Return our means over the twelve sets, and the means of the paper."""
    made = []
    for method, rule in (*TABLE_2, ("KLR-2ord", "best"), *((method, "best") for method in UNTUNED)):
        label = method if method in UNTUNED else f"{method}, {rule.replace('-', ' ')}"
        ours = {c: mean(value(rows, c, "converged", n, method, rule) for n in NAMES) for c in METRICS}
        theirs = {c: mean(paper(c, n, method, rule) for n in NAMES) for c in ("accuracy", "fraction")}
        row = [ours["accuracy"], theirs["accuracy"], ours["fraction"], theirs["fraction"], ours["log_loss"]]
        if ours["accuracy"] is not None:
            made.append([label, *map(number, row)])
    return made


def by_set(rows: dict[Key, Row], column: str) -> list[list[str]]:
    """Return one metric of the main methods on every set."""
    columns = (("S-KLR", "best"), ("SVM", "best"), ("SparseKLR", "best"), ("CompactKLR", "best"))
    table = []
    for name in NAMES:
        row = [name]
        for method, rule in columns:
            found = value(rows, column, "converged", name, method, rule)
            row.append(number(found))
            if method in ("S-KLR", "SVM") and column != "log_loss":
                row.append(number(paper(column, name, method, rule)))
        table.append(row)
    return table


def modes(rows: dict[Key, Row], rule: str) -> list[list[str]]:
    """Return the fractions of the rows that S-KLR keeps under three settings, and the fractions of the paper."""
    table = []
    for name in NAMES:
        found = [value(rows, "fraction", mode, name, "S-KLR", rule) for mode in MODES]
        table.append([name, *map(number, (*found, paper("fraction", name, "S-KLR", rule)))])
    return table


def draw(rows: dict[Key, Row]) -> None:
    """Draw the mean accuracy against the mean fraction of rows kept; hollow marks are the numbers of the paper."""
    figure, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    for method, rule, label, colour, offset in MARKS:
        ours = [
            mean(value(rows, c, "converged", n, method, rule) for n in NAMES)
            for c in ("fraction", "accuracy")
        ]
        theirs = [mean(paper(c, n, method, rule) for n in NAMES) for c in ("fraction", "accuracy")]
        if None in ours:
            continue
        own = method in UNTUNED
        ax.plot(*ours, marker="*" if own else "o", ms=13 if own else 8, color=colour, ls="")
        if None not in theirs:
            ax.plot(*theirs, marker="o", ms=8, mfc="white", color=colour, ls="")
            ax.plot(*zip(ours, theirs, strict=True), color=colour, lw=0.8, zorder=0)
        ax.annotate(label, ours, offset, textcoords="offset points", color=colour)
    ax.set_xscale("log")
    ticks = [0.01, 0.03, 0.1, 0.3, 1]
    ax.set_xticks(ticks, [f"{tick:.0%}" for tick in ticks])
    ax.minorticks_off()
    ax.set(xlim=(0.006, 1.3), xlabel="fraction of the training rows kept", ylabel="test accuracy")
    ax.grid(color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="?", help="file of results that `python -m paper` wrote")
    parser.add_argument("--folds", type=int, default=N_FOLDS, help="minimum number of folds for a row")
    given = parser.parse_args()
    rows = stored()
    if given.results:
        rows |= renewed(given.results, given.folds)
        write(rows)
    dates = {row["measured"] for row in rows.values()}
    versions = dates if len(dates) > 1 else ()  # rows from several days were measured with several versions
    heads = ["", "accuracy", "paper", "rows kept", "paper", "log-loss"]
    note = (
        "The numbers are means over the twelve data sets. All problems were solved to tolerance. *Rows kept* "
        "is the number of points of the model divided by the number of training rows."
    )
    store("reproduction", COMMAND, note, heads, overview(rows), versions)
    heads = ["data set", "S-KLR", "paper", "SVM", "paper", "SparseKLR", "CompactKLR"]
    for column, words in (
        ("accuracy", "Test accuracy"),
        ("fraction", "Number of points of the model divided by the number of training rows"),
    ):
        note = (
            f"{words}, averaged over five folds. S-KLR and SVM are the models of their grids with the highest "
            "accuracy on the validation rows."
        )
        store(f"reproduction_{column}", COMMAND, note, heads, by_set(rows, column), versions)
    heads = ["data set", "solved to tolerance", "as printed", "as printed, gamma = 1", "paper"]
    for rule, words in (
        ("best", "the most accurate model"),
        ("sparsest-of-3", "the sparsest of the three most accurate models"),
    ):
        note = (
            f"Fraction of the training rows that S-KLR keeps, averaged over five folds, for {words}. "
            "A dash means that the setting was not measured."
        )
        store(f"reproduction_{rule.partition('-')[0]}", COMMAND, note, heads, modes(rows, rule), versions)
    draw(rows)


if __name__ == "__main__":
    main()
