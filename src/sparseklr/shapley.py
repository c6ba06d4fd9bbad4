r"""Exact Shapley values and interactions of sums of product kernels.

The rbf and the Laplacian kernel are products over features, :math:`k(x, z) = \prod_j k_j(x_j, z_j)`. Consider
background rows r with weights :math:`w_r`. The value of a set S of features is the mean decision value if the
other features are taken from the background, :math:`v(S) = \sum_r w_r f(x_S, r_{\bar S})`. The Shapley value
of feature j in :math:`f(x) = \sum_b \beta_b \prod_i k_i(x_i, z_{bi})` is then

.. math:: \phi_j = \sum_r w_r \sum_b \beta_b (a_{bj} - c_{rbj})
          \int_0^1 \prod_{i \ne j} \bigl((1-t)\, c_{rbi} + t\, a_{bi}\bigr)\, dt,
          \qquad a_{bi} = k_i(x_i, z_{bi}), \; c_{rbi} = k_i(r_i, z_{bi}),

because :math:`t^{|S|} (1-t)^{p-1-|S|}` integrates to the Shapley weight of S, where p is the number of
features. The integrand is a polynomial, so Gauss-Legendre quadrature with p/2 nodes is exact
(``cpp/shapley.hpp``). A group of columns that counts as one feature is one factor of the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import euclidean_distances

from . import _core
from ._utils.memory import available_memory
from ._utils.threads import n_threads

# Maximum number of background rows that represent the training rows.
MOST_BACKGROUND = 100
# Number of rows explained at once. It bounds the memory, and the user can interrupt between two blocks.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Background:
    """Weighted rows that represent the training rows."""

    features: Any  # the rows as arguments of the kernel, array or CSR (n_rows, n_features)
    weight: np.ndarray  # weights, which sum to one

    @classmethod
    def representing(cls, features: Any, weight: np.ndarray, width: np.ndarray) -> Background:
        """Return up to 100 of the given rows, which are in random order.

        Each row gets the total weight of the given rows that are nearest to it.
        """
        first = features[:MOST_BACKGROUND].astype(np.float64)
        if not features.shape[1]:  # a model that uses no feature
            weight = weight[:MOST_BACKGROUND]
        elif features.shape[0] > MOST_BACKGROUND:
            root = np.sqrt(width)
            scaled = [A.multiply(root).tocsr() if sparse.issparse(A) else A * root for A in (features, first)]
            nearest = euclidean_distances(*scaled).argmin(axis=1)
            weight = np.bincount(nearest, weight, minlength=MOST_BACKGROUND)
        return cls(first, weight / weight.sum())


@dataclass(frozen=True, eq=False)
class ProductExpansion:
    r"""Decision function :math:`f_o(x) = \sum_b \beta_{ob} \prod_j k_j(u_j(x), z_{bj}) + c_o`.

    A row x is mapped to features :math:`u_j(x)`, each of which depends on one column of X. Columns without a
    feature have no effect. There is one output o for two classes, and otherwise one output for each class.
    """

    squared: bool  # whether k_j is exp(-width_j (u - z)^2); otherwise it is exp(-width_j |u - z|)
    points: Any  # points z, array or CSR (n_points, n_features)
    width: np.ndarray  # (n_features,)
    coef: np.ndarray  # coefficients beta, (n_outputs, n_points)
    intercept: np.ndarray  # (n_outputs,)
    column: np.ndarray  # position in X of the column on which each feature depends
    features: Callable[[Any], Any]  # function that maps rows of X to features

    def outputs(self, features: Any) -> np.ndarray:
        """Return the decision values for given features of rows, (n_rows, n_outputs)."""
        if not self.points.shape[0]:
            return np.tile(self.intercept, (features.shape[0], 1))
        factor, metric = (np.sqrt(self.width), "sqeuclidean") if self.squared else (self.width, "cityblock")
        distance = cdist(_dense(features) * factor, _dense(self.points) * factor, metric)
        return np.exp(-distance) @ self.coef.T + self.intercept

    def shapley(
        self, features: Any, background: Background, group: np.ndarray, interactions: bool, n_jobs: int | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return Shapley values (n_rows, n_outputs, n_groups) and interactions.

        ``group`` contains the number of the group of each column. Interactions are None unless requested.
        """
        n, n_groups, n_outputs = features.shape[0], int(group.max(initial=-1)) + 1, len(self.intercept)
        n_values = n * n_outputs * n_groups
        if interactions:  # for the result, a block of it, and 8 background rows in each thread
            n_matrices = (n + min(n, _BLOCK)) * n_outputs + 9 * n_threads(n_jobs)
            n_values += n_matrices * n_groups**2
        _check_memory(n_values, n, n_groups)
        values = np.zeros((n, n_outputs, n_groups))
        pairs = np.zeros((n, n_outputs, n_groups, n_groups)) if interactions else None
        if not self.points.shape[0]:
            return values, pairs
        order = np.argsort(group[self.column], kind="stable")
        for start in range(0, n, _BLOCK):
            block = slice(start, start + _BLOCK)
            used, coef = order, self.coef
            if sparse.issparse(features):  # features that are zero in all rows give a factor for each point
                zero = np.bincount(features[block].indices, minlength=len(order)) == 0
                zero &= np.bincount(background.features.indices, minlength=len(order)) == 0
                used = order[~zero[order]]
                _check_memory(self.points.shape[0] * len(used), n, len(used))
                size = np.abs(self.points)
                distance = (size.multiply(size) if self.squared else size) @ np.where(zero, self.width, 0.0)
                coef = coef * np.exp(-distance)
            scale = (np.sqrt(self.width) if self.squared else self.width)[used]
            start_of = np.searchsorted(group[self.column[used]], np.arange(n_groups + 1)).astype(np.uint64)
            points, rows, others = (
                np.ascontiguousarray(_dense(A[:, used]) * scale)
                for A in (self.points, features[block], background.features)
            )
            values[block], both = _core.shapley_values(
                points,
                np.ascontiguousarray(coef),
                start_of,
                self.squared,
                rows,
                others,
                background.weight,
                interactions,
                n_threads(n_jobs),
            )
            if pairs is not None:
                pairs[block] = both
        return values, pairs


