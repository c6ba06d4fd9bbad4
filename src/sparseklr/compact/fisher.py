r"""All parameters of a compact model as one vector, and their Fisher information.

.. math:: G = \sum_i w_i\, \Phi_i^\top \bigl(\operatorname{diag} p_i - p_i p_i^\top\bigr) \Phi_i
    + \text{penalties},

where :math:`\Phi_i` is the derivative of the outputs of row i in all parameters. It is the Hessian of the
objective but for a term whose expectation is zero where the model is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from ..threads import ordered_threads
from .objective import RHO, TAU, CompactModel
from .rows import LabelledRows

# A feature matters to the place of a point if its width is at least this share of the largest. (Noise among
# 24 clusters has up to 0.023 of it; the least useful feature of the waveforms 0.065.)
MATTERS = 0.04
# Rows of the matrix product at once, and parts that are summed by threads of their own.
_CHUNK, _PARTS = 1024, 4


@dataclass(frozen=True, eq=False)
class Parameters:
    """A vector of all parameters: points, log-widths (one if shared), coefficients with intercepts."""

    k: int
    p: int
    n_outputs: int
    shared: bool

    @classmethod
    def of(cls, model: CompactModel, shared: bool) -> Parameters:
        k, p = model.points.shape
        return cls(k, p, len(model.coef), shared)

    @property
    def n_widths(self) -> int:
        return 1 if self.shared else self.p

    @property
    def size(self) -> int:
        return self.k * self.p + self.n_widths + self.n_outputs * (self.k + 1)

    def gradient(self, by_points: np.ndarray, by_widths: np.ndarray, by_coef: np.ndarray) -> np.ndarray:
        widths = by_widths.sum(keepdims=True) if self.shared else by_widths
        return np.concatenate([by_points.ravel(), widths, by_coef.ravel()])

    def moved(self, model: CompactModel, step: np.ndarray) -> CompactModel:
        a, b = self.k * self.p, self.k * self.p + self.n_widths
        return CompactModel(
            model.points + step[:a].reshape(self.k, self.p),
            model.log_gamma + step[a:b],
            model.coef + step[b:].reshape(self.n_outputs, self.k + 1),
        )

    def together(self, points: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Positions of some features of some points, of the widths and of all coefficients."""
        own = (points[:, None] * self.p + features).ravel()
        return np.concatenate([own, np.arange(self.k * self.p, self.size)])


def moving_features(gamma: np.ndarray) -> np.ndarray:
    """The features in which points move: where a width is small, it matters little where a point is.

    Of 20 features of which 14 are noise, six are left: the matrix of a step has a ninth of the entries.
    """
    return np.flatnonzero(gamma >= MATTERS * gamma.max())


def kernel_matrix(points: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """k(z_a, z_b) for all pairs of points."""
    scaled = (points - points.mean(axis=0)) * np.sqrt(gamma)
    norm = (scaled**2).sum(axis=1)
    return np.exp(-np.maximum(norm[:, None] + norm - 2 * scaled @ scaled.T, 0.0))


def fisher_information(
    rows: LabelledRows,
    model: CompactModel,
    C: float,
    points: np.ndarray,
    features: np.ndarray,
    *,
    shared: bool,
    n_jobs: int | None,
) -> np.ndarray:
    """G over some features of some points, the widths and all coefficients, from rows in random order.

    For several outputs each row gives one of the columns of a root of its matrix, in turn:
    diag(p) - pp' = AA' with A = diag(sqrt p) - p sqrt(p)'.
    """
    parameters = Parameters.of(model, shared)
    size = len(parameters.together(points, features))
    edges = [len(rows) * part // _PARTS for part in range(_PARTS + 1)]
    G = np.zeros((size, size))
    with ordered_threads(n_jobs) as run:
        for part in run(
            lambda k: _products(rows, edges[k], edges[k + 1], model, points, features, shared, size),
            range(_PARTS),
        ):
            G += part
    p, k = parameters.p, parameters.k
    n_own = len(points) * len(features)
    widths = slice(n_own, n_own + parameters.n_widths)
    G[widths, widths] += RHO if shared else TAU * np.eye(p) + (RHO / p - TAU) / p
    K = kernel_matrix(model.points, model.gamma) / C
    for start in range(widths.stop, size, k + 1):
        G[start : start + k, start : start + k] += K
    return G


def _products(
    rows: LabelledRows,
    first: int,
    last: int,
    model: CompactModel,
    points: np.ndarray,
    features: np.ndarray,
    shared: bool,
    size: int,
) -> np.ndarray:
    """The sum of the products of derivatives, float32."""
    gamma = model.gamma.astype(np.float32)
    root, Z = np.sqrt(gamma), model.points.astype(np.float32)
    scaled = Z * root
    norm = (scaled**2).sum(axis=1)
    beta, intercept = model.coef[:, :-1].astype(np.float32), model.coef[:, -1].astype(np.float32)
    m, k = beta.shape
    total, product = np.zeros((2, size, size), dtype=np.float32)
    n_own, n_widths = len(points) * len(features), 1 if shared else Z.shape[1]
    places = Z[np.ix_(points, features)]
    for start in range(first, last, _CHUNK):
        stop = min(start + _CHUNK, last)
        X = rows.X[start:stop].astype(np.float32, copy=False)
        A = X * root
        K = np.exp(-np.maximum((A**2).sum(axis=1)[:, None] + norm - 2 * A @ scaled.T, 0))
        factor = _root_of_curvature(K @ beta.T + intercept, rows.weight[start:stop], start)
        W = K * (factor @ beta)
        Phi = np.empty((stop - start, size), dtype=np.float32)
        own = Phi[:, :n_own].reshape(stop - start, len(points), len(features))
        np.subtract(X[:, None, features], places, out=own)
        own *= 2 * gamma[features]
        own *= W[:, points, None]
        by_widths = -gamma * (X**2 * W.sum(axis=1)[:, None] - 2 * X * (W @ Z) + W @ Z**2)
        Phi[:, n_own : n_own + n_widths] = by_widths.sum(axis=1, keepdims=True) if shared else by_widths
        by_coef = Phi[:, n_own + n_widths :].reshape(stop - start, m, k + 1)
        np.multiply(factor[:, :, None], K[:, None, :], out=by_coef[:, :, :-1])
        by_coef[:, :, -1] = factor
        # NumPy calls BLAS's syrk here and lets other threads run meanwhile, which SciPy's ssyrk does not
        total += np.matmul(Phi.T, Phi, out=product)
    return total


def _root_of_curvature(outputs: np.ndarray, weight: np.ndarray, start: int) -> np.ndarray:
    """A column of a root of every row's matrix of second derivatives, (n_rows, n_outputs)."""
    m = outputs.shape[1]
    if m == 1:
        p = expit(outputs)
        return np.sqrt(weight[:, None] * p * (1 - p)).astype(np.float32)
    p = softmax(outputs, axis=1)
    which = (start + np.arange(len(p))) % m
    mine = np.sqrt(p[np.arange(len(p)), which])
    column = -p * mine[:, None]
    column[np.arange(len(p)), which] += mine
    return (column * np.sqrt(m * weight)[:, None]).astype(np.float32)
