"""``sparseklr report``: a page on models and their decisions."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from .options import add_command, add_labels, add_output

EXAMPLES = """\
  sparseklr report model.skops test.csv -o report.html
  sparseklr report small.skops large.skops test.csv -o both.html
  sparseklr report model.skops test.parquet --target outcome -o report.md"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "report",
        run,
        "Write a page on models and rows with known classes: the decision threshold implied by your costs, "
        "whether the probabilities can be trusted, the most confident errors with their explanation, and "
        "rows that are unlike the training rows.",
        EXAMPLES,
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="one or more models, written by sparseklr fit or tune, and last the data",
    )
    add_labels(parser, "column of the classes, if not the one the model was fitted to")
    add_output(parser, "the page: .html, or for a single model also .md or .json")


def run(args: Namespace) -> None:
    from .errors import CliError
    from .files import check_output

    output = check_output(args.output, args.force)
    suffix = ".html" if output.name == "-" else output.suffix
    if len(args.files) == 1:
        raise CliError(f"{args.files[0]}: the data are missing; give both: MODEL DATA")
    *models, args.data = args.files
    expected = (".html", ".md", ".json") if len(models) == 1 else (".html",)
    if suffix not in expected:
        raise CliError(f"--output {args.output}: expected a name that ends in {' or '.join(expected)}")
    _report_on_models(args, models, output, suffix)
    if output.name != "-":
        print(f"Report written to {args.output}")


def _report_on_models(args: Namespace, paths: list[str], output: Path, suffix: str) -> None:
    from ..inspection.probability_report import probability_report
    from .data import read_rows
    from .errors import CliError, listing
    from .files import source_name, writing
    from .model_page import Shown, model_page
    from .models import load_model
    from .stream import reports_in_blocks, sampled_rows
    from .terminal import say
    from .unfamiliar import naming_large_cells

    if [*paths, args.data].count("-") > 1:
        raise CliError("only one of the files can be standard input")
    if twice := [path for path in dict.fromkeys(paths) if paths.count(path) > 1]:
        raise CliError(f"{twice[0]}: the model is given twice")
    models, notes = [], []
    for path in paths:
        pipeline, metadata = load_model(path)
        target = args.target or metadata.get("target")
        if target is not None and reports_in_blocks(args, pipeline):
            rows, told = sampled_rows(args, pipeline, target)
        else:
            rows, told = read_rows(args, pipeline, metadata, with_labels=True)
        name = source_name(path) if len({Path(one).name for one in paths}) < len(paths) else Path(path).name
        models.append(Shown(name, pipeline, metadata, rows))
        notes += [note for note in told if note not in notes]
        if models[0].classes != models[-1].classes:
            raise CliError(
                f"{path}: its classes are {listing(models[-1].classes)}, those of {paths[0]} are "
                f"{listing(models[0].classes)}; one page is on models of the same classes"
            )
    if suffix == ".html":
        text = model_page(models, Path(source_name(args.data)).name)
    else:
        rows = models[0].rows
        with naming_large_cells(models[0].pipeline, rows):
            report = probability_report(models[0].pipeline, rows.X, rows.y, sample_weight=rows.weight)
        text = report.to_markdown() if suffix == ".md" else report.to_json()
    with writing(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    say(args.data, notes)
