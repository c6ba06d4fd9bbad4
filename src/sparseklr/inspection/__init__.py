"""Inspection of fitted classifiers, of this package and others.

:mod:`metrics` measures probabilities, :mod:`reliability` draws the reliability diagram and writes a report,
:mod:`accuracy_sparsity` shows score against sparsity, :mod:`prototypes` the points and features of a model,
and :mod:`explanation` and :mod:`shapley` the contributions of points and features to a prediction.
:mod:`decision_curve` compares the benefit of decisions. matplotlib (extra ``sparseklr[plots]``) is loaded
only for drawing.
"""

from .accuracy_sparsity import AccuracySparsityDisplay
from .decision_curve import DecisionCurveDisplay
from .explanation import ExplanationDisplay
from .metrics import expected_calibration_error, smooth_calibration_error
from .prototypes import PrototypesDisplay, RelevanceDisplay
from .reliability import ProbabilityReport, ReliabilityDisplay, probability_report
from .shapley import ShapleyDisplay

__all__ = [
    "AccuracySparsityDisplay",
    "DecisionCurveDisplay",
    "ExplanationDisplay",
    "ProbabilityReport",
    "PrototypesDisplay",
    "RelevanceDisplay",
    "ReliabilityDisplay",
    "ShapleyDisplay",
    "expected_calibration_error",
    "probability_report",
    "smooth_calibration_error",
]
