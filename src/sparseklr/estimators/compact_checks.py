"""Checks before and after a compact model is fitted: copies among the rows, warnings about the result."""

from __future__ import annotations

import numpy as np

from .._warn import warn
from ..compact.fit import CompactFit
from ..compact.path import PathSettings
from ..data import DistinctPoints
from ..kernels import Kernel
from ..probability.copies import rows_are_copies


def are_copies(X: np.ndarray, weight: np.ndarray, count: np.ndarray) -> bool:
    """Whether equal rows are copies of one observation.

    X has the distinct rows, scaled; weight and count are (n_points, n_classes).
    """
    n, p = X.shape
    rows = np.arange(n)
    kernel = Kernel("rbf", 1 / max(p, 1))
    return rows_are_copies(DistinctPoints(X.astype(np.float64), rows, rows, weight, kernel, None, count))


def warn_of_fit(found: CompactFit, settings: PathSettings, n_varying: int) -> None:
    """Warn of a model without signal, and of one that is worse than its validation loss.

    ``n_varying`` is the number of features that are not constant. A sound model has a training loss below its
    validation loss, and a validation loss below that of the class fractions; both are known at no extra cost.
    """
    baseline = found.baseline_loss
    if found.model.n_points == 0:
        if n_varying == 0:
            reason = "all features are constant. Add features that vary"
        else:
            reason = (
                f"no model had a lower validation log-loss than the class fractions, {baseline:.3g}. Check "
                "that rows and labels belong together, add features or rows, or set n_points to keep points"
            )
        warn(f"No signal found, the model is the class fractions: {reason}.")
        return
    if found.held_out_loss is None or baseline is None:
        return
    if found.held_out_loss >= baseline:  # only where the number of points is given
        warn(
            f"No signal found: with n_points={settings.n_points} the validation log-loss is "
            f"{found.held_out_loss:.3g}, and that of the class fractions {baseline:.3g}. "
            'n_points="auto" returns the class fractions in this case.'
        )
    elif found.lost:
        warn(
            f"The training log-loss, {found.training_loss:.3g}, exceeds the validation log-loss, "
            f"{found.held_out_loss:.3g}, by more than its noise: the fit ended in a poor optimum. Try "
            "another random_state or n_points."
        )
