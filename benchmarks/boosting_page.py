"""Generation of the tables in ``docs/coming-from-boosting.md`` from results of ``benchmarks.arena``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from .arena_measure import STRATA
from .arena_report import CLOSE, FLOOR
from .arena_text import OURS, markdown

BOOSTING = ("CatBoost", "LightGBM", "HistGradientBoosting")
WITH_TEXT = STRATA[0]


def comparison(rows: pd.DataFrame) -> str:
    """Return Markdown that compares our models with boosted trees, overall and by kind of data set."""
    losses = rows.pivot_table(index="set", columns="model", values="loss").clip(lower=FLOOR)
    seconds = rows.groupby("model")["cpu_seconds"].mean()
    facts = rows.groupby("set")[["n_train", "n_classes"]].max()
    kinds = list(groups(facts))
    better = losses[losses[list(BOOSTING)].min(axis=1) * CLOSE < losses[list(OURS)].min(axis=1)]
    return f"""The following three tables compare `SparseKLR` and `CompactKLR` with three boosting libraries. They show results on the
{len(losses)} data sets of [the main comparison](arena.md), with at most {facts["n_train"].max():,} training rows each. All models use their default
parameters. The first table shows on how many data sets the log-loss of our model is more than 5% lower than that of the
boosted model, within 5% of it, or more than 5% higher:

{markdown(["", "more than 5% lower", "within 5%", "more than 5% higher", "geometric mean", "CPU time ratio"], [
    against(losses, seconds, ours, other) for ours in OURS for other in BOOSTING])}

*Geometric mean* is the geometric mean, over the data sets, of the ratio of the log-loss of our model to that of the boosted
model. A value below 1 means that our model has the lower log-loss. *CPU time ratio* is the mean fit time of our model divided by
the mean fit time of the boosted model, on one core.

The second table shows the same geometric means for different kinds of data sets:

{markdown(["kind of data set", "number", *(f"{ours} / {other}" for ours in OURS for other in BOOSTING[:2])],
          [[kind, str(len(part)), *(f"{geometric(losses.loc[part], ours, other):.2f}" for ours in OURS for other in BOOSTING[:2])]
           for kind, part in kinds])}

On {len(better)} data sets, the log-losses of both of our models are more than 5% above the lowest log-loss of the three boosted models.
The third table shows these data sets:

{markdown(["data set", "training rows", *OURS, *BOOSTING],
          [[str(name), f"{facts.loc[name, 'n_train']:,}", *(f"{row[model]:.3f}" for model in (*OURS, *BOOSTING))]
           for name, row in better.iterrows()])}
"""  # fmt: skip


def against(losses: pd.DataFrame, seconds: pd.Series, ours: str, other: str) -> list[str]:
    ratio = losses[ours] / losses[other]
    counts = (ratio < 1 / CLOSE).sum(), ratio.between(1 / CLOSE, CLOSE).sum(), (ratio > CLOSE).sum()
    return [
        f"{ours} against {other}",
        *map(str, counts),
        f"{geometric(losses, ours, other):.2f}",
        f"{seconds[ours] / seconds[other]:.2f}",
    ]


def geometric(losses: pd.DataFrame, ours: str, other: str) -> float:
    return float(np.exp(np.log(losses[ours] / losses[other]).mean()))


def groups(facts: pd.DataFrame) -> Iterator[tuple[str, pd.Index]]:
    """Yield groups of data sets by size, number of classes and types of columns."""
    rows = facts["n_train"]
    yield "at most 300 training rows", facts.index[rows <= 300]
    yield "301 to 1,000 training rows", facts.index[rows.between(301, 1000)]
    yield "more than 1,000 training rows", facts.index[rows > 1000]
    yield "two classes", facts.index[facts["n_classes"] == 2]
    yield "three classes or more", facts.index[facts["n_classes"] > 2]
    yield "only columns of numbers", facts.index[~facts.index.isin(WITH_TEXT)]
    yield "with text columns", facts.index[facts.index.isin(WITH_TEXT)]
