"""Approximate leave-one-out outputs of a penalised likelihood."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from .basis import Basis, solve_symmetric
from .labels import Labels, LeftOut
from .newton import LikelihoodFit, ridge_of


@dataclass(frozen=True)
class LeaveOneOutSettings:
    """Which observations need more than one step, and how many steps they get."""

    no_change: float = 1e-3  # keep the output if the loss changes by less than this fraction of the mean
    heavy: float = 2.0  # observations heavier than this multiple of the mean need further steps ...
    rare_observations: int = 60  # ... and so do those of a class with fewer observations than this ...
    rare_fraction: float = 0.05  # ... and at most this fraction of the weight, ...
    single: float = 1.5  # (with fewer than this, leaving one out removes the class: the loss is infinite)
    further_from: float = 1e-2  # ... if their loss changes by this fraction of the total loss
    most_further: int = 64  # maximum number of observations with further steps
    further_steps: int = 8  # maximum number of further steps
    further_tol: float = 1e-2  # stop when the squared preconditioned gradient norm has fallen by this factor
    block_values: int = 2**22  # number of outputs computed at once


SETTINGS = LeaveOneOutSettings()


def leave_one_out(basis: Basis, labels: Labels, fit: LikelihoodFit) -> np.ndarray:
    r"""Approximate output of every observation from the model fitted without it.

    One Newton step from the full fit, with the weight r of the observation removed from its point i, gives

    .. math:: f_i + \frac{r (p_i - t)}{1 - r p_i (1 - p_i) s_i}\, s_i, \qquad
              s_i = \phi_i^\top H^{-1} \phi_i ,

    where H is the Newton matrix of the full fit. If equal rows are copies, r is all the weight of the point.

    The step is too short if neighbouring points lose curvature along it, which happens at points of large
    weight and in a rare class. The observations among them whose loss changes most get further steps
    (:func:`_further_left_out`).

    Observations that are fitted so well that leaving them out cannot matter keep their output: without an
    intercept :math:`s_i \le C k(x_i, x_i)`, which bounds the change of their loss.

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
    s = np.where(considered, basis.leverages(fit.factor, rows)[point], 0.0)
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
    """Which observations belong to a class of few observations with a small fraction of the weight."""
    rare = np.zeros(len(groups.weight), dtype=bool)
    for size, weight in zip(groups.class_sizes(), groups.by_class(), strict=True):
        few = SETTINGS.single < size < SETTINGS.rare_observations
        if few and weight.sum() <= SETTINGS.rare_fraction * groups.weight.sum():
            rare |= weight > 0
    return rare


def _further_left_out(basis: Basis, labels: Labels, fit: LikelihoodFit, out: np.ndarray) -> np.ndarray:
    r"""Outputs of the observations ``out``, each from a model that is nearly the one fitted without it.

    Let :math:`J_o` be the penalised likelihood without the observation o, with gradient g and Hessian
    :math:`H_o` in the coordinates v. Conjugate gradients (Polak and Ribière) minimise :math:`J_o` from the
    full fit, preconditioned by the Newton matrix H of that fit:

    .. math:: z_k = H^{-1} g_k, \quad
              d_k = -z_k + \max\Bigl(0, \frac{z_k^\top (g_k - g_{k-1})}{z_{k-1}^\top g_{k-1}}\Bigr) d_{k-1},
              \quad v_{k+1} = v_k - \frac{g_k^\top d_k}{d_k^\top H_o(v_k)\, d_k}\, d_k .

    The first step is that of :func:`leave_one_out`. Each observation is a column of the arrays; all stop
    together when :math:`\sum_o z_k^\top g_k` has fallen by the factor ``further_tol``.
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
        # A lower bound on the curvature: no output moves by more than 1e10.
        least = 1e-10 * np.abs(first) * np.abs(along).max(axis=0)
        length = -first / np.maximum(np.maximum(second, least), np.finfo(float).tiny)
        V, F = V + length * direction, F + length * along
    return F[points, columns]
