"""``sparseklr report``: a page on the probabilities of a model, or on the results of the experiments."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from .options import add_command, add_data, add_output

EXAMPLES = """\
  sparseklr report model.skops test.csv -o report.html
  sparseklr report model.skops test.parquet --target outcome -o report.md
  sparseklr report results.sqlite -o report.html"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "report",
        run,
        "Write a page on how far the probabilities of a model can be trusted, with a reliability diagram. "
        "With the results of the paper's experiments as the only file, the page is on these.",
        EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="file written by sparseklr fit or tune, or results")
    add_data(parser, "column of the classes, if not the one the model was fitted to", optional=True)
    add_output(parser, "the page: .html, .md or .json (of results: .html, .md or .tex)")


def run(args: Namespace) -> None:
    from .errors import CliError
    from .files import check_output, writing

    output = check_output(args.output, args.force)
    suffix = ".html" if output.name == "-" else output.suffix
    expected = (".html", ".md", ".tex") if args.data is None else (".html", ".md", ".json")
    if args.data is None:
        if not _is_sqlite(args.model):
            raise CliError(f"{args.model}: not a file of results; for a model, give the data too: MODEL DATA")
        _check_suffix(args.output, suffix, expected)
        from ..experiments import write_report

        with writing(output, suffix) as temporary:
            write_report(args.model, temporary)
    else:
        from ..inspection.probability_report import probability_report
        from .data import read_rows
        from .models import load_model
        from .show import say

        pipeline, metadata = load_model(args.model)
        rows, notes = read_rows(args, pipeline, metadata, with_labels=True)
        _check_suffix(args.output, suffix, expected)
        report = probability_report(pipeline, rows.X, rows.y, sample_weight=rows.weight)
        writers = {".html": report.to_html, ".md": report.to_markdown, ".json": report.to_json}
        with writing(output) as temporary:
            temporary.write_text(writers[suffix](), encoding="utf-8")
        say(args.data, notes)
    if output.name != "-":
        print(f"Report written to {args.output}")


def _check_suffix(path: str, suffix: str, expected: tuple[str, ...]) -> None:
    from .errors import CliError

    if suffix not in expected:
        raise CliError(f"--output {path}: expected a name that ends in {', '.join(expected)}")


def _is_sqlite(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(16) == b"SQLite format 3\0"
