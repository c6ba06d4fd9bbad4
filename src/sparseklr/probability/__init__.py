"""From a sparse model to probabilities: the span of some points (:mod:`basis`) and how they are drawn
(:mod:`pivots`), the logistic loss (:mod:`loss`), the penalised likelihood and its leave-one-out values
(:mod:`likelihood`), the refit of the kept points with the choice of its strength (:mod:`refit`) and of the
line that undoes its shrinkage (:mod:`slope`), their pruning (:mod:`prune`), the choice of the kernel and its
width (:mod:`width`), the sigmoid and the link of the margin loss (:mod:`calibration`; :mod:`cross_fit` makes
what the sigmoid is fitted to), and how uncertain (:mod:`uncertainty`) and how unlike the training rows
(:mod:`familiarity`) a row is.
"""

from .basis import Basis
from .calibration import link, log_probabilities, platt
from .likelihood import Labels, fit_likelihood, leave_one_out
from .loss import LogisticLoss, cross_entropies
from .pivots import LabelFreeBases
from .refit import choose_C
from .slope import fit_line

__all__ = [
    "Basis",
    "LabelFreeBases",
    "Labels",
    "LogisticLoss",
    "choose_C",
    "cross_entropies",
    "fit_likelihood",
    "fit_line",
    "leave_one_out",
    "link",
    "log_probabilities",
    "platt",
]
