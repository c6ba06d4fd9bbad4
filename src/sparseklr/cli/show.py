"""``sparseklr show``, ``report`` and ``export``, which describe, evaluate and convert model files."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

from .._utils.messages import listing
from .options import MODEL_HELP, CliError, add_command, add_json, add_labels, add_output, print_json

SHOW_EXAMPLES = """\
  sparseklr show model.sklr
  sparseklr show model.sklr --json"""

REPORT_EXAMPLES = """\
  sparseklr report model.sklr test.csv -o report.html
  sparseklr report small.sklr large.sklr test.csv -o both.html
  sparseklr report model.sklr test.parquet --target outcome -o report.md"""

EXPORT_EXAMPLES = """\
  sparseklr export model.sklr -o model.onnx
  sparseklr export model.sklr -o model.h --single --name churn
  sparseklr export model.sklr -o model.json"""


def add_show(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "show",
        run_show,
        "Show the content of a model file: how and when the model was fitted, the columns that it uses with "
        "their ranges and categories, and the columns that were dropped.",
        SHOW_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=f"{MODEL_HELP} or by sparseklr.save")
    add_json(parser)


def run_show(args: Namespace) -> None:
    from .terminal import fit_lines, show_measures, show_table, time_in_words

    found = _description(args.model)
    if args.json:
        print_json(model=args.model, **found)
        return
    given = ", ".join(f"{name}={_short(value)}" for name, value in found["parameters"].items())
    lines = [("Model", f"{found['estimator']}({given})")]
    if found["target"] is not None:
        lines.append(("Target", found["target"]))
    written = time_in_words(found["created"])
    lines.append(("Written", f"{written}, sparseklr {found['versions']['sparseklr']}"))
    show_table(args.model, ("", ""), lines + fit_lines(found))
    if found["columns"] is not None:
        rows = [(column["name"], column["kind"], column["values"]) for column in found["columns"]]
        show_table("Columns", ("name", "kind", "values in training"), rows, justify="left")
    if found.get("test"):
        show_measures(found["test"], "On the test rows")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def _description(path: str) -> dict[str, Any]:
    """Return the description of a model; it is read from the file, without loading the model, if possible."""
    from .._utils.archive import DESCRIPTION, unpack
    from .files import read_bytes, source_name

    data, name = read_bytes(path), source_name(path)
    members, header = unpack(data, name)
    if DESCRIPTION in members:
        found = json.loads(members[DESCRIPTION])
    else:  # earlier releases did not store a description
        from ..persistence import describe, load_with_metadata

        found = describe(*load_with_metadata(data, name))
    training = found.pop("training")
    return {**training, **found, "created": header["created"], "versions": header["versions"]}


# -- report -----------------------------------------------------------------------------------


def add_report(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "report",
        run_report,
        "Evaluate models on rows with known classes and write a page. It shows the decision threshold "
        "implied by your costs, the calibration of the probabilities, the most confident errors with "
        "explanations, and the rows that are unlike the training rows.",
        REPORT_EXAMPLES,
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="one or more model files written by sparseklr fit, followed by a data file",
    )
    add_labels(parser, "column that contains the classes (default: the same name as in the training data)")
    add_output(parser, "page to write: .html, or for a single model also .md or .json")


def run_report(args: Namespace) -> None:
    from ..inspection import probability_report
    from .files import check_output, source_name, writing
    from .model import Model
    from .reading import read_for_model
    from .report import ReportedModel, model_page
    from .stream import reports_in_blocks, sampled_rows
    from .terminal import print_notes

    output = check_output(args.output, args.force)
    paths, suffix = _check_files(args, output)
    distinct = len({Path(path).name for path in paths}) == len(paths)
    models, notes = [], []
    for path in paths:
        model = Model.load(path)
        target = args.target or model.target
        if target is not None and reports_in_blocks(args, model):
            rows, found = sampled_rows(args, model, target)
        else:
            rows, found = read_for_model(args, model, with_labels=True)
        notes += [note for note in found if note not in notes]
        models.append(ReportedModel.of(Path(path).name if distinct else model.name, model, rows))
        if models[0].classes != models[-1].classes:
            raise CliError(
                f"{path}: the classes are {listing(models[-1].classes)}, but {paths[0]} has the classes "
                f"{listing(models[0].classes)}; all models on a page must have the same classes"
            )
    if suffix == ".html":
        text = model_page(models, Path(source_name(args.data)).name)
    else:
        report = probability_report(model.predictor, rows.X, rows.y, sample_weight=rows.weight)
        text = report.to_markdown() if suffix == ".md" else report.to_json()
    with writing(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    print_notes(args.data, notes)
    if output.name != "-":
        print(f"Report written to {args.output}")


def _check_files(args: Namespace, output: Path) -> tuple[list[str], str]:
    """Return the model paths and the suffix of the output file, and set ``args.data`` to the data file."""
    suffix = ".html" if output.name == "-" else output.suffix
    if len(args.files) == 1:
        raise CliError(f"expected a model file and a data file; got only {args.files[0]}")
    *paths, args.data = args.files
    expected = (".html", ".md", ".json") if len(paths) == 1 else (".html",)
    if suffix not in expected:
        raise CliError(f"--output {args.output}: expected a name ending in {' or '.join(expected)}")
    if args.files.count("-") > 1:
        raise CliError("only one of the files can be standard input")
    if twice := [path for path in dict.fromkeys(paths) if paths.count(path) > 1]:
        raise CliError(f"{twice[0]}: the model is given twice")
    return paths, suffix


# -- export -----------------------------------------------------------------------------------


def add_export(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "export",
        run_export,
        "Export a model as an ONNX graph, a C99 header or JSON. An ONNX graph has one input for each column: "
        "a number, a string, or a date as seconds since 1970. Models in C and JSON take numbers and "
        "categories, in the order of the columns. Models of columns with free text cannot be exported.",
        EXPORT_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    add_output(parser, "file to write: .onnx, .h or .json")
    parser.add_argument(
        "--single",
        action="store_true",
        help="use single precision: float32 for the inputs and outputs of an ONNX graph, float in a C header",
    )
    parser.add_argument(
        "--name", help="prefix of all identifiers in a C header (default: the name of the file)"
    )


def run_export(args: Namespace) -> None:
    from ..export import to_c, to_json, to_onnx
    from .files import check_output, writing
    from .model import Model

    output = check_output(args.output, args.force)
    suffix = output.suffix.lower()
    if suffix not in (".onnx", ".h", ".json"):
        raise CliError(f"--output {args.output}: expected a name ending in .onnx, .h or .json")
    if args.single and suffix == ".json":
        raise CliError("--single is not available for JSON, which stores numbers in double precision")
    if args.name and suffix != ".h":
        raise CliError("--name is only available for a C header (.h)")
    model = Model.load(args.model).fitted
    if suffix == ".onnx":
        try:
            content = to_onnx(model, dtype="float32" if args.single else "float64").SerializeToString()
        except ModuleNotFoundError as error:
            raise CliError(str(error)) from error
    elif suffix == ".h":
        word = re.sub(r"\W", "_", output.stem, flags=re.ASCII)
        name = args.name or word.lstrip("_0123456789") or "model"
        content = to_c(model, name=name, dtype="float" if args.single else "double").encode()
    else:
        content = to_json(model).encode()
    with writing(output) as temporary:
        temporary.write_bytes(content)
    print(f"Model written to {args.output} ({len(content) / 1000:.1f} kB)")
