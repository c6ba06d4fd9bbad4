"""Sparse kernel logistic regression: few points kept, probabilities one can act on."""

from .classifier import SparseKLR
from .solver import Settings, Solution, SolveInterrupted, Status, solve_dual

__all__ = ["Settings", "Solution", "SolveInterrupted", "SparseKLR", "Status", "solve_dual"]
