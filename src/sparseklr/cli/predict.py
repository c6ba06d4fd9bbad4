"""``sparseklr predict``: classes and their probabilities for new rows."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from .options import add_command, add_output, add_reading

EXAMPLES = """\
  sparseklr predict model.skops new.csv -o predictions.csv --id number
  sparseklr predict model.skops new.parquet -o predictions.parquet --keep --force
  sparseklr predict model.skops 'new-*.parquet' -o predictions.parquet
  zcat new.csv.gz | sparseklr predict model.skops - | head"""
WRITTEN = ("csv", "tsv", "parquet")


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
    parser.add_argument(
        "data", metavar="DATA", help="file with the columns the model was fitted to; - is standard input"
    )
    parser.add_argument(
        "--id",
        metavar="COL",
        nargs="*",
        help="write these columns of DATA before the predictions; without names, those that identify the "
        "rows of the training data",
    )
    parser.add_argument(
        "--keep", action="store_true", help="write all columns of DATA before the predictions"
    )
    parser.add_argument(
        "--flag",
        action="store_true",
        help="write a column unfamiliar: why a row is unlike the training rows, empty if it is not. Columns "
        "of the model may then be missing",
    )
    add_reading(parser)
    add_output(
        parser,
        "CSV (.csv, .tsv) or Parquet file; standard output if left out or -",
        required=False,
    )
    parser.add_argument(
        "--output-format", choices=WRITTEN, help="format of the result; by default its suffix tells, or CSV"
    )


def run(args: Namespace) -> None:
    import pandas as pd

    from .data import read_rows
    from .errors import CliError
    from .files import SUFFIXES, check_output, writing
    from .models import load_model
    from .stream import predicts_in_blocks, write_predictions
    from .terminal import say
    from .unfamiliar import naming_large_cells, summary, unfamiliar

    output = check_output(args.output or "-", args.force)
    form = args.output_format or ("csv" if output.name == "-" or output.is_fifo() else "")
    form = form or SUFFIXES.get(output.suffix.lower(), "")
    if form not in WRITTEN:
        raise CliError(f"--output {args.output}: expected a name that ends in .csv, .tsv or .parquet")
    if args.model == "-" and args.data == "-":
        raise CliError("MODEL and DATA cannot both be standard input")
    pipeline, metadata = load_model(args.model)
    if predicts_in_blocks(args, pipeline):
        n_rows = write_predictions(args, pipeline, output, form)
        if output.name != "-":
            print(f"{n_rows} predictions written to {args.output}")
        return
    rows, notes = read_rows(args, pipeline, metadata, with_labels=False, fill=args.flag)
    with naming_large_cells(pipeline, rows):
        prob = pipeline.predict_proba(rows.X)
    made = {"predicted": pipeline.predict(rows.X)}
    made |= {f"p_{label}": prob[:, k] for k, label in enumerate(pipeline.classes_)}
    reasons = unfamiliar(pipeline, rows)
    result = pd.DataFrame(made | ({"unfamiliar": reasons} if args.flag else {}))
    if (args.keep or args.id is not None) and rows.table is None:
        raise CliError(f"--{'keep' if args.keep else 'id'}: not for svmlight files, which have no columns")
    if rows.table is not None:
        frame = rows.table.frame
        kept = (
            list(frame.columns) if args.keep else _identifiers(args, pipeline, metadata, list(frame.columns))
        )
        if twice := [name for name in kept if name in result.columns]:
            raise CliError(
                f"{args.data}: column {twice[0]!r} has the name of a column of the result; rename it"
            )
        result = pd.concat([frame[kept].reset_index(drop=True), result], axis=1)
    with writing(output) as temporary:
        if form == "parquet":
            result.to_parquet(temporary, index=False)
        else:
            result.to_csv(temporary, index=False, sep="\t" if form == "tsv" else ",")
    say(args.data, notes + summary(reasons, args.flag))
    if output.name != "-":
        print(f"{len(result)} predictions written to {args.output}")


def _identifiers(args: Namespace, pipeline: Any, metadata: dict[str, Any], names: list[str]) -> list[str]:
    """The columns that --id asks for."""
    from .errors import CliError, unknown

    if args.id is None:
        return []
    for name in args.id:
        if name not in names:
            raise unknown("--id: there is no column", name, names, "columns")
    if args.id:
        return list(dict.fromkeys(args.id))
    reader = getattr(pipeline, "named_steps", {}).get("read")
    learned = (
        [] if reader is None else [name for name, column in reader.columns_.items() if column.identifies]
    )
    known = [name for name in dict.fromkeys([*metadata.get("id", []), *learned]) if name in names]
    if not known:
        raise CliError(
            f"--id: no column identified the rows in training; name them. The columns: {', '.join(names)}"
        )
    return known
