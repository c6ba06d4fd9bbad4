"""``sparseklr fit``: one model."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from .options import add_command, add_training, number, output_of

EXAMPLES = """\
  sparseklr fit customers.csv --target churned -o model.skops
  sparseklr fit customers.parquet --target churned --id number --drop name --test-size 0.2 -o model.skops
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
    group.add_argument("--C", type=number(above=0), default=1e4, help="weight of the loss (default: 10000)")
    group.add_argument(
        "--lam", type=number(least=0, words=("auto",)), default="auto", help="margin (default: auto, C / 10)"
    )
    group.add_argument("--nu", type=number(least=0), help="sum of the dual variables, instead of --lam")
    group.add_argument(
        "--gamma",
        type=number(above=0, words=("scale", "auto", "loo")),
        default="scale",
        help="width of the kernel: a number, scale, auto, or loo: chosen by leave-one-out (default: scale)",
    )


def run(args: Namespace) -> None:
    from .models import save_model
    from .show import say, show_fit
    from .training import make_estimator, shows_progress, train

    output = output_of(args)
    estimator = make_estimator(
        args, C=args.C, lam=args.lam, nu=args.nu, gamma=args.gamma, verbose=shows_progress(args)
    )
    pipeline, rows, summary = train(args, estimator)
    pipeline[-1].compact()
    save_model(output, pipeline, rows, args, training=summary)
    say(args.data, summary["notes"])
    if args.json:
        print(json.dumps({"model": args.output, **summary}, indent=2))
    else:
        show_fit(summary, args.output)
