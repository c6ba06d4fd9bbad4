"""Metrics and plots for fitted classifiers, from this package and from other packages.

A kernel model predicts with a weighted sum of kernel values between a new row and the *points* of the model:
training rows that it kept (SparseKLR), or fitted locations (CompactKLR).

- :mod:`metrics`: calibration errors of predicted probabilities
- :mod:`reliability`: reliability diagram, and a report on predicted probabilities
- :mod:`decision_curve`: net benefit of decisions based on predicted probabilities
- :mod:`prototypes`: points of a model
- :mod:`explanations`: contributions of points and of features to predictions

Plots need matplotlib (``pip install 'sparseklr[plots]'``), which is imported when the first plot is drawn.
"""

from .decision_curve import DecisionCurveDisplay
from .explanations import ExplanationDisplay, ShapleyDisplay
from .metrics import expected_calibration_error, smooth_calibration_error
from .prototypes import PrototypesDisplay
from .reliability import ProbabilityReport, ReliabilityDisplay, probability_report

__all__ = [
    "DecisionCurveDisplay",
    "ExplanationDisplay",
    "ProbabilityReport",
    "PrototypesDisplay",
    "ReliabilityDisplay",
    "ShapleyDisplay",
    "expected_calibration_error",
    "probability_report",
    "smooth_calibration_error",
]
