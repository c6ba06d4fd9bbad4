r"""Selection of points on parts of the rows, for more rows than the dual problem needs.

The refit uses a few hundred points near the boundary between the classes, so the dual problem of all rows is
not needed. As in chunking, the problem is solved for a part of the rows, a random sample first. Rows with
:math:`y f(x) < \lambda`, which have large dual variables in the problem of all rows, then join the selected
points in the next part, until a part selects enough points or no such row is left.

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
    """Settings of the selection on parts."""

    rows: int = 5000  # rows of the first part, and rows that a later part adds
    least_of_class: int = 100  # rows of each class in the first part
    rounds: int = 3  # number of parts


SETTINGS = PartSettings()


def most_parts(n_rows: int) -> int:
    """The largest number of parts that are solved."""
    return 1 if n_rows <= SETTINGS.rows else SETTINGS.rounds


def select_on_parts(
    rows: Samples, solve: Callable[[Samples], BinarySolutions], enough: int, n_jobs: int | None = None
) -> tuple[np.ndarray, BinarySolutions]:
    """The selected rows of the last part, and its solutions; a single part contains all rows if they are few.

    ``rows`` are in random order; ``enough`` points end the search.
    """
    n = len(rows.codes)
    if most_parts(n) == 1:
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
