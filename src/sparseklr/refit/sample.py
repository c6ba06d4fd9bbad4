"""Large data sets: a model is fitted to a sample, and its coefficients are then refitted to all rows.

About ten thousand rows suffice to choose C and the basis points. With more rows, the time for these choices
grows faster than their accuracy. C is the variance of a prior, which does not depend on the number of rows,
so the C chosen on the sample is used for all rows. The final likelihood includes all rows. Rows outside the
sample do not influence the model that is fitted to the sample. The outputs of this model for these rows are
therefore predictions of unseen rows, and take the place of leave-one-out outputs.
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

    points: int = 10_000  # size of the sample; up to this number of points, all are used
    least_of_class: int = 1000  # minimum number of points of each class in the sample


SETTINGS = SampleSettings()


@dataclass(frozen=True, eq=False)
class SampledPoints:
    """A random sample of the training points, which depends only on row contents and a seed."""

    all: DistinctPoints  # all training points
    indices: np.ndarray  # indices of the sample in ``all``, ascending
    points: DistinctPoints  # the sample, with weights whose mean over its observations is 1

    @classmethod
    def of(cls, points: DistinctPoints, seed: int) -> SampledPoints:
        """Return a sample of the points.

        It contains all points if there are at most 10,000 of them, or if the kernel is precomputed.
        """
        if len(points) <= SETTINGS.points or points.kernel.precomputed:
            return cls(points, np.arange(len(points)), points)
        order = np.argsort(shuffled_keys(points.X, seed))
        indices = first_of_each_class(points.weight, order, SETTINGS.points, SETTINGS.least_of_class)
        return cls(points, indices, points.part(indices).relative())

    @property
    def whole(self) -> bool:
        """Whether the sample contains all points."""
        return self.points is self.all

    def refitted(self, model: Refit, n_jobs: int | None = None) -> Refit:
        """Return the model with its coefficients refitted to all rows by penalised maximum likelihood.

        ``model`` was fitted to the sample. The basis points and C stay the same.
        """
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
