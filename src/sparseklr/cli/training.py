"""What fit and tune do alike: read, hold out rows, fit the pipeline, measure."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from ..estimators.sparse_klr import SparseKLR
from .data import Rows, read_training
from .measures import measure
from .models import make_pipeline


def make_estimator(args: Namespace, **more: Any) -> SparseKLR:
    """A SparseKLR with the options of ``add_training`` and more."""
    return SparseKLR(
        kernel=args.kernel,
        degree=args.degree,
        calibration=None if args.calibration == "none" else args.calibration,
        class_weight=args.class_weight,
        random_state=args.seed,
        n_jobs=args.jobs,
        **more,
    )


def shows_progress(args: Namespace) -> int:
    """``verbose`` of an estimator."""
    return int(sys.stderr.isatty() if args.verbose is None else args.verbose)


def train(args: Namespace, estimator: Any) -> tuple[Any, Rows, dict[str, Any]]:
    """The fitted pipeline, the rows of the file, and a summary; the last step may be a SparseKLRCV."""
    rows = read_training(args)
    assert rows.y is not None
    kept, held_out = np.arange(len(rows.y)), np.arange(0)
    if args.test_size:
        kept, held_out = train_test_split(
            kept, test_size=args.test_size, stratify=rows.y, random_state=args.seed
        )
    part = take(rows, kept)
    pipeline = make_pipeline(estimator, rows.columns)
    start = time.perf_counter()
    weight = {} if part.weight is None else {"model__sample_weight": part.weight}
    pipeline.fit(part.X, part.y, **weight)
    seconds = time.perf_counter() - start
    model = getattr(pipeline[-1], "best_estimator_", pipeline[-1])
    summary = {
        "rows": len(kept),
        "features": rows.X.shape[1],
        "classes": pipeline.classes_.tolist(),
        "points_kept": len(model.support_),
        "points_share": len(model.support_) / len(kept),
        "loo_log_loss": getattr(model, "loo_log_loss_", None),
        "dual_gap": model.dual_gap_,
        "converged": model.converged_,
        "seconds": seconds,
        "test": measure(pipeline, take(rows, held_out)) if len(held_out) else None,
    }
    return pipeline, rows, summary


def take(rows: Rows, indices: np.ndarray) -> Rows:
    """Some of the rows."""
    X = rows.X.iloc[indices] if hasattr(rows.X, "iloc") else rows.X[indices]
    y = None if rows.y is None else rows.y[indices]
    return Rows(X, y, None if rows.weight is None else rows.weight[indices], rows.columns)
