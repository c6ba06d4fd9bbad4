"""Approximate leave-one-out outputs (decision values) of models with two classes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from .basis import Basis, solve_symmetric
from .labels import Labels, LeftOut
from .newton import LikelihoodFit, ridge_of


@dataclass(frozen=True)
class LeaveOneOutSettings:
    """Settings that decide which observations need more than one Newton step, and limit these steps.

    An observation receives further steps if two conditions hold. First, its weight exceeds ``heavy`` times
    the mean weight, or it belongs to a rare class. Second, leaving it out changes its weighted loss by more
    than ``further_from`` times the total loss.
    """

    no_change: float = 1e-3  # an output is kept if its loss changes by less than this fraction of the mean
    heavy: float = 2.0  # an observation is heavy if its weight exceeds this multiple of the mean weight
    rare_observations: int = 60  # a rare class has fewer effective observations than this number, ...
    rare_fraction: float = 0.05  # ... has at most this fraction of the total weight, ...
    single: float = 1.5  # ... and has more effective observations than this number; see _in_rare_class
    further_from: float = 1e-2
    most_further: int = 64  # maximum number of observations with further steps
    further_steps: int = 8  # maximum number of further steps
    further_tol: float = 1e-2  # stop when the squared preconditioned gradient norm has fallen by this factor
    block_values: int = 2**22  # maximum number of outputs computed at once


SETTINGS = LeaveOneOutSettings()


def leave_one_out(basis: Basis, labels: Labels, fit: LikelihoodFit) -> np.ndarray:
    r"""Return an approximation of the output of every observation from the model fitted without it.

    Let r be the weight of an observation with the label t on point i. One Newton step from the model of all
    observations to the model without this observation gives

    .. math:: f_i + \frac{r (p_i - t)}{1 - r p_i (1 - p_i) s_i}\, s_i, \qquad
              s_i = \phi_i^\top H^{-1} \phi_i ,

    where H is the Newton matrix of all observations. If equal rows are copies of one observation, r is the
    total weight of the point.

    The step is too short if the curvature at neighbouring points decreases along it. This happens at points
    of large weight and in a rare class. The observations of these two kinds whose loss changes most therefore
    get further steps (:func:`_further_left_out`).

    An output is kept unchanged if leaving out the observation can hardly change its loss. The bound
    :math:`s_i \le C k(x_i, x_i)`, which holds for a model without an intercept, limits this change.

    References
    ----------
    Cawley and Talbot (2008), "Efficient approximate leave-one-out cross-validation for kernel logistic
    regression", Machine Learning 71, 243-264.
    """
    groups = labels.observations
    point, removed = groups.point, groups.removed
    f = fit.f[point]
    here = replace(groups, weight=removed).at(f)
    losses, slope, information = here.losses, here.slope, here.information
    total = float(groups.weight @ losses)
    curvature = max(float(labels.at(fit.f).information.sum()), 1e-300)
    most = fit.C * basis.points.diagonal()[point] + 1 / curvature
    considered = slope**2 * most > SETTINGS.no_change * removed * groups.mean(losses)[0]
    rows = np.zeros(len(fit.f), dtype=bool)
    rows[point[considered]] = True
    leverages = basis.leverages(fit.factor, rows, basis.precision_at(fit.C))
    s = np.where(considered, leverages[point], 0.0)
    loo = f + slope / np.maximum(1 - information * s, 1e-3) * s
    change = groups.weight * (groups.losses(loo) - losses)
    step_is_short = (removed > SETTINGS.heavy * removed.mean()) | _in_rare_class(groups)
    further = np.flatnonzero(step_is_short & (change > SETTINGS.further_from * total))
    further = np.sort(further[np.argsort(-change[further], kind="stable")[: SETTINGS.most_further]])
    at_once = max(SETTINGS.block_values // len(fit.f), 1)
    for first in range(0, len(further), at_once):
        out = further[first : first + at_once]
        with np.errstate(over="ignore", invalid="ignore"):
            moved = _further_left_out(basis, labels, fit, out)
        loo[out] = np.where(np.isfinite(moved), moved, loo[out])
    return loo


def _in_rare_class(groups: LeftOut) -> np.ndarray:
    """Return a mask of the observations that belong to a rare class.

    A rare class has few effective observations and a small fraction of the total weight. A class with fewer
    than 1.5 effective observations is excluded: leaving one out would remove the class, and the loss would be
    infinite.
    """
    rare = np.zeros(len(groups.weight), dtype=bool)
    for size, weight in zip(groups.class_sizes(), groups.by_class(), strict=True):
        few = SETTINGS.single < size < SETTINGS.rare_observations
        if few and weight.sum() <= SETTINGS.rare_fraction * groups.weight.sum():
            rare |= weight > 0
    return rare


def _further_left_out(basis: Basis, labels: Labels, fit: LikelihoodFit, out: np.ndarray) -> np.ndarray:
    r"""Return the output of each observation in ``out`` from a model fitted without that observation.

    The models are fitted by a few iterations. Let :math:`J_o` be the penalised negative log-likelihood
    without the observation o, with gradient g and Hessian :math:`H_o` in the coordinates v. Conjugate
    gradients (Polak and Ribière) minimise :math:`J_o`, starting from the model of all observations and
    preconditioned by its Newton matrix H:

    .. math:: z_k = H^{-1} g_k, \quad
              d_k = -z_k + \max\Bigl(0, \frac{z_k^\top (g_k - g_{k-1})}{z_{k-1}^\top g_{k-1}}\Bigr) d_{k-1},
              \quad v_{k+1} = v_k - \frac{g_k^\top d_k}{d_k^\top H_o(v_k)\, d_k}\, d_k .

    The first step is the Newton step of :func:`leave_one_out`. The arrays have one column for each
    observation. The iterations for all observations stop together when :math:`\sum_o z_k^\top g_k` has fallen
    by the factor ``further_tol``.
    """
    groups, columns, ridge = labels.observations, np.arange(len(out)), ridge_of(basis, fit.C)[:, None]
    points, removed = groups.point[out], groups.removed[out]
    positive, negative = (
        np.repeat((labels.weight * part)[:, None], len(out), axis=1)
        for part in (labels.target, 1 - labels.target)
    )
    positive[points, columns] = np.maximum(positive[points, columns] - removed * groups.target[out], 0.0)
    negative[points, columns] = np.maximum(
        negative[points, columns] - removed * (1 - groups.target[out]), 0.0
    )
    V, F = (np.repeat(start[:, None], len(out), axis=1) for start in (fit.v, fit.f))
    direction, last, size, near = 0.0 * V, 0.0 * V, np.ones(len(out)), 0.0
    for _ in range(SETTINGS.further_steps):
        P, Q = expit(F), expit(-F)
        gradient = basis.project(negative * P - positive * Q) + ridge * V
        z = solve_symmetric(fit.factor, gradient)
        direction = np.maximum((z * (gradient - last)).sum(axis=0) / size, 0.0) * direction - z
        last, size = gradient, np.maximum((z * gradient).sum(axis=0), np.finfo(float).tiny)
        near = near or SETTINGS.further_tol * size.sum()
        if size.sum() <= near:
            break
        along = basis.outputs(direction)
        first = (gradient * direction).sum(axis=0)
        second = (ridge * direction**2).sum(axis=0) + ((positive + negative) * P * Q * along**2).sum(axis=0)
        # A lower bound on the curvature, so that no output changes by more than 1e10
        least = 1e-10 * np.abs(first) * np.abs(along).max(axis=0)
        length = -first / np.maximum(np.maximum(second, least), np.finfo(float).tiny)
        V, F = V + length * direction, F + length * along
    return F[points, columns]
