"""The dual problem of sparse kernel logistic regression: its objective and its optimality (:mod:`problem`),
its solution by the compiled core (:mod:`solver`), for a given sum of the variables (:mod:`nu`), for every
class of a training set (:mod:`binary`) and along whole grids (:mod:`path`), and what is known of its
solutions beforehand (:mod:`theory`).
"""

from .binary import BinarySolver
from .nu import lam_for_nu, nu_bar
from .path import KLRPath, PathInterrupted, solve_grid
from .problem import DualProblem
from .solver import Settings, Solution, SolveInterrupted, Status, solve_dual
from .theory import alpha_sums, nu_limit, paper_saturation_bound, rho, saturation_bound

__all__ = [
    "BinarySolver",
    "DualProblem",
    "KLRPath",
    "PathInterrupted",
    "Settings",
    "Solution",
    "SolveInterrupted",
    "Status",
    "alpha_sums",
    "lam_for_nu",
    "nu_bar",
    "nu_limit",
    "paper_saturation_bound",
    "rho",
    "saturation_bound",
    "solve_dual",
    "solve_grid",
]
