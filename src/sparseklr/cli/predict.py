"""``sparseklr predict``: classes and their probabilities for new rows."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from .options import add_command, add_format, add_output

EXAMPLES = """\
  sparseklr predict model.skops new.csv -o predictions.csv
  sparseklr predict model.skops new.parquet -o predictions.parquet --force
  sparseklr predict model.skops new.csv | head"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "predict",
        run,
        "Predict the rows of a file. The result has, in the order of the rows, the column predicted and a "
        "column p_CLASS of probabilities for each class. Columns the model does not know are ignored.",
        EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="file written by sparseklr fit or tune")
    parser.add_argument("data", metavar="DATA", help="file with the columns the model was fitted to")
    add_format(parser)
    add_output(
        parser, "CSV (.csv, .tsv) or Parquet file; standard output, as CSV, if left out", required=False
    )


def run(args: Namespace) -> None:
    import pandas as pd

    from .data import read_rows
    from .errors import CliError
    from .files import SUFFIXES, check_output, replacing
    from .models import load_model

    form = "csv"
    if args.output:
        output = check_output(args.output, args.force)
        form = SUFFIXES.get(output.suffix.lower(), "")
        if form not in ("csv", "tsv", "parquet"):
            raise CliError(f"--output {args.output}: expected a name that ends in .csv, .tsv or .parquet")
    pipeline, metadata = load_model(args.model)
    rows = read_rows(args, metadata, with_labels=False)
    prob = pipeline.predict_proba(rows.X)
    columns = {"predicted": pipeline.predict(rows.X)}
    columns |= {f"p_{label}": prob[:, k] for k, label in enumerate(metadata["classes"])}
    result = pd.DataFrame(columns)
    if not args.output:
        result.to_csv(sys.stdout, index=False)
        return
    with replacing(output) as temporary:
        if form == "parquet":
            result.to_parquet(temporary, index=False)
        else:
            result.to_csv(temporary, index=False, sep="\t" if form == "tsv" else ",")
    print(f"{len(result)} predictions written to {args.output}")
