"""``sparseklr export``: a model for places where this package is not installed."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Any

from .options import add_command, add_output

EXAMPLES = """\
  sparseklr export model.skops -o model.onnx
  sparseklr export model.skops -o model.h --single --name churn
  sparseklr export model.skops -o model.json"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "export",
        run,
        "Write a model as an ONNX graph, a C99 header or JSON. The graph has one input for each column, "
        "numbers or strings; C and JSON take numbers only, in the order of the columns.",
        EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="file written by sparseklr fit or tune")
    add_output(parser, "the exported model: .onnx, .h or .json")
    parser.add_argument(
        "--single", action="store_true", help="float32 in and out of an ONNX graph, float in a C header"
    )
    parser.add_argument(
        "--name", help="what the names in a C header begin with (default: the name of the file)"
    )


def run(args: Namespace) -> None:
    from ..export import to_c, to_json, to_onnx
    from .errors import CliError
    from .files import check_output, writing
    from .models import load_model

    output = check_output(args.output, args.force)
    suffix = output.suffix.lower()
    if suffix not in (".onnx", ".h", ".json"):
        raise CliError(f"--output {args.output}: expected a name that ends in .onnx, .h or .json")
    if args.single and suffix == ".json":
        raise CliError("--single: not for JSON, whose numbers have all their digits")
    if args.name and suffix != ".h":
        raise CliError("--name: only for a C header, .h")
    model, _ = load_model(args.model)
    if suffix != ".onnx" and (reason := _only_onnx(model)):
        raise CliError(f"{args.model}: {reason}, which only an ONNX graph can hold: -o {output.stem}.onnx")
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


def _only_onnx(pipeline: Any) -> str:
    """Why a pipeline of a table is more than a map of numbers and a model; "" if it is not."""
    steps = getattr(pipeline, "named_steps", {})
    if "read" not in steps:
        return ""
    for name, column in steps["read"].columns_.items():
        if not column.left_out and column.kind != "number":
            return f"column {name!r} is {'a date' if column.kind == 'date' else 'text'}"
    features = steps["features"]
    if features.holes_:
        return f"missing values of column {features.holes_[0]!r} are filled"
    return "" if features.scale_ == "standard" else f"the numbers have the scale {features.scale_!r}"
