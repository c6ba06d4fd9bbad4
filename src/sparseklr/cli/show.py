"""``sparseklr show``: what a model file holds."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from .options import add_command, add_json

EXAMPLES = """\
  sparseklr show model.skops
  sparseklr show model.skops --json"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "show",
        run,
        "Show what a model file holds: how and when the model was fitted, the columns that it takes with "
        "their ranges and categories, and the columns that were left out.",
        EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="file written by sparseklr fit or tune, or by save")
    add_json(parser)


def run(args: Namespace) -> None:
    from .models import load_model
    from .terminal import fit_lines, show_measures, show_table, time_in_words

    found = described(*load_model(args.model))
    if args.json:
        print(json.dumps({"model": args.model, **found}, indent=2))
        return
    given = ", ".join(f"{name}={_short(value)}" for name, value in found["parameters"].items())
    lines = [("Model", f"{found['estimator']}({given})")]
    if found["target"] is not None:
        lines.append(("Target", found["target"]))
    written = time_in_words(found["created"])
    lines.append(("Written", f"{written}, sparseklr {found['versions']['sparseklr']}"))
    show_table(args.model, ("", ""), lines + fit_lines(found))
    if found["columns"] is not None:
        rows = [(one["name"], one["kind"], one["values"]) for one in found["columns"]]
        show_table("Columns", ("name", "kind", "values in training"), rows, justify="left")
    if found.get("test"):
        show_measures(found["test"], "On the rows held out")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def described(pipeline: Any, metadata: dict[str, Any]) -> dict[str, Any]:
    """What is known of a model, whether the command line or Python has saved it."""
    model = pipeline[-1] if hasattr(pipeline, "steps") else pipeline
    reader = getattr(pipeline, "named_steps", {}).get("read")
    training = dict(metadata.get("training") or {})
    training.pop("columns", None)
    defaults = type(model)().get_params(deep=False)
    parameters = {
        name: value if isinstance(value, str | int | float) else str(value)
        for name, value in model.get_params(deep=False).items()
        if value != defaults[name] and name not in ("n_jobs", "verbose")
    }
    return {
        "estimator": type(model).__name__,
        "parameters": parameters,
        "target": metadata.get("target"),
        "created": metadata["created"],
        "versions": metadata["versions"],
        "n_features": int(model.n_features_in_),
        "n_points": len(model.dual_coef_[0]) if hasattr(model, "dual_coef_") else None,
        "classes": pipeline.classes_.tolist(),
        **training,
        "columns": None
        if reader is None
        else [
            {"name": name, "kind": "left out" if column.left_out else column.kind, "values": _values(column)}
            for name, column in reader.columns_.items()
        ],
    }


def _values(column: Any) -> str:
    """The values that a column had in training, in a few words."""
    import pandas as pd

    from .errors import listing

    if column.left_out:
        return str(column.left_out)
    if column.categories is not None:
        return listing(column.categories, most=8)
    if column.low is None:
        return "many"
    if column.kind == "date":
        low, high = (pd.Timestamp(seconds, unit="s") for seconds in (column.low, column.high))
        dated = low == low.normalize() and high == high.normalize()
        return " to ".join(f"{one:%Y-%m-%d}" if dated else f"{one:%Y-%m-%d %H:%M:%S}" for one in (low, high))
    return f"{column.low:.6g} to {column.high:.6g} {column.unit}".rstrip()
