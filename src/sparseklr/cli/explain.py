"""``sparseklr explain``: the training rows that speak for and against a prediction."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from .options import add_command, add_json, add_reading, number

EXAMPLES = """\
  sparseklr explain model.skops new.csv --row 5
  sparseklr explain model.skops new.csv --row 5 9 --points 8 --by contribution
  sparseklr explain model.skops new.csv --row 5 --class yes --json"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "explain",
        run,
        "Show a row beside the training rows that the model keeps and that are most similar to it, with what "
        "each of them adds to the log-odds of a class. All contributions and the intercept add up to the "
        "log-odds that the probability is made of.",
        EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="file written by sparseklr fit or tune")
    parser.add_argument("data", metavar="DATA", help="file with the rows to explain; - is standard input")
    parser.add_argument(
        "--row",
        metavar="N",
        type=number(least=1, kind=int),
        nargs="+",
        default=[1],
        help="rows to explain, counted from 1 (default: 1)",
    )
    parser.add_argument("--class", metavar="LABEL", dest="label", help="the class; else the predicted one")
    parser.add_argument(
        "--points",
        metavar="N",
        type=number(least=1, kind=int),
        default=5,
        help="kept rows to show (default: 5)",
    )
    parser.add_argument(
        "--by",
        choices=("similarity", "contribution"),
        default="similarity",
        help="show the most similar of them, or those that contribute most (default: similarity)",
    )
    add_reading(parser)
    add_json(parser)


def run(args: Namespace) -> None:
    from .data import read_rows
    from .errors import CliError
    from .models import load_model
    from .terminal import say, show_explanation

    if args.model == "-" and args.data == "-":
        raise CliError("MODEL and DATA cannot both be standard input")
    pipeline, metadata = load_model(args.model)
    if not hasattr(pipeline[-1] if hasattr(pipeline, "steps") else pipeline, "explain"):
        raise CliError(f"{args.model}: the model is of a kind that cannot be explained by points")
    label = _label(args.label, pipeline.classes_.tolist())
    rows, notes = read_rows(args, pipeline, metadata, with_labels=False)
    n_rows = rows.X.shape[0]
    if beyond := [row for row in args.row if row > n_rows]:
        raise CliError(f"--row {beyond[0]}: {args.data} has {n_rows} rows")
    found = [explained(pipeline, metadata, rows, row - 1, label, args.points, args.by) for row in args.row]
    say(args.data, notes)
    if args.json:
        print(json.dumps({"model": args.model, "data": args.data, "rows": found}, indent=2))
    else:
        for one in found:
            show_explanation(one)


def explained(
    pipeline: Any, metadata: dict[str, Any], rows: Any, row: int, label: Any, n_points: int, by: str
) -> dict[str, Any]:
    """Why a row gets its probability of a class: the kept rows beside it, and what each contributes."""
    import numpy as np

    from .models import cells_of
    from .training import take
    from .unfamiliar import naming_large_cells, unfamiliar

    one = take(rows, np.array([row]))
    model, features = pipeline, one.X
    if hasattr(pipeline, "steps"):
        model, features = pipeline[-1], pipeline[:-1].transform(one.X)
    with naming_large_cells(pipeline, one):
        explanation = model.explain(features)
    of_row = explanation.of_row(0, label)
    shown = of_row.nearest(n_points) if by == "similarity" else of_row.strongest(n_points)
    code = pipeline.classes_.tolist().index(of_row.label)
    others = np.delete(of_row.contributions, shown)
    kept = metadata.get("points") or {}
    cells = None
    if rows.table is not None and "cells" in kept:
        names = list(kept["cells"])
        cells = {name: values[0] for name, values in cells_of(rows.table.frame.iloc[[row]][names]).items()}
    return {
        "row": row + 1,
        "class": of_row.label.item() if hasattr(of_row.label, "item") else of_row.label,
        "probability": float(pipeline.predict_proba(one.X)[0, code]),
        "unfamiliar": unfamiliar(pipeline, one)[0],
        "log_odds": of_row.log_odds,
        "intercept": of_row.intercept,
        "cells": cells,
        "points": [
            {
                "row": _of_point(kept.get("rows"), k),
                "class": _of_point(kept.get("classes"), k),
                "contribution": float(of_row.contributions[k]),
                "distance": None if of_row.distance is None else float(of_row.distance[k]),
                "cells": {name: values[k] for name, values in kept["cells"].items()} if cells else None,
            }
            for k in shown
        ],
        "others": {
            "n_points": len(others),
            "for": float(others[others > 0].sum()),
            "against": float(others[others < 0].sum()),
        },
    }


def _of_point(values: Any, k: int) -> Any:
    return None if values is None else values[k]


def _label(given: str | None, classes: list[Any]) -> Any:
    """The class that an option names."""
    from .errors import unknown

    if given is None:
        return None
    by_name = {str(label): label for label in classes}
    if given not in by_name:
        raise unknown("--class: there is no class", given, by_name, "classes")
    return by_name[given]
