"""Results on a terminal: tables by rich."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._words import printable
from ..inspection.probability_report import LABELS
from .errors import listing
from .files import source_name

MEASURES = {
    "n_rows": "Rows",
    "accuracy": "Accuracy",
    "roc_auc": "ROC AUC",
    "log_loss": "Log-loss",
    "brier": "Brier score",
    "ece": "Calibration error (ECE)",
}

# What the estimators know about the quality of a fit, of which each has its own part.
QUALITY = {
    "loo_log_loss": ("Leave-one-out log-loss", ".4f"),
    "validation_log_loss": ("Validation log-loss", ".4f"),
    "held_out_log_loss": ("Held-out log-loss", ".4f"),
    "dual_gap": ("Relative duality gap", ".1e"),
    "gradient_norm": ("Gradient norm", ".1e"),
}


class Terminal(Console):
    """Where tables are printed. A reader that has seen enough, such as head, is not an error."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with 1; main returns 0


def say(path: str, notes: Iterable[str]) -> None:
    """What is to be said about a file, on standard error."""
    for note in notes:
        print(printable(f"sparseklr: {source_name(path)}: {note}"), file=sys.stderr)


def show_table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    bold: int | None = None,
    stderr: bool = False,
    justify: Literal["left", "right"] = "right",
) -> None:
    """A table; ``justify`` places the columns after the first."""
    table = Table(title=Text(printable(title), "bold"), title_justify="left", show_header=any(head))
    for k, name in enumerate(head):
        table.add_column(Text(printable(name)), justify=justify if k else "left")
    for k, row in enumerate(rows):
        table.add_row(*(Text(printable(cell)) for cell in row), style="bold green" if k == bold else None)
    # wider than any terminal: rich would cut numbers to make them fit
    Terminal(width=500, stderr=stderr).print(table)


def show_fit(summary: Mapping[str, Any], output: str) -> None:
    """What a fit gave; on standard error where standard output takes the model."""
    stderr = output == "-"
    show_table("Fit", ("", ""), fit_lines(summary), stderr=stderr)
    if summary["test"]:
        show_measures(summary["test"], "On the rows held out", stderr=stderr)
    if not stderr:
        print(f"Model written to {output}")


def fit_lines(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is known of a fit, line by line; a model that was saved from Python knows less of it."""
    rows = []
    if "n_rows" in summary:
        rows.append(("Rows", str(summary["n_rows"])))
    if isinstance(summary["columns"], dict):
        rows.append(("Columns", kinds_in_words(summary["columns"].values())))
    rows.append(("Features", str(summary["n_features"])))
    scale = summary.get("scale")
    if scale and scale["chosen"]:
        rows.append(("Scale", _scale(scale)))
    if summary.get("n_features_used", summary["n_features"]) < summary["n_features"]:
        rows.append(("Features used", str(summary["n_features_used"])))
    rows.append(("Classes", listing(summary["classes"], most=6)))
    if summary["n_points"] is not None:
        rows.append(("Points kept", _points(summary["n_points"], summary.get("points_share"))))
    for key, (label, form) in QUALITY.items():
        if summary.get(key) is not None:
            rows.append((label, format(summary[key], form)))
    if "seconds" in summary:
        rows.append(("Seconds", f"{summary['seconds']:.2f}"))
    return rows


def kinds_in_words(kinds: Iterable[str]) -> str:
    """How many columns there are of each kind."""
    kinds, plural = list(kinds), {"number": "numbers", "date": "dates", "text": "text"}
    counts = {kind: kinds.count(kind) for kind in plural if kind in kinds}
    return ", ".join(f"{n} {plural[kind] if n > 1 else kind}" for kind, n in counts.items())


def time_in_words(created: str) -> str:
    """The time of a model file, to the minute."""
    return f"{datetime.fromisoformat(created):%Y-%m-%d %H:%M %Z}"


def _points(n_points: int, share: float | None) -> str:
    return f"{n_points}" if share is None else f"{n_points} ({share:.1%})"


def _scale(scale: Mapping[str, Any]) -> str:
    """The scale and what it was chosen by."""
    losses = {**scale["loo_log_loss"]}
    if not losses:
        return str(scale["chosen"])
    own = losses.pop(scale["chosen"])
    others = ", ".join(f"{name} {loss:.4f}" for name, loss in losses.items())
    return f"{scale['chosen']} ({own:.4f}; {others})"


def show_measures(found: Mapping[str, Any], title: str, stderr: bool = False) -> None:
    """What :func:`sparseklr.cli.measures.measure` gave."""
    formats = {**{key: form for key, (_, form) in LABELS.items()}, "roc_auc": ".4f"}
    rows = [
        (label, format(found[key], formats[key])) for key, label in MEASURES.items() if found[key] is not None
    ]
    if found["n_points"] is not None:
        rows.append(("Points kept", _points(found["n_points"], found["points_share"])))
    show_table(title, ("", ""), rows, stderr=stderr)
    classes = [str(label) for label in found["classes"]]
    counts = [
        [label, *(f"{n:g}" for n in row)] for label, row in zip(classes, found["confusion"], strict=True)
    ]
    if len(classes) <= 12:  # more do not fit on a line
        show_table("Confusion matrix", ("true \\ predicted", *classes), counts, stderr=stderr)


def show_explanation(found: Mapping[str, Any]) -> None:
    """What :func:`sparseklr.cli.explain.explained` gave: a column for the row and for each kept row."""
    points, others = found["points"], found["others"]
    head = ["", f"row {found['row']}"]
    head += [
        f"point {k + 1}" if one["row"] is None else f"kept row {one['row']}" for k, one in enumerate(points)
    ]
    label, log_odds = found["class"], found["log_odds"]
    lines = [[f"log-odds of {label}", f"{log_odds:+.3f}", *(f"{one['contribution']:+.3f}" for one in points)]]
    if all(one["class"] is not None for one in points):
        lines.append(["class", "?", *(str(one["class"]) for one in points)])
    if all(one["distance"] is not None for one in points):
        lines.append(["distance", "", *(f"{one['distance']:.3g}" for one in points)])
    for name, cell in (found["cells"] or {}).items():
        lines.append([_short(name), _short(cell), *(_short(one["cells"][name]) for one in points)])
    show_table(f"Row {found['row']}: {label}, {found['probability']:.1%}", head, lines)
    shown = sum(one["contribution"] for one in points)
    print(
        f"{log_odds:+.3f} = {shown:+.3f} of the {len(points)} shown, {others['for']:+.3f} for and "
        f"{others['against']:+.3f} against of the {others['n_points']} others, "
        f"{found['intercept']:+.3f} intercept"
    )
    if found["unfamiliar"]:
        print(printable(f"Unfamiliar: {found['unfamiliar']}"))


def _short(text: str, most: int = 28) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
