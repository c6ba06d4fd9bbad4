"""How familiar rows are to a model, beside its training rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy import sparse

from ..equal_rows import shuffled_keys
from ..probability.familiarity import Span, rank, remembered, representatives
from .later import ComputesLater
from .points import PredictsFromPoints

_TRAINING_ROWS = 2000  # distinct ones that represent all
_COPIED_BYTES = 8 << 20  # copying this takes a millisecond or two, a fit much more
_BLOCK = 8192


def _drawn_rows(
    X: Any, weight: np.ndarray | None, support: np.ndarray | None
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Some distinct rows, their weights, and which of them are points (at ``support``) of the model.

    The same rows are drawn in whatever order they come and whether they are repeated or weighted.
    """
    kept = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight)
    _, first, code = np.unique(shuffled_keys(X[kept], 0), return_index=True, return_inverse=True)
    total = np.bincount(code, None if weight is None else weight[kept])[:_TRAINING_ROWS]
    of_points = None
    if support is not None:
        place = np.empty(X.shape[0], dtype=int)
        place[kept] = code
        of_points = place[support]
    return X[kept[first[:_TRAINING_ROWS]]], total, of_points


class TellsFamiliarity(ComputesLater, PredictsFromPoints):
    """Mixin of classifiers that predict from points; their ``fit`` calls :meth:`_set_reference` last."""

    _computed_later = {"_reference": "_reference_from"}
    _reference: np.ndarray | None  # quantiles of the shares explained of the training rows

    def familiarity(self, X: Any) -> np.ndarray:
        r"""How familiar rows are: the part of the training rows that is farther out than each of them.

        A row is the farther out, the less of its kernel function :math:`k(x, \cdot)` the points of the model
        explain: :math:`k_{xz} K_{zz}^{-1} k_{zx} / k(x, x)`. A value of 0.05 says that 95% of the training
        rows are better explained, each of them without itself. Where it is near zero, the model has seen
        nothing like the row, whatever probability it gives.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples,)
            In [0, 1]; about uniform for rows like the training rows.

        Notes
        -----
        Of a kernel of few dimensions, such as the linear one, a few points explain everything, and all rows
        are equally familiar. A precomputed kernel does not tell k(x, x), and a kernel that is not positive
        semidefinite has no such share: both raise an error.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from sparseklr import SparseKLR
        >>> X, y = make_moons(200, noise=0.2, random_state=0)
        >>> SparseKLR().fit(X, y).familiarity([[0.5, 0.25], [4.0, 4.0]]) > 0.05
        array([ True, False])
        """
        rows = self._checked(X)
        if self._diagonal(rows[:0]) is None:
            raise ValueError("kernel='precomputed' does not tell k(x, x), which familiarity(X) needs.")
        if self._reference is None:
            raise ValueError(
                "the kernel is not positive semidefinite on the points: there is no familiarity."
            )
        span, chosen = self._span()
        blocks = [rows[start : start + _BLOCK] for start in range(0, rows.shape[0], _BLOCK)]
        shares = [self._shares(span, chosen, block) for block in blocks]
        return rank(np.concatenate(shares), self._reference)

    def _span(self) -> tuple[Span, np.ndarray]:
        """The span of the points, or of those that stand for many."""
        chosen = representatives(self.dual_coef_.shape[1])
        return Span(self._kernel_of_points(chosen)), chosen

    def _shares(self, span: Span, chosen: np.ndarray, rows: Any) -> np.ndarray:
        rows = rows.astype(np.float64)
        diagonal = self._diagonal(rows)
        assert diagonal is not None
        return span.shares(self._kernel_to_points(rows, chosen), diagonal)

    def _set_reference(self, X: Any, weight: np.ndarray | None) -> None:
        """Keep what :meth:`_reference_from` needs of the training rows, as the user gave them.

        Few rows are copied, and drawn from on first use; of many, those that are drawn are kept.
        """
        self._reference = None
        if self._diagonal(X[:0]) is None:
            return
        support = getattr(self, "support_", None)
        if not sparse.issparse(X) and X.nbytes <= _COPIED_BYTES:
            draw = partial(_drawn_rows, X.copy(), None if weight is None else weight.copy(), support)
        else:
            draw = partial(tuple, _drawn_rows(X, weight, support))
        self._set_later("_reference", draw)

    def _reference_from(self, draw: Callable[[], tuple[Any, np.ndarray, np.ndarray | None]]) -> Any:
        """Quantiles of how well some training rows are explained."""
        rows, weight, of_points = draw()
        if not weight.any():
            return None
        try:
            span, chosen = self._span()
        except LinAlgError:
            return None
        shares = self._shares(span, chosen, rows)
        if of_points is not None:
            places = of_points[chosen]
            drawn = places < len(shares)
            shares[places[drawn]] = span.shares_left_out()[drawn]
        return remembered(shares, weight)

    def _set_reference_of(self, K: np.ndarray, weight: np.ndarray) -> None:
        """The same for rows that are no points, from k(x, points); k(x, x) is 1."""
        span, chosen = self._span()
        shares = span.shares(K[:, chosen], np.ones(len(K)))
        self._reference = remembered(shares, weight)
