r"""Selection of points from large data sets by solving the dual problem of subsets of the rows.

The refit of :class:`~sparseklr.SparseKLR` needs only a few hundred points near the boundary between the
classes. The dual problem of all rows therefore need not be solved. As in chunking, the problem is first
solved for a random sample of the rows. The next subset consists of the selected points and of other rows with
:math:`y f(x) < \lambda`, which have large dual variables in the problem of all rows. The procedure ends when
the solution for a subset contains enough points, when there are no other such rows, or after three subsets.

References
----------
Osuna, Freund and Girosi (1997), "An improved training algorithm for support vector machines", Neural
Networks for Signal Processing VII, 276-285.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..samples import Samples, first_of_each_class
from .one_vs_rest import BinarySolutions


@dataclass(frozen=True)
class PartSettings:
    """Settings of the selection of points from subsets of the rows."""

    rows: int = 5000  # number of rows in the first subset, and of rows that a later subset may add
    least_of_class: int = 100  # minimum number of rows of each class in the first subset
    rounds: int = 3  # maximum number of subsets


SETTINGS = PartSettings()


def select_on_parts(
    rows: Samples, solve: Callable[[Samples], BinarySolutions], enough: int, n_jobs: int | None = None
) -> tuple[np.ndarray, BinarySolutions]:
    """Return the indices of the selected rows, and the solutions for the last subset.

    Up to 5000 rows, all rows form a single subset. ``rows`` must be in random order. The procedure ends when
    the solution for a subset contains at least ``enough`` points.
    """
    n = len(rows.codes)
    if n <= SETTINGS.rows:
        found = solve(rows)
        return np.flatnonzero(found.coef.any(axis=0)), found
    signs = rows.signs()
    weight = np.zeros((n, len(rows.classes)))
    weight[np.arange(n), rows.codes] = 1
    part = first_of_each_class(weight, np.arange(n), SETTINGS.rows, SETTINGS.least_of_class)
    for later in range(SETTINGS.rounds):
        found = solve(rows.part(part))
        support = np.flatnonzero(found.coef.any(axis=0))
        selected = part[support]
        if len(selected) >= enough or later == SETTINGS.rounds - 1:
            break
        others = np.setdiff1d(np.arange(n), part)
        queries = rows.X[np.ix_(others, selected)] if rows.kernel.precomputed else rows.X[others]
        f = rows.kernel.sum(queries, rows.points(selected), found.coef[:, support], n_jobs=n_jobs)
        inside = (signs[:, others].T * (f + found.intercept) < found.margins).any(axis=1)
        if not inside.any():
            break
        part = np.union1d(selected, others[inside][: SETTINGS.rows])
    return selected, found
