"""What the solutions of a fit are warned of."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import ConvergenceWarning

from .._warn import warn
from ..dual.binary import BinarySolutions
from ..dual.solver import Settings


def warn_of_solutions(solved: BinarySolutions, settings: Settings, *, kernel: Any, nu: float | None) -> None:
    """Warn of a nu that has no margin, a kernel that is not one, and a solver that has not converged."""
    if nu is not None:
        solved.warn_of_small_nu(float(nu), settings.tol)
    if solved.indefinite:
        warn(
            f"kernel={kernel!r} is not positive semidefinite on this data: the fit is a stationary point, "
            "not certainly the optimum."
        )
    if not solved.converged:
        n_iter = sum(solution.n_iter for solution in solved.solutions)
        asked = settings.tolerance(float(solved.margins.max()))
        warn(
            f"The solver stopped after {n_iter} pair steps with a KKT violation of "
            f"{solved.kkt_violation:.3g} (asked for: {asked:.3g}). Raise max_iter or tol, scale the "
            "features, or fit again with warm_start=True to go on.",
            ConvergenceWarning,
        )
