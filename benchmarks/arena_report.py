"""Reports of ``benchmarks.arena``: summaries and comparisons of stored runs, and contradictory losses.

Losses are means over splits. In ratios, losses below ``FLOOR`` are replaced by ``FLOOR``. Otherwise a set on which
the loss falls from 0.0002 to 0.0001, which is not informative, would dominate a geometric mean. The loss of a fit
that raised an error is the loss of the class fractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .arena_measure import COLUMNS, HALVES
from .common import show

FLOOR = 1e-3
CLOSE = 1.05  # a model is close to the best if its loss is at most this factor times the lowest loss
KEY = list(COLUMNS[:5])
CELL = ["set", "split", "seed", "rows"]  # columns that identify the training and test rows of a fit
TEXT = ["set", "model", "warnings", "error", "sources"]


def read(paths: Sequence[Path]) -> pd.DataFrame:
    """Return the rows of stored runs; if a measurement was repeated, only the last one.

    The column ``loss`` is the log-loss; for fits that raised an error, it is the loss of the class fractions.
    """
    rows = pd.concat([pd.read_csv(path, dtype={column: str for column in TEXT}) for path in paths])
    rows = (
        rows.dropna(subset=[*KEY, "base_log_loss"]).drop_duplicates(KEY, keep="last").reset_index(drop=True)
    )
    rows = rows.reindex(columns=COLUMNS)  # older files do not have the column "sources"
    rows[["warnings", "error", "sources"]] = rows[["warnings", "error", "sources"]].fillna("")
    return rows.assign(loss=rows["log_loss"].where(rows["error"] == "", rows["base_log_loss"]))


def halves(sets: pd.Index) -> Iterator[tuple[str, pd.Index]]:
    """Yield the sets of each half, and then all sets, including those in neither half."""
    for half, names in HALVES.items():
        part = sets if half == "all" else sets[sets.isin(names)]
        if len(part):
            yield half, part


def compare(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Return a comparison of two models on the splits that both have, sorted by decreasing ratio.

    For each set, it contains the losses ``a`` and ``b``, the ``difference`` b - a with its standard error over splits,
    and the ``ratio`` b / a."""
    pairs = a.merge(b, on=CELL, suffixes=("_a", "_b"))
    pairs["difference"] = pairs["loss_b"] - pairs["loss_a"]
    sets = pairs.groupby("set")
    found = pd.DataFrame(
        {
            "splits": sets.size(),
            "a": sets["loss_a"].mean(),
            "b": sets["loss_b"].mean(),
            "difference": sets["difference"].mean(),
            "error": sets["difference"].sem(),
        }
    )
    found["ratio"] = found["b"].clip(lower=FLOOR) / found["a"].clip(lower=FLOOR)
    return found.sort_values("ratio", ascending=False)


def totals(found: pd.DataFrame) -> dict[str, float]:
    """Return the means of a comparison over sets.

    These are the mean losses, the standard error of the paired difference, and the geometric mean of the ratios with
    the exponential of its standard error."""
    logs = np.log(found["ratio"])
    return {
        "sets": len(found),
        "a": found["a"].mean(),
        "b": found["b"].mean(),
        "difference": found["difference"].mean(),
        "error": found["difference"].sem(),
        "ratio": float(np.exp(logs.mean())),
        "ratio_error": float(np.exp(logs.sem())),
        "worst": found["ratio"].max(),
        "better": int((found["ratio"] < 1).sum()),
    }


def compare_files(
    a: Path, b: Path, model_a: str | None = None, model_b: str | None = None, brief: bool = False
) -> None:
    """Print the comparison of two labels, or of every label that occurs in both files."""
    first, second = read([a]), read([b])
    if model_a is None and model_b is None:
        labels = [label for label in first["model"].unique() if label in set(second["model"])]
        pairs = [(label, label) for label in labels]
        if not pairs and first["model"].nunique() == second["model"].nunique() == 1:
            pairs = [(first["model"][0], second["model"][0])]
    else:
        pairs = [(model_a or model_b or "", model_b or model_a or "")]
    if not pairs:
        raise SystemExit(f"{a} and {b} have no label in common; give two labels with --model-a and --model-b")
    for label_a, label_b in pairs:
        found = compare(first[first["model"] == label_a], second[second["model"] == label_b])
        if found.empty:
            raise SystemExit(f"no split was measured both for {label_a!r} in {a} and for {label_b!r} in {b}")
        title = f"{label_b} of {b.name} (b) against {label_a} of {a.name} (a)"
        if not brief:
            columns = ["set", "half", "splits", "loss a", "loss b", "b - a", "± (splits)", "b / a"]
            rows = [[name, half_of(str(name)), int(row.splits), row.a, row.b, row.difference, row.error, row.ratio]
                    for name, row in found.iterrows()]  # fmt: skip
            show(title, columns, rows)
        columns = ["half", "sets", "mean a", "mean b", "b - a", "± (sets)", "geo. b / a", "±", "worst", "b better on"]  # fmt: skip
        rows = []
        for half, part in halves(found.index):
            t = totals(found.loc[part])
            rows.append([half, t["sets"], t["a"], t["b"], t["difference"], t["error"], t["ratio"],
                         f"x {t['ratio_error']:.3f}", t["worst"], t["better"]])  # fmt: skip
        show(title, columns, rows)


