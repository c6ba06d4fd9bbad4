"""The refit of a classifier: from the points that it has selected to its coefficients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._warn import warn
from ..data import DistinctPoints, TrainingSet
from ..dual.solver import Solution
from ..probability.refit import (
    Refit,
    Strength,
    class_fractions,
    left_out_outputs,
    losses_of,
    refit_outputs,
)
from ..probability.slope import Line
from ..probability.soundness import Losses, remedy
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
        selected = [np.unique(point_of_row[solution.support]) for solution in solutions]
        models, losses = self._sound(points, selected, strengths, seed)
        if losses.nothing_found:
            outcome = "with this C_refit"
            if min(points.observations_by_class()) < 2:  # without which it cannot be estimated
                outcome = "but of a class with a single observation no estimate is possible"
            elif self.C_refit == "alo":
                models = class_fractions(points, models)
                outcome = "so the model is the class fractions"
            warn(
                f"{type(self).__name__} found no signal: its leave-one-out log-loss of {losses.estimate:.4g} "
                f"is not below that of the class fractions, {losses.fractions:.4g}, {outcome}. "
                + remedy(
                    None if rows.kernel.precomputed else rows.X, getattr(self, "feature_names_in_", None)
                )
            )
        coef = np.zeros((len(models), len(data.codes)))
        for k, model in enumerate(models):
            coef[k, np.searchsorted(point_of_row, model.points)] = model.coef
        self._set_model(data, coef, np.array([model.intercept for model in models]))
        self.C_refit_ = np.array([model.C for model in models])
        self.slope_refit_ = np.array([model.slope for model in models])
        self._set_posteriors(points, models)
        self.n_observations_ = int(points.observations.count.sum())
        loo = left_out_outputs(models)
        self.loo_log_loss_ = losses_of(points, models).estimate
        self.loo_decision_function_ = rows.in_given_rows(loo[points.observation_of_row(rows.codes)])

    def _sound(
        self,
        points: DistinctPoints,
        selected: list[np.ndarray],
        strengths: list[Strength] | None,
        seed: int,
    ) -> tuple[list[Refit], Losses]:
        """The refitted models and their losses; without line and pruning if training rows fit too badly."""

        def fitted(strengths: list[Strength] | None, prune_within: float) -> tuple[list[Refit], Losses]:
            models = refit_outputs(
                points,
                selected,
                C=self.C_refit,
                strengths=strengths,
                prune_within=prune_within,
                rng=np.random.default_rng(seed),
                n_jobs=self.n_jobs,
                show=bool(self.verbose),
            )
            return models, losses_of(points, models)

        models, losses = fitted(strengths, prune_width(self.prune))
        if losses.training_is_worse:
            plain = fitted([replace(model.strength, line=Line()) for model in models], 0.0)
            if plain[1].training < losses.training:
                models, losses = plain
        if losses.training_is_worse and not losses.nothing_found:
            warn(
                f"The log-loss on the training rows, {losses.training:.4g}, is above the leave-one-out "
                f"estimate, {losses.estimate:.4g}: the selected points do not suffice. "
                "Another gamma or a larger C selects others."
            )
        return models, losses
