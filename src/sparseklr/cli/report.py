"""HTML page of ``sparseklr report``: an evaluation of models on test rows, and a decision threshold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from ..explanations import decision_name
from ..inspection.metrics import Bins, wilson_interval
from .model import FAR, Model, count_reasons
from .options import CliError
from .reading import Dataset
from .terminal import MEASURES, kinds_in_words, losses_in_words, others_in_words, time_in_words


@dataclass(frozen=True)
class PageSettings:
    """Sizes of the tables and figures of a report page."""

    rows: int = 20_000  # maximum number of rows whose predictions are stored in the page
    errors: int = 5  # number of wrong predictions shown, the most confident first
    points: int = 4  # number of points of the model shown to explain a wrong prediction
    columns: int = 3  # number of columns shown to explain a wrong prediction
    coverages: tuple[float, ...] = (0.8, 0.9, 0.95)  # nominal coverages of the prediction sets
    reasons: int = 12  # number of reasons shown why rows are unfamiliar, the most frequent first
    classes: int = 5  # number of classes whose base rates are shown, the most frequent first
    bins: int = 20  # number of bins of a histogram
    groups: int = 10  # number of bins of a reliability diagram
    confidence: float = 0.95  # level of the confidence intervals in a reliability diagram


SETTINGS = PageSettings()


@dataclass(frozen=True, eq=False)
class ReportedModel:
    """A model on the page, with the test rows and its predictions for them."""

    name: str
    model: Model
    rows: Dataset
    y: np.ndarray  # true classes
    prob: np.ndarray  # predicted probabilities
    predicted: np.ndarray  # predicted classes
    reasons: list[str]  # the reasons why each row is unfamiliar, "" for a familiar row

    @classmethod
    def of(cls, name: str, model: Model, rows: Dataset) -> ReportedModel:
        assert rows.y is not None
        prob = model.predict_proba(rows)
        return cls(name, model, rows, rows.y, prob, model.predict(rows), model.unfamiliar(rows))

    @property
    def explains(self) -> bool:
        return self.model.is_linear or hasattr(self.model.estimator, "explain")

    @property
    def classes(self) -> list[str]:
        return [str(label) for label in self.model.classes]

    def measures(self) -> dict[str, Any]:
        return self.model.measure_predictions(self.y, self.prob, self.predicted, self.rows.weight)


def model_page(models: Sequence[ReportedModel], data_name: str) -> str:
    """Return the page as HTML that needs no other file; all models must have the same classes."""
    folder = resources.files(__package__) / "assets"
    assets = {file.name: file.read_text("utf-8") for file in folder.iterdir()}
    names = ", ".join(model.name for model in models)
    rows = models[0].rows
    measures = [model.measures() for model in models]
    size = rows.sample or f"{len(rows)} rows"
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return Template(assets["model.html"]).substitute(
        title=escape(f"{names} on {data_name}"),
        subtitle=escape(f"{size} of {data_name}; written by sparseklr report, {made}"),
        notices="".join(map(_training_rows, models)),
        css=assets["report.css"] + assets["model.css"],
        js=assets["chart.js"] + assets["model.js"],
        data=_data(models),
        measures=_base_rate(models[0])
        + (_cards(measures[0]) if len(models) == 1 else _measures(models, measures)),
        sets=_each(models, _sets),
        errors=_each(models, _errors),
        familiarity=_each(models, _familiarity),
        strange=_each(models, _strange),
        facts=_facts(models, data_name),
    )


def _each(models: Sequence[ReportedModel], part: Any) -> str:
    """Return the HTML of one section for every model; a control on the page selects the model shown."""
    return "".join(f'<div data-model="{k}">{part(model)}</div>' for k, model in enumerate(models))


# -- numbers ----------------------------------------------------------------------------------


def _data(models: Sequence[ReportedModel]) -> str:
    first = models[0]
    n = len(first.y)
    drawn = np.arange(n)
    if n > SETTINGS.rows:
        drawn = np.sort(np.random.default_rng(0).choice(n, SETTINGS.rows, replace=False))
    weight = np.ones(n) if first.rows.weight is None else first.rows.weight
    content = {
        "modes": {},
        "classes": first.classes,
        "positive": 1 if len(first.classes) == 2 else 0,
        "y": np.searchsorted(first.model.fitted.classes_, first.y)[drawn].tolist(),
        "weight": _short(weight[drawn], 6),
        "models": [_model_data(model, drawn) for model in models],
    }
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def _model_data(entry: ReportedModel, drawn: np.ndarray) -> dict[str, Any]:
    prob, weight = entry.prob, entry.rows.weight
    calibration = []
    for k, label in enumerate(entry.model.classes):
        bins = Bins.of(
            entry.y == label, prob[:, k], n_bins=SETTINGS.groups, strategy="quantile", sample_weight=weight
        )
        interval = wilson_interval(bins.prob_true, bins.n_effective, SETTINGS.confidence)
        columns = (bins.weight, bins.prob_pred, bins.prob_true, *interval)
        counts, _ = np.histogram(prob[:, k], SETTINGS.bins, (0, 1), weights=weight)
        calibration.append(
            {"bins": [_short(row, 6) for row in zip(*columns, strict=True)], "counts": _short(counts, 6)}
        )
    known = entry.model.familiarity(entry.rows.X)
    familiarity = None if np.isnan(known).any() else np.histogram(known, SETTINGS.bins, (0, 1))[0].tolist()
    return {
        "name": entry.name,
        "prob": [_short(row, 5) for row in prob[drawn]],
        "calibration": calibration,
        "familiarity": familiarity,
    }


def _short(values: Iterable[float], digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]


# -- text and tables ---------------------------------------------------------------------------


def _training_rows(entry: ReportedModel) -> str:
    """Return a warning as HTML if the model was fitted to some of the test rows, otherwise ""."""
    n_seen, n = entry.model.n_training_rows(entry.rows.X), len(entry.rows)
    if not n_seen:
        return ""
    effect = (
        "The results on this page do not estimate the performance on new rows."
        if 2 * n_seen > n
        else "The results on this page are therefore optimistic."
    )
    text = f"{n_seen} of the {n} rows are identical to training rows of {entry.name}. {effect}"
    return f'<p class="notice" role="note">{escape(text)}</p>'


def _base_rate(entry: ReportedModel) -> str:
    """Return HTML with the class fractions, and the log-loss of a model that always predicts them."""
    weight = np.ones(len(entry.y)) if entry.rows.weight is None else entry.rows.weight
    counts = np.array([weight[entry.y == label].sum() for label in entry.model.classes])
    fractions = counts / counts.sum()
    present = fractions[fractions > 0]
    loss = -(present * np.log(present)).sum()
    listed = np.argsort(-fractions, kind="stable")[: SETTINGS.classes]
    rates = ", ".join(f"{escape(entry.classes[k])} {fractions[k]:.1%}" for k in listed)
    more = "" if len(listed) == len(fractions) else f" and {len(fractions) - len(listed)} more"
    return (
        f"<p>Base rates: {rates}{more}. A model that predicts these fractions for every row has a log-loss "
        f"of <b>{loss:.4f}</b>; a useful model has a smaller log-loss.</p>"
    )


def _cards(found: dict[str, Any]) -> str:
    cards = [
        f'<div class="card"><b>{found[key]:{form}}</b><span>{label}</span></div>'
        for key, (label, form) in MEASURES.items()
        if key != "n_rows" and found[key] is not None
    ]
    return f'<div class="cards">{"".join(cards)}</div>'


def _measures(models: Sequence[ReportedModel], measures: list[dict[str, Any]]) -> str:
    """Return an HTML table of the measures of several models, with the best values in bold."""
    lines = []
    for key, (label, form) in {**MEASURES, "n_points": ("Points", "d")}.items():
        values = [found[key] for found in measures]
        known = [value for value in values if value is not None]
        best = max(known) if key in ("accuracy", "roc_auc") else min(known, default=None)
        cells = ["-" if value is None else format(value, form) for value in values]
        marked = [
            f"<b>{cell}</b>" if v == best and key != "n_rows" else cell
            for v, cell in zip(values, cells, strict=True)
        ]
        lines.append([label, *marked])
    return _table(["", *(escape(model.name) for model in models)], lines, "Measures of the models")


def _sets(entry: ReportedModel) -> str:
    """Return an HTML table with the coverage and size of prediction sets on the test rows."""
    try:
        p_values = entry.model.predict_p_values(entry.rows)
    except (CliError, ValueError) as error:
        return f"<p>{escape(str(error))}</p>"
    weight = np.ones(len(entry.y)) if entry.rows.weight is None else entry.rows.weight
    true = entry.model.fitted.classes_ == entry.y[:, None]
    lines = []
    for coverage in SETTINGS.coverages:
        inside = p_values > 1 - coverage
        size = inside.sum(axis=1)
        found = (
            np.average(part, weights=weight) for part in ((inside & true).any(axis=1), size == 0, size == 1)
        )
        lines.append([f"{coverage:.0%}", *(f"{value:.1%}" for value in found), f"{size.mean():.2f}"])
    head = ["nominal coverage", "observed coverage", "empty sets", "one class", "mean number of classes"]
    return _table(head, lines, "Prediction sets")


def _errors(entry: ReportedModel) -> str:
    wrong = np.flatnonzero(entry.predicted != entry.y)
    if not len(wrong):
        return "<p>Every prediction is correct.</p>"
    confidence = entry.prob.max(axis=1)
    worst = wrong[np.argsort(-confidence[wrong], kind="stable")][: SETTINGS.errors]
    parts: list[str] = []
    for row in worst:
        reason = entry.reasons[row]
        head = (
            f"Row {entry.rows.number(row)}: <b>{escape(str(entry.predicted[row]))}</b> with "
            f"{confidence[row]:.1%}, true class <b>{escape(str(entry.y[row]))}</b>"
            + (f" ({escape(reason)})" if reason else "")
        )
        body = _explanation(entry, int(row)) if entry.explains else ""
        parts.append(f"<details{'' if parts else ' open'}><summary>{head}</summary>{body}</details>")
    points = (
        "<p>The points of a model are training rows that it kept, or fitted locations. The contributions "
        f"of all points and the intercept add up to the {decision_name(entry.model.classes)} of the "
        "predicted class.</p>"
    )
    return (
        f"<p>{len(wrong)} of {len(entry.y)} predictions are wrong.</p>"
        f"{points if hasattr(entry.model.estimator, 'explain') else ''}{''.join(parts)}"
    )


def _explanation(entry: ReportedModel, row: int) -> str:
    found = entry.model.explain(entry.rows, row, None, SETTINGS.points, "contribution")
    points, others, number = found["points"], found["others"], entry.rows.number(row)
    names = [f"kept row {p['row']}" if p["row"] else f"point {k + 1}" for k, p in enumerate(points)]
    contributions = [f"{point['contribution']:+.2f}" for point in points]
    label, log_odds = escape(str(found["class"])), f"{found['log_odds']:+.2f}"
    lines = [[f"{found['unit']} of {label}", f"<b>{log_odds}</b>", *contributions]]
    if points and points[0]["class"] is not None:
        lines.append(["class", "", *(escape(str(point["class"])) for point in points)])
    for name, cell in (found["cells"] or {}).items():
        lines.append([escape(text) for text in (name, cell, *(str(p["cells"][name]) for p in points))])
    strongest = _strongest_columns(found["columns"], found["unit"])
    if not points:
        return strongest
    total = (
        f"{log_odds} = {sum(point['contribution'] for point in points):+.2f} (the {len(points)} points "
        f"above) {others_in_words(others, 2)}{found['intercept']:+.2f} (intercept)."
    )
    table = _table(["", f"row {number}", *map(escape, names)], lines, f"Explanation of row {number}")
    return f'{strongest}{table}<p class="note">{total}</p>'


def _strongest_columns(columns: dict[str, Any] | None, unit: str) -> str:
    if columns is None or not columns["contributions"]:
        return ""
    strongest = columns["contributions"][: SETTINGS.columns]
    parts = [f"{one['column']} = {one['cell']} ({one['contribution']:+.2f})" for one in strongest]
    return f"<p>Columns that contribute most to the {unit}: {escape(', '.join(parts))}.</p>"


def _familiarity(entry: ReportedModel) -> str:
    """Return HTML that explains when the page calls a row unfamiliar."""
    if not hasattr(entry.model.estimator, "familiarity"):
        return (
            "<p>This model has no points, so rows are compared with the training rows column by column: new "
            "categories, numbers far outside the training range and unexpected missing values are "
            "unfamiliar.</p>"
        )
    return (
        "<p>The familiarity of a row is the fraction of the training rows that the points of the model "
        "represent no better than this row. For rows from the same distribution as the training rows, the "
        "familiarity is uniformly distributed (dotted line). If the familiarity of a row is near zero, the "
        "points represent nearly all training rows better than this row.</p>"
    )


def _strange(entry: ReportedModel) -> str:
    """Return HTML with the number of unfamiliar rows, the accuracy on them, and the reasons."""
    flagged = np.array([bool(reason) for reason in entry.reasons])
    if not flagged.any():
        return "<p>No row is unlike the training rows.</p>"
    right = entry.predicted == entry.y
    text = f"{flagged.sum()} of {len(flagged)} rows are unfamiliar. The accuracy on these rows is "
    text += f"{right[flagged].mean():.1%}"
    text += f", and {right[~flagged].mean():.1%} on all other rows." if not flagged.all() else "."
    names = {FAR: f"{FAR} (familiarity below 0.01)"}
    counts = count_reasons(entry.reasons).most_common(SETTINGS.reasons)
    lines = [[escape(names.get(reason, reason)), str(n)] for reason, n in counts]
    return f"<p>{text}</p>" + _table(["reason", "rows"], lines, "Reasons")


def _facts(models: Sequence[ReportedModel], data_name: str) -> str:
    rows, y = models[0].rows, models[0].y
    labels, counts = np.unique(y, return_counts=True)
    data = [["file", escape(data_name)], ["rows", rows.sample or str(len(y))]]
    data += [["read as", escape(str(rows.table))]] if rows.table is not None else []
    data += [
        [f"class {escape(str(k))}", f"{n} ({n / len(y):.1%})"] for k, n in zip(labels, counts, strict=True)
    ]
    facts = _side_by_side([_model_facts(entry) for entry in models], "")
    parameters = _side_by_side([entry.model.estimator.get_params(deep=False) for entry in models], "-")
    head = ["", *(escape(entry.name) for entry in models)]
    return (
        f"<h3>Model</h3>{_table(head, facts, 'Models', words=True)}<details><summary>All parameters</summary>"
        f"{_table(head, parameters, 'Parameters', words=True)}</details>"
        f"<h3>Data</h3>{_table(['', ''], data, 'Data', words=True)}"
    )


def _side_by_side(facts: Sequence[dict[str, Any]], missing: str) -> list[list[str]]:
    """Return the rows of a table with one row for each key and one column for each model."""
    keys = dict.fromkeys(key for model_facts in facts for key in model_facts)
    return [[key, *(escape(str(model_facts.get(key, missing))) for model_facts in facts)] for key in keys]


def _model_facts(entry: ReportedModel) -> dict[str, str]:
    estimator, metadata = entry.model.estimator, entry.model.metadata
    training = metadata.get("training") or {}
    points = getattr(estimator, "dual_coef_", None)
    losses = {label.lower(): text for label, text in losses_in_words(training).items()}
    facts = {
        "kind": type(estimator).__name__,
        "classes": ", ".join(entry.classes),
        "target": entry.model.target,
        "fitted to": f"{training['n_rows']} rows" if training else None,
        "columns": kinds_in_words((training.get("columns") or {}).values()),
        "features": str(getattr(estimator, "n_features_in_", "")),
        "kernel": str(getattr(estimator, "kernel", "")),
        "points": None if points is None else str(points.shape[1]),
        **losses,
        "written": time_in_words(metadata["created"]),
        "with": ", ".join(f"{name} {version}" for name, version in metadata["versions"].items()),
    }
    return {key: value for key, value in facts.items() if value}


def _table(head: Sequence[str], lines: Iterable[Sequence[str]], label: str, words: bool = False) -> str:
    """Return an HTML table; the given cells are already HTML."""
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
