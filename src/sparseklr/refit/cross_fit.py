r"""Cross-fitted outputs: decision values of each fold from a model fitted to the other folds.

With more than two classes, cross-fitted outputs replace leave-one-out outputs. Approximate leave-one-out
takes one Newton step per observation, and each step needs the Newton matrix of all classes together. The
order of this matrix is the number of basis points times the number of classes. If one matrix for each class
is used instead, leave-one-out is far too optimistic with many classes (docs/design/refit.md).

For F folds, F + 1 models are fitted together: for each fold, one model without its observations, and one
model of all observations. They share the basis and the preconditioners, so one product with the features
serves all of them. The iterations start from outputs that depend only on the labels to which a model is
fitted, or from the models of the same folds with a neighbouring C. A start that depends on all labels would
make the estimates too optimistic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .basis import Basis
from .labels import Labels
from .newton import LikelihoodFit, embedded, fit_likelihood


@dataclass(frozen=True)
class CrossFitSettings:
    """Memory limit of a cross-fit."""

    # Largest number of outputs (points times classes times models) computed at once; it bounds the memory.
    most_outputs: int = 4_000_000


SETTINGS = CrossFitSettings()


def cross_fit(basis: Basis, labels: Labels, fit: LikelihoodFit) -> tuple[np.ndarray, np.ndarray]:
    """Return cross-fitted outputs of all observations, and the coordinates of the models.

    ``fit`` is the model of all observations. With two classes, the models without a fold are fitted one after
    the other, preconditioned by the Newton matrix of ``fit``. With more classes, they are fitted together.
    The coordinates have one entry for each fold along their first axis.
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
    """Return the model of all observations, cross-fitted outputs, and the coordinates of all models.

    The function is for more than two classes. The coordinates have the shape (basis.size + 1, n_folds + 1,
    n_classes); the last model along the second axis is the model of all observations. ``starts`` contains the
    coordinates that this function returned for another C. They may refer to a smaller basis if its points are
    the first points of ``basis``.
    """
    groups = labels.observations
    f, v = _fits(basis, labels.cross_fits, C, None if starts is None else embedded(starts, basis), tol)
    return LikelihoodFit(v[:, -1], f[:, -1], C), f[groups.point, groups.fold], v


def _fits(
    basis: Basis, problems: Labels, C: float, starts: np.ndarray | None, tol: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return outputs and coordinates of simultaneous problems with more than two classes.

    The problems are solved in groups whose size is limited by the memory.
    """
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
