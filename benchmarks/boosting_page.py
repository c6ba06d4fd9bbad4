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
    """Return Markdown that compares our models with boosted trees, overall, by kind of table, and where we lose."""
    losses = rows.pivot_table(index="set", columns="model", values="loss").clip(lower=FLOOR)
    seconds = rows.groupby("model")["cpu_seconds"].mean()
    facts = rows.groupby("set")[["n_train", "n_classes"]].max()
    kinds = list(groups(facts))
    better = losses[losses[list(BOOSTING)].min(axis=1) * CLOSE < losses[list(OURS)].min(axis=1)]
    return f"""On the {len(losses)} tables of [the arena](arena.md), all with at most {facts["n_train"].max():,} training rows and with default
parameters, the log-loss is

{markdown(["", "more than 5% lower", "within 5%", "more than 5% higher", "geometric mean", "CPU time ratio"], [
    against(losses, seconds, ours, other) for ours in OURS for other in BOOSTING])}

*Geometric mean*: geometric mean of the ratio of the log-losses; a value below 1 is better. *CPU time ratio*: CPU time of
a fit divided by the CPU time of the other model. The kind of table matters:

{markdown(["tables", "number", *(f"{ours} / {other}" for ours in OURS for other in BOOSTING[:2])],
          [[kind, str(len(part)), *(f"{geometric(losses.loc[part], ours, other):.2f}" for ours in OURS for other in BOOSTING[:2])]
           for kind, part in kinds])}

On {len(better)} of the {len(losses)} tables the best of the three boosted models is more than 5% better than both of ours:

{markdown(["table", "training rows", *OURS, *BOOSTING],
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
    """Return groups of data sets by size, number of classes and types of columns."""
    rows = facts["n_train"]
    yield "at most 300 training rows", facts.index[rows <= 300]
    yield "301 to 1,000", facts.index[rows.between(301, 1000)]
    yield "more than 1,000", facts.index[rows > 1000]
    yield "two classes", facts.index[facts["n_classes"] == 2]
    yield "three classes or more", facts.index[facts["n_classes"] > 2]
    yield "only numbers", facts.index[~facts.index.isin(WITH_TEXT)]
    yield "with text columns", facts.index[facts.index.isin(WITH_TEXT)]
