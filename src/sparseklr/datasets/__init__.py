"""Generators of samples from distributions with known class probabilities.

:mod:`generators` draws samples of any size and computes the true probabilities from the densities.
"""

from .generators import (
    expected_log_loss,
    make_clusters,
    make_ringnorm,
    make_twonorm,
    make_waveform,
    true_log_proba,
)

__all__ = [
    "expected_log_loss",
    "make_clusters",
    "make_ringnorm",
    "make_twonorm",
    "make_waveform",
    "true_log_proba",
]
