"""Tables and messages that the commands print, with the package rich."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._utils.messages import listing, printable
from .files import source_name

# Labels and formats of the measures on test rows.
MEASURES = {
    "n_rows": ("Rows", "d"),
    "accuracy": ("Accuracy", ".1%"),
    "roc_auc": ("ROC AUC", ".4f"),
    "log_loss": ("Log-loss", ".4f"),
    "brier": ("Brier score", ".4f"),
    "ece": ("Calibration error (ECE)", ".4f"),
}

# Labels and formats of fitted attributes that describe a fit; each estimator has only some of them.
LOSSES = {"loo_log_loss": "Leave-one-out log-loss", "validation_log_loss": "Validation log-loss"}
QUALITY = {
    "dual_gap": ("Relative duality gap", ".1e"),
    "gradient_norm": ("Gradient norm", ".1e"),
}

# If the log-loss is below this fraction of the log-loss of the class fractions, a column may contain the
# class.
LEAK = 0.05


class Terminal(Console):
    """A console that raises BrokenPipeError if the program that reads the output stops early."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would end with exit code 1; main returns 0


def print_notes(path: str, notes: Iterable[str]) -> None:
    """Print notes about a file on standard error, one line for each."""
    for note in notes:
        print(printable(f"sparseklr: {source_name(path)}: {note}"), file=sys.stderr)


def show_table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    stderr: bool = False,
    justify: Literal["left", "right"] = "right",
) -> None:
    """Print a table; ``justify`` applies to all columns after the first."""
    table = Table(title=Text(printable(title), "bold"), title_justify="left", show_header=any(head))
    for k, name in enumerate(head):
        table.add_column(Text(printable(name)), justify=justify if k else "left")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    # The table is wider than any terminal, because rich truncates numbers that do not fit.
    Terminal(width=500, stderr=stderr).print(table)


def show_search(search: Mapping[str, list[Any]], stderr: bool) -> None:
    """Print a table of the candidates (kernels, or numbers of points) in the order of the search."""
    names = [name for name in search if name != "seconds" or not any(map(math.isnan, search[name]))]
    cells = [[f"{v:.4g}" if isinstance(v, float) else f"{v}" for v in search[name]] for name in names]
    head = [name.replace("_", " ") for name in names]
    show_table(f"{len(search['log_loss'])} candidates", head, list(zip(*cells, strict=True)), stderr=stderr)


def show_comparison(found: Mapping[str, Any], stderr: bool) -> None:
    """Print the candidates of a model comparison with their validation losses, and the chosen model."""
    rows = [
        (
            one["model"] + (" (chosen)" if one["chosen"] else ""),
            f"{one['log_loss']:.4f} ± {one['standard_error']:.4f}",
            "-" if one["n_points"] is None else str(one["n_points"]),
            f"{one['seconds']:.1f}",
        )
        for one in found["candidates"]
    ]
    sample = "" if found["n_rows"] == found["n_all"] else f" of a sample of {found['n_rows']} rows"
    title = f"Models compared on {found['n_validation']} validation rows{sample}"
    show_table(title, ("model", "log-loss", "points", "seconds"), rows, stderr=stderr)
    chosen = next(one["model"] for one in found["candidates"] if one["chosen"])
    lines = [
        f"Chosen: {chosen}, the smallest model whose log-loss exceeds the lowest by at most one "
        "standard error of the difference. It is now fitted to all rows. To fit another model, give --model."
    ]
    constant = next(one["log_loss"] for one in found["candidates"] if one["model"] == "class fractions")
    if found["log_loss"] < LEAK * constant:
        lines.append(
            "The classes of the validation rows are predicted almost perfectly. If you did not expect this, "
            "use sparseklr explain to check whether a column contains the class, and exclude it with --drop."
        )
    if len(found["candidates"]) < 4:
        lines.append(
            "SparseKLR was not compared, because the table is large. To fit it, give --model sparse."
        )
    print("\n".join(lines), file=sys.stderr if stderr else sys.stdout)


def show_fit(summary: Mapping[str, Any], output: str) -> None:
    """Print the summary of a fit; on standard error if the model is written to standard output."""
    stderr = output == "-"
    show_table("Fit", ("", ""), fit_lines(summary), stderr=stderr)
    if summary["test"]:
        show_measures(summary["test"], "On the test rows", stderr=stderr)
    if not stderr:
        print(f"Model written to {output}")


