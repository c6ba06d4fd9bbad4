"""Results on a terminal: tables by rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..inspection.probability_report import LABELS
from .errors import listing

MEASURES = {
    "n_rows": "Rows",
    "accuracy": "Accuracy",
    "roc_auc": "ROC AUC",
    "log_loss": "Log-loss",
    "brier": "Brier score",
    "ece": "Calibration error (ECE)",
}


def show_table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], bold: int | None = None
) -> None:
    """A table; the first column is text, the others numbers."""
    table = Table(title=Text(title, "bold"), title_justify="left", show_header=any(head))
    for k, name in enumerate(head):
        table.add_column(Text(name), justify="right" if k else "left")
    for k, row in enumerate(rows):
        table.add_row(*map(Text, row), style="bold green" if k == bold else None)
    Console(width=500).print(table)  # wider than any terminal: rich would cut numbers to make them fit


def show_fit(summary: Mapping[str, Any], output: str) -> None:
    """What a fit gave."""
    rows = [
        ("Rows", str(summary["rows"])),
        ("Features", str(summary["features"])),
        ("Classes", listing(summary["classes"], most=6)),
        ("Points kept", f"{summary['points_kept']} ({summary['points_share']:.1%})"),
    ]
    if summary["loo_log_loss"] is not None:
        rows.append(("Leave-one-out log-loss", f"{summary['loo_log_loss']:.4f}"))
    rows.append(("Relative duality gap", f"{summary['dual_gap']:.1e}"))
    rows.append(("Seconds", f"{summary['seconds']:.2f}"))
    show_table("Fit", ("", ""), rows)
    if summary["test"]:
        show_measures(summary["test"], "On the rows held out")
    print(f"Model written to {output}")


def show_measures(found: Mapping[str, Any], title: str) -> None:
    """What :func:`sparseklr.cli.measures.measure` gave."""
    formats = {**{key: form for key, (_, form) in LABELS.items()}, "roc_auc": ".4f"}
    rows = [
        (label, format(found[key], formats[key])) for key, label in MEASURES.items() if found[key] is not None
    ]
    if found["n_points"] is not None:
        known = "" if found["points_share"] is None else f" ({found['points_share']:.1%})"
        rows.append(("Points kept", f"{found['n_points']}{known}"))
    show_table(title, ("", ""), rows)
    classes = [str(label) for label in found["classes"]]
    counts = [
        [label, *(f"{n:g}" for n in row)] for label, row in zip(classes, found["confusion"], strict=True)
    ]
    if len(classes) <= 12:  # more do not fit on a line
        show_table("Confusion matrix", ("true \\ predicted", *classes), counts)