def half_of(name: str) -> str:
    return next((half for half in ("choose", "report") if name in HALVES[half]), "")


def common(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the splits on which every model was measured."""
    return rows[rows.groupby(CELL)["model"].transform("nunique") == rows["model"].nunique()]


def summary(rows: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return a table with one line for each model, from the rows of ``common``: means over splits and sets."""
    losses = rows.pivot_table(index="set", columns="model", values="loss")
    floored = losses.clip(lower=FLOOR)
    to_best = floored.div(floored.min(axis=1), axis=0)
    models = rows.groupby("model")
    per_set = rows.groupby(["model", "set"])[["accuracy", "auc", "points", "seconds", "cpu_seconds"]].mean()
    found = pd.DataFrame({"loss": losses.mean()})
    found["geometric"] = np.exp(np.log(floored.div(floored[reference], axis=0)).mean())
    found["rank"] = losses.rank(axis=1).mean()
    found["close"] = (to_best <= CLOSE).mean()
    found["worst"] = to_best.max()
    found["worst_set"] = to_best.idxmax()
    found = found.join(per_set.groupby("model").mean())
    found["warned"] = models["warnings"].agg(lambda texts: int((texts != "").sum()))
    found["failed"] = models["error"].agg(lambda texts: int((texts != "").sum()))
    found["above_estimate"], found["above_base"] = (
        contradictory(rows, larger, smaller).groupby(rows["model"]).sum() for _, larger, smaller in ORDER
    )
    return found.sort_values("loss")


# The training loss of a sound model is at most its estimated loss, which is at most the loss of the class fractions.
ORDER = (
    ("training loss > estimate", "train_log_loss", "estimate"),
    ("estimate > class fractions", "estimate", "train_base_log_loss"),
)


def contradictory(rows: pd.DataFrame, larger: str, smaller: str) -> pd.Series:
    """Return for each row whether one column exceeds another by more than rounding; False if one is missing."""
    return rows[larger] > rows[smaller] * (1 + 1e-6)


def summarise(rows: pd.DataFrame, models: Sequence[str] | None = None, reference: str | None = None) -> None:
    """Print a summary for each half and for all sets."""
    labels = list(models or rows["model"].unique())
    if missing := set(labels) - set(rows["model"]):
        raise SystemExit(
            f"there are no results of {', '.join(sorted(missing))}; the models are {', '.join(rows['model'].unique())}"
        )
    reference = reference or ("CatBoost" if "CatBoost" in labels else labels[0])
    if reference not in labels:
        raise SystemExit(f"the reference {reference!r} is not among the models: {', '.join(labels)}")
    shared = common(rows[rows["model"].isin(labels)])
    if shared.empty:
        raise SystemExit("no split has results of all models; choose fewer models with --models")
    columns = ["model", "log-loss", f"geo. to {reference}", "mean rank", "within 5%", "worst", "on", "accuracy", "AUC",
               "points", "seconds", "CPU s", "warned", "failed", "Lt > Le", "Le > L0"]  # fmt: skip
    for half, part in halves(pd.Index(sorted(shared["set"].unique()))):
        used = shared[shared["set"].isin(part)]
        splits = used.groupby("set")[["split", "seed"]].apply(lambda cells: len(cells.drop_duplicates()))
        found = summary(used, reference)
        title = f"{half}: {len(part)} sets, {splits.min()} to {splits.max()} splits"
        show(title, columns, [[dash(cell) for cell in row] for row in found.itertuples()])


def dash(cell: Any) -> Any:
    return "-" if isinstance(cell, float) and np.isnan(cell) else cell


def violations(rows: pd.DataFrame) -> None:
    """Print the fits whose training loss, estimated loss and loss of the class fractions are in the wrong order."""
    for title, larger, smaller in ORDER:
        found = rows[contradictory(rows, larger, smaller)]
        found = found.assign(ratio=found[larger] / found[smaller]).sort_values("ratio", ascending=False)
        columns = ["model", "set", "split", "training", "estimate", "class fractions", "test", "points", "ratio"]  # fmt: skip
        names = ["model", "set", "split", "train_log_loss", "estimate", "train_base_log_loss", "log_loss", "points", "ratio"]  # fmt: skip
        show(f"{title}: {len(found)} of {int(rows['estimate'].notna().sum())} fits", columns, found[names].to_numpy(dtype=object).tolist())  # fmt: skip
