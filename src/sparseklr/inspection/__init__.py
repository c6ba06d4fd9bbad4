"""Inspect fitted classifiers, of this package and others.

:mod:`metrics` evaluates probabilities, :mod:`reliability` draws the reliability diagram and writes a
report, :mod:`accuracy_sparsity` plots the score against the number of points, :mod:`prototypes` shows the
points and features of a model, and :mod:`explanation` and :mod:`shapley` show the contributions of points and
features to a prediction. :mod:`decision_curve` compares the benefit of decisions. matplotlib (extra
``sparseklr[plots]``) is loaded only for drawing.
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
