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

PAGE = """# Comparison on {n_sets} data sets

On public data sets with at most {n_rows:,} training rows, {first} and {second} have the lowest mean log-losses
among {n_models} classifiers. On {n_lost} of the {n_sets} data sets, another classifier has a clearly lower log-loss than both.

All classifiers are fitted to the same training rows, at most {n_rows:,} from each data set. The log-loss is measured on up to
5,000 other rows and averaged over {n_splits} random splits. Twelve of the data sets are those of the [paper](reproduction.md), and
31 come from the KEEL repository. The data sets have 3 to 85 columns and up to 11 classes. They are listed in
`benchmarks/arena_measure.py`.

The classifiers use their default parameters, with three exceptions:

- The probabilities of the SVC are calibrated by `CalibratedClassifierCV`.
- The logistic regression may take up to 1,000 iterations.
- RealMLP, a neural network, and xRFM, a kernel method, come from the package pytabkit. Both set aside a fifth of the
  training rows and use the log-loss on these rows to decide when to stop. RealMLP was run without label smoothing, because
  label smoothing would have increased its log-loss.

CatBoost encodes text columns and missing values itself. For all other classifiers, text columns are one-hot encoded, and
missing values are replaced by medians. Features are standardised for `SparseKLR`, `CompactKLR`, the SVC and the logistic
regression.

## Data sets on which another classifier is better

On {n_lost} of the {n_sets} data sets, the log-losses of both `SparseKLR` and `CompactKLR` are more than 5% above the lowest
log-loss of any model:

{lost}

## All models

The following table shows the means over all {n_sets} data sets:

{table}

Most of the rules by which `SparseKLR` chooses its kernel, scaling and widths were developed on one half of the data sets. The
following table shows the means over the {n_report} data sets of the other half:

{report}

The columns have the following meanings:

- *Log-loss*: the mean log-loss on test rows.
- *Geometric mean*: the geometric mean of the ratio of the log-loss to that of CatBoost on the same data set. Losses below
  0.001 count as 0.001.
- *Mean rank*: the rank by log-loss among the {n_models} models, averaged over the data sets; 1 is best.
- *Within 5%*: the fraction of data sets on which the log-loss is at most 5% above the lowest log-loss of any model.
- *Worst*: the largest ratio of the log-loss to the lowest log-loss of any model, and the data set on which it occurs.
- *Points*: the mean number of training rows or prototypes that the model contains.
- *CPU time*: the mean time of one fit on one core.

![For each model, the fraction of data sets on which its log-loss is within a given factor of the lowest](arena.png)

## Every data set

Each row of the table shows the log-losses on one data set; the lowest is in bold.

{sets}

Two commands repeat the comparison. `python -m benchmarks.arena run arena.csv --splits {n_splits}` fits the models, and
`python -m benchmarks.arena page arena.csv` writes this page. The results are stored in `docs/results/arena.csv`.
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
    first, second = (NAMES[str(model)] for model in summary(rows, "CatBoost").index[:2])
    page = PAGE.format(
        first=first,
        second=second,
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
    text = f"""{means(rows, brief=True)}

On {len(lost)} of the {len(losses)} data sets, the log-losses of both `CompactKLR()` and `SparseKLR()` are more than 5% above the lowest
log-loss of any model.
"""
    replace_part(ROOT / "README.md", text)
    replace_part(ROOT / "docs/coming-from-boosting.md", comparison(rows))


def means(rows: pd.DataFrame, brief: bool = False) -> str:
    """Return a table with one line for each model, sorted by mean log-loss."""
    found = summary(rows, "CatBoost")
    columns = ["model", "log-loss", "geometric mean", "mean rank", "within 5%", "points", "CPU time"]
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
    return markdown(["data set", *(NAMES[one] for one in OURS), "best model", "its log-loss"], lines)


def set_table(losses: pd.DataFrame) -> str:
    """Return a table with the log-loss of every model on every data set; the smallest is bold."""
    order = [model for model in NAMES if model in losses]
    lines = []
    for name, row in losses[order].iterrows():
        least = row.min()
        lines.append([str(name), *(f"**{v:.3f}**" if v == least else f"{v:.3f}" for v in row)])
    return markdown(["data set", *(SHORT.get(model, model) for model in order)], lines)


def draw(ratios: pd.DataFrame, path: Path) -> None:
    """Draw, for each model, the fraction of data sets on which its loss is within a factor of the lowest loss."""
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
    axes.set(xscale="log", xlim=(1, 3), ylim=(0, 1), xlabel="log-loss divided by the lowest log-loss on the data set",
             ylabel="fraction of the data sets")  # fmt: skip
    axes.set_xticks([1, 1.1, 1.25, 1.5, 2, 3], ["1", "1.1", "1.25", "1.5", "2", "3"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(path, dpi=130)
    plt.close(figure)
