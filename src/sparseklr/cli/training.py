"""What fit and tune do alike: read, hold out rows, fit the pipeline, measure."""

from __future__ import annotations

import math
import sys
import time
import warnings
from argparse import Namespace
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from ..estimators.compact_klr import CompactKLR
from ..estimators.sparse_klr import SparseKLR
from ..tabular.cells import TableError, TableWarning
from .data import Rows, read_training, told
from .errors import CliError
from .files import source_name
from .measures import measure
from .models import make_pipeline
from .stream import fit_stream

# Options of the command line that are parameters of one estimator; what is not given has its default.
PARAMETERS = {
    "sparse": ("kernel", "degree", "calibration", "C", "lam", "nu", "gamma"),
    "compact": ("C", "n_points", "max_points", "relevance"),
}


def make_estimator(args: Namespace, model: str = "sparse", **more: Any) -> SparseKLR | CompactKLR:
    """A SparseKLR or CompactKLR with the options that were given."""
    known = dict.fromkeys(name for names in PARAMETERS.values() for name in names)
    given = {name: getattr(args, name) for name in known if getattr(args, name, None) is not None}
    for name in given:
        if name not in PARAMETERS[model]:
            raise CliError(f"--{name.replace('_', '-')}: not an option of --model {model}")
    if given.get("calibration") == "none":
        given["calibration"] = None
    kind = {"sparse": SparseKLR, "compact": CompactKLR}[model]
    return kind(class_weight=args.class_weight, random_state=args.seed, n_jobs=args.jobs, **given, **more)


def shows_progress(args: Namespace) -> int:
    """``verbose`` of an estimator."""
    return int(sys.stderr.isatty() if args.verbose is None else args.verbose)


def train(args: Namespace, estimator: Any, check: Any = None) -> tuple[Any, Rows, dict[str, Any]]:
    """The fitted pipeline, the rows it was fitted to, and a summary; the last step may be a SparseKLRCV.

    ``check(labels)`` may refuse the rows before they are fitted.
    """
    rows = read_training(args)
    assert rows.y is not None
    kept, held_out = _split(args, rows.y)
    part = take(rows, kept)
    if check is not None:
        check(part.y)
    pipeline = make_pipeline(estimator, rows, args)
    start = time.perf_counter()
    steps = () if part.weight is None else ("model",) if rows.table is None else ("features", "model")
    warnings.simplefilter("ignore", TableWarning)  # the summary has them; until the end of the command
    try:
        pipeline.fit(part.X, part.y, **{f"{step}__sample_weight": part.weight for step in steps})
    except TableError as error:
        raise CliError(f"{source_name(args.data)}: {error}") from error
    seconds = time.perf_counter() - start
    test = measure(pipeline, take(rows, held_out)) if len(held_out) else None
    model = getattr(pipeline[-1], "best_estimator_", pipeline[-1])
    summary = {
        "n_rows": len(kept),
        "n_features": model.n_features_in_,
        "classes": pipeline.classes_.tolist(),
        **_model_summary(model, len(kept)),
        "seconds": seconds,
        "test": test,
        **_table_summary(pipeline, rows),
    }
    return pipeline, part, summary


def _split(args: Namespace, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows to fit and those to hold out, which have the classes in equal shares."""
    if not args.test_size:
        return np.arange(len(y)), np.arange(0)
    what = f"{source_name(args.data)}: --test-size {args.test_size:g}"
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        single = classes[counts.argmin()]
        raise CliError(f"{what}: class {single} has 1 row; expected one to fit and one to hold out")
    n_test = math.ceil(args.test_size * len(y))
    for n, verb in ((n_test, "holds out"), (len(y) - n_test, "leaves")):
        if n < len(classes):
            raise CliError(
                f"{what} {verb} {n} of {len(y)} rows; expected one or more for each of {len(classes)} classes"
            )
    kept, held_out = train_test_split(
        np.arange(len(y)), test_size=args.test_size, stratify=y, random_state=args.seed
    )
    if len(none := np.setdiff1d(y, y[kept])):
        raise CliError(f"{what} leaves no row of class {none[0]} to fit; it has {(y == none[0]).sum()} rows")
    return kept, held_out


def train_stream(args: Namespace, model: CompactKLR) -> dict[str, Any]:
    """Fit a model to rows that are read in blocks; a summary."""
    n_rows, seconds = fit_stream(args, model)
    return {
        "n_rows": n_rows,
        "n_features": model.n_features_in_,
        "classes": model.classes_.tolist(),
        **_model_summary(model, n_rows),
        "seconds": seconds,
        "test": None,
        "columns": dict.fromkeys(model.feature_names_in_.tolist(), "number"),
        "scale": None,
        "data": None,
        "notes": [],
    }


def _model_summary(model: SparseKLR | CompactKLR, n_rows: int) -> dict[str, Any]:
    """Size and quality of a model, as its estimator knows them."""
    if isinstance(model, CompactKLR):
        return {
            "estimator": "CompactKLR",
            "n_points": model.n_points_,
            "points_share": model.n_points_ / n_rows,
            "n_features_used": int(model.get_support().sum()),
            "held_out_log_loss": model.held_out_log_loss_,
            "gradient_norm": model.gradient_norm_,
        }
    validated = getattr(model, "validation_log_loss_", None)
    return {
        "estimator": "SparseKLR",
        "n_points": len(model.support_),
        "points_share": len(model.support_) / n_rows,
        # what has chosen the kernel flatters it
        "loo_log_loss": getattr(model, "loo_log_loss_", None) if validated is None else None,
        "validation_log_loss": validated,
        "dual_gap": model.dual_gap_,
        "converged": model.converged_,
    }


def _table_summary(pipeline: Any, rows: Rows) -> dict[str, Any]:
    """How the table was read and scaled."""
    if rows.table is None:
        return {"columns": None, "scale": None, "data": None, "notes": []}
    reader, features = pipeline["read"], pipeline["features"]
    return {
        "columns": {name: column.kind for name, column in reader.columns_.items() if not column.left_out},
        "scale": {"chosen": features.scale_, "loo_log_loss": features.scale_losses_},
        "data": rows.table.facts,
        "notes": [told(rows.table), *rows.table.notes, *reader.report_],
    }


def take(rows: Rows, indices: np.ndarray) -> Rows:
    """Some of the rows."""
    X = rows.X.iloc[indices] if hasattr(rows.X, "iloc") else rows.X[indices]
    y = None if rows.y is None else rows.y[indices]
    weight = None if rows.weight is None else rows.weight[indices]
    numbers = indices if rows.numbers is None else rows.numbers[indices]
    return Rows(X, y, weight, rows.table, rows.svmlight, numbers=numbers, name=rows.name)