def fit_lines(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return labels and values that describe a fit; there are fewer if the model was saved from Python."""
    rows = []
    if "n_rows" in summary:
        rows.append(("Rows", str(summary["n_rows"])))
    if isinstance(summary["columns"], dict):
        rows.append(("Columns", kinds_in_words(summary["columns"].values())))
    rows.append(("Features", str(summary["n_features"])))
    if summary.get("n_features_used", summary["n_features"]) < summary["n_features"]:
        rows.append(("Features used", str(summary["n_features_used"])))
    rows.append(("Classes", listing(summary["classes"], most=6)))
    if summary["n_points"] is not None:
        rows.append(("Points", _points(summary["n_points"], summary.get("points_fraction"))))
    rows += losses_in_words(summary).items()
    for key, (label, form) in QUALITY.items():
        if summary.get(key) is not None:
            rows.append((label, format(summary[key], form)))
    if "seconds" in summary:
        rows.append(("Seconds", f"{summary['seconds']:.2f}"))
    return rows


def losses_in_words(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the estimates of the log-loss on new rows as text.

    After a comparison of models, only the estimate of the comparison is returned, because a loss that the fit
    minimised is not comparable with it.
    """
    if compared := summary.get("comparison"):
        return {"Expected log-loss": f"{compared['log_loss']:.4f} ± {compared['standard_error']:.4f}"}
    return {label: f"{summary[key]:.4f}" for key, label in LOSSES.items() if summary.get(key) is not None}


def kinds_in_words(kinds: Iterable[str]) -> str:
    """Return the numbers of columns of each kind as text, such as "3 numbers, 1 date"."""
    kinds, plural = list(kinds), {"number": "numbers", "date": "dates", "text": "text"}
    counts = {kind: kinds.count(kind) for kind in plural if kind in kinds}
    return ", ".join(f"{n} {plural[kind] if n > 1 else kind}" for kind, n in counts.items())


def time_in_words(created: str) -> str:
    """Return, as text, the time when a model file was written, to the minute."""
    return f"{datetime.fromisoformat(created):%Y-%m-%d %H:%M %Z}"


def _points(n_points: int, fraction: float | None) -> str:
    return f"{n_points}" if fraction is None else f"{n_points} ({fraction:.1%})"


def show_measures(found: Mapping[str, Any], title: str, stderr: bool = False) -> None:
    """Print the result of :meth:`.model.Model.measure`: measures and the confusion matrix."""
    rows = [
        (label, format(found[key], form)) for key, (label, form) in MEASURES.items() if found[key] is not None
    ]
    if found["n_points"] is not None:
        rows.append(("Points", _points(found["n_points"], found["points_fraction"])))
    show_table(title, ("", ""), rows, stderr=stderr)
    classes = [str(label) for label in found["classes"]]
    counts = [
        [label, *(f"{n:g}" for n in row)] for label, row in zip(classes, found["confusion"], strict=True)
    ]
    if len(classes) <= 12:  # the matrix of more classes would not fit on a line
        show_table("Confusion matrix", ("true \\ predicted", *classes), counts, stderr=stderr)


def show_explanation(found: Mapping[str, Any]) -> None:
    """Print the result of :meth:`.model.Model.explain`: contributions of columns and points."""
    points = found["points"]
    head = ["", f"row {found['row']}"]
    head += [
        f"point {k + 1}" if point["row"] is None else f"kept row {point['row']}"
        for k, point in enumerate(points)
    ]
    label, log_odds = found["class"], found["log_odds"]
    contributions = [f"{point['contribution']:+.3f}" for point in points]
    quantity = f"{found['unit']} of {label}"
    lines = [[quantity, f"{log_odds:+.3f}", *contributions]]
    if all(point["class"] is not None for point in points):
        lines.append(["class", "?", *(str(point["class"]) for point in points)])
    if all(point["distance"] is not None for point in points):
        lines.append(["distance", "", *(f"{point['distance']:.3g}" for point in points)])
    for name, cell in (found["cells"] or {}).items():
        lines.append([_short(name), _short(cell), *(_short(point["cells"][name]) for point in points)])
    title = f"Row {found['row']}: {label}, {found['probability']:.1%}"
    if found["columns"] is not None:
        _show_columns(found["columns"], title, quantity)
        title = f"Row {found['row']} beside points of the model"
    if points:
        _show_points(found, title, head, lines)
    elif found["columns"] is None:
        show_table(title, head, lines)
    if found["unfamiliar"]:
        print(printable(f"Unfamiliar: {found['unfamiliar']}"))


def _show_points(found: Mapping[str, Any], title: str, head: list[str], lines: list[list[str]]) -> None:
    points, others, log_odds = found["points"], found["others"], found["log_odds"]
    show_table(title, head, lines)
    total = sum(point["contribution"] for point in points)
    print(
        f"{log_odds:+.3f} = {total:+.3f} (the {len(points)} points above) "
        + others_in_words(others, 3)
        + f"{found['intercept']:+.3f} (intercept)"
    )


def others_in_words(others: Mapping[str, Any], digits: int) -> str:
    """Return, as text, the contributions of the points that a table omits; "" if it shows all."""
    if not others["n_points"]:
        return ""
    return (
        f"{others['for']:+.{digits}f} and {others['against']:+.{digits}f} (positive and negative "
        f"contributions of {others['n_points']} other point{'s' if others['n_points'] > 1 else ''}) "
    )


def _show_columns(columns: Mapping[str, Any], title: str, quantity: str, most: int = 8) -> None:
    """Print the mean decision value of the training rows, the contributions of the columns, and their sum."""
    shown, others = columns["contributions"][:most], columns["contributions"][most:]
    lines = [["mean of the training rows", "", f"{columns['base']:+.3f}"]]
    lines += [[_short(one["column"]), _short(one["cell"]), f"{one['contribution']:+.3f}"] for one in shown]
    if others:
        total = sum(one["contribution"] for one in others)
        plural = "s" if len(others) > 1 else ""
        lines.append([f"{len(others)} other column{plural}", "", f"{total:+.3f}"])
    total = columns["base"] + sum(one["contribution"] for one in columns["contributions"])
    lines.append(["this row", "", f"{total:+.3f}"])
    show_table(title, ("column", "value", quantity), lines)


def _short(text: str, most: int = 28) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
