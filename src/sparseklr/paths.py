r"""Paths: the solutions for a whole grid of (C, lam) for the price of a few.

One kernel matrix serves every solve. For each C the margins are visited in ascending order, and a
solve starts from what its predecessors foretell: :math:`\alpha(\lambda)` is smooth, so a polynomial
through the last few solutions comes close to the next one, and ``F = K (alpha * y)`` follows at no
cost because it is linear in alpha.

What was tried and left out (ring, 9 x 10 grid, tol 1e-5; in pair steps, cold: 1.72 million, this
order: 0.95): descending lam 1.04; bisecting the grid and interpolating 0.97; starting each C from
the last one 0.98 to 1.07; extrapolating f and starting from ``C sigmoid(lam - y f)`` 0.83, which a
product with the kernel matrix per solve makes no faster. Newton steps from there, with a pivoted
Cholesky preconditioner, cost what they save.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Event
from typing import Any, Literal

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning

from . import _core
from ._base import TrainingSet
from .classifier import SparseKLR
from .kernels import Kernel, cache_bytes, check_queries_precomputed
from .problem import DualProblem
from .progress import Progress
from .solver import Settings, Solution, Status, solve_rows
from .theory import saturation_bound
