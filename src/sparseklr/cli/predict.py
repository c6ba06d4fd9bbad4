"""``sparseklr predict``, ``evaluate`` and ``explain``, which apply a model to the rows of a file."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from .options import (
    MODEL_HELP,
    CliError,
    add_command,
    add_data,
    add_json,
    add_output,
    add_reading,
    fraction,
    number,
    print_json,
    unknown,
)

WRITTEN = ("csv", "tsv", "parquet")

PREDICT_EXAMPLES = """\
  sparseklr predict model.sklr new.csv -o predictions.csv --id number
  sparseklr predict model.sklr new.parquet -o predictions.parquet --keep --force
  sparseklr predict model.sklr new.csv --set 0.9  # sets of classes that contain the true class in 90% of rows
  sparseklr predict model.sklr 'new-*.parquet' -o predictions.parquet
  zcat new.csv.gz | sparseklr predict model.sklr - | head"""

EVALUATE_EXAMPLES = """\
  sparseklr evaluate model.sklr test.csv
  sparseklr evaluate model.sklr test.csv --target outcome
  sparseklr evaluate model.sklr test.csv --json > test.json"""

EXPLAIN_EXAMPLES = """\
  sparseklr explain model.sklr new.csv --row 5    # the contribution of each column
  sparseklr explain model.sklr new.csv --row 5 9 --points 8 --by contribution
  sparseklr explain model.sklr new.csv --row 5 --class yes --json"""


def _check_standard_input(args: Namespace) -> None:
    if args.model == "-" and args.data == "-":
        raise CliError("MODEL and DATA cannot both be standard input")


# -- predict ----------------------------------------------------------------------------------


def add_predict(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "predict",
        run_predict,
        "Predict the classes of the rows in a file. The result has one row for each row of the file, in the "
        "same order. Its columns are predicted, the predicted class, and p_CLASS, the probability of "
        "each class. Columns of the file that the model does not use are ignored.",
        PREDICT_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "data",
        metavar="DATA",
        help="file with the columns to which the model was fitted; - means standard input",
    )
    parser.add_argument(
        "--id",
        metavar="COL",
        nargs="*",
        help="copy these columns of DATA to the result; --id without names copies the columns that "
        "identified the training rows",
    )
    parser.add_argument("--keep", action="store_true", help="copy all columns of DATA to the result")
    parser.add_argument(
        "--flag",
        action="store_true",
        help="add a column unfamiliar with the reasons why a row is unlike the training rows (empty for "
        "other rows); DATA may then lack some columns of the model",
    )
    parser.add_argument(
        "--set",
        metavar="COVERAGE",
        type=fraction,
        help="add a column set with a prediction set: classes, separated by |, that include the true class "
        "with this probability, such as 0.9; if the accuracy is higher, the least certain sets are empty",
    )
    add_reading(parser)
    add_output(parser, "CSV (.csv, .tsv) or Parquet file (default: standard output)", required=False)
    parser.add_argument(
        "--output-format",
        choices=WRITTEN,
        help="format of the result (default: determined by the suffix of FILE; CSV on standard output)",
    )


def run_predict(args: Namespace) -> None:
    import numpy as np

    from .files import check_output
    from .model import Model, unfamiliar_note
    from .reading import read_for_model
    from .stream import predicts_in_blocks, write_predictions
    from .terminal import print_notes

    output = check_output(args.output or "-", args.force)
    form = _output_format(args, output)
    _check_standard_input(args)
    model = Model.load(args.model)
    if predicts_in_blocks(args, model):
        n_rows = write_predictions(args, model, output, form)
    else:
        rows, notes = read_for_model(args, model, with_labels=False, fill=args.flag)
        prob, predicted, reasons = model.predict_proba(rows), model.predict(rows), model.unfamiliar(rows)
        columns = {"predicted": predicted} | {
            f"p_{label}": p for label, p in zip(model.classes, prob.T, strict=True)
        }
        if args.set is not None:
            inside = model.predict_p_values(rows) > 1 - args.set
            columns["set"] = ["|".join(str(model.classes[k]) for k in np.flatnonzero(row)) for row in inside]
        columns |= {"unfamiliar": reasons} if args.flag else {}
        _write_table(args, model, rows, columns, output, form)
        print_notes(args.data, notes + unfamiliar_note(reasons, args.flag))
        n_rows = len(rows)
    if output.name != "-":
        print(f"{n_rows} predictions written to {args.output}")


def _output_format(args: Namespace, output: Path) -> str:
    from .reading import SUFFIXES

    form: str = args.output_format or ("csv" if output.name == "-" or output.is_fifo() else "")
    form = form or SUFFIXES.get(output.suffix.lower(), "")
    if form not in WRITTEN:
        raise CliError(f"--output {args.output}: expected a name ending in .csv, .tsv or .parquet")
    return form


def _write_table(
    args: Namespace, model: Any, rows: Any, columns: dict[str, Any], output: Path, form: str
) -> None:
    """Write the predictions, preceded by the columns of DATA that --keep or --id selects."""
    import pandas as pd

    from .files import writing

    result = pd.DataFrame(columns)
    if (args.keep or args.id is not None) and rows.table is None:
        raise CliError(f"--{'keep' if args.keep else 'id'}: svmlight files do not have named columns")
    if rows.table is not None:
        frame = rows.table.frame
        kept = list(frame.columns) if args.keep else _identifiers(args, model, list(frame.columns))
        if twice := [name for name in kept if name in result.columns]:
            raise CliError(
                f"{args.data}: column {twice[0]!r} has the same name as an output column; rename it"
            )
        result = pd.concat([frame[kept].reset_index(drop=True), result], axis=1)
    with writing(output) as temporary:
        if form == "parquet":
            result.to_parquet(temporary, index=False)
        else:
            result.to_csv(temporary, index=False, sep="\t" if form == "tsv" else ",")


def _identifiers(args: Namespace, model: Any, names: list[str]) -> list[str]:
    """Return the columns given by --id or, if --id has no names, those that identified the training rows."""
    if args.id is None:
        return []
    for name in args.id:
        if name not in names:
            raise unknown("--id: there is no column", name, names, "columns")
    if args.id:
        return list(dict.fromkeys(args.id))
    columns = {} if model.reader is None else model.reader.columns_
    learned = [name for name, column in columns.items() if column.identifies]
    known = [name for name in dict.fromkeys([*model.metadata.get("id", []), *learned]) if name in names]
    if not known:
        raise CliError(
            f"--id: no column identified the training rows; give the names of columns: {', '.join(names)}"
        )
    return known


# -- evaluate ---------------------------------------------------------------------------------


def add_evaluate(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "evaluate",
        run_evaluate,
        "Evaluate a model on rows to which it was not fitted: accuracy, ROC AUC, log-loss, Brier score, "
        "calibration error and confusion matrix.",
        EVALUATE_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    add_data(parser, "column that contains the classes (default: the same name as in the training data)")
    add_json(parser)


def run_evaluate(args: Namespace) -> None:
    from .model import Model
    from .reading import read_for_model
    from .stream import measure_stream, predicts_in_blocks
    from .terminal import print_notes, show_measures

    model = Model.load(args.model)
    target = args.target or model.target
    if target is not None and predicts_in_blocks(args, model):
        measures = measure_stream(args, model, target)
    else:
        rows, notes = read_for_model(args, model, with_labels=True)
        measures = model.measure(rows)
        print_notes(args.data, notes)
    if args.json:
        print_json(model=args.model, data=args.data, **measures)
    else:
        show_measures(measures, f"{args.model} on {args.data}")


# -- explain ----------------------------------------------------------------------------------


def add_explain(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "explain",
        run_explain,
        "Show how much each column contributes to the predicted log-odds of a class, and compare the row "
        "with the most similar training rows that the model keeps. The contributions of the columns are "
        "Shapley values: they sum to the difference between the log-odds of the row and the mean log-odds of "
        "the training rows.",
        EXPLAIN_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument("data", metavar="DATA", help="file with the rows to explain; - means standard input")
    positive = number(least=1, kind=int)
    parser.add_argument(
        "--row",
        metavar="N",
        type=positive,
        nargs="+",
        default=[1],
        help="numbers of the rows to explain, counted from 1 (default: 1)",
    )
    parser.add_argument(
        "--class", metavar="LABEL", dest="label", help="class to explain (default: the predicted class)"
    )
    parser.add_argument(
        "--points",
        metavar="N",
        type=positive,
        default=5,
        help="number of training rows to show (default: 5)",
    )
    parser.add_argument(
        "--by",
        choices=("similarity", "contribution"),
        default="similarity",
        help="show the most similar training rows, or those that contribute most (default: similarity)",
    )
    add_reading(parser)
    add_json(parser)


def run_explain(args: Namespace) -> None:
    from .model import Model
    from .reading import read_for_model
    from .terminal import print_notes, show_explanation

    _check_standard_input(args)
    model = Model.load(args.model)
    if not hasattr(model.estimator, "explain") and not model.is_linear:
        raise CliError(f"{args.model}: explanations are not available for {type(model.estimator).__name__}")
    labels = {str(label): label for label in model.classes}
    if args.label is not None and args.label not in labels:
        raise unknown("--class: there is no class", args.label, labels, "classes")
    rows, notes = read_for_model(args, model, with_labels=False)
    if beyond := [row for row in args.row if row > len(rows)]:
        raise CliError(f"--row {beyond[0]}: {args.data} has only {len(rows)} rows")
    label = labels.get(args.label)
    explanations = [model.explain(rows, row - 1, label, args.points, args.by) for row in args.row]
    print_notes(args.data, notes)
    if args.json:
        print_json(model=args.model, data=args.data, rows=explanations)
    else:
        for explanation in explanations:
            show_explanation(explanation)
