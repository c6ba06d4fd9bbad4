r"""Cross-fitted outputs: the outputs of each fold come from a model fitted to the other folds.

With several classes they replace leave-one-out, which takes one Newton step per observation. Each step needs
the Newton matrix of all classes together, whose order is the number of points times the number of classes.
With one matrix for each class instead, leave-one-out is far too optimistic if there are many classes
(docs/design/refit.md).

With several classes, the fits that leave out one fold each and the fit to all observations share the basis
and the preconditioners, and are computed together: one product with the features serves all of them. They
start from outputs that depend on the labels of each fit only, or from the same fits with a neighbouring C; a
start that depends on all labels would make the estimates too optimistic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .basis import Basis
from .labels import Labels
from .newton import LikelihoodFit, embedded, fit_likelihood


@dataclass(frozen=True)
class CrossFitSettings:
    """Limits of cross-fits."""

    # Outputs (points times classes times fits) up to which fits are computed at once; it bounds the memory.
    most_outputs: int = 4_000_000


SETTINGS = CrossFitSettings()


def cross_fit(basis: Basis, labels: Labels, fit: LikelihoodFit) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of all observations from fits without their fold, and the coordinates of the fits.

    With two classes, the fits use the preconditioner of the fit to all observations. The first axis of the
    coordinates has the folds.
    """
    groups = labels.observations
    assert groups.fold is not None
    if labels.several:
        f, v = _fits(basis, labels.cross_fits.problems(slice(-1)), fit.C, None, 1e-2)
        return f[groups.point, groups.fold], v.swapaxes(0, 1)
    n_folds = int(groups.fold.max()) + 1

    def without(fold: int) -> np.ndarray:
        held_out = np.asarray(groups.fold == fold)
        rest = labels.without(held_out)
        part = fit_likelihood(basis, rest, fit.C, curvature=fit.curvature, fresh=False, tol=1e-2)
        left_out[held_out] = part.f[groups.point[held_out]]
        return part.v

    left_out = np.empty(len(groups.weight))
    return left_out, np.stack([without(fold) for fold in range(n_folds)])


def joint_cross_fit(
    basis: Basis, labels: Labels, C: float, starts: np.ndarray | None, tol: float = 1e-2
) -> tuple[LikelihoodFit, np.ndarray, np.ndarray]:
    """The fit of several classes, outputs from fits without a fold, and the coordinates of all fits.

    The coordinates have the shape (size + 1, n_folds + 1, n_classes); the last fit is that to all
    observations. ``starts`` are such coordinates for another C, in this basis or in a smaller one whose
    points come first in this one.
    """
    groups = labels.observations
    f, v = _fits(basis, labels.cross_fits, C, None if starts is None else embedded(starts, basis), tol)
    return LikelihoodFit(v[:, -1], f[:, -1], C), f[groups.point, groups.fold], v


def _fits(
    basis: Basis, problems: Labels, C: float, starts: np.ndarray | None, tol: float
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and coordinates of problems of several classes, as many at once as memory allows."""
    n, n_fits, n_classes = problems.target.shape
    at_once = max(1, SETTINGS.most_outputs // (n * n_classes))
    f, v = np.empty((n, n_fits, n_classes)), np.empty((basis.size + 1, n_fits, n_classes))
    for first in range(0, n_fits, at_once):
        some = slice(first, first + at_once)
        part = problems.problems(some)
        start, near = (None, part.guess()) if starts is None else (starts[:, some], None)
        found = fit_likelihood(basis, part, C, start, near=near, fresh=False, tol=tol)
        f[:, some], v[:, some] = found.f, found.v
    return f, v
