"""Inspect fitted classifiers, of this package and others.

:mod:`metrics` evaluates probabilities, :mod:`reliability` draws the reliability diagram and writes a
report, :mod:`accuracy_sparsity` plots the score against the number of points, :mod:`prototypes` shows the
points and features of a model, and :mod:`explanation` the contributions to a prediction. matplotlib (extra
``sparseklr[plots]``) is loaded only for drawing.
"""

from .accuracy_sparsity import AccuracySparsityDisplay
from .explanation import ExplanationDisplay
from .metrics import expected_calibration_error
from .prototypes import PrototypesDisplay, RelevanceDisplay
from .reliability import ProbabilityReport, ReliabilityDisplay, probability_report

__all__ = [
    "AccuracySparsityDisplay",
    "ExplanationDisplay",
    "ProbabilityReport",
    "PrototypesDisplay",
    "RelevanceDisplay",
    "ReliabilityDisplay",
    "expected_calibration_error",
    "probability_report",
]
