"""The refit of a classifier: from the points that it has selected to its coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._warn import warn
from ..data import DistinctPoints, TrainingSet
from ..dual.solver import Solution
from ..probability.refit import Strength, leave_one_out_log_loss, refit_outputs
from .base import KernelClassifier
from .parameters import prune_width
from .uncertainty import TellsUncertainty


class Refits(TellsUncertainty, KernelClassifier):
    """Classifiers whose coefficients are fitted again, to the likelihood."""

    C_refit: Any
    prune: Any
    n_jobs: int | None
    verbose: int

    def _refit(
        self,
        rows: TrainingSet,
        data: TrainingSet,
        points: DistinctPoints,
        point_of_row: np.ndarray,
        solutions: list[Solution],
        strengths: list[Strength] | None,
        seed: int,
    ) -> None:
        """Fit the likelihood on what S-KLR selected from ``data``, the distinct ones of ``rows``."""
        if min(len(solution.support) for solution in solutions) < 2:
            warn(
                "Fewer than two points were selected: the refit is a constant probability. A smaller "
                "bound or another C or gamma selects more."
            )
        models = refit_outputs(
            points,
            [np.unique(point_of_row[solution.support]) for solution in solutions],
            C=self.C_refit,
            strengths=strengths,
            prune_within=prune_width(self.prune),
            rng=np.random.default_rng(seed),
            n_jobs=self.n_jobs,
            show=bool(self.verbose),
        )
        coef = np.zeros((len(models), len(data.codes)))
        for k, model in enumerate(models):
            coef[k, np.searchsorted(point_of_row, model.points)] = model.coef
        self._set_model(data, coef, np.array([model.intercept for model in models]))
        self.C_refit_ = np.array([model.C for model in models])
        self.slope_refit_ = np.array([model.slope for model in models])
        self._set_posteriors(points, models)
        loo = np.column_stack([model.loo for model in models])
        self.loo_log_loss_ = leave_one_out_log_loss(points, loo)
        self.loo_decision_function_ = rows.in_given_rows(loo[points.observation_of_row(rows.codes)])
