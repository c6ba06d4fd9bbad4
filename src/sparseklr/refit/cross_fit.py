r"""Cross-fitted outputs of several classes, which replace leave-one-out.

One Newton step per observation needs the matrix of all classes, whose size is the product of the numbers of
points and classes. With one matrix for each class instead (:mod:`~.newton`), leave-one-out is far too
optimistic if there are many classes (docs/design/refit.md). So the observations are divided into folds, and
the outputs of each fold come from a likelihood fitted without it. These fits are cheap: they share the
preconditioner of the fit to all observations, and start from the fits of the same fold with a neighbouring
C, which have not seen its labels either.
"""

from __future__ import annotations

import numpy as np

from .basis import Basis
from .labels import Labels
from .newton import LikelihoodFit, embedded, fit_likelihood


def cross_fit(
    basis: Basis, labels: Labels, fit: LikelihoodFit, starts: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of all observations from fits without their fold, and the coordinates of these fits.

    ``starts`` are such coordinates for another C, in this basis or in a smaller one whose points come first
    in this one.
    """
    groups = labels.observations
    assert groups.fold is not None
    n_folds = int(groups.fold.max()) + 1

    def without(fold: int) -> np.ndarray:
        held_out = np.asarray(groups.fold == fold)
        rest = labels.without(held_out)
        start = np.zeros_like(fit.v) if starts is None else embedded(starts[fold], basis)
        part = fit_likelihood(basis, rest, fit.C, start, curvature=fit.curvature, fresh=False, tol=1e-2)
        left_out[held_out] = part.f[groups.point[held_out]]
        return part.v

    left_out = np.empty((len(groups.weight), *labels.target.shape[1:]))
    return left_out, np.stack([without(fold) for fold in range(n_folds)])
