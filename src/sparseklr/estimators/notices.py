"""What the solutions of a fit are warned of."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import ConvergenceWarning

from .._warn import warn
from ..dual.binary import BinarySolutions
from ..dual.nu import reachable_sum
from ..dual.solver import Settings


def warn_of_solutions(solved: BinarySolutions, settings: Settings, *, kernel: Any, nu: float | None) -> None:
    """Warn of a nu that has no margin, a kernel that is not one, and a solver that has not converged."""
    if nu is not None:
        _warn_of_small_nu(solved, float(nu), settings.tol)
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


def _warn_of_small_nu(solved: BinarySolutions, nu: float, tol: float) -> None:
    """Say where no margin is small enough for nu, and what would be possible."""
    without = solved.margins == 0
    least = max((s.alpha.sum() for s, no in zip(solved.solutions, without, strict=True) if no), default=0.0)
    if least > nu * (1 + tol):
        n = len(solved.problems)
        which = "" if n == 1 else f" in {without.sum()} of the {n} binary problems"
        most = min(map(reachable_sum, solved.problems))
        warn(
            f"nu={nu:g} is too small for a margin{which}: with lam=0, which is used, the dual variables "
            f"add up to {least:g} already. Give a nu between that and {most:g}, or lam=0."
        )
