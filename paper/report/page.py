"""Report on stored results as a self-contained HTML page, or its tables as Markdown or LaTeX."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ..protocol import METHODS, MODES
from ..store import Results, ResultsError
from . import page_data
from . import page_sections as sections
from .explanations import EXPLANATIONS
from .page_sections import MODE_NAMES, Runs
from .render import to_html, to_latex, to_markdown
from .summary import Summary
from .tables import OURS, Table, all_tables, findings


def write_report(results: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Write a report on a file of results.

    Parameters
    ----------
    results : path
        File that :func:`~paper.run` wrote.
    output : path
        ``.html`` for a page with figures, ``.md`` or ``.tex`` for its tables.
    """
    writers: dict[str, Callable[[list[Summary], Runs], str]] = {
        ".html": html_page,
        ".md": markdown,
        ".tex": latex,
    }
    output = Path(output)
    if output.suffix not in writers:
        raise ValueError(f"{output}: the name of a report must end in {', '.join(writers)}.")
    with Results(results, readonly=True) as stored:
        records, runs = stored.cells(), stored.runs()
    summaries = [Summary(records, mode) for mode in MODES]
    summaries = [summary for summary in summaries if summary.datasets]
    if not summaries:
        raise ResultsError(f"{os.fspath(results)}: the file contains no results yet.")
    output.write_text(writers[output.suffix](summaries, runs), encoding="utf-8")


# -- tables alone -----------------------------------------------------------------------------


def _tables(summary: Summary, first: Table | None = None) -> list[Table]:
    """Return the tables of a mode, with distinct names."""
    made = [*([first] if first else []), *all_tables(summary)]
    return [replace(table, name=f"{summary.mode}-{table.name}") for table in made]


def markdown(summaries: list[Summary], runs: Runs) -> str:
    parts = [
        "# All tables of the paper's experiments\n",
        "The paper compares sparse kernel logistic regression (S-KLR) with other sparse classifiers on "
        "twelve data sets. It reports their accuracies and the fractions of the training rows (points) "
        "that they keep. This page contains the paper's tables together with our numbers, and adds the "
        "models of this package and tables on the quality of the probabilities.\n",
        "Each cell shows our number. The paper's number and the difference follow in brackets. The best "
        "number of a row is in bold. *Best* is the most accurate model on the validation rows, and *sparsest "
        "of 3* the sparsest of the three most accurate models. `python -m paper --report FILE.md` writes "
        "these tables from a file of results.\n",
    ]
    for summary in summaries:
        words = sections.DESCRIPTIONS[summary.mode]
        parts.append(f"## {MODE_NAMES[summary.mode].capitalize()}\n\n{words[0].upper()}{words[1:]}.\n")
        parts += [to_markdown(table) for table in _tables(summary, findings(summary))]
        if differing := dict.fromkeys(found.dataset for found in page_data.differences(summary)):
            parts.append("### Differences between S-KLR and the paper\n")
            parts += [f"- {name}: {EXPLANATIONS[name]}" for name in differing if name in EXPLANATIONS]
            parts.append("")
    return "\n".join(parts)


def latex(summaries: list[Summary], runs: Runs) -> str:
    """Write a LaTeX document; tables wider than the page are shrunk."""
    fit = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%" "\n"
    parts = [
        r"\documentclass{article}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage[a4paper,landscape,margin=15mm]{geometry}",
        r"\usepackage{booktabs,graphicx}",
        r"\begin{document}",
    ]
    for summary in summaries:
        parts.append(rf"\section*{{The paper's experiments, {MODE_NAMES[summary.mode]}}}")
        for table in _tables(summary, findings(summary)):
            text = to_latex(table).replace(r"\begin{tabular}", fit + r"\begin{tabular}")
            parts.append(text.replace(r"\end{tabular}", r"\end{tabular}}"))
        parts.append(r"\clearpage")
    return "\n".join([*parts, r"\end{document}", ""])


# -- the page ---------------------------------------------------------------------------------


def html_page(summaries: list[Summary], runs: Runs) -> str:
    assets = {
        file.name: file
        for package in (__package__, "sparseklr.cli")  # its report page uses the same charts and colours
        for file in (resources.files(package) / "assets").iterdir()
    }

    def each(section: Callable[[Summary], str]) -> str:
        """Repeat a section for every mode; the page shows one of them."""
        return "".join(f'<div data-mode="{s.mode}">{section(s)}</div>' for s in summaries)

    data = {
        "methods": METHODS,
        "ours": OURS,
        "modes": {summary.mode: page_data.charts(summary) for summary in summaries},
    }
    return Template(assets["report.html"].read_text("utf-8")).substitute(
        css=assets["report.css"].read_text("utf-8"),
        js=assets["chart.js"].read_text("utf-8") + assets["report.js"].read_text("utf-8"),
        data=_json(data),
        switch=sections.switch(summaries),
        run=sections.facts(summaries, runs) + each(sections.coverage),
        methods=sections.methods(summaries),
        findings=each(sections.findings),
        tables=each(lambda summary: "".join(map(to_html, _tables(summary)))),
        comparison=each(sections.comparison),
        pairs=each(sections.pairs),
        convergence=each(sections.convergence),
        differences=each(sections.differences),
        figures=sections.paper_figures(),
    )


def _json(data: Any) -> str:
    """Encode data as JSON for an HTML page: no tags, no NaN, and numbers with six digits."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [clean(item) for item in value]
        if isinstance(value, float):
            return float(f"{value:.6g}") if np.isfinite(value) else None
        return value

    return json.dumps(clean(data), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
