r"""Relevance of the features: a width for each feature, from the derivatives of a first model.

Features that hardly matter blur the distances between rows. Let :math:`g_j` be the mean over the training
rows of the squared derivative of the outputs with respect to feature j. Feature j is multiplied by
:math:`s_j \propto g_j^{1/4}`, a model is fitted to these features, and its derivatives give the final
factors. They are normalised so that the mean kernel coefficient of the features does not change. The fourth
root is cautious: :math:`g_j^{1/2}`, as in recursive feature machines, suppresses features that the first
model uses little by chance.

With few rows and many features, the derivatives are mostly noise. The leave-one-out loss does not show this,
because the factors depend on the labels of the rows left out. Factors are therefore used only if they lower
the loss on folds: with factors and likelihood from the other folds, the loss of the rows of a fold must be
smaller on average than with equal factors. docs/design/refit.md has measurements.

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
from .basis import Basis, LabelFreeBases
from .cross_fit import cross_fit
from .labels import Labels, LeftOut, in_folds
from .newton import fit_likelihood
from .recalibration import fit_recalibration
from .regularisation import EvaluatedFit


@dataclass(frozen=True)
class RelevanceSettings:
    """Settings of the relevance of features."""

    root: float = 0.25  # power of the mean squared derivatives
    n_rows: int = 1000  # rows for the mean of the squared derivatives
    n_folds: int = 3  # on which the factors must pay


SETTINGS = RelevanceSettings()


def factors_pay(basis: Basis, labels: Labels, evaluated: EvaluatedFit, seed: int) -> bool:
    """Whether factors learned on the other folds reduce the mean log-loss of the folds.

    ``evaluated`` has equal factors. Both losses are those of recalibrated outputs, as in the choice of the
    kernel.
    """
    groups, equal, learned = outputs_of_folds(basis, labels, evaluated, evaluated.C, seed, SETTINGS.n_folds)
    with_equal, with_learned = (
        groups.mean(groups.losses(fit_recalibration(groups, f)(f)))[0] for f in (equal, learned)
    )
    return with_learned < with_equal


def outputs_of_folds(
    basis: Basis, labels: Labels, evaluated: EvaluatedFit, C: float, seed: int, n_folds: int | None = None
) -> tuple[LeftOut, np.ndarray, np.ndarray]:
    """The observations in folds, and their outputs from fits to the other folds.

    The first outputs have equal factors and the C of ``evaluated``; the second have factors learned on the
    other folds and the given C.
    """
    folds, fit = replace(labels, left_out=in_folds(basis.points.observations, n_folds)), evaluated.fit
    groups = folds.observations
    if n_folds is None and evaluated.cross_fits is not None:  # with several classes, those of the choice of C
        equal, coordinates = evaluated.left_out, evaluated.cross_fits.swapaxes(0, 1)[:-1]
    else:
        equal, coordinates = cross_fit(basis, folds, fit)
    learned = np.empty_like(equal)
    for fold, v in enumerate(coordinates):
        held_out = np.asarray(groups.fold == fold)
        rest = folds.without(held_out)
        part = replace(evaluated, coef=basis.coefficients(v), fit=replace(fit, v=v, f=basis.outputs(v)))
        scaled = _scaled(basis, learned_factors(basis, rest, part, seed), seed)
        f = fit_likelihood(scaled, rest, C, near=part.fit.f, fresh=False, tol=1e-2).f
        learned[held_out] = f[groups.point[held_out]]
    return groups, equal, learned


def learned_factors(basis: Basis, labels: Labels, evaluated: EvaluatedFit, seed: int) -> np.ndarray:
    """The factor of each feature, given a fit on a label-free basis."""
    kernel = basis.points.kernel
    factors = _factors(mean_squared_derivatives(basis.points, evaluated.chosen, evaluated.coef), kernel)
    scaled = _scaled(basis, factors, seed)
    fit = fit_likelihood(scaled, labels, evaluated.C, near=evaluated.fit.f, fresh=False, tol=1e-2)
    squares = mean_squared_derivatives(scaled.points, scaled.chosen, scaled.coefficients(fit.v))
    return _factors(squares * factors**2, kernel)


def _scaled(basis: Basis, factors: np.ndarray, seed: int) -> Basis:
    """A label-free basis of the same size for features multiplied by factors."""
    points = replace(basis.points, X=basis.points.X * factors.astype(basis.points.X.dtype))
    return LabelFreeBases(points, np.random.default_rng(seed), basis.map_, (basis.size,))[0]


def mean_squared_derivatives(points: DistinctPoints, chosen: np.ndarray, coef: np.ndarray) -> np.ndarray:
    r"""Weighted mean over rows of the squared derivative in each feature, summed over the outputs.

    The derivative of :math:`\sum_b \beta_b k(x, z_b)` in feature j is
    :math:`-2\gamma \sum_b \beta_b k(x, z_b) (x_j - z_{bj})` for the rbf kernel and
    :math:`-\gamma \sum_b \beta_b k(x, z_b) \operatorname{sign}(x_j - z_{bj})` for the Laplacian. ``coef`` are
    the coefficients of the points ``chosen``.
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
    """Factors with a mean coefficient of 1: s_j for the Laplacian kernel, s_j^2 for rbf."""
    if not squares.any():
        return np.ones(len(squares))
    factors = (squares / squares.max()) ** SETTINGS.root
    power = 2 if kernel.name == "rbf" else 1
    return factors / (factors**power).mean() ** (1 / power)
