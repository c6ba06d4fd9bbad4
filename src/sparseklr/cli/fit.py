"""``sparseklr fit``: one model."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from .options import add_command, add_training, number, output_of
from .stream import add_stream, is_streamed

EXAMPLES = """\
  sparseklr fit customers.csv --target churned -o model.skops
  sparseklr fit customers.parquet --target churned --id number --drop name --test-size 0.2 -o model.skops
  sparseklr fit customers.csv --target churned --model compact --relevance sparse -o model.skops
  sparseklr fit 'part-*.parquet' --target churned --model compact --memory 1GB --jobs -1 -o model.skops
  sparseklr fit kunden.csv --target bezahlt --sep ';' --decimal , --categorical plz -o model.skops
  sparseklr fit a9a.svm -o a9a.skops --C 1000 --class-weight balanced --jobs -1"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "fit",
        run,
        "Fit a sparse kernel classifier to a file. Numbers, dates and text are found and made into features, "
        "missing values are filled, and columns that identify the rows are left out; what was done is told "
        "and stored with the model.",
        EXAMPLES,
    )
    group = add_training(parser)
    group.add_argument(
        "--model",
        choices=("sparse", "compact"),
        default="sparse",
        help="sparse keeps some of the rows (SparseKLR); compact has a handful of points that are no rows "
        "(CompactKLR) (default: sparse)",
    )
    group.add_argument(
        "--C",
        type=number(above=0),
        help="weight of the loss (default: 10000; of a compact model, chosen on held-out rows)",
    )
    group.add_argument("--lam", type=number(least=0, words=("auto",)), help="margin (default: auto, C / 10)")
    group.add_argument("--nu", type=number(least=0), help="sum of the dual variables, instead of --lam")
    group.add_argument(
        "--gamma",
        type=number(above=0, words=("scale", "auto", "loo")),
        help="width of the kernel: a number, scale, auto, or loo: chosen by leave-one-out (default: scale)",
    )
    group = parser.add_argument_group("compact model")
    group.add_argument(
        "--n-points",
        type=number(least=1, words=("auto",), kind=int),
        help="number of points (default: auto, chosen on held-out rows)",
    )
    group.add_argument(
        "--max-points", type=number(least=1, kind=int), help="most points that auto tries (default: 512)"
    )
    group.add_argument(
        "--relevance",
        choices=("features", "shared", "sparse"),
        help="a width for each feature, one for all, or for each and useless features dropped "
        "(default: features)",
    )
    add_stream(parser)


def run(args: Namespace) -> None:
    from .models import save_model
    from .terminal import say, show_fit
    from .training import make_estimator, shows_progress, train, train_stream

    output, streamed = output_of(args), is_streamed(args)
    model = make_estimator(args, args.model, verbose=shows_progress(args))
    if streamed:
        summary = train_stream(args, model)
        save_model(output, model, None, args, training=summary)
    else:
        pipeline, rows, summary = train(args, model)
        if args.model == "sparse":
            pipeline[-1].compact()
        save_model(output, pipeline, rows, args, training=summary)
    say(args.data, summary["notes"])
    if args.json:
        print(json.dumps({"model": args.output, **summary}, indent=2))
    else:
        show_fit(summary, args.output)
