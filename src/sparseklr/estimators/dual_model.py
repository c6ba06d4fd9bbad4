"""The S-KLR solution that stays behind a refitted model, or that an interrupted fit has reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..data import TrainingSet
from ..dual.binary import BinarySolutions
from ..kernels import Kernel


@dataclass(frozen=True, eq=False)
class DualModel:
    """The S-KLR function f(x) = coef @ k(points, x) + intercept, for a warm start and for its own values."""

    support: np.ndarray  # indices of the points in what the user gave
    points: Any
    coef: np.ndarray
    intercept: np.ndarray
    margins: np.ndarray  # lam of every output
    n_samples: int  # rows that the user gave

    @classmethod
    def of(cls, data: TrainingSet, solved: BinarySolutions) -> DualModel:
        """The points of all problems together."""
        coef = solved.coef
        support = data.in_given_order(np.flatnonzero(coef.any(axis=0)))
        return cls(
            data.positions[support],
            data.points(support),
            coef[:, support],
            solved.intercept,
            solved.margins,
            data.n_samples,
        )

    def start(self, k: int, data: TrainingSet) -> tuple[np.ndarray | None, float]:
        """Dual variables of output k for the rows of ``data``, and its margin; None, 0 for other data."""
        if k >= len(self.coef) or self.n_samples != data.n_samples:
            return None, 0.0
        alpha = np.zeros(self.n_samples)
        alpha[self.support] = np.abs(self.coef[k])
        return alpha[data.positions], float(self.margins[k])

    def outputs(self, kernel: Kernel, queries: Any, n_jobs: int | None = None) -> np.ndarray:
        """f of checked queries, (n_queries, n_outputs)."""
        return kernel.sum(queries, self.points, self.coef, n_jobs=n_jobs) + self.intercept


class HasDualModel:
    """What a fitted estimator can do with its S-KLR solution, ``dual_model_``."""

    classes_: np.ndarray
    dual_model_: DualModel
    n_jobs: Any
    _kernel: Kernel
    _check_is_fitted: Callable[[], None]
    _check_queries: Callable[..., Any]

    def compact(self) -> Self:
        """Keep what prediction needs, and the numbers that describe the fit.

        What grows with the training data is dropped: ``dual_model_`` (the S-KLR solution behind a refit, of
        which ``dual_decision_function`` and a warm start are made), ``loo_decision_function_``, and the
        posterior, which deviations and moderated probabilities are made of.
        """
        self._check_is_fitted()
        for name in ("dual_model_", "loo_decision_function_", "_posteriors"):
            self.__dict__.pop(name, None)
        return self

    def dual_decision_function(self, X: Any) -> np.ndarray:
        """The S-KLR function itself, before any calibration.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array (n_samples,) or (n_samples, n_classes)
        """
        self._check_is_fitted()
        if not hasattr(self, "dual_model_"):
            raise AttributeError("the S-KLR solution was dropped by compact(); fit again to have it.")
        queries = self._check_queries(X, self.dual_model_.support)
        outputs = self.dual_model_.outputs(self._kernel, queries, self.n_jobs)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs
