"""``sparseklr fit``: read a file, set test rows aside, fit a pipeline, evaluate it on them, and save it."""

from __future__ import annotations

import math
import time
import warnings
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._utils.messages import listing
from .options import (
    CliError,
    add_command,
    add_model,
    add_training,
    make_estimator,
    model_of_options,
    print_json,
    shows_progress,
)

if TYPE_CHECKING:
    import numpy as np

    from .reading import Dataset

FIT_EXAMPLES = """\
  sparseklr fit customers.csv --target churned
  sparseklr fit customers.csv --target churned --model sparse --gamma auto -o model.sklr
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
        "Fit a classifier to a file. Numbers, dates and text are detected and turned into features, missing "
        "values are imputed, and columns that identify the rows are dropped. Every step is reported before "
        "the fit and stored with the model. Without --model, four models are compared on validation rows: a "
        "constant prediction of the class fractions, a logistic regression, CompactKLR and SparseKLR. The "
        "smallest model whose log-loss is within one standard error of the lowest is fitted to all rows.",
        FIT_EXAMPLES,
    )
    add_model(parser, add_training(parser))


def run_fit(args: Namespace) -> None:
    from .files import output_of
    from .model import save_model
    from .stream import fit_stream, is_streamed

    output, streamed = output_of(args), is_streamed(args)
    given = model_of_options(args)
    if streamed:
        estimator = make_estimator(args, "compact", verbose=shows_progress(args))
        n_rows, seconds = fit_stream(args, estimator)
        summary = _summary(estimator, estimator, n_rows, seconds)
        summary["columns"] = dict.fromkeys(estimator.feature_names_in_.tolist(), "number")
        save_model(output, estimator, None, args, training=summary)
    else:
        pipeline, rows, summary, more = train(args, given)
        if hasattr(pipeline[-1], "keep_prediction_only"):
            pipeline[-1].keep_prediction_only()
        save_model(output, pipeline, rows, args, training=summary, **more)
    _report(args, summary)


def _report(args: Namespace, summary: dict[str, Any]) -> None:
    from .terminal import show_fit, show_search

    if args.json:
        print_json(model=args.output, **summary)
        return
    if summary["comparison"] is None and len(summary["search"].get("log_loss", ())) > 1:
        show_search(summary["search"], stderr=args.output == "-")
    show_fit(summary, args.output)


# -- training ---------------------------------------------------------------------------------


def train(args: Namespace, given: str | None) -> tuple[Any, Dataset, dict[str, Any], dict[str, Any]]:
    """Return the fitted pipeline, its training rows, a summary of the fit, and further metadata.

    ``given`` is the name of the model to fit. If it is None, all models are compared, and the smallest one
    whose log-loss is within one standard error of the lowest is fitted.
    """
    from sklearn.pipeline import Pipeline

    from ..tables.cells import TableError, TableWarning
    from .compare import fit_candidate
    from .model import Model
    from .reading import read_training
    from .terminal import kinds_in_words, print_notes

    rows = read_training(args)
    assert rows.y is not None
    kept, test_indices = _split(args, rows.name, rows.y)
    part, verbose = rows.take(kept), shows_progress(args)
    assert part.y is not None
    comparison, reading, metadata = None, {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # these warnings are printed as notes
        if rows.table is None:  # an svmlight file, whose sparse rows the estimator scales itself
            start, name = time.perf_counter(), given or "sparse"
            fitted = fit_candidate(args, name, part.X, part.y, part.weight, verbose=verbose)
            pipeline: Any = Pipeline([("model", fitted)])
        else:
            pipeline = _make_pipeline(rows, args)
            reader, features = pipeline["read"], pipeline["features"]
            try:
                columns = reader.fit_transform(part.X, part.y)
            except TableError as error:
                raise CliError(f"{rows.name}: {error}") from error
            kinds = {name: column.kind for name, column in reader.columns_.items() if not column.left_out}
            used = f"columns used: {kinds_in_words(kinds.values())}"
            if text := [name for name in kinds if str(reader.columns_[name]) == "free text"]:
                used += f" (free text: {listing(text)})"
            notes = [str(rows.table), *rows.table.notes, used, *reader.report_]
            print_notes(args.data, notes)
            reading = {"columns": kinds, "data": rows.table.facts, "notes": notes}
            name, found = given or "sparse", None
            if given is None and (found := _compared(args, replace(part, X=columns))):
                name, comparison = found.chosen().model, found.summary()
            start = time.perf_counter()
            X = features.fit_transform(columns, part.y, sample_weight=part.weight)
            fitted = fit_candidate(args, name, X, part.y, part.weight, verbose=verbose)
            pipeline = type(pipeline)([*pipeline.steps[:-1], ("model", fitted)])
            if name in ("linear", "fractions"):  # kernel models store equivalent data themselves
                metadata["mean_features"] = X.mean(axis=0)
                metadata["held_out"] = found.held_out() if found else None
        seconds = time.perf_counter() - start
        test = None
        if len(test_indices):
            model, test_rows = Model("", pipeline, {}), rows.take(test_indices)
            X = test_rows.X if model.reader is None else model.reader.transform(test_rows.X)
            test = model.measure(replace(test_rows, X=X))
    summary = _summary(pipeline, pipeline[-1], len(kept), seconds)
    return pipeline, part, summary | {"comparison": comparison, "test": test} | reading, metadata


def _compared(args: Namespace, rows: Dataset) -> Any:
    """Compare all models, print the comparison and return it; return None if there are too few rows."""
    import numpy as np

    from .compare import SETTINGS, compare, rare_classes
    from .terminal import print_notes, show_comparison

    if rows.weight is not None:
        rows = rows.take(np.flatnonzero(rows.weight > 0))
    rare = rare_classes(rows)
    if rare or len(rows) < SETTINGS.min_rows:
        needed = f"at least {SETTINGS.min_rows} in total and {SETTINGS.n_folds} of each class are needed"
        few = f"too few rows{f' of class {listing(rare)}' if rare else ''} to compare models"
        print_notes(args.data, [f"{few} ({needed}); SparseKLR is fitted"])
        return None
    found = compare(args, rows, bool(shows_progress(args)))
    if not args.json:
        show_comparison(found.summary(), stderr=args.output == "-")
    return found


def _make_pipeline(rows: Dataset, args: Namespace) -> Any:
    """Return an unfitted :func:`~sparseklr.tabular_pipeline` with the column options of the command line."""
    from ..tables.pipeline import tabular_pipeline

    assert rows.table is not None
    # With "auto", the reader detects the decimal sign, and does so again in new data. It does not receive the
    # separator, so a decimal comma that was inferred from the separator must be passed on.
    suggested = "," if rows.table.decimal is None and rows.table.facts.get("decimal") == "," else "auto"
    return tabular_pipeline(
        categorical=args.categorical,
        number=args.number,
        date=args.date,
        drop=[*args.drop, *args.id],
        na=args.na,
        decimal=args.decimal or suggested,
    )


def _split(args: Namespace, name: str, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the training rows and the test rows, which have the same class fractions."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    if not args.test_size:
        return np.arange(len(y)), np.arange(0)
    what = f"{name}: --test-size {args.test_size:g}"
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        single = classes[counts.argmin()]
        raise CliError(
            f"{what}: class {single} has only one row; expected at least one training row and one test row"
        )
    n_test = math.ceil(args.test_size * len(y))
    for n, purpose in ((n_test, "test"), (len(y) - n_test, "training")):
        if n < len(classes):
            raise CliError(
                f"{what}: only {n} of {len(y)} rows would be {purpose} rows; expected at least one for each "
                f"of the {len(classes)} classes"
            )
    kept, test = train_test_split(
        np.arange(len(y)), test_size=args.test_size, stratify=y, random_state=args.seed
    )
    if len(absent := np.setdiff1d(y, y[kept])):
        n_rows = (y == absent[0]).sum()
        raise CliError(
            f"{what}: all {n_rows} rows of class {absent[0]} would be test rows, and none a training row; "
            "reduce --test-size"
        )
    return kept, test


def _summary(fitted: Any, model: Any, n_rows: int, seconds: float) -> dict[str, Any]:
    """Return the size of a model and measures of its fit as a dictionary.

    ``fitted`` is the whole pipeline, and ``model`` is its last step.
    """
    from .compare import n_points

    points, validated = n_points(model), getattr(model, "validation_log_loss_", None)
    found = {
        "dual_gap": getattr(model, "dual_gap_", None),
        "converged": getattr(model, "converged_", None),
        "gradient_norm": getattr(model, "gradient_norm_", None),
        # If a kernel was chosen by the leave-one-out loss, that loss is optimistic; a validation loss is not.
        "loo_log_loss": getattr(model, "loo_log_loss_", None) if validated is None else None,
        "validation_log_loss": validated,
        "n_features_used": int(model.get_support().sum()) if hasattr(model, "get_support") else None,
    }
    return {
        "n_rows": n_rows,
        "n_features": model.n_features_in_,
        "classes": fitted.classes_.tolist(),
        "estimator": type(model).__name__,
        "n_points": points,
        "points_fraction": None if points is None else points / n_rows,
        **{name: value for name, value in found.items() if value is not None},
        "search": {name: column.tolist() for name, column in getattr(model, "search_results_", {}).items()},
        "seconds": seconds,
        "comparison": None,
        "test": None,
        "columns": None,
        "data": None,
        "notes": [],
    }
