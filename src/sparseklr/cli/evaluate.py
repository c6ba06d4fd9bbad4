"""``sparseklr evaluate``: how good a model is on rows with known classes."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from .options import add_command, add_data, add_json

EXAMPLES = """\
  sparseklr evaluate model.skops test.csv
  sparseklr evaluate model.skops test.csv --target outcome
  sparseklr evaluate model.skops test.csv --json > test.json"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "evaluate",
        run,
        "Measure a model on rows it was not fitted to: accuracy, ROC AUC, log-loss, Brier score, calibration "
        "error, confusion matrix.",
        EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="file written by sparseklr fit or tune")
    add_data(parser, "column of the classes, if not the one the model was fitted to")
    add_json(parser)


def run(args: Namespace) -> None:
    from .data import read_rows
    from .measures import measure
    from .models import load_model
    from .stream import predicts_in_blocks
    from .stream_measures import measured
    from .terminal import say, show_measures

    pipeline, metadata = load_model(args.model)
    target = args.target or metadata.get("target")
    if target is not None and predicts_in_blocks(args, pipeline):
        found, notes = measured(args, pipeline, target)
    else:
        rows, notes = read_rows(args, pipeline, metadata, with_labels=True)
        found = measure(pipeline, rows)
    say(args.data, notes)
    if args.json:
        print(json.dumps({"model": args.model, "data": args.data, **found}, indent=2))
    else:
        show_measures(found, f"{args.model} on {args.data}")
