"""A report on the probabilities of a classifier: numbers, and a page with a reliability diagram."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from sklearn.pipeline import Pipeline

from ..data import check_weight
from .metrics import expected_calibration_error, predicted_probabilities
from .reliability import ReliabilityDisplay

__all__ = ["ProbabilityReport", "probability_report"]

# How the keys of a summary are called, and how their values are written.
LABELS = {
    "n_rows": ("Rows", "d"),
    "n_classes": ("Classes", "d"),
    "prevalence": ("Prevalence", ".1%"),
    "accuracy": ("Accuracy", ".1%"),
    "log_loss": ("Log-loss", ".4f"),
    "brier": ("Brier score", ".4f"),
    "ece": ("Calibration error (ECE)", ".4f"),
    "n_points": ("Points kept", "d"),
    "points_share": ("Share of training points", ".1%"),
}


def probability_report(estimator: Any, X: Any, y: Any, *, sample_weight: Any = None) -> ProbabilityReport:
    """Say how far the probabilities of a fitted classifier can be trusted.

    Parameters
    ----------
    estimator : object
        A fitted classifier with ``predict_proba``.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows that the estimator was not fitted to.
    y : array-like of shape (n_samples,)
        Their labels.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the rows.

    Returns
    -------
    ProbabilityReport

    See Also
    --------
    sparseklr.inspection.reliability.ReliabilityDisplay : The diagram alone.
    sparseklr.inspection.metrics.expected_calibration_error : What ``summary["ece"]`` is, with its defaults.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sparseklr import SparseKLR
    >>> from sparseklr.inspection.probability_report import probability_report
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> model = SparseKLR().fit(X[:300], y[:300])
    >>> report = probability_report(model, X[300:], y[300:])
    >>> report.summary["n_rows"], report.summary["log_loss"] < 0.3
    (300, True)
    """
    y, y_prob, classes = predicted_probabilities(estimator, X, y)
    weight = None if sample_weight is None else check_weight(sample_weight, len(y))
    last = estimator
    while isinstance(last, Pipeline) or hasattr(last, "best_estimator_"):
        last = last[-1] if isinstance(last, Pipeline) else last.best_estimator_
    n_points, points_share = kept_points(last)
    class_share = np.array([np.average(y == label, weights=weight) for label in classes])
    binary = len(classes) == 2
    curve: dict[str, Any] = {"pos_label": classes[1]} if binary else {"labels": classes}
    event_prob = y_prob[:, 1] if binary else y_prob
    summary = {
        "n_rows": len(y),
        "n_classes": len(classes),
        "prevalence": float(class_share[1] if binary else class_share.max()),
        "accuracy": float(accuracy_score(y, estimator.predict(X), sample_weight=weight)),
        "log_loss": float(log_loss(y, y_prob, labels=classes, sample_weight=weight)),
        "brier": float(brier_score_loss(y, y_prob, labels=classes, sample_weight=weight)),
        "ece": expected_calibration_error(y, event_prob, sample_weight=weight, **curve),
        "n_points": n_points,
        "points_share": points_share,
    }
    display = ReliabilityDisplay._of(y, event_prob, sample_weight=weight, name=type(last).__name__, **curve)
    return ProbabilityReport(summary, display)


def kept_points(estimator: Any) -> tuple[int | None, float | None]:
    """How many points a kernel classifier needs for prediction, and their share of the training points where
    they are some of these and that is known."""
    if hasattr(estimator, "points_"):  # of a compact model, which moved them
        return len(estimator.points_), None
    if not hasattr(estimator, "support_") or not hasattr(estimator, "support_vectors_"):
        return None, None
    kept = len(estimator.support_)
    n = getattr(estimator, "_n_samples", None) or getattr(estimator, "shape_fit_", [None])[0]
    return kept, kept / n if n else None


@dataclass(frozen=True, eq=False)
class ProbabilityReport:
    """What :func:`probability_report` finds; notebooks show it as a page.

    Attributes
    ----------
    summary : dict
        ``n_rows``, ``n_classes``; ``prevalence``: share of the positive class ``classes_[1]``, or of the most
        frequent class where there are more than two; ``accuracy`` of ``predict``; ``log_loss`` and ``brier``
        as in scikit-learn (which takes a probability of 0 as 2e-16, so that no log-loss is above 36; its
        Brier score of more than two classes goes up to 2); ``ece``: expected calibration error in 15 bins of
        equal weight, of the most probable class where there are more than two; ``n_points``: points that
        prediction needs, ``points_share``: their share of the training points (None where the estimator does
        not say, and of :class:`~sparseklr.CompactKLR`, whose points are no training points).
    display : ReliabilityDisplay
        The curve behind the figure; not drawn yet.
    """

    summary: dict[str, Any]
    display: ReliabilityDisplay = field(repr=False)

    def figure(self) -> Any:
        """The reliability diagram as a matplotlib figure (needs ``sparseklr[plots]``)."""
        return self.display.plot().figure_

    def to_json(self) -> str:
        """Summary and curve as JSON."""
        names = ("prob_pred", "prob_true", "lower", "upper", "weight")
        curve = {name: getattr(self.display, name).tolist() for name in names}
        content = {"estimator": self.display.estimator_name, "summary": self.summary}
        return json.dumps({**content, "confidence": self.display.confidence, "curve": curve}, indent=2)

    def to_markdown(self) -> str:
        """The summary as a table."""
        rows = [(_plain(label), value) for label, value in self._rows()]
        lines = [f"| {_plain(str(self.display.estimator_name))} | |", "|---|---:|"]
        return "\n".join(lines + [f"| {label} | {value} |" for label, value in rows]) + "\n"

    def to_html(self) -> str:
        """A complete page with the diagram in it. It loads nothing and follows light and dark mode."""
        title = f"Probabilities of {escape(str(self.display.estimator_name))}"
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{title}</title><style>{PAGE_STYLE}</style></head>\n"
            f"<body>{self._repr_html_()}</body></html>\n"
        )

    def _repr_html_(self) -> str:
        display = self.display
        head = f"<h2>Probabilities of {escape(str(display.estimator_name))}</h2>"
        level, n = f"{100 * display.confidence:g}%", len(display.covered)
        verdict = (
            f"<p>In <b>{display.covered.sum()} of {n}</b> groups of rows with similar predictions the mean "
            f"prediction is inside the {level} interval of the observed frequency; a calibrated model has "
            f"about {display.confidence * n:.2g}.</p>"
        )
        rows = "".join(f"<tr><th scope=row>{escape(label)}<td>{value}" for label, value in self._rows())
        columns = (display.prob_pred, display.prob_true, display.lower, display.upper, display.weight)
        size, form = ("Rows", ".0f") if display.sample_weight is None else ("Weight", ".4g")
        groups = "".join(
            f"<tr><td>{p:.3f}<td>{o:.3f}<td>{a:.3f} to {b:.3f}<td>{w:{form}}"
            for p, o, a, b, w in zip(*columns, strict=True)
        )
        table = f"<tr><th>Predicted<th>Observed<th>{level} interval (Wilson)<th>{size}"
        return (
            f"<div class=sparseklr-report><style>{STYLE}</style>{head}{verdict}<div class=parts>"
            f"<figure>{display.to_svg()}</figure><div><table>{rows}</table><details>"
            f"<summary>The groups</summary><table>{table}{groups}</table></details></div></div></div>"
        )

    def _rows(self) -> list[tuple[str, str]]:
        """Names and values of what is known, as text."""
        names = {key: label for key, (label, _) in LABELS.items()}
        two = self.display.pos_label is not None
        names["prevalence"] = f"Share of class {self.display.pos_label}" if two else "Largest class"
        known = {key: value for key, value in self.summary.items() if value is not None}
        return [(names[key], format(value, LABELS[key][1])) for key, value in known.items()]


def _plain(text: str) -> str:
    """A cell of a Markdown table that shows the text as it is."""
    return re.sub(r"[\\`*|<\[\]]|&(?=#?\w+;)", r"\\\g<0>", " ".join(text.split()))


# -- the page ---------------------------------------------------------------------------------

PAGE_STYLE = """
body { margin: 0; background: #ffffff; }
@media (prefers-color-scheme: dark) { body { background: #14171b; } }
"""

STYLE = """
.sparseklr-report { --ink: #1f2328; --faint: #6b7280; --line: #d5d9df; --paper: #ffffff; --curve: #1f5fbf;
  color: var(--ink); background: var(--paper); font: 15px/1.45 system-ui, sans-serif; padding: 1em;
  max-width: 58em; margin: 0 auto; box-sizing: border-box; }
@media (prefers-color-scheme: dark) {
  .sparseklr-report { --ink: #e6e8eb; --faint: #9aa3ad; --line: #3a414a; --paper: #14171b;
    --curve: #7fb2ff; } }
.sparseklr-report h2 { font-size: 1.25em; margin: 0 0 .4em; }
.sparseklr-report p { margin: 0 0 .8em; }
.sparseklr-report .parts { display: flex; flex-wrap: wrap; gap: 1.5em; }
.sparseklr-report .parts > * { flex: 1 1 17em; min-width: 0; margin: 0; }
.sparseklr-report svg { width: 100%; max-width: 30em; height: auto; display: block; }
.sparseklr-report svg text { fill: var(--faint); font: 14px system-ui, sans-serif; }
.sparseklr-report table { border-collapse: collapse; width: 100%; color: inherit; }
.sparseklr-report tr { border-bottom: 1px solid var(--line); background: none; }
.sparseklr-report :is(th, td) { text-align: right; padding: .35em .3em; font-variant-numeric: tabular-nums; }
.sparseklr-report th { font-weight: 500; color: var(--faint); }
.sparseklr-report th[scope] { text-align: left; }
.sparseklr-report details { margin-top: 1em; font-size: .9em; }
"""
