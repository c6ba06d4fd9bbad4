"""Types of the compiled core."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

instruction_set: str

class KernelKind(Enum):
    linear = ...
    poly = ...
    rbf = ...
    laplacian = ...
    sigmoid = ...

class WorkingSet(Enum):
    first_order = ...
    second_order = ...
    mixed = ...

class Status(Enum):
    optimal = ...
    max_iter = ...
    interrupted = ...
    stalled = ...

class Kernel:
    def __init__(self, kind: KernelKind, gamma: float, coef0: float, degree: float) -> None: ...
    @property
    def kind(self) -> KernelKind: ...
    @property
    def gamma(self) -> float: ...

class NonFiniteKernel(ValueError):
    kernel: Kernel | None  # None for a callable
    row: int

class Settings:
    def __init__(
        self, working_set: WorkingSet, tol: float, max_iter: int, threads: int, poll_seconds: float
    ) -> None: ...

class Snapshot:
    n_iter: int
    violation: float
    seconds: float

class SolveInfo:
    status: Status
    n_iter: int
    violation: float
    upper: float
    lower: float
    min_curvature: float
    history: Sequence[Snapshot]

class PointSet:
    single: bool
    def __len__(self) -> int: ...

class RowSource:
    def __len__(self) -> int: ...

def gram_row_source(K: np.ndarray) -> RowSource: ...
def dense_points(X: np.ndarray, kernel: Kernel, center: np.ndarray | None, single: bool) -> PointSet: ...
def csr_points(
    values: np.ndarray,
    columns: np.ndarray,
    indptr: np.ndarray,
    n_features: int,
    kernel: Kernel,
    single: bool,
) -> PointSet: ...
def kernel_row_source(points: PointSet, cache_bytes: int) -> RowSource: ...
def kernel_matrix(data: PointSet, queries: PointSet, threads: int) -> np.ndarray: ...
def kernel_sum(
    data: PointSet, queries: PointSet, coef: np.ndarray, threads: int, first_row: int
) -> np.ndarray: ...
def affine_loss(
    f: np.ndarray, target: np.ndarray, weight: np.ndarray, a: float, b: float
) -> tuple[float, float, float, float, float, float]: ...
def sign_sums(X: np.ndarray, Z: np.ndarray, weight: np.ndarray, out: np.ndarray) -> None: ...
def cross_entropy(f: np.ndarray, target: np.ndarray, weight: np.ndarray, out: np.ndarray) -> float: ...
def eliminate(sigma: np.ndarray, beta: np.ndarray, gone: np.ndarray, V: np.ndarray) -> None: ...
def newton_step(
    blocks: Sequence[np.ndarray],
    L: np.ndarray | None,
    information: np.ndarray,
    ridge: np.ndarray,
    gradient: np.ndarray,
    factor: np.ndarray,
    reduction: float,
    most_products: int,
    step: np.ndarray,
    change: np.ndarray,
    threads: int,
) -> int: ...
def row_products(
    blocks: Sequence[np.ndarray], coef: np.ndarray, intercept: float, out: np.ndarray, threads: int
) -> None: ...
def weighted_row_sum(
    blocks: Sequence[np.ndarray], weight: np.ndarray, out: np.ndarray, threads: int
) -> None: ...
def row_sum(row_source: RowSource, coef: np.ndarray, threads: int) -> np.ndarray: ...
def solve_in_place(
    row_source: RowSource,
    y: np.ndarray,
    box: np.ndarray,
    bound: np.ndarray,
    lam: float,
    above: np.ndarray,
    F: np.ndarray,
    settings: Settings,
    callback: Callable[[Snapshot], Any] | None,
) -> SolveInfo: ...
def solve_softmax_in_place(
    row_source: RowSource,
    label: np.ndarray,
    box: np.ndarray,
    bound: np.ndarray,
    lam: float,
    above: np.ndarray,
    F: np.ndarray,
    intercept: np.ndarray,
    settings: Settings,
    gap_tol: float,
    callback: Callable[[Snapshot], Any] | None,
) -> SolveInfo: ...

class Curvature(Enum):
    none = ...
    diagonal = ...
    full = ...

def shapley_values(
    points: np.ndarray,
    coef: np.ndarray,
    group_start: np.ndarray,
    squared: bool,
    rows: np.ndarray,
    background: np.ndarray,
    weight: np.ndarray,
    interactions: bool,
    threads: int,
) -> tuple[np.ndarray, np.ndarray | None]: ...

class CompactRows:
    def __len__(self) -> int: ...
    def sums(
        self,
        points: np.ndarray,
        gamma: np.ndarray,
        coef: np.ndarray,
        intercept: np.ndarray,
        curvature: Curvature,
        moving: bool,
        threads: int,
    ) -> dict[str, Any]: ...
    def decision(
        self,
        points: np.ndarray,
        gamma: np.ndarray,
        coef: np.ndarray,
        intercept: np.ndarray,
        threads: int,
    ) -> np.ndarray: ...

def compact_rows(
    X: np.ndarray, label: np.ndarray, weight: np.ndarray, n_classes: int, single: bool
) -> CompactRows: ...

class InnerOutcome:
    value: float
    loss: float
    decrement: float
    steps: int
    products: int
    hessians: int
    converged: bool

class MoveOutcome:
    value: float
    iterations: int
    evaluations: int

class CompactInner:
    def __init__(self, rows: CompactRows, threads: int) -> None: ...
    def move(self, points: np.ndarray, gamma: np.ndarray) -> None: ...
    def solve(self, coef: np.ndarray, C: float, tol: float, max_steps: int) -> InnerOutcome: ...
    def gradient(self, C: float) -> tuple[np.ndarray, np.ndarray]: ...
    def descend(
        self,
        points: np.ndarray,
        log_gamma: np.ndarray,
        coef: np.ndarray,
        C: float,
        rho: float,
        tau: float,
        shared: bool,
        max_iter: int,
        tol: float,
        inner_tol: float,
        check: Callable[[], None] | None,
    ) -> MoveOutcome: ...
