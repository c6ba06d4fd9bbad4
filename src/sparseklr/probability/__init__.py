"""From a sparse model to probabilities: the penalised likelihood and its leave-one-out values
(:mod:`likelihood`), the refit of the kept points with the choice of its strength and their pruning
(:mod:`refit`), and the sigmoid and the link of the margin loss (:mod:`calibration`).
"""

from .calibration import content_folds, link, platt
from .likelihood import Span, cross_entropies, fit_likelihood, leave_one_out
from .refit import choose_C, label_free_span

__all__ = [
    "Span",
    "choose_C",
    "content_folds",
    "cross_entropies",
    "fit_likelihood",
    "label_free_span",
    "leave_one_out",
    "link",
    "platt",
]
