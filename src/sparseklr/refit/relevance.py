r"""Relevance of the features: a kernel width for each feature, from the derivatives of a first model.

Features that hardly matter for the classes add noise to the distances between rows. Let :math:`g_j` be the
mean over the training rows of the squared derivative of the outputs with respect to feature j. Feature j is
multiplied by a factor :math:`s_j \propto g_j^{1/4}`. A second model is fitted to the scaled features, and its
derivatives give the final factors in the same way. The factors are normalised so that the mean kernel
coefficient of the features does not change. The fourth root is a cautious choice. The square root, which
recursive feature machines use, would suppress features that the first model happens to use little.

With few rows and many features, the derivatives are mostly noise. The leave-one-out loss does not reveal
this, because the factors depend on the labels of all rows. Factors are therefore used only if they reduce the
log-loss in cross-validation. The factors and the model for each fold are learned on the other folds, and the
mean loss must be smaller than with all factors equal to 1. This comparison uses factors computed from the
first model. docs/design/refit.md has measurements.

References
----------
Radhakrishnan, Beaglehole, Pandit and Belkin (2024), "Mechanism for feature learning in neural networks and
backpropagation-free machine learning models", Science 383, 1461-1467.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .. import _core
from ..kernels import Kernel
from ..samples import DistinctPoints
from .basis import ALL_AT_ONCE, Basis, LabelFreeBases
from .cross_fit import cross_fit
from .labels import Labels, LeftOut, in_folds
from .newton import fit_likelihood
from .recalibration import fit_recalibration
from .regularisation import EvaluatedFit


@dataclass(frozen=True)
class RelevanceSettings:
    """Settings of the factors by which the features are multiplied."""

    root: float = 0.25  # the factors are proportional to this power of the mean squared derivatives
    n_rows: int = 1000  # maximum number of rows in the mean of the squared derivatives
    folds: int = 3  # number of folds of the test whether factors reduce the loss, ...
    folds_of_few: int = 5  # ... and with at most 300 points, where the folds also estimate the final loss


SETTINGS = RelevanceSettings()


@dataclass(frozen=True, eq=False)
class LearnedFolds:
    """Models fitted without each fold of the observations, with factors learned without that fold.

    The factors of a fold are those after the first of the two rounds of :func:`learned_factors`.
    """

    groups: LeftOut  # the observations, divided into folds
    equal: np.ndarray  # cross-fitted outputs of models with all factors equal to 1
    # For each fold: the labels without the fold, the basis with learned factors, and outputs near the
    # solution.
    parts: list[tuple[Labels, Basis, np.ndarray]]

    @classmethod
    def of(cls, basis: Basis, labels: Labels, evaluated: EvaluatedFit, seed: int) -> LearnedFolds:
        """Return the models of three folds, or of five folds if the basis contains all of at most 300 points.

        ``evaluated`` is the model of all observations with all factors equal to 1.
        """
        n_folds = SETTINGS.folds_of_few if len(basis.points) <= ALL_AT_ONCE else SETTINGS.folds
        folds = replace(labels, left_out=in_folds(basis.points.observations, n_folds))
        groups, fit, parts = folds.observations, evaluated.fit, []
        equal, coordinates = cross_fit(basis, folds, fit)
        for fold, v in enumerate(coordinates):
            rest, near = folds.without(np.asarray(groups.fold == fold)), basis.outputs(v)
            parts.append((rest, _scaled(basis, _first_factors(basis, basis.coefficients(v)), seed), near))
        return cls(groups, equal, parts)

    def outputs(self, C: float) -> np.ndarray:
        """Return cross-fitted outputs of models with the given C and learned factors."""
        outputs, groups = np.empty_like(self.equal), self.groups
        for fold, (rest, scaled, near) in enumerate(self.parts):
            held_out = groups.fold == fold
            f = fit_likelihood(scaled, rest, C, near=near, fresh=False, tol=1e-2).f
            outputs[held_out] = f[groups.point[held_out]]
        return outputs

    def reduce_loss(self, C: float) -> bool:
        """Return whether learned factors reduce the log-loss in cross-validation.

        The outputs with and without learned factors are recalibrated, as they are when the kernel is chosen.
        """
        with_equal, with_learned = (
            self.groups.mean(self.groups.losses(fit_recalibration(self.groups, f)(f)))[0]
            for f in (self.equal, self.outputs(C))
        )
        return with_learned < with_equal


def learned_factors(basis: Basis, labels: Labels, evaluated: EvaluatedFit, seed: int) -> np.ndarray:
    """Return the factor of each feature, given a model on a label-free basis."""
    factors = _first_factors(basis, evaluated.coef)
    scaled = _scaled(basis, factors, seed)
    fit = fit_likelihood(scaled, labels, evaluated.C, near=evaluated.fit.f, fresh=False, tol=1e-2)
    squares = mean_squared_derivatives(scaled.points, scaled.chosen, scaled.coefficients(fit.v))
    return _factors(squares * factors**2, basis.points.kernel)


def _first_factors(basis: Basis, coef: np.ndarray) -> np.ndarray:
    """Return the factors after one round, given the coefficients of a model with all factors equal to 1."""
    return _factors(mean_squared_derivatives(basis.points, basis.chosen, coef), basis.points.kernel)


def _scaled(basis: Basis, factors: np.ndarray, seed: int) -> Basis:
    """Return a label-free basis of the same size for features multiplied by ``factors``."""
    points = replace(basis.points, X=basis.points.X * factors.astype(basis.points.X.dtype))
    return LabelFreeBases(points, np.random.default_rng(seed), basis.map_, (basis.size,))[0]


def mean_squared_derivatives(points: DistinctPoints, chosen: np.ndarray, coef: np.ndarray) -> np.ndarray:
    r"""Return the mean squared derivative of the outputs with respect to each feature.

    The squares are summed over the outputs and averaged over at most 1000 rows with their weights. The
    derivative of :math:`\sum_b \beta_b k(x, z_b)` with respect to feature j is
    :math:`-2\gamma \sum_b \beta_b k(x, z_b) (x_j - z_{bj})` for the rbf kernel and
    :math:`-\gamma \sum_b \beta_b k(x, z_b) \operatorname{sign}(x_j - z_{bj})` for the Laplacian kernel.
    ``coef`` contains the coefficients of the points ``chosen``.
    """
    kernel, Z = points.kernel, points.X[chosen].astype(np.float64)
    X, weight = points.X[: SETTINGS.n_rows].astype(np.float64), points.weight[: SETTINGS.n_rows].sum(axis=1)
    coef = coef.reshape(len(Z), -1)
    K = points.values(np.arange(len(X)), chosen)
    total = np.zeros(X.shape[1])
    for beta in coef.T:
        terms = K * beta
        if kernel.name == "rbf":
            slopes = 2 * (X * terms.sum(axis=1)[:, None] - terms @ Z)
        else:
            slopes = np.empty_like(X)
            _core.sign_sums(X, Z, terms, slopes)
        total += weight @ (kernel.gamma * slopes) ** 2
    return total / weight.sum()


def _factors(squares: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Return factors :math:`s_j` proportional to the fourth root of ``squares``.

    They are normalised so that the mean of :math:`s_j` (Laplacian kernel) or :math:`s_j^2` (rbf kernel) is 1.
    """
    if not squares.any():
        return np.ones(len(squares))
    factors = (squares / squares.max()) ** SETTINGS.root
    power = 2 if kernel.name == "rbf" else 1
    return factors / (factors**power).mean() ** (1 / power)
