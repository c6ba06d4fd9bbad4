"""Standard deviations of decision values, and probabilities that are averaged over them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import DistinctPoints
from ..kernels import Kernel
from ..probability.refit import Refit, binary_labels
from ..probability.uncertainty import Posterior, posterior
from .points import PredictsFromPoints


class TellsUncertainty(PredictsFromPoints):
    """Mixin of classifiers with a posterior for each output."""

    _kernel: Kernel
    _posteriors: list[Posterior]

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """The logit of the class probabilities, which is positive for the second class.

        For more than two classes it is the output of each class. A row far from all points of the model gets
        its intercept.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return standard deviations too: those of the Laplace approximation to the posterior of
            the refit, whose prior has the covariance ``C_refit_ * slope_refit_**2 * k(x, x')``. They grow
            away from the kept points.

        Returns
        -------
        array (n_samples,) or (n_samples, n_classes)
            With ``return_std=True`` a pair of them.
        """
        decision = super().decision_function(X)
        if not return_std:
            return decision
        std = np.sqrt(self._variances(X))
        return decision, std[:, 0] if len(self.classes_) == 2 else std

    def predict_proba(self, X: Any, moderated: bool = False) -> np.ndarray:
        r"""Class probabilities, which sum to one.

        ``predict`` returns the class of the largest probability without moderation. For two classes it has
        the larger moderated probability too. For more classes it need not: each class has an uncertainty of
        its own, and the class with the largest output may also be the most uncertain one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        moderated : bool, default=False
            Whether to average over the uncertainty of rows that are more uncertain than nine tenths of the
            training rows: more doubt far from the data, and the same probabilities near them. Let v be the
            squared deviation of a row and u the one that nine tenths of the training rows do not exceed.
            Where v is larger, the log-odds are multiplied by :math:`\sqrt{(1 + \pi u/8) / (1 + \pi v/8)}`.

        Returns
        -------
        array (n_samples, n_classes)
        """
        if not moderated:
            return super().predict_proba(X)
        variances = self._variances(X)
        factors = [one.shrinkage(variances[:, k]) for k, one in enumerate(self._posteriors)]
        return np.exp(self._log_proba(self._outputs(X) * np.column_stack(factors)))

    def _set_posteriors(self, points: DistinctPoints, models: list[Refit]) -> None:
        """Keep what the variances of the refitted outputs need."""
        labels = binary_labels(points, len(models))
        self._posteriors = [
            posterior(points, *each, n_outputs=len(models)) for each in zip(labels, models, strict=True)
        ]

    def _variances(self, X: Any) -> np.ndarray:
        """Of every output, (n_queries, n_outputs)."""
        rows = self._checked(X)
        if not hasattr(self, "_posteriors"):
            raise AttributeError(
                "there is no posterior: it needs calibration='refit', and compact() drops it; fit again."
            )
        diagonal = self._diagonal(rows)
        if diagonal is None:
            raise ValueError("kernel='precomputed' does not tell k(x, x), which deviations need.")
        rows = rows.astype(np.float64)
        variances = [
            one.variance(one.kernel_values(self._kernel, rows), diagonal) for one in self._posteriors
        ]
        return np.column_stack(variances)
