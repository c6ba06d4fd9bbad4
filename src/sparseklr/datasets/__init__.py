"""Synthetic classification data from distributions whose true class probabilities are known.

The functions ``make_...`` draw samples of any size. :func:`true_log_proba` computes the true class
probabilities.
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
