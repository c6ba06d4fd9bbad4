"""The tables of benchmarks/compact.py: every measurement against its bar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .common import show

Row = dict[str, Any]
Table = tuple[str, list[str], list[list[Any]]]  # title, columns, rows

OURS = "CompactKLR"
RIVALS = ("SparseKLR", "SVC tuned", "HistGradientBoosting")
FRESH = (3, 4)  # folds that were not looked at when constants were chosen


class Measured:
    """The stored rows of one part."""

    def __init__(self, rows: list[Row], part: str) -> None:
        self.rows = [row for row in rows if row["part"] == part]
        self.sets = list(dict.fromkeys(row["set"] for row in self.rows))

    def values(self, name: str, model: str, column: str, folds: tuple[int, ...] = ()) -> np.ndarray:
        found = [
            float(row[column])
            for row in self.rows
            if row["set"] == name and row["model"] == model and (not folds or int(row["fold"]) in folds)
        ]
        return np.array(found)

    def mean(self, name: str, model: str, column: str, folds: tuple[int, ...] = ()) -> float:
        values = self.values(name, model, column, folds)
        return float(values.mean()) if len(values) else np.nan

    def means(self, model: str, column: str, folds: tuple[int, ...] = ()) -> float:
        """Mean over sets of the means over folds."""
        return float(np.mean([self.mean(name, model, column, folds) for name in self.sets]))

    def share(self, name: str, model: str) -> float:
        return self.mean(name, model, "points") / self.mean(name, model, "rows")


def quality(rows: list[Row]) -> list[Table]:
    found = Measured(rows, "quality")
    if not found.sets:
        return []
    table, ratios = [], {}
    for name in found.sets:
        best = min(found.mean(name, rival, "loss") for rival in RIVALS)
        ratios[name] = found.mean(name, OURS, "loss") / best
        cells = [name]
        for model in (OURS, *RIVALS):
            loss, accuracy = found.mean(name, model, "loss"), found.mean(name, model, "accuracy")
            cells.append(f"{loss:.4f} {accuracy:.3f} {found.mean(name, model, 'points'):.0f}")
        table.append([*cells, f"{ratios[name]:.2f}"])
    for title, folds in (("mean", ()), ("mean, folds 3 and 4", FRESH)):
        cells = [title]
        for model in (OURS, *RIVALS):
            loss, accuracy, points = (
                found.means(model, column, folds) for column in ("loss", "accuracy", "points")
            )
            cells.append(f"{loss:.4f} {accuracy:.4f} {points:.0f}")
        table.append([*cells, ""])
    worst = max(ratios, key=lambda name: ratios[name])
    share = float(np.mean([found.share(name, OURS) for name in found.sets]))
    fresh = f" (folds 3 and 4: {found.means(OURS, 'loss', FRESH):.4f})"
    bars = [
        ["log-loss, mean of the sets", f"{found.means(OURS, 'loss'):.4f}{fresh}", "<= 0.163", "0.152"],
        ["accuracy", f"{found.means(OURS, 'accuracy'):.4f}", ">= 0.932", "0.937"],
        ["points", f"{found.means(OURS, 'points'):.1f}", "<= 30", "12"],
        ["points, share of the rows", f"{share:.3f}", "<= 0.035", "0.02"],
        [f"log-loss / best rival, worst set ({worst})", f"{ratios[worst]:.2f}", "<= 1.15", "1.05"],
    ]
    columns = ["set", *(f"{model}: log-loss, accuracy, points" for model in (OURS, *RIVALS)), "to the best"]
    return [("Quality, five folds", columns, table), ("bars", BARS, bars)]


def noise(rows: list[Row]) -> list[Table]:
    found, without = Measured(rows, "noise"), Measured(rows, "quality")
    if not found.sets:
        return []
    table = []
    for name in found.sets:
        folds = tuple(int(r["fold"]) for r in found.rows if r["set"] == name and r["model"] == OURS)
        clean, noisy = without.mean(name, OURS, "loss", folds), found.mean(name, OURS, "loss")
        trees = found.mean(name, "HistGradientBoosting", "loss")
        table.append([name, len(folds), clean, noisy, noisy / clean, found.mean(name, OURS, "noise"), trees])
    ratio, kept = float(np.mean([row[4] for row in table])), sum(row[5] for row in table)
    worst = max(table, key=lambda row: row[4])
    bars = [
        ["log-loss with 20 noise features / without, mean", f"{ratio:.3f}", "<= 1.05", "1.02"],
        [f"the same, worst set ({worst[0]})", f"{worst[4]:.3f}", "", ""],
        [f"noise features kept, of {20 * len(found.sets)}", f"{kept:.1f}", "<= 1", "0"],
    ]
    columns = [
        "set",
        "folds",
        "without noise",
        'with, relevance="sparse"',
        "ratio",
        "noise kept of 20",
        RIVALS[-1],
    ]
    return [("20 noise features", columns, table), ("bars", BARS, bars)]


def multiclass(rows: list[Row]) -> list[Table]:
    found = Measured(rows, "multiclass")
    if not found.sets:
        return []
    table = []
    for name in found.sets:
        cells = [found.mean(name, model, column) for column in ("loss", "accuracy", "points") for model in (OURS, "SparseKLR")]  # fmt: skip
        table.append([name, *cells, cells[0] / cells[1], cells[4] / cells[5]])
    bars = [
        [
            "log-loss / SparseKLR, geometric mean",
            f"{_geometric([row[-2] for row in table]):.3f}",
            "<= 1",
            "0.9",
        ],
        ["the same, worst set", f"{max(row[-2] for row in table):.3f}", "<= 1", ""],
        ["points / SparseKLR, worst set", f"{max(row[-1] for row in table):.3f}", "<= 0.33", ""],
    ]
    pairs = [
        f"{what}, {model}" for what in ("log-loss", "accuracy", "points") for model in (OURS, "SparseKLR")
    ]
    columns = ["set", *pairs, "log-loss ratio", "points ratio"]
    return [("Many classes, five folds", columns, table), ("bars", BARS, bars)]


def sparse_gp(rows: list[Row]) -> list[Table]:
    found = Measured(rows, "sparse-gp")
    bars = []
    for name, bar, goal in (("ring", 0.089, 0.071), ("twonorm", 0.086, 0.085)):
        losses = found.values(name, OURS, "loss")
        if len(losses):
            error, points = losses.std(ddof=1) / np.sqrt(len(losses)), found.values(name, OURS, "points")
            measured = f"{losses.mean():.4f} +- {error:.4f} ({len(losses)} draws)"
            bars.append([f"log-loss, {name}, at most {points.max():.0f} points", measured, f"<= {bar}", goal])
    return [("Against a sparse Gaussian process, 400 rows", BARS, bars)] if bars else []


def fit_time(rows: list[Row]) -> list[Table]:
    found = Measured(rows, "time")
    table, bars = [], []
    for rival, bar, goal in (("SVC(C=10) calibrated", "<= 3", "1"), ("HistGradientBoosting", "<= 10", "2")):
        ratios = []
        for name in found.sets:
            if len(theirs := found.values(name, rival, "seconds")):
                ours = float(np.median(found.values(name, OURS, "seconds")))
                ratios.append(ours / float(np.median(theirs)))
                table.append([name, rival, ours, float(np.median(theirs)), ratios[-1]])
        if ratios:
            bars.append([f"fit time / {rival}, geometric mean", f"{_geometric(ratios):.2f}", bar, goal])
    if not bars:
        return []
    columns = ["set", "rival", "CompactKLR s", "rival s", "ratio"]
    return [("Fit time, median of three", columns, table), ("bars", BARS, bars)]


def predict(rows: list[Row]) -> list[Table]:
    found = Measured(rows, "predict")
    if not found.sets:
        return []
    per_row = {
        model: float(np.median(found.values("twonorm", model, "seconds")))
        / found.mean("twonorm", model, "rows")
        for model in (OURS, "SVC")
    }
    points = f"16 points against {found.mean('twonorm', 'SVC', 'points'):.0f}"
    bars = [
        [f"SVC's time to predict / CompactKLR's ({points})", f"{per_row['SVC'] / per_row[OURS]:.0f}", ">= 50", "200"],
        ["CompactKLR, seconds for a million rows", f"{1e6 * per_row[OURS]:.2f}", "", ""],
    ]  # fmt: skip
    return [("Prediction, 20 features", BARS, bars)]


BARS = ["what", "measured", "bar", "goal"]


def _geometric(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def write_report(rows: list[Row], path: Path, text: str) -> None:
    """Print all tables and write them to a Markdown file under a text."""
    lines = ["# CompactKLR in figures", "", *text.strip().splitlines(), ""]
    for part in (quality, noise, multiclass, sparse_gp, fit_time, predict):
        for title, columns, table in part(rows):
            show(title, columns, table)
            if title != "bars":
                lines += [f"## {title}", ""]
            cells = [[f"{c:.4g}" if isinstance(c, float) else str(c) for c in row] for row in table]
            lines += [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *cells)] + [""]
    path.write_text("\n".join(lines))