@dataclass(frozen=True, eq=False)
class Groups:
    """Columns of X that count as one feature."""

    names: list[str]
    of_column: np.ndarray  # position of the group of each column

    @classmethod
    def of(cls, groups: Mapping[str, Sequence[Any]] | None, columns: Sequence[str]) -> Groups:
        """Return groups of columns given by names or positions; every other column is a separate group.

        A group takes the place of its first column.
        """
        label: list[Any] = [(j,) for j in range(len(columns))]
        for name, members in (groups or {}).items():
            for j in column_positions(members, columns):
                if isinstance(label[j], str):
                    raise ValueError(f"column {columns[j]!r} is in two groups, {label[j]!r} and {name!r}.")
                label[j] = str(name)
        order = {one: g for g, one in enumerate(dict.fromkeys(label))}
        names = [one if isinstance(one, str) else columns[one[0]] for one in order]
        return cls(names, np.array([order[one] for one in label], dtype=np.intp))

    def data(self, X: Any) -> np.ndarray:
        """Return the values of the columns; NaN for a group of several columns."""
        out = np.full((X.shape[0], len(self.names)), np.nan)
        sizes = np.bincount(self.of_column, minlength=len(self.names))
        single = np.flatnonzero(sizes[self.of_column] == 1)
        out[:, self.of_column[single]] = _dense(X[:, single])
        return out


def column_positions(members: Sequence[Any], columns: Sequence[str]) -> list[int]:
    """Return the positions of columns that are given by names or positions."""
    position = {name: j for j, name in enumerate(columns)}
    found = [position.get(member, member) for member in members]
    for j in found:
        if isinstance(j, bool) or not isinstance(j, int | np.integer) or not 0 <= j < len(columns):
            raise ValueError(
                f"{j!r} is not a column of X; expected a name, or a position below {len(columns)}."
            )
    return [int(j) for j in found]


def as_interactions(pairs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return symmetric interactions whose rows sum to the Shapley values.

    ``pairs`` contains the interaction indices above the diagonal.
    """
    halves = 0.5 * (pairs + pairs.swapaxes(-1, -2))
    diagonal = np.arange(pairs.shape[-1])
    halves[..., diagonal, diagonal] = values - halves.sum(axis=-1)
    return halves


def _dense(A: Any) -> np.ndarray:
    """Return a dense float64 array."""
    return np.asarray(A.toarray() if sparse.issparse(A) else A, dtype=np.float64)


def _check_memory(n_values: int, n_rows: int, n_features: int) -> None:
    """Raise an error if an array of ``n_values`` numbers does not fit into memory."""
    if 8 * n_values > (free := available_memory()):
        raise MemoryError(
            f"the explanation of {n_rows} rows and {n_features} features needs {8 * n_values >> 20} MB, but "
            f"{free >> 20} MB are free. Explain fewer rows at once, or combine columns with groups."
        )
