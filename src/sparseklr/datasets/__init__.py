"""Benchmark data: the twelve sets of the paper's Table 1, and Breiman's three generators.

:func:`load_benchmark` looks for a set in a directory, in installed packages and on OpenML, and checks what it
finds against :data:`BENCHMARKS`. :func:`make_twonorm`, :func:`make_ringnorm` and :func:`make_waveform` draw
fresh samples of any size.
"""

from .benchmarks import BENCHMARKS, Benchmark, DatasetNotFoundError, load_benchmark
from .generators import make_ringnorm, make_twonorm, make_waveform

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "DatasetNotFoundError",
    "load_benchmark",
    "make_ringnorm",
    "make_twonorm",
    "make_waveform",
]
