"""The refit of SparseKLR: a penalised likelihood on the selected points.

:mod:`labels` defines labels and losses, :mod:`basis` the span of the kernel functions of a few points.
:mod:`newton` fits the likelihood, and :mod:`leave_one_out` approximates its leave-one-out outputs; with more
than two classes :mod:`cross_fit` replaces these. :mod:`recalibration` undoes shrinkage,
:mod:`regularisation` chooses C, :mod:`kernel_search` the kernel and :mod:`relevance` a width for each
feature. :mod:`copies` decides whether equal rows are copies of one observation. :mod:`refit` combines these
steps, and :mod:`prune` drops points. :mod:`posterior` computes posterior variances and familiarity.
:mod:`calibration` and :mod:`softmax_calibration` map the outputs of :class:`~sparseklr.SKLR` to
probabilities.
"""
