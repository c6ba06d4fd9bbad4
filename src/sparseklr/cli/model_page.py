"""The page on models: what they are, how good their probabilities are, and what to decide by them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from ..inspection.reliability import ReliabilityDisplay
from .data import Rows, seen_rows, told
from .explain import explained
from .measures import measure
from .terminal import MEASURES, kinds_in_words, time_in_words
from .unfamiliar import FAR, familiarity, naming_large_cells, unfamiliar

MOST_ROWS = 20_000  # in the page; of more, so many are drawn
MOST_ERRORS = 5
_FORMS = {"n_rows": "d", "accuracy": ".1%"}


@dataclass(frozen=True, eq=False)
class Shown:
    """A model of the page, with the rows as it reads them."""

    name: str
    pipeline: Any
    metadata: dict[str, Any]
    rows: Rows

    @property
    def classes(self) -> list[str]:
        return [str(label) for label in self.pipeline.classes_]

    @property
    def estimator(self) -> Any:
        return self.pipeline[-1] if hasattr(self.pipeline, "steps") else self.pipeline


def model_page(models: Sequence[Shown], data_name: str) -> str:
    """One page that loads nothing, on one or several models of the same classes and their test rows."""
    folder = resources.files(__package__) / "assets"
    assets = {file.name: file.read_text("utf-8") for file in folder.iterdir()}
    names = ", ".join(model.name for model in models)
    rows = models[0].rows
    measures = [measure(model.pipeline, model.rows) for model in models]
    size = rows.drawn or f"{rows.X.shape[0]} rows"
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return Template(assets["model.html"]).substitute(
        title=escape(f"{names} on {data_name}"),
        subtitle=escape(f"{size} of {data_name}; written by sparseklr report, {made}"),
        notices="".join(map(_seen, models)),
        css=assets["report.css"] + assets["model.css"],
        js=assets["chart.js"] + assets["model.js"],
        data=_data(models),
        measures=_cards(measures[0]) if len(models) == 1 else _measures(models, measures),
        errors=_each(models, _errors),
        strange=_each(models, _strange),
        facts=_facts(models, data_name),
    )


def _each(models: Sequence[Shown], part: Any) -> str:
    """A part for every model; the page shows one of them."""
    return "".join(f'<div data-model="{k}">{part(model)}</div>' for k, model in enumerate(models))


# -- numbers ----------------------------------------------------------------------------------


def _data(models: Sequence[Shown]) -> str:
    first = models[0].rows
    assert first.y is not None
    n = len(first.y)
    drawn = np.arange(n)
    if n > MOST_ROWS:
        drawn = np.sort(np.random.default_rng(0).choice(n, MOST_ROWS, replace=False))
    weight = np.ones(n) if first.weight is None else first.weight
    content = {
        "modes": {},
        "classes": models[0].classes,
        "positive": 1 if len(models[0].classes) == 2 else 0,
        "y": np.searchsorted(models[0].pipeline.classes_, first.y)[drawn].tolist(),
        "weight": _short(weight[drawn], 6),
        "models": [_of_model(model, drawn) for model in models],
    }
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def _of_model(model: Shown, drawn: np.ndarray) -> dict[str, Any]:
    rows = model.rows
    assert rows.y is not None
    with naming_large_cells(model.pipeline, rows):
        prob = model.pipeline.predict_proba(rows.X)
    calibration = []
    for k, label in enumerate(model.pipeline.classes_):
        display = ReliabilityDisplay._of(rows.y == label, prob[:, k], sample_weight=rows.weight)
        columns = (display.weight, display.prob_pred, display.prob_true, display.lower, display.upper)
        weight = np.ones(len(prob)) if rows.weight is None else rows.weight
        counts, _ = np.histogram(prob[:, k], 20, (0, 1), weights=weight)
        calibration.append(
            {"bins": [_short(row, 6) for row in zip(*columns, strict=True)], "counts": _short(counts, 6)}
        )
    known = familiarity(model.pipeline, rows.X)
    spread = None if np.isnan(known).any() else np.histogram(known, 20, (0, 1))[0].tolist()
    return {
        "name": model.name,
        "prob": [_short(row, 5) for row in prob[drawn]],
        "calibration": calibration,
        "familiarity": spread,
    }


def _short(values: Iterable[float], digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]


# -- words and tables ---------------------------------------------------------------------------


def _seen(model: Shown) -> str:
    """A word where rows are those that the model was fitted to."""
    n_seen, n = seen_rows(model.pipeline, model.rows.X), model.rows.X.shape[0]
    if not n_seen:
        return ""
    weight = (
        "The figures say little about new rows." if 2 * n_seen > n else "They make the figures look better."
    )
    words = f"{n_seen} of the {n} rows equal rows that {model.name} was fitted to. {weight}"
    return f'<p class="notice" role="note">{escape(words)}</p>'


def _cards(found: dict[str, Any]) -> str:
    shown = {key: label for key, label in MEASURES.items() if key != "n_rows" and found[key] is not None}
    cards = [
        f'<div class="card"><b>{found[key]:{_FORMS.get(key, ".4f")}}</b><span>{label}</span></div>'
        for key, label in shown.items()
    ]
    return f'<div class="cards">{"".join(cards)}</div>'


def _measures(models: Sequence[Shown], measures: list[dict[str, Any]]) -> str:
    """The measures of several models side by side, the best of each row in bold."""
    lines = []
    for key, label in {**MEASURES, "n_points": "Points kept"}.items():
        values = [found[key] for found in measures]
        known = [value for value in values if value is not None]
        best = max(known) if key in ("accuracy", "roc_auc") else min(known, default=None)
        form = _FORMS.get(key, "d" if key == "n_points" else ".4f")
        cells = ["-" if value is None else format(value, form) for value in values]
        marked = [
            f"<b>{cell}</b>" if v == best and key != "n_rows" else cell
            for v, cell in zip(values, cells, strict=True)
        ]
        lines.append([label, *marked])
    return _table(["", *(escape(model.name) for model in models)], lines, "Measures of the models")


def _errors(model: Shown) -> str:
    rows, pipeline = model.rows, model.pipeline
    assert rows.y is not None
    prob, predicted = pipeline.predict_proba(rows.X), pipeline.predict(rows.X)
    wrong = np.flatnonzero(predicted != rows.y)
    if not len(wrong):
        return "<p>There is none: every row got its class.</p>"
    worst = wrong[np.argsort(-prob[wrong].max(axis=1), kind="stable")][:MOST_ERRORS]
    reasons = unfamiliar(pipeline, rows)
    parts: list[str] = []
    for row in worst:
        head = (
            f"Row {rows.number(row)}: <b>{escape(str(predicted[row]))}</b> with {prob[row].max():.1%}, "
            f"in truth <b>{escape(str(rows.y[row]))}</b>"
            + (f" ({escape(reasons[row])})" if reasons[row] else "")
        )
        body = _explained(model, int(row)) if hasattr(model.estimator, "explain") else ""
        parts.append(f"<details{'' if parts else ' open'}><summary>{head}</summary>{body}</details>")
    return f"<p>{len(wrong)} of {len(predicted)} rows are wrong.</p>" + "".join(parts)


def _explained(model: Shown, row: int) -> str:
    found = explained(model.pipeline, model.metadata, model.rows, row, None, 4, "contribution")
    points, others, number = found["points"], found["others"], model.rows.number(row)
    lines = (
        [["class", "", *(escape(str(one["class"])) for one in points)]]
        if points and points[0]["class"] is not None
        else []
    )
    for name, cell in (found["cells"] or {}).items():
        lines.append([escape(text) for text in (name, cell, *(str(one["cells"][name]) for one in points))])
    head = [
        f"row {number}",
        *(
            f"kept row {escape(str(one['row']))}" if one["row"] else f"point {k + 1}"
            for k, one in enumerate(points)
        ),
    ]
    contributions = [f"<b>{found['log_odds']:+.2f}</b>", *(f"{one['contribution']:+.2f}" for one in points)]
    shown = sum(one["contribution"] for one in points)
    total = (
        f"{found['log_odds']:+.2f} = {shown:+.2f} of these {len(points)}, {others['for']:+.2f} for and "
        f"{others['against']:+.2f} against of the {others['n_points']} others, "
        f"{found['intercept']:+.2f} intercept."
    )
    label = escape(str(found["class"]))
    table = _table(["", *head], [[f"log-odds of {label}", *contributions], *lines], f"Why row {number}")
    return f'{table}<p class="note">{total}</p>'


def _strange(model: Shown) -> str:
    """How many rows are unfamiliar and why, and how good the model is on them."""
    rows, reasons = model.rows, unfamiliar(model.pipeline, model.rows)
    assert rows.y is not None
    flagged = np.array([bool(words) for words in reasons])
    if not flagged.any():
        return "<p>No row is unlike the training rows.</p>"
    right = model.pipeline.predict(rows.X) == rows.y
    counts = Counter(word for words in reasons for word in words.split("; ") if word)
    text = f"{flagged.sum()} of {len(flagged)} rows are unfamiliar; {right[flagged].mean():.1%} of them are "
    text += "right" + (f", of the others {right[~flagged].mean():.1%}." if not flagged.all() else ".")
    explained = {FAR: f"{FAR} (familiarity below 0.01)"}
    lines = [[escape(explained.get(word, word)), str(n)] for word, n in counts.most_common(12)]
    return f"<p>{text}</p>" + _table(["why", "rows"], lines, "Reasons")


def _facts(models: Sequence[Shown], data_name: str) -> str:
    facts = [{**_fact(model)} for model in models]
    keys = list(dict.fromkeys(key for one in facts for key in one))
    lines = [[key, *(escape(str(one.get(key, ""))) for one in facts)] for key in keys]
    rows = models[0].rows
    assert rows.y is not None
    labels, counts = np.unique(rows.y, return_counts=True)
    of_data = [
        ["file", escape(data_name)],
        ["rows", rows.drawn or str(len(rows.y))],
        *([["read as", escape(told(rows.table))]] if rows.table is not None else []),
        *(
            [
                [f"class {escape(str(k))}", f"{n} ({n / len(rows.y):.1%})"]
                for k, n in zip(labels, counts, strict=True)
            ]
        ),
    ]
    parameters = [model.estimator.get_params(deep=False) for model in models]
    given = [
        [name, *(escape(str(one.get(name, "-"))) for one in parameters)]
        for name in dict.fromkeys(name for one in parameters for name in one)
    ]
    head = ["", *(escape(model.name) for model in models)]
    return (
        f"<h3>Model</h3>{_table(head, lines, 'Models', words=True)}"
        f"<details><summary>All parameters</summary>{_table(head, given, 'Parameters', words=True)}</details>"
        f"<h3>Data</h3>{_table(['', ''], of_data, 'Data', words=True)}"
    )


def _fact(model: Shown) -> dict[str, str]:
    training, estimator = model.metadata.get("training") or {}, model.estimator
    columns, points = training.get("columns") or {}, getattr(estimator, "dual_coef_", None)
    scale = (training.get("scale") or {}).get("chosen")
    versions = ", ".join(f"{name} {version}" for name, version in model.metadata["versions"].items())
    facts = {
        "kind": type(estimator).__name__,
        "classes": ", ".join(model.classes),
        "target": model.metadata.get("target"),
        "fitted to": f"{training['n_rows']} rows" if training else None,
        "columns": kinds_in_words(columns.values()),
        "features": str(getattr(estimator, "n_features_in_", "")),
        "scale": scale,
        "kernel": str(getattr(estimator, "kernel", "")),
        "points kept": None if points is None else str(points.shape[1]),
        "leave-one-out log-loss": f"{training['loo_log_loss']:.4f}" if training.get("loo_log_loss") else None,
        "validation log-loss": f"{loss:.4f}" if (loss := training.get("validation_log_loss")) else None,
        "held-out log-loss": f"{loss:.4f}" if (loss := training.get("held_out_log_loss")) else None,
        "written": time_in_words(model.metadata["created"]),
        "with": versions,
    }
    return {key: value for key, value in facts.items() if value}


def _table(head: Sequence[str], lines: Iterable[Sequence[str]], label: str, words: bool = False) -> str:
    """A table of cells that are HTML already."""
    kind = ' class="words"' if words else ""
    top = (
        "".join(f'<th scope="col"{kind if k else ""}>{cell}</th>' for k, cell in enumerate(head))
        if any(head)
        else ""
    )
    body = "".join(
        f'<tr><th scope="row">{line[0]}</th>'
        + "".join(f"<td{kind}>{cell}</td>" for cell in line[1:])
        + "</tr>"
        for line in lines
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table>'
        f"{f'<thead><tr>{top}</tr></thead>' if top else ''}<tbody>{body}</tbody></table></div>"
    )
