"""Tables for a terminal and as Markdown, LaTeX and HTML."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from .tables import OURS, Table, Value


def number(value: float, digits: int = 3) -> str:
    """Return a number as text for a table, or a dash if it is missing."""
    if not np.isfinite(value):
        return "-"
    return f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:,.0f}"


def difference(value: Value) -> str:
    """Return the difference with its sign, or without one if it rounds to zero."""
    if value.difference is None or not np.isfinite(value.difference):
        return ""
    rounded = round(value.difference, value.digits) + 0.0
    return f"{rounded:+.{value.digits}f}" if rounded else f"{rounded:.{value.digits}f}"


def cell(value: Value) -> str:
    """Return our number and, in brackets, the number of the paper and the difference."""
    text = number(value.ours, value.digits)
    if value.paper is None:
        return text
    change = difference(value)
    return f"{text} ({number(value.paper, value.digits)}{', ' + change if change else ''})"


def to_rich(table: Table, split: bool = False) -> Any:
    """Return a rich table, with the best of each row in bold.

    With ``split``, the numbers of the paper have their own columns.
    """
    from rich import box
    from rich.table import Table as RichTable

    made = RichTable(title=table.title, caption=table.note or None, box=box.SIMPLE_HEAD, pad_edge=False)
    made.title_justify = made.caption_justify = "left"
    apart = [
        split and any(values[k].paper is not None for _, values in table.rows)
        for k in range(len(table.columns))
    ]
    made.add_column("", no_wrap=True)
    for head, two in zip(table.columns, apart, strict=True):
        for name in (head, "paper") if two else (head,):
            made.add_column(name, justify="right")
    for name, values in table.rows:
        if name == "mean":
            made.add_section()
        cells = []
        for value, two in zip(values, apart, strict=True):
            text = number(value.ours, value.digits) if two else cell(value)
            cells.append(f"[bold]{text}[/bold]" if value.best else text)
            if two:
                cells.append("-" if value.paper is None else number(value.paper, value.digits))
        made.add_row(name, *cells)
    return made


def to_markdown(table: Table) -> str:
    lines = [
        f"### {table.title}",
        "",
        f"| | {' | '.join(table.columns)} |",
        f"|---|{'---:|' * len(table.columns)}",
    ]
    for name, values in table.rows:
        cells = (f"**{cell(v)}**" if v.best else cell(v) for v in values)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, *(["", table.note] if table.note else [])]) + "\n"


def to_latex(table: Table) -> str:
    """Return a ``tabular`` in a ``table``; needs the package booktabs."""
    head = " & ".join(["", *(_tex(column) for column in table.columns)])
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_tex(f'{table.title}. {table.note}'.strip())}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
    ]
    for name, values in table.rows:
        if name == "mean":
            lines.append(r"\midrule")
        cells = (rf"\textbf{{{_tex(cell(v))}}}" if v.best else _tex(cell(v)) for v in values)
        lines.append(rf"{_tex(name)} & {' & '.join(cells)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def _tex(text: str) -> str:
    for plain, tex in (("\\", r"\textbackslash{}"), ("_", r"\_"), ("%", r"\%"), ("&", r"\&")):
        text = text.replace(plain, tex)
    return text


def to_html(table: Table) -> str:
    """Return an HTML table, in which the paper's number and the difference are below our number."""
    heads = "".join(f"<th scope=col{_ours(column)}>{_broken(column)}</th>" for column in table.columns)
    rows = []
    for name, values in table.rows:
        cells = []
        for column, value in zip(table.columns, values, strict=True):
            text = number(value.ours, value.digits)
            text = f"<b>{text}</b>" if value.best else text
            if value.paper is not None:
                theirs = number(value.paper, value.digits)
                # the counts are equal
                change = "" if difference(value) == "0" else f" <i>{difference(value)}</i>"
                text += f'<small title="paper, difference">{theirs}{change}</small>'
            cells.append(f"<td{_ours(column)}>{text}</td>")
        kind = " class=mean" if name == "mean" else _ours(name)
        rows.append(f"<tr{kind}><th scope=row>{escape(name)}</th>{''.join(cells)}</tr>")
    note = f"<p class=note>{escape(table.note)}</p>" if table.note else ""
    title, anchor = escape(table.title), escape(table.name)
    return (
        f'<section id="{anchor}"><h3>{title}</h3>'
        f'<div class=scroll tabindex=0 role=region aria-label="{title}"><table>'
        f"<thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{note}</section>"
    )


def _ours(name: str) -> str:
    """Return the CSS class that marks a row or column of the package's own model."""
    return " class=ours" if name == OURS else ""


def _broken(name: str) -> str:
    """Return a heading of two parts with a line break between them."""
    return escape(name).replace(", ", ",<br>")
