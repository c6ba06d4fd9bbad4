"""``sparseklr fit``: read a file, split off test rows, fit the pipeline, evaluate it and save it."""

from __future__ import annotations

import math
import time
import warnings
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .options import (
    CliError,
    add_command,
    add_model,
    add_training,
    make_estimator,
    print_json,
    shows_progress,
)

if TYPE_CHECKING:
    import numpy as np

    from .reading import Dataset

FIT_EXAMPLES = """\
  sparseklr fit customers.csv --target churned -o model.sklr
  sparseklr fit customers.csv --target churned --gamma auto -o model.sklr
  sparseklr fit customers.parquet --target churned --id number --drop name --test-size 0.2 -o model.sklr
  sparseklr fit customers.csv --target churned --model compact --relevance sparse -o model.sklr
  sparseklr fit 'part-*.parquet' --target churned --model compact --memory 1GB --jobs -1 -o model.sklr
  sparseklr fit kunden.csv --target bezahlt --sep ';' --decimal , --categorical plz -o model.sklr
  sparseklr fit a9a.svm -o a9a.sklr --C 1 --class-weight balanced --jobs -1"""


def add_fit(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "fit",
        run_fit,
        "Fit a sparse kernel classifier to a file. Numbers, dates and text are detected and turned into "
        "features, missing values are imputed, and columns that identify the rows are dropped; every step "
        "is reported and stored with the model.",
        FIT_EXAMPLES,
    )
    add_model(parser, add_training(parser))


def run_fit(args: Namespace) -> None:
    from .files import output_of
    from .model import save_model
    from .stream import fit_stream, is_streamed

    output, streamed = output_of(args), is_streamed(args)
    estimator = make_estimator(args, args.model, verbose=shows_progress(args))
    if streamed:
        n_rows, seconds = fit_stream(args, estimator)
        summary = _summary(estimator, estimator, n_rows, seconds, test=None)
        summary["columns"] = dict.fromkeys(estimator.feature_names_in_.tolist(), "number")
        save_model(output, estimator, None, args, training=summary)
    else:
        pipeline, rows, summary = train(args, estimator)
        if args.model == "sparse":
            pipeline[-1].keep_prediction_only()
        save_model(output, pipeline, rows, args, training=summary)
    _report(args, summary)


def _report(args: Namespace, summary: dict[str, Any]) -> None:
    from .terminal import print_notes, show_fit, show_search

    print_notes(args.data, summary["notes"])
    if args.json:
        print_json(model=args.output, **summary)
        return
    if len(summary["search"]["log_loss"]) > 1:
        show_search(summary["search"], stderr=args.output == "-")
    show_fit(summary, args.output)


# -- training ---------------------------------------------------------------------------------


def train(args: Namespace, estimator: Any) -> tuple[Any, Dataset, dict[str, Any]]:
    """The fitted pipeline, its training rows, and a summary."""
    from ..tables.cells import TableError, TableWarning
    from .model import Model
    from .reading import read_training

    rows = read_training(args)
    assert rows.y is not None
    kept, test_indices = _split(args, rows.name, rows.y)
    part = rows.take(kept)
    pipeline = _make_pipeline(estimator, rows, args)
    steps = () if part.weight is None else ("model",) if rows.table is None else ("features", "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # the summary lists them
        start = time.perf_counter()
        try:
            pipeline.fit(part.X, part.y, **{f"{step}__sample_weight": part.weight for step in steps})
        except TableError as error:
            raise CliError(f"{rows.name}: {error}") from error
        seconds = time.perf_counter() - start
        test = None
        if len(test_indices):
            model, test_rows = Model("", pipeline, {}), rows.take(test_indices)
            X = test_rows.X if model.reader is None else model.reader.transform(test_rows.X)
            test = model.measure(replace(test_rows, X=X))
    summary = _summary(pipeline, pipeline[-1], len(kept), seconds, test)
    if rows.table is not None:
        reader = pipeline["read"]
        columns = {name: column.kind for name, column in reader.columns_.items() if not column.left_out}
        summary |= {
            "columns": columns,
            "data": rows.table.facts,
            "notes": [str(rows.table), *rows.table.notes, *reader.report_],
        }
    return pipeline, part, summary


def _make_pipeline(estimator: Any, rows: Dataset, args: Namespace) -> Any:
    """The estimator with its preprocessing; for tables, :func:`tabular_pipeline`."""
    from sklearn.pipeline import Pipeline

    from ..tables.pipeline import tabular_pipeline

    if rows.table is None:  # the estimator scales sparse rows
        return Pipeline([("model", estimator)])
    # The reader detects the decimal sign of new data too. A decimal comma that only the separator suggests
    # must be passed on.
    suggested = "," if rows.table.decimal is None and rows.table.facts.get("decimal") == "," else "auto"
    return tabular_pipeline(
        estimator,
        categorical=args.categorical,
        number=args.number,
        date=args.date,
        drop=[*args.drop, *args.id],
        na=args.na,
        decimal=args.decimal or suggested,
    )


def _split(args: Namespace, name: str, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows, with the same class fractions."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    if not args.test_size:
        return np.arange(len(y)), np.arange(0)
    what = f"{name}: --test-size {args.test_size:g}"
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        single = classes[counts.argmin()]
        raise CliError(f"{what}: class {single} has 1 row; expected at least one row to fit and one to test")
    n_test = math.ceil(args.test_size * len(y))
    for n, purpose in ((n_test, "to test"), (len(y) - n_test, "to fit")):
        if n < len(classes):
            raise CliError(
                f"{what} leaves {n} of {len(y)} rows {purpose}; expected at least one for each of "
                f"{len(classes)} classes"
            )
    kept, test = train_test_split(
        np.arange(len(y)), test_size=args.test_size, stratify=y, random_state=args.seed
    )
    if len(absent := np.setdiff1d(y, y[kept])):
        n_rows = (y == absent[0]).sum()
        raise CliError(f"{what} leaves no row of class {absent[0]} to fit; it has {n_rows} rows")
    return kept, test


def _summary(fitted: Any, model: Any, n_rows: int, seconds: float, test: Any) -> dict[str, Any]:
    """Size and quality of a model, from its fitted attributes."""
    from ..compact_klr import CompactKLR

    summary = {
        "n_rows": n_rows,
        "n_features": model.n_features_in_,
        "classes": fitted.classes_.tolist(),
        "estimator": type(model).__name__,
    }
    if isinstance(model, CompactKLR):
        summary |= {
            "n_points": model.n_points_,
            "points_fraction": model.n_points_ / n_rows,
            "n_features_used": int(model.get_support().sum()),
            "validation_log_loss": model.validation_log_loss_,
            "gradient_norm": model.gradient_norm_,
        }
    else:
        validated = model.validation_log_loss_
        summary |= {
            "n_points": len(model.support_),
            "points_fraction": len(model.support_) / n_rows,
            # the leave-one-out loss is optimistic, because it was minimised over the kernels
            "loo_log_loss": model.loo_log_loss_ if validated is None else None,
            "validation_log_loss": validated,
            "dual_gap": model.dual_gap_,
            "converged": model.converged_,
        }
    return summary | {
        "search": {name: column.tolist() for name, column in model.search_results_.items()},
        "seconds": seconds,
        "test": test,
        "columns": None,
        "data": None,
        "notes": [],
    }
