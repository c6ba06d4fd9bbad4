"""The refit of SparseKLR: a penalised likelihood on the selected points.

:mod:`labels` has the losses, :mod:`basis` spans points, :mod:`newton` fits the likelihood,
:mod:`leave_one_out` approximates its leave-one-out outputs, :mod:`cross_fit` replaces them for several
classes, :mod:`recalibration` undoes shrinkage, :mod:`regularisation` chooses C, :mod:`kernel_search` chooses
the kernel, :mod:`refit` combines these steps, :mod:`prune` drops points, :mod:`posterior` gives uncertainty
and familiarity, and :mod:`calibration` contains Platt's sigmoid.
"""
