"""Sections of the report page as HTML."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from html import escape
from typing import Any

import numpy as np

from ..protocol import METHODS, N_FOLDS
from . import page_data
from .comparison import Comparison
from .explanations import CHOICE_WORDS, EXPLANATIONS, METHOD_WORDS
from .render import difference as change
from .render import number, to_html
from .summary import Summary
from .tables import NAMES, OURS, Value
from .tables import findings as means_table

Runs = dict[int, dict[str, Any]]
MODE_NAMES = {
    "converged": "solved to tolerance",
    "as-printed": "as printed in the paper",
    "gamma-1": "as printed, with a narrower kernel",
}
SHORT_NAMES = {"converged": "to tolerance", "as-printed": "as printed", "gamma-1": "narrower kernel"}
DESCRIPTIONS = {
    "converged": (
        "every problem is solved to its tolerance. Among equally accurate models, the sparsest is chosen"
    ),
    "as-printed": (
        "the solver uses the paper's limit of 10,000 iterations, and its bound and tolerance of 1e-5. Among "
        "equally accurate models, the sparsest is chosen"
    ),
    "gamma-1": (
        "the solver uses the paper's limit, bound and tolerance, and the kernel exp(-|x - z|^2) instead of "
        "exp(-|x - z|^2 / 2). Among equally accurate models, the sparsest is chosen"
    ),
}


def _table(heads: list[str], rows: list[list[str]], label: str, kind: str = "") -> str:
    """Return an HTML table that can be scrolled; the given cells are HTML."""
    head = "".join(text if text.startswith("<th") else f"<th scope=col>{text}</th>" for text in heads)
    body = ""
    for first, *rest in rows:
        cells = "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in rest)
        body += f"<tr><th scope=row>{first}</th>{cells}</tr>"
    return (
        f'<div class=scroll tabindex=0 role=region aria-label="{label}"><table class="{kind}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def switch(summaries: list[Summary]) -> str:
    """Return the control that selects the mode, if there are several."""
    if len(summaries) == 1:
        return ""
    inputs = "".join(
        f"<label><input type=radio name=mode value={summary.mode}{'' if k else ' checked'}> "
        f"{SHORT_NAMES[summary.mode]}</label>"
        for k, summary in enumerate(summaries)
    )
    return f"<fieldset><legend>Solver</legend>{inputs}</fieldset>"


# -- what was run -----------------------------------------------------------------------------


def facts(summaries: list[Summary], runs: Runs) -> str:
    """Return a list of the modes, the sources of the data, and the runs with machines, versions and times."""
    items = []
    for summary in summaries:
        records = summary.records
        seeds = sorted({record.cell.seed for record in records})
        folds = sorted({record.cell.fold + 1 for record in records})
        total = len(records) + len(page_data.missing(summary))
        items.append(
            f"<li><b>{MODE_NAMES[summary.mode].capitalize()}</b>: {DESCRIPTIONS[summary.mode]}. "
            f"{len(records)} of {total} cells finished: {_count(len(summary.datasets), 'set')}, "
            f"{_count(len(summary.methods), 'method')}, folds {_list(folds)}, seed{'s' * (len(seeds) > 1)} "
            f"{_list(seeds)}; {_duration(sum(record.seconds for record in records))} of computing time.</li>"
        )
    records = [record for summary in summaries for record in summary.records]
    rows = []
    for run, known in runs.items():
        found = [record for record in records if record.run == run]
        if not found:
            continue
        start = datetime.fromisoformat(known["date"])
        end = datetime.fromisoformat(max(record.finished for record in found))
        packages = {"Python": known["python"], **known["versions"]}
        versions = ", ".join(f"{name} {version}" for name, version in packages.items())
        machine = f"{known['processor']}, {known['cores']} cores, {known['system']}"
        rows.append(
            [
                f"{start:%Y-%m-%d %H:%M} UTC",
                str(len(found)),
                _duration(sum(record.seconds for record in found)),
                _duration((end - start).total_seconds()),
                escape(str(known["scheduler"] or _processes(known))),
                f"<td class=words>{escape(machine)}</td>",
                f"<td class=words>{escape(versions)}</td>",
            ]
        )
    sources: dict[str, set[str]] = {}
    for record in records:
        sources.setdefault(str(record.result["source"]), set()).add(record.cell.dataset)
    origin = "; ".join(escape(f"{source} ({_list(sorted(names))})") for source, names in sources.items())
    heads = ["Run", "cells", "computing", "elapsed", "processes"]
    heads += [f"<th scope=col class=words>{name}</th>" for name in ("machine", "versions")]
    return f"<ul>{''.join(items)}</ul><p>Source of the data: {origin}.</p>" + _table(heads, rows, "Runs")


def _processes(known: dict[str, Any]) -> int:
    """Return the number of processes; negative values count from the number of cores, as in joblib."""
    jobs = int(known["jobs"])
    return jobs if jobs > 0 else max(1, int(known["cores"]) + 1 + jobs)


def methods(summaries: list[Summary]) -> str:
    """Return descriptions of the methods that were run."""
    run = {method for summary in summaries for method in summary.methods}
    words = "".join(
        f"<dt>{escape(name)}</dt><dd>{text}</dd>" for name, text in METHOD_WORDS.items() if name in run
    )
    return f"<dl>{words}<dt>best, sparsest of 3</dt><dd>{CHOICE_WORDS}</dd></dl>"


def _count(n: float, name: str) -> str:
    return f"{n:.0f} {name}{'' if n == 1 else 's'}"


def _list(items: list[Any]) -> str:
    return ", ".join(map(str, items))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def coverage(summary: Summary) -> str:
    """Return a list of the missing cells, and a table of the stored cells by set and method."""
    missing = page_data.missing(summary)
    if not missing:
        return "<p>No cell of the paper's grid is missing.</p>"
    seeds = len({record.cell.seed for record in summary.records})
    full = N_FOLDS * seeds
    rows = []
    for dataset in sorted({*summary.datasets, *(cell.dataset for cell in missing)}):
        counts = [len(summary.of(dataset, method)) for method in METHODS]
        rows.append([escape(dataset), *(f'<td style="--v:{n / full:.2f}">{n} / {full}</td>' for n in counts)])
    return (
        f"<p class=notice>{len(missing)} cells of the paper's grid are missing: "
        f"{escape('; '.join(page_data.in_words(missing, seeds)))}.</p><details><summary>Finished cells "
        f"</summary>{_table(['', *METHODS], rows, 'Finished cells', 'heat')}</details>"
    )


# -- findings, comparison, convergence --------------------------------------------------------


def findings(summary: Summary) -> str:
    """Return a comparison of SparseKLR with S-KLR, and the means of all columns."""
    table = replace(means_table(summary), name=f"{summary.mode}-findings")
    pair = means_table(summary, ((OURS, "best"), ("S-KLR", "best"))).rows
    cards = ""
    if len(pair) == 2 and any(
        value.best for _, values in pair for value in values
    ):  # compare on the same sets
        (_, (sets, *ours)), (_, (_, *raw)) = pair
        for name, own, other in zip(table.columns[1:], ours, raw, strict=True):
            printed = "" if other.paper is None else f"; the paper prints {number(other.paper)}"
            cards += (
                f'<div class="card ours"><span>{OURS}: mean {name}, {_count(sets.ours, "set")}</span>'
                f"<b>{number(own.ours)}</b><span>S-KLR, best: {number(other.ours)}{printed}</span></div>"
            )
    return f"<div class=cards>{cards}</div>{to_html(table)}"


def comparison(summary: Summary) -> str:
    found = page_data.comparison(summary)
    if isinstance(found, str):
        return f"<p class=notice>{escape(found)}</p>"
    verdict = "differ" if found.p_value < 0.05 else "do not differ significantly"
    return (
        f"<p>Test accuracy of the best models on {found.n_sets} sets (Demšar 2006, <cite>Journal of Machine "
        f"Learning Research</cite> 7, 1-30). Friedman test: χ² = {found.statistic:.2f}, "
        f"p = {found.p_value:.2g}: the methods {verdict} at the 5% level. Rank 1 is best; methods joined by "
        "a bar differ by less than the critical difference of Nemenyi's test.</p>"
    )


def pairs(summary: Summary) -> str:
    """Return the pairwise tests, sorted by p-value."""
    found = page_data.comparison(summary)
    if not isinstance(found, Comparison):
        return ""
    rows = []
    for i, j, p, corrected in sorted(found.pairs, key=lambda pair: pair[3]):
        better, other = (i, j) if found.ranks[i] <= found.ranks[j] else (j, i)
        ranks = f"{found.ranks[better]:.2f} and {found.ranks[other]:.2f}"
        shown = f"<b>{_p_value(corrected)}</b>" if corrected < 0.05 else _p_value(corrected)
        rows.append([f"{found.names[better]} and {found.names[other]}", ranks, _p_value(p), shown])
    heads = ["pair", "mean ranks", "p", "p after Holm"]
    return "<h3>Wilcoxon signed-rank test of every pair</h3>" + _table(heads, rows, "Pairwise tests")


def _p_value(p: float) -> str:
    return "&lt; 0.001" if p < 0.0005 else f"{p:.3f}"


def convergence(summary: Summary) -> str:
    """Return the fraction of the solves that converged, as a coloured table."""
    rows = [
        [dataset, *(_heat(page_data.converged(summary, dataset, method)) for method in summary.methods)]
        for dataset in summary.datasets
    ]
    return _table(["", *summary.methods], rows, "Convergence", "heat")


def _heat(share: float) -> str:
    if not np.isfinite(share):
        return "<td>-</td>"
    return f'<td{" class=low" if share < 0.9 else ""} style="--v:{share:.3f}">{_percent(share)}</td>'


def _percent(share: float) -> str:
    """Return a fraction in whole percents; 100% only if it is exactly 1."""
    return f"{share:.1%}" if 0.99 <= share < 1 else f"{share:.0%}"


# -- differences from the paper ---------------------------------------------------------------


def differences(summary: Summary) -> str:
    """Return the sets whose results differ from Table 2, with evidence and, if known, an explanation."""
    found = page_data.differences(summary)
    accuracy, share = page_data.ACCURACY_LIMIT, page_data.SHARE_LIMIT
    limits = f"by more than {accuracy} in accuracy or {share} in the fraction of rows kept"
    if not found:
        return f"<p>On none of the sets does S-KLR differ from the paper's Table 2 {limits}.</p>"
    heads = ["", "accuracy", "difference in<br>standard errors", "accuracy<br>by rule for ties"]
    heads += ["fraction of rows<br>and by fold", "fraction<br>by rule for ties", "converged"]
    table = _table(heads, [_evidence(difference) for difference in found], "Differences and evidence")
    words = "".join(
        f"<dt>{dataset}</dt><dd>{escape(EXPLANATIONS[dataset])}</dd>"
        for dataset in dict.fromkeys(difference.dataset for difference in found)
        if dataset in EXPLANATIONS
    )
    return (
        f"<p>Sets on which S-KLR differs from the paper's Table 2 {limits}. The paper does not say which of "
        "equally accurate models it takes: the ranges are over the first one of the grid, the last one and "
        f"the sparsest. Standard errors are over the folds.</p>{table}"
        + (f"<dl>{words}</dl>" if words else "")
    )


def _evidence(found: page_data.Difference) -> list[str]:
    """Return a table row: our numbers, the paper's, their ranges over the rules for ties, convergence."""
    cells = []
    for k in (0, 1):
        value = Value(found.ours[k], found.paper[k])
        values = [pair[k] for pair in found.ties.values()]
        inside = "holds the paper's" if found.within_ties(k) else "without the paper's"
        own = f"{number(value.ours)}<small>{number(found.paper[k])} {change(value)}</small>"
        cells.append([own, f"{min(values):.3f} to {max(values):.3f}<small>{inside}</small>"])
    off = abs(found.ours[0] - found.paper[0]) / found.error if found.error > 0 else np.nan
    chance = f"{number(off, 1)}<small>of {number(found.error, 4)}</small>"
    (accuracy, spread), shares = cells
    name = f"{found.dataset}, {NAMES[found.rule]}"
    by_fold = " ".join(f"{share:.2f}" for share in found.shares)
    shares[0] += f"<small>{by_fold}</small>"
    return [name, accuracy, chance, spread, *shares, _percent(found.converged)]


# -- the paper's figures ----------------------------------------------------------------------


def paper_figures() -> str:
    try:
        from .figures import FIGURES, to_svg
    except ImportError:
        return (
            '<p class=notice>These figures need matplotlib: <code>pip install "sparseklr[plots]"</code>.</p>'
        )
    drawn = [
        f'<figure id="{draw.__name__}"><div role=img aria-label="{escape(caption)}">{to_svg(draw)}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
        for draw, caption in FIGURES.items()
    ]
    losses, synth = "".join(drawn[:3]), "".join(drawn[3:])
    return f'<div class="gallery small">{losses}</div><div class=gallery>{synth}</div>'
