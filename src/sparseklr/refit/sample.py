r"""Fits to many rows: a model is fitted to a sample, and its coefficients are refitted to all rows.

About ten thousand rows suffice to choose C, the basis and the points; beyond that, the time of these
choices would grow faster than their accuracy. C is the variance of the prior, which does not depend on the
number of rows. The final likelihood includes all rows. Rows outside the sample do not influence the model of
the sample, so its outputs for them are held-out predictions, which replace leave-one-out outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._utils.threads import ordered_threads
from ..samples import DistinctPoints, first_of_each_class, shuffled_keys
from .basis import Basis
from .labels import Labels
from .refit import Refit, class_fractions, finished, of_groups


@dataclass(frozen=True)
class SampleSettings:
    """Size of the sample."""

    points: int = 10_000  # up to this number, the sample has all points
    least_of_class: int = 1000  # smallest number of points of each class in the sample


SETTINGS = SampleSettings()


@dataclass(frozen=True, eq=False)
class SampledPoints:
    """A sample of points, determined by row contents and a seed."""

    all: DistinctPoints
    indices: np.ndarray  # of the sample, ascending
    points: DistinctPoints  # the sample, with relative weights

    @classmethod
    def of(cls, points: DistinctPoints, seed: int) -> SampledPoints:
        """All points if there are at most 10,000, or if the kernel is precomputed."""
        if len(points) <= SETTINGS.points or points.kernel.precomputed:
            return cls(points, np.arange(len(points)), points)
        order = np.argsort(shuffled_keys(points.X, seed))
        indices = first_of_each_class(points.weight, order, SETTINGS.points, SETTINGS.least_of_class)
        return cls(points, indices, points.part(indices).relative())

    @property
    def whole(self) -> bool:
        """Whether the sample has all points."""
        return self.points is self.all

    def refitted(self, model: Refit, n_jobs: int | None = None) -> Refit:
        """A model of the sample with coefficients that minimise the penalised likelihood of all points."""
        if not len(model.points):
            return class_fractions(self.all, model)
        evaluated, everything = model.evaluated, self.all
        labels = Labels.of_points(everything)
        pieces, groups = labels.observations, everything.observations
        coef = evaluated.coef.reshape(len(evaluated.chosen), -1)
        support = self.points.X[evaluated.chosen].astype(np.float64)
        outputs = everything.kernel.sum(everything.X, support, coef.T, n_jobs=n_jobs) + evaluated.fit.v[-1]
        left_out = outputs[groups.point]
        sampled = np.isin(groups.point, self.indices)
        left_out[sampled] = of_groups(Labels.of_points(self.points).observations, evaluated.left_out)
        left_out = left_out[:, 0] if pieces.group is None else left_out[pieces.group]
        losses = pieces.losses(evaluated.recalibration(left_out))
        fit = replace(evaluated.fit, f=outputs)
        evaluated = replace(evaluated, fit=fit, left_out=left_out, losses=losses, cross_fits=None)
        with ordered_threads(n_jobs) as map_:
            basis = Basis(everything, self.indices[model.points], model.L, map_)
            start = basis.coordinates(model.coef.T, model.intercept) / model.slope
            start = start if labels.several else start[:, 0]
            return finished(basis, labels, evaluated, start, None, model.slope)
