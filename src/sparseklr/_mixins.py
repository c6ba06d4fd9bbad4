"""Mixins that compare new rows with the training rows: familiarity, prediction sets and intervals."""

from __future__ import annotations

from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from ._base import PointClassifier
from .conformal import HeldOut, HeldOutProbabilities
from .refit.posterior import Span, rank, reference_quantiles, representatives
from .samples import DistinctPoints
from .shapley import Background

# Maximum number of distinct training rows that a model stores as a sample.
_TRAINING_ROWS = 2000
# Number of rows in a block of kernel values.
_BLOCK = 8192


class TrainingRows(NamedTuple):
    """A sample of the distinct training rows, and the positions of the points of the model in this sample."""

    X: Any
    weight: np.ndarray
    point_rows: np.ndarray  # position of each point in X; len(X) or more for points outside the sample

    @classmethod
    def of(cls, points: DistinctPoints, kept: np.ndarray) -> TrainingRows:
        """Return the first 2000 distinct training rows, which are in pseudo-random order.

        ``kept`` contains the indices of the points of the model.
        """
        sample = slice(0, _TRAINING_ROWS)
        return cls(points.X[sample].copy(), points.weight[sample].sum(axis=1), kept)


class FamiliarityMixin(PointClassifier):
    """Mixin with the method ``familiarity``.

    The method ``fit`` of the subclass sets ``_training_rows_``, from which ``_reference_`` is computed, or it
    sets ``_reference_`` directly.
    """

    _training_rows_: TrainingRows | None

    def familiarity(self, X: Any) -> np.ndarray:
        r"""Return the familiarity of each row, from 0 to 1; it is small for rows unlike the training rows.

        The familiarity is the fraction of the training rows that the points of the model represent no better
        than this row. A familiarity near 0 means that nearly all training rows are represented better, so the
        predicted probability of this row may be an extrapolation. For rows from the same distribution as the
        training rows, the familiarity is approximately uniform on [0, 1].

        The similarity of a row x to the points z of the model is :math:`s(x) = k_{xz} K_{zz}^{-1} k_{zx} /
        k(x, x)`. This is the fraction of the squared norm of the kernel function :math:`k(x, \cdot)` that its
        projection onto the kernel functions of the points retains. The similarity is 1 if x is a point of the
        model, and near 0 far from all points (for kernels that fall to 0). The familiarity of x is the
        fraction of the training rows, by sample weight, whose similarity is at most s(x). For example, a
        familiarity of 0.05 means that 95% of the training rows have a larger similarity. A training row that
        is itself a point enters this comparison with its similarity to the other points. If x is a point,
        however, its familiarity is 1, unless the model has more than 700 points (see Notes).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to evaluate.

        Returns
        -------
        array (n_samples,)
            Familiarity of each row.

        Notes
        -----
        The fraction of the training rows is estimated from a sample of at most 2000 distinct training rows
        and is rounded to a multiple of 1/250. With more than 700 points, the similarity refers to 700 of
        them. Features are compared after scaling; if the model clips them, a row with one extreme feature may
        be as familiar as a row at the limit. With a kernel of low rank, such as the linear kernel, a few
        points represent every row, so the familiarity of every row is 1 and detects nothing. An error is
        raised for a precomputed kernel, for which k(x, x) is unknown, and for a kernel that is not positive
        semidefinite.

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
            raise ValueError("familiarity(X) needs k(x, x), which kernel='precomputed' does not provide.")
        if self._reference_ is None:
            raise ValueError(
                "familiarity is undefined: the kernel matrix of the points is not positive semidefinite."
            )
        span, chosen = self._span()
        blocks = [rows[start : start + _BLOCK] for start in range(0, rows.shape[0], _BLOCK)]
        explained = [self._explained(span, chosen, block) for block in blocks]
        return rank(np.concatenate(explained), self._reference_)

    def _span(self) -> tuple[Span, np.ndarray]:
        """Return the span of the kernel functions of at most 700 points, and the indices of these points."""
        chosen = representatives(self.dual_coef_.shape[1])
        return Span(self._kernel_of_points(chosen)), chosen

    def _explained(self, span: Span, chosen: np.ndarray, rows: Any) -> np.ndarray:
        """Return the similarity of each row to the points, in millionths."""
        rows = rows.astype(np.float64)
        diagonal = self._diagonal(rows)
        assert diagonal is not None
        return span.explained(self._kernel_to_points(rows, chosen), diagonal)

    @cached_property
    def _reference_(self) -> np.ndarray | None:
        """Quantiles of the similarities of the training rows; None for an indefinite kernel.

        They are computed on first use, because computing them would add noticeably to the time of a fit.
        """
        if self._training_rows_ is None:
            return None
        X, weight, point_rows = self._training_rows_
        if not weight.any():
            return None
        try:
            span, chosen = self._span()
        except LinAlgError:
            return None
        explained = self._explained(span, chosen, X)
        places = point_rows[chosen]
        sampled = places < len(explained)
        explained[places[sampled]] = span.explained_by_others()[sampled]
        return reference_quantiles(explained, weight)

    @cached_property
    def _background_(self) -> Background | None:
        """Rows that represent the training rows; None if the kernel is not a product over features."""
        rows = getattr(self, "_training_rows_", None)
        if rows is None or not rows.weight.any():
            return None
        try:
            expansion = self._product_expansion()
        except ValueError:
            return None
        return Background.representing(rows.X.astype(np.float64), rows.weight, expansion.width)


# -- prediction sets and intervals --------------------------------------------------------------


class HeldOutMixin(PointClassifier):
    """Mixin with prediction sets and probability intervals.

    The method ``fit`` of the subclass sets ``_held_out_``.
    """

    _held_out_: HeldOut | None

    def predict_set(self, X: Any, coverage: float = 0.9, *, by_class: bool = False) -> np.ndarray:
        """Return prediction sets, which contain the true class of new rows with a given frequency.

        The prediction set of a row contains the classes whose p-value exceeds ``1 - coverage`` (conformal
        prediction; see :meth:`predict_p_values`). For rows from the same distribution as the training rows,
        the set contains the true class with a frequency of about ``coverage``, even if the predicted
        probabilities are wrong. A set with more than one class means that the row is ambiguous. An empty set
        means that the row is unusual: its most probable class has a lower probability than the true classes
        of nearly all training rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Frequency with which the sets contain the true class, between 0 and 1.
        by_class : bool, default=False
            Whether the coverage holds for the rows of each class separately instead of for all rows together.
            The sets are then larger, and a class with few training rows belongs to most of them.

        Returns
        -------
        array of bool (n_samples, n_classes)
            Whether each class belongs to the set of the row.

        References
        ----------
        Vovk, Gammerman and Shafer (2022), "Algorithmic learning in a random world", second edition.
        Barber, Candes, Ramdas and Tibshirani (2021), "Predictive inference with the jackknife+", Annals of
        Statistics 49, 486-507.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from sparseklr import SparseKLR
        >>> X, y = make_moons(200, noise=0.3, random_state=0)
        >>> SparseKLR().fit(X, y).predict_set([[-1.0, 0.5], [0.5, 0.25]], coverage=0.95)
        array([[ True, False],
               [ True,  True]])
        """
        _check_fraction("coverage", coverage)
        return self.predict_p_values(X, by_class=by_class) > 1 - coverage

    def predict_p_values(self, X: Any, *, by_class: bool = False) -> np.ndarray:
        r"""Return the conformal p-value of each class for each row.

        The p-value of class k for a row x is
        :math:`(1 + \sum_i w_i [p_i \le p_k(x)]) / (1 + \sum_i w_i)`, where :math:`p_i` is the probability of
        the true class of training row i, predicted by a model fitted without this row (by leave-one-out, or
        on validation folds). A small p-value means that class k has a lower probability for x than the true
        classes of most training rows had.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to predict.
        by_class : bool, default=False
            Whether the sums for class k include only training rows of class k.

        Returns
        -------
        array (n_samples, n_classes)
            p-values in the order of ``classes_``.
        """
        log_proba = self.predict_log_proba(X)
        return self._held_out().p_values(log_proba, bool(by_class))

    def predict_interval(self, X: Any, confidence: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return intervals of the class probabilities: Venn-Abers or confidence intervals.

        The intervals are based on held-out probabilities: each training row is predicted by a model that was
        fitted without it. Isotonic regression of the class labels on these probabilities gives calibrated
        probabilities. For each class, this regression is fitted twice with the new row added. If the new row
        is labelled with another class, the regression gives the lower end of the interval. If it is labelled
        with this class, the regression gives the upper end (Venn-Abers). One of the two labels is the true
        one, and the corresponding end is calibrated, whatever the model. A wide interval means that few
        training rows have a similar prediction. With more than two classes, each class is compared with all
        other classes together.

        Venn-Abers intervals do not include the sampling error of the calibration. With ``confidence``, they
        are extended to confidence intervals.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to predict.
        confidence : float, default=None
            Probability, between 0 and 1, that the interval of a class contains the frequency of this class
            among rows with the same predicted probability. It is guaranteed if this frequency increases with
            the predicted probability. The true probability of a single row also depends on the error of the
            model and may lie outside the interval more often. None returns Venn-Abers intervals.

        Returns
        -------
        lower, upper : arrays (n_samples, n_classes)
            Ends of the intervals. For a single probability, use ``predict_proba(X)``, or
            ``np.clip(predict_proba(X), lower, upper)``, which corrects a probability only if it is outside
            its interval. The middle of the interval and ``upper / (1 - lower + upper)`` are less accurate:
            they stay away from 0 and 1 even if all training rows with similar predictions have one class.

        References
        ----------
        Vovk, Petej and Fedorova (2015), "Large-scale probabilistic predictors with and without guarantees of
        validity", NIPS, 892-900.

        Barber (2020), "Is distribution-free inference possible for binary regression?", Electronic Journal of
        Statistics 14, 3487-3524: no short interval can contain the true probability of a single row.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from sparseklr import SparseKLR
        >>> X, y = make_moons(200, noise=0.3, random_state=0)
        >>> model = SparseKLR().fit(X, y)
        >>> lower, upper = model.predict_interval([[-1.0, 0.5]], confidence=0.9)
        >>> print(lower.round(1), upper.round(1))
        [[0.8 0. ]] [[1.  0.2]]
        """
        if confidence is not None:
            _check_fraction("confidence", confidence)
        log_proba = self.predict_log_proba(X)
        return self._held_out().intervals(log_proba, confidence)

    def _held_out(self) -> HeldOutProbabilities:
        """Return the held-out probabilities of the training rows; raise an error if there are none."""
        held_out = self._held_out_
        if held_out is None:
            raise ValueError(
                f"this {type(self).__name__} has no held-out predictions, because its fit used no "
                "validation rows. Set C='auto' or n_points='auto', and pass at least two rows of each class."
            )
        log_proba = self._log_proba(held_out.outputs.astype(np.float64))
        return HeldOutProbabilities(log_proba, held_out.code, held_out.weight)


def _check_fraction(name: str, value: Any) -> None:
    """Raise an error unless the value is a number between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"{name} must be a number between 0 and 1; got {value!r}.")
