"""The dual problem of S-KLR, sparse kernel logistic regression with a margin.

:mod:`problem` defines the objective and the optimality conditions. :mod:`smo` solves the problem with the
compiled core. :mod:`margins` relates the margin to the sum of the dual variables. :mod:`one_vs_rest` and
:mod:`softmax` treat more than two classes. :mod:`path` solves the problem for grids of (C, lam), and
:mod:`parts` selects points from large data sets.
"""

from .margins import lam_for_nu, nu_bar, saturation_bound, support_band
from .path import KLRPath
from .problem import DualProblem
from .smo import Settings, Solution, Status, solve_dual

__all__ = [
    "DualProblem",
    "KLRPath",
    "Settings",
    "Solution",
    "Status",
    "lam_for_nu",
    "nu_bar",
    "saturation_bound",
    "solve_dual",
    "support_band",
]
