"""Generation of ``docs/arena.md``, its picture, and parts of other pages from results of ``benchmarks.arena``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from .arena_measure import REPORT
from .arena_report import CLOSE, FLOOR, common, summary
from .arena_text import NAMES, OURS, SHORT, markdown, plain, replace_part
from .boosting_page import comparison
from .sources import record
from .store import RESULTS, ROOT

PAGE = """# How good is it on {n_sets} tables?

All models have default parameters and see the same training rows, at most {n_rows:,} of each table; the log-loss on the other
rows (at most 5,000) is a mean over {n_splits} random splits. The tables are those of `benchmarks/arena_measure.py`: the twelve
sets of the paper and 31 sets of the KEEL repository, with 3 to 60 columns and up to 11 classes. Text columns are one-hot
encoded and missing values imputed for all models except CatBoost, which has its own encoding. RealMLP, a neural network, and
xRFM, a kernel method, are those of pytabkit; they stop at the smallest log-loss on a fifth of the training rows, and RealMLP
does not smooth the labels, which would increase its log-loss. The rules by which `SparseKLR` chooses kernel, scaling and widths were selected on one half of the tables; the second table of means below
is about the other half.

## Tables on which another model is better

On {n_lost} of the {n_sets} tables another model has a log-loss more than 5% below that of `SparseKLR` and `CompactKLR`:

{lost}

## All models

On all {n_sets} tables:

{table}

On the {n_report} tables of the other half:

{report}

*Geometric mean*: the geometric mean over the tables of the log-loss divided by that of CatBoost, where losses below 0.001 count as
0.001. *Mean rank*: 1 is the best of the {n_models} models. *Close*: the fraction of tables on which the log-loss is at most 5% above
the smallest. *Worst*: the largest ratio to the smallest log-loss. *CPU time*: seconds for a fit on one core, a mean over tables. Points
are the training rows or prototypes that a model keeps.

![Fraction of tables on which the log-loss of a model is within a factor of the best](arena.png)

## Every table

{sets}

To repeat: `python -m benchmarks.arena run arena.csv --splits {n_splits}` and `python -m benchmarks.arena page arena.csv`. The results are in
`docs/results/arena.csv`.
"""


def write(rows: pd.DataFrame) -> None:
    """Write ``docs/results/arena.csv``, and all pages and pictures that are generated from it."""
    rows = common(rows[rows["model"].isin(NAMES)])
    rows.drop(columns="loss").to_csv(RESULTS / "arena.csv", index=False)
    record("arena", set(rows.loc[rows["model"].isin(OURS), "sources"]))
    losses = rows.pivot_table(index="set", columns="model", values="loss")
    best = losses.clip(lower=FLOOR).min(axis=1)
    ours, others = (losses[list(part)].min(axis=1) for part in (OURS, losses.columns.difference(OURS)))
    lost = losses[ours.clip(lower=FLOOR) > CLOSE * others.clip(lower=FLOOR)].index
    report = rows[rows["set"].isin(REPORT)]
    page = PAGE.format(
        n_sets=len(losses),
        n_rows=int(rows["rows"].max()),
        n_splits=rows.groupby("set")["split"].nunique().min(),
        n_models=losses.shape[1],
        n_lost=len(lost),
        n_report=report["set"].nunique(),
        lost=lost_table(losses.loc[lost]),
        table=means(rows),
        report=means(report),
        sets=set_table(losses),
    )
    (ROOT / "docs/arena.md").write_text(page, encoding="utf-8")
    draw(losses.clip(lower=FLOOR).div(best, axis=0), ROOT / "docs/arena.png")
    text = f"{means(rows, brief=True)}\n\nOn {len(lost)} of the {len(losses)} tables another model is more than 5% better than both `CompactKLR()` and `SparseKLR()`.\n"
    replace_part(ROOT / "README.md", text)
    replace_part(ROOT / "docs/coming-from-boosting.md", comparison(rows))


def means(rows: pd.DataFrame, brief: bool = False) -> str:
    """Return a table with one line for each model, sorted by mean log-loss."""
    found = summary(rows, "CatBoost")
    columns = ["model", "log-loss", "geometric mean", "mean rank", "close", "points", "CPU time"]
    lines = [
        [
            NAMES[str(model)],
            f"{row.loss:.3f}",
            f"{row.geometric:.2f}",
            f"{row['rank']:.1f}",
            f"{row.close:.2f}",
            "-" if np.isnan(row.points) else f"{row.points:.0f}",
            f"{row.cpu_seconds:.2f} s",
        ]
        for model, row in found.iterrows()
    ]
    if not brief:
        columns.insert(5, "worst")
        for line, (_, row) in zip(lines, found.iterrows(), strict=True):
            line.insert(5, f"{row.worst:.1f} ({row.worst_set})")
    return markdown(columns, lines)


def lost_table(losses: pd.DataFrame) -> str:
    """Return the data sets on which another model is clearly better than ours, sorted by the ratio of losses."""
    others = losses[losses.columns.difference(OURS)]
    ratio = losses[list(OURS)].min(axis=1).clip(lower=FLOOR) / others.min(axis=1).clip(lower=FLOOR)
    lines = [
        [str(name), *(f"{losses.loc[name, one]:.4f}" for one in OURS), NAMES[others.loc[name].idxmin()], f"{others.loc[name].min():.4f}"]
        for name in ratio.sort_values(ascending=False).index
    ]  # fmt: skip
    return markdown(["table", *(NAMES[one] for one in OURS), "best model", "its log-loss"], lines)


def set_table(losses: pd.DataFrame) -> str:
    """Return a table with the log-loss of every model on every data set; the smallest is bold."""
    order = [model for model in NAMES if model in losses]
    lines = []
    for name, row in losses[order].iterrows():
        least = row.min()
        lines.append([str(name), *(f"**{v:.3f}**" if v == least else f"{v:.3f}" for v in row)])
    return markdown(["table", *(SHORT.get(model, model) for model in order)], lines)


def draw(ratios: pd.DataFrame, path: Path) -> None:
    """Draw, for each model, the fraction of tables on which its loss is within a factor of the best loss."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    grid = np.geomspace(1, 3, 200)
    order = (ratios <= 1.5).mean().sort_values(ascending=False).index
    for model in order:
        ours = model in OURS
        curve = [(ratios[model] <= t).mean() for t in grid]
        style = {"linewidth": 2.6} if ours else {"linewidth": 1.3, "linestyle": "--"}
        axes.plot(grid, curve, label=plain(model), **style)
    axes.set(xscale="log", xlim=(1, 3), ylim=(0, 1), xlabel="log-loss divided by that of the best model of the table",
             ylabel="fraction of the tables")  # fmt: skip
    axes.set_xticks([1, 1.1, 1.25, 1.5, 2, 3], ["1", "1.1", "1.25", "1.5", "2", "3"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(path, dpi=130)
    plt.close(figure)
