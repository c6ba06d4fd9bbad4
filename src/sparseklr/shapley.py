r"""Exact Shapley values, interactions, partial dependence and gradients of sums of product kernels.

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
    slopes: Callable[[Any], Any]  # function that returns the derivative of each feature, or 1.0

    def outputs(self, features: Any) -> np.ndarray:
        """Return the decision values (n_rows, n_outputs) for given features of rows."""
        return self.kernel(features, self.points, self.width) @ self.coef.T + self.intercept

    def kernel(self, features: Any, points: Any, width: np.ndarray) -> np.ndarray:
        """Return the kernel values (n_rows, n_points), which are products over the given features."""
        if not points.shape[0]:
            return np.zeros((features.shape[0], 0))
        if not self.squared:
            return np.exp(-cdist(_dense(features) * width, _dense(points) * width, "cityblock"))
        root = np.sqrt(width)
        return np.exp(-cdist(_dense(features) * root, _dense(points) * root, "sqeuclidean"))

    def shapley(
        self, features: Any, background: Background, group: np.ndarray, interactions: bool, n_jobs: int | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return Shapley values (n_rows, n_outputs, n_groups) and interactions.

        ``group[j]`` is the index of the group to which column j belongs. Interactions are None unless
        requested.
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

    def partial_dependence(
        self, columns: list[int], grid: np.ndarray, background: Background, n_columns: int
    ) -> np.ndarray:
        """Return mean decision values (n_grid, n_outputs) over the background rows.

        The columns ``columns`` of the background rows are set to the values in each row of ``grid``.
        """
        inside = np.isin(self.column, columns)
        X = np.zeros((len(grid), n_columns))
        X[:, columns] = grid
        features, rest = self.features(X)[:, inside], background.features[:, ~inside]
        near = self.kernel(features, self.points[:, inside], self.width[inside])
        others = self.kernel(rest, self.points[:, ~inside], self.width[~inside])
        return near @ (self.coef * (background.weight @ others)).T + self.intercept

    def gradient(self, X: Any, n_columns: int) -> np.ndarray:
        """Return the derivatives of the decision values with respect to the columns of X.

        The result has the shape (n_rows, n_outputs, n_columns).
        """
        n, m = X.shape[0], len(self.intercept)
        _check_memory(n * m * n_columns, n, n_columns)
        out, points = np.zeros((n, m, n_columns)), _dense(self.points)
        at_once = max(1, int(1e6) // max(points.size, 1))
        for start in range(0, n, at_once):
            block = slice(start, start + at_once)
            u = _dense(self.features(X[block]))
            K = self.kernel(u, points, self.width)
            away = u[:, None, :] - points
            inner = 2 * away if self.squared else np.sign(away)
            slopes = np.einsum("ob,nb,nbj->noj", self.coef, K, inner) * -self.width
            slopes *= np.atleast_2d(self.slopes(X[block]))[:, None, :]
            for j, column in enumerate(self.column):
                out[block][:, :, column] += slopes[:, :, j]
        return out


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of columns of X; each group counts as one feature."""

    names: list[str]
    of_column: np.ndarray  # position of the group of each column

    @classmethod
    def of(cls, groups: Mapping[str, Sequence[Any]] | None, columns: Sequence[str]) -> Groups:
        """Return groups of columns given by names or positions; every other column is a separate group.

        A group takes the place of its first column.
        """
        if not (groups is None or isinstance(groups, Mapping)):
            raise TypeError(
                f"groups must map the name of each group to its columns, as in {{'city': ['Oslo', 'Rome']}}; "
                f"got {groups!r}."
            )
        label: list[Any] = [(j,) for j in range(len(columns))]
        for name, members in (groups or {}).items():
            if isinstance(members, str):
                raise TypeError(f"the group {name!r} must be a list of columns; got the string {members!r}.")
            for j in column_positions(members, columns):
                if isinstance(label[j], str):
                    raise ValueError(f"column {columns[j]!r} is in two groups, {label[j]!r} and {name!r}.")
                label[j] = str(name)
        order = {one: g for g, one in enumerate(dict.fromkeys(label))}
        names = [one if isinstance(one, str) else columns[one[0]] for one in order]
        for name in groups or {}:
            if names.count(str(name)) > 1:
                raise ValueError(f"the group {name!r} has the name of a column outside it; rename the group.")
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
    if len({*found}) < len(found):
        raise ValueError(f"columns must be different; got {list(members)!r}.")
    return [int(j) for j in found]


def as_interactions(pairs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return symmetric interactions whose rows sum to the Shapley values.

    ``pairs`` contains the pairwise Shapley interaction values, which are the entries above the diagonal.
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
