"""Benchmark data: the twelve sets of the paper's Table 1, and generators with known densities.

:func:`load_benchmark` looks for a set in a directory, in installed packages and on OpenML, and checks what it
finds against :data:`BENCHMARKS`. :func:`make_twonorm`, :func:`make_ringnorm`, :func:`make_waveform` and
:func:`make_clusters` draw fresh samples of any size; :func:`true_log_proba` knows their true probabilities.
"""

from .benchmarks import BENCHMARKS, Benchmark, DatasetNotFoundError, load_benchmark
from .densities import expected_log_loss, true_log_proba
from .generators import make_clusters, make_ringnorm, make_twonorm, make_waveform

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "DatasetNotFoundError",
    "expected_log_loss",
    "load_benchmark",
    "make_clusters",
    "make_ringnorm",
    "make_twonorm",
    "make_waveform",
    "true_log_proba",
]
