"""Looking at fitted classifiers, those of this package and others: measures of their probabilities
(:mod:`metrics`), the reliability diagram, a report with both, the picture of score against sparsity, the
points (:mod:`prototypes`) and features (:mod:`relevance`) of a model, and what speaks for and against a
prediction (:mod:`explanation`). matplotlib (extra ``sparseklr[plots]``) is loaded only when something is
drawn.
"""

from .accuracy_sparsity import AccuracySparsityDisplay
from .explanation import ExplanationDisplay
from .metrics import expected_calibration_error
from .probability_report import ProbabilityReport, probability_report
from .prototypes import PrototypesDisplay
from .relevance import RelevanceDisplay
from .reliability import ReliabilityDisplay

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
